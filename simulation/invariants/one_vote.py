"""A node votes once an epoch, across crashes, and a vote is on its disk before it is given."""

from __future__ import annotations

from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class OneVote(Invariant):
    """Compares the votes of a node in one epoch, and looks for each on its disk.

    KIP-595: votedId is stored.
    """

    def __init__(self) -> None:
        self.votes: dict[tuple[object, int], int] = {}  # (voter's key, epoch) → the candidate.

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """A granted vote is the first of its epoch, and stored."""
        if not granted or request.pre_vote:
            return
        self._check_vote(replica, request.epoch, request.replica_id)
        stored = replica.stored
        if stored.epoch < request.epoch or (
            stored.epoch == request.epoch
            and (stored.voted is None or stored.voted.id != request.replica_id)
        ):
            self.fail(
                f"node {replica.id} gives {request.replica_id} its vote of epoch {request.epoch}, "
                f"and has stored {stored}"
            )

    def vote_requested(self, replica: Replica, request: Vote) -> None:
        """A candidate has voted for itself, and stored that."""
        if request.pre_vote:
            return
        self._check_vote(replica, request.epoch, replica.id)
        stored = replica.stored
        if stored.epoch != request.epoch or stored.voted is None or stored.voted.id != replica.id:
            self.fail(f"candidate {replica.id} asks in epoch {request.epoch}, and stored {stored}")

    def _check_vote(self, replica: Replica, epoch: int, candidate: int) -> None:
        known = self.votes.setdefault((replica.key, epoch), candidate)
        if known != candidate:
            self.fail(f"node {replica.id} votes for {candidate} in epoch {epoch}, after {known}")


INVARIANT = OneVote
