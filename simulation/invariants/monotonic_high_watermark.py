"""A high watermark never decreases: a node's within one incarnation, a leader's between leaders."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

# Who was elected knows none at first, and may have resigned in that very step.
_LED = (RoleName.LEADER, RoleName.RESIGNED)


class MonotonicHighWatermark(Invariant):
    """Compares each high watermark with the one before (Kafka's MonotonicHighWatermark)."""

    def __init__(self) -> None:
        self.leaders = -1
        self.epoch = -1

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """A leader of a later epoch starts by not knowing, which is no fall."""
        if new < old and (new >= 0 or replica.core.role.name not in _LED):
            self.fail(f"node {replica.id} fell from high watermark {old} to {new}")
        if new >= 0 and replica.core.role.name is RoleName.LEADER:
            if new < self.leaders and replica.core.epoch >= self.epoch:
                self.fail(
                    f"leader {replica.id} of epoch {replica.core.epoch} says {new} is committed, "
                    f"a leader before it said {self.leaders}"
                )
            if replica.core.epoch >= self.epoch:
                self.leaders, self.epoch = max(new, self.leaders), replica.core.epoch


INVARIANT = MonotonicHighWatermark
