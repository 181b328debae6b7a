"""With a majority that can talk, somebody is elected, and everybody learns who."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.liveness.base import Liveness

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.schedule import Schedule


class LeaderElected(Liveness):
    """See the module."""

    def is_so(self, schedule: Schedule) -> bool:
        """Whether there is a leader whose high watermark is known."""
        leader = schedule.world.leader()
        return leader is not None and leader.high_watermark >= 0


LIVENESS = LeaderElected
