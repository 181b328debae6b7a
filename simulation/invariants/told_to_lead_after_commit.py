"""A state machine is told that it leads once a record of that epoch is committed, and it knows.

Then it has applied all that earlier epochs left, and may append (``KafkaRaftClient``, where a
listener hears of its leadership when it has read past the start of the epoch).
"""

from __future__ import annotations

from bisect import bisect_left

from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class ToldToLeadAfterCommit(Invariant):
    """Looks at what a state machine knows to be committed when it is told that it leads."""

    def leader_reported(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """Compare epochs: of the leadership, and of the last record that is committed."""
        if leader_id != replica.id:
            return
        log_model, committed = replica.log_model, replica.committed
        index = bisect_left(log_model.ends, committed)
        written = log_model.epochs[index] if index < len(log_model.ends) else -1
        if committed <= log_model.start_offset:
            written = log_model.start_epoch if committed == log_model.start_offset else -1
        if written != epoch:
            self.fail(
                f"the state machine of node {replica.id} is told that it leads epoch {epoch}, and "
                f"that {committed} is committed; epoch {written} wrote the record before that"
            )


INVARIANT = ToldToLeadAfterCommit
