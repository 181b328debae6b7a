"""A voter that was removed while it was partitioned deposes at most one leader when it is back.

It has campaigned alone, so its epoch is higher than all others. Without pre-votes that costs the
quorum an election. After it the returned node has to learn that it is no voter any more.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule

DEPOSED_MAX = 1


class RemovedVoterStops(Liveness):
    """Counts the leaders that a returning, removed voter deposes.

    Elections are counted that somebody wins.
    """

    def __init__(self) -> None:
        self.before = 0

    def begin(self, schedule: Schedule) -> None:
        """Count the leaders so far."""
        self.before = len(schedule.world.leaders)

    def is_so(self, schedule: Schedule) -> bool:
        """Whether it follows as an observer; more leaders than it may cost are a violation."""
        removed_id = getattr(schedule.faults, "removed_voter_id", None)
        world = schedule.world
        leader = world.leader()
        if removed_id is None or leader is None or removed_id in leader.core.log.voters.last:
            return removed_id is None or leader is not None  # Nobody was removed.
        new = len(world.leaders) - self.before
        if new > DEPOSED_MAX:
            raise Violation(self.name, f"{new} leaders since node {removed_id} is back")
        replica = world.replicas[removed_id]
        return replica.role is RoleName.FOLLOWER and not replica.core.is_voter


LIVENESS = RemovedVoterStops
