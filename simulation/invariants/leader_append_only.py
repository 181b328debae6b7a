"""A leader never cuts its own log, opens its epoch with a record, and writes no other epoch."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName, SnapshotId
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class LeaderAppendOnly(Invariant):
    """Looks at what leaders write and cut (Raft, figure 3)."""

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """The step that made a leader wrote the first record of its epoch (KIP-595)."""
        if new is RoleName.LEADER and replica.log_model.last_epoch != replica.core.epoch:
            self.fail(f"node {replica.id} leads epoch {replica.core.epoch}, and did not open it")

    def truncating(self, replica: Replica, end_offset: int) -> None:
        """Not while it leads."""
        if replica.role is RoleName.LEADER and replica.core.role.name is RoleName.LEADER:
            self.fail(f"leader {replica.id} cuts its log at {end_offset}")

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Nor does a leader load a snapshot (Kafka's LeaderNeverLoadSnapshot)."""
        if replica.core.role.name is RoleName.LEADER:
            self.fail(f"leader {replica.id} takes snapshot {snapshot}")

    def appended(self, replica: Replica, first: int) -> None:
        """What a leader writes is of its epoch."""
        if replica.core.role.name is RoleName.LEADER:
            epochs = replica.log_model.epochs[first:]
            if any(epoch != replica.core.epoch for epoch in epochs):
                self.fail(f"leader {replica.id} of {replica.core.epoch} writes epochs {epochs}")


INVARIANT = LeaderAppendOnly
