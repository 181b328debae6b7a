"""Storage on disks that refuse, fill up, and lose their power."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.reference.storage_disk import (
    ONE,
    Disk,
    append,
    append_control,
    bootstrap,
    contents,
    fetch,
    in_memory,
    static,
    values,
    with_snapshot,
)

from kraftspec.fastpath import encode_batch
from kraftspec.reference.log import (
    CorruptMetadataLogError,
    LocalFiles,
    LogFailedError,
)
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft import (
    ElectionState,
    ReplicaKey,
    SnapshotId,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.storage import Storage


def test_a_power_loss_leaves_the_old_vote_or_the_new() -> None:
    old, new = ElectionState(1, -1, ReplicaKey(2)), ElectionState(2, -1, ReplicaKey(3))
    for seed in range(40):
        disk = in_memory().format()
        files = disk.files
        assert isinstance(files, MemoryFiles)
        disk.storage.persist_election(fx.PersistElection(old, 0, (1, 2, 3)))
        left = seed % 8

        def lose_power(operation: str, path: str, size: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        files.hook = lose_power
        returned = False
        try:
            disk.storage.persist_election(fx.PersistElection(new, 0, (1, 2, 3)))
            returned = True
        except KeyboardInterrupt:
            pass
        files.hook = None
        files.power_loss(Random(seed))
        election = disk.open().storage.election
        assert election == new if returned else election in (old, new)


@pytest.mark.parametrize("seed", range(10))
def test_what_was_flushed_outlives_the_power(seed: int) -> None:
    disk = in_memory().format()
    append(disk.storage, 1, b"one")
    disk.storage.flush(fx.FlushLog(1))
    append(disk.storage, 1, b"two")
    assert isinstance(disk.files, MemoryFiles)
    disk.files.power_loss(Random(seed))
    storage = disk.open().storage
    assert values(contents(storage)) in ([b"one"], [b"one", b"two"])
    assert storage.log.flushed_offset == storage.log.end_offset


Deed = Callable[[Storage], object]


DEEDS: dict[str, Deed] = {
    "persist": lambda s: s.persist_election(fx.PersistElection(ElectionState(9), 0, (1,))),
    "records": lambda s: append(s, 2, b"d"),
    "a new epoch": lambda s: append(s, 3, b"d"),
    "a new segment": lambda s: append(s, 2, b"d" * 1900),
    "control": lambda s: append_control(s, 2, LeaderChange(1)),
    "batch": lambda s: s.append_batches(
        read_batches(encode_batch([b"d"], base_offset=4, partition_leader_epoch=2, timestamps=1))
    ),
    "flush": lambda s: s.flush(fx.FlushLog(4)),
    "truncate": lambda s: s.truncate(3),
    "reset": lambda s: s.reset(ONE),
    "delete": lambda s: s.delete_before(ONE),
    "snapshot": lambda s: s.write_snapshot(fx.WriteSnapshot(SnapshotId(4, 2), 0, 0, None), [], 9),
    "fetched": lambda s: fetch(s, SnapshotId(9, 3), bootstrap(1)),
}


def prepared() -> Disk:
    """Three records that are durable, a snapshot of them, and a fourth that is not."""
    disk = in_memory().format()
    disk.storage.persist_election(fx.PersistElection(ElectionState(2, 1), 0, (1,)))
    with_snapshot(disk.storage, 0, None)
    disk.storage.flush(fx.FlushLog(3))
    append(disk.storage, 2, b"unsynced")
    return disk


@pytest.mark.parametrize("deed", DEEDS)
def test_each_operation_that_fails_is_told(deed: str) -> None:
    """No effect returns as if it were done, whichever of its operations the disk refuses."""
    failures = 0
    for number in range(100):
        disk = prepared()
        files = disk.files
        assert isinstance(files, MemoryFiles)
        left = number
        failed = ""

        def refuse(operation: str, path: str, size: int) -> None:
            nonlocal left, failed
            left -= 1
            if left < 0 and not failed:
                failed = operation
                raise OSError(errno.EIO, "the disk refused", path)

        files.hook = refuse
        error = None
        try:
            DEEDS[deed](disk.storage)
        except OSError as raised:
            error = raised
        files.hook = None
        if not failed:
            assert error is None
            break
        failures += 1
        assert error is not None, failed
        assert error.errno == errno.EIO
        if isinstance(error, LogFailedError):
            for dead in ("a new epoch", "flush", "truncate"):
                with pytest.raises(LogFailedError):
                    DEEDS[dead](disk.storage)
            disk.storage.close()
        files.kill()
        check_after(disk.open().storage, deed)
    else:
        raise AssertionError("an effect without end")
    assert failures > 0


def check_after(storage: Storage, deed: str) -> None:
    """What a node finds that starts again on a disk that failed once."""
    state = storage.log_state(static(1))
    data = [value for value in values(contents(storage)) if value != b"unsynced"]
    assert storage.election in (ElectionState(2, 1), ElectionState(9))
    assert ONE in state.snapshots or deed == "fetched"
    if deed == "reset":
        assert data in ([], [b"a", b"b", b"c"])
    elif deed == "delete":
        assert state.start_offset in (0, 3)
    elif deed != "fetched":
        assert data[:3] == [b"a", b"b", b"c"]
        assert deed in ("records", "a new epoch", "a new segment", "batch") or not data[3:]


def test_a_local_file_that_may_not_grow(tmp_path: Path) -> None:
    disk = Disk(LocalFiles(), str(tmp_path / "data"), lambda: None).format()
    storage = disk.storage
    append(storage, 1, b"kept")
    storage.flush(fx.FlushLog(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(LogFailedError) as failed:
            append(storage, 1, b"x" * 1500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.errno == errno.EFBIG
    with pytest.raises(LogFailedError):
        storage.flush(fx.FlushLog(2))
    storage.close()
    storage = disk.open().storage
    assert values(contents(storage)) == [b"kept"]
    storage.close()


def test_a_log_that_does_not_open_is_not_locked() -> None:
    disk = in_memory().format()
    append(disk.storage, 1, b"one")
    append(disk.storage, 1, b"two")
    disk.storage.close()
    assert isinstance(disk.files, MemoryFiles)
    disk.files.corrupt(f"{disk.path}/{METADATA_NAME}/{0:020d}.log", 70, 1)
    for _ in range(2):
        with pytest.raises(CorruptMetadataLogError):
            disk.open()
    disk.files.corrupt(f"{disk.path}/{METADATA_NAME}/{0:020d}.log", 70, 1)
    assert values(contents(disk.open().storage)) == [b"one", b"two"]
