"""A snapshot stands for a committed prefix that ends with a batch, and says what that was."""

from __future__ import annotations

from kraftspec.reference.raft import SnapshotId
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class SnapshotIsPrefix(Invariant):
    """Compares each snapshot with the committed log up to its end (KIP-630)."""

    def snapshot_stored(self, replica: Replica, snapshot: SnapshotId, chain: int) -> None:
        """Compare with the committed log; what is not in it was not committed."""
        if snapshot.end_offset > self.committed_log.high_watermark:
            self.fail(
                f"node {replica.id} has snapshot {snapshot}, committed are "
                f"{self.committed_log.high_watermark}"
            )
        known = self.committed_log.chains.get(snapshot.end_offset)
        if known is not None and known != chain:
            self.fail(f"node {replica.id}: snapshot {snapshot} is not what was committed before it")


INVARIANT = SnapshotIsPrefix
