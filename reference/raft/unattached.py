"""Unattached: knows an epoch, and no leader that it could fetch from (KIP-595).

Every node starts here or passes through here when it meets a higher epoch. A voter waits for its
election timer, and so does it after it has voted: "voted" is no role of its own. Meanwhile it looks
for the leader by a Fetch to a bootstrap server. An observer does nothing else.
"""

from __future__ import annotations

from kraftspec.reference.raft.role import QuorumState, Role, grants_without_leader
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import (
    NEVER_US,
    ElectionState,
    Endpoints,
    ReplicaKey,
    RoleName,
)


class Unattached(Role):
    """The role of a node that knows an epoch and no leader in it."""

    __slots__ = ()

    name = RoleName.UNATTACHED

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
        """Enter; the leader's id may be known, where it is reached is not.

        An election timer that runs goes on running, or a node that keeps bumping epochs could keep
        everybody else from ever campaigning. Only a vote given away, and the end of a follower's,
        a leader's or a rejected prospective's life, start a new one (QuorumState).
        """
        if cause is Cause.HIGHER_EPOCH and epoch <= core.epoch:
            raise FatalError(f"epoch {epoch} is not above {core.epoch}")
        role = cls(core)
        remaining_us = core.role.remaining_election_us()
        if not core.is_voter:
            role.election_deadline_us = NEVER_US
        elif remaining_us is None or cause is Cause.VOTE_GRANTED:
            role.election_deadline_us = core.election_deadline_us()
        elif cause is Cause.ELECTION_LOST:
            role.election_deadline_us = core.now_us  # Its next campaign has a delay of its own.
        else:
            role.election_deadline_us = remaining_us
        is_vote = cause is Cause.VOTE_GRANTED
        core.enter(role, ElectionState(epoch, leader_id, voted), (), keeps_requests=is_vote)

    def begin(self) -> None:
        """Tell the state machine that there is no leader, or none that can be reached."""
        self.core.report_leader(self.core.leader_id)

    def remaining_election_us(self) -> int:
        """Let the timer run on."""
        return self.election_deadline_us

    def hurry(self) -> None:
        """Campaign in this step."""
        self.election_deadline_us = min(self.election_deadline_us, self.core.now_us)

    def poll(self, now_us: int) -> int:
        """Campaign when the timer expires; until then look for the leader (KIP-595, KIP-853)."""
        core = self.core
        if core.is_voter:
            if core.shutdown_deadline_us != NEVER_US:
                return NEVER_US  # A node that leaves starts no election.
            if now_us >= self.election_deadline_us:
                campaign_us = core.campaign(Cause.ELECTION_TIMEOUT)
                return min(core.policy.discover(core), campaign_us) if campaign_us else 0
        return min(core.policy.discover(core), self.election_deadline_us)

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Give one vote an epoch, to a log that is up to date (Raft §5.2, §5.4.1)."""
        return grants_without_leader(self.core, candidate, up_to_date, pre_vote)
