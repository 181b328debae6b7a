"""Every node acts on the last voter set in its log, committed or not, and on none that is cut.

So it takes itself for a voter if, and only if, it is one of that set. What its log has is noted
here as it is written, cut and replaced; the core keeps a history of its own.
"""

from __future__ import annotations

from kraftspec.reference.raft import SnapshotId, Voter, VoterSet
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class VotersFollowLog(Invariant):
    """Compares the voter set that a node acts on with the last one in its log (KIP-853)."""

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
        self._cut(replica, replica.log_model.end_offset)

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
        self._cut(replica, replica.log_model.end_offset)
        # A write that failed may have got to the disk.
        self.sets[replica.key] += [entry for entry in entries if entry[0] >= before.end_offset]
        self.voters_changed(replica)

    def voters_changed(self, replica: Replica) -> None:
        """Hold the core's set against the log's."""
        sets = self.sets[replica.key]
        due = sets[-1][1] if sets else replica.first_voters
        voters = replica.core.log.voters.last
        if not _are_same(voters, due):
            self.fail(f"node {replica.id} acts on {_named(voters)}, its log has {_named(due)}")
        earlier = [voters for _, voters in sets[:-1]] or [replica.first_voters]
        is_voter = replica.world.protocol.is_voter(replica.key, due, earlier)
        if is_voter is not None and replica.core.is_voter is not is_voter:
            votes = "does not take" if is_voter else "takes"
            self.fail(f"node {replica.id} {votes} itself for a voter, its log has {_named(due)}")

    def snapshot_written(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A snapshot has the set that was in force at its end, not a later one."""
        sets = [voters for at, voters in self.sets[replica.key] if at < snapshot.end_offset]
        written = replica.snapshot_voters(snapshot)
        if sets and not (written and _are_same(written[-1][1], sets[-1])):
            self.fail(
                f"node {replica.id}: snapshot {snapshot} has voters "
                f"{_named(written[-1][1]) if written else 'none'}, not {_named(sets[-1])}"
            )

    def _cut(self, replica: Replica, end_offset: int) -> None:
        sets = self.sets[replica.key]
        while sets and sets[-1][0] >= end_offset:
            sets.pop()


def _are_same(one: VoterSet, other: VoterSet) -> bool:
    """Whether they say the same; in which order the listeners of a voter come says nothing."""
    return one == other or (one.ids == other.ids and all(map(Voter.is_same, one, other)))


def _named(voters: VoterSet) -> str:
    return f"{[f'{v.key.id}:{str(v.key.directory_id)[:4]}' for v in voters]}"


INVARIANT = VotersFollowLog
