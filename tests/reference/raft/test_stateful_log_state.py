"""The core's picture of the log against a list that has the epoch of every record ever written."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.reference.raft.network import voter

from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.types import Snapshot, SnapshotId
from kraftspec.reference.raft.voters import VoterSet

STATIC = VoterSet([voter(1)])
SETS = [VoterSet(voter(id) for id in ids) for ids in ((1, 2), (1, 2, 3), (2, 3), (3,))]


class LogStateMachine(RuleBasedStateMachine):
    """``epochs`` has an entry for each offset from 0 on, whether the log still starts there."""

    def __init__(self) -> None:
        super().__init__()
        self.log = LogState(static_voters=STATIC)
        self.epochs: list[int] = []
        self.start = 0
        self.sets: dict[int, VoterSet] = {}  # By the offset at which each came.
        self.levels: dict[int, int] = {}
        self.snapshots: list[SnapshotId] = []
        self.known_from = -1  # What was in force at an offset is known from here on.

    @property
    def end(self) -> int:
        return len(self.epochs)

    @property
    def last_epoch(self) -> int:
        if self.start < self.end:
            return self.epochs[-1]
        return max((id.epoch for id in self.snapshots), default=0)

    # ---- what may happen -----------------------------------------------------------------------

    @rule(ahead=st.integers(0, 2), count=st.integers(1, 4))
    def append(self, ahead: int, count: int) -> None:
        epoch = max(1, self.last_epoch + ahead)
        assert self.log.append(epoch, count) == self.end
        self.epochs += [epoch] * count

    @rule(voters=st.sampled_from(SETS), level=st.integers(0, 1))
    def append_control(self, voters: VoterSet, level: int) -> None:
        epoch = max(1, self.last_epoch)
        offset = self.log.append(epoch, 2)
        self.log.voters.add(offset, voters)
        self.log.kraft_versions.add(offset + 1, level)
        self.epochs += [epoch] * 2
        self.sets[offset], self.levels[offset + 1] = voters, level

    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self.log.flushed_offset = data.draw(st.integers(self.log.flushed_offset, self.end))

    @precondition(lambda self: self.start < self.end)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        newest = max((id.end_offset for id in self.snapshots), default=0)
        cut = data.draw(st.integers(max(self.start, newest), self.end))
        self.log.truncate_to(cut)
        del self.epochs[cut:]
        self.sets = {at: voters for at, voters in self.sets.items() if at < cut}
        self.levels = {at: level for at, level in self.levels.items() if at < cut}

    @precondition(lambda self: self.start < self.end)
    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.start + 1, self.end))
        id = SnapshotId(end, self.epochs[end - 1])
        self.log.add_snapshot(Snapshot(id, size=1))
        self.log.voters.truncate_before(end)
        self.log.kraft_versions.truncate_before(end)
        if id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, id], key=_order)
        self.known_from = max(self.known_from, end - 1)

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.snapshots))
        self.log.delete_before(id)
        self.start = max(self.start, id.end_offset)
        self.snapshots = [one for one in self.snapshots if one.end_offset >= id.end_offset]

    @rule(
        ahead=st.integers(1, 5),
        later=st.integers(0, 1),
        voters=st.none() | st.sampled_from(SETS),
    )
    def fetch_a_snapshot(self, ahead: int, later: int, voters: VoterSet | None) -> None:
        id = SnapshotId(self.end + ahead, max(1, self.last_epoch + later))
        self.log.add_snapshot(Snapshot(id, size=1))
        self.log.reset_to(id, voters, 1 if voters is not None else None)
        self.epochs += [id.epoch] * ahead
        self.start, self.snapshots = self.end, [id]
        self.sets = {self.end - 1: voters} if voters is not None else {}
        self.levels = {self.end - 1: 1} if voters is not None else {}
        self.known_from = self.end - 1

    # ---- what must be so -----------------------------------------------------------------------

    @invariant()
    def offsets_are_right(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert log.last_epoch == self.last_epoch
        assert log.flushed_offset <= log.end_offset
        assert set(log.snapshots) == set(self.snapshots)
        assert log.latest_snapshot == max(self.snapshots, key=_order, default=None)
        assert log.earliest_snapshot == min(self.snapshots, key=_order, default=None)

    @invariant()
    def epochs_end_where_the_next_begins(self) -> None:
        here = self.epochs[self.start :]
        for epoch in range(1, self.last_epoch + 2):
            below = [batch_epoch for batch_epoch in here if batch_epoch <= epoch]
            if below:
                end = self.end - sum(1 for batch_epoch in here if batch_epoch > epoch)
                assert self.log.end_offset_for_epoch(epoch) == (max(below), end)

    @invariant()
    def a_prefix_is_known_as_one(self) -> None:
        """And what is none is not: one that is longer than its last epoch, or of another."""
        here = set(self.epochs[self.start :])
        for offset in range(self.start + 1, self.end + 1):
            epoch = self.epochs[offset - 1]
            end = max(at + 1 for at, batch_epoch in enumerate(self.epochs) if batch_epoch == epoch)
            # Who is in an epoch before the earliest snapshot's gets a snapshot (KIP-630).
            is_old = any(epoch < id.epoch for id in self.snapshots[:1])
            assert self.log.is_valid(offset, epoch) == (not is_old)
            assert not self.log.is_valid(end + 1, epoch)
            assert self.log.is_valid(offset, self.last_epoch + 1) is False
        for epoch in set(range(1, self.last_epoch)) - here - {id.epoch for id in self.snapshots}:
            assert not self.log.is_valid(self.end, epoch) or self.end == self.start

    @invariant()
    def the_last_voters_are_in_force(self) -> None:
        sets, levels = self.sets, self.levels
        assert self.log.voters.last == (sets[max(sets)] if sets else STATIC)
        assert self.log.voters.last_offset == max(sets, default=None)
        assert self.log.kraft_versions.last == (levels[max(levels)] if levels else 0)
        for offset in range(self.known_from, self.end):
            before = [at for at in sets if at <= offset]
            assert self.log.voters.at(offset) == (sets[max(before)] if before else STATIC)


def _order(id: SnapshotId) -> tuple[int, int]:
    return id.epoch, id.end_offset


TestLogState = LogStateMachine.TestCase
