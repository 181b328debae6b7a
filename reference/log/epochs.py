"""Which leader epoch wrote which offsets: the leader-epoch-checkpoint, and what is asked of it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final, NamedTuple

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
_VERSION: Final = "0"


class EpochEntry(NamedTuple):
    """An epoch, and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochList:
    """The epochs of a log, rising, each from a higher offset than the one before.

    As ``LeaderEpochFileCache``; an epoch without a record is not in it.
    """

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries: list[EpochEntry] = list(entries or [])

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; -1 where there is none."""
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch``, above all others, begins at ``start_offset``."""
        self.truncate_to(start_offset)
        self.entries.append(EpochEntry(epoch, start_offset))

    def truncate_to(self, end_offset: int) -> None:
        """Forget the epochs that begin at ``end_offset`` or behind it."""
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()

    def start_at(self, start_offset: int) -> None:
        """Forget what was before ``start_offset``: the epoch that covers it begins there."""
        at = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if at >= 0:
            self.entries[: at + 1] = [EpochEntry(self.entries[at].epoch, start_offset)]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``; -1 where it is before all epochs."""
        at = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[at - 1].epoch if at else -1

    def to_checkpoint(self) -> bytes:
        """Return the file as Kafka writes it: version, count, then an entry a line."""
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in self.entries]
        return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()

    @classmethod
    def from_checkpoint(cls, data: bytes) -> EpochList:
        """Read the file; ValueError says what is wrong with it."""
        lines = data.decode("ascii").split("\n")
        if lines[0] != _VERSION:
            raise ValueError(f"line 1: version {lines[0]!r}, and only {_VERSION} is known")
        entries = [EpochEntry(*map(int, line.split(" "))) for line in lines[2:] if line]
        if len(entries) != int(lines[1]):
            raise ValueError(f"line 2 says {lines[1]} entries, and there are {len(entries)}")
        for before, after in pairwise(entries):
            if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                raise ValueError(f"{tuple(after)} follows {tuple(before)}, and does not rise")
        return cls(entries)
