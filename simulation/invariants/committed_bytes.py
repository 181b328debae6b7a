"""Whatever two nodes call committed has the same bytes (state machine safety).

A leader commits nothing before a record of its own epoch is held by a majority (Raft, figure 8).
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class CommittedBytes(Invariant):
    """Compares the bytes that nodes have committed at the same offset.

    Kafka's ConsistentCommittedData, checked when it happens.
    """

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Compare chains at the new offset, which covers all before it."""
        if new < 0:
            return
        log_model = replica.log_model
        if new > log_model.end_offset:
            self.fail(
                f"node {replica.id} says {new} is committed, its log ends at {log_model.end_offset}"
            )
        chain = log_model.chain_at(new)
        if chain is None:
            if new >= log_model.start_offset:
                self.fail(f"node {replica.id} says {new} is committed, and no batch ends there")
            return
        known = self.committed_log.commit(new, chain)
        if known is not None and known != chain:
            self.fail(f"node {replica.id} has other bytes before {new} than were committed there")
        if replica.core.role.name is RoleName.LEADER and new > old:
            index = log_model.index_of(new)
            if index >= 0 and log_model.epochs[index] != replica.core.epoch:
                self.fail(
                    f"leader {replica.id} of {replica.core.epoch} commits up to {new}, where the "
                    f"last batch is of epoch {log_model.epochs[index]}"
                )


INVARIANT = CommittedBytes
