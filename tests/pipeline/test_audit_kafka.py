"""The audit of what a real Apache Kafka wrote: nothing to find, until a bit is turned."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

from kraftspec.conformance.making.logs import kafka_logs, partitions, records
from kraftspec.pipeline.audit import Report, audit
from kraftspec.pipeline.audit.rules import EXPLAINED

pytestmark = pytest.mark.kafka

COMPACTED = {"compacted", "compacted-transactions", "__consumer_offsets", "__transaction_state"}
FLIPS = 300


@pytest.fixture(scope="module")
def logs() -> Path:
    return kafka_logs()


@pytest.fixture(scope="module")
def clean(logs: Path) -> Report:
    return audit(logs / "clean")


def test_a_clean_log_of_kafka_has_no_errors(clean: Report) -> None:
    """One transaction was left open on purpose, and is a note."""
    assert clean.errors == 0, clean.findings.kept
    assert clean.findings.counts == {"transaction_open": 1}
    assert clean.unread == {}
    totals = clean.totals
    assert totals.codecs.keys() == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert sum(share.bytes for share in totals.codecs.values()) == totals.bytes
    same = totals.same_batches + totals.same_inflated + totals.same_by_record
    assert same == totals.batches
    assert totals.differing_batches == 0


def test_only_compacted_topics_need_the_cleaner_to_explain_them(
    clean: Report, logs: Path, tmp_path: Path
) -> None:
    """Without what it wrote down, and with the word that it never ran, all that is a finding."""
    assert clean.explained.keys() <= EXPLAINED.keys()
    assert clean.explained["offset_hole"] > 0
    for one in clean.partitions:
        if one.topic not in COMPACTED:
            assert one.missing_offsets == 0, one.directory
    copy = tmp_path / "logs"
    shutil.copytree(logs / "clean", copy)
    (copy / "cleaner-offset-checkpoint").unlink()
    assert audit(copy).errors == 0
    (copy / "cleaner-offset-checkpoint").write_text("0\n0\n")
    report = audit(copy)
    assert {one.topic for one in report.findings.kept} <= COMPACTED | {"transactions"}
    assert report.errors >= clean.explained["offset_hole"] + clean.explained["offset_gap"]


def test_counts_are_those_that_the_consumer_of_kafka_saw(clean: Report, logs: Path) -> None:
    read = Counter(
        (one.topic, one.partition)
        for one in records(logs / "clean_read" / "read_uncommitted.jsonl")
    )
    counted = {(one.topic, one.partition): one.counts for one in clean.partitions}
    assert read
    for place, count in read.items():
        # The log start of a trimmed topic may lie within a segment, and the rest is still there.
        if place[0] == "trimmed":
            assert counted[place].data_records >= count
        else:
            assert counted[place].data_records == count, place
    for bounds in partitions(logs / "clean_read" / "partitions.jsonl"):
        if bounds.end_offset > bounds.start_offset:
            end = counted[bounds.topic, bounds.partition].offset_last + 1
            assert end == bounds.end_offset, bounds


def test_sizes_and_headers_are_those_of_what_the_consumer_saw(clean: Report, logs: Path) -> None:
    seen = [
        one
        for one in records(logs / "clean_read" / "read_uncommitted.jsonl")
        if one.topic in ("headers", "nulls", "large", "codec-zstd")
    ]
    for topic in ("headers", "nulls", "large", "codec-zstd"):
        ours, theirs = clean.topics[topic], [one for one in seen if one.topic == topic]
        assert ours.headers == sum(len(one.headers) for one in theirs)
        assert ours.keys.nulls == sum(one.key is None for one in theirs)
        assert ours.tombstones == sum(one.value is None for one in theirs)
        assert ours.keys.bytes == sum(len(one.key or b"") for one in theirs)
        assert ours.values.bytes == sum(len(one.value or b"") for one in theirs)
        assert ours.values.longest == max(len(one.value or b"") for one in theirs)
        assert ours.timestamp_min == min(one.timestamp for one in theirs)
        assert ours.timestamp_max == max(one.timestamp for one in theirs)


def test_the_metadata_log_and_its_snapshots_are_clean(logs: Path) -> None:
    report = audit(logs / "controller")
    assert report.findings.counts == {}
    assert report.explained == {}
    assert len(report.partitions) > 2
    assert report.totals.record_types["TopicRecord v0"] > 0
    assert report.totals.control["SNAPSHOT_HEADER v0"] == len(report.partitions) - 1
    values = sum(report.totals.record_types.values()) + sum(report.totals.control.values())
    assert report.totals.same_values == values == report.totals.records


def test_torn_files_are_found_where_they_were_cut(logs: Path) -> None:
    cut = [json.loads(line) for line in (logs / "torn.jsonl").read_text().splitlines()]
    report = audit(logs / "torn")
    torn = {one.file: one for one in report.findings.kept if one.kind == "torn_tail"}
    assert report.errors == len(torn) == len(cut)
    for one in cut:
        (path,) = [path for path in torn if path.endswith(one["file"])]
        assert torn[path].position + torn[path].size == Path(path).stat().st_size


def test_each_single_bit_that_is_turned_is_found(logs: Path, tmp_path: Path) -> None:
    """Whatever bit of a segment: the CRC misses three fields, and continuity holds those."""
    chosen = ["plain-0", "codec-none-0", "codec-lz4-0", "headers-0", "transactions-0"]
    for name in chosen:
        shutil.copytree(logs / "clean" / name, tmp_path / name)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")
    assert audit(tmp_path).errors == 0
    segments = [path for name in chosen for path in (tmp_path / name).glob("*.log")]
    whole = {path: path.read_bytes() for path in segments if path.stat().st_size}
    spots = random.Random(6)
    missed = []
    for number in range(FLIPS):
        path = spots.choice(list(whole))
        # Half of them in the first bytes of a segment, which the CRC does not cover.
        end = 17 if number % 2 else len(whole[path])
        at, bit = spots.randrange(end), spots.randrange(8)
        data = bytearray(whole[path])
        data[at] ^= 1 << bit
        path.write_bytes(data)
        report = audit(path.parent)
        if not report.errors:
            missed.append((path.parent.name, path.name, at, bit))
        path.write_bytes(whole[path])
    assert missed == []


def test_each_index_entry_of_kafka_is_looked_at(logs: Path, tmp_path: Path) -> None:
    """Moved by one, an entry leads elsewhere; as Kafka wrote them, all are right."""
    shutil.copytree(logs / "clean", tmp_path / "clean")
    moved = 0
    for kind, suffix, entry in (
        ("index_entry", ".index", struct.Struct(">ii")),
        ("time_index_entry", ".timeindex", struct.Struct(">qi")),
        ("transaction_index_entry", ".txnindex", struct.Struct(">hqqqq")),
    ):
        for index in sorted((tmp_path / "clean").glob(f"*-?/*{suffix}")):
            whole = index.read_bytes()
            if index.parent.name[:-2] in COMPACTED and suffix == ".txnindex":
                continue  # The cleaner may have removed the marker: those are not reported.
            for at in range(0, len(whole.rstrip(b"\0")), entry.size):
                row = list(entry.unpack_from(whole, at))
                row[{".index": 1, ".timeindex": 0, ".txnindex": 1}[suffix]] += 1
                index.write_bytes(whole[:at] + entry.pack(*row) + whole[at + entry.size :])
                findings = audit(index.parent).findings
                assert (kind, str(index), at) in [
                    (one.kind, one.file, one.position) for one in findings.kept
                ], (index, at)
                moved += 1
            index.write_bytes(whole)
    assert moved > 50
