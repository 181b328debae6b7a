"""Voters and observers come to have everything that the leader has committed."""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule


class ReplicasCatchUp(Liveness):
    """Waits for every replica to have what the leader has committed."""

    def __init__(self) -> None:
        self.offset = 0

    def begin(self, schedule: Schedule) -> None:
        """What is committed now is what they must reach: the leader goes on."""
        self.offset = schedule.world.committed_log.high_watermark

    def is_so(self, schedule: Schedule) -> bool:
        """Whether everybody knows that much to be committed."""
        return all(
            replica.is_up and replica.high_watermark >= self.offset
            for replica in schedule.world.replicas.values()
        )

    def progress(self, schedule: Schedule) -> int:
        """A log of thousands of batches, fetched one by one, takes its time."""
        replicas = schedule.world.replicas.values()
        return sum(min(replica.high_watermark, self.offset) for replica in replicas)


LIVENESS = ReplicasCatchUp
