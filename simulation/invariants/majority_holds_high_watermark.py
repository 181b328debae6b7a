"""A leader's high watermark is on the disks of a majority of its voters, as they are now."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class MajorityHoldsHighWatermark(Invariant):
    """Counts the voters that have a leader's high watermark on disk.

    Kafka's MajorityReachedHighWatermark, with disks instead of logs.
    """

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Count the disks when a leader says more is committed."""
        if replica.core.role.name is not RoleName.LEADER:
            return
        voters = list(replica.core.log.voters.last)
        held = 0
        for voter in voters:
            other = replica.world.replica_of(voter.key)
            if other is not None and other.durable_end >= new:
                held += 1
        if held < len(voters) // 2 + 1:
            self.fail(
                f"leader {replica.id} says {new} is committed; {held} of {len(voters)} voters have "
                "it on disk"
            )


INVARIANT = MajorityHoldsHighWatermark
