"""A voter that listens elsewhere than its entry says gets another (KIP-853, UpdateRaftVoter).

Until then the others do not reach it; it finds the leader by its bootstrap servers.
"""

from __future__ import annotations

from kraftspec.simulation.faults import is_found
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule


class VotersAreFound(Liveness):
    """Compares the last voter set with where the voters listen."""

    def is_so(self, schedule: Schedule) -> bool:
        """Whether each is where the set says, which is committed."""
        world = schedule.world
        leader = world.leader()
        if leader is None:
            return False
        voters = leader.core.log.voters
        if leader.core.log.kraft_versions.last < 1:
            return True  # They are told where, not written down.
        is_committed = (voters.last_offset or 0) < leader.high_watermark
        return is_committed and all(is_found(world, voter) for voter in voters.last)

    def why_not(self, schedule: Schedule) -> str:
        """Say who is not."""
        leader = schedule.world.leader()
        lost = [
            voter
            for voter in (leader.core.log.voters.last if leader is not None else ())
            if not is_found(schedule.world, voter)
        ]
        what = "the last voters are not committed"
        if lost:
            what = f"node {lost[0].key.id} is not where the voters say: {lost}"
        return f"{what}; {super().why_not(schedule)}"


LIVENESS = VotersAreFound
