"""Who hears no more from a leader finds the next one, observers too, though that one says nothing.

The leader of before is paused for good: its connections stay open, and it neither answers nor tells
anybody of another.
"""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness, servers_of
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

VOTERS_MIN = 3  # Without one of them the others elect.
FOREVER_US = 1_000_000 * S
# An observer without answers asks its leader and a server that it draws, in turns. Where the leader
# is one of two servers, it draws that one thirty times in a row once in a thousand million times.
DRAWS = 30


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
            not schedule.swarm.silence_period_us
            or leader is None
            or len(leader.core.log.voters.last) < VOTERS_MIN
        ):
            return
        known = _servers_of_observers(schedule, leader)
        if all(servers - {leader.id} for servers in known):
            schedule.met["leader silent for good"] += 1
            self.silent, self.epoch = leader, leader.epoch
            leader.paused_until_us = schedule.world.now_us + FOREVER_US
            if any(leader.id in servers for servers in known):
                self.within_us += DRAWS * 2 * leader.config.request_timeout_us

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


def _servers_of_observers(schedule: Schedule, leader: Replica) -> list[set[int]]:
    """Return which nodes are bootstrap servers of each observer; to a voter the leader comes."""
    return [
        servers_of(replica, schedule)
        for replica in schedule.world.replicas.values()
        if replica is not leader and not replica.core.is_voter
    ]


LIVENESS = SilentLeaderIsLeft
