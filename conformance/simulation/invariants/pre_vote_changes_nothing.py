"""A pre-vote leaves no trace on the disk of who is asked, unless its epoch is a higher one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Request, Vote

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class PreVoteChangesNothing(Invariant):
    """See the module (KIP-996)."""

    def request_handled(self, replica: Replica, request: Request, effects: list[Any]) -> None:
        """Look for what a pre-vote would write."""
        if not isinstance(request, Vote) or not request.pre_vote:
            return
        for effect in effects:
            if isinstance(effect, PersistElection):
                if request.epoch <= replica.stored.epoch:
                    self.fail(f"node {replica.id} stored {effect.state} over a pre-vote")
                if effect.state.voted is not None and effect.state.voted.id == request.replica_id:
                    self.fail(f"node {replica.id} stored a vote for who asked for a pre-vote")


INVARIANT = PreVoteChangesNothing
