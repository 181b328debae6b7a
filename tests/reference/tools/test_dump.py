"""Dumping without Kafka: damage, JSON, the small files, and following a log that is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.kafka_tools import Said, ours

from kraftspec.fastpath import walk as walk_module
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.generated.kafka import (
    FeatureLevelRecord,
    LeaderChangeMessage,
    QuorumStateData,
    TopicRecord,
)
from kraftspec.reference.log import LocalFiles, LogConfig, LogDirectory, MetadataLog, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.tools.dump import Dump, DumpRequest
from kraftspec.reference.tools.dump_batches import BatchWalk
from kraftspec.reference.tools.dump_follow import LogFollower
from kraftspec.reference.tools.dump_lines import DumpOptions

SEGMENT = f"{0:020d}.log"
TIMEOUT_S = 180.0
SMALL = LogConfig(segment_bytes=4_096)


def topic(number: int) -> bytes:
    record = TopicRecord(name=f"topic-{number}")
    return bytes([1, 2, 0]) + record.encode(0)


def batch(offset: int, count: int = 2) -> bytes:
    values = [topic(offset + at) for at in range(count)]
    return encode_batch(values, timestamps=5, base_offset=offset, partition_leader_epoch=1)


def rows(done: Said) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def dumped(path: Path) -> list[dict[str, Any]]:
    return rows(ours("dump-log", "--json", "--cluster-metadata-decoder", str(path)))


def test_json_says_what_the_lines_say(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    control = encode_batch(
        [LeaderChangeMessage(leader_id=3).encode(0)], keys=[b"\0\0\0\2"], timestamps=5,
        control=True, base_offset=2,
    )  # fmt: skip
    path.write_bytes(batch(0) + control)
    first, record, _, second, change = dumped(path)
    assert (first["kind"], first["position"], first["count"]) == ("batch", 0, 2)
    assert first["isValid"] is True
    assert record == {
        "kind": "record", "offset": 0, "timestamp": 5, "keySize": -1, "valueSize": len(topic(0)),
        "sequence": -1, "headerKeys": [],
        "payload": {
            "type": "TOPIC_RECORD", "version": 0,
            "data": {"name": "topic-0", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"},
        },
    }  # fmt: skip
    assert second["isControl"] is True
    assert change["controlType"] == "LEADER_CHANGE"
    assert change["payload"]["leaderId"] == 3
    full = rows(ours("dump-log", "--json", "--print-data-log", str(path)))
    assert full[1]["key"] is None
    bare = rows(ours("dump-log", "--json", "--skip-record-metadata", "--print-data-log", str(path)))
    assert set(bare[1]) == {"kind", "offset", "key", "value"}


def damaged() -> dict[str, tuple[bytes, list[tuple[int, str]], list[int]]]:
    """Name → bytes, the place and class of each problem, the offsets of the batches shown."""
    one, two, three = batch(0), batch(2), batch(4)
    end = len(one) + len(two)
    flipped = bytearray(two)
    flipped[-3] ^= 1
    short = bytearray(two)
    short[8:12] = b"\0\0\0\5"
    long = bytearray(two)
    long[8:12] = b"\x7f\0\0\0"
    magic = bytearray(two)
    magic[16] = 9
    return {
        "nothing": (one + two + three, [], [0, 2, 4]),
        "crc": (one + flipped + three, [(len(one), "crc_mismatch")], [0, 2, 4]),
        "length too small": (
            one + short + three, [(len(one), "batch_length_mismatch")], [0, 4],
        ),
        "length too great": (one + long + three, [(len(one), "truncated")], [0, 4]),
        "magic": (one + magic + three, [(len(one), "bad_magic")], [0, 4]),
        "rubbish between": (one + b"rubbish" * 9 + three, [(len(one), "bad_magic")], [0, 4]),
        "torn": (one + two + three[:-9], [(end, "torn")], [0, 2]),
        "torn header": (one + two + three[:9], [(end, "torn")], [0, 2]),
        "rubbish behind": (one + two + b"\1" * 99, [(end, "torn")], [0, 2]),
        "zeros ahead": (one + two + bytes(999), [], [0, 2]),
        "zeros amid": (one + bytes(99) + three, [(len(one), "batch_length_mismatch")], [0, 4]),
    }  # fmt: skip


@pytest.mark.parametrize("name", damaged())
def test_damage_is_told_and_passed_over(name: str, tmp_path: Path) -> None:
    data, problems, offsets = damaged()[name]
    path = tmp_path / SEGMENT
    path.write_bytes(data)
    dumped_rows = dumped(path)
    told = [(row["position"], row["class"]) for row in dumped_rows if row["kind"] == "problem"]
    assert [place for place, _ in told] == [place for place, _ in problems]
    if "zeros amid" not in name and "rubbish" not in name:
        assert told == problems
    assert [row["baseOffset"] for row in dumped_rows if row["kind"] == "batch"] == offsets
    done = ours("dump-log", "--deep-iteration", str(path))
    assert done.code == (1 if problems else 0)
    for place, _ in problems:
        assert f"{path}: byte {place}: " in done.err
    assert ("zero bytes end" in done.out) == (name == "zeros ahead")


@pytest.mark.parametrize("name", damaged())
def test_small_windows_give_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches longer than a window, or cut by its end, and damage that a search goes on behind."""
    path = tmp_path / SEGMENT
    data, _, _ = damaged()[name]
    path.write_bytes(data + b"".join(batch(offset, 9) for offset in range(6, 600, 9)))
    expected = dumped(path)
    assert max(row.get("offset", 0) for row in expected) > 590
    for window in (70, 300, 1_000, 4_000):
        monkeypatch.setattr(walk_module, "WINDOW_BYTES", window)
        assert dumped(path) == expected
        if name == "nothing":
            offsets = [row["baseOffset"] for row in expected if row["kind"] == "batch"]
            assert Following(path).step() == offsets


def test_damage_longer_than_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(batch(0) + b"rubbish" * 2_000 + batch(2))
    monkeypatch.setattr(walk_module, "WINDOW_BYTES", 1_000)
    dumped_rows = dumped(path)
    assert [row["baseOffset"] for row in dumped_rows if row["kind"] == "batch"] == [0, 2]
    (problem,) = [row for row in dumped_rows if row["kind"] == "problem"]
    assert (problem["position"], problem["size"]) == (len(batch(0)), 14_000)


@given(data=st.binary(max_size=300), at=st.integers(0, 400), cut=st.integers(0, 400))
def test_any_bytes_are_dumped(
    data: bytes, at: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a file holds, it ends, tells, and every byte is in a batch or in a problem."""
    whole = batch(0) + batch(2) + batch(4)
    path = tmp_path_factory.mktemp("any") / SEGMENT
    path.write_bytes((whole[:at] + data + whole[at:])[: len(whole) + len(data) - cut])
    lines: list[bytes] = []
    for options in (DumpOptions(), DumpOptions(deep=True, metadata=True)):
        dump = Dump(DumpRequest(options=options), lines.append, lambda _: None)
        dump.file(str(path))
    with path.open("rb") as file:
        size = path.stat().st_size
        walk = BatchWalk("", file.fileno(), size=size)
        covered = sum(piece.header.size for piece in walk if piece.is_valid)
        covered += sum(problem.size for problem in walk.problems) + walk.zero_tail
    assert covered == size


@given(data=st.binary(max_size=200))
def test_any_small_file_is_dumped(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / SEGMENT).write_bytes(batch(0))
    for name in (
        f"{0:020d}.index", f"{0:020d}.timeindex", f"{0:020d}.txnindex", f"{0:020d}.snapshot",
        "leader-epoch-checkpoint", "quorum-state", "meta.properties", "partition.metadata",
        f"{1:020d}-{2:010d}.checkpoint",
    ):  # fmt: skip
        (directory / name).write_bytes(data)
        for as_json in (False, True):
            request = DumpRequest(as_json=as_json)
            Dump(request, lambda _: None, lambda _: None).file(str(directory / name))


def formatted(path: Path) -> LogDirectory:
    LogDirectory.format(str(path), MetaProperties(cluster_id="cluster", node_id=4))
    return LogDirectory.open(str(path))


def test_a_directory_that_is_open(tmp_path: Path) -> None:
    """A node has it locked: its files are dumped all the same."""
    with formatted(tmp_path / "data") as directory:
        directory.quorum_state.write(QuorumStateData(leader_id=4, leader_epoch=7), 1)
        log = directory.open_log(SMALL)
        log.append_control(7, [control_value(LeaderChangeMessage(leader_id=4))], 1_000)
        for number in range(200):
            log.append_records(7, [topic(number)], 1_000 + number)
        log.flush()
        done = ours("dump-log", "--cluster-metadata-decoder", str(tmp_path / "data"))
        log.close()
    assert done.code == 0, done.err
    assert "leaderId: 4 leaderEpoch: 7" in done.out
    assert "epoch: 7 startOffset: 0" in done.out
    assert "cluster.id=cluster" in done.out
    assert "topic_id: AAAAAAAAAAAAAAAAAAAAAQ" in done.out
    assert done.out.count('"type":"TOPIC_RECORD"') == 200
    assert "zero bytes end" in done.out


class Following:
    """A follower and what it showed: offsets of batches, and what it warned of."""

    def __init__(self, path: Path) -> None:
        self.lines: list[bytes] = []
        self.warnings: list[str] = []
        request = DumpRequest(as_json=True)
        dump = Dump(request, self.lines.append, self.warnings.append)
        self.follower = LogFollower(path, dump)

    def step(self) -> list[int]:
        self.lines.clear()
        self.follower.step()
        dumped_rows = [json.loads(line) for lines in self.lines for line in lines.splitlines()]
        return [row["baseOffset"] for row in dumped_rows if row["kind"] == "batch"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MetadataLog]:
    opened = MetadataLog.open(str(tmp_path), LocalFiles(), SMALL)
    yield opened
    opened.close()


def test_follow_shows_what_is_appended(log: MetadataLog, tmp_path: Path) -> None:
    log.append_records(1, [topic(0), topic(1)], 1)
    following = Following(tmp_path)
    assert following.step() == [0]
    assert following.step() == []
    log.append_records(1, [topic(2)], 1)
    log.append_records(1, [topic(3)], 1)
    assert following.step() == [2, 3]
    log.flush()
    assert following.step() == []


def test_follow_goes_on_in_the_next_segment(log: MetadataLog, tmp_path: Path) -> None:
    following = Following(tmp_path)
    shown = []
    for number in range(300):
        log.append_records(1, [topic(number)], 1)
        if number % 7 == 0:
            shown += following.step()
    shown += following.step()
    assert shown == list(range(300))
    assert len(list(tmp_path.glob("*.log"))) > 3
    assert following.follower.path.name == sorted(path.name for path in tmp_path.glob("*.log"))[-1]


def test_follow_says_that_the_log_was_cut(log: MetadataLog, tmp_path: Path) -> None:
    for number in range(6):
        log.append_records(1, [topic(number)], 1)
    following = Following(tmp_path)
    assert following.step() == list(range(6))
    log.truncate_to(3)
    log.append_records(2, [topic(100), topic(101)], 2)
    assert following.step() == [3]
    assert len(following.warnings) == 1
    assert "cut back to byte" in following.warnings[0]


def test_follow_waits_for_a_batch_that_is_half_there(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    data = batch(0) + batch(2)
    path.write_bytes(data[:-40])
    following = Following(path)
    assert following.step() == [0]
    path.write_bytes(data[:-40] + bytes(40))
    assert following.step() == []
    path.write_bytes(data)
    assert following.step() == [2]


def test_follow_passes_over_damage_in_a_segment_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(batch(0) + b"rubbish" * 9 + batch(2))
    following = Following(path)
    assert following.step() == [0]
    (tmp_path / f"{4:020d}.log").write_bytes(batch(4))
    assert following.step() == [2, 4]
    assert following.follower._dump.problems == 1


def test_what_a_live_node_writes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zeros that were read are a batch by the time that the rest is looked at."""
    path = tmp_path / SEGMENT
    path.write_bytes(batch(0) + bytes(4_096))
    read, reads = os.pread, 0

    def pread(descriptor: int, size: int, position: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 3:  # After both batches of the window, and the zeros behind.
            with path.open("r+b") as file:
                file.seek(len(batch(0)))
                file.write(batch(2))
        return read(descriptor, size, position)

    monkeypatch.setattr(os, "pread", pread)
    with path.open("rb") as file:
        walk = BatchWalk("", file.fileno(), size=path.stat().st_size)
        offsets = [piece.header.base_offset for piece in walk]
    assert (offsets, walk.problems, walk.invalid_tail) == ([0, 2], [], 0)
    assert walk.zero_tail == 4_096 - len(batch(2))


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for path in (tmp_path / "x", tmp_path / "bootstrap.checkpoint", tmp_path / SEGMENT):
        done = ours("dump-log", "--follow", str(path))
        assert done.code == 1
        assert str(path) in done.err
    assert ours("dump-log", "-f", "a", "b").code == 1


def test_follow_as_a_command(log: MetadataLog, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraftspec", "dump-log", "-f", str(tmp_path)]
    log.append_records(1, [topic(0)], 1)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        for number in range(1, 4):
            log.append_records(1, [topic(number)], 1)
            wait_for(process.stdout, f"baseOffset: {number} ")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()


def wait_for(stream: Any, text: str) -> None:
    output = b""
    deadline = time.monotonic() + TIMEOUT_S
    while text.encode() not in output:
        assert time.monotonic() < deadline, output
        output += stream.read() or b""
        time.sleep(0.05)


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(b"".join(batch(offset, 100) for offset in range(0, 20_000, 100)))
    command = [sys.executable, "-m", "kraftspec", "dump-log", "--cluster-metadata-decoder"]
    process = subprocess.Popen(
        [*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"Dumping ")
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(TIMEOUT_S) in (0, 1, 120)
    assert b"Traceback" not in errors


def test_java_options_are_taken(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    value = bytes([1, 12, 0]) + FeatureLevelRecord(name="x").encode(0)
    path.write_bytes(encode_batch([value], keys=[b"key"], timestamps=1))
    arguments = ("--key-decoder-class", "--value-decoder-class", "a.b.Decoder")
    done = ours("dump-log", *arguments, "--max-message-size", "9", "--files", str(path))
    assert done.code == 0
    assert done.err.count("is a Java class") == 2
    assert " key: key payload: " in done.out


def test_the_stored_vote_at_both_versions(tmp_path: Path) -> None:
    file = QuorumStateFile(LocalFiles(), str(tmp_path))
    for version in (0, 1):
        file.write(QuorumStateData(leader_id=1, leader_epoch=2, voted_id=-1), version)
        state = rows(ours("dump-log", "--json", file.path))
        assert state[0]["data_version"] == version
        assert state[0]["leaderEpoch"] == 2
    Path(file.path).write_text("{", "utf-8")
    assert ours("dump-log", file.path).code == 1
