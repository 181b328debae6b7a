"""As long as nothing fails, the leader stays (Kafka's StableLeadership)."""

from __future__ import annotations

from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

QUIET_US = 10 * S


class LeadershipStays(Liveness):
    """Watches that the leader stays the same.

    A change of voters may end a leadership. Nobody asks for one any more, but a duplicate of an
    earlier request may arrive a hundred delays late: then the watch begins anew.
    """

    within_us = QUIET_US + S

    def __init__(self) -> None:
        self.since_us = 0
        self.epoch = -1
        self.voters: list[VoterSet] = []
        self.changes = 0

    def begin(self, schedule: Schedule) -> None:
        """Remember who leads, and who votes."""
        self.since_us = schedule.world.now_us
        leader = schedule.world.leader()
        self.epoch = leader.epoch if leader is not None else -1
        self.voters = _voters(schedule)

    def progress(self, schedule: Schedule) -> int:
        """Count the changes of voters."""
        if _voters(schedule) != self.voters:
            self.changes += 1
            self.begin(schedule)
        return self.changes

    def is_so(self, schedule: Schedule) -> bool:
        """Whether time has gone by under the same leader; another one is a breach."""
        self.progress(schedule)
        leader = schedule.world.leader()
        if leader is None or leader.epoch != self.epoch:
            raise Violation(self.name, f"epoch {self.epoch} ended: {self.why_not(schedule)}")
        return schedule.world.now_us >= self.since_us + QUIET_US


def _voters(schedule: Schedule) -> list[VoterSet]:
    return [replica.core.log.voters.last for replica in schedule.world.running()]


LIVENESS = LeadershipStays
