"""A node votes once an epoch, across crashes, and a vote is on its disk before it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft.messages import Vote

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class OneVote(Invariant):
    """See the module (KIP-595: votedId is stored)."""

    def __init__(self) -> None:
        self.given: dict[tuple[object, int], int] = {}  # (voter's key, epoch) → whom it voted for.

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """A granted vote is the first of its epoch, and stored."""
        if not granted or request.pre_vote:
            return
        self._gives(replica, request.epoch, request.replica_id)
        stored = replica.stored
        if stored.epoch < request.epoch or (
            stored.epoch == request.epoch
            and (stored.voted is None or stored.voted.id != request.replica_id)
        ):
            self.fail(
                f"node {replica.id} gives {request.replica_id} its vote of epoch {request.epoch}, "
                f"and has stored {stored}"
            )

    def vote_asked(self, replica: Replica, request: Vote) -> None:
        """A candidate has voted for itself, and stored that."""
        if request.pre_vote:
            return
        self._gives(replica, request.epoch, replica.id)
        stored = replica.stored
        if stored.epoch != request.epoch or stored.voted is None or stored.voted.id != replica.id:
            self.fail(f"candidate {replica.id} asks in epoch {request.epoch}, and stored {stored}")

    def _gives(self, replica: Replica, epoch: int, candidate: int) -> None:
        known = self.given.setdefault((replica.key, epoch), candidate)
        if known != candidate:
            self.fail(f"node {replica.id} votes for {candidate} in epoch {epoch}, after {known}")


INVARIANT = OneVote
