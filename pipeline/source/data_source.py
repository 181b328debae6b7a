"""The data source as Spark sees it: which schema, which reader."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kraftspec.pipeline.source.batch import BatchReader, FilteringReader
from kraftspec.pipeline.source.memory import allocate_modestly, keep_freed_memory
from kraftspec.pipeline.source.options import Options
from kraftspec.pipeline.source.schema import spark_schema
from kraftspec.pipeline.source.stream import StreamReader

# A worker that loads this has its limit by then.
allocate_modestly()
keep_freed_memory()


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
