"""Voters move to whatever targets an operator asks for, and the move ends (KIP-595 as drafted)."""

from __future__ import annotations

from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

VOTERS_MAX = 5


class ReassignmentFinishes(Liveness):
    """Asks for new voters by AlterQuorum, and waits for the move to end.

    First all nodes are to vote, as far as five, then all but the leader then.
    """

    within_us = 120 * S
    step_us = S

    def __init__(self) -> None:
        self.targets_left: list[tuple[int, ...]] = []

    def begin(self, schedule: Schedule) -> None:
        """Choose where to go."""
        ids = tuple(schedule.world.replicas)[:VOTERS_MAX]
        leader = schedule.world.leader()
        others = tuple(id for id in ids if leader is None or id != leader.id)
        self.targets_left = [ids, others or ids]

    def progress(self, schedule: Schedule) -> int:
        """Count what is done."""
        return -len(self.targets_left)

    def is_so(self, schedule: Schedule) -> bool:
        """Whether the last is reached and committed; ask for the next one if nobody has yet."""
        leader = schedule.world.leader()
        if leader is None:
            return False
        voters = leader.core.log.voters.last
        offset = leader.core.log.voters.last_offset
        if not isinstance(voters, Assignment) or (
            offset is not None and offset >= leader.high_watermark
        ):
            return False
        if voters.targets is None and voters.ids == self.targets_left[0]:
            self.targets_left.pop(0)
        if self.targets_left and voters.targets != self.targets_left[0]:
            request = AlterQuorum(targets=self.targets_left[0], timeout_us=5 * S)
            schedule.world.ask(leader.id, request)
        return not self.targets_left

    def why_not(self, schedule: Schedule) -> str:
        """Say where the voters are."""
        leader = schedule.world.leader()
        there = leader.core.log.voters.last if leader is not None else None
        return (
            f"{self.targets_left} are not reached, leader {leader and leader.id} has {there}; "
            + (super().why_not(schedule))
        )


LIVENESS = ReassignmentFinishes
