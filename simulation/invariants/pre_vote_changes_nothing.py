"""A pre-vote, asked for or given, moves no epoch and no vote on disk.

A request of a higher epoch moves its receiver to that epoch, as any request does (KIP-595). After
its answer, a node does what its clock and its lost elections make it do in any step: it may forget
a leader, or stand as candidate of the next epoch, and nothing else.
"""

from __future__ import annotations

from typing import Any

from kraftspec.reference.raft import ElectionState
from kraftspec.reference.raft.effects import Answer, PersistElection
from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class PreVoteChangesNothing(Invariant):
    """Compares a node's epoch and vote before and after a pre-vote (KIP-996)."""

    def vote_handled(self, replica: Replica, request: Vote, effects: list[Any]) -> None:
        """Look for what a pre-vote would write, before its answer and behind it."""
        if not request.pre_vote:
            return
        stored = replica.stored
        answers = [index for index, effect in enumerate(effects) if isinstance(effect, Answer)]
        answered_at = answers[0] if answers else len(effects)
        for index, effect in enumerate(effects):
            if isinstance(effect, PersistElection):
                state = effect.state
                if index > answered_at:
                    is_right = _by_itself(replica, stored, state)
                else:
                    is_right = state.epoch == request.epoch > stored.epoch and state.voted is None
                if not is_right:
                    self.fail(
                        f"node {replica.id} had stored {stored}, and stores {state} over a pre-vote"
                    )
                stored = state

    def vote_requested(self, replica: Replica, request: Vote) -> None:
        """Who asks for a pre-vote is in the epoch that it has stored, and asks in that."""
        if request.pre_vote and request.epoch != replica.stored.epoch:
            self.fail(
                f"node {replica.id} asks for a pre-vote in epoch {request.epoch}, and has stored "
                f"{replica.stored}"
            )


def _by_itself(replica: Replica, stored: ElectionState, state: ElectionState) -> bool:
    """Whether a node may go from one state to the other when a timer strikes."""
    if state.epoch == stored.epoch:
        if state.leader_id == replica.id and stored.voted == replica.key:  # It has won.
            return replica.core.log.voters.last.is_only_voter(replica.key)
        return state.voted == stored.voted and state.leader_id in (-1, stored.leader_id, replica.id)
    if state.epoch != stored.epoch + 1:
        return False
    has_led = stored.leader_id == replica.id and state.voted is None  # It had resigned.
    return has_led or state.voted == replica.key


INVARIANT = PreVoteChangesNothing
