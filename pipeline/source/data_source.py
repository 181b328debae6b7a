"""The data source as Spark sees it: which schema, which reader, and how a worker gets memory."""

from __future__ import annotations

import ctypes
import platform
import resource
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kraftspec.pipeline.source.batch import BatchReader, FilteringReader
from kraftspec.pipeline.source.options import Options
from kraftspec.pipeline.source.schema import spark_schema
from kraftspec.pipeline.source.stream import StreamReader

# glibc's mallopt: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Windows and columns have 1 to 4 MiB.
_MALLOPT_BYTES: Final = {-1: 64 << 20, -3: 16 << 20}


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


def _keep_freed_memory() -> None:
    """Let the C library keep what a batch frees for the next one; nothing without glibc.

    By default it hands memory of this size back to the system and takes it again for each batch,
    page by page: that was half of a worker's processor time over uncompressed logs.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        for name, size in _MALLOPT_BYTES.items():
            mallopt(name, size)


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
_keep_freed_memory()
