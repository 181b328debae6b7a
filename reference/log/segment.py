"""One segment: batches one after another, behind them zeros, and where each batch begins.

::

    | batch | batch | ... | batch | batch | 0 0 0 0 0 0 0 0 0 |
    ^ 0             durable_end ^        ^ end               ^ size of the file

The zeros are written ahead of the batches, so that syncing a batch moves no end of file and
allocates no block; ``seal`` cuts them. ``BatchIndex`` has each batch in memory (8 bytes a batch),
and Kafka's sparse indexes beside it, as ``LogSegment.append`` and ``recover`` make them.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from kraftspec.fastpath.append import Appender
from kraftspec.fastpath.files import File
from kraftspec.fastpath.records import BatchHeader
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log.files import Files

OFFSET_ENTRY: Final = struct.Struct(">ii")  # Offset, relative to the segment's; position.
TIME_ENTRY: Final = struct.Struct(">qi")  # Timestamp (ms); offset, relative.
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
INT32_MAX: Final = (1 << 31) - 1
NO_TIMESTAMP: Final = -1
_DIGITS: Final = 20  # Of a base offset in a name.


def segment_name(base_offset: int) -> str:
    """Return the name of a segment's files, the suffix left out."""
    return f"{base_offset:0{_DIGITS}d}"


def segment_base(name: str) -> int:
    """Return the base offset of the segment whose log has this name; -1: none has."""
    digits = name.removesuffix(LOG_SUFFIX)
    is_one = len(digits) == _DIGITS and len(name) > _DIGITS and digits.isdecimal()
    return int(digits) if is_one else -1


class BatchIndex:
    """Where the batches of a segment begin, and the entries of its .index and .timeindex."""

    __slots__ = (
        "_since_entry_bytes",
        "base_offset",
        "controls",
        "first_timestamp",
        "interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_entries",
        "offsets",
        "positions",
        "time_entries",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.offsets = array("I")  # Of the first record of each batch, relative to base_offset.
        self.positions = array("I")
        self.controls = array("I")  # Of ``offsets``, those of control batches.
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._since_entry_bytes = 0

    def copy(self) -> BatchIndex:
        """Return another one that says the same."""
        other = BatchIndex(self.base_offset, self.interval_bytes)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(other, name, value[:] if isinstance(value, array | bytearray) else value)
        return other

    def add(
        self,
        base_offset: int,
        last_offset: int,
        position: int,
        size: int,
        max_timestamp: int,
        is_control: bool,
    ) -> None:
        """Note a batch that stands at ``position``, behind all others; timestamps are ms."""
        if not self.positions:
            self.first_timestamp = max_timestamp
        self.offsets.append(base_offset - self.base_offset)
        self.positions.append(position)
        if is_control:
            self.controls.append(base_offset - self.base_offset)
        if max_timestamp > self.max_timestamp:
            self.note_time(max_timestamp, last_offset)
        if self._since_entry_bytes > self.interval_bytes:
            self.offset_entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
            self._add_time()
            self._since_entry_bytes = 0
        self._since_entry_bytes += size

    def note_time(self, max_timestamp: int, last_offset: int) -> None:
        """Note the max timestamp (ms) of the batch that ends with ``last_offset``."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset

    def _add_time(self) -> None:
        entries = self.time_entries
        last = NO_TIMESTAMP
        if entries:
            last = TIME_ENTRY.unpack_from(entries, len(entries) - TIME_ENTRY.size)[0]
        if self.max_timestamp > last:
            offset = self.max_timestamp_offset - self.base_offset
            entries += TIME_ENTRY.pack(self.max_timestamp, offset)

    def files(self) -> tuple[bytes, bytes]:
        """Return what a sealed segment's .index and .timeindex hold."""
        kept = len(self.time_entries)
        self._add_time()
        times = bytes(self.time_entries)
        del self.time_entries[kept:]
        return bytes(self.offset_entries), times

    def batch_of(self, offset: int) -> int:
        """Return the number of the batch that holds ``offset``: there is one."""
        return bisect_right(self.offsets, offset - self.base_offset) - 1

    def cut(self, count: int, end: int) -> int:
        """Keep the first ``count`` batches, which end at position ``end``.

        Returns the position from which on the batches that are left have to be shown to
        ``note_time`` again.
        """
        if count < len(self.offsets):
            del self.controls[bisect_left(self.controls, self.offsets[count]) :]
        del self.offsets[count:]
        del self.positions[count:]
        position, offset = 0, -1
        while self.offset_entries:
            last = len(self.offset_entries) - OFFSET_ENTRY.size
            offset, position = OFFSET_ENTRY.unpack_from(self.offset_entries, last)
            if position < end:
                break
            del self.offset_entries[last:]
            position, offset = 0, -1
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        while self.time_entries:
            last = len(self.time_entries) - TIME_ENTRY.size
            timestamp, time_offset = TIME_ENTRY.unpack_from(self.time_entries, last)
            if time_offset <= offset:
                self.max_timestamp = timestamp
                self.max_timestamp_offset = self.base_offset + time_offset
                break
            del self.time_entries[last:]
        self._since_entry_bytes = end - position
        return position

    def is_full(self, index_bytes_max: int, before: int = 0) -> bool:
        """Whether one of Kafka's index files would have no room for an entry after ``before``."""
        return (
            len(self.offset_entries) + (before + 1) * OFFSET_ENTRY.size > index_bytes_max
            or len(self.time_entries) + (before + 2) * TIME_ENTRY.size > index_bytes_max
        )


class Segment(Appender):
    """An open segment. Only the last of a log is written to; ``next_offset`` is the one to come."""

    __slots__ = ("base_offset", "index", "next_offset", "path")

    def __init__(self, path: str, file: File, index: BatchIndex, end: int = 0) -> None:
        super().__init__(file, end)
        self.path = path  # The suffix left out.
        self.index = index
        self.base_offset = self.next_offset = index.base_offset

    def size_from(self, offset: int) -> int:
        """Return the bytes from the batch on that holds ``offset``, which is of this segment."""
        if offset >= self.next_offset:
            return 0
        return self.end - self.index.positions[self.index.batch_of(offset)]

    def seal(self, files: Files) -> None:
        """Cut the zeros, sync, and write the indexes: nothing more comes here."""
        self.trim()
        for suffix, data in zip(INDEX_SUFFIXES, self.index.files(), strict=True):
            path = self.path + suffix
            files.remove(path)
            file = files.open(path, create=True)
            try:
                file.write_at(0, data)
            finally:
                file.close()

    def truncate_to(self, offset: int) -> None:
        """Cut the batch that holds ``offset``, and those after it; durable on return."""
        count = bisect_left(self.index.offsets, offset - self.base_offset)
        if offset < self.next_offset and (
            count == len(self.index.offsets)
            or self.index.offsets[count] != offset - self.base_offset
        ):
            count -= 1
        if count < len(self.index.offsets):
            self.end = self.index.positions[count]
            self.next_offset = self.base_offset + self.index.offsets[count]
            self.index = self.index.copy()  # A memory disk may know it, and the cut may fail.
            self._look_again(self.index.cut(count, self.end))
        self.cut(self.end)

    def _look_again(self, position: int) -> None:
        data = self.file.read_at(position, self.end - position)
        for header in iterate_headers(data, check_crc=False):
            self.index.note_time(header.max_timestamp, header.last_offset)

    def control_batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the control batches, each with bytes that it is part of, and read no other."""
        for at in self.index.controls:
            data = self.read(self.base_offset + at, 1, self.next_offset)
            for header in iterate_headers(data, check_crc=False):
                yield header, data

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Return whole batches: from the one that holds ``offset`` on, up to ``end_offset``.

        One at least, and as many as fit in ``max_bytes``.
        """
        index = self.index
        first = index.batch_of(offset)
        position = index.positions[first]
        stop = len(index.positions)
        end = self.end
        if end_offset < self.next_offset:
            stop = bisect_left(index.offsets, end_offset - self.base_offset)
            if stop <= first:
                return b""
            end = index.positions[stop] if stop < len(index.positions) else self.end
        if end - position > max_bytes:
            # The last batch that begins no more than max_bytes behind the first ends it.
            limit = bisect_right(index.positions, position + max_bytes, first, stop) - 1
            end = index.positions[max(limit, first + 1)] if first + 1 < stop else end
        return self.file.read_at(position, end - position)
