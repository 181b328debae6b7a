"""Voter sets change one voter at a time, each change committed before the next (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.control import ControlRecord, Voters

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class OneVoterChange(Invariant):
    """See the module. Looked at where it is decided: at the leader."""

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Hold a new set against the one before it."""
        if not isinstance(record, Voters) or replica.core.role.name is not RoleName.LEADER:
            return
        history = [(at, voters) for at, voters in replica.core.log.voters.entries() if at < offset]
        if not history:
            return
        before_at, before = history[-1]
        added = [v.key for v in record.voters if not before.is_voter(v.key)]
        removed = [v.key for v in before if not record.voters.is_voter(v.key)]
        if len(added) > 1 or len(removed) > 1:
            self.fail(f"leader {replica.id} adds {added} and removes {removed} at once")
        changes = bool(added or removed)
        if changes and before_at >= 0 and before_at >= self.ledger.high_watermark:
            self.fail(f"leader {replica.id} changes voters while offset {before_at} is uncommitted")
        if changes and replica.core.high_watermark <= replica.epoch_start:
            self.fail(
                f"leader {replica.id} changes voters before it committed in epoch "
                f"{replica.core.epoch}"
            )


INVARIANT = OneVoterChange
