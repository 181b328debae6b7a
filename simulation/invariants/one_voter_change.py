"""Voter sets change one voter at a time, each change committed before the next (KIP-853)."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class OneVoterChange(Invariant):
    """Compares each voter set with the one before it.

    Looked at where it is decided: at the leader.
    """

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Hold a new set against the one before it."""
        if replica.core.role.name is not RoleName.LEADER:
            return
        history = [(at, voters) for at, voters in replica.core.log.voters.entries() if at < offset]
        if not history:
            self._first(replica, record)
            return
        before_at, before = history[-1]
        voters = replica.profile.policy.folded(record, before)
        if voters is None:
            return
        added = [v.key for v in voters if not before.is_voter(v.key)]
        removed = [v.key for v in before if not voters.is_voter(v.key)]
        if len(added) + len(removed) > 1:  # One for another is two: majorities need not meet.
            self.fail(f"leader {replica.id} adds {added} and removes {removed} at once")
        changes = bool(added or removed)
        if changes and before_at >= 0 and before_at >= self.committed_log.high_watermark:
            self.fail(f"leader {replica.id} changes voters while offset {before_at} is uncommitted")
        if changes and replica.core.high_watermark <= replica.epoch_start:
            self.fail(
                f"leader {replica.id} changes voters before it committed in epoch "
                f"{replica.core.epoch}"
            )

    def _first(self, replica: Replica, record: ControlRecord) -> None:
        """The first set that is written, as at the upgrade, is of those who voted without one."""
        first = replica.first_voters
        voters = replica.profile.policy.folded(record, first)
        if voters is not None and len(first) and voters.ids != first.ids:
            self.fail(f"leader {replica.id} writes {voters.ids}, and {first.ids} vote until then")


INVARIANT = OneVoterChange
