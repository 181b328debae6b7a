"""A leader has everything that was committed in epochs before its own (leader completeness)."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class LeaderCompleteness(Invariant):
    """Compares the log of each new leader with what was committed before it (Raft, figure 3)."""

    def __init__(self) -> None:
        self.epoch = -1  # The highest that had a leader: an old one elected late knows less.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Compare a new leader's log with the committed log."""
        if new is not RoleName.LEADER or replica.core.epoch <= self.epoch:
            return
        self.epoch = replica.core.epoch
        committed = self.committed_log.high_watermark
        chain = replica.log_model.chain_at(committed)
        if committed < replica.log_model.start_offset:
            return
        if chain != self.committed_log.chains[committed]:
            log = replica.log_model
            self.fail(
                f"leader {replica.id} of epoch {self.epoch} lacks what is committed before "
                f"{committed}: it has {log.start_offset} to {log.end_offset}"
            )


INVARIANT = LeaderCompleteness
