"""A node's epoch never falls, in memory or on disk, and its disk knows each before it acts."""

from __future__ import annotations

from kraftspec.reference.raft import ElectionState
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class MonotonicEpoch(Invariant):
    """Compares each epoch of a node, in memory and on disk, with the one before.

    Kafka's MonotonicEpoch.
    """

    def __init__(self) -> None:
        self.stored: dict[object, int] = {}  # Replica key → the largest epoch on its disk.

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """What is stored may not fall."""
        before = self.stored.get(replica.key, -1)
        if state.epoch < before:
            self.fail(f"node {replica.id} stored epoch {state.epoch} after {before}")
        self.stored[replica.key] = state.epoch

    def epoch_changed(self, replica: Replica, old: int, new: int) -> None:
        """What runs may not fall, and is stored by the time its step is over."""
        if new < old:
            self.fail(f"node {replica.id} fell from epoch {old} to {new}")
        stored = self.stored.get(replica.key, -1)
        if stored != new:
            self.fail(f"node {replica.id} runs epoch {new}, and its disk knows {stored}")

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """A node that starts does not start in the past."""
        stored = self.stored.get(replica.key, -1)
        if replica.core.epoch < stored:
            self.fail(f"node {replica.id} starts in epoch {replica.core.epoch}, after {stored}")


INVARIANT = MonotonicEpoch
