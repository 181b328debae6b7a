"""Opening a log after a crash, after damage, and where files are missing, stale or half written."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kraftspec.fastpath import crc32c, encode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import QuorumStateData, SnapshotHeaderRecord
from kraftspec.reference.log import (
    CorruptMetadataLogError,
    LocalFiles,
    LogConfig,
    LogDirectory,
    LogFailedError,
    MetadataLog,
    MetaProperties,
)
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.files import read_whole
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.raft.types import SnapshotId

DIR = "/log"
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, zero_ahead_bytes=4096)
HEADER = [control_value(SnapshotHeaderRecord(last_contained_log_timestamp=5))]


def batch_values(number: int) -> list[bytes]:
    return [f"{number:08d}-{at}".encode() * 4 for at in range(3)]


def open_log(files: MemoryFiles, *, cut_corrupt: bool = False) -> MetadataLog:
    return MetadataLog.open(DIR, files, CONFIG, cut_corrupt=cut_corrupt)


def filled(files: MemoryFiles, batches: int = 30, *, close: bool = True) -> MetadataLog:
    log = open_log(files)
    for number in range(batches):
        log.append_records(1 + number // 10, batch_values(number), 1000 + number)
    log.flush()
    if close:
        log.close()
    return log


def last_segment(files: MemoryFiles) -> str:
    return f"{DIR}/{[name for name in files.names(DIR) if name.endswith('.log')][-1]}"


def change(files: MemoryFiles, path: str, how: Callable[[bytearray], object]) -> None:
    data = bytearray(read_whole(files, path))
    how(data)
    file = files.open(path)
    file.truncate(0)
    file.write_at(0, data)
    file.sync()


def replace(wrong: bytes, data: bytearray) -> None:
    data[:] = wrong


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


def test_a_closed_log_is_as_it_was() -> None:
    files = MemoryFiles()
    before = filled(files)
    log = open_log(files)
    assert log.segment_offsets == before.segment_offsets
    assert len(log.segment_offsets) > 2
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (0, 90, 90)
    assert log.epochs == [(1, 0), (2, 30), (3, 60)]
    report = log.recovery
    assert (report.batches, report.zero_bytes, report.torn_bytes) == (30, 0, 0)
    assert report.stale_indexes == report.removed == report.segments_dropped == []
    assert not report.epochs_were_stale


def test_a_killed_node_loses_nothing_that_was_written() -> None:
    files = MemoryFiles()
    log = filled(files, close=False)
    log.append_records(3, [b"not flushed"], 1)
    files.kill()
    again = open_log(files)
    assert again.end_offset == 91
    assert again.recovery.zero_bytes > 0
    assert again.read(90, 1 << 20) == log.read(90, 1 << 20)


@pytest.mark.parametrize("seed", range(60))
def test_a_power_loss_takes_only_what_was_not_flushed(seed: int) -> None:
    files = MemoryFiles()
    random = Random(seed)
    log = open_log(files)
    kept = b""
    for number in range(random.randrange(1, 40)):
        log.append_records(1, batch_values(number), number)
        if random.random() < 0.3:
            log.flush()
            kept = b"".join(log.read(offset, 1) for offset in range(0, log.end_offset, 3))
    flushed, end = log.flushed_offset, log.end_offset
    files.power_loss(random)
    again = open_log(files)
    assert flushed <= again.end_offset <= end
    recovered = b"".join(again.read(offset, 1) for offset in range(0, again.end_offset, 3))
    assert recovered.startswith(kept)
    assert again.append_records(1, [b"more"], 99).base_offset == again.end_offset - 1


def test_a_torn_tail_is_cut_and_told() -> None:
    files = MemoryFiles()
    filled(files)
    torn = encode_batch([b"x" * 200], timestamps=1, base_offset=90, partition_leader_epoch=3)
    change(files, last_segment(files), lambda data: data.extend(torn[:150]))
    log = open_log(files)
    assert (log.end_offset, log.recovery.torn_bytes) == (90, 150)
    assert last_segment(files) in log.recovery.torn_reason
    assert open_log(files).recovery.torn_bytes == 0


def test_a_zero_tail_is_cut() -> None:
    files = MemoryFiles()
    filled(files)
    change(files, last_segment(files), lambda data: data.extend(bytes(5000)))
    log = open_log(files)
    assert (log.end_offset, log.recovery.zero_bytes, log.recovery.torn_bytes) == (90, 5000, 0)
    assert log.append_records(3, [b"next"], 1).base_offset == 90


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "second", "last"])
def test_a_flipped_bit_is_refused_and_nothing_cut(number: int) -> None:
    files = MemoryFiles()
    filled(files)
    path = f"{DIR}/{[name for name in files.names(DIR) if name.endswith('.log')][number]}"
    change(files, path, lambda data: flip(data, 100))
    before = {name: read_whole(files, f"{DIR}/{name}") for name in files.names(DIR)}
    with pytest.raises(CorruptMetadataLogError, match="nothing was cut") as caught:
        open_log(files)
    assert caught.value.path == path
    assert caught.value.position == 0
    assert {name: read_whole(files, f"{DIR}/{name}") for name in files.names(DIR)} == before


def test_by_force_what_follows_damage_is_dropped_as_kafka_does() -> None:
    files = MemoryFiles()
    bases = filled(files).segment_offsets
    change(files, f"{DIR}/{bases[1]:020d}.log", lambda data: flip(data, len(data) - 1))
    with pytest.raises(CorruptMetadataLogError):
        open_log(files)
    log = open_log(files, cut_corrupt=True)
    assert log.end_offset == bases[2] - 3
    assert log.segment_offsets == bases[:2]
    assert log.recovery.segments_dropped == [f"{base:020d}.log" for base in reversed(bases[2:])]
    assert log.epochs[-1].start_offset < log.end_offset
    assert open_log(files).end_offset == bases[2] - 3


def test_a_missing_segment_is_told() -> None:
    files = MemoryFiles()
    bases = filled(files).segment_offsets
    files.remove(f"{DIR}/{bases[1]:020d}.log")
    with pytest.raises(CorruptMetadataLogError, match=f"ends at offset {bases[1]}"):
        open_log(files)
    assert open_log(files, cut_corrupt=True).end_offset == bases[1]


def test_a_sealed_segment_with_a_zero_tail_is_told() -> None:
    files = MemoryFiles()
    bases = filled(files).segment_offsets
    change(files, f"{DIR}/{bases[0]:020d}.log", lambda data: data.extend(bytes(600)))
    with pytest.raises(CorruptMetadataLogError, match="another segment follows"):
        open_log(files)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [(7, 200, "a batch of offset 200, where 0 is due"), (12, 1 << 7, "leader epoch -2147483647")],
)
def test_a_flip_that_no_crc_covers_is_told(at: int, value: int, reason: str) -> None:
    """The CRC leaves out base offset and leader epoch."""
    files = MemoryFiles()
    filled(files)
    change(files, f"{DIR}/{0:020d}.log", lambda data: data.__setitem__(at, value))
    with pytest.raises(CorruptMetadataLogError, match=reason):
        open_log(files)


def test_a_batch_that_says_too_many_offsets_is_told() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append_records(1, [b"x"], 1)
    log.close()
    for base in (1, 1 + (1 << 30)):
        data = bytearray(encode_batch([b"y"], timestamps=1, base_offset=base))
        struct.pack_into(">i", data, 12, 1)
        struct.pack_into(">i", data, 23, (1 << 30) - 1 + (base > 1))
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
        file = files.open(f"{DIR}/{0:020d}.log")
        file.write_at(file.size(), data)
    with pytest.raises(CorruptMetadataLogError, match="too far from the segment's first"):
        open_log(files)


def test_a_file_larger_than_any_segment_is_told(tmp_path: Path) -> None:
    MetadataLog.open(str(tmp_path), LocalFiles()).close()
    with (tmp_path / f"{0:020d}.log").open("r+b") as file:
        file.truncate(3 << 30)  # A hole: it takes no room.
    with pytest.raises(CorruptMetadataLogError, match="are more than a segment has"):
        MetadataLog.open(str(tmp_path), LocalFiles())


@pytest.mark.parametrize("at", [0, 8, 16, 17, 70, 200])
def test_a_damaged_snapshot_is_told_when_it_is_read(at: int) -> None:
    files = MemoryFiles()
    log = filled(files, close=False)
    id_ = snapshot(log, 30, 1)
    change(files, f"{DIR}/{30:020d}-{1:010d}.checkpoint", lambda data: flip(data, at))
    reader = log.open_snapshot(id_)
    if at:
        with pytest.raises(CodecError):
            list(reader.batches())
    reader.close()
    change(files, f"{DIR}/{30:020d}-{1:010d}.checkpoint", lambda data: data.__delitem__(slice(9)))
    with pytest.raises((CodecError, ValueError)):
        log.open_snapshot(id_).header()


def test_an_epoch_that_goes_back_is_told() -> None:
    files = MemoryFiles()
    filled(files)
    change(files, last_segment(files), lambda data: struct.pack_into(">i", data, 12, 0))
    with pytest.raises(CorruptMetadataLogError, match="a batch of leader epoch 0 behind one of"):
        open_log(files)


@pytest.mark.parametrize("how", ["missing", "stale", "cut", "empty"])
def test_indexes_are_made_anew(how: str) -> None:
    files = MemoryFiles()
    filled(files)
    names = [name for name in files.names(DIR) if name.endswith("index")]
    good = {name: read_whole(files, f"{DIR}/{name}") for name in names}
    for name in names:
        if how == "missing":
            files.remove(f"{DIR}/{name}")
        else:
            wrong = {"stale": bytes(24), "cut": good[name][:5], "empty": b""}[how]
            change(files, f"{DIR}/{name}", partial(replace, wrong))
    log = open_log(files)
    assert log.recovery.stale_indexes
    assert log.end_offset == 90
    log.close()
    assert {name: read_whole(files, f"{DIR}/{name}") for name in names} == good


@pytest.mark.parametrize(
    "text", ["0\n1\n1 0\n", "0\n3\n1 0\n2 30\n", "7\n0\n", "", "0\nx\n", "0\n2\n2 0\n1 5\n", "\xff"]
)
def test_epochs_are_those_of_the_log(text: str) -> None:
    files = MemoryFiles()
    filled(files)
    path = f"{DIR}/leader-epoch-checkpoint"
    good = read_whole(files, path)
    change(files, path, partial(replace, text.encode()))
    log = open_log(files)
    assert log.recovery.epochs_were_stale
    assert log.epochs == [(1, 0), (2, 30), (3, 60)]
    assert read_whole(files, path) == good
    files.remove(path)
    open_log(files)
    assert read_whole(files, path) == good


def snapshot(log: MetadataLog, end_offset: int, epoch: int) -> SnapshotId:
    id_ = SnapshotId(end_offset, epoch)
    writer = log.create_snapshot(id_, HEADER, timestamp_ms=7)
    assert writer is not None
    writer.append([b"state"])
    writer.freeze()
    return id_


def test_a_log_that_starts_behind_its_snapshots_is_refused() -> None:
    files = MemoryFiles()
    log = filled(files, close=False)
    id_ = snapshot(log, 60, 2)
    log.delete_before(id_)
    log.close()
    start = log.segment_offsets[0]
    assert 0 < start <= 60
    files.remove(f"{DIR}/{60:020d}-{2:010d}.checkpoint")
    with pytest.raises(CorruptMetadataLogError, match=f"starts at offset {start}, and no snapshot"):
        open_log(files)


def test_a_snapshot_beyond_the_log_replaces_it() -> None:
    """The node ended between fetching a snapshot and cutting its log."""
    files = MemoryFiles()
    log = filled(files, close=False)
    old = snapshot(log, 30, 1)
    part = log.begin_snapshot(SnapshotId(500, 3))
    part.append(b"bytes of the leader's snapshot")
    part.complete()
    assert (log.start_offset, log.end_offset) == (0, 90)
    files.kill()
    again = open_log(files)
    assert again.recovery.truncated_to == (500, 3)
    assert (again.start_offset, again.end_offset) == (500, 500)
    assert again.epochs == []
    assert again.snapshots == [(500, 3)]
    assert old not in again.snapshots
    assert again.append_records(4, [b"next"], 1).base_offset == 500
    again.close()
    assert open_log(files).segment_offsets == [500]


def test_an_older_snapshot_leaves_the_log() -> None:
    """Beyond the log's end, but of an epoch that it has passed: the log is the newer."""
    files = MemoryFiles()
    log = filled(files, close=False)
    part = log.begin_snapshot(SnapshotId(500, 2))
    part.append(b"bytes")
    part.complete()
    log.close()
    again = open_log(files)
    assert again.recovery.truncated_to is None
    assert again.end_offset == 90


@pytest.mark.parametrize("operation", range(1, 40))
def test_power_goes_anywhere_in_a_full_truncation(operation: int) -> None:
    files = MemoryFiles()
    log = filled(files, close=False)
    part = log.begin_snapshot(SnapshotId(500, 3))
    part.append(b"bytes of the leader's snapshot")
    part.complete()
    log.close()
    left = [operation]

    def power(_: str, __: str, ___: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    log = MetadataLog.open("/other", files)  # Any other log: the hook counts from here on.
    log.close()
    files.hook = power
    with suppress(KeyboardInterrupt):
        open_log(files)
    files.hook = None
    files.power_loss(Random(operation))
    again = open_log(files)
    assert (again.start_offset, again.end_offset, again.snapshots) == (500, 500, [(500, 3)])


def test_parts_and_deleted_files_go() -> None:
    files = MemoryFiles()
    filled(files)
    names = [
        f"{500:020d}-{3:010d}-12345.checkpoint.part",
        f"{20:020d}-{1:010d}.checkpoint.deleted",
        f"{0:020d}.log.deleted",
        "quorum-state.tmp",
    ]
    for name in names:
        files.open(f"{DIR}/{name}", create=True)
    files.open(f"{DIR}/{30:020d}.snapshot", create=True)
    log = open_log(files)
    assert sorted(log.recovery.removed) == sorted(names)
    assert f"{30:020d}.snapshot" in files.names(DIR)
    log.truncate_to(15)
    assert f"{30:020d}.snapshot" not in files.names(DIR)


def test_another_topics_directory_is_refused() -> None:
    files = MemoryFiles()
    files.make_directory(DIR)
    files.open(f"{DIR}/partition.metadata", create=True).write_at(0, b"version: 0\ntopic_id: abc")
    with pytest.raises(ValueError, match="is not that of the metadata log"):
        open_log(files)


# The vote.


def formatted() -> tuple[MemoryFiles, LogDirectory]:
    files = MemoryFiles()
    LogDirectory.format("/data", MetaProperties(cluster_id="c", node_id=1), files=files)
    return files, LogDirectory.open("/data", files)


@pytest.mark.parametrize("operation", range(1, 12))
@pytest.mark.parametrize("how", ["power", "kill"])
def test_a_half_written_vote_is_the_old_or_the_new(operation: int, how: str) -> None:
    for seed in range(10):
        files, directory = formatted()
        old = QuorumStateData(leader_epoch=3, voted_id=1)
        new = QuorumStateData(leader_epoch=4, voted_id=2)
        directory.quorum_state.write(old, 1)
        left = [operation]

        def power(_: str, __: str, ___: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        files.hook = power
        is_done = False
        with suppress(KeyboardInterrupt):
            directory.quorum_state.write(new, 1)
            is_done = True
        files.hook = None
        if how == "power":
            files.power_loss(Random(seed))
        else:
            files.kill()
        stored = LogDirectory.open("/data", files).quorum_state.read()
        assert stored in ([(new, 1)] if is_done else [(old, 1), (new, 1)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b'{"leaderId":1', "delimiter"),
        (b"[]", "list, where an object is due"),
        (b"{}", "data_version None, and 0 and 1 are known"),
        (b'{"data_version":9}', "data_version 9"),
        (b'{"data_version":true}', "data_version True"),
        (b'{"leaderId":1,"data_version":1}', "leaderEpoch"),
        (b'{"leaderId":"x","leaderEpoch":1,"votedId":1,"data_version":1}', "leaderId"),
        (b'{"leaderId":"\xff"}', "decode"),
    ],
)
def test_a_damaged_vote_is_refused(data: bytes, reason: str) -> None:
    files, directory = formatted()
    files.open(directory.quorum_state.path, create=True).write_at(0, data)
    with pytest.raises(ValueError, match=reason) as caught:
        directory.quorum_state.read()
    assert "could vote twice" in str(caught.value)
    assert directory.quorum_state.path in str(caught.value)


# A disk that fails.


def failing(files: MemoryFiles, operation: str, path_end: str, number: int) -> None:
    def fail(called: str, path: str, _: int) -> None:
        if (called, path.endswith(path_end)) == (operation, True):
            raise OSError(number, "the disk says no", path)

    files.hook = fail


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_an_error_nothing_is_acknowledged(operation: str) -> None:
    files = MemoryFiles()
    log = filled(files, 5, close=False)
    before = log.flushed_offset
    failing(files, operation, ".log", errno.EIO)

    def append_and_flush() -> None:
        log.append_records(2, [b"lost"], 1)
        log.flush()

    with pytest.raises(LogFailedError, match="what is before offset 15 is durable"):
        append_and_flush()
    files.hook = None
    for _ in range(2):
        with pytest.raises(LogFailedError):
            log.flush()
        with pytest.raises(LogFailedError):
            log.append_records(2, [b"more"], 1)
        with pytest.raises(LogFailedError):
            log.truncate_to(0)
    assert log.flushed_offset == before
    log.close()
    files.kill()
    assert open_log(files).end_offset == before  # The sync that failed lost it.


@pytest.mark.parametrize("room", range(0, 6000, 250))
def test_a_full_disk_stops_the_log(room: int) -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append_records(1, [b"first"], 1)
    log.flush()
    used = sum(len(read_whole(files, f"{DIR}/{name}")) for name in files.names(DIR))
    files.capacity_bytes = used + room
    acknowledged = [1]

    def fill() -> None:
        for number in range(100):
            log.append_records(1, batch_values(number), 1)
            acknowledged.append(log.flush())

    with pytest.raises(LogFailedError) as caught:
        fill()
    assert caught.value.errno == errno.ENOSPC
    assert log.flushed_offset == acknowledged[-1]
    files.capacity_bytes = None
    files.kill()
    again = open_log(files)
    assert again.end_offset >= acknowledged[-1]
    assert again.read(0, 1) == log.read(0, 1)


# Power that goes amid a change of many files.


def lose_power_at(files: MemoryFiles, operation: int, what: Callable[[], object]) -> bool:
    """Do something until its ``operation``-th call of the disk; whether it was done before."""
    left = [operation]

    def power(_: str, __: str, ___: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    files.hook = power
    is_done = False
    with suppress(KeyboardInterrupt):
        what()
        is_done = True
    files.hook = None
    return is_done


@pytest.mark.parametrize("operation", range(1, 60))
def test_power_goes_anywhere_in_a_cut_of_many_segments(operation: int) -> None:
    for seed in range(10):
        files = MemoryFiles()
        log = filled(files, close=False)
        assert len(log.segment_offsets) > 3
        is_done = lose_power_at(files, operation, partial(log.truncate_to, 21))
        files.power_loss(Random(seed))
        again = open_log(files)
        assert again.end_offset == 21 if is_done else 21 <= again.end_offset <= 90
        assert again.read(18, 1) == log.read(18, 1)


@pytest.mark.parametrize("operation", range(1, 60))
def test_power_goes_anywhere_in_deleting_the_front(operation: int) -> None:
    for seed in range(10):
        files = MemoryFiles()
        log = filled(files, close=False)
        snapshot(log, 30, 1)
        id_ = snapshot(log, 60, 2)
        is_done = lose_power_at(files, operation, partial(log.delete_before, id_))
        files.power_loss(Random(seed))
        again = open_log(files)
        assert again.end_offset == 90
        assert again.start_offset in ({60} if is_done else {0, 30, 60})
        assert id_ in again.snapshots
        assert again.read(60, 1) == log.read(60, 1)


@pytest.mark.parametrize("operation", range(1, 16))
def test_power_goes_anywhere_in_a_snapshot(operation: int) -> None:
    """It is there whole, or not at all."""
    whole = MemoryFiles()
    snapshot(filled(whole, close=False), 30, 1)
    name = f"{30:020d}-{1:010d}.checkpoint"
    for seed in range(10):
        files = MemoryFiles()
        log = filled(files, close=False)
        is_done = lose_power_at(files, operation, partial(snapshot, log, 30, 1))
        files.power_loss(Random(seed))
        again = open_log(files)
        assert again.snapshots == [(30, 1)] if is_done else again.snapshots in ([], [(30, 1)])
        if again.snapshots:
            assert read_whole(files, f"{DIR}/{name}") == read_whole(whole, f"{DIR}/{name}")
        assert not [one for one in files.names(DIR) if one.endswith(".part")]


def test_a_cut_that_failed_leaves_the_log_whole_for_the_next_start() -> None:
    """The disk in memory says what a start found: who changes that, must not change it there."""
    files = MemoryFiles()
    whole = filled(files).read(0, 1 << 20)

    def fail(operation: str, path: str, size: int) -> None:
        if operation == "truncate":
            raise OSError(errno.EIO, "it cannot be cut", path)

    for _ in range(2):
        log = open_log(files)
        assert (log.end_offset, log.read(0, 1 << 20)) == (90, whole)
        last = log.read(87, 1)
        files.hook = fail
        with pytest.raises(LogFailedError):
            log.truncate_to(87)
        files.hook = None
        files.kill()
        again = open_log(files)
        assert (again.end_offset, again.read(87, 1)) == (90, last)
        files.kill()
