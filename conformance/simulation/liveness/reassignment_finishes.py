"""Voters move to whatever targets an operator asks for, and the move ends (KIP-595 as drafted)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.liveness.base import Liveness
from kraftspec.conformance.simulation.swarm import S
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.schedule import Schedule

VOTERS_MAX = 5


class ReassignmentFinishes(Liveness):
    """See the module. First all nodes are to vote, as far as five, then all but the leader then."""

    within_us = 120 * S
    step_us = S

    def __init__(self) -> None:
        self.wanted: list[tuple[int, ...]] = []

    def begin(self, schedule: Schedule) -> None:
        """Choose where to go."""
        ids = tuple(schedule.world.replicas)[:VOTERS_MAX]
        leader = schedule.world.leader()
        others = tuple(id for id in ids if leader is None or id != leader.id)
        self.wanted = [ids, others or ids]

    def progress(self, schedule: Schedule) -> int:
        """Count what is done."""
        return -len(self.wanted)

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
        if voters.targets is None and voters.ids == self.wanted[0]:
            self.wanted.pop(0)
        if self.wanted and voters.targets != self.wanted[0]:
            request = AlterQuorum(targets=self.wanted[0], timeout_us=5 * S)
            schedule.world.ask(leader.id, request)
        return not self.wanted

    def why_not(self, schedule: Schedule) -> str:
        """Say where the voters are."""
        leader = schedule.world.leader()
        there = leader.core.log.voters.last if leader is not None else None
        return f"{self.wanted} are wanted, leader {leader and leader.id} has {there}; " + (
            super().why_not(schedule)
        )


LIVENESS = ReassignmentFinishes
