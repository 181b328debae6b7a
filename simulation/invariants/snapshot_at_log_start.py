"""A log that starts after 0 starts where its first snapshot ends (Kafka's SnapshotAtLogStart).

And the epoch in that snapshot's name is the one that wrote the record before its end: as the log's
epoch cache says, and as its batches do, one as well as the other.
"""

from __future__ import annotations

from bisect import bisect_left

from kraftspec.reference.raft import SnapshotId
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class SnapshotAtLogStart(Invariant):
    """Compares the start of a log with the end of its first snapshot."""

    def log_start_changed(self, replica: Replica) -> None:
        """Look when the start moved."""
        self._look(replica)

    def snapshot_written(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Look when there is another; a fetched one is valid once the log is reset to it."""
        self._look(replica)

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Look when the log was replaced."""
        self._look(replica)

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """Look when a node recovered, unless it is about to reset its log to a snapshot."""
        if not replica.will_reset:
            self._look(replica)

    def _look(self, replica: Replica) -> None:
        start = replica.log_model.start_offset
        ids = [snapshot for snapshot in replica.snapshots if snapshot.end_offset > 0]
        first = min(ids, key=lambda snapshot: snapshot.end_offset, default=None)
        earliest = None if first is None else first.end_offset
        if start > 0 and earliest != start:
            self.fail(
                f"node {replica.id}: the log starts at {start}, the first snapshot is {earliest}"
            )
        if earliest is not None and earliest < start:
            self.fail(f"node {replica.id} keeps a snapshot of {earliest} before its log")
        if first is not None:
            self._look_at_epoch(replica, SnapshotId(*first))

    def _look_at_epoch(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Hold a snapshot that is in the log against the epochs around its end."""
        end, epoch = snapshot
        log_model = replica.log_model
        if end > log_model.end_offset:
            return  # A fetched one: the log is about to start there.
        index = bisect_left(log_model.ends, end)  # The batch that has the record before.
        written = log_model.epochs[index] if end > log_model.start_offset else log_model.start_epoch
        if written != epoch:
            self.fail(f"node {replica.id}: {snapshot}, and epoch {written} wrote what it ends with")
        cached = replica.cached_epochs
        at = bisect_left(cached, end, key=lambda entry: entry.start_offset)
        if at and cached[at - 1].epoch != epoch:
            self.fail(f"node {replica.id}: {snapshot}, and the cache has {tuple(cached[at - 1])}")


INVARIANT = SnapshotAtLogStart
