"""What becomes of records that a node appends as the leader."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.config import (
    BATCH_BYTES_MAX,
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES_MAX,
)

if TYPE_CHECKING:
    from collections import deque

    from kraftspec.reference.raft import effects as fx

# Appends share a batch up to this size, counted as the leader counts. With 64 appends of 100
# records in flight, three nodes over TCP append a quarter more than where each append is a batch,
# and more than with 64 KiB. A much larger batch would keep followers idle until it is written.
SHARED_BYTES_MAX: Final = 256 << 10

_UNKNOWN: Final = (
    "this node is no longer the leader and cannot say whether the records are committed"
)
_TOO_LARGE: Final = (
    f": more than {BATCH_BYTES_MAX} bytes, with {BATCH_OVERHEAD_BYTES} for the batch and "
    f"{RECORD_OVERHEAD_BYTES_MAX} for each record; append fewer records at once"
)


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


# The appends that share a batch: the number of records of each, and what its caller waits for.
_Batch = list[tuple[int, asyncio.Future[Appended]]]


class Appending:
    """The appends of a node that are not committed yet.

    Those that wait in the node's inbox one behind another share a batch, as those of a linger do in
    Kafka's BatchAccumulator. ``post`` puts an event into the inbox.
    """

    def __init__(self, inbox: deque[ev.Event], post: Callable[[ev.Event], None]) -> None:
        self._inbox = inbox
        self._post = post
        self._append_id = 0
        self._newest: ev.AppendRequested | None = None
        self._newest_records: list[bytes] = []  # Its records, while it is the inbox's last event.
        self._newest_bytes = 0
        self._batches: dict[int, _Batch] = {}  # By append id.
        self._uncommitted: list[tuple[int, int, fx.Appended]] = []  # (last offset, append id, …)

    def add(self, epoch: int, records: Sequence[bytes]) -> asyncio.Future[Appended]:
        """Ask the core to append records in ``epoch``, all in one batch.

        Raises TypeError for a record that is not bytes-like.
        """
        size_bytes = len(b"".join(records)) + RECORD_OVERHEAD_BYTES_MAX * len(records)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        if not records or not self._has_room(epoch, size_bytes):
            self._append_id += 1
            self._newest_records, self._newest_bytes = [], BATCH_OVERHEAD_BYTES
            self._newest = ev.AppendRequested(self._append_id, epoch, self._newest_records)
            self._batches[self._append_id] = []
            self._post(self._newest)
        self._newest_records.extend(records)
        self._newest_bytes += size_bytes
        self._batches[self._append_id].append((len(records), future))
        return future

    def _has_room(self, epoch: int, size_bytes: int) -> bool:
        """Whether the newest batch waits as the last event, and may have so much more."""
        newest = self._newest
        return (
            newest is not None
            and bool(self._inbox)
            and self._inbox[-1] is newest
            and newest.epoch == epoch
            and bool(self._newest_records)
            and self._newest_bytes + size_bytes <= SHARED_BYTES_MAX
        )

    def appended(self, effect: fx.Appended) -> None:
        """Wait until a batch is committed."""
        heapq.heappush(self._uncommitted, (effect.last_offset, effect.append_id, effect))

    def refused(self, effect: fx.AppendRefused) -> None:
        """Fail the appends of a batch."""
        error = effect.error
        why = _TOO_LARGE if error == ErrorCode.RECORD_LIST_TOO_LARGE else ""
        self._fail(effect.append_id, error, f"not appended: {ErrorCode(error).name}{why}")

    def committed(self, high_watermark: int, epoch: int) -> None:
        """Complete what is below the high watermark of an epoch."""
        waiting = self._uncommitted
        while waiting and waiting[0][0] < high_watermark:
            _, append_id, appended = heapq.heappop(waiting)
            if appended.epoch != epoch:  # These offsets are another leader's records.
                self._fail(append_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, _UNKNOWN)
                continue
            offset = appended.base_offset
            for count, future in self._batches.pop(append_id, ()):
                if not future.done():
                    future.set_result(Appended(epoch, offset, offset + count - 1))
                offset += count

    def give_up(self) -> None:
        """Fail what the log has and is not committed: this node is no longer the leader."""
        waiting, self._uncommitted = self._uncommitted, []
        for _, append_id, _ in waiting:
            self._fail(append_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, _UNKNOWN)

    def close(self) -> None:
        """Fail everything: the node stops."""
        self.give_up()
        for append_id in list(self._batches):
            self._fail(append_id, ErrorCode.BROKER_NOT_AVAILABLE, "the node stopped")

    def _fail(self, append_id: int, error: int, message: str) -> None:
        for _, future in self._batches.pop(append_id, ()):
            if not future.done():
                future.set_exception(NotAppendedError(error, message))
