"""A node that answers a Vote or a leader's request has adopted its epoch (Raft §5.1, KIP-595).

A Fetch is different: a node rejects a Fetch of an epoch that it does not know, and stays.
"""

from __future__ import annotations

from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class HigherEpochIsAdopted(Invariant):
    """Compares a node's epoch with those of the votes it answers and the requests it sends."""

    def epoch_answered(self, replica: Replica, epoch: int) -> None:
        """Compare, before the answer leaves."""
        if replica.core.epoch < epoch:
            self.fail(
                f"node {replica.id} answers epoch {epoch}, and is {replica.core.role.name} of "
                f"epoch {replica.core.epoch}"
            )


INVARIANT = HigherEpochIsAdopted
