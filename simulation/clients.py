"""Those who use the quorum: state machines that append, and an operator who changes it.

An append is known by its number, which is in the bytes of its records, so no two are alike.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

OPERATOR = -100  # The source of requests that no node sends.
RECORD_HEAD = b"append"


class Operation(msgspec.Struct, gc=False):
    """One append: called, then acknowledged with offsets, or its fate is not known (-1)."""

    id: int
    node: int
    epoch: int  # In which its state machine leads, as that was told.
    called_us: int
    ended_us: int = -1
    base_offset: int = -1
    end_offset: int = -1
    chain: int = -1  # Of the log up to its end, once it is written.


def records_of(operation_id: int, count: int, size: int) -> tuple[bytes, ...]:
    """Return the records of an append: its number, which record it is, and filling."""
    filling = bytes(max(0, size - 14))
    return tuple(
        b"%s%08x%04x%s" % (RECORD_HEAD, operation_id, index, filling) for index in range(count)
    )


class Appends:
    """All appends of a run; those of a node that goes down end unknown.

    ``ended`` is called with each that is acknowledged.
    """

    def __init__(self, ended: Callable[[Operation], None]) -> None:
        self.ended = ended
        self.begun = 0
        self.acknowledged = 0
        self.refused = 0
        self.lost = 0
        # Node → the appends that it took and did not commit yet, in order.
        self.open: dict[int, list[Operation]] = {}
        self._called: dict[int, Operation] = {}

    def call(self, node: int, epoch: int, now_us: int) -> Operation:
        """Begin an append at a node."""
        self.begun += 1
        operation = Operation(self.begun, node, epoch, now_us)
        self._called[operation.id] = operation
        return operation

    def took(self, operation_id: int, base_offset: int, end_offset: int) -> Operation | None:
        """A leader says which offsets an append will have; it may write it later. Return it."""
        operation = self._called.pop(operation_id, None)
        if operation is not None:
            operation.base_offset, operation.end_offset = base_offset, end_offset
            self.open.setdefault(operation.node, []).append(operation)
        return operation

    def written(self, node: int, end_offset: int, first_record: bytes, chain: int) -> None:
        """A leader wrote a batch: if it is an append's, remember what the log was with it."""
        for operation in self.open.get(node, ()):
            if operation.end_offset == end_offset:
                if first_record.startswith(b"%s%08x" % (RECORD_HEAD, operation.id)):
                    operation.chain = chain
                return

    def refuse(self, operation_id: int) -> None:
        """A node said no: nothing was appended."""
        if self._called.pop(operation_id, None) is not None:
            self.refused += 1

    def committed(self, node: int, high_watermark: int, now_us: int) -> None:
        """A node that still leads knows what is committed: acknowledge."""
        waiting = self.open.get(node)
        while waiting and waiting[0].end_offset <= high_watermark:
            operation = waiting.pop(0)
            operation.ended_us = now_us
            self.acknowledged += 1
            self.ended(operation)

    def give_up(self, node: int) -> None:
        """A node no longer leads, or is down: nobody knows what becomes of the rest."""
        waiting = self.open.pop(node, None)
        if waiting:
            self.lost += len(waiting)
