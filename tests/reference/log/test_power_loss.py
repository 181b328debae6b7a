"""The log on a real file system, whose disk loses its power anywhere.

What `MemoryFiles` assumes of a disk, ext4 may do otherwise: what a rename, a directory's sync or a
cut of a file needs to be durable. So the same promises are held on ext4 itself, over a disk that
loses what was not flushed (`recorded_disk`). ``python -m tests.reference.log.test_power_loss N``
cuts the power N times; the test does it less often.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest

from kraftspec.fastpath.batch_reader import read_header
from kraftspec.generated.kafka import QuorumStateData, SnapshotHeaderRecord
from kraftspec.reference.log import LogConfig, LogDirectory, MetadataLog, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.snapshots import checkpoint_bytes
from kraftspec.reference.raft.types import SnapshotId

from . import recorded_disk

META = MetaProperties(cluster_id="cG93ZXItY3V0cy1jbHVzdA", node_id=1)
CONFIG = LogConfig(segment_bytes=6_000, zero_ahead_bytes=4096)
DEEDS = 160
FETCHES = 0.3  # A fetched snapshot ends what was there: not too often.
CUTS = 25


class State(msgspec.Struct, frozen=True):
    """What a directory promises: batches by their base offset, what of them was flushed, ..."""

    start: int
    flushed: int
    epoch: int
    batches: dict[int, bytes]
    snapshots: tuple[SnapshotId, ...]
    vote: tuple[int, int]  # Epoch, whom for.


class Deed(msgspec.Struct, frozen=True):
    """A deed: between two numbers of writes of the disk it led from one state to the other."""

    name: str
    begins: int
    ends: int
    before: State
    after: State


class Workload:
    """A node's life on a disk, deed by deed, each durable when it returns."""

    def __init__(self, disk: recorded_disk.RecordedDisk, path: Path, seed: int) -> None:
        self.disk = disk
        self.random = Random(seed)
        self.path = str(path / "data")
        self.done: list[Deed] = []
        self.epoch = 1
        self.batches: dict[int, bytes] = {}
        self.vote = (0, -1)
        LogDirectory.format(self.path, META)
        self.formatted_at = len(disk.written)  # A directory that was formatted stays so.
        self.directory = LogDirectory.open(self.path)
        self.log = self.directory.open_log(CONFIG)
        self.vote_for(1)

    def state(self) -> State:
        """Return what it promises now."""
        log = self.log
        return State(
            log.start_offset, log.flushed_offset, self.epoch, dict(self.batches),
            tuple(log.snapshots), self.vote,
        )  # fmt: skip

    def run(self, deeds: int) -> None:
        """Do so many deeds."""
        for _ in range(deeds):
            before, begins = self.state(), len(self.disk.written)
            name = self.random.choice(
                ("append",) * 8
                + ("do_vote", "do_vote", "truncate", "do_snapshot", "clean", "reopen")
                + ("fetch_snapshot",) * (self.random.random() < FETCHES)
            )
            getattr(self, name)()
            deed = Deed(name, begins, len(self.disk.written), before, self.state())
            self.done.append(deed)
        self.log.close()
        self.directory.close()

    def append(self) -> None:
        """Append some batches, and flush them."""
        for _ in range(self.random.randint(1, 3)):
            values = [self.random.randbytes(self.random.randint(1, 900)) for _ in range(3)]
            appended = self.log.append_records(self.epoch, values, 1_700_000_000_000)
            self.batches[appended.base_offset] = bytes(appended.data)
        self.log.flush()

    def vote_for(self, node_id: int) -> None:
        """Store a vote."""
        self.vote = (self.epoch, node_id)
        self.directory.quorum_state.write(
            QuorumStateData(leader_epoch=self.epoch, voted_id=node_id), 1
        )

    def do_vote(self) -> None:
        """Begin an epoch, and vote in it."""
        self.epoch += 1
        self.vote_for(self.random.randint(1, 3))

    def truncate(self) -> None:
        """Cut off a few batches."""
        committed = max((one.end_offset for one in self.log.snapshots), default=0)
        bases = [base for base in sorted(self.batches)[-4:] if base >= committed]
        if bases:
            cut = self.random.choice(bases)
            self.log.truncate_to(cut)
            self.batches = {base: data for base, data in self.batches.items() if base < cut}

    def do_snapshot(self) -> None:
        """Write a snapshot of a prefix."""
        log = self.log
        ends = [base for base in sorted(self.batches) if base > log.start_offset]
        last = max((one.end_offset for one in log.snapshots), default=0)
        ends = [end for end in ends if end > last]
        if ends:
            end = self.random.choice(ends)
            id = SnapshotId(end, log.epoch_of(end - 1))
            writer = log.create_snapshot(
                id, [control_value(SnapshotHeaderRecord())], timestamp_ms=0
            )
            assert writer is not None  # There is none of that id yet.
            writer.append([self.random.randbytes(5_000)])
            writer.freeze()

    def clean(self) -> None:
        """Let the log start at its newest snapshot."""
        if self.log.snapshots:
            self.log.delete_before(self.log.snapshots[-1])

    def fetch_snapshot(self) -> None:
        """Take a snapshot that is ahead, and begin the log anew there."""
        id = SnapshotId(self.log.end_offset + 10, self.epoch)
        part = self.log.begin_snapshot(id)
        head = [control_value(SnapshotHeaderRecord())]
        data = checkpoint_bytes(head, [self.random.randbytes(3_000)], timestamp_ms=0)
        for start in range(0, len(data), 1_000):
            part.append(data[start : start + 1_000])
        part.complete()
        self.log.truncate_fully_to(id)
        self.batches = {}

    def reopen(self) -> None:
        """Close it, and open it again."""
        self.log.close()
        self.directory.close()
        self.directory = LogDirectory.open(self.path)
        self.log = self.directory.open_log(CONFIG)


def check(path: Path, deed: Deed, is_done: bool) -> None:
    """Open what the disk has, and hold it against what was promised by then."""
    before, after = deed.after if is_done else deed.before, deed.after
    with LogDirectory.open(str(path / "data")) as directory:
        stored = directory.quorum_state.read()
        assert stored is not None
        assert (stored[0].leader_epoch, stored[0].voted_id) in (before.vote, after.vote)
        log = directory.open_log(CONFIG)
        moved = log.start_offset == after.start != before.start
        promised = after if moved else before
        start = promised.start
        if deed.name == "clean" and start < log.start_offset < after.start:
            start = log.start_offset  # Some segments and snapshots are gone, and others not yet.
            assert start in {one.end_offset for one in log.snapshots}
        # A first segment may have more than what was served (docs/decisions/0010-log.md).
        assert log.start_offset <= start
        flushed = promised.flushed
        if deed.name != "fetch_snapshot":
            flushed = min(flushed, after.flushed)
        assert log.end_offset >= flushed
        served = [base for base in sorted(promised.batches) if start <= base < flushed]
        expected = b"".join(promised.batches[base] for base in served)
        assert _read(log, start, flushed) == expected
        assert {*before.snapshots} & {*after.snapshots} <= {*log.snapshots}
        assert {*log.snapshots} <= {*before.snapshots} | {*after.snapshots}
        log.append_records(max(log.last_epoch, deed.after.epoch), [b"goes on"], 1_700_000_000_000)
        assert log.flush() == log.end_offset
        log.close()


def _read(log: MetadataLog, offset: int, end_offset: int) -> bytes:
    """Return the batches between two offsets, at which batches begin."""
    data = b""
    while offset < end_offset:
        part = log.read(offset, 1)  # A batch.
        header = read_header(part, 0)
        assert header.base_offset == offset
        data += part
        offset = header.last_offset + 1
    return data


def cut_power(work: Path, cuts: int, seed: int) -> Counter[str]:
    """Let a node live on a recorded disk, and open what is left of it after each cut.

    Return amid which deeds the power went. Raises whatever a promise that is not kept raises.
    """
    random = Random(seed)
    with recorded_disk.recording(work) as (disk, live):
        workload = Workload(disk, live, seed)
        workload.run(DEEDS)
    deeds = workload.done
    amid: Counter[str] = Counter()
    for number in range(cuts):
        count = random.randint(deeds[0].begins, deeds[-1].ends)
        deed = next(deed for deed in reversed(deeds) if deed.begins <= count)
        is_done = count >= deed.ends
        amid["none" if is_done else deed.name] += 1
        image = work / "cut"
        image.write_bytes(disk.after_a_power_loss(count, random))
        with recorded_disk.mounted(image, work / "after") as path:
            try:
                check(path, deed, is_done)
            except Exception as error:
                raise AssertionError(f"seed {seed}, cut {number}, amid {deed.name}") from error
    return amid


@pytest.fixture(scope="module", autouse=True)
def _needs_a_disk() -> None:
    missing = recorded_disk.why_not()
    if missing is not None:
        pytest.skip(missing)


@pytest.mark.soak
def test_what_was_promised_is_on_the_disk(tmp_path: Path) -> None:
    amid = cut_power(tmp_path, CUTS, seed=1)
    assert amid.total() == CUTS
    assert len(amid) > 3  # Amid deeds of different kinds.


@pytest.mark.parametrize("forgotten", ["fdatasync", "fsync"])
def test_a_sync_that_is_forgotten_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    monkeypatch.setattr(os, forgotten, lambda descriptor: None)
    with pytest.raises(AssertionError, match="amid"):
        cut_power(tmp_path, CUTS, seed=2)


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for first in range(0, int(sys.argv[1]), CUTS):
        with tempfile.TemporaryDirectory() as directory:
            total += cut_power(Path(directory), CUTS, seed=first)
        sys.stdout.write(f"{total.total()} power losses: {dict(total)}\n")
