"""What a log holds, in little memory: whole logs are compared without being read again.

Offsets are divided into blocks, and a block has the sum of the fingerprints of the batches that
begin in it. A block is one offset at first: the index then has every batch. When there are too many
blocks, two become one, whose sum is theirs: memory has a limit, however long the log is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

BLOCKS_MAX: Final = 1 << 16
_MASK: Final = (1 << 64) - 1


class Block(NamedTuple):
    """The batches that begin at ``start`` or later, and before the next multiple of ``size``."""

    start: int
    size: int
    fingerprint: int


class Fingerprints:
    """The blocks of one log. ``place`` is where a block's first batch is: see ``places``."""

    __slots__ = ("_key", "_keys", "_places", "_shift", "_sums", "blocks_max")

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self.blocks_max = blocks_max
        self._shift = 0
        self._key = -1  # The block that grows.
        self._keys = array("q")
        self._sums = array("Q")
        self._places = array("q")

    def add(self, base_offset: int, last_offset: int, epoch: int, crc: int, place: int) -> None:
        """Note a batch, behind all others."""
        # A hash of integers is the same in every process.
        one = hash((base_offset, last_offset, epoch, crc)) & _MASK
        key = base_offset >> self._shift
        if key == self._key:
            self._sums[-1] = (self._sums[-1] + one) & _MASK
            return
        if len(self._keys) >= self.blocks_max:
            self._coarsen()
            self.add(base_offset, last_offset, epoch, crc, place)
            return
        self._key = key
        self._keys.append(key)
        self._sums.append(one)
        self._places.append(place)

    def _coarsen(self) -> None:
        keys, sums, places = self._keys, self._sums, self._places
        self._keys, self._sums, self._places = array("q"), array("Q"), array("q")
        self._shift += 1
        last = -1
        for key, one, place in zip(keys, sums, places, strict=True):
            if key >> 1 == last:
                self._sums[-1] = (self._sums[-1] + one) & _MASK
            else:
                last = key >> 1
                self._keys.append(last)
                self._sums.append(one)
                self._places.append(place)
        self._key = last

    @property
    def shift(self) -> int:
        """A block has 2 to the power of this many offsets."""
        return self._shift

    def blocks(self, shift: int) -> Iterator[Block]:
        """Yield the blocks, in order, as if they had 2 to the power of ``shift`` offsets."""
        by, size = shift - self._shift, 1 << shift
        last, total = -1, 0
        for key, one in zip(self._keys, self._sums, strict=True):
            if key >> by == last:
                total = (total + one) & _MASK
                continue
            if last >= 0:
                yield Block(last << shift, size, total)
            last, total = key >> by, one
        if last >= 0:
            yield Block(last << shift, size, total)

    def place_before(self, offset: int) -> int:
        """Return the place of a batch at ``offset`` or before it, as near as is known; -1: none."""
        at = bisect_right(self._keys, offset >> self._shift) - 1
        return self._places[at] if at >= 0 else -1


def suspects(one: Fingerprints, other: Fingerprints, start: int, end: int) -> Iterator[range]:
    """Yield the ranges of offsets between ``start`` and ``end`` where two logs may differ.

    The first that really holds a difference is where they part. A range that only one of the ends
    divides is suspect although the logs agree there.
    """
    shift = max(one.shift, other.shift)
    left, right = _inside(one, shift, start, end), _inside(other, shift, start, end)
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if a == b:
            a, b = next(left, None), next(right, None)
            continue
        at = min(block.start for block in (a, b) if block is not None)
        size = 1 << shift
        yield range(max(at, start), min(at + size, end))
        if a is not None and a.start == at:
            a = next(left, None)
        if b is not None and b.start == at:
            b = next(right, None)


def _inside(of: Fingerprints, shift: int, start: int, end: int) -> Iterator[Block]:
    return (
        block
        for block in of.blocks(shift)
        if block.start + block.size > start and block.start < end
    )
