"""Voters whose disks are gone can be removed, and replicas that wait can be added (KIP-853).

And kraft.version can be raised, where the run has begun with 0 and wants to.
"""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

VOTERS_MAX = 7


class ReconfigurationFinishes(Liveness):
    """Replaces voters without disks, and waits for the last change to commit.

    The operator asks until it is done, as a person would.
    """

    within_us = 120 * S
    step_us = S

    def is_so(self, schedule: Schedule) -> bool:
        """Whether there is nothing left to remove, and as many vote as can; ask if not."""
        world = schedule.world
        leader = world.leader()
        if not schedule.swarm.kraft_version:
            return not schedule.swarm.upgrade_period_us or self._is_upgraded(schedule, leader)
        if leader is None:
            return False
        voters = leader.core.log.voters.last
        if not voters.is_voter(leader.key):
            return False  # It will resign.
        if schedule.operator.removing:
            return False
        alive = world.by_key_now()
        gone = [voter.key for voter in voters if voter.key not in alive]
        if gone:
            schedule.operator.remove(leader, gone[0])
            return False
        waiting = [
            replica
            for replica in world.replicas.values()
            if replica.config.can_become_voter and not voters.is_voter(replica.key)
        ]
        if waiting and len(voters) < VOTERS_MAX:
            schedule.operator.add(leader, waiting[0])
            return False
        last = leader.core.log.voters.last_offset
        return last is None or last < leader.high_watermark

    def why_not(self, schedule: Schedule) -> str:
        """Say, too, what of the leader makes it impossible."""
        leader = schedule.world.leader()
        why = super().why_not(schedule)
        if leader is None or not schedule.swarm.kraft_version:
            return why
        is_voter = leader.core.log.voters.last.is_voter(leader.key)
        return why if is_voter else f"leader {leader.id} is no voter, and leads on; {why}"

    def _is_upgraded(self, schedule: Schedule, leader: Replica | None) -> bool:
        """Whether kraft.version is raised, or cannot be; ask if not."""
        swarm = schedule.swarm
        if swarm.old_nodes and not swarm.old_vote_version:
            return True  # There are voters that do not tell who they are: none may be left out.
        if leader is None:
            return False
        levels = leader.core.log.kraft_versions
        if levels.last < 1:
            schedule.world.upgrade(leader, 1)
            return False
        return (levels.last_offset or 0) < leader.high_watermark


LIVENESS = ReconfigurationFinishes
