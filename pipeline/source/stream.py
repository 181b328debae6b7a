"""Reading a stream: the end offsets of the logs, and the records between two such states.

An offset of the stream has, for each partition, the offset of the next record to read, in the form
that ``startingOffsets`` has. It never lies within a batch that is still being written. Beside them
it has a mark of the last batch before each, which says whether the log is still the one that was
read. All that is kept here between two calls is a place to look on from: a restart loses nothing.
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
    Mark,
    PartitionLog,
    Place,
    partitions_of,
    place_of,
    segments_of,
    whole_batches,
)
from kraftspec.pipeline.source.options import LATEST, OptionError, Options
from kraftspec.pipeline.source.ranges import OffsetRange, lost, offset_ranges, starts_of
from kraftspec.pipeline.splits import packed
from kraftspec.pipeline.transactions import transactions_of

Offsets = dict[Key, int]
Marks = dict[Key, Mark]
# Where an offset of the stream has its marks. No topic can be named so.
_MARKS: Final = "last batches"
# Between two batches of a query a partition is read a few times.
_SEEN_MAX: Final = 8


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is appended to logs."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.ending is not None:
            raise OptionError(f"option {options.ending.option}: a stream has no end")
        self.options = options
        self.work = WorkReader(options, schema)
        # The ends of partitions when they were read, the latest last.
        self._seen: dict[Key, deque[End]] = {}
        # Batches that were looked up; their marks will be needed again.
        self._before: dict[Key, deque[End]] = {}
        self._target: Offsets | None = (
            None  # The end of a query that reads only the available data.
        )

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return where the first run of a query starts."""
        logs = self._logs()
        starts = starts_of(self.options, logs, LATEST)
        return _to_json(starts, self._marks(logs, starts))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return how much one batch of the query may read."""
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Note the current ends of the logs."""
        self._target = {key: self._latest(log) for key, log in self._logs().items()}

    def latestOffset(  # noqa: N802 (Spark's name)
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Return the end offsets of the next batch."""
        logs, read = self._logs(), _from_json(start)
        for key in read.keys() - logs.keys():
            lost(self.options, f"{key[0]}-{key[1]} is gone; it was read to offset {read[key]}")
        marks = _marks_of(start)
        starts = self._starts(read, marks, logs)
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
        # Where nothing is new, the mark is the old one: Spark compares the text of offsets.
        same = {key for key, end in ends.items() if end == starts[key] == read.get(key)}
        moved = {key: end for key, end in ends.items() if key not in same}
        kept = {key: mark for key, mark in marks.items() if key in same}
        return _to_json(ends, kept | self._marks(logs, moved))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the ends of the logs when they were last read, for the status of the query."""
        return _to_json({key: seen[-1].offset for key, seen in self._seen.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Divide what is between two offsets of the stream into tasks."""
        ends, read, logs = _from_json(end), _from_json(start), self._logs()
        for key in ends.keys() - logs.keys():
            if ends[key] > read.get(key, 0):
                lost(self.options, f"{key[0]}-{key[1]} is gone; offsets to {ends[key]} are lost")
        # Records that arrived after the end was returned are for the next batch of the query.
        logs = {key: log for key, log in logs.items() if key in ends}
        starts = self._starts(read, _marks_of(start), logs)
        size = self.options.split_bytes
        ranges: list[OffsetRange] = []
        for key, log in logs.items():
            until = ends[key]
            latest = self._latest(log)
            if until > latest:
                lost(self.options, f"{log.name} ends at offset {latest}; it went to {until}")
            ranges += offset_ranges(log, starts[key], until, self.options, size, places=self._place)
        return [Work(together) for together in packed(ranges, size)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        return self.work.read(partition)

    def _logs(self) -> dict[Key, PartitionLog]:
        return partitions_of(segments_of(self.options))

    def _starts(self, read: Offsets, marks: Marks, logs: Mapping[Key, PartitionLog]) -> Offsets:
        """Return where to start each partition: where it was read to, if that is there still."""
        starts = {}
        for key, log in logs.items():
            starts[key] = read.get(key, 0)
            if starts[key] < log.earliest:
                gone = f"offsets {starts[key]} to {log.earliest - 1} are deleted"
                lost(self.options, f"{log.name}: {gone}")
                starts[key] = log.earliest
            elif key in marks and self._is_another(log, starts[key], marks[key]):
                another = f"was read to offset {starts[key]}, and has other records there now"
                lost(self.options, f"{log.name} {another}: it was cut, or made anew")
                starts[key] = log.earliest
        return starts

    def _is_another(self, log: PartitionLog, offset: int, mark: Mark) -> bool:
        """Whether a log cannot be the one that was read to ``offset``, and marked there.

        One that ends before is reported as lost data.
        """
        if self._end(log).offset < offset:
            return False
        end = self._end_before(log, offset)
        return end is not None and not log.had(mark, end)

    def _marks(self, logs: Mapping[Key, PartitionLog], offsets: Offsets) -> Marks:
        """Return the marks of the last batches before offsets."""
        ends = {key: self._end_before(logs[key], offset) for key, offset in offsets.items()}
        return {
            key: Mark.of(end.batch)
            for key, end in ends.items()
            if end is not None and end.batch is not None
        }

    def _end_before(self, log: PartitionLog, offset: int) -> End | None:
        """Return the last batch before an offset, looking first at what was seen before."""
        files = {file.path: file for file in log.files}
        known = self._before.setdefault(log.key, deque(maxlen=_SEEN_MAX))
        seen: list[End] = [*known, *self._seen.get(log.key, ())]
        for end in seen:
            is_known = end.offset == offset and end.batch is not None and end.path in files
            if is_known and end.is_in(files[end.path]):
                return end
        try:
            before: End | None = log.before(offset)
        except FileNotFoundError:  # Deleted just now: there is nothing to compare with.
            return None
        if before is not None:
            known.append(before)
        return before

    def _latest(self, log: PartitionLog) -> int:
        """Return the offset after the last record that may be read."""
        end = self._end(log)
        if self.options.isolation == "read_committed":
            transactions = transactions_of(log.files, use_txn_indexes=self.options.use_txn_indexes)
            return min(end.offset, transactions.last_stable_offset)
        return end.offset

    def _end(self, log: PartitionLog) -> End:
        seen = self._seen.setdefault(log.key, deque(maxlen=_SEEN_MAX))
        end = log.end(seen[-1] if seen else None)
        self._remember(log, end)
        return end

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
    """Return the offset of the first batch at least so many bytes after ``start``."""
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


def _to_json(offsets: Offsets, marks: Marks | None = None) -> dict[str, Any]:
    """Put offsets in Spark's form, and always in the same order: it compares the text."""
    value: dict[str, Any] = _by_topic(offsets)
    if marks:
        value[_MARKS] = _by_topic({key: list(mark) for key, mark in marks.items()})
    return value


def _by_topic(values: Mapping[Key, Any]) -> dict[str, dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics


def _from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    return _by_key({topic: values for topic, values in value.items() if topic != _MARKS})


def _by_key(topics: Mapping[str, Mapping[str, Any]]) -> dict[Key, Any]:
    return {
        (topic, int(partition)): value
        for topic, values in topics.items()
        for partition, value in values.items()
    }


def _marks_of(value: Mapping[str, Any]) -> Marks:
    """Return the marks of an offset; an earlier version's has none."""
    return {key: Mark(*mark) for key, mark in _by_key(value.get(_MARKS, {})).items()}
