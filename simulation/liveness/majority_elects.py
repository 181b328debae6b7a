"""When the leader goes down for good, and as many others as may, those who are left elect one."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule


class MajorityElects(Liveness):
    """Takes nodes down, and waits for the others to elect a leader.

    Who was down is up again afterwards.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.down: list[Replica] = []

    def begin(self, schedule: Schedule) -> None:
        """Take down the leader, then voters by their ids, as long as a majority is left."""
        leader = schedule.world.leader()
        if leader is None:
            return
        self.epoch = leader.epoch
        voters = leader.core.log.voters.last
        others = [schedule.world.replicas[id] for id in voters.ids if id != leader.id]
        self.down = [leader, *others][: len(voters) - voters.majority]
        for replica in self.down:
            schedule.world.crash(replica, None)

    def is_so(self, schedule: Schedule) -> bool:
        """Whether a later epoch has a leader that commits; then bring the others back."""
        leader = schedule.world.leader()
        if self.down and (
            leader is None
            or leader.role is not RoleName.LEADER
            or leader.epoch <= self.epoch
            or leader.high_watermark < 0
        ):
            return False
        for replica in self.down:
            schedule.restart(replica)
        return True


LIVENESS = MajorityElects
