"""The columns of ``kafkalog``: their names in Spark, and their Arrow columns.

This is the one place that maps. Spark refuses batches whose Arrow schema is not exactly what it
would make of its own, so columns state both types, and tests hold them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
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
from kraftspec.pipeline.filters import FILTER_COLUMNS
from kraftspec.pipeline.metadata.records import MetadataDecoder, metadata_schema
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.rows import ERROR_TYPE, Mode
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


_COMPRESSIONS: Final = pa.array([codec.name.lower() for codec in sorted(Compression)], pa.string())


def spark_schema(options: Options) -> StructType:
    """Return the columns of a query without a schema."""
    if options.decode == "metadata":
        return _metadata_schema(options)
    chosen = list(_KAFKA)
    if options.include_headers:
        chosen += _WITH_HEADERS
    if options.include_metadata:
        chosen += _METADATA
    if options.mode == "PERMISSIVE":
        chosen += _DAMAGE
    return StructType([StructField(column.name, column.spark) for column in chosen])


class Converter(Protocol):
    """Makes the record batches that Spark wants of those of the Arrow core. It pickles."""

    core: tuple[str, ...]  # The columns that it asks of the core.
    mode: Mode
    # Which columns can be filtered before they are converted, and their names in the core.
    filterable: ClassVar[Mapping[str, str]]

    def convert(self, batch: Any, report: Report) -> Any:
        """Return the batch that Spark wants, None when it would have no rows."""


def converter_of(options: Options, schema: StructType) -> Converter:
    """Return what makes a schema's batches.

    Raises:
        OptionError: a column does not exist or has another type; it names the column and the type.
    """
    if options.decode == "metadata":
        return _MetadataConverter(options, schema)
    return _TableConverter(options, schema)


def _check(schema: StructType, known: Mapping[str, DataType]) -> None:
    """Refuse columns that are none; their names are of any case, as Spark's are by default."""
    names: set[str] = set()
    of_any_case = {name.lower(): expected for name, expected in known.items()}
    for field in schema.fields:
        expected = of_any_case.get(field.name.lower())
        if field.name.lower() in names:
            raise OptionError(f"schema: column {field.name} is there twice")
        names.add(field.name.lower())
        if expected is None:
            has = ", ".join(known)
            raise OptionError(f"schema: kafkalog has no column {field.name}; it has {has}")
        # Whether nulls may come is not what types differ in: Spark makes all of them nullable.
        if field.dataType.simpleString() != expected.simpleString():
            raise OptionError(
                f"schema: column {field.name} is {expected.simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it after reading"
            )


class _TableConverter:
    """Records as rows; control records are left out unless an option includes them."""

    filterable: ClassVar[Mapping[str, str]] = {
        column.name: column.core
        for column in COLUMNS.values()
        if column.core in FILTER_COLUMNS
        and column.arrow != pa.bool_()
        and column.core != "compression"
    }

    def __init__(self, options: Options, schema: StructType) -> None:
        _check(schema, {column.name: column.spark for column in COLUMNS.values()})
        self.mode = options.mode
        of_any_case = {name.lower(): column for name, column in COLUMNS.items()}
        self.columns = [of_any_case[field.name.lower()] for field in schema.fields]
        self.schema = pa.schema(
            [
                pa.field(field.name, column.arrow, nullable=field.nullable)
                for field, column in zip(schema.fields, self.columns, strict=True)
            ]
        )
        self._drops_control = not options.include_control
        names = [column.core for column in self.columns]
        self.core = tuple(dict.fromkeys([*names, *["is_control"] * self._drops_control]))

    def convert(self, batch: Any, report: Report) -> Any:
        if self._drops_control:
            is_control = batch.column("is_control")
            if count := is_control.true_count:
                report.rows -= count
                report.control_rows += count
                batch = batch.filter(pc.invert(is_control.fill_null(False)))
        if not batch.num_rows:
            return None
        if not self.columns:  # Rows without columns still have a count.
            return batch.select([])
        arrays = [_array(batch.column(column.core), column.arrow) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(array: Any, type_: Any) -> Any:
    if array.type == type_:
        return array
    if type_ == pa.string():
        return pc.take(_COMPRESSIONS, array)
    return array.cast(type_)


def _metadata_schema(options: Options) -> StructType:
    try:
        schema = metadata_schema(None, options.mode, record_type=options.record_type)
    except ValueError as error:
        raise OptionError(f"option recordType: {error}") from None
    return from_arrow_schema(schema)


class _MetadataConverter:
    """Records of the metadata log, decoded."""

    filterable: ClassVar[Mapping[str, str]] = {
        "offset": "offset",
        "epoch": "leader_epoch",
        "timestamp": "timestamp",
        "position": "position",
        "file": "file",
    }

    def __init__(self, options: Options, schema: StructType) -> None:
        every = _metadata_schema(replace(options, mode="PERMISSIVE"))
        _check(schema, {field.name: field.dataType for field in every.fields})
        known = {name.lower(): name for name in every.fieldNames()}
        self._names = schema.fieldNames()
        names = [known[name.lower()] for name in self._names]
        shows_damage = not {"_error", "_corrupt_record"}.isdisjoint(names)
        # What no column shows is counted, and not a row of nulls.
        self.mode = (
            "DROPMALFORMED" if options.mode == "PERMISSIVE" and not shows_damage else options.mode
        )
        self._decoder = MetadataDecoder(names, self.mode, record_type=options.record_type)
        self.core = self._decoder.source_columns

    def convert(self, batch: Any, report: Report) -> Any:
        decoded = self._decoder.decode(batch, report)
        return decoded.rename_columns(self._names) if decoded.num_rows else None
