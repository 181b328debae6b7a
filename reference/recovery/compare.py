"""Where logs part, and who holds what: two logs at a time.

Logs that are of one quorum have the same batch wherever they have the same offset and epoch. They
may part: then they have other epochs from that offset on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from kraftspec.fastpath.records import BatchHeader
from kraftspec.reference.raft.types import NONE
from kraftspec.reference.recovery.fingerprints import suspects
from kraftspec.reference.recovery.walker import batches_from

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.recovery.reading import Directory


class Parting(NamedTuple):
    """Two logs differ from ``offset`` on; the epochs are those of the batches there.

    ``is_seen``: both batches are there. Otherwise one of them is known by a checkpoint alone.
    """

    offset: int
    epoch: int
    other_epoch: int
    is_seen: bool = True

    @property
    def is_conflict(self) -> bool:
        """Whether one (offset, epoch) has two contents: no quorum writes that."""
        return self.is_seen and self.epoch == self.other_epoch


class ChangedMeanwhileError(Exception):
    """A log is not what was read of it: its node is at work."""


class Comparison:
    """What is known of any two of these directories, by their numbers."""

    def __init__(self, directories: Sequence[Directory], files: ReadableFiles) -> None:
        self.directories = directories
        self._files = files
        self._partings: dict[tuple[int, int], Parting | None] = {}
        for a, b in combinations(range(len(directories)), 2):
            self._partings[a, b] = self._compare(directories[a], directories[b])

    def parting(self, a: int, b: int) -> Parting | None:
        """Return where two logs part; None where none is seen to."""
        if a == b:
            return None
        if a < b:
            return self._partings[a, b]
        parting = self._partings[b, a]
        return parting and parting._replace(epoch=parting.other_epoch, other_epoch=parting.epoch)

    def agree_until(self, a: int, b: int) -> int:
        """Return the offset before which both logs are the same, as far as both are known."""
        parting = self.parting(a, b)
        one, other = self.directories[a].log, self.directories[b].log
        end = min(one.end_offset, other.end_offset)
        return end if parting is None else min(parting.offset, end)

    def holds(self, a: int, reference: int, end_offset: int) -> bool:
        """Whether ``a`` is seen to have all that ``reference`` has before ``end_offset``.

        Where their logs do not meet before it, the epochs there decide, of log or checkpoint. What
        a later checkpoint of ``a`` covers counts, unless its epoch is an earlier one.
        """
        log, other = self.directories[a].log, self.directories[reference].log
        if a == reference or self.agree_until(a, reference) < end_offset:
            return a == reference and log.end_offset >= end_offset
        start = max(log.first, other.first)
        if start < end_offset or start == 0:
            return True  # They meet, and do not differ where they do.
        own, wanted = self._epoch_before(a, end_offset), self._epoch_before(reference, end_offset)
        if NONE not in (own, wanted):
            return own == wanted
        return any(
            one.id.end_offset >= end_offset and wanted <= one.id.epoch
            for one in self.directories[a].checkpoints
            if one.proves
        )

    def _epoch_before(self, number: int, end_offset: int) -> int:
        """Return the epoch of the record before an offset, by log or checkpoint; -1: unknown."""
        directory = self.directories[number]
        epoch = directory.log.epoch_of(end_offset - 1)
        ids = [one.id for one in directory.checkpoints if one.proves]
        return next((id_.epoch for id_ in ids if id_.end_offset == end_offset), epoch)

    def _compare(self, one: Directory, other: Directory) -> Parting | None:
        left, right = one.log, other.log
        for a, b, swapped in ((one, other, False), (other, one, True)):
            for checkpoint in a.checkpoints:
                end_offset, epoch = checkpoint.id
                if not checkpoint.proves or end_offset - 1 >= a.log.first:
                    continue  # The log itself is compared there.
                there = b.log.epoch_of(end_offset - 1)
                if there not in (NONE, epoch):
                    epochs = (there, epoch) if swapped else (epoch, there)
                    return Parting(end_offset - 1, *epochs, is_seen=False)
        start, end = max(left.first, right.first), min(left.end_offset, right.end_offset)
        if start >= end:
            return None
        for place in suspects(left.fingerprints, right.fingerprints, start, end):
            parting = self._look(one, other, place)
            if parting is not None:
                return parting
        return None

    def _look(self, one: Directory, other: Directory, place: range) -> Parting | None:
        left = self._headers(one, place)
        right = self._headers(other, place)
        for offset in sorted({*left, *right}):
            a, b = left.get(offset), right.get(offset)
            if a is None or b is None:  # One has a batch that goes on there.
                return Parting(offset, one.log.epoch_of(offset), other.log.epoch_of(offset))
            if _mark(a) != _mark(b):
                return Parting(offset, a.partition_leader_epoch, b.partition_leader_epoch)
        return None

    def _headers(self, directory: Directory, place: range) -> dict[int, BatchHeader]:
        batches = batches_from(directory, self._files, place.start, place.stop)
        headers = {header.base_offset: header for header, _ in batches}
        # A block is as large as it is: what is compared has so many batches, or a few more.
        if any(
            header.partition_leader_epoch != directory.log.epoch_of(offset)
            for offset, header in headers.items()
        ):
            raise ChangedMeanwhileError(directory.path)
        return headers


def _mark(header: BatchHeader) -> tuple[int, int, int]:
    return header.last_offset_delta, header.partition_leader_epoch, header.crc
