"""A new voter has caught up with its leader before it becomes one (KIP-853, AddVoter).

A voter that has nothing counts for majorities all the same: with too many of them nothing is
committed until they have fetched it all.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class NewVoterIsCaughtUp(Invariant):
    """Looks at the log of each replica when a leader adds it as a voter.

    Once caught up with this leader, it has the record that opened the epoch.
    """

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Look at the disks of those who are new."""
        if replica.core.role.name is not RoleName.LEADER:
            return
        before = [voters for at, voters in replica.core.log.voters.entries() if at < offset]
        if not before:
            return
        for voter in replica.profile.policy.folded(record, before[-1]) or ():
            if before[-1].is_voter(voter.key):
                continue
            added = replica.world.replica_of(voter.key)
            end = added.durable_end if added is not None else 0
            if end <= replica.epoch_start:
                self.fail(
                    f"leader {replica.id} adds {voter.key}, whose log ends at {end}, before the "
                    f"leader's epoch, which began at {replica.epoch_start}"
                )


INVARIANT = NewVoterIsCaughtUp
