"""The voter sets that each node's log has, noted as they are written, cut and replaced."""

from __future__ import annotations

from kraftspec.reference.raft import SnapshotId, VoterSet
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class LogVoters(Invariant):
    """Base of what is said of them: it judges nothing. A node may act on other sets than these."""

    def __init__(self) -> None:
        # Replica key → the voter sets of its log by offset, ascending; what it started with first.
        self.sets: dict[object, list[tuple[int, VoterSet]]] = {}

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Note a set that is written."""
        sets = self.sets[replica.key]
        before = sets[-1][1] if sets else replica.first_voters
        voters = replica.profile.policy.folded(record, before)
        if voters is not None:
            sets.append((offset, voters))

    def truncated(self, replica: Replica) -> None:
        """Forget sets that are cut, once they are: a cut that the power ended may have cut none."""
        self._cut(replica)

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A snapshot's set takes the place of those in the log."""
        self.sets[replica.key] = replica.snapshot_voters(snapshot)

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """What the log had before still stands, as far as recovery found the log."""
        entries = replica.known_voters
        if before is None or replica.log_model.start_offset > before.end_offset:
            # New, or a snapshot took the place of the log when the power went, or just now.
            self.sets[replica.key] = entries
            return
        self._cut(replica)
        # A write that failed may have got to the disk.
        self.sets[replica.key] += [entry for entry in entries if entry[0] >= before.end_offset]

    def _cut(self, replica: Replica) -> None:
        sets = self.sets[replica.key]
        while sets and sets[-1][0] >= replica.log_model.end_offset:
            sets.pop()
