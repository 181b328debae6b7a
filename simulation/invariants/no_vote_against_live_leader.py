"""A leader, and a follower that has fetched from it, grant no vote against it.

KIP-996: a leader rejects pre-votes of its own epoch, and so does a follower that has fetched from
it. Otherwise a node with a clock jump, or one that was partitioned, could depose a leader that
serves the others well. Who is no voter has no time-out that ends its following: after a fetch
time-out without anything new, or once the leader says that it resigns, it may grant pre-votes, or
it would refuse them for ever.
"""

from __future__ import annotations

from kraftspec.reference.raft import ElectionState, RoleName
from kraftspec.reference.raft.messages import EndEpoch, Request, Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class NoVoteAgainstLiveLeader(Invariant):
    """Looks at pre-votes that nodes grant while they have a leader.

    That a follower has fetched shows in what it appended since it follows.
    """

    def __init__(self) -> None:
        self.has_fetched: dict[int, bool] = {}
        self.fetched_us: dict[int, int] = {}  # Node → when it last appended, by its own clock.
        self.ended: set[int] = set()  # Epochs whose leader says that it resigns.

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """Whoever begins to follow stores whom."""
        self.has_fetched[replica.id] = False

    def appended(self, replica: Replica, first: int) -> None:
        """Its leader has sent something."""
        self.has_fetched[replica.id] = replica.core.role.name is RoleName.FOLLOWER
        self.fetched_us[replica.id] = replica.clock_us()

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """Whoever resigns tells the others."""
        if isinstance(request, EndEpoch):
            self.ended.add(request.leader_epoch)

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """Look at its role before the request. A new epoch ends that role."""
        if not granted or request.epoch != replica.epoch:
            return
        if replica.role is RoleName.LEADER:
            self.fail(f"leader {replica.id} of epoch {replica.epoch} grants {request}")
        if replica.role is not RoleName.FOLLOWER or not self.has_fetched.get(replica.id):
            return
        silent_us = replica.clock_us() - self.fetched_us[replica.id]
        is_lax = request.pre_vote and not replica.core.is_voter
        is_silent = silent_us >= replica.config.fetch_timeout_us or request.epoch in self.ended
        if not (is_lax and is_silent):
            self.fail(f"node {replica.id} has fetched from its leader, and grants {request}")


INVARIANT = NoVoteAgainstLiveLeader
