"""With a majority that can talk, somebody is elected, and everybody learns who."""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule


class LeaderElected(Liveness):
    """Waits for a leader that every node knows."""

    def is_so(self, schedule: Schedule) -> bool:
        """Whether there is a leader whose high watermark is known."""
        leader = schedule.world.leader()
        return leader is not None and leader.high_watermark >= 0


LIVENESS = LeaderElected
