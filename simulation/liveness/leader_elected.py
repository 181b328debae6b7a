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
        """Say, too, who holds the others up: it has alone the record that removes it."""
        why = super().why_not(schedule)
        running = list(schedule.world.running())
        for one in running:
            followers = [
                other
                for other in running
                if other is not one and other.core.log.voters.last.is_voter(one.key)
            ]
            is_removed = not (one.campaigns_when_removed or one.core.is_voter)
            if is_removed and followers and all(_end(other) < _end(one) for other in followers):
                why = (
                    f"node {one.id} is no voter by its own log, which is longer than those by "
                    f"which it is one; {why}"
                )
        return why


def _end(replica: Replica) -> tuple[int, int]:
    return (replica.log_model.last_epoch, replica.log_model.end_offset)


LIVENESS = LeaderElected
