"""Who hears no more from a leader finds the next one, observers too, though that one says nothing.

The leader of before is paused for good: its connections stay open, and it neither answers nor tells
anybody of another.
"""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

VOTERS_MIN = 3  # Without one of them the others elect.
FOREVER_US = 1_000_000 * S


class SilentLeaderIsLeft(Liveness):
    """Pauses the leader, in runs that are about it, and waits for the others to follow another."""

    within_us = 30 * S

    def __init__(self) -> None:
        self.silent: Replica | None = None
        self.epoch = -1

    def begin(self, schedule: Schedule) -> None:
        """Let the leader fall silent."""
        leader = schedule.world.leader()
        if (
            schedule.swarm.silence_period_us
            and leader is not None
            and len(leader.core.log.voters.last) >= VOTERS_MIN
            and _others_know_somebody(schedule, leader)
        ):
            schedule.met["leader silent for good"] += 1
            self.silent, self.epoch = leader, leader.epoch
            leader.paused_until_us = schedule.world.now_us + FOREVER_US

    def is_so(self, schedule: Schedule) -> bool:
        """Whether all others know a later leader, and what it has committed in its epoch."""
        if self.silent is None:
            return True
        others = [one for one in schedule.world.replicas.values() if one is not self.silent]
        leader = schedule.world.leader()
        if leader is None or leader.epoch <= self.epoch:
            return False
        committed = leader.log_model.last_epoch_start
        return all(
            one.is_up
            and one.core.leader_id == leader.id
            and one.epoch == leader.epoch
            and one.high_watermark > committed
            for one in others
        )


def _others_know_somebody(schedule: Schedule, leader: Replica) -> bool:
    """Whether no node has the leader as its only bootstrap server; to a voter others come."""
    world = schedule.world
    return all(
        replica is leader
        or replica.core.is_voter
        or any(world.ports.get(server.port) != leader.id for server in replica.config.contacts)
        for replica in world.replicas.values()
    )


LIVENESS = SilentLeaderIsLeft
