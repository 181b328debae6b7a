"""The logs of a real broker: what lies there, held against what was sent and what Kafka read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kraftspec.conformance.making.logs import Partition, Record, kafka_logs, partitions, records
from kraftspec.fastpath.batch_reader import iterate_records
from kraftspec.fastpath.records import BatchHeader
from kraftspec.fastpath.scan import scan

pytestmark = pytest.mark.kafka

Key = tuple[str, int, int]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
REWRITTEN = ("compacted", "compacted-transactions", "trimmed")


@pytest.fixture(scope="module")
def logs() -> Path:
    return kafka_logs()


def by_place(path: Path) -> dict[Key, Record]:
    lines = list(records(path))
    by_key = {(record.topic, record.partition, record.offset): record for record in lines}
    assert len(by_key) == len(lines)
    return by_key


def content(record: Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def segments(logs: Path, directory: str, topic: str, partition: int = 0) -> list[Path]:
    return sorted((logs / directory / f"{topic}-{partition}").glob("*.log"))


def headers(logs: Path, topic: str, directory: str = "clean") -> Iterator[BatchHeader]:
    for path in (logs / directory).glob(f"{topic}-[0-9]/*.log"):
        scanned = scan(path)
        yield from scanned
        assert not scanned.damage


def states(logs: Path, name: str) -> dict[tuple[str, int], Partition]:
    return {(one.topic, one.partition): one for one in partitions(logs / name / "partitions.jsonl")}


def test_the_consumer_read_what_was_sent(logs: Path) -> None:
    sent = by_place(logs / "sent.jsonl")
    read = by_place(logs / "clean_read" / "read_uncommitted.jsonl")
    for place, record in read.items():
        if not place[0].startswith("__"):
            assert content(record) == content(sent[place])
    assert {topic for topic, _, _ in sent.keys() - read.keys()} == set(REWRITTEN)
    assert len({topic for topic, _, _ in sent}) == 20


def test_read_committed_lacks_what_was_aborted_and_what_follows_an_open_one(logs: Path) -> None:
    sent = by_place(logs / "sent.jsonl")
    uncommitted = by_place(logs / "clean_read" / "read_uncommitted.jsonl")
    committed = by_place(logs / "clean_read" / "read_committed.jsonl")
    stable = {at: one.last_stable_offset for at, one in states(logs, "clean_read").items()}
    expected = {
        place
        for place in uncommitted
        if place[2] < stable[place[:2]]
        and (place not in sent or sent[place].transaction not in ("aborted", "open"))
    }
    assert committed.keys() == expected
    outcomes = {record.transaction for record in sent.values()}
    assert outcomes == {None, "committed", "aborted", "open"}
    state = states(logs, "clean_read")["transactions", 1]
    assert state.last_stable_offset < state.end_offset
    (open_one,) = [one for one in state.producers if one.transaction_start_offset is not None]
    assert open_one.transaction_start_offset == state.last_stable_offset
    assert len(list((logs / "clean").glob("transactions-*/*.txnindex"))) > 2


@pytest.mark.parametrize(("directory", "truth"), [("clean", "clean_read"), ("torn", "torn_read")])
def test_our_reader_finds_what_kafkas_consumer_found(
    logs: Path, directory: str, truth: str
) -> None:
    read: dict[tuple[str, int], dict[int, Record]] = defaultdict(dict)
    for record in records(logs / truth / "read_uncommitted.jsonl"):
        read[record.topic, record.partition][record.offset] = record
    for (topic, partition), state in states(logs, truth).items():
        actual: dict[int, object] = {}
        for path in segments(logs, directory, topic, partition):
            scanned = scan(path)
            data = path.read_bytes()
            for batch in scanned:
                if batch.is_control:
                    continue
                for one in iterate_records(data[batch.position : batch.position + batch.size]):
                    pairs = [(header.key, header.value) for header in one.headers]
                    actual[one.offset] = one.timestamp, one.key, one.value, pairs
        actual = {offset: one for offset, one in actual.items() if offset >= state.start_offset}
        # A broker writes to its own topics when it starts: the directory was copied before.
        expected = {offset: content(one) for offset, one in read[topic, partition].items()}
        if directory == "clean" or not topic.startswith("__"):
            assert actual == expected, (topic, partition)


@pytest.mark.parametrize("topic", ["compacted", "compacted-transactions"])
def test_the_log_cleaner_has_worked(logs: Path, topic: str) -> None:
    sent = [one for one in records(logs / "sent.jsonl") if one.topic == topic]
    read = [
        one for one in records(logs / "clean_read" / "read_committed.jsonl") if one.topic == topic
    ]
    assert 0 < len(read) < len(sent) / 2
    last = {one.key: one for one in sent if one.transaction != "aborted"}
    offsets = {one.offset for one in read}
    assert {one.offset for one in last.values()} <= offsets
    batches = list(headers(logs, topic))
    assert any(0 < one.record_count <= one.last_offset_delta for one in batches)
    if topic == "compacted":
        # An empty batch is kept for its producer's last sequence, a tombstone until its horizon.
        assert any(one.record_count == 0 for one in batches)
        assert any(one.has_delete_horizon for one in batches)
    else:
        assert any(one.is_control for one in batches)


def test_every_shape_is_there(logs: Path) -> None:
    for number, codec in enumerate(CODECS):
        assert {header.compression for header in headers(logs, f"codec-{codec}")} == {number}
    assert {header.compression for header in headers(logs, "recompressed")} == {4}
    assert {header.timestamp_type for header in headers(logs, "append-time")} == {1}
    assert {header.timestamp_type for header in headers(logs, "create-time")} == {0}
    assert len({header.producer_id for header in headers(logs, "idempotent")}) == 2
    assert {header.producer_id for header in headers(logs, "plain")} == {-1}
    assert len(segments(logs, "clean", "segments")) > 3
    assert int(segments(logs, "clean", "trimmed")[0].stem) > 0
    assert [path.stat().st_size for path in segments(logs, "clean", "empty")] == [0]
    assert max(header.size for header in headers(logs, "large")) > 1_200_000
    assert any(header.is_control for header in headers(logs, "transactions"))
    assert (logs / "clean" / ".kafka_cleanshutdown").exists()
    assert len(list((logs / "controller").glob("*/*.checkpoint"))) > 2


def test_what_was_killed_and_what_was_torn(logs: Path) -> None:
    assert not (logs / "killed" / ".kafka_cleanshutdown").exists()
    acknowledged = by_place(logs / "sent_more.jsonl")
    read = by_place(logs / "torn_read" / "read_uncommitted.jsonl")
    lines = (logs / "torn.jsonl").read_bytes().splitlines()
    cuts = [msgspec.json.decode(line) for line in lines]
    lost = acknowledged.keys() - read.keys()
    assert {f"{topic}-{partition}" for topic, partition, _ in lost} == {
        cut["file"].partition("/")[0] for cut in cuts
    }
    for cut in cuts:
        whole, torn = (logs / name / cut["file"] for name in ("killed", "torn"))
        assert torn.stat().st_size == cut["size"] < cut["sizeBefore"] == whole.stat().st_size
        assert torn.read_bytes() == whole.read_bytes()[: cut["size"]]
        partition = cut["file"].partition("/")[0].rpartition("-")
        state = states(logs, "torn_read")[partition[0], int(partition[2])]
        assert state.end_offset < 1 + max(
            offset for topic, _, offset in acknowledged if topic == partition[0]
        )
    epochs = [header.partition_leader_epoch for header in headers(logs, "plain", "killed")]
    assert len(set(epochs)) > 1  # Each start of the broker begins a new one, or two.


def test_the_command_says_where_they_are_and_spares_a_directory(logs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraftspec.conformance.making.logs"]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == str(logs)
    (tmp_path / "precious").touch()
    refused = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_line_that_is_no_record_is_named(logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    shutil.copy(logs / "sent_more.jsonl", path)
    with path.open("a") as file:
        file.write('{"topic": "plain"}\n')
    with pytest.raises(ValueError, match=r"sent\.jsonl:901: .*partition"):
        list(records(path))
