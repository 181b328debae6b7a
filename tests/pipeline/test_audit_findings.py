"""Each kind of finding, planted in a partition that is sound but for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kraftspec.fastpath import encode_batch, encode_control_batch
from kraftspec.fastpath.batch_writer import write_record
from kraftspec.fastpath.records import Compression, TimestampType
from kraftspec.generated import kafka
from kraftspec.pipeline.audit import audit, roundtrip
from kraftspec.pipeline.audit.rules import EXPLAINED, RULES, Severity
from kraftspec.pipeline.metadata.log import METADATA_TOPIC

from .audit_logs import (
    FIRST,
    SIZE,
    TIME_MS,
    Record,
    batch,
    findings_of,
    marker,
    patched,
    places,
    produced,
    raw_batch,
    write,
)


def test_every_kind_of_finding_has_a_rule_and_a_test() -> None:
    names_ = ("findings", "following", "sidecars")
    paths = [Path(__file__).with_name(f"test_audit_{package}.py") for package in names_]
    source = "".join(path.read_text("utf-8") for path in paths)
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
    assert findings_of(tmp_path) == [("damage", FIRST, SIZE, -1)]


def test_a_last_batch_that_was_cut_short_is_a_torn_tail(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(3)[:-5]]])
    assert findings_of(tmp_path) == [("torn_tail", FIRST, SIZE, 3)]


def test_a_batch_whose_end_is_zeros_is_a_torn_tail(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(3)[:-20] + bytes(20)]])
    assert findings_of(tmp_path) == [("torn_tail", FIRST, SIZE, 3)]


def test_zeros_are_a_note_at_the_end_of_the_log_and_an_error_before(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), bytes(5000)], [batch(3), bytes(3_000_000)]])
    assert findings_of(tmp_path) == [
        ("zero_tail", FIRST, SIZE, -1),
        ("zero_tail_of_last_segment", f"{3:020}.log", SIZE, -1),
    ]
    assert RULES["zero_tail_of_last_segment"].severity is Severity.NOTE
    # By itself, too, the first segment is not the last.
    assert findings_of(tmp_path / "t-0" / FIRST) == [("zero_tail", FIRST, SIZE, -1)]


def test_a_batch_larger_than_a_window_is_no_damage(tmp_path: Path) -> None:
    big = batch(0, 1, keys=None)
    large = encode_batch([bytes(9 << 20)], timestamps=1, partition_leader_epoch=0)
    write(tmp_path, [[large, batch(1)]])
    assert findings_of(tmp_path) == []
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
    assert findings_of(tmp_path) == [
        ("no_round_trip", FIRST, 0, 0),
        ("no_round_trip", FIRST, len(first), count),
    ]


ODD: dict[str, tuple[bytes, str]] = {
    "max timestamp": (patched(batch(3), 35, ">q", TIME_MS + 77), "max_timestamp_wrong"),
    "attribute bit": (patched(batch(3), 21, ">h", 0x80), "batch_attributes"),
    "base timestamp": (
        raw_batch(3, [Record(timestamp_delta=5)], max_timestamp=TIME_MS + 5), "base_timestamp_odd",
    ),
    "negative timestamp": (
        raw_batch(3, [Record()], base_timestamp=-10, max_timestamp=-10), "timestamp_negative",
    ),
    "record attribute": (raw_batch(3, [Record(attributes=1)]), "record_attributes"),
    "transaction of none": (raw_batch(3, [Record()], attributes=0x10), "producer_fields"),
    "no sequence": (raw_batch(3, [Record()], producer_id=7, producer_epoch=0), "producer_fields"),
    "hole": (raw_batch(3, [Record(key=b"k"), Record(key=b"l", offset_delta=2)]), "offset_hole"),
    "hole of null keys": (raw_batch(3, [Record(offset_delta=2)]), "offset_hole_with_null_key"),
    "empty": (raw_batch(3, [], last_offset_delta=2), "empty_batch"),
    "horizon": (raw_batch(3, [Record(key=b"k")], attributes=0x40), "delete_horizon"),
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
    """By its checkpoint; without one, by batches that only the cleaner writes."""
    data, kind = ODD[name]
    write(tmp_path, [[data, batch(20)], [batch(23)]], clean_until=clean_until and 20)
    report = audit(tmp_path)
    assert places(report) == []
    # The log starts after offset 0, of which its first file is named, so that is none.
    assert report.explained == {kind: 1, "offset_gap": 1}


def test_without_a_mark_of_the_cleaner_a_gap_is_a_finding(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(20)]], clean_until=None)
    assert findings_of(tmp_path) == [("offset_gap", FIRST, SIZE, 20)]


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
    assert findings_of(tmp_path) == [("value_no_round_trip", FIRST, 0, 1)]


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
    assert findings_of(tmp_path) == [("value_undecodable", FIRST, SIZE, 3)]
