"""An append is taken in the epoch in which its state machine leads, and in no other.

Who led, was deposed and is elected again has to read what came between before it appends (KIP-595:
``RaftClient.scheduleAppend`` takes the epoch).
"""

from __future__ import annotations

from kraftspec.simulation.clients import Operation
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class AppendIsOfItsEpoch(Invariant):
    """Compares the epoch in which an append is taken with the one that it names."""

    def append_taken(self, replica: Replica, operation: Operation, epoch: int) -> None:
        """Compare when it gets its offsets."""
        if operation.epoch != epoch:
            self.fail(
                f"leader {replica.id} of epoch {epoch} takes an append that is meant for epoch "
                f"{operation.epoch}"
            )


INVARIANT = AppendIsOfItsEpoch
