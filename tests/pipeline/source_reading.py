"""The data source without a JVM: what Spark does with it, call by call, pickling included."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from kraftspec.pipeline.source.batch import BatchReader, FilteringReader
from kraftspec.pipeline.source.data_source import KafkaLog
from kraftspec.pipeline.source.stream import StreamReader

Row = dict[str, Any]
_Reader = TypeVar("_Reader")


def source(path: Path, options: Mapping[str, Any]) -> KafkaLog:
    return KafkaLog({"path": str(path), **{name: str(value) for name, value in options.items()}})


def fields(*names: str, source_: KafkaLog | None = None) -> StructType:
    """Return the schema of these columns, as a user would give it."""
    every = source_ or KafkaLog({"path": "x", "includeHeaders": "true", "includeMetadata": "true"})
    known = every.schema()
    return StructType([known[name] for name in names])


def plan(
    path: Path,
    schema: StructType | None = None,
    filters: Sequence[Filter] = (),
    **options: Any,
) -> tuple[BatchReader, list[Any], list[Filter]]:
    """Return the reader of a table, its tasks, and the filters that it leaves to Spark."""
    source_ = source(path, options)
    reader = source_.reader(schema if schema is not None else source_.schema())
    assert isinstance(reader, BatchReader)
    left = list(filters)
    if isinstance(reader, FilteringReader):
        left = list(reader.pushFilters(left))
    tasks = list(reader.partitions())
    return *copied(reader, tasks), left


def copied(reader: _Reader, tasks: list[Any]) -> tuple[_Reader, list[Any]]:
    """Return what arrives in a worker."""
    pickler: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]  # Spark's own.
    copies: tuple[_Reader, list[Any]] = pickler.loads(pickler.dumps((reader, tasks)))
    return copies


def batches(reader: Any, tasks: Sequence[Any], schema: StructType) -> Iterator[Any]:
    """Yield the batches of tasks, checked as Spark checks them."""
    expected = to_arrow_schema(schema, timezone="UTC")
    for task in tasks:
        for batch in reader.read(task):
            assert batch.schema.equals(expected), f"{batch.schema}\nis not\n{expected}"
            assert batch.num_rows
            yield batch


def rows(
    path: Path, schema: StructType | None = None, filters: Sequence[Filter] = (), **options: Any
) -> list[Row]:
    """Return the rows of a table; all filters must be ones that the source takes."""
    reader, tasks, left = plan(path, schema, filters, **options)
    assert not left
    expected = schema if schema is not None else source(path, options).schema()
    return [row for batch in batches(reader, tasks, expected) for row in batch.to_pylist()]


class Query:
    """A streaming query: it keeps its offset as Spark's checkpoint does, and may be restarted."""

    def __init__(self, path: Path, schema: StructType, **options: Any) -> None:
        self.source = source(path, options)
        self.schema = schema
        self.rows: list[Row] = []
        self.offset: str | None = None
        self.pending: tuple[str, str] | None = None
        self.reader = self.restarted()

    def restarted(self) -> StreamReader:
        reader = self.source.streamReader(self.schema)
        assert isinstance(reader, StreamReader)
        self.reader = reader
        return reader

    def step(self, limit: ReadLimit | None = None, *, fails: bool = False) -> list[Row]:
        """Read the next batch of the query; one that ``fails`` is planned, and not read."""
        if self.offset is None:
            self.offset = json.dumps(self.reader.initialOffset())
        start = self.offset
        if self.pending is None:
            latest = self.reader.latestOffset(
                json.loads(start), limit or self.reader.getDefaultReadLimit() or ReadAllAvailable()
            )
            self.pending = start, json.dumps(latest)
        start, end = self.pending
        tasks = self.reader.partitions(json.loads(start), json.loads(end))
        if fails:
            return []
        work, tasks = copied(self.reader.work, tasks)
        rows_ = [row for batch in batches(work, tasks, self.schema) for row in batch.to_pylist()]
        self.rows += rows_
        self.offset, self.pending = end, None
        return rows_
