"""Who gives a vote is the voter that the request names, and its disk is the one that is named.

A replica with a new disk has forgotten what it voted and what it acknowledged (KIP-853, "INVALID
VOTER KEY"). A request that names no voter, or no disk, is for whoever gets it.
"""

from __future__ import annotations

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class VoterIsWhoWasAsked(Invariant):
    """Compares whom a granted vote was asked of with who grants it."""

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """Look at node and disk."""
        if not granted or request.voter_id < 0:
            return
        disk = replica.config.directory_id
        if request.voter_id != replica.id or request.voter_directory_id not in (ZERO_UUID, disk):
            self.fail(f"node {replica.id} on disk {disk} grants {request}")


INVARIANT = VoterIsWhoWasAsked
