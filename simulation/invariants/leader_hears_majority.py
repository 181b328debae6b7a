"""Who leads has heard from a majority of its voters lately, or resigns (Check Quorum).

Lately is one and a half times the fetch time-out (KIP-996, KAFKA-15489), by the leader's own clock.
A node is only held to that when it acts as a leader: when it writes, and when somebody fetches from
it. One that was paused takes what waits for it before it looks at its clock (as
``KafkaRaftClient.poll`` does): with whom it heard before the pause that may be a majority.
"""

from __future__ import annotations

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.raft import ReplicaKey, RoleName
from kraftspec.reference.raft.types import NEVER_US, Voter
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

SLACK_US = 50_000  # Between a deadline and what was asked before it.


class LeaderHearsMajority(Invariant):
    """Looks at when a leader that acts last heard from a majority."""

    def __init__(self) -> None:
        self.until_us: dict[int, int] = {}  # Leader → it need not be looked at before.
        self.fetched_us: dict[int, dict[ReplicaKey, int]] = {}  # Leader → who fetched → when.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Being elected counts as hearing from everybody."""
        if new is RoleName.LEADER:
            self.until_us[replica.id] = replica.clock_us() + _allowed_us(replica)
            self.fetched_us[replica.id] = {}

    def voters_changed(self, replica: Replica) -> None:
        """Whoever was heard before counted by another set."""
        if replica.role is RoleName.LEADER:
            self.until_us[replica.id] = replica.clock_us() + _allowed_us(replica)

    def fetch_handled(self, replica: Replica, replica_id: int, directory_id: Uuid) -> None:
        """Note who asks for more; a leader that still leads has heard from a majority."""
        if replica.role is RoleName.LEADER:
            key = ReplicaKey(replica_id, directory_id)
            self.fetched_us[replica.id][key] = replica.clock_us()
            self._count(replica, replica.log_model.end_offset, "answers")

    def appended(self, replica: Replica, first: int) -> None:
        """A leader writes: count whom it heard."""
        if replica.role is RoleName.LEADER:
            # Of the set before this batch, should it have another: nobody was heard as one of that.
            self._count(replica, replica.log_model.base_of(first), "writes")

    def _count(self, replica: Replica, end_offset: int, does: str) -> None:
        now_us = replica.clock_us()
        if now_us <= self.until_us[replica.id]:
            return
        if replica.core.role.name is not RoleName.LEADER:
            return
        paused_until_us = replica.paused_until_us
        if paused_until_us and replica.world.now_us <= paused_until_us + _allowed_us(replica):
            return
        voters = list(replica.core.log.voters.at(end_offset - 1))
        if len(voters) <= 1:
            return
        allowed_us = _allowed_us(replica)
        heard_us = sorted((self._heard_us(replica, voter) for voter in voters), reverse=True)
        self.until_us[replica.id] = heard_us[len(voters) // 2] + allowed_us
        if self.until_us[replica.id] < now_us:
            lately = sum(at >= now_us - allowed_us for at in heard_us)
            self.fail(
                f"leader {replica.id} of epoch {replica.core.epoch} {does}, and heard {lately} of "
                f"{len(voters)} voters in the last {allowed_us} µs"
            )

    def _heard_us(self, replica: Replica, voter: Voter) -> int:
        """Return when the leader last heard from a voter, itself included."""
        if voter.key.id == replica.id:
            return replica.clock_us()
        fetched = self.fetched_us[replica.id].items()
        return max((at for key, at in fetched if voter.key.matches(key)), default=-NEVER_US)


def _allowed_us(replica: Replica) -> int:
    return 2 * (replica.config.fetch_timeout_us * 3 // 2 + SLACK_US)


INVARIANT = LeaderHearsMajority
