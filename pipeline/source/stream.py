"""Reading a stream: how far the logs have grown, and what lies between two such states.

An offset of the stream has, for each partition, the offset of the next record to read, in the form
that ``startingOffsets`` has. It never lies within a batch that is still being written. All that is
kept here between two calls is a place to look on from: a restart loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.source.batch import Work, WorkReader
from kraftspec.pipeline.source.logs import (
    End,
    Key,
    PartitionLog,
    Place,
    partitions_of,
    place_of,
    segments_of,
    whole_batches,
)
from kraftspec.pipeline.source.options import LATEST, OptionError, Options
from kraftspec.pipeline.source.ranges import Stretch, lost, starts_of, stretches
from kraftspec.pipeline.splits import packed
from kraftspec.pipeline.transactions import transactions_of

Offsets = dict[Key, int]
# Between two batches of a query a partition is looked at a few times.
_SEEN_MAX: Final = 8


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is appended to logs."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.ending is not None:
            raise OptionError(f"option {options.ending.option}: a stream has no end")
        self.options = options
        self.work = WorkReader(options, schema)
        # How far partitions went when they were looked at, the last one last.
        self._seen: dict[Key, deque[End]] = {}
        self._target: Offsets | None = None  # Where a query ends that reads what is there now.

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 (Spark's name)
        """Return where the first run of a query starts."""
        return _to_json(starts_of(self.options, self._logs(), LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return how much one batch of the query may read."""
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Note how far the logs go now."""
        self._target = {key: self._latest(log) for key, log in self._logs().items()}

    def latestOffset(  # noqa: N802 (Spark's name)
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """Return how far to read next."""
        logs, read = self._logs(), _from_json(start)
        for key in read.keys() - logs.keys():
            lost(self.options, f"{key[0]}-{key[1]} is gone; it was read to offset {read[key]}")
        starts = self._starts(read, logs)
        ends = {key: self._latest(log) for key, log in logs.items()}
        if self._target is not None:
            ends = {key: min(end, self._target.get(key, starts[key])) for key, end in ends.items()}
        for key, end in ends.items():
            if end < starts[key]:
                name = logs[key].name
                lost(self.options, f"{name} ends at offset {end}, and was read to {starts[key]}")
        if isinstance(limit, ReadMaxRows):
            ends = _limited(starts, ends, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            ends = _limited_bytes(logs, starts, ends, limit.max_bytes)
        return _to_json(ends)

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 (Spark's name)
        """Return how far the logs went when they were last looked at, for the query's status."""
        return _to_json({key: seen[-1].offset for key, seen in self._seen.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Divide what is between two offsets of the stream into tasks."""
        ends, read, logs = _from_json(end), _from_json(start), self._logs()
        for key in ends.keys() - logs.keys():
            if ends[key] > read.get(key, 0):
                lost(self.options, f"{key[0]}-{key[1]} is gone; offsets to {ends[key]} are lost")
        # What has appeared since the end was told is for the next batch of the query.
        logs = {key: log for key, log in logs.items() if key in ends}
        starts = self._starts(read, logs)
        size = self.options.split_bytes
        found: list[Stretch] = []
        for key, log in logs.items():
            until = ends[key]
            latest = self._latest(log)
            if until > latest:
                lost(self.options, f"{log.name} ends at offset {latest}; it went to {until}")
            found += stretches(log, starts[key], until, self.options, size, places=self._place)
        return [Work(together) for together in packed(found, size)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        return self.work.read(partition)

    def _logs(self) -> dict[Key, PartitionLog]:
        return partitions_of(segments_of(self.options))

    def _starts(self, read: Offsets, logs: Mapping[Key, PartitionLog]) -> Offsets:
        """Return where to start each partition: where it was read to, if that is there still."""
        starts = {}
        for key, log in logs.items():
            starts[key] = read.get(key, 0)
            if starts[key] < log.earliest:
                gone = f"offsets {starts[key]} to {log.earliest - 1} are deleted"
                lost(self.options, f"{log.name}: {gone}")
                starts[key] = log.earliest
        return starts

    def _latest(self, log: PartitionLog) -> int:
        """Return the offset after the last record that may be read."""
        seen = self._seen.setdefault(log.key, deque(maxlen=_SEEN_MAX))
        end = log.end(seen[-1] if seen else None)
        self._remember(log, end)
        if self.options.isolation == "read_committed":
            return min(end.offset, transactions_of(log.files).last_stable_offset)
        return end.offset

    def _remember(self, log: PartitionLog, end: End) -> None:
        seen = self._seen[log.key]
        if end in seen:
            seen.remove(end)
        seen.append(end)

    def _place(self, file: LogFile, offset: int) -> Place:
        """Return where an offset is, looking first at what was seen of the segment that grows."""
        if file.end_offset is None and file.topic is not None and file.partition is not None:
            for end in self._seen.get((file.topic, file.partition), ()):
                if end.offset == offset and end.is_in(file):
                    return end.place
        return place_of(file, offset)


def _limited(starts: Offsets, ends: Offsets, count: int) -> Offsets:
    """Share ``count`` offsets among the partitions by what each has, as Spark's Kafka source."""
    sizes = {key: max(0, ends[key] - starts[key]) for key in ends}
    total = sum(sizes.values())
    if total <= count:
        return ends
    return {
        # A share of less than one is one: else a partition that has little would wait for ever.
        key: min(ends[key], starts[key] + max(1, count * size // total)) if size else ends[key]
        for key, size in sizes.items()
    }


def _limited_bytes(
    logs: Mapping[Key, PartitionLog], starts: Offsets, ends: Offsets, size: int
) -> Offsets:
    """Give each partition that has more the same number of bytes, and one batch at least."""
    growing = [key for key in ends if ends[key] > starts[key]]
    share = size // max(1, len(growing))
    return ends | {key: _after(logs[key], starts[key], ends[key], share) for key in growing}


def _after(log: PartitionLog, start: int, end: int, size: int) -> int:
    """Return the offset of a batch so many bytes after ``start``, or the first that is more."""
    left = size
    for file in log.files:
        if file.end_offset is not None and file.end_offset <= start:
            continue
        position = place_of(file, start).batch_position if file.base_offset < start else 0
        with file.open() as source:
            for header in whole_batches(source, position, file.size):
                left -= header.size
                if left <= 0 or header.last_offset >= end - 1:
                    return min(end, header.last_offset + 1)
    return end


def _to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Put offsets in Spark's form, and always in the same order: it compares the text."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _from_json(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, offsets in found.items()
        for partition, offset in offsets.items()
    }
