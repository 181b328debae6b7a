"""An answer by which a node cuts its log commits nothing there.

Raft's follower takes its leader's commit index from what fits its log alone (AppendEntries), and so
does KIP-595's: what a cut leaves may still be another leader's, and be cut by the next answer.
"""

from __future__ import annotations

from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class NoCommitWhileTruncating(Invariant):
    """Looks for a high watermark that rises in the step that cuts the log."""

    def __init__(self) -> None:
        self.cuts: dict[int, int] = {}  # Node → where its log is cut in the step under way.

    def truncating(self, replica: Replica, end_offset: int) -> None:
        """Take note."""
        self.cuts[replica.id] = end_offset

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Look whether the step cuts."""
        if new > old and replica.id in self.cuts:
            self.fail(
                f"node {replica.id} cuts its log at {self.cuts[replica.id]}, and takes {new} for "
                f"committed by the same answer, {old} before"
            )

    def voters_changed(self, replica: Replica) -> None:
        """The step that cut is over."""
        self.cuts.pop(replica.id, None)

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """The power went in it."""
        self.cuts.pop(replica.id, None)


INVARIANT = NoCommitWhileTruncating
