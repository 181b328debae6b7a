"""Who asks for pre-votes stands for election only after a majority has granted them (KIP-996).

That the answers arrived is not looked at: a majority has to have given them, in this epoch. Where a
voter knows no pre-votes, nothing of this is promised.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class PreVotesComeFirst(Invariant):
    """Counts the pre-votes that were granted to a node in its epoch."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}  # In which a node was granted pre-votes last.
        self.granted: dict[int, set[int]] = {}  # By whom.

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """Remember a pre-vote that was granted."""
        if not (granted and request.pre_vote):
            return
        candidate = request.replica_id
        last = self.epochs.get(candidate, -1)
        if request.epoch < last:
            return  # A request of before, which took long.
        if request.epoch > last:
            self.epochs[candidate] = request.epoch
            self.granted[candidate] = set()
        self.granted[candidate].add(replica.id)

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Count them when there is a new candidate."""
        if old is not RoleName.PROSPECTIVE or new is not RoleName.CANDIDATE:
            return
        if any(other.api_max for other in replica.world.replicas.values()):
            return
        before = replica.core.epoch - 1
        granted = self.granted[replica.id] if self.epochs.get(replica.id) == before else set()
        voters = replica.core.log.voters.last
        count = sum(1 for id in granted if id in voters) + voters.is_voter(replica.key)
        if count < voters.majority:
            self.fail(
                f"node {replica.id} stands for election in epoch {before + 1}, and of "
                f"{len(voters)} voters {count} would vote for it, with its own"
            )


INVARIANT = PreVotesComeFirst
