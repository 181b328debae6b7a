"""Who fetches on has stored the voters that are committed and on its disk (KIP-595 as drafted).

"The latest known set of voters for this quorum" is in quorum-state, beside targets and cluster id.
"""

from __future__ import annotations

from kraftspec.reference.raft import VoterSet
from kraftspec.reference.raft.messages import Fetch
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class VotersAreStored(Invariant):
    """Compares a follower's file with its log whenever another set is due."""

    def __init__(self) -> None:
        self.committed: dict[int, int] = {}  # Node → its highest high watermark since it started.
        self.compared: dict[int, VoterSet] = {}  # Node → the set that was found in its file.

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """What is committed is not known again before the leader has sent it."""
        self.committed[replica.id] = 0
        self.compared.pop(replica.id, None)

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Note what is known to be committed; a new leader knows less than before."""
        self.committed[replica.id] = max(new, self.committed[replica.id])

    def fetch_requested(self, replica: Replica, request: Fetch) -> None:
        """Look into the file, now that what was appended is on the disk."""
        end_offset = min(self.committed[replica.id], replica.durable_end)
        if end_offset <= 0:
            return
        due = replica.core.log.voters.at(end_offset - 1)
        if due is self.compared.get(replica.id):
            return
        stored = replica.stored_voters
        if stored != due:
            self.fail(
                f"node {replica.id} has committed {due} before {end_offset}, and stored {stored}"
            )
        self.compared[replica.id] = due


INVARIANT = VotersAreStored
