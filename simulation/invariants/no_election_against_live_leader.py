"""No node stands for election against a leader that a majority follows (KIP-996).

Following takes a while to count: a pre-vote may have been granted before, and its answer be late.
Where a voter knows no pre-votes, nobody asks for any, and nothing of this is promised.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import S

# A pre-vote is counted for two seconds at the most, by a clock that may stand still for four.
FOLLOWED_US = 10 * S


class NoElectionAgainstLiveLeader(Invariant):
    """Looks at elections that begin while a majority follows a leader."""

    def __init__(self) -> None:
        self.since_us: dict[int, int] = {}  # Node → when it got its role, in its epoch.

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """Its role begins with this incarnation."""
        self.since_us[replica.id] = replica.world.now_us

    def epoch_changed(self, replica: Replica, old: int, new: int) -> None:
        """A new epoch."""
        self.since_us[replica.id] = replica.world.now_us

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Look for a leader that is well followed, when there is a new candidate."""
        now_us = replica.world.now_us
        self.since_us[replica.id] = now_us
        if old is None or new is not RoleName.CANDIDATE:
            return
        leader = replica.world.leader()
        if leader is None or leader.epoch >= replica.core.epoch:
            return
        if any(other.api_max for other in replica.world.replicas.values()):
            return
        followers = 0
        for voter in leader.core.log.voters.last:
            other = replica.world.replica_of(voter.key)
            if other is None or not other.is_up or other.epoch != leader.epoch:
                continue
            is_part = other is leader or (
                other.role is RoleName.FOLLOWER and other.core.leader_id == leader.id
            )
            followers += is_part and now_us - self.since_us[other.id] >= FOLLOWED_US
        if followers >= leader.core.log.voters.last.majority:
            self.fail(
                f"node {replica.id} stands for election in epoch {replica.core.epoch}, and "
                f"{followers} voters follow leader {leader.id} of epoch {leader.epoch}"
            )


INVARIANT = NoElectionAgainstLiveLeader
