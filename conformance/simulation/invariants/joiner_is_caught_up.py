"""Who is made a voter has caught up with its leader before (KIP-853, AddVoter).

A voter that has nothing counts for majorities all the same: with too many of them nothing is
committed until they have fetched it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica
    from kraftspec.reference.raft.control import ControlRecord


class JoinerIsCaughtUp(Invariant):
    """See the module. Once caught up with this leader, it has the record that opened the epoch."""

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Look at the disks of those who are new."""
        if replica.core.role.name is not RoleName.LEADER:
            return
        before = [voters for at, voters in replica.core.log.voters.entries() if at < offset]
        if not before and replica.world.protocol.stores_voters:
            before.append(replica.first_voters)
        if not before:
            return
        for voter in replica.profile.policy.folded(record, before[-1]) or ():
            if before[-1].is_voter(voter.key):
                continue
            joiner = replica.world.replica_of(voter.key)
            end = joiner.durable_end if joiner is not None else 0
            if end <= replica.epoch_start:
                self.fail(
                    f"leader {replica.id} adds {voter.key}, whose log ends at {end}, before the "
                    f"leader's epoch, which began at {replica.epoch_start}"
                )


INVARIANT = JoinerIsCaughtUp
