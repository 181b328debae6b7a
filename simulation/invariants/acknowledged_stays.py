"""An append that was acknowledged is in the log at the end, at the offset that was told."""

from __future__ import annotations

from kraftspec.simulation.clients import Operation
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class AcknowledgedStays(Invariant):
    """Compares each acknowledged append with what is committed at its offset.

    Committed bytes never change, so the committed log shows it at once.
    """

    def __init__(self) -> None:
        self.acknowledged = 0

    def operation_ended(self, operation: Operation) -> None:
        """When it is acknowledged, what is committed there is this append's batch."""
        if operation.end_offset < 0:
            return
        self.acknowledged += 1
        known = self.committed_log.chains.get(operation.end_offset)
        if operation.end_offset > self.committed_log.high_watermark:
            self.fail(f"{operation} is acknowledged and not committed")
        if known is not None and known != operation.chain:
            self.fail(f"{operation} is acknowledged, and other bytes are committed there")

    def finished(self, replicas: list[Replica]) -> None:
        """Every node that is up at the end has what was committed, or has it in a snapshot."""
        committed = self.committed_log.high_watermark
        for replica in replicas:
            log_model = replica.log_model
            end = min(committed, log_model.end_offset, max(replica.high_watermark, 0))
            chain = log_model.chain_at(end)
            known = self.committed_log.chains.get(end)
            if chain is not None and known is not None and chain != known:
                self.fail(f"node {replica.id} lost what was committed before {end}")


INVARIANT = AcknowledgedStays
