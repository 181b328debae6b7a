"""What a node's log should be, kept apart from it: ends, epochs and a chain over the bytes.

The chain of a log at an offset is a CRC over all batches before it, so two logs are the same up to
an offset when their chains there are. A snapshot carries the chain of what it stands for.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

from kraftspec.fastpath import crc32c

SNAPSHOT_STATE = struct.Struct(">qI")  # The one data record of a snapshot: end offset, chain.
_HEAD = struct.Struct(">qii")  # base offset, length of what follows, partition leader epoch
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_OVERHEAD_BYTES = 12


class LogModel:
    """The batches of one log, without their bytes.

    ``ends`` are the offsets after each; ``end_offset`` is the last of them, or the start.
    """

    __slots__ = (
        "chains",
        "end_offset",
        "ends",
        "epochs",
        "start_chain",
        "start_epoch",
        "start_offset",
    )

    def __init__(self, start_offset: int = 0, start_chain: int = 0, start_epoch: int = 0) -> None:
        self.start_offset = self.end_offset = start_offset
        self.start_chain = start_chain
        self.start_epoch = start_epoch
        self.ends: list[int] = []
        self.epochs: list[int] = []
        self.chains: list[int] = []

    @property
    def end_chain(self) -> int:
        """The chain of the whole log."""
        return self.chains[-1] if self.chains else self.start_chain

    @property
    def start(self) -> tuple[int, int, int]:
        """Where the log starts, and what was before: what follows depends on nothing else."""
        return self.start_offset, self.start_chain, self.start_epoch

    @property
    def last(self) -> tuple[int, int]:
        """The epoch of the last batch, and the end offset: what a voter compares."""
        return self.last_epoch, self.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch."""
        return self.epochs[-1] if self.epochs else self.start_epoch

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Take batches in; return the index of the first."""
        view = memoryview(data)
        first, chain, position = len(self.ends), self.end_chain, 0
        while position < len(view):
            base_offset, length, epoch = _HEAD.unpack_from(view, position)
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(view, position + _LAST_OFFSET_DELTA_AT)
            end = position + _OVERHEAD_BYTES + length
            chain = crc32c(view[position:end], chain)
            self.ends.append(base_offset + delta + 1)
            self.epochs.append(epoch)
            self.chains.append(chain)
            position = end
        self._set_end()
        return first

    def up_to(self, end_offset: int) -> LogModel:
        """Return another log, of the batches up to an offset."""
        other = LogModel(*self.start)
        count = bisect_right(self.ends, end_offset)
        other.ends = self.ends[:count]
        other.epochs = self.epochs[:count]
        other.chains = self.chains[:count]
        other._set_end()
        return other

    def truncate_to(self, end_offset: int) -> None:
        """Forget batches that end after ``end_offset``."""
        keep = bisect_left(self.ends, end_offset + 1)
        del self.ends[keep:], self.epochs[keep:], self.chains[keep:]
        self._set_end()

    def start_at(self, offset: int) -> None:
        """Forget batches that end at ``offset`` or before; it is the end of one."""
        index = self.index_of(offset)
        if index >= 0:
            self.start_offset, self.start_chain = offset, self.chains[index]
            self.start_epoch = self.epochs[index]
            del self.ends[: index + 1], self.epochs[: index + 1], self.chains[: index + 1]
            self._set_end()

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that ends at ``offset``; -1 if none does."""
        index = bisect_left(self.ends, offset)
        return index if index < len(self.ends) and self.ends[index] == offset else -1

    def chain_at(self, offset: int) -> int | None:
        """Return the chain of everything before ``offset``; None if no batch ends there."""
        if offset == self.start_offset:
            return self.start_chain
        index = self.index_of(offset)
        return self.chains[index] if index >= 0 else None

    def edges_of(self, offset: int) -> tuple[int, int] | None:
        """Return where the batch that has this record begins and ends; None if there is none."""
        index = bisect_right(self.ends, offset)
        is_there = self.start_offset <= offset < self.end_offset
        return (self.base_of(index), self.ends[index]) if is_there else None

    @property
    def last_epoch_start(self) -> int:
        """The first offset of the last epoch; the start of the log, if it has no batch."""
        first = bisect_left(self.epochs, self.last_epoch)
        return self.base_of(first) if first < len(self.epochs) else self.start_offset

    def base_of(self, index: int) -> int:
        """Return the base offset of a batch."""
        return self.ends[index - 1] if index else self.start_offset

    def _set_end(self) -> None:
        self.end_offset = self.ends[-1] if self.ends else self.start_offset
