"""A leader has everything that was committed in epochs before its own (leader completeness)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class LeaderCompleteness(Invariant):
    """See the module (Raft, figure 3)."""

    def __init__(self) -> None:
        self.epoch = -1  # The highest that had a leader: an old one elected late knows less.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Compare a new leader's log to the ledger."""
        if new is not RoleName.LEADER or replica.core.epoch <= self.epoch:
            return
        self.epoch = replica.core.epoch
        committed = self.ledger.high_watermark
        chain = replica.mirror.chain_at(committed)
        if committed < replica.mirror.start_offset:
            return
        if chain != self.ledger.chains[committed]:
            self.fail(
                f"leader {replica.id} of epoch {self.epoch} lacks what is committed before "
                f"{committed}: it has {replica.mirror.start_offset} to {replica.mirror.end_offset}"
            )


INVARIANT = LeaderCompleteness
