"""A state machine that leads is never told to load a snapshot (Kafka's LeaderNeverLoadSnapshot).

It has everything that is committed, and appends on what it has: to begin anew would be to forget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName, SnapshotId

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.mirror import Mirror
    from kraftspec.conformance.simulation.replica import Replica


class LeaderLoadsNoSnapshot(Invariant):
    """See the module. A state machine leads from when it hears so until it hears of another."""

    def __init__(self) -> None:
        self.leads: dict[int, bool] = {}  # By node.

    def started(self, replica: Replica, before: Mirror | None) -> None:
        """A new life begins without a leader."""
        self.leads[replica.id] = False

    def leader_told(self, replica: Replica, leader_id: int) -> None:
        """Take note."""
        self.leads[replica.id] = leader_id == replica.id

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Who does not lead any more may load what the next leader has."""
        if new is not RoleName.LEADER:
            self.leads[replica.id] = False

    def snapshot_loaded(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Look who is told."""
        if self.leads.get(replica.id):
            self.fail(f"node {replica.id} leads, and is told to load {snapshot}")


INVARIANT = LeaderLoadsNoSnapshot
