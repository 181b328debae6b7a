"""The partitions below a path: which offsets they have, and at which bytes of which file.

Offsets are looked up by batch headers, from the nearest entry of an index on where there is one.
Damage lies between two batches, and belongs with the later one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from kraftspec.fastpath.columns import decode_columns
from kraftspec.fastpath.records import RECORDS_AT, BatchHeader
from kraftspec.pipeline.files import Source
from kraftspec.pipeline.filters import parse_filters
from kraftspec.pipeline.indexes import Indexes
from kraftspec.pipeline.layout import LogFile, discover
from kraftspec.pipeline.metadata.log import METADATA_TOPIC, of_metadata_log
from kraftspec.pipeline.source.options import OptionError, Options

Key = tuple[str, int]  # A topic and a partition.


@dataclass(frozen=True)
class Place:
    """Where an offset is in a file.

    ``position`` is the byte after the last batch that starts before ``offset``. Where that batch
    has ``offset`` too, it starts at ``batch_position``; else both are the same.
    """

    offset: int
    position: int
    batch_position: int

    @property
    def is_boundary(self) -> bool:
        """Whether no batch has records on both sides."""
        return self.position == self.batch_position


class Mark(NamedTuple):
    """What distinguishes a batch from any other batch at its offsets in another log.

    The cleaner writes a batch anew with fewer records, or a delete horizon, but with the same
    offsets and epoch (``MemoryRecords.filterTo``); it never touches the last segment.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    record_count: int
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        """Return the mark of a batch."""
        return cls(
            header.base_offset, header.last_offset, header.partition_leader_epoch,
            header.record_count, header.crc,
        )  # fmt: skip

    def may_be(self, header: BatchHeader, *, may_be_cleaned: bool) -> bool:
        """Whether a log whose last batch up to there is ``header`` had this one."""
        mark = Mark.of(header)
        if (mark.base_offset, mark.crc) == (self.base_offset, self.crc):
            return True
        if not may_be_cleaned:
            return False
        if mark.last_offset < self.base_offset:
            return True  # Nothing was left of it.
        is_less = header.has_delete_horizon or mark.record_count < self.record_count
        return mark[:3] == self[:3] and is_less


@dataclass(frozen=True)
class End:
    """The end of a segment, or of its part before ``offset``: its last whole batch there."""

    path: str
    offset: int
    batch: BatchHeader | None

    @property
    def place(self) -> Place:
        """Where that is."""
        position = 0 if self.batch is None else self.batch.end
        return Place(self.offset, position, position)

    def is_in(self, file: LogFile) -> bool:
        """Whether a segment still has this batch there: a log may be cut, and written anew."""
        if file.path != self.path:
            return False
        if self.batch is None:
            return True
        with file.open() as source:
            return source.header_at(self.batch.position) == self.batch


@dataclass(frozen=True)
class PartitionLog:
    """The segments of one partition, one at least, by their offsets."""

    topic: str
    partition: int
    files: tuple[LogFile, ...]

    @property
    def key(self) -> Key:
        """Its topic and number."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """What Kafka calls it."""
        return f"{self.topic}-{self.partition}"

    @property
    def earliest(self) -> int:
        """The offset that its first segment is named for: what was before is deleted."""
        return self.files[0].base_offset

    def end(self, known: End | None = None) -> End:
        """Return the end of the last segment, in whole batches.

        A batch that is being written is not whole, and zeros are none. ``known`` is an answer
        that was given before: if that is still there, it looks on from it.
        """
        last = self.files[-1]
        end = End(last.path, last.base_offset, None)
        if known is not None and known.is_in(last):
            end = known
        with last.open() as source:
            for header in whole_batches(source, end.place.position, last.size, is_growing=True):
                end = End(last.path, header.last_offset + 1, header)
        return end

    def before(self, offset: int) -> End | None:
        """Return the last batch that starts before ``offset``, None when there is none."""
        for file in reversed(self.files):
            if file.base_offset >= offset:
                continue
            filter_ = parse_filters([("offset", ">=", offset - 1)])
            assert filter_ is not None
            last: BatchHeader | None = None
            with file.open() as source:
                start, _ = Indexes(file, source).bytes_of(filter_)
                is_growing = file is self.files[-1]
                for header in whole_batches(source, start, file.size, is_growing=is_growing):
                    if header.base_offset >= offset:
                        break
                    last = header
            if last is not None:
                return End(file.path, offset, last)
        return None

    def had(self, mark: Mark, end: End) -> bool:
        """Whether the marked batch may be the batch of ``end``, which is of this log."""
        may_be_cleaned = end.path != self.files[-1].path
        return end.batch is None or mark.may_be(end.batch, may_be_cleaned=may_be_cleaned)

    def offset_of(self, timestamp: int) -> int | None:
        """Return the first offset whose record is of ``timestamp`` (milliseconds) or later.

        None when there is none. Source: ``LogSegment.findOffsetByTimestamp``.
        """
        filter_ = parse_filters([("timestamp", ">=", timestamp)])
        assert filter_ is not None
        for file in self.files:
            with file.open() as source:
                start, _ = Indexes(file, source).bytes_of(filter_)
                for header in whole_batches(source, start, file.size):
                    offset = _offset_in(source, header, timestamp)
                    if offset is not None:
                        return offset
        return None


def _offset_in(source: Source, header: BatchHeader, timestamp: int) -> int | None:
    if header.max_timestamp < timestamp:
        return None
    batch = source.read(header.position, header.size)
    rows = pa.record_batch(decode_columns(batch, columns=("offset", "timestamp"), errors="skip"))
    offsets = rows["offset"].filter(pc.greater_equal(rows["timestamp"], timestamp))
    return offsets[0].as_py() if len(offsets) else None


def whole_batches(
    source: Source, position: int, end: int, *, is_growing: bool = False
) -> Iterator[BatchHeader]:
    """Yield the headers of batches from ``position`` on, around damage.

    Checksums are checked where a run of batches ends: a batch before another was written to
    its end. Of a file that ``is_growing``, zeros are the place of batches to come.
    """
    resync = source.resync(end)
    while position < end:
        held: BatchHeader | None = None
        for header in source.headers(position, end):
            if held is not None:
                yield held
            held = header
        if held is not None:
            position = held.position
            if source.has_batch(position, end):
                yield held
                position = held.end
        if position >= end:
            return
        if is_growing and not any(source.read(position, RECORDS_AT)):
            return
        position = resync.after(position, source.plausible_end(position, end))


def place_of(file: LogFile, offset: int) -> Place:
    """Return where ``offset`` is in a segment; at its end when all of it is before."""
    filter_ = parse_filters([("offset", ">=", offset - 1)])
    assert filter_ is not None
    with file.open() as source:
        start, _ = Indexes(file, source).bytes_of(filter_)
        place = Place(offset, start, start)
        is_growing = file.end_offset is None
        for header in whole_batches(source, start, file.size, is_growing=is_growing):
            if header.base_offset >= offset:
                return place
            is_inside = header.last_offset >= offset
            if is_inside and not source.has_batch(header.position, file.size):
                return place  # Damage that has offsets, too, belongs with what comes later.
            place = Place(offset, header.end, header.position if is_inside else header.end)
    return place


def files_of(options: Options, *, must_exist: bool = False) -> list[LogFile]:
    """Return the files of the topics that the options select.

    Raises:
        OptionError: what an option names ``must_exist``, and is not there.
    """
    every = discover(options.paths)
    files = [file for file in every if _is_wanted(file, options)]
    if must_exist:
        _refuse_missing(options, every, files)
    return files


def _refuse_missing(options: Options, every: list[LogFile], files: list[LogFile]) -> None:
    option, missing = "", list[str]()
    if options.topics is not None:
        there = {file.topic for file in files}
        option, missing = "subscribe", [name for name in options.topics if name not in there]
    elif options.assigned is not None:
        option = "assign"
        partitions = {(file.topic, file.partition) for file in files}
        assigned = ((topic, number) for topic, some in options.assigned.items() for number in some)
        missing = [
            f"{topic}-{number}" for topic, number in assigned if (topic, number) not in partitions
        ]
    elif options.topic_pattern is not None and not files:
        option, missing = "subscribePattern", [options.topic_pattern]
    elif options.decode is not None and not files:
        option, missing = "decode", [METADATA_TOPIC]
    if missing:
        raise OptionError(
            f"option {option}: there is no {_listed(missing)} below the path; "
            f"it has {_listed(_names(every)) or 'no log'}"
        )


def _names(files: list[LogFile]) -> list[str]:
    """Return the partitions that files are of; of none, the files."""
    names = {
        file.path if file.topic is None else f"{file.topic}-{file.partition}" for file in files
    }
    return sorted(names)


def _listed(names: list[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def segments_of(options: Options) -> list[LogFile]:
    """Return those files that hold what was appended.

    The records of a checkpoint are in segments too, or were.
    """
    return segments_among(files_of(options))


def segments_among(files: Iterable[LogFile]) -> list[LogFile]:
    """Return the segments of these files."""
    return [file for file in files if file.kind == "segment"]


def _is_wanted(file: LogFile, options: Options) -> bool:
    if options.topics is not None:
        return file.topic in options.topics
    if options.topic_pattern is not None:
        return re.fullmatch(options.topic_pattern, file.topic or "") is not None
    if options.assigned is not None:
        return file.partition in options.assigned.get(file.topic or "", ())
    return options.decode is None or of_metadata_log(file)


def partitions_of(files: Iterable[LogFile]) -> dict[Key, PartitionLog]:
    """Return the partitions that files are of, by topic and number.

    Raises:
        OptionError: a file is of no partition, or its partition is in two directories.
    """
    partitions: dict[Key, list[LogFile]] = {}
    for file in files:
        if file.topic is None or file.partition is None:
            raise OptionError(f"option path: {file.path} is in no directory named TOPIC-PARTITION")
        same = partitions.setdefault((file.topic, file.partition), [])
        if same and _directory(same[0]) != _directory(file):
            raise OptionError(
                f"option path: {file.topic}-{file.partition} is in {_directory(same[0])} and in "
                f"{_directory(file)}: offsets can tell of one only"
            )
        same.append(file)
    return {key: PartitionLog(*key, tuple(files)) for key, files in sorted(partitions.items())}


def _directory(file: LogFile) -> str:
    return file.path.rpartition("/")[0]
