"""Each kind of finding, planted in a partition that is sound but for it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import encode_batch, encode_control_batch
from kraftspec.fastpath.batch_writer import write_record
from kraftspec.fastpath.records import Compression, TimestampType
from kraftspec.generated import kafka
from kraftspec.pipeline.audit import audit, roundtrip
from kraftspec.pipeline.audit.rules import EXPLAINED, RULES, Severity
from kraftspec.pipeline.metadata.log import METADATA_TOPIC

from .audit_logs import (
    TIME_MS,
    Record,
    batch,
    found,
    marker,
    odd,
    patched,
    places,
    produced,
    write,
)

FIRST = "00000000000000000000.log"
SIZE = len(batch(0))
HOUR_MS = 3_600_000


def test_every_kind_of_finding_has_a_rule_and_a_test() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [kind for kind in RULES if f'"{kind}"' not in source] == []
    assert EXPLAINED.keys() <= RULES.keys()


def test_a_sound_partition_has_no_findings(tmp_path: Path) -> None:
    headers = [[("a", b"1"), ("b", None)], None, None]
    segments = [
        [batch(0), batch(3, headers=headers), batch(6, compression=Compression.ZSTD)],
        [batch(9, 40), batch(49, 40, compression=Compression.LZ4), batch(89, keys=None)],
        [
            batch(92, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS + 900),
            produced(95, 0),
            produced(98, 3, transactional=True),
            marker(101),
        ],
    ]
    write(tmp_path, segments, epochs=[(0, 0)])
    report = audit(tmp_path)
    assert report.findings.counts == {}
    totals = report.totals
    assert (totals.batches, totals.records, totals.data_records) == (10, 102, 101)
    assert (totals.same_batches, totals.same_inflated, totals.same_by_record) == (8, 2, 0)
    assert totals.codecs.keys() == {"none", "zstd", "lz4"}
    assert (totals.headers, totals.records_with_headers) == (2, 1)
    assert (totals.keys.nulls, totals.tombstones) == (3, 0)
    assert totals.control == {"COMMIT v0": 1}
    assert (totals.offset_first, totals.offset_last) == (0, 101)
    assert (totals.timestamp_min, totals.timestamp_max) == (TIME_MS, TIME_MS + 900)
    # Of k0 to k99 three are null; k100 alone has four letters.
    assert totals.keys.buckets == {2: 97, 3: 1}


# -- Bytes -----------------------------------------------------------------------------------------


def test_a_wrong_bit_is_damage_of_its_batch_alone(tmp_path: Path) -> None:
    bad = bytearray(batch(3))
    bad[70] ^= 1
    write(tmp_path, [[batch(0), bytes(bad), batch(6)]])
    report = audit(tmp_path)
    assert places(report) == [("damage", FIRST, SIZE, 3)]
    (finding,) = report.findings.kept
    assert (finding.size, finding.error_class) == (SIZE, "crc_mismatch")
    assert report.totals.damaged_bytes == SIZE
    assert report.partitions[0].missing_offsets == 3


def test_records_that_cannot_be_read_are_damage_though_the_crc_is_right(tmp_path: Path) -> None:
    data = bytearray(batch(3))
    data[61] += 2  # The first record says that it is a byte longer.
    write(tmp_path, [[batch(0), patched(bytes(data), 57, ">i", 3), batch(6)]])
    report = audit(tmp_path)
    assert places(report) == [("damage", FIRST, SIZE, 3)]
    assert report.findings.kept[0].error_class != "crc_mismatch"
    assert f"first at byte {SIZE + 72}" in report.findings.kept[0].detail


def test_garbage_between_batches_is_damage(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), b"\xee" * 1000, batch(3)]])
    assert found(tmp_path) == [("damage", FIRST, SIZE, -1)]


def test_a_last_batch_that_was_cut_short_is_a_torn_tail(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(3)[:-5]]])
    assert found(tmp_path) == [("torn_tail", FIRST, SIZE, 3)]


def test_a_batch_whose_end_is_zeros_is_a_torn_tail(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(3)[:-20] + bytes(20)]])
    assert found(tmp_path) == [("torn_tail", FIRST, SIZE, 3)]


def test_zeros_are_a_note_at_the_end_of_the_log_and_an_error_before(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), bytes(5000)], [batch(3), bytes(3_000_000)]])
    assert found(tmp_path) == [
        ("zero_tail", FIRST, SIZE, -1),
        ("zero_tail_of_last_segment", f"{3:020}.log", SIZE, -1),
    ]
    assert RULES["zero_tail_of_last_segment"].severity is Severity.NOTE
    # By itself, too, the first segment is not the last.
    assert found(tmp_path / "t-0" / FIRST) == [("zero_tail", FIRST, SIZE, -1)]


def test_a_batch_larger_than_a_window_is_no_damage(tmp_path: Path) -> None:
    big = batch(0, 1, keys=None)
    large = encode_batch([bytes(9 << 20)], timestamps=1, partition_leader_epoch=0)
    write(tmp_path, [[large, batch(1)]])
    assert found(tmp_path) == []
    assert len(large) > 2 * (4 << 20) > len(big)


def test_a_length_beyond_the_file_is_told_with_what_is_left(tmp_path: Path) -> None:
    far = bytearray(batch(3))
    struct.pack_into(">i", far, 8, 9_000_000)
    after = [batch(6 + 3 * number) for number in range(60_000)]
    write(tmp_path, [[batch(0), bytes(far), *after]])
    report = audit(tmp_path)
    assert places(report) == [("damage", FIRST, SIZE, 3)]
    (finding,) = report.findings.kept
    left = report.totals.bytes - SIZE
    assert finding.size == SIZE
    assert f"a batch of 9,000,012 bytes, {left:,} are left" in finding.detail


# -- Round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("count", [2, 40])
def test_an_encoder_that_errs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Compression, count: int
) -> None:
    """The check can fail: with an encoder that writes another key, each batch is a finding."""
    first, second = batch(0, count, compression=codec), batch(count, count, compression=codec)
    write(tmp_path, [[first, second]])
    honest, honest_record = encode_batch, write_record

    def errs(values: Any, *, keys: Any, **options: Any) -> bytes:
        return honest(values, keys=None, **options)

    monkeypatch.setattr(roundtrip, "encode_batch", errs)
    monkeypatch.setattr(roundtrip, "write_record", lambda key, *rest: honest_record(None, *rest))
    assert found(tmp_path) == [
        ("no_round_trip", FIRST, 0, 0),
        ("no_round_trip", FIRST, len(first), count),
    ]


ODD: dict[str, tuple[bytes, str]] = {
    "max timestamp": (patched(batch(3), 35, ">q", TIME_MS + 77), "max_timestamp_wrong"),
    "attribute bit": (patched(batch(3), 21, ">h", 0x80), "batch_attributes"),
    "base timestamp": (
        odd(3, [Record(timestamp_delta=5)], max_timestamp=TIME_MS + 5), "base_timestamp_odd",
    ),
    "negative timestamp": (
        odd(3, [Record()], base_timestamp=-10, max_timestamp=-10), "timestamp_negative",
    ),
    "record attribute": (odd(3, [Record(attributes=1)]), "record_attributes"),
    "transaction of none": (odd(3, [Record()], attributes=0x10), "producer_fields"),
    "no sequence": (odd(3, [Record()], producer_id=7, producer_epoch=0), "producer_fields"),
    "hole": (odd(3, [Record(key=b"k"), Record(key=b"l", offset_delta=2)]), "offset_hole"),
    "hole of null keys": (odd(3, [Record(offset_delta=2)]), "offset_hole_with_null_key"),
    "empty": (odd(3, [], last_offset_delta=2), "empty_batch"),
    "horizon": (odd(3, [Record(key=b"k")], attributes=0x40), "delete_horizon"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_batch_that_no_producer_sends_is_found_by_its_name(tmp_path: Path, name: str) -> None:
    data, kind = ODD[name]
    after = 3 + struct.unpack_from(">i", data, 23)[0] + 1
    write(tmp_path, [[batch(0), data, batch(after)]])
    report = audit(tmp_path)
    assert places(report) == [(kind, FIRST, SIZE, 3)]
    assert report.totals.same_by_record == 1


@pytest.mark.parametrize("name", ["hole", "empty", "horizon"])
@pytest.mark.parametrize("clean_until", [6, None])
def test_what_the_cleaner_leaves_is_explained_where_it_ran(
    tmp_path: Path, name: str, clean_until: int | None
) -> None:
    """By its checkpoint; without one, by batches that nobody but the cleaner makes."""
    data, kind = ODD[name]
    write(tmp_path, [[data, batch(20)], [batch(23)]], clean_until=clean_until and 20)
    report = audit(tmp_path)
    assert places(report) == []
    # The log starts after offset 0, of which its first file is named, so that is none.
    assert report.explained == {kind: 1, "offset_gap": 1}


def test_without_a_mark_of_the_cleaner_a_gap_is_a_finding(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(20)]], clean_until=None)
    assert found(tmp_path) == [("offset_gap", FIRST, SIZE, 20)]


def test_a_gap_beyond_what_was_cleaned_is_a_finding(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(20), batch(50)]], clean_until=20)
    report = audit(tmp_path)
    assert places(report) == [("offset_gap", FIRST, len(batch(0) + batch(20)), 50)]
    assert report.explained == {"offset_gap": 1}


# -- Typed values ----------------------------------------------------------------------------------


def metadata(*values: bytes | None) -> bytes:
    return encode_batch(list(values), timestamps=TIME_MS, partition_leader_epoch=1)


def frame(message: Any, version: int) -> bytes:
    return bytes([1, message.API_KEY, version]) + bytes(message.encode(version))


def test_metadata_records_are_counted_by_type_and_version(tmp_path: Path) -> None:
    topic = frame(kafka.TopicRecord(name="orders"), 0)
    values = [topic, topic, frame(kafka.PartitionRecord(leader=1), 2)]
    write(tmp_path, [[metadata(*values)]], topic=METADATA_TOPIC)
    report = audit(tmp_path)
    assert report.findings.counts == {}
    assert report.totals.record_types == {"TopicRecord v0": 2, "PartitionRecord v2": 1}
    assert report.totals.same_values == 3


def test_metadata_records_that_no_codec_reads_are_found(tmp_path: Path) -> None:
    good = frame(kafka.TopicRecord(name="orders"), 0)
    values = [good, b"\x01\x63\x00", good[:-1], b"\x02" + good[1:], b"", None, b"\x01\x02\x09"]
    write(tmp_path, [[metadata(*values)]], topic=METADATA_TOPIC)
    report = audit(tmp_path)
    assert places(report) == [
        ("value_undecodable", FIRST, 0, offset) for offset in range(1, len(values))
    ]
    details = [one.detail for one in report.findings.kept]
    assert details[0] == "byte 1 of the value: there is no metadata record with API key 99"
    assert details[1].startswith(f"byte {len(good) - 1} of the value: ")  # Its frame counts, too.
    assert details[4] == "the record has no value"
    classes = [one.error_class for one in report.findings.kept]
    assert classes[:1] == ["unknown_message"]
    assert classes[2:] == [
        "unsupported_version", "varint_truncated", "null_for_non_nullable", "unsupported_version",
    ]  # fmt: skip


def test_a_metadata_record_that_is_written_otherwise_is_found(tmp_path: Path) -> None:
    """A tagged field that has its default is left out by every writer, and read by all."""
    plain = frame(kafka.PartitionRecord(), 0)
    assert plain.endswith(b"\x00")
    wordy = plain[:-1] + b"\x01\x00\x01\x00"  # Tag 0, one byte: leaderRecoveryState 0.
    write(tmp_path, [[metadata(plain, wordy)]], topic=METADATA_TOPIC)
    assert found(tmp_path) == [("value_no_round_trip", FIRST, 0, 1)]


def control(kind: int, value: bytes) -> bytes:
    return encode_control_batch(
        kind, value, timestamp=TIME_MS, base_offset=3, partition_leader_epoch=0
    )


def test_control_records_are_read_by_their_types(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), control(99, b"\0\0"), marker(4)]])
    report = audit(tmp_path)
    assert places(report)[0] == ("value_undecodable", FIRST, SIZE, 3)
    assert report.findings.kept[0].error_class == "unknown_message"


def test_a_control_record_cut_short_is_found(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), control(2, b"\0\0\0")]])
    assert found(tmp_path) == [("value_undecodable", FIRST, SIZE, 3)]


# -- How batches follow one another ----------------------------------------------------------------

SEQUENCE_MAX = (1 << 31) - 1
# Batches, and which of them (by number) is a finding of which kind.
FOLLOWING: dict[str, tuple[list[bytes], list[tuple[str, int]]]] = {
    "gap": ([batch(0), batch(5), batch(8)], [("offset_gap", 1)]),
    "the same again": ([batch(0), batch(3), batch(3), batch(6)], [("offset_duplicate", 2)]),
    "back": ([batch(0), batch(3), batch(2), batch(6)], [("offset_out_of_order", 2)]),
    "epoch falls": (
        [
            batch(0, partition_leader_epoch=4),
            batch(3, partition_leader_epoch=3),
            batch(6, partition_leader_epoch=4),
        ],
        [("epoch_regression", 1)],
    ),
    "sequences": ([produced(0, 0), produced(3, 3), produced(6, 6)], []),
    "a producer from before": ([produced(0, 500), produced(3, 503)], []),
    "round": ([produced(0, SEQUENCE_MAX - 2), produced(3, 0)], []),
    "round within": ([produced(0, SEQUENCE_MAX - 1), produced(3, 1)], []),
    "sequence gap": ([produced(0, 0), produced(3, 4), produced(6, 7)], [("sequence_gap", 1)]),
    "sequence again": (
        [produced(0, 0), produced(3, 3), produced(6, 3), produced(9, 6)],
        [("sequence_duplicate", 2)],
    ),
    "two producers": (
        [produced(0, 0), produced(3, 9, producer=8), produced(6, 3), produced(9, 12, producer=8)],
        [],
    ),
    "new epoch": ([produced(0, 7), produced(3, 0, epoch=1), produced(6, 3, epoch=1)], []),
    "new epoch, late": ([produced(0, 7), produced(3, 5, epoch=1)], [("sequence_gap", 1)]),
    "old epoch": (
        [produced(0, 0, epoch=2), produced(3, 0, epoch=1), produced(6, 0, epoch=3)],
        [("producer_epoch_regression", 1)],
    ),
    "marker between": (
        [produced(0, 0, transactional=True), marker(3), produced(4, 3, transactional=True),
         marker(7)],
        [],
    ),
    "marker with the next epoch": (
        [produced(0, 4, transactional=True), marker(3, epoch=1),
         produced(4, 0, epoch=1, transactional=True), marker(7, epoch=2)],
        [],
    ),
    "marker of an old epoch": (
        [produced(0, 4, epoch=3, transactional=True), marker(3, epoch=2)],
        [("producer_epoch_regression", 1)],
    ),
    "marker, then a gap": (
        [produced(0, 0, transactional=True), marker(3), produced(4, 9, transactional=True),
         marker(7)],
        [("sequence_gap", 2)],
    ),
    "marker alone": ([batch(0), marker(3)], [("marker_without_transaction", 1)]),
    "marker twice": (
        [produced(0, 0, transactional=True), marker(3), marker(4)],
        [("marker_without_transaction", 2)],
    ),
    "open": (
        [batch(0), produced(3, 0, transactional=True), produced(6, 3, transactional=True),
         produced(9, 0, producer=8, transactional=True), marker(12, producer=8)],
        [("transaction_open", 1)],
    ),
    "hanging": (
        [produced(0, 0, transactional=True), produced(3, 0, producer=8, transactional=True),
         marker(6, producer=8), produced(7, 3, producer=8, transactional=True),
         marker(10, producer=8, time=TIME_MS + HOUR_MS)],
        [("transaction_hanging", 0)],
    ),
}  # fmt: skip


def cut(batches: list[bytes], cuts: set[int]) -> list[list[bytes]]:
    """Divide batches into segments, before each of the numbers."""
    segments: list[list[bytes]] = [[]]
    for number, data in enumerate(batches):
        if number in cuts and number:
            segments.append([])
        segments[-1].append(data)
    return segments


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("is_cut", [False, True])
def test_how_batches_follow(tmp_path: Path, name: str, is_cut: bool) -> None:
    batches, wanted = FOLLOWING[name]
    segments = cut(batches, set(range(len(batches))) if is_cut and name not in BACKWARDS else set())
    write(tmp_path, segments)
    expected = []
    for kind, number in wanted:
        base = struct.unpack_from(">q", batches[number])[0]
        at = (base, 0) if len(segments) > 1 else (0, len(b"".join(batches[:number])))
        expected.append((kind, f"{at[0]:020}.log", at[1], base))
    assert found(tmp_path) == expected


BACKWARDS = {"the same again", "back"}  # Files are named for their first offsets, and sorted.


@given(data=st.data())
def test_files_make_no_difference(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Batches in one file or in many give the same findings."""
    batches, offset = [], 0
    for _ in range(data.draw(st.integers(1, 14))):
        offset += data.draw(st.sampled_from([0, 0, 0, 2]))
        producer = data.draw(st.integers(7, 9))
        epoch = data.draw(st.sampled_from([0, 0, 0, 1]))
        if data.draw(st.sampled_from(["data", "data", "marker"])) == "marker":
            time = TIME_MS + data.draw(st.sampled_from([0, HOUR_MS]))
            batches.append(marker(offset, producer=producer, epoch=epoch, time=time))
            offset += 1
            continue
        sequence = data.draw(st.sampled_from([0, 0, 2, 4]))
        made = produced(
            offset, sequence, count=2, producer=producer, epoch=epoch,
            transactional=data.draw(st.booleans()),
        )  # fmt: skip
        batches.append(made)
        offset += 2
    cuts = data.draw(st.sets(st.integers(1, len(batches))))
    reports = []
    for segments in (cut(batches, set()), cut(batches, cuts)):
        root = tmp_path_factory.mktemp("log")
        write(root, segments)
        report = audit(root)
        said = sorted((one.kind, one.offset, one.detail) for one in report.findings.kept)
        reports.append((said, report.totals.records, report.partitions[0].missing_offsets))
    assert reports[0] == reports[1]


@given(data=st.data())
def test_bytes_add_up_whatever_is_damaged(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(b"".join(batch(3 * number) for number in range(8)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "zeros"])):
            case "flip":
                whole[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del whole[at : at + data.draw(st.integers(1, 200))]
            case "insert":
                whole[at:at] = data.draw(st.binary(min_size=1, max_size=100))
            case _:
                whole[at : at + 30] = bytes(len(whole[at : at + 30]))
        if not whole:
            whole += b"\0"
    root = tmp_path_factory.mktemp("log")
    directory = root / "t-0"
    directory.mkdir()
    (directory / FIRST).write_bytes(whole)
    found(root)


def test_sequences_of_coordinators_are_their_own(tmp_path: Path) -> None:
    """Offsets that are committed in transactions have sequence 0 each time."""
    batches = [produced(0, 0, transactional=True), produced(3, 0, transactional=True), marker(6)]
    write(tmp_path, [batches], topic="__consumer_offsets")
    assert found(tmp_path) == []


def test_what_was_lost_with_damage_is_not_told_twice(tmp_path: Path) -> None:
    bad = bytearray(produced(3, 3))
    bad[-1] ^= 1
    write(tmp_path, [[produced(0, 0), bytes(bad)], [produced(6, 6)]])
    assert [place[0] for place in found(tmp_path)] == ["damage"]


# -- What stands beside the log --------------------------------------------------------------------


def test_a_file_that_starts_after_its_name(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(5)]])
    (directory / f"{5:020}.log").rename(directory / FIRST)
    assert found(tmp_path) == [("file_name_differs", FIRST, 0, 5)]


def test_a_file_that_starts_before_its_name(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(5)]])
    (directory / f"{5:020}.log").rename(directory / f"{6:020}.log")
    assert found(tmp_path) == [("below_file_name", f"{6:020}.log", 0, 5)]


def test_epochs_are_held_against_the_checkpoint(tmp_path: Path) -> None:
    batches = [batch(3 * number, partition_leader_epoch=number // 2) for number in range(6)]
    write(tmp_path, [batches], epochs=[(0, 0), (1, 9), (2, 12)])
    assert found(tmp_path) == [("epoch_checkpoint_differs", FIRST, 2 * SIZE, 6)]


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n2\n0 0\n", "0\n1\nx y\n", "0\n1\n1 2 3\n"])
def test_a_checkpoint_in_no_format_of_kafka(tmp_path: Path, text: str) -> None:
    directory = write(tmp_path, [[batch(0)]])
    (directory / "leader-epoch-checkpoint").write_text(text)
    assert found(tmp_path) == [("checkpoint_unreadable", "leader-epoch-checkpoint", 0, -1)]


Entries = Callable[[], bytes]
INDEXES: dict[str, tuple[str, bytes, list[tuple[str, int, int]]]] = {
    "sound": (".index", struct.pack(">4i", 5, SIZE, 11, 3 * SIZE) + bytes(80), []),
    # Before Kafka 4.0 an entry was of a whole append: its first byte, its last offset.
    "of an append": (".index", struct.pack(">2i", 11, SIZE), []),
    "inside a batch": (".index", struct.pack(">2i", 5, SIZE + 1), [("index_entry", 0, 5)]),
    "offset before": (".index", struct.pack(">2i", 2, SIZE), [("index_entry", 0, 2)]),
    "not ascending": (
        ".index", struct.pack(">4i", 8, 2 * SIZE, 5, SIZE), [("index_entry", 8, -1)]
    ),
    "past the end": (".index", struct.pack(">2i", 20, 4 * SIZE), [("index_entry", 0, -1)]),
    "cut": (".index", struct.pack(">2i", 5, SIZE) + b"\1\2\3", [("index_size", 8, -1)]),
    "times": (".timeindex", struct.pack(">qiqi", TIME_MS + 2, 2, TIME_MS + 8, 8) + bytes(24), []),
    "wrong time": (
        ".timeindex", struct.pack(">qi", TIME_MS + 6, 5), [("time_index_entry", 0, 5)]
    ),
    "time past the end": (
        ".timeindex", struct.pack(">qi", TIME_MS + 6, 50), [("time_index_entry", 0, -1)]
    ),
    "no abort": (
        ".txnindex", struct.pack(">hqqqq", 0, 7, 3, 5, 6), [("transaction_index_entry", 0, 5)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXES)
def test_indexes_are_held_against_the_batches(tmp_path: Path, name: str) -> None:
    suffix, data, wanted = INDEXES[name]
    directory = write(tmp_path, [[batch(3 * number) for number in range(4)]])
    index = (directory / FIRST).with_suffix(suffix)
    index.write_bytes(data)
    assert found(tmp_path) == [(kind, index.name, at, offset) for kind, at, offset in wanted]


def test_an_aborted_transaction_has_its_marker(tmp_path: Path) -> None:
    batches = [produced(0, 0, transactional=True), marker(3, commit=False), batch(4)]
    directory = write(tmp_path, [batches])
    index = (directory / FIRST).with_suffix(".txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4))
    assert found(tmp_path) == []
    index.write_bytes(struct.pack(">hqqqq", 0, 8, 0, 3, 4))
    assert found(tmp_path) == [
        ("transaction_index_entry", index.name, 0, 3), ("abort_not_indexed", FIRST, SIZE, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("cut_at", [None, 1, 2])
@pytest.mark.parametrize("clean_until", [0, 20])
def test_an_abort_that_the_index_lacks(
    tmp_path: Path, cut_at: int | None, clean_until: int
) -> None:
    """Of two aborts, the data of one of them in another segment or not, either may be left out."""
    batches = [
        produced(0, 0, transactional=True), produced(3, 0, producer=8, transactional=True),
        marker(6, commit=False), marker(7, commit=False, producer=8), batch(8),
    ]  # fmt: skip
    segments = cut(batches, set() if cut_at is None else {cut_at})
    directory = write(tmp_path, segments, clean_until=clean_until)
    log = sorted(directory.glob("*.log"))[-1]
    start = 0 if cut_at is None else len(b"".join(batches[:cut_at]))
    entries = [struct.pack(">hqqqq", 0, 7, 0, 6, 3), struct.pack(">hqqqq", 0, 8, 3, 7, 8)]
    for kept, offset in ((0, 7), (1, 6)):
        log.with_suffix(".txnindex").write_bytes(b"".join(entries))
        assert found(tmp_path) == []
        log.with_suffix(".txnindex").write_bytes(entries[kept])
        at = len(b"".join(batches[: offset - 4])) - start
        wanted = [("abort_not_indexed", log.name, at, offset)]
        assert found(tmp_path) == ([] if clean_until else wanted)
    log.with_suffix(".txnindex").unlink()  # Where Kafka would write none, readers ask the markers.
    assert found(tmp_path) == []


def test_markers_that_are_in_no_index(tmp_path: Path) -> None:
    """Commits are not, nor the aborts of transactions without a record."""
    batches = [
        produced(0, 0, transactional=True), marker(3, commit=False),
        produced(4, 3, transactional=True), marker(7), marker(8, commit=False, producer=9),
    ]  # fmt: skip
    directory = write(tmp_path, [batches])
    index = (directory / FIRST).with_suffix(".txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4))
    assert [place[0] for place in found(tmp_path)] == ["marker_without_transaction"]


def test_an_index_into_damage_is_no_second_finding(tmp_path: Path) -> None:
    bad = bytearray(batch(3))
    bad[-1] ^= 1
    directory = write(tmp_path, [[batch(0), bytes(bad), batch(6)]])
    (directory / FIRST).with_suffix(".index").write_bytes(struct.pack(">2i", 5, SIZE))
    (directory / FIRST).with_suffix(".timeindex").write_bytes(struct.pack(">qi", TIME_MS + 5, 5))
    assert [place[0] for place in found(tmp_path)] == ["damage"]
