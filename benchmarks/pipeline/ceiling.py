"""A data source that yields one batch again and again: what Spark takes when reading costs nothing.

No source in Python can be faster; how near ours comes says what decoding costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class Rows(InputPartition):
    """How many rows a task yields."""

    def __init__(self, count: int) -> None:
        self.count = count


class Ceiling(DataSource):
    """Options: ``batch``, a file of Arrow's IPC format; ``rows`` of each task, with commas."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ceiling"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader; the schema is the user's."""
        counts = [int(count) for count in self.options["rows"].split(",")]
        return _Reader(self.options["batch"], counts)


class _Reader(DataSourceReader):
    def __init__(self, path: str, counts: list[int]) -> None:
        self.path = path
        self.counts = counts

    def partitions(self) -> Sequence[InputPartition]:
        return [Rows(count) for count in self.counts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Rows)
        with pa.ipc.open_file(self.path) as file:
            batch = file.get_batch(0)
        left = partition.count
        while left:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= min(left, batch.num_rows)
