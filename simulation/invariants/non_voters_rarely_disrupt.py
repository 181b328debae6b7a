"""A non-voter does not depose a leader again and again (KIP-595 as drafted, and a fix).

A removed node that does not get the news goes on campaigning, each time in a higher epoch, and the
receiver becomes a candidate, as the draft has it. Once in five fetch time-outs is often enough.
"""

from __future__ import annotations

from typing import Any

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.messages import Vote
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

PERIODS = 5


class NonVotersRarelyDisrupt(Invariant):
    """Counts the leaders that nodes which are no voters unseat.

    A leader's memory of non-voters is lost with its process.
    """

    def __init__(self) -> None:
        # (leader, its incarnation, the non-voter) → when it was unseated, by its own clock.
        self.unseated_us: dict[tuple[int, int, int], int] = {}

    def vote_handled(self, replica: Replica, request: Vote, effects: list[Any]) -> None:
        """Look at leaders: ``replica.role`` is what it was before this step."""
        voters = replica.core.log.voters.last
        if replica.role is not RoleName.LEADER or request.replica_id in voters:
            return
        if replica.core.role.name in (RoleName.LEADER, RoleName.RESIGNED):
            return
        now_us = replica.core.now_us
        key = (replica.id, replica.incarnation, request.replica_id)
        last_us = self.unseated_us.get(key)
        self.unseated_us[key] = now_us
        period_us = PERIODS * replica.config.fetch_timeout_us
        if last_us is not None and now_us - last_us < period_us:
            self.fail(
                f"leader {replica.id} is unseated by {request.replica_id}, which is no voter, "
                f"{now_us - last_us} \N{MICRO SIGN}s after the last time"
            )


INVARIANT = NonVotersRarelyDisrupt
