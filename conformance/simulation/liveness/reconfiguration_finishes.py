"""Voters whose disks are gone can be removed, and replicas that wait can be added (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.liveness.base import Liveness
from kraftspec.conformance.simulation.swarm import S

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.schedule import Schedule

VOTERS_MAX = 7


class ReconfigurationFinishes(Liveness):
    """See the module. The operator asks until it is done, as a person would."""

    within_us = 120 * S
    step_us = S

    def is_so(self, schedule: Schedule) -> bool:
        """Whether there is nothing left to remove, and as many vote as can; ask if not."""
        world = schedule.world
        leader = world.leader()
        if not schedule.swarm.kraft_version:
            return True
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


LIVENESS = ReconfigurationFinishes
