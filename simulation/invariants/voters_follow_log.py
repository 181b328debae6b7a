"""Every node acts on the last voter set in its log, committed or not, and on none that is cut.

So it takes itself for a voter if, and only if, it is one of that set. Who is left out may go on
until it knows that this is committed, where its protocol says so. What its log has is noted here;
the core keeps a history of its own.
"""

from __future__ import annotations

from itertools import pairwise

from kraftspec.reference.raft import SnapshotId, Voter, VoterSet
from kraftspec.simulation.invariants.log_voters import LogVoters
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class VotersFollowLog(LogVoters):
    """Compares the voter set that a node acts on with the last one in its log (KIP-853)."""

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """Look at once, unless what it acts on is all that is known of its log."""
        super().started(replica, before)
        if before is not None and replica.log_model.start_offset <= before.end_offset:
            self.voters_changed(replica)

    def voters_changed(self, replica: Replica) -> None:
        """Hold the core's set against the log's."""
        sets = self.sets[replica.key]
        due = sets[-1][1] if sets else replica.first_voters
        voters = replica.core.log.voters.last
        if not _are_same(voters, due):
            self.fail(f"node {replica.id} acts on {_named(voters)}, its log has {_named(due)}")
        committed = replica.core.high_watermark
        earlier = [
            before
            for (_, before), (at, _) in pairwise([(-1, replica.first_voters), *sets])
            if at >= committed
        ]
        is_voter = replica.world.protocol.is_voter(replica.key, due, earlier)
        if is_voter is not None and replica.core.is_voter is not is_voter:
            votes = "does not take" if is_voter else "takes"
            self.fail(f"node {replica.id} {votes} itself for a voter, its log has {_named(due)}")

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Who is left out by what is committed votes no more; nobody else leaves by it."""
        sets = self.sets[replica.key]
        due = sets[-1][1] if sets else replica.first_voters
        if replica.core.is_voter is not due.is_voter(replica.key):
            self.voters_changed(replica)

    def snapshot_written(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A snapshot has the set that was in force at its end, not a later one."""
        sets = [voters for at, voters in self.sets[replica.key] if at < snapshot.end_offset]
        written = replica.snapshot_voters(snapshot)
        if sets and not (written and _are_same(written[-1][1], sets[-1])):
            self.fail(
                f"node {replica.id}: snapshot {snapshot} has voters "
                f"{_named(written[-1][1]) if written else 'none'}, not {_named(sets[-1])}"
            )


def _are_same(one: VoterSet, other: VoterSet) -> bool:
    """Whether they say the same; in which order the listeners of a voter come says nothing."""
    return one == other or (one.ids == other.ids and all(map(Voter.is_same, one, other)))


def _named(voters: VoterSet) -> str:
    return f"{[f'{v.key.id}:{str(v.key.directory_id)[:4]}' for v in voters]}"


INVARIANT = VotersFollowLog
