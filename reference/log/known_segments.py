"""What was found in a log in memory when it was opened last, as far as it still holds.

A disk may rot, so a log on one is read at each start. Memory does not rot, and a simulator starts
nodes all the time: there a segment is read again only where its file was written to, and the sealed
segments that a log begins with are taken over as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from kraftspec.fastpath.recovery import Recovery
from kraftspec.reference.log.epochs import EpochEntry
from kraftspec.reference.log.files import Files
from kraftspec.reference.log.memory_files import Inode, MemoryFiles
from kraftspec.reference.log.segment import INDEX_SUFFIXES, LOG_SUFFIX, BatchIndex, Segment

# Of segments, the index of each, which is another one after a cut or once the file was written to
# and opened again, and where it ended.
Marks = Sequence[tuple[BatchIndex, int]]


class SegmentRead(NamedTuple):
    """What was found in a segment: valid while its bytes and what is before it are the same.

    Who writes to the segment makes a memory disk forget it first; who cuts it, changes a copy.
    """

    due: int
    last_epoch: int
    interval_bytes: int
    batches: BatchIndex
    recovery: Recovery
    epochs: list[EpochEntry]  # That begin in it.


class Total(NamedTuple):
    """What recovery found in the first segments of a log."""

    batches: int = 0
    bytes_read: int = 0
    zero_bytes: int = 0
    torn_bytes: int = 0

    def plus(self, recovery: Recovery) -> Total:
        """Return it with one segment more."""
        return Total(
            self.batches + recovery.batches, self.bytes_read + recovery.end,
            self.zero_bytes + recovery.zero_bytes, self.torn_bytes + recovery.torn_bytes,
        )  # fmt: skip


class _Known(NamedTuple):
    segment: Segment
    read: SegmentRead  # As it was left at the file of the log.
    log: str  # Its name in the directory, and those of the two indexes.
    offsets: str
    times: str
    total: Total  # Of the log up to its end.


class Taken(NamedTuple):
    """What needs not be read: the first segments of a log, and what recovery found in them."""

    segments: list[Segment]
    epochs: list[EpochEntry]  # That begin in them.
    unsure: list[Segment]  # Those whose files of indexes may be others now.
    total: Total


class KnownSegments:
    """The sealed segments that a log in memory begins with, and the epochs of its batches.

    ``notes`` are what readers made of a log's segments, by who it is, and the marks of these:
    ``unchanged`` tells how much of that holds.
    """

    def __init__(self) -> None:
        self.notes: dict[Any, Any] = {}
        self._known: list[_Known] = []
        self._epochs: list[EpochEntry] = []

    @classmethod
    def of(cls, files: Files, directory: str) -> KnownSegments:
        """Return those of a directory: none of a disk, nor of memory whose reads are watched."""
        if not isinstance(files, MemoryFiles) or files.is_read_watched:
            return cls()
        known = files.known.get(directory)
        if not isinstance(known, cls):
            known = files.known[directory] = cls()
        return known

    def take(
        self, files: Files, directory: str, bases: Sequence[int], interval_bytes: int
    ) -> Taken:
        """Return those that hold, of a log whose segments have these base offsets.

        The last of the log is none of them: that is written to, and cut.
        """
        segments: list[Segment] = []
        unsure: list[Segment] = []
        if isinstance(files, MemoryFiles):
            left = files.inodes(directory)
            for one, base_offset in zip(self._known, bases[:-1], strict=False):
                segment, read, log, offsets, times, _ = one
                index = segment.index
                if (
                    segment.base_offset != base_offset
                    or _remembered(left, log) is not read
                    or read.interval_bytes != interval_bytes
                    or index is not read.batches  # It was about to be cut.
                ):
                    break
                segments.append(segment)
                if _remembered(left, offsets) is not index or _remembered(left, times) is not index:
                    unsure.append(segment)
        end = segments[-1].next_offset if segments else 0
        begun = bisect_left(self._epochs, end, key=lambda entry: entry.start_offset)
        return Taken(segments, self._epochs[:begun], unsure, self._total_of(len(segments)))

    def _total_of(self, count: int) -> Total:
        return self._known[count - 1].total if count else Total()

    def learn(
        self, taken: int, read: Sequence[tuple[Segment, SegmentRead]], epochs: list[EpochEntry]
    ) -> None:
        """Note what was found: so many segments as known, those read behind them, all epochs."""
        del self._known[taken:]
        total = self._total_of(taken)
        for segment, found in read[:-1]:
            total = total.plus(found.recovery)
            name = segment.path.rpartition("/")[2]
            offsets, times = INDEX_SUFFIXES
            self._known.append(
                _Known(segment, found, name + LOG_SUFFIX, name + offsets, name + times, total)
            )
        self._epochs = list(epochs)


def _remembered(inodes: dict[str, Inode | None], name: str) -> Any:
    inode = inodes.get(name)
    return None if inode is None else inode.remembered


def marks_of(segments: Sequence[Segment]) -> Marks:
    """Return what tells later whether segments are as they are now."""
    return [(segment.index, segment.next_offset) for segment in segments]


def unchanged(before: Marks, now: Sequence[Segment]) -> int:
    """Return how many of the first segments are as they were when these were their marks.

    Where one is another, so are all behind it: a log is read anew, and cut, from a place on.
    """

    def is_other(at: int) -> bool:
        return now[at].index is not before[at][0] or now[at].next_offset != before[at][1]

    return bisect_left(range(min(len(before), len(now))), True, key=is_other)
