"""What becomes of records that a node appends as the leader."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import events as ev

if TYPE_CHECKING:
    from collections import deque

    from kraftspec.reference.raft import effects as fx

# Appends share a batch up to this size: with 64 appends of 100 records in flight, three nodes over
# TCP took a quarter more than with 1 KiB, and more than with 64 KiB. Much more would let followers
# wait for the first.
SHARED_BYTES_MAX: Final = 256 << 10

_UNKNOWN: Final = "this node leads no longer: whether the records are committed, it cannot say"


class NotAppendedError(Exception):
    """Records were not appended, or it is unknown whether they were; ``error`` is Kafka's code."""

    def __init__(self, error: int, message: str) -> None:
        super().__init__(message)
        self.error = error


class Appended(NamedTuple):
    """Where records are, now that they are committed."""

    epoch: int
    base_offset: int
    last_offset: int


class _Batch(NamedTuple):
    """Appends that share a batch: the number of records of each, and what waits for it."""

    request: ev.AppendRequested
    records: list[bytes]  # Of the request: it can grow while the request waits in the inbox.
    appends: list[tuple[int, asyncio.Future[Appended]]]

    def complete(self, epoch: int, base_offset: int) -> None:
        """Let the appends return where their records are."""
        for count, future in self.appends:
            if not future.done():
                future.set_result(Appended(epoch, base_offset, base_offset + count - 1))
            base_offset += count

    def fail(self, error: int, message: str) -> None:
        """Let the appends raise."""
        for _, future in self.appends:
            if not future.done():
                future.set_exception(NotAppendedError(error, message))


class Appending:
    """The appends of a node that are not committed yet.

    Those that wait in the node's inbox one behind another share a batch, as in Kafka's
    BatchAccumulator. ``post`` puts an event into the inbox.
    """

    def __init__(self, inbox: deque[ev.Event], post: Callable[[ev.Event], None]) -> None:
        self._inbox = inbox
        self._post = post
        self._append_id = 0
        self._newest_bytes = 0
        self._batches: dict[int, _Batch] = {}  # By append id.
        self._uncommitted: list[tuple[int, int, fx.Appended]] = []  # (last offset, append id, …)

    def add(self, epoch: int, records: Sequence[bytes]) -> asyncio.Future[Appended]:
        """Ask the core to append records in ``epoch``, all in one batch."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        size_bytes = sum(map(len, records))
        batch = self._shared(epoch, size_bytes) if records else None
        if batch is None:
            self._append_id += 1
            copied = list(records)
            request = ev.AppendRequested(self._append_id, epoch, copied)
            self._batches[self._append_id] = _Batch(request, copied, [(len(copied), future)])
            self._newest_bytes = size_bytes
            self._post(request)
        else:
            batch.records.extend(records)
            batch.appends.append((len(records), future))
            self._newest_bytes += size_bytes
        return future

    def _shared(self, epoch: int, size_bytes: int) -> _Batch | None:
        """Return the last batch, if it has room and is the last event in the inbox."""
        batch = self._batches.get(self._append_id)
        if (
            batch is None
            or not self._inbox
            or self._inbox[-1] is not batch.request
            or batch.request.epoch != epoch
            or not batch.records
            or self._newest_bytes + size_bytes > SHARED_BYTES_MAX
        ):
            return None
        return batch

    def appended(self, effect: fx.Appended) -> None:
        """Wait until a batch is committed."""
        heapq.heappush(self._uncommitted, (effect.last_offset, effect.append_id, effect))

    def refused(self, effect: fx.AppendRefused) -> None:
        """Fail the appends of a batch."""
        batch = self._batches.pop(effect.append_id, None)
        if batch is not None:
            batch.fail(effect.error, f"not appended: {ErrorCode(effect.error).name}")

    def committed(self, high_watermark: int, epoch: int) -> None:
        """Complete what is below the high watermark of an epoch."""
        waiting = self._uncommitted
        while waiting and waiting[0][0] < high_watermark:
            _, append_id, appended = heapq.heappop(waiting)
            batch = self._batches.pop(append_id, None)
            if batch is None:
                continue
            if appended.epoch == epoch:
                batch.complete(epoch, appended.base_offset)
            else:  # These offsets are another leader's records.
                batch.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, _UNKNOWN)

    def give_up(self) -> None:
        """Fail what the log has and is not committed: this node leads no longer."""
        waiting, self._uncommitted = self._uncommitted, []
        for _, append_id, _ in waiting:
            if (batch := self._batches.pop(append_id, None)) is not None:
                batch.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, _UNKNOWN)

    def close(self) -> None:
        """Fail everything: the node stops."""
        self.give_up()
        for batch in self._batches.values():
            batch.fail(ErrorCode.BROKER_NOT_AVAILABLE, "the node stopped")
