"""A voter that was cut off, and removed meanwhile, deposes one leader at most when it is back.

It has campaigned alone, so its epoch is above everybody's. Without pre-votes that costs the quorum
an election; after it the one who came back has to learn that it votes no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants import Violation
from kraftspec.conformance.simulation.liveness.base import Liveness
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.schedule import Schedule

DEPOSED_MAX = 1


class ExileEnds(Liveness):
    """See the module. Elections are counted that somebody wins."""

    def __init__(self) -> None:
        self.before = 0

    def begin(self, schedule: Schedule) -> None:
        """Count the leaders so far."""
        self.before = len(schedule.world.leaders)

    def is_so(self, schedule: Schedule) -> bool:
        """Whether it follows as an observer; more leaders than it may cost are a breach."""
        exile = getattr(schedule.faults, "exile", None)
        world = schedule.world
        leader = world.leader()
        if exile is None or leader is None or exile in leader.core.log.voters.last:
            return exile is None or leader is not None  # Nobody was removed.
        new = len(world.leaders) - self.before
        if new > DEPOSED_MAX:
            raise Violation(self.name, f"{new} leaders since node {exile} is back")
        replica = world.replicas[exile]
        return replica.role is RoleName.FOLLOWER and not replica.core.is_voter


LIVENESS = ExileEnds
