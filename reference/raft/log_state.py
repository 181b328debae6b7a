"""The core's small picture of the log: offsets and epochs, never records.

The host makes one at start from what recovery found, and hands it to the core, which keeps it true
from then on by what it orders (truncate, append) and what it is told (flushed, snapshot stored).

Source: Kafka's ``KafkaRaftLog`` and ``LeaderEpochFileCache``; KIP-101 for epochs and their ends,
KIP-630 for snapshots, KIP-853 for the histories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kraftspec.reference.raft.types import Snapshot, SnapshotId
from kraftspec.reference.raft.voters import History, VoterSet


class EpochEnd(NamedTuple):
    """The largest epoch not above one asked for, and where it ends in this log."""

    epoch: int
    end_offset: int


class LogState:
    """Offsets, epochs, snapshots, and the voter sets and kraft.versions written so far.

    ``epochs`` are (epoch, offset of its first record), ascending in both. ``voters`` and
    ``kraft_versions`` are histories by offset, of everything in the latest snapshot and in the log
    after it, committed or not; what a snapshot holds counts at its end offset - 1 (the bootstrap
    checkpoint's at -1). ``flushed_offset`` is how much of the log is known to be durable: at start,
    all of it, so recovery has to sync what it found.
    """

    __slots__ = (
        "_epoch_starts",
        "_epochs",
        "earliest_snapshot",
        "end_offset",
        "flushed_offset",
        "kraft_versions",
        "last_epoch",
        "latest_snapshot",
        "snapshots",
        "start_offset",
        "voters",
    )

    def __init__(
        self,
        *,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        snapshots: Iterable[Snapshot] = (),
        voters: Iterable[tuple[int, VoterSet]] = (),
        kraft_versions: Iterable[tuple[int, int]] = (),
        static_voters: VoterSet | None = None,
    ) -> None:
        pairs = list(epochs)
        self._epochs = [epoch for epoch, _ in pairs]
        self._epoch_starts = [start for _, start in pairs]
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.flushed_offset = end_offset
        self.snapshots = {snapshot.id: snapshot for snapshot in sorted(snapshots, key=_by_id)}
        self.voters: History[VoterSet] = History(static_voters or VoterSet(), voters)
        self.kraft_versions: History[int] = History(0, kraft_versions)
        self.last_epoch = 0
        self.latest_snapshot: SnapshotId | None = None
        self.earliest_snapshot: SnapshotId | None = None
        self._refresh()

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, offset of its first record), ascending."""
        return list(zip(self._epochs, self._epoch_starts, strict=True))

    def append(self, epoch: int, count: int) -> int:
        """Take note of ``count`` records of ``epoch`` at the end; return the first one's offset."""
        base_offset = self.end_offset
        if epoch > self.last_epoch or not self._epochs:
            self.start_epoch(epoch, base_offset)
        self.end_offset = base_offset + count
        return base_offset

    def start_epoch(self, epoch: int, offset: int) -> None:
        """Take note that ``epoch`` starts at ``offset``; epochs that wrote nothing give way."""
        while self._epoch_starts and self._epoch_starts[-1] >= offset:
            del self._epochs[-1], self._epoch_starts[-1]
        self._epochs.append(epoch)
        self._epoch_starts.append(offset)
        self.last_epoch = epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch here not above ``epoch``, and where it ends (KIP-101)."""
        if epoch >= self.last_epoch:
            return EpochEnd(self.last_epoch, self.end_offset)
        index = bisect_right(self._epochs, epoch)
        earliest = self.earliest_snapshot
        if index:
            end = self._epoch_starts[index]
            match = self._epochs[index - 1]
        elif self._epochs:
            # Kafka's epoch cache answers an epoch before its first with that epoch itself.
            end, match = self._epoch_starts[0], epoch
        else:
            return EpochEnd(self.last_epoch, self.end_offset)
        if earliest is not None and end == earliest.end_offset and match == epoch:
            return EpochEnd(earliest.epoch, end)
        return EpochEnd(match, end)

    def is_before_snapshots(self, offset: int, epoch: int) -> bool:
        """Whether what a replica with such a log needs next is in no batch here (KIP-630)."""
        earliest = self.earliest_snapshot
        return earliest is not None and (
            offset < self.start_offset
            or (offset == self.start_offset and epoch != earliest.epoch)
            or epoch < earliest.epoch
        )

    def is_valid(self, offset: int, epoch: int) -> bool:
        """Whether a log that ends at ``offset`` with ``epoch`` is a prefix of this one (KIP-101).

        False as well where this log begins later, so that nobody can tell any more.
        """
        if offset == 0 and self.start_offset == 0:
            return True
        if self.is_before_snapshots(offset, epoch):
            return False
        match, end_offset = self.end_offset_for_epoch(epoch)
        return match == epoch and offset <= end_offset

    def truncate_to(self, end_offset: int) -> None:
        """Forget everything at ``end_offset`` and after, voter sets and versions included."""
        if end_offset >= self.end_offset:
            return
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        while self._epoch_starts and self._epoch_starts[-1] >= end_offset:
            del self._epochs[-1], self._epoch_starts[-1]
        self.voters.truncate_from(end_offset)
        self.kraft_versions.truncate_from(end_offset)
        self._refresh()

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Take note of a snapshot that is complete."""
        self.snapshots[snapshot.id] = snapshot
        self.snapshots = dict(sorted(self.snapshots.items(), key=lambda item: _order(item[0])))
        self._refresh()

    def reset_to(self, snapshot: SnapshotId, voters: VoterSet | None, level: int | None) -> None:
        """Forget the log: it starts and ends where ``snapshot`` ends (KIP-630)."""
        self.start_offset = self.end_offset = self.flushed_offset = snapshot.end_offset
        self._epochs.clear()
        self._epoch_starts.clear()
        self._forget_snapshots_before(snapshot)
        at = snapshot.end_offset - 1
        self.voters.replace([(at, voters)] if voters is not None else [])
        self.kraft_versions.replace([(at, level)] if level is not None else [])
        self._refresh()

    def delete_before(self, snapshot: SnapshotId) -> None:
        """Let the log start where ``snapshot`` ends, and forget the snapshots before it."""
        self.start_offset = snapshot.end_offset
        self._forget_snapshots_before(snapshot)
        index = bisect_right(self._epoch_starts, self.start_offset) - 1
        if index >= 0:
            del self._epochs[:index], self._epoch_starts[:index]
            self._epoch_starts[0] = max(self._epoch_starts[0], self.start_offset)
        self._refresh()

    def _forget_snapshots_before(self, snapshot: SnapshotId) -> None:
        kept = {id: s for id, s in self.snapshots.items() if _order(id) >= _order(snapshot)}
        self.snapshots = kept

    def _refresh(self) -> None:
        ids = list(self.snapshots)
        self.earliest_snapshot = ids[0] if ids else None
        self.latest_snapshot = ids[-1] if ids else None
        if self._epochs:
            self.last_epoch = self._epochs[-1]
        else:
            self.last_epoch = ids[-1].epoch if ids else 0


def _order(id: SnapshotId) -> tuple[int, int]:
    return (id.epoch, id.end_offset)  # Kafka's OffsetAndEpoch: by epoch, then by offset.


def _by_id(snapshot: Snapshot) -> tuple[int, int]:
    return _order(snapshot.id)
