"""The records of metadata logs: those that a real Kafka wrote, and bad ones that are made here."""

from __future__ import annotations

import json
import pickle
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import encode_batch, encode_control_batch
from kraftspec.fastpath.records import Compression
from kraftspec.generated.kafka import (
    EndTxnMarker,
    LeaderChangeMessage,
    PartitionRecord,
    TopicRecord,
)
from kraftspec.pipeline import scan
from kraftspec.pipeline.messages import arrow_type
from kraftspec.pipeline.metadata import MetadataDecoder, metadata_schema, records
from kraftspec.pipeline.report import DamagedLogError, Report

from .metadata_corpus import DATA, oracle, read_gzip

TOPIC = b"\x01\x02\x00" + TopicRecord(name="orders").encode(0)
SEGMENT = "00000000000000000000.log"


def rows_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = records(path, **options).read_all().to_pylist()
    return actual


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the form that the oracle has."""
    return [
        {
            "file": Path(row["file"]).name,
            "offset": row["offset"],
            "epoch": row["epoch"],
            "timestamp": round(row["timestamp"].timestamp() * 1000),
            "control": row["control"],
            "type": row["type"],
            "apiKey": row["apiKey"],
            "version": row["version"],
            "record": json.loads(row["record"]),
        }
        for row in rows
    ]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["file"], row["offset"]))


def test_every_record_of_a_real_log_is_what_kafka_reads() -> None:
    rows = rows_of(DATA)
    assert in_order(plain(rows)) == in_order(read_gzip("records.json.gz"))
    assert len({row["type"] for row in rows}) >= 20
    assert all(row["checkpoint"] == row["file"].endswith(".checkpoint") for row in rows)
    assert not any(row["_error"] or row["_corrupt_record"] for row in rows)


@pytest.mark.kafka
def test_the_committed_answers_are_kafkas() -> None:
    assert oracle("records", DATA) == read_gzip("records.json.gz")


def test_a_type_of_record_is_a_typed_struct() -> None:
    expected = [row for row in rows_of(DATA) if row["type"] == "PartitionRecord"]
    report = Report()
    table = records(DATA, record_type="PartitionRecord", report=report).read_all()
    assert table.schema.field("record").type == arrow_type("PartitionRecord")
    assert report.rows == table.num_rows == len(expected) > 100
    for row, kept in zip(table.to_pylist(), expected, strict=True):
        value = PartitionRecord.from_json(json.loads(kept["record"]), kept["version"])
        struct = row["record"]
        assert struct["_version"] == kept["version"]
        assert struct["topicId"] == str(value.topic_id)
        assert (struct["leader"], struct["isr"]) == (value.leader, list(value.isr))
        assert (row["offset"], row["file"]) == (kept["offset"], kept["file"])


def test_columns_are_chosen_and_filters_reach_the_reader() -> None:
    reader = records(
        DATA / SEGMENT, ["type", "offset"], [("offset", ">=", 20)], mode="DROPMALFORMED"
    )
    assert reader.schema == pa.schema([("type", pa.string()), ("offset", pa.int64())])
    every = rows_of(DATA / SEGMENT)
    expected = [{"type": row["type"], "offset": row["offset"]} for row in every]
    assert reader.read_all().to_pylist() == expected[20:]


BAD = {
    "an unknown type": (b"\x01\x63\x00", "unknown_message", "no metadata record with API key 99"),
    "an unknown version": (b"\x01\x02\x09", "unsupported_version", "versions 0 to 0, not 9"),
    "a long version": (b"\x01\x02\xff\x01", "unsupported_version", "versions 0 to 0, not 255"),
    "another frame": (b"\x02\x02\x00", "unsupported_version", "version 1 wanted, not 2"),
    "trailing bytes": (TOPIC + b"\x00\x00", "trailing", "2 bytes follow the record"),
    "a record that is cut": (TOPIC[:-4], "truncated", "topicId"),
    "a frame that is cut": (b"\x01", "varint_truncated", "API key: the value ends in it"),
    "nothing": (b"", "varint_truncated", "frame version"),
    "no value": (None, "null_for_non_nullable", "no value"),
    "an overlong number": (b"\x81\x00\x02\x00", "varint_overflow", "frame version"),
}


@pytest.fixture
def bad_log(tmp_path: Path) -> Path:
    """A log of good records and bad ones in turn, in compressed batches."""
    values: list[bytes | None] = [TOPIC]
    for value, _, _ in BAD.values():
        values += [value, TOPIC]
    half = len(values) // 2
    batches = [
        encode_batch(values[:half], timestamps=1, compression=Compression.GZIP),
        encode_batch(values[half:], timestamps=2, base_offset=half),
    ]
    (tmp_path / SEGMENT).write_bytes(b"".join(batches))
    return tmp_path


def test_bad_records_are_rows_that_say_why(bad_log: Path) -> None:
    report = Report()
    rows = rows_of(bad_log, report=report)
    assert len(rows) == 2 * len(BAD) + 1
    for row in rows[::2]:
        assert json.loads(row["record"])["name"] == "orders"
        assert row["_error"] is None
    for row, (value, error_class, detail) in zip(rows[1::2], BAD.values(), strict=True):
        assert row["record"] is None
        assert row["_error"]["class"] == error_class
        assert detail in row["_error"]["detail"]
        assert f"record at offset {row['offset']}" in row["_error"]["detail"]
        assert row["_error"]["position"] == row["position"]
        assert row["_corrupt_record"] == value
    assert (report.rows, report.damaged_regions, report.dropped_regions) == (
        len(BAD) + 1, len(BAD), 0,
    )  # fmt: skip
    kinds = [(row["type"], row["apiKey"], row["version"]) for row in rows]
    assert kinds[1] == (None, 99, 0)
    assert kinds[3] == ("TopicRecord", 2, 9)


def test_bad_records_are_dropped_and_counted_or_end_the_reading(bad_log: Path) -> None:
    report = Report()
    rows = rows_of(bad_log, mode="DROPMALFORMED", report=report)
    assert [row["type"] for row in rows] == ["TopicRecord"] * (len(BAD) + 1)
    assert "_error" not in rows[0]
    assert (report.rows, report.dropped_regions) == (len(BAD) + 1, len(BAD))
    assert [damage.error_class for damage in report.damaged] == [each[1] for each in BAD.values()]
    unseen = Report()
    assert len(rows_of(bad_log, columns=["type"], report=unseen)) == len(rows)
    assert unseen.dropped_regions == len(BAD)
    with pytest.raises(DamagedLogError, match=r"0\.log, byte 0: record at offset 1, .*API key 99"):
        rows_of(bad_log, mode="FAILFAST")


def test_a_type_of_record_keeps_what_may_have_been_one(bad_log: Path) -> None:
    rows = rows_of(bad_log, record_type="PartitionRecord")
    assert [row["_error"]["class"] for row in rows] == [
        BAD[name][1]
        for name in BAD
        if name not in ("an unknown version", "a long version", "trailing bytes")
        and name != "a record that is cut"
    ]
    report = Report()
    assert not rows_of(bad_log, record_type="PartitionRecord", mode="DROPMALFORMED", report=report)
    assert report.filtered_rows == len(BAD) + 1
    assert (report.rows, report.dropped_regions) == (0, len(BAD))


def test_control_records(tmp_path: Path) -> None:
    marker = EndTxnMarker(coordinator_epoch=7).encode(0)
    change = LeaderChangeMessage(version=0, leader_id=3).encode(0)
    producer: Any = {"timestamp": 1, "producer_id": 1, "producer_epoch": 0, "transactional": True}
    batches = [
        encode_control_batch(0, b"\x00\x00" + marker, **producer),
        encode_control_batch(1, b"\x00\x00" + marker, base_offset=1, **producer),
        encode_control_batch(2, change, timestamp=1, base_offset=2),
        encode_control_batch(99, b"\x00\x00", timestamp=1, base_offset=3),
        encode_control_batch(2, b"\x00\x09", timestamp=1, base_offset=4),
        encode_control_batch(2, b"", timestamp=1, base_offset=5),
    ]
    (tmp_path / SEGMENT).write_bytes(b"".join(batches))
    rows = rows_of(tmp_path)
    assert all(row["control"] for row in rows)
    named = [(row["type"], row["apiKey"], row["version"]) for row in rows[:3]]
    assert named == [("EndTxnMarker", 0, 0), ("EndTxnMarker", 1, 0), ("LeaderChangeMessage", 2, 0)]
    assert [row["record"] for row in rows[:2]] == ['{"coordinatorEpoch":7}'] * 2
    assert json.loads(rows[2]["record"])["leaderId"] == 3
    classes = [row["_error"]["class"] for row in rows[3:]]
    assert classes == ["unknown_message", "unsupported_version", "truncated"]


def test_what_the_reader_found_damaged_stays_a_row(tmp_path: Path) -> None:
    good = encode_batch([TOPIC], timestamps=1, base_offset=1)
    bad = bytearray(encode_batch([TOPIC], timestamps=1))
    bad[70] ^= 1
    (tmp_path / SEGMENT).write_bytes(bytes(bad) + good)
    damaged, row = rows_of(tmp_path)
    assert damaged["_error"]["class"] == "crc_mismatch"
    assert damaged["_corrupt_record"] == bytes(bad)
    assert (damaged["type"], damaged["record"]) == (None, None)
    assert (row["type"], row["_error"]) == ("TopicRecord", None)
    assert rows_of(tmp_path, record_type="NoOpRecord") == [damaged]


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no metadata record 'TopicRecrd'; .* TopicRecord"):
        metadata_schema(record_type="TopicRecrd")
    with pytest.raises(ValueError, match=r"no column 'key'; the columns are file, offset,"):
        metadata_schema(["key"])
    with pytest.raises(ValueError, match="mode is one of PERMISSIVE, DROPMALFORMED, FAILFAST"):
        metadata_schema(mode="LAX")


def test_the_decoder_pickles() -> None:
    decoder = MetadataDecoder(["type", "record"], "DROPMALFORMED", record_type="TopicRecord")
    copy = pickle.loads(pickle.dumps(decoder))
    assert (copy.schema, copy.mode) == (decoder.schema, decoder.mode)
    assert copy.source_columns == decoder.source_columns


@given(st.data())
def test_no_record_is_lost_in_silence(data: st.DataObject) -> None:
    """Of a real log's records, any number with any bytes changed: each is a row, or is counted."""
    values = list(real_values())
    for at in data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=8)):
        bent = bytearray(values[at])
        for byte in data.draw(st.lists(st.integers(0, max(len(bent) - 1, 0)), max_size=4)):
            bent[byte : byte + 1] = data.draw(st.binary(max_size=2))
        values[at] = bytes(bent)
    with TemporaryDirectory() as place:
        Path(place, SEGMENT).write_bytes(encode_batch(values, timestamps=0))
        report, dropping = Report(), Report()
        rows = rows_of(Path(place), report=report)
        kept = rows_of(Path(place), mode="DROPMALFORMED", report=dropping)
    bad = [row for row in rows if row["_error"]]
    assert len(rows) == len(values)
    assert (report.rows, report.damaged_regions) == (len(values) - len(bad), len(bad))
    assert (dropping.rows, dropping.dropped_regions) == (len(kept), len(bad))
    assert [row["offset"] for row in kept] == [row["offset"] for row in rows if not row["_error"]]
    assert all(row["_corrupt_record"] == values[row["offset"]] for row in bad)


@cache
def real_values() -> tuple[bytes, ...]:
    table = scan(DATA / SEGMENT, ["value"], [("is_control", "==", False)], values="binary")
    return tuple(table.read_all()["value"].to_pylist()[:60])


def test_other_topics_are_passed_over(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "__cluster_metadata-0")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / SEGMENT).write_bytes(encode_batch([b"paid"], timestamps=0))
    rows = rows_of(tmp_path)
    assert len(rows) == len(read_gzip("records.json.gz"))
    assert not any(row["_error"] for row in rows)
    with pytest.raises(ValueError, match="there is no metadata log here: no __cluster_metadata-0"):
        records(tmp_path / "orders-0")
