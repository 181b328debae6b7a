"""With a majority that can talk, somebody is elected, and everybody learns who."""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule


class LeaderElected(Liveness):
    """Waits for a leader that every node knows."""

    def is_so(self, schedule: Schedule) -> bool:
        """Whether there is a leader whose high watermark is known."""
        leader = schedule.world.leader()
        return leader is not None and leader.high_watermark >= 0

    def why_not(self, schedule: Schedule) -> str:
        """Name a node, too, that has alone the record of its removal, if the others need it."""
        why = super().why_not(schedule)
        running = list(schedule.world.running())
        for one in running:
            if one.campaigns_when_removed or one.core.is_voter:
                continue
            others = [other for other in running if other is not one]
            voters = [other for other in others if other.core.is_voter]
            if voters and all(_needs(voter, one, others) for voter in voters):
                why = (
                    f"node {one.id} is no voter by its own log, which is longer than those by "
                    f"which it is one; {why}"
                )
        return why


def _needs(voter: Replica, one: Replica, others: list[Replica]) -> bool:
    """Whether a voter has a shorter log, and by its voter set no majority without this one."""
    voters = voter.core.log.voters.last
    votes = sum(voters.is_voter(other.key) for other in others)
    return (
        voters.is_voter(one.key)
        and voter.log_model.last < one.log_model.last
        and votes < voters.majority
    )


LIVENESS = LeaderElected
