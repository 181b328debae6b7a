"""A snapshot stands for a committed prefix that ends with a batch, and says what that was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import SnapshotId

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class SnapshotIsPrefix(Invariant):
    """See the module (KIP-630)."""

    def snapshot_stored(self, replica: Replica, snapshot: SnapshotId, chain: int) -> None:
        """Compare to the ledger; what is not in it was not committed."""
        if snapshot.end_offset > self.ledger.high_watermark:
            self.fail(
                f"node {replica.id} has snapshot {snapshot}, committed are "
                f"{self.ledger.high_watermark}"
            )
        known = self.ledger.chains.get(snapshot.end_offset)
        if known is not None and known != chain:
            self.fail(f"node {replica.id}: snapshot {snapshot} is not what was committed before it")


INVARIANT = SnapshotIsPrefix
