"""A high watermark does not fall: a node's within its life, and a leader's from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica

# Who was elected knows none at first, and may have resigned in that very step.
_LED = (RoleName.LEADER, RoleName.RESIGNED)


class MonotonicHighWatermark(Invariant):
    """See the module (Kafka's MonotonicHighWatermark)."""

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
