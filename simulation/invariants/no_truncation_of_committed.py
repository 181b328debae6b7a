"""No node cuts what it knows to be committed."""

from __future__ import annotations

from kraftspec.reference.raft import SnapshotId
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class NoTruncationOfCommitted(Invariant):
    """Compares where a node cuts its log with its high watermark."""

    def truncating(self, replica: Replica, end_offset: int) -> None:
        """Compare to what the node knows."""
        if end_offset < replica.high_watermark:
            self.fail(
                f"node {replica.id} cuts at {end_offset}, knows {replica.high_watermark} committed"
            )

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A snapshot that replaces a log is not older than what is committed there."""
        if snapshot.end_offset < replica.high_watermark:
            self.fail(
                f"node {replica.id} goes back to {snapshot}, and knew {replica.high_watermark}"
            )


INVARIANT = NoTruncationOfCommitted
