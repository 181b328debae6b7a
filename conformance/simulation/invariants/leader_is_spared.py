"""Nobody helps to depose a leader that is there: who leads, or has fetched from it, says no.

KIP-996: a leader refuses pre-votes of its own epoch, and so does a follower that has fetched from
it; else a node whose clock jumped, or that was merely cut off, could unseat a leader that serves
the others well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import ElectionState, RoleName
from kraftspec.reference.raft.messages import Vote

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class LeaderIsSpared(Invariant):
    """See the module. That a follower has fetched shows in what it appended since it follows."""

    def __init__(self) -> None:
        self.has_fetched: dict[int, bool] = {}

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """Whoever begins to follow stores whom."""
        self.has_fetched[replica.id] = False

    def appended(self, replica: Replica, first: int) -> None:
        """Its leader has sent something."""
        self.has_fetched[replica.id] = replica.core.role.name is RoleName.FOLLOWER

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """Look at what it was before it was asked, and whether it is so no more by a new epoch."""
        if not granted or request.epoch != replica.epoch:
            return
        if replica.role is RoleName.LEADER:
            self.fail(f"leader {replica.id} of epoch {replica.epoch} grants {request}")
        if replica.role is RoleName.FOLLOWER and self.has_fetched.get(replica.id):
            self.fail(f"node {replica.id} has fetched from its leader, and grants {request}")


INVARIANT = LeaderIsSpared
