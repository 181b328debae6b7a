"""A log that starts after 0 starts where its first snapshot ends (Kafka's SnapshotAtLogStart)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import SnapshotId

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.mirror import Mirror
    from kraftspec.conformance.simulation.replica import Replica


class SnapshotAtLogStart(Invariant):
    """See the module."""

    def log_start_changed(self, replica: Replica) -> None:
        """Look when the start moved."""
        self._look(replica)

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Look when the log was replaced."""
        self._look(replica)

    def started(self, replica: Replica, before: Mirror | None) -> None:
        """Look when a node recovered."""
        self._look(replica)

    def _look(self, replica: Replica) -> None:
        start = replica.mirror.start_offset
        ids = [snapshot for snapshot in replica.storage.log.snapshots if snapshot.end_offset > 0]
        earliest = min((snapshot.end_offset for snapshot in ids), default=None)
        if start > 0 and earliest != start:
            self.fail(
                f"node {replica.id}: the log starts at {start}, the first snapshot is {earliest}"
            )
        if earliest is not None and earliest < start:
            self.fail(f"node {replica.id} keeps a snapshot of {earliest} before its log")


INVARIANT = SnapshotAtLogStart
