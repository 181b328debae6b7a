"""Who leads has heard from a majority of its voters lately, or resigns (Check Quorum).

Lately is one and a half times the fetch time-out (KIP-996, KAFKA-15489), by the leader's own clock.
A node is only held to that when it acts as a leader: when it writes. One that was paused takes what
waits for it before it looks at its clock (as ``KafkaRaftClient.poll`` does), and may write once so.
"""

from __future__ import annotations

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.raft import ReplicaKey, RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

SLACK_US = 50_000  # Between a deadline and what was asked before it.


class LeaderHearsMajority(Invariant):
    """Looks at when a leader that writes last heard from a majority."""

    def __init__(self) -> None:
        self.since_us: dict[int, int] = {}  # Leader → when it was elected, or its voters changed.
        self.fetched_us: dict[int, dict[ReplicaKey, int]] = {}  # Leader → voter → when.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Being elected counts as hearing from everybody."""
        if new is RoleName.LEADER:
            self.since_us[replica.id] = replica.clock_us()
            self.fetched_us[replica.id] = {}

    def voters_changed(self, replica: Replica) -> None:
        """Whoever was heard before counted by another set."""
        if replica.role is RoleName.LEADER:
            self.since_us[replica.id] = replica.clock_us()

    def fetch_handled(self, replica: Replica, replica_id: int, directory_id: bytes) -> None:
        """Note who asks for more."""
        if replica.role is RoleName.LEADER:
            key = ReplicaKey(replica_id, Uuid(directory_id))
            self.fetched_us[replica.id][key] = replica.clock_us()

    def appended(self, replica: Replica, first: int) -> None:
        """A leader writes: count whom it heard."""
        if replica.role is not RoleName.LEADER or replica.core.role.name is not RoleName.LEADER:
            return
        if replica.paused_until_us == replica.world.now_us:
            return
        # Of the set before this batch, should it have another: nobody was heard as one of that.
        voters = list(replica.core.log.voters.at(replica.log_model.base_of(first) - 1))
        if len(voters) <= 1:
            return
        period_us = replica.config.fetch_timeout_us * 3 // 2 + SLACK_US
        after_us = replica.clock_us() - 2 * period_us
        if self.since_us[replica.id] >= after_us:
            return
        fetched = self.fetched_us[replica.id]
        lately = sum(
            1
            for voter in voters
            if voter.key.id == replica.id
            or any(voter.key.matches(key) and at >= after_us for key, at in fetched.items())
        )
        if lately < len(voters) // 2 + 1:
            self.fail(
                f"leader {replica.id} of epoch {replica.core.epoch} writes, and heard {lately} of "
                f"{len(voters)} voters in the last {2 * period_us} µs"
            )


INVARIANT = LeaderHearsMajority
