"""A data source that yields one batch again and again: what Spark takes when reading costs nothing.

No source in Python can be faster; how near ours comes says what decoding costs. Compressed data has
a second one, which also lets libzstd loose on the frames of those rows for every batch, and looks
at nothing that comes out: no source of such data can be faster than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import zstandard
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

FRAME_BYTES_MAX = 1 << 20  # What a frame of the data becomes is far less.


class Rows(InputPartition):
    """How many rows a task yields."""

    def __init__(self, count: int) -> None:
        self.count = count


class Ceiling(DataSource):
    """Options: ``batch``, a file of Arrow's IPC format; ``rows`` of each task, with commas.

    ``frames``, where given: such a file too, with the zstd frames of the batch's rows.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ceiling"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader; the schema is the user's."""
        counts = [int(count) for count in self.options["rows"].split(",")]
        return _Reader(self.options["batch"], counts, self.options.get("frames"))


class _Reader(DataSourceReader):
    def __init__(self, path: str, counts: list[int], frames: str | None) -> None:
        self.path = path
        self.counts = counts
        self.frames = frames

    def partitions(self) -> Sequence[InputPartition]:
        return [Rows(count) for count in self.counts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Rows)
        batch = _first(self.path)
        frames = _first(self.frames).column(0).to_pylist() if self.frames else []
        libzstd = zstandard.ZstdDecompressor()
        left = partition.count
        while left:
            for frame in frames:
                libzstd.decompress(frame, max_output_size=FRAME_BYTES_MAX)
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= min(left, batch.num_rows)


def _first(path: str) -> pa.RecordBatch:
    with pa.ipc.open_file(path) as file:
        return file.get_batch(0)
