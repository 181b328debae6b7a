"""The data source as Spark sees it: which schema, which reader, and how a worker gets memory."""

from __future__ import annotations

import resource

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kraftspec.memory import keep_freed_memory
from kraftspec.pipeline.source.batch import BatchReader, FilteringReader
from kraftspec.pipeline.source.options import Options
from kraftspec.pipeline.source.schema import spark_schema
from kraftspec.pipeline.source.stream import StreamReader


class KafkaLog(DataSource):
    """``kafkalog``: the records of Kafka's log directories as a table, or as a stream."""

    @classmethod
    def name(cls) -> str:
        """Return what ``spark.read.format`` calls it."""
        return "kafkalog"

    def schema(self) -> StructType:
        """Return the columns of a query that gives no schema of its own."""
        return spark_schema(Options.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a table."""
        options = Options.parse(self.options)
        return (FilteringReader if options.push_filters else BatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        """Return the reader of a stream."""
        return StreamReader(Options.parse(self.options), schema)


def _allocate_modestly() -> None:
    """Have Arrow allocate from the system's allocator where the address space is limited.

    Its own one (mimalloc) reserves a GiB before it hands out the first byte. That costs nothing,
    but where the limit is lower, and is then half spent on what nobody uses.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        pa.set_memory_pool(pa.system_memory_pool())


# A worker that loads this has its limit by then.
_allocate_modestly()
keep_freed_memory()
