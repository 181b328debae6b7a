"""What was synced is there after a restart, byte for byte, vote and log."""

from __future__ import annotations

from kraftspec.reference.raft import ElectionState
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class DurableSurvives(Invariant):
    """Compares what a node restarts with and what it had synced."""

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """Hold what recovery found against what was said to be durable."""
        if before is None:
            return
        end, after = replica.durable_end, replica.log_model
        # A snapshot of a later epoch replaces a log, however long; it may be there, untold.
        is_replaced = not after.ends and after.start_epoch > before.last_epoch
        if after.end_offset < end and not is_replaced:
            self.fail(f"node {replica.id} had synced up to {end}, recovers {after.end_offset}")
        # Starts may differ: what a snapshot made superfluous may go or come back.
        start = max(before.start_offset, after.start_offset)
        if not is_replaced and end > start and before.chain_at(end) != after.chain_at(end):
            self.fail(f"node {replica.id} recovers other bytes before {end} than it had synced")
        storing = replica.storing
        is_new = storing is not None and _same(replica.core_start, storing)
        if not is_new and not _same(replica.core_start, replica.stored):
            self.fail(f"node {replica.id} stored {replica.stored}, and reads {replica.core_start}")
        core = replica.core
        begins = ElectionState(core.epoch, core.leader_id, core.voted)
        if not _same(begins, replica.core_start):
            self.fail(f"node {replica.id} reads {replica.core_start}, and starts with {begins}")


def _same(read: ElectionState, stored: ElectionState) -> bool:
    """Whether they say the same; version 0 of quorum-state does not name a vote's directory."""
    if (read.epoch, read.leader_id) != (stored.epoch, stored.leader_id):
        return False
    if read.voted is None or stored.voted is None:
        return read.voted is stored.voted
    return read.voted.matches(stored.voted)


INVARIANT = DurableSurvives
