"""Candidate: has voted for itself in a new epoch, and asks for the others' votes (KIP-595).

A majority makes it Leader. One that cannot win any more waits for the rest of its election time,
without asking, and then begins again as Prospective, in the same epoch (KIP-996). Where the table
has an arrow for a lost election, it steps down instead, as KIP-595 was drafted.
"""

from __future__ import annotations

from kraftspec.reference.raft.campaign import Campaign
from kraftspec.reference.raft.role import QuorumState
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import (
    NONE,
    ElectionState,
    Endpoints,
    ReplicaKey,
    RoleName,
)


class Candidate(Campaign):
    """The role of a node that asks for votes in an epoch of its own."""

    __slots__ = ()

    name = RoleName.CANDIDATE
    pre_vote = False

    @classmethod
    def enter(
        cls,
        core: QuorumState,
        cause: Cause,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted: ReplicaKey | None,
    ) -> None:
        """Enter the next epoch, with the vote for itself written down before any is asked for."""
        core.enter(cls(core), ElectionState(core.epoch + 1, NONE, core.config.key), ())

    def begin(self) -> None:
        """Lead at once if no other vote is needed."""
        self.core.report_leader(NONE)
        if self.tally.is_won:
            self.won()

    def ask_for_votes(self, now_us: int) -> int:
        """Ask for votes, and look for voters that nobody has told the address of."""
        next_us = super().ask_for_votes(now_us)
        return min(next_us, self.core.policy.seek(self.core))

    def expired(self) -> int:
        """Begin again, as Prospective (KIP-996), or take the election for lost."""
        if self._may_lose:
            self.lost()
            return 0
        return self.core.campaign(Cause.ELECTION_TIMEOUT)

    def won(self) -> None:
        """Lead."""
        self.core.move(Cause.ELECTION_WON)

    def lost(self) -> None:
        """Wait out the election time: others may win in it (Kafka 4.1 and later); or step down."""
        if self._may_lose:
            core = self.core
            core.move(Cause.ELECTION_LOST, epoch=core.epoch + core.policy.bumps_when_lost)

    @property
    def _may_lose(self) -> bool:
        return Cause.ELECTION_LOST in self.core.policy.transitions[self.name]

    def remaining_election_us(self) -> int:
        """Let the timer run on."""
        return self.election_deadline_us

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Refuse votes, having voted for itself; a pre-vote binds to nothing (KIP-996)."""
        return pre_vote and up_to_date
