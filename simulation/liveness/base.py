"""The shape of a property that must come true."""

from __future__ import annotations

from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S


class Liveness:
    """Base of all: looked at every ``step_us`` until it is so.

    ``within_us`` is how long that may take, from the beginning or from the last progress.
    """

    within_us = 60 * S
    step_us = S // 10

    @property
    def name(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2]

    def begin(self, schedule: Schedule) -> None:
        """Ask for what shall come true."""

    def is_so(self, schedule: Schedule) -> bool:
        """Whether it has come true."""
        raise NotImplementedError

    def progress(self, schedule: Schedule) -> int:
        """Return a number that grows as long as it gets nearer; by default it never does."""
        return 0

    def why_not(self, schedule: Schedule) -> str:
        """Say what there is instead."""
        return "; ".join(
            f"node {r.id}: {r.role} of epoch {r.epoch}, log to {r.log_model.end_offset}, committed "
            f"{r.high_watermark}" if r.is_up else f"node {r.id}: down"
            for r in schedule.world.replicas.values()
        )  # fmt: skip


def servers_of(replica: Replica, schedule: Schedule) -> set[int]:
    """Return the ids of the nodes that it asks who leads, and -1 where nobody listens."""
    return {schedule.world.ports.get(server.port, -1) for server in replica.config.contacts}
