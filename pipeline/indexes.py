"""Kafka's sparse indexes beside a segment, held against the log before they are believed.

``.index`` has entries of int32 relative offset and int32 position (``OffsetIndex``): a batch starts
at the position, and holds the offset or comes right before it. ``.timeindex`` has entries of int64
timestamp and int32 relative offset (``TimeIndex``): no record up to that offset is later. Both are
filled ahead with zeros in the active segment.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice, pairwise
from operator import lt
from typing import Final

from kraftspec.pipeline.files import Source, store_of
from kraftspec.pipeline.filters import Filter
from kraftspec.pipeline.layout import LogFile

# An index that is larger than Kafka's default (segment.index.bytes) is not read: a segment has
# 2 GiB, and needs an entry each 4 KiB at most.
INDEX_BYTES_MAX: Final = 16 << 20
# An index is not used after so many entries that do not match the log.
TRIES_MAX: Final = 8

_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY = struct.Struct(">qi")


class Indexes:
    """The indexes of one segment; without a usable one every lookup returns nothing."""

    def __init__(self, file: LogFile, source: Source) -> None:
        self.file = file
        self.source = source
        self.offsets: Sequence[int] = ()  # Relative to the base offset, as stored.
        self.positions: Sequence[int] = ()
        if file.kind == "segment" and file.base_offset >= 0:
            self._read_offsets()

    def _bytes(self, suffix: str, entry_bytes: int) -> bytes:
        if suffix not in self.file.indexes:
            return b""
        store, path = store_of(self.file.filesystem), self.file.sibling(suffix)
        entry = store.entry(path)
        if entry is None or entry.size > INDEX_BYTES_MAX:
            return b""
        try:
            with store.open(path, entry.size) as source:
                data = bytes(source.read(0, entry.size))
        except FileNotFoundError:
            return b""
        zero, entries = bytes(entry_bytes), range(len(data) // entry_bytes)
        filled = bisect_left(
            entries, 1, key=lambda at: data[at * entry_bytes : (at + 1) * entry_bytes] == zero
        )
        return data[: filled * entry_bytes]

    def _read_offsets(self) -> None:
        cells = array("i", self._bytes(".index", _OFFSET_ENTRY_BYTES))
        if sys.byteorder == "little":
            cells.byteswap()
        offsets, positions = cells[0::2], cells[1::2]
        if _ascend(offsets) and _ascend(positions):  # Else Kafka did not write it.
            self.offsets, self.positions = offsets, positions

    def _times(self) -> list[tuple[int, int]]:
        """Return timestamps and offsets, these to the base offset too."""
        entries = list(_TIME_ENTRY.iter_unpack(self._bytes(".timeindex", _TIME_ENTRY.size)))
        if all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries)):
            return entries
        return []

    def _holds(self, entry: int, end: int) -> bool:
        """Whether the log has a good batch at the position of the entry, with a matching offset."""
        position = self.positions[entry]
        if not 0 <= position < end or not self.source.has_batch(position, self.source.size):
            return False
        header = self.source.header_at(position)
        return (
            header is not None and header.base_offset <= self.file.base_offset + self.offsets[entry]
        )

    def batch_from(self, target: int, end: int) -> int | None:
        """Return the start of a good batch from byte ``target`` on; None when none is known."""
        first = bisect_left(self.positions, target)
        for entry in range(first, min(first + TRIES_MAX, len(self.positions))):
            if self._holds(entry, end):
                return self.positions[entry]
        return None

    def bytes_of(self, filter_: Filter) -> tuple[int, int]:
        """Return the bytes in which rows may match: from a batch to a batch, all at worst."""
        start, end, base = 0, self.file.size, self.file.base_offset
        least, greatest = filter_.bounds("offset")
        earliest, _ = filter_.bounds("timestamp")
        if earliest is not None:
            times = self._times()
            at = bisect_left(times, (earliest, -1)) - 1
            if at >= 0:  # All up to this offset is earlier.
                least = max(base + times[at][1] + 1, least if least is not None else 0)
        if least is not None:
            entry = bisect_right(self.offsets, least - base) - 1
            if entry >= 0 and self._holds(entry, end):
                start = self.positions[entry]
        if greatest is not None:
            first = bisect_right(self.offsets, greatest - base)
            for entry in range(first, min(first + TRIES_MAX, len(self.offsets))):
                if self.positions[entry] <= start or not self._holds(entry, end):
                    continue
                header = self.source.header_at(self.positions[entry])
                if header is not None and header.base_offset > greatest:
                    end = self.positions[entry]
                    break
        return start, end


def _ascend(cells: array[int]) -> bool:
    return all(map(lt, cells, islice(cells, 1, None)))
