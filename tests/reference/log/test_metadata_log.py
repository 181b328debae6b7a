"""Appending, rolling, reading, cutting and cleaning a log; snapshots of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kraftspec.fastpath import decode_batch, encode_batch, read_header
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.kafka import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kraftspec.reference.log import LogConfig, MetadataLog
from kraftspec.reference.log.control import (
    control_value,
    decode_control_record,
    decode_control_records,
    encode_control_values,
)
from kraftspec.reference.log.files import read_whole
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.segment import OFFSET_ENTRY, TIME_ENTRY
from kraftspec.reference.raft import config
from kraftspec.reference.raft.types import SnapshotId

DIR = "/log"
DAY_MS = 24 * 3600 * 1000


def open_log(files: MemoryFiles | None = None, **config: int) -> MetadataLog:
    return MetadataLog.open(
        DIR, files or MemoryFiles(), LogConfig(**{"zero_ahead_bytes": 0, **config})
    )


def batch(base_offset: int, count: int = 2, epoch: int = 1, timestamp: int = 5) -> bytes:
    values = [f"{base_offset + at}".encode() for at in range(count)]
    return encode_batch(
        values, timestamps=timestamp, base_offset=base_offset, partition_leader_epoch=epoch
    )


# Appending.


def test_a_leader_appends_data_and_control_records() -> None:
    log = open_log()
    change = LeaderChangeMessage(leader_id=3, voters=[LeaderChangeMessage.Voter(voter_id=3)])
    first = log.append_control(
        4, [control_value(change), control_value(KRaftVersionRecord(k_raft_version=1))], 11
    )
    second = log.append_records(4, [b"one", b"two", b"three"], 12)
    assert (first.base_offset, first.end_offset, second.base_offset, second.end_offset) == (
        0, 2, 2, 5,
    )  # fmt: skip
    assert log.append_records(4, [], 13) == (5, 5, b"", None)
    data = log.read(0, 1 << 20)
    assert data == bytes(first.data) + bytes(second.data)
    header = read_header(data)
    assert header.is_control
    assert (header.partition_leader_epoch, header.max_timestamp) == (4, 11)
    assert decode_control_records(decode_batch(data)) == [
        (0, change), (1, KRaftVersionRecord(k_raft_version=1)),
    ]  # fmt: skip
    records = decode_batch(data, header.size)
    assert [(one.offset, one.timestamp, one.key, one.value) for one in records] == [
        (2, 12, None, b"one"), (3, 12, None, b"two"), (4, 12, None, b"three"),
    ]  # fmt: skip


def test_what_a_leader_may_not_append() -> None:
    log = open_log()
    log.append_records(5, [b"x"], 1)
    with pytest.raises(ValueError, match="epoch 4, and the last record is of epoch 5"):
        log.append_records(4, [b"x"], 1)
    with pytest.raises(ValueError, match="epoch -1"):
        open_log().append_records(-1, [b"x"], 1)
    with pytest.raises(ValueError, match=f"at most {config.BATCH_BYTES_MAX}"):
        log.append_records(5, [bytes(config.BATCH_BYTES_MAX)], 1)
    log.append_records(5, [b"y"], 1)
    assert log.end_offset == 2


@pytest.mark.parametrize("record_count", [1, 2, 70_000])
def test_what_a_leader_accepts_at_most_fits_into_a_batch(record_count: int) -> None:
    """The core knows the bytes of values alone, and adds what a batch and a record take at most."""
    overhead = config.BATCH_OVERHEAD_BYTES + config.RECORD_OVERHEAD_BYTES_MAX * record_count
    values = [bytes((config.BATCH_BYTES_MAX - overhead) // record_count)] * record_count
    log = open_log()
    log.append_records(5, values, 2**62)
    assert log.end_offset == record_count


# Rolling.


def test_a_segment_is_full_by_bytes() -> None:
    size = len(batch(10))
    log = open_log(segment_bytes=3 * size)
    for number in range(7):
        log.append_batches(
            encode_batch(
                [b"xx", b"yy"], timestamps=1, base_offset=2 * number, partition_leader_epoch=0
            )
        )
    assert log.segment_offsets == [0, 6, 12]


def test_a_batch_larger_than_a_segment_has_one_alone() -> None:
    log = open_log(segment_bytes=100)
    for _ in range(3):
        log.append_records(1, [b"x" * 500], 1)
    assert log.segment_offsets == [0, 1, 2]


def test_a_segment_is_full_by_time() -> None:
    log = open_log(segment_ms=7 * DAY_MS)
    for days in (1, 2, 8, 8, 9, 16):
        log.append_records(1, [b"x"], days * DAY_MS)
    assert log.segment_offsets == [0, 4]


def test_a_segment_is_full_by_its_index() -> None:
    log = open_log(index_bytes_max=24, index_interval_bytes=0)
    for number in range(12):
        log.append_records(1, [b"x"], number)
    # Two entries of 12 bytes in a time index, of which the last is kept for its end.
    assert log.segment_offsets == [0, 2, 4, 6, 8, 10]


def test_index_entries_point_at_batches() -> None:
    files = MemoryFiles()
    log = open_log(files, index_interval_bytes=1000, segment_bytes=20_000)
    for number in range(400):
        log.append_records(1, [b"x" * (number % 50)] * (1 + number % 3), 1000 + number // 2)
    log.close()
    checked = 0
    for base in log.segment_offsets:
        data = read_whole(files, f"{DIR}/{base:020d}.log")
        entries = list(OFFSET_ENTRY.iter_unpack(read_whole(files, f"{DIR}/{base:020d}.index")))
        for offset, position in entries:
            assert read_header(data, position).last_offset == base + offset
        assert all(1000 < after[1] - before[1] < 1400 for before, after in pairwise(entries))
        times = list(TIME_ENTRY.iter_unpack(read_whole(files, f"{DIR}/{base:020d}.timeindex")))
        assert all(before < after for before, after in pairwise(times))
        (*_, last) = iterate_headers(data)
        assert times[-1][0] == last.max_timestamp
        checked += len(entries)
    assert checked > 10


# Reading.


def test_whole_batches_are_read() -> None:
    log = open_log(segment_bytes=1000)
    batches = [batch(3 * number, 3) for number in range(40)]
    for data in batches:
        log.append_batches(data)
    size = len(batches[0])
    assert log.read(0, 1) == batches[0]
    assert log.read(1, 1) == batches[0]
    assert log.read(2, 0) == batches[0]
    assert log.read(3, size) == batches[1]
    assert log.read(0, 2 * size) == batches[0] + batches[1]
    assert log.read(0, 2 * size - 1) == batches[0]
    assert log.read(0, 3 * size - 1) == batches[0] + batches[1]
    assert log.read(4, 1 << 30).startswith(batches[1])
    assert log.read(120, 1 << 20) == b""
    first_of_second = log.segment_offsets[1]
    assert log.read(0, 1 << 20) == b"".join(batches[: first_of_second // 3])
    for offset in (-1, 121):
        with pytest.raises(ValueError, match="the log has 0 to 120"):
            log.read(offset, 1)


def test_nothing_is_read_at_or_behind_an_end() -> None:
    log = open_log()
    for number in range(4):
        log.append_batches(batch(3 * number, 3))
    assert log.read(0, 1 << 20, 6) == batch(0, 3) + batch(3, 3)
    assert log.read(0, 1, 6) == batch(0, 3)
    assert log.read(3, 1 << 20, 6) == batch(3, 3)
    assert log.read(6, 1 << 20, 6) == b""
    assert log.read(7, 1 << 20, 6) == b""
    assert log.read(0, 1 << 20, 99) == b"".join(batch(3 * number, 3) for number in range(4))


# Cutting.


@pytest.mark.parametrize("offset", range(0, 121, 7))
def test_a_cut_takes_whole_batches(offset: int) -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=1000, index_interval_bytes=200)
    for number in range(40):
        log.append_batches(batch(3 * number, 3, epoch=number // 4, timestamp=100 + number))
    log.close()
    log = open_log(files, segment_bytes=1000, index_interval_bytes=200)
    end = offset // 3 * 3
    assert log.truncate_to(offset) == end
    indexes = {name.split(".")[0] for name in files.names(DIR) if name.endswith("index")}
    is_cut = end < 120  # What is written to has no index that could be wrong.
    assert indexes == {f"{base:020d}" for base in log.segment_offsets[: -1 if is_cut else None]}
    assert (log.end_offset, log.flushed_offset) == (end, end)
    assert all(entry.start_offset < end for entry in log.epochs)
    assert log.last_epoch == (end // 3 - 1) // 4
    if end:
        assert log.read(end - 3, 1 << 20) == batch(
            end - 3, 3, epoch=(end // 3 - 1) // 4, timestamp=99 + end // 3
        )
    log.close()
    log = open_log(files, segment_bytes=1000, index_interval_bytes=200)
    assert (log.recovery.stale_indexes, log.end_offset) == ([], end)
    again = batch(end, 1, epoch=20, timestamp=500)
    assert log.append_batches(again).rejected is None
    log.close()
    reopened = open_log(files, index_interval_bytes=200)
    assert reopened.recovery.stale_indexes == []
    assert (reopened.end_offset, reopened.epochs[-1]) == (end + 1, (20, end))


def test_a_cut_behind_the_end_does_nothing_and_before_the_start_is_refused() -> None:
    log = open_log()
    log.append_batches(batch(0))
    assert log.truncate_to(5) == 2
    with pytest.raises(ValueError, match="cut at -1"):
        log.truncate_to(-1)
    assert log.end_offset == 2


# Snapshots.

HEADER = [
    control_value(SnapshotHeaderRecord(last_contained_log_timestamp=77)),
    control_value(KRaftVersionRecord(k_raft_version=1)),
    control_value(VotersRecord(voters=[VotersRecord.Voter(voter_id=1)])),
]


def with_snapshot(log: MetadataLog, end_offset: int, epoch: int = 1) -> SnapshotId:
    id_ = SnapshotId(end_offset, epoch)
    writer = log.create_snapshot(id_, HEADER, timestamp_ms=88)
    assert writer is not None
    writer.append([b"a", b"b"])
    writer.append([])
    writer.append([b"c"])
    writer.freeze()
    return id_


def test_a_snapshot_is_written_and_read() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(4):
        log.append_batches(batch(3 * number, 3))
    id_ = with_snapshot(log, 6)
    assert log.snapshots == [id_]
    reader = log.open_snapshot(id_)
    assert reader.header().last_contained_log_timestamp == 77
    batches = list(reader.batches())
    assert [header.is_control for header, _ in batches] == [True, False, False, True]
    assert {header.partition_leader_epoch for header, _ in batches} == {1}
    offsets = [record.offset for _, records in batches for record in records]
    assert offsets == list(range(7))
    assert [one.value for _, records in batches[1:3] for one in records] == [b"a", b"b", b"c"]
    assert decode_control_record(batches[-1][1][0]) == SnapshotFooterRecord()
    whole = read_whole(files, f"{DIR}/{6:020d}-{1:010d}.checkpoint")
    assert b"".join(reader.read(at, 7) for at in range(0, reader.size, 7)) == whole
    assert reader.read(reader.size, 7) == b""
    reader.close()
    assert log.create_snapshot(id_, HEADER, timestamp_ms=88) is None
    assert not [name for name in files.names(DIR) if name.endswith(".part")]


def test_a_snapshot_that_is_not_frozen_is_none() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append_batches(batch(0))
    writer = log.create_snapshot(SnapshotId(2, 1), HEADER, timestamp_ms=1)
    assert writer is not None
    assert any(name.endswith(".checkpoint.part") for name in files.names(DIR))
    writer.close()
    writer.close()
    assert not any("checkpoint.part" in name for name in files.names(DIR))
    assert log.snapshots == []
    with pytest.raises(ValueError, match="was abandoned"):
        writer.append([b"x"])
    with pytest.raises(KeyError):
        log.open_snapshot(SnapshotId(2, 1))


@pytest.mark.parametrize(
    ("end_offset", "epoch", "reason"),
    [
        (13, 1, "the log has the offsets 0 to 12"),
        (-1, 1, "the log has the offsets 0 to 12"),
        (6, 2, "the record before it is of epoch 1"),
        (9, 1, "the record before it is of epoch 2"),
        (7, 2, "a snapshot ends where a batch does"),
        (4, 1, "a snapshot ends where a batch does"),
    ],
)
def test_an_id_that_is_not_of_the_log_is_refused(end_offset: int, epoch: int, reason: str) -> None:
    log = open_log()
    for number in range(4):
        log.append_batches(batch(3 * number, 3, epoch=1 + number // 2))
    with pytest.raises(ValueError, match=reason):
        log.create_snapshot(SnapshotId(end_offset, epoch), HEADER, timestamp_ms=1)


def test_a_snapshot_is_fetched_in_parts() -> None:
    files = MemoryFiles()
    leader = open_log(files)
    leader.append_batches(batch(0, 9))
    id_ = with_snapshot(leader, 9)
    reader = leader.open_snapshot(id_)
    follower = MetadataLog.open("/follower", files)
    follower.append_batches(batch(0, 2, epoch=0))
    part = follower.begin_snapshot(id_)
    while part.size < reader.size:
        part.append(reader.read(part.size, 50))
    part.complete()
    follower.truncate_fully_to(id_)
    name = f"{9:020d}-{1:010d}.checkpoint"
    assert read_whole(files, f"/follower/{name}") == read_whole(files, f"{DIR}/{name}")
    assert (follower.start_offset, follower.end_offset, follower.flushed_offset) == (9, 9, 9)
    assert follower.epochs == []
    assert follower.segment_offsets == [9]
    assert follower.append_batches(batch(9)).end_offset == 11
    with pytest.raises(ValueError, match="there is no snapshot"):
        follower.truncate_fully_to(SnapshotId(4, 4))


def test_the_front_of_a_log_is_deleted_up_to_a_snapshot() -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=1000)
    for number in range(40):
        log.append_batches(batch(3 * number, 3, epoch=1 + number // 20))
    log.flush()
    before = log.segment_offsets
    first, second, third = with_snapshot(log, 30), with_snapshot(log, 60), with_snapshot(log, 90, 2)
    assert log.delete_before(second)
    assert (log.start_offset, log.end_offset) == (60, 120)
    assert log.snapshots == [second, third]
    kept = [base for base in before if base > 60]
    assert log.segment_offsets[1:] == kept
    assert log.segment_offsets[0] <= 60
    assert log.epochs == [(2, 60)]
    assert f"{0:020d}.log" not in files.names(DIR)
    assert f"{first.end_offset:020d}-{1:010d}.checkpoint" not in files.names(DIR)
    with pytest.raises(ValueError, match="the log has 60 to 120"):
        log.read(59, 1)
    assert log.read(60, 1) == batch(60, 3, epoch=2)
    assert not log.delete_before(second)
    with pytest.raises(ValueError, match="there is no snapshot"):
        log.delete_before(first)
    log.close()
    again = open_log(files)
    assert again.segment_offsets == log.segment_offsets
    assert (again.start_offset, again.epochs) == (60, [(2, 60)])
    assert again.snapshots == [second, third]
    assert not again.recovery.epochs_were_stale


def test_a_record_that_no_batch_of_a_snapshot_holds() -> None:
    log = open_log()
    log.append_batches(batch(0))
    writer = log.create_snapshot(SnapshotId(2, 1), HEADER, timestamp_ms=1)
    assert writer is not None
    writer.append([bytes(3 << 20)] * 4)
    with pytest.raises(ValueError, match="a record of"):
        writer.append([b"", bytes(9 << 20)])
    writer.append([b"last"])
    writer.freeze()
    reader = log.open_snapshot(SnapshotId(2, 1))
    sizes = [len(records) for header, records in reader.batches() if not header.is_control]
    assert sizes == [2, 2, 1, 1]
    reader.close()


# The rest.


def test_a_closed_log_says_so() -> None:
    log = open_log()
    log.append_batches(batch(0))
    log.close()
    log.close()
    for call in (
        lambda: log.append_records(1, [b"x"], 1),
        lambda: log.append_batches(batch(2)),
        log.flush,
        lambda: log.truncate_to(0),
        lambda: log.begin_snapshot(SnapshotId(2, 1)),
    ):
        with pytest.raises(ValueError, match="the log is closed"):
            call()


def test_unknown_control_records_are_passed_over_and_newer_ones_read() -> None:
    data = encode_control_values(
        [(99, b"what"), (5, bytes.fromhex("00090001 00 ff".replace(" ", "")))],
        base_offset=0, epoch=1, timestamp_ms=1,
    )  # fmt: skip
    unknown, newer = decode_batch(data)
    assert decode_control_record(unknown) is None
    assert decode_control_record(newer) == KRaftVersionRecord(version=9, k_raft_version=1)


def test_a_voter_set_is_as_kafka_writes_it() -> None:
    voter = VotersRecord.Voter(
        voter_id=1,
        voter_directory_id=Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"),
        endpoints=[VotersRecord.Endpoint(name="C", host="h", port=9093)],
        k_raft_version_feature=VotersRecord.KRaftVersionFeature(max_supported_version=1),
    )
    control_type, value = control_value(VotersRecord(voters=[voter]))
    assert control_type == 6
    assert value.hex() == (
        "0000" "02" "00000001" "00000000000000000000000000000001"
        "02" "0243" "0268" "2385" "00" "00000001" "00" "00" "00"
    )  # fmt: skip
