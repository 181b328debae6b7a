"""Resigned: led this epoch, and does so no longer (KIP-595).

It tells all voters by EndQuorumEpoch, until each has answered, whom it would like to follow it. A
leader that restarts is Resigned too, so that it never leads again in its old epoch. When nobody
else was elected in time it moves to the next epoch, without a vote, and takes part again.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import EndEpoch
from kraftspec.reference.raft.role import QuorumState, Role
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import (
    NEVER_US,
    ElectionState,
    Endpoints,
    ReplicaKey,
    RoleName,
)


class Resigned(Role):
    """The role of a node that led its epoch and no longer does."""

    __slots__ = ("preferred_successors", "unacknowledged")

    name = RoleName.RESIGNED

    def __init__(
        self, core: QuorumState, preferred_successors: tuple[ReplicaKey, ...] = ()
    ) -> None:
        super().__init__(core)
        self.preferred_successors = preferred_successors
        own_id = core.config.node_id
        self.unacknowledged = [id for id in core.log.voters.last.ids if id != own_id]
        self.election_deadline_us = core.now_us + core.policy.election_timeout_us(core)

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
        """Enter; nothing is written, since a leader that restarts resigns anyway."""
        role = cls(core, core.role.successors())
        state = ElectionState(core.epoch, core.config.node_id, voted)
        core.enter(role, state, core.config.endpoints, persist=False)

    def poll(self, now_us: int) -> int:
        """Tell the voters; after the election time, go on in the next epoch."""
        core = self.core
        next_us = NEVER_US
        for voter_id in self.unacknowledged:
            node = core.node(voter_id)
            if node is None:
                continue
            if core.connections.ready(voter_id, now_us):
                core.ask(node, self._end_of_epoch())
            next_us = min(next_us, core.connections.ready_us(voter_id))
        if core.shutdown_deadline_us != NEVER_US:
            return next_us
        if now_us >= self.election_deadline_us:
            core.move(Cause.RESIGNATION_TIMEOUT, epoch=core.epoch + 1)
            return 0
        return min(next_us, core.policy.seek(core), self.election_deadline_us)

    def acknowledge(self, voter_id: int) -> None:
        """Take note that a voter knows."""
        if voter_id in self.unacknowledged:
            self.unacknowledged.remove(voter_id)

    def remaining_election_us(self) -> int:
        """Let the timer run on."""
        return self.election_deadline_us

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Refuse votes in the epoch that it led; a pre-vote binds to nothing (KIP-996)."""
        return pre_vote and up_to_date

    def _end_of_epoch(self) -> EndEpoch:
        core = self.core
        return EndEpoch(
            cluster_id=core.config.cluster_id,
            leader_id=core.config.node_id,
            leader_epoch=core.epoch,
            preferred_successors=self.preferred_successors,
        )
