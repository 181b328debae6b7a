"""Campaigns: what Prospective and Candidate have in common, the tally and the questions.

Source: KIP-595 (Vote), KIP-996 (pre-vote), Kafka's ``EpochElection``.
"""

from __future__ import annotations

from typing import ClassVar

from kraftspec.reference.raft.messages import Vote
from kraftspec.reference.raft.role import QuorumState, Role
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import NEVER_US, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet


class Tally:
    """Who granted and who refused. The first answer of a voter counts (KIP-996)."""

    __slots__ = ("granted", "lost_at", "refused", "voters")

    def __init__(self, voters: VoterSet, own: ReplicaKey, lost_at: int) -> None:
        self.voters = voters
        self.lost_at = lost_at  # So many refusals.
        self.granted: dict[int, None] = {own.id: None} if voters.is_voter(own) else {}
        self.refused: dict[int, None] = {}

    def record(self, voter_id: int, granted: bool) -> None:
        """Count an answer, unless the voter answered before or is none."""
        if voter_id in self.voters and not self.has(voter_id):
            (self.granted if granted else self.refused)[voter_id] = None

    def has(self, voter_id: int) -> bool:
        """Whether this voter has answered."""
        return voter_id in self.granted or voter_id in self.refused

    @property
    def is_won(self) -> bool:
        """Whether a majority granted."""
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether too many refused."""
        return len(self.refused) >= self.lost_at


class Campaign(Role):
    """A role that asks for votes."""

    __slots__ = ("asks_from_us", "tally")

    pre_vote: ClassVar[bool]

    def __init__(self, core: QuorumState) -> None:
        super().__init__(core)
        if not core.is_voter:
            raise FatalError("an observer does not campaign")
        voters = core.log.voters.last
        lost_at = core.policy.refusals_to_lose(voters, pre_vote=self.pre_vote)
        self.tally = Tally(voters, core.config.key, lost_at)
        self.election_deadline_us = core.now_us + core.policy.election_timeout_us(core)
        self.asks_from_us = core.now_us
        core.campaigns += 1

    def on_vote(self, voter_id: int, granted: bool) -> None:
        """Count the answer of one voter, and act if it decides."""
        self.tally.record(voter_id, granted)
        if self.tally.is_won:
            self.won()
        elif self.tally.is_lost:
            self.lost()

    def granting_voters(self) -> tuple[int, ...]:
        """Return who granted, this node included, ascending."""
        return tuple(sorted(self.tally.granted))

    def poll(self, now_us: int) -> int:
        """Ask for votes until the election timer expires; while leaving, beyond that."""
        if self.core.shutdown_deadline_us != NEVER_US:
            return self.ask_for_votes(now_us)
        if now_us >= self.election_deadline_us:
            return self.expired()
        return min(self.ask_for_votes(now_us), self.election_deadline_us)

    def expired(self) -> int:
        """Act on an election timer that has expired; return when to look again."""
        raise NotImplementedError

    def won(self) -> None:
        """Go forward: a majority granted."""
        raise NotImplementedError

    def lost(self) -> None:
        """Act on a majority out of reach."""
        raise NotImplementedError

    def ask_for_votes(self, now_us: int) -> int:
        """Ask every voter that has not answered and is ready; return when the next one will be.

        Who cannot win any more asks nobody, and nobody is asked before the log is durable (Kafka
        flushes what it appends at once): a vote is granted for the log that was asked with, and
        holds if the candidate loses its power and asks again in the same epoch with less.
        """
        core = self.core
        if self.tally.is_lost or core.log.flushed_offset < core.log.end_offset:
            return NEVER_US  # A flush is under way, and its end is an event.
        if now_us < self.asks_from_us:
            return self.asks_from_us
        next_us = NEVER_US
        for voter in self.tally.voters:
            if self.tally.has(voter.key.id):
                continue
            node = core.node(voter.key.id)
            if node is None:
                continue  # Nobody knows where it is; the others may still be a majority.
            if core.connections.ready(node.id, now_us):
                core.ask(node, self._question(voter.key))
            next_us = min(next_us, core.connections.ready_us(node.id))
        return next_us

    def _question(self, voter: ReplicaKey) -> Vote:
        core = self.core
        config = core.config
        return Vote(
            cluster_id=config.cluster_id,
            epoch=core.epoch,
            replica_id=config.node_id,
            replica_directory_id=config.directory_id,
            voter_id=voter.id,
            voter_directory_id=voter.directory_id,
            last_epoch=core.log.last_epoch,
            end_offset=core.log.end_offset,
            pre_vote=self.pre_vote,
        )
