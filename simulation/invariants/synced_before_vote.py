"""A candidate asks for votes by a log that is on its disk.

Raft §5.1: what a server says of its log is on stable storage before. A voter that compares its log
with one which a power loss then shortens has elected a leader that may lack what was committed.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class SyncedBeforeVote(Invariant):
    """Compares the end that a candidate names with what it has synced; a pre-vote elects nobody."""

    def vote_requested(self, replica: Replica, request: Vote) -> None:
        """Compare the log's end to what is durable."""
        if not request.pre_vote and request.end_offset > replica.durable_end:
            self.fail(
                f"node {replica.id} asks for votes by a log up to {request.end_offset}, "
                f"durable are {replica.durable_end}"
            )


INVARIANT = SyncedBeforeVote
