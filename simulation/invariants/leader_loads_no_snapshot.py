"""The state machine of a leader never loads a snapshot (Kafka's LeaderNeverLoadSnapshot).

It has everything that is committed, and appends on what it has: to begin anew would be to forget.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName, SnapshotId
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class LeaderLoadsNoSnapshot(Invariant):
    """Looks at snapshots that state machines load.

    A state machine leads from when it hears so until it hears of another.
    """

    def __init__(self) -> None:
        self.leads: dict[int, bool] = {}  # By node.

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """A new incarnation begins without a leader."""
        self.leads[replica.id] = False

    def leader_reported(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """Take note."""
        self.leads[replica.id] = leader_id == replica.id

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Who does not lead any more may load what the next leader has."""
        if new is not RoleName.LEADER:
            self.leads[replica.id] = False

    def snapshot_loaded(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Look at the role of the node."""
        if self.leads.get(replica.id):
            self.fail(f"node {replica.id} leads, and loads {snapshot}")


INVARIANT = LeaderLoadsNoSnapshot
