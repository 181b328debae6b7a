"""Who answers a Vote, or what a leader tells voters, is in that epoch by then (Raft §5.1, KIP-595).

Not so for a Fetch: who is asked for records in an epoch that it does not know says so, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class EpochsAreFollowed(Invariant):
    """See the module."""

    def epoch_answered(self, replica: Replica, epoch: int) -> None:
        """Compare, before the answer leaves."""
        if replica.core.epoch < epoch:
            self.fail(
                f"node {replica.id} was told of epoch {epoch}, and is {replica.core.role.name} of "
                f"epoch {replica.core.epoch}"
            )


INVARIANT = EpochsAreFollowed
