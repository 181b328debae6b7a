"""The columns of ``kafkalog``: what Spark calls them, and which Arrow columns they are made of.

This is the one place that maps. Spark refuses batches whose Arrow schema is not exactly what it
would make of its own, so each column states both types, and a test holds them together.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kraftspec.fastpath.records import Compression
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.rows import ERROR_TYPE
from kraftspec.pipeline.source.options import OptionError, Options


class Column(NamedTuple):
    """A column: its name and type in Spark; which one of the core it is, and as what Arrow type."""

    name: str
    spark: DataType
    core: str
    arrow: Any


_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_ERROR: Final = StructType(
    [
        StructField("class", StringType()),
        StructField("file", StringType()),
        StructField("position", LongType()),
        StructField("size", LongType()),
        StructField("detail", StringType()),
    ]
)
_ARROW_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
# Names, types and order of spark-sql-kafka; all of them are nullable there, too.
_KAFKA: Final = (
    Column("key", BinaryType(), "key", pa.binary()),
    Column("value", BinaryType(), "value", pa.binary()),
    Column("topic", StringType(), "topic", pa.string()),
    Column("partition", IntegerType(), "partition", pa.int32()),
    Column("offset", LongType(), "offset", pa.int64()),
    Column("timestamp", TimestampType(), "timestamp", pa.timestamp("us", tz="UTC")),
    Column("timestampType", IntegerType(), "timestamp_type", pa.int32()),
)
_WITH_HEADERS: Final = (Column("headers", _HEADERS, "headers", _ARROW_HEADERS),)
_METADATA: Final = (
    Column("leaderEpoch", IntegerType(), "leader_epoch", pa.int32()),
    Column("producerId", LongType(), "producer_id", pa.int64()),
    Column("producerEpoch", ShortType(), "producer_epoch", pa.int16()),
    Column("sequence", IntegerType(), "sequence", pa.int32()),
    Column("isControl", BooleanType(), "is_control", pa.bool_()),
    Column("isTransactional", BooleanType(), "is_transactional", pa.bool_()),
    Column("compression", StringType(), "compression", pa.string()),
    Column("file", StringType(), "file", pa.string()),
    Column("batchPosition", LongType(), "position", pa.int64()),
)
_DAMAGE: Final = (
    Column("_corrupt_record", BinaryType(), "_corrupt_record", pa.binary()),
    Column("_error", _ERROR, "_error", ERROR_TYPE),
)
COLUMNS: Final = {column.name: column for column in (*_KAFKA, *_WITH_HEADERS, *_METADATA, *_DAMAGE)}


def table_schema(options: Options) -> StructType:
    """Return the columns of a table that nobody gave a schema for."""
    chosen = list(_KAFKA)
    if options.include_headers:
        chosen += _WITH_HEADERS
    if options.include_metadata:
        chosen += _METADATA
    if options.mode == "PERMISSIVE":
        chosen += _DAMAGE
    return StructType([StructField(column.name, column.spark) for column in chosen])


def chosen_columns(schema: StructType) -> list[Column]:
    """Return the columns that a schema asks for, by its names, in its order.

    Raises:
        OptionError: a column that is none, or has another type; it says which, and what is right.
    """
    return [_column(field) for field in schema.fields]


def _column(field: StructField) -> Column:
    column = COLUMNS.get(field.name)
    if column is None:
        raise OptionError(
            f"schema: kafkalog has no column {field.name}; it has {', '.join(COLUMNS)}"
        )
    # Whether nulls may come is not what the types differ in: Spark makes all of them nullable.
    if field.dataType.simpleString() != column.spark.simpleString():
        raise OptionError(
            f"schema: column {field.name} is {column.spark.simpleString()}, "
            f"not {field.dataType.simpleString()}; cast it after reading"
        )
    return column


_COMPRESSIONS: Final = pa.array([codec.name.lower() for codec in sorted(Compression)], pa.string())


def arrow_schema(schema: StructType) -> Any:
    """Return the ``pyarrow.Schema`` that Spark expects of batches for these columns."""
    return pa.schema(
        [
            pa.field(field.name, column.arrow, nullable=field.nullable)
            for field, column in zip(schema.fields, chosen_columns(schema), strict=True)
        ]
    )


class Converter:
    """Makes Spark's record batches of those of the Arrow core, and leaves control records out."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.columns = chosen_columns(schema)
        self.schema = arrow_schema(schema)
        self._drops_control = not options.include_control
        asked = [column.core for column in self.columns]
        if self._drops_control and "is_control" not in asked:
            asked.append("is_control")
        # What the core is asked for.
        self.core = tuple(dict.fromkeys(asked))

    def convert(self, batch: Any, report: Report) -> Any:
        """Return the batch that Spark wants, None when it would have no rows."""
        if self._drops_control:
            control = batch.column("is_control").true_count
            if control:
                report.rows -= control
                report.control_rows += control
                batch = batch.filter(pc.invert(batch.column("is_control").fill_null(False)))
        if not batch.num_rows:
            return None
        if not self.columns:  # Rows without columns have a number all the same.
            return batch.select([])
        arrays = [_array(batch.column(column.core), column.arrow) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(array: Any, wanted: Any) -> Any:
    if array.type == wanted:
        return array
    if wanted == pa.string():
        return pc.take(_COMPRESSIONS, array)
    return array.cast(wanted)
