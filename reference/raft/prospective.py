"""Prospective: asks whether it would be elected, before it disturbs anybody (KIP-996, Pre-Vote).

It keeps its epoch, its vote and the leader it knew, and writes nothing. With a majority of
pre-votes it becomes Candidate. When it cannot win any more, or runs out of time, it goes back to
the leader that it knew, or to Unattached: who was merely cut off finds the quorum as it was.
"""

from __future__ import annotations

from kraftspec.reference.raft.campaign import Campaign
from kraftspec.reference.raft.messages import Request, Vote
from kraftspec.reference.raft.role import QuorumState, grants_without_leader
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import (
    NONE,
    ElectionState,
    Endpoints,
    Node,
    ReplicaKey,
    RoleName,
)


class Prospective(Campaign):
    """The role of a node that asks for pre-votes before it stands for election."""

    __slots__ = ()

    name = RoleName.PROSPECTIVE
    pre_vote = True

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
        """Enter in the same epoch; only a vote given away meanwhile is written down."""
        state = ElectionState(epoch, core.leader_id, voted)
        is_vote = cause is Cause.VOTE_GRANTED
        role = cls(core)
        if cause in (Cause.PRE_VOTE_LOST, Cause.PRE_VOTE_LOST_LEADER_KNOWN):
            # As KIP-996 was drafted: it asks again, and not at once, or it would do nothing else.
            role.asks_from_us += core.policy.election_backoff_us(core)
        core.enter(role, state, core.leader_endpoints, persist=is_vote, keeps_requests=is_vote)

    def begin(self) -> None:
        """Go on at once if no other vote is needed."""
        if self.tally.is_won:
            self.won()

    def expired(self) -> int:
        """Give up, as when it is refused; who is not answered at all looks for the leader then.

        The others may have moved, of which only bootstrap servers can tell, and so may this node.
        """
        core = self.core
        is_answered = self.tally.refused or self.tally.granted.keys() - {core.config.node_id}
        if core.policy.seeks_when_unanswered and core.config.bootstrap_servers and not is_answered:
            self.election_deadline_us = core.election_deadline_us()
        self.lost()
        return 0

    def won(self) -> None:
        """Campaign in earnest, in the next epoch."""
        self.core.move(Cause.PRE_VOTE_WON)

    def lost(self) -> None:
        """Return to the leader that is known and can be reached, else wait (KIP-996 as shipped)."""
        core = self.core
        if core.leader_id != NONE and core.leader_endpoints:
            core.move(
                Cause.PRE_VOTE_LOST_LEADER_KNOWN,
                leader_id=core.leader_id,
                endpoints=core.leader_endpoints,
            )
        else:
            core.move(Cause.PRE_VOTE_LOST, leader_id=core.leader_id)

    def on_failed(self, node: Node, request: Request, unsupported: bool) -> bool:
        """Do without pre-votes as soon as one voter does not know them (KIP-996)."""
        if unsupported and isinstance(request, Vote):
            self.core.move(Cause.PRE_VOTE_UNSUPPORTED)
            return True
        return False

    def remaining_election_us(self) -> int | None:
        """Let the timer run on, unless this campaign was lost."""
        return None if self.tally.is_lost else self.election_deadline_us

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Grant like Unattached: asking for pre-votes binds to nothing (KIP-996)."""
        return grants_without_leader(self.core, candidate, up_to_date, pre_vote)
