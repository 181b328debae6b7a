"""An append that was acknowledged is in the log at the end, at the offset that was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.clients import Operation
    from kraftspec.conformance.simulation.replica import Replica


class AcknowledgedStays(Invariant):
    """See the module. Committed bytes never change, so the ledger tells it at once."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def operation_ended(self, operation: Operation) -> None:
        """When it is acknowledged, what is committed there is this append's batch."""
        if operation.end_offset < 0:
            return
        self.acknowledged += 1
        known = self.ledger.chains.get(operation.end_offset)
        if operation.end_offset > self.ledger.high_watermark:
            self.fail(f"{operation} is acknowledged and not committed")
        if known is not None and known != operation.chain:
            self.fail(f"{operation} is acknowledged, and other bytes are committed there")

    def finished(self, replicas: list[Replica]) -> None:
        """Every node that is up at the end has what was committed, or has it in a snapshot."""
        committed = self.ledger.high_watermark
        for replica in replicas:
            mirror = replica.mirror
            end = min(committed, mirror.end_offset, max(replica.high_watermark, 0))
            chain = mirror.chain_at(end)
            known = self.ledger.chains.get(end)
            if chain is not None and known is not None and chain != known:
                self.fail(f"node {replica.id} lost what was committed before {end}")


INVARIANT = AcknowledgedStays
