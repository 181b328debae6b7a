"""A short fault campaign on a mixed quorum; and that what judges one can fail."""

from __future__ import annotations

import re
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kraftspec.generated import kafka
from kraftspec.generated.kafka import LeaderChangeMessage, SnapshotHeaderRecord
from kraftspec.interop.campaign import Campaign
from kraftspec.interop.logs import LogsDifferError, compare_logs, judge_logs
from kraftspec.interop.network import Network
from kraftspec.interop.snapshots import SnapshotsDifferError, judge_snapshots
from kraftspec.reference.log import LogConfig
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.log.metadata_log import MetadataLog
from kraftspec.reference.log.snapshots import checkpoint_bytes, snapshot_name
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.raft.types import SnapshotId

CYCLES = 5


@pytest.mark.kafka
def test_a_mixed_quorum_loses_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    with Campaign(tmp_path, kafka=2, ours=1, seed=20_261_121, progress=lines.append) as campaign:
        outcome = campaign.run(CYCLES)
    assert len(outcome.cycles) == len(lines) == CYCLES
    assert outcome.acknowledged > 2 * CYCLES
    # Three logs, each against each; there is a batch for nearly every change.
    assert outcome.batches_compared > 3 * outcome.acknowledged // 2
    # Kafka's controllers wrote some, held against ours; and ours did, held against Kafka's.
    assert outcome.snapshots_compared >= 3
    assert outcome.epochs > 1
    assert outcome.summary()["faults_on_the_leader"] > 0
    assert outcome.summary()["faults_on_ours"] >= CYCLES / 2


# ---- what judges --------------------------------------------------------------------------------


def test_a_snapshot_that_lost_a_record_is_found(tmp_path: Path) -> None:
    feature = kafka.FeatureLevelRecord(name="metadata.version", feature_level=30)
    config = kafka.ConfigRecord(resource_type=4, resource_name="", name="a", value="b")
    values = [write_frame(feature, 0), write_frame(config, 0)]
    logs = [write_log(tmp_path / str(number), values) for number in (1, 2)]
    header = [control_value(SnapshotHeaderRecord())]
    good = checkpoint_bytes(header, values, timestamp_ms=0)
    path = logs[1] / snapshot_name(SnapshotId(3, 1))
    path.write_bytes(good)
    assert judge_snapshots(logs, 3) == 1
    assert judge_snapshots(logs, 2) == 0
    path.write_bytes(checkpoint_bytes(header, values[:1], timestamp_ms=0))
    with pytest.raises(SnapshotsDifferError, match=r"is not what .*/1 adds up to there"):
        judge_snapshots(logs, 3)
    # Of a log that begins later, with a snapshot of its own, nothing is known there.
    for segment in logs[0].glob(f"{0:020d}.*"):
        segment.rename(segment.with_stem(f"{4:020d}"))
    (logs[0] / snapshot_name(SnapshotId(4, 1))).write_bytes(good)
    assert judge_snapshots(logs, 3) == 0


def write_log(directory: Path, values: list[bytes], leader_id: int = 1) -> Path:
    log = MetadataLog.open(str(directory), LocalFiles(), LogConfig())
    change = control_value(LeaderChangeMessage(leader_id=leader_id))
    log.append_control(1, [change], 1_000)
    for value in values:
        log.append_records(1, [value], 1_000)
    log.close()
    return directory


@pytest.fixture
def logs(tmp_path: Path) -> dict[int, Path]:
    first = write_log(tmp_path / "1", [b"one", b"two", b"three"])
    return {1: first, **{n: Path(shutil.copytree(first, tmp_path / str(n))) for n in (2, 3)}}


def test_equal_logs_are_equal(logs: dict[int, Path]) -> None:
    assert compare_logs(logs[1], logs[2], 4) == 4
    assert judge_logs(logs, 4, [b"one", b"three"]) == (12, {1: 1})


def test_a_byte_that_differs_is_found_before_the_high_watermark_only(
    tmp_path: Path, logs: dict[int, Path]
) -> None:
    logs[3] = write_log(tmp_path / "other", [b"one", b"two", b"THREE"])
    assert judge_logs(logs, 3, [])[0] == 9
    with pytest.raises(LogsDifferError, match=r"the batches at 3 of .* differ"):
        judge_logs(logs, 4, [])


def test_a_batch_that_is_missing_is_found(tmp_path: Path, logs: dict[int, Path]) -> None:
    logs[2] = write_log(tmp_path / "short", [b"one", b"two"])
    with pytest.raises(LogsDifferError, match=r"/short has no batch at 3"):
        judge_logs(logs, 4, [])


def test_a_change_that_is_lost_everywhere_is_found(logs: dict[int, Path]) -> None:
    with pytest.raises(LogsDifferError, match=re.escape("not in the log of node 1: [b'four']")):
        judge_logs(logs, 4, [b"one", b"four"])


def test_two_leaders_of_an_epoch_are_found(tmp_path: Path, logs: dict[int, Path]) -> None:
    logs[3] = write_log(tmp_path / "usurper", [b"one"], leader_id=2)
    with pytest.raises(LogsDifferError, match="epoch 1 was led by 1 and by 2"):
        judge_logs(logs, 0, [])


# ---- the network --------------------------------------------------------------------------------


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that sends back what it gets, to one connection after another."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(1000):
                    connection.sendall(data)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        serving.join(30)


def hello(node_id: int) -> bytes:
    """The beginning of a request, as far as its client id."""
    name = b"raft-client-%d" % node_id
    return struct.pack(">ihhih", 99, 18, 4, 1, len(name)) + name


def test_the_network_closes_a_connection_that_it_has_just_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for _ in range(100):
            with ExitStack() as opened:
                with Network() as network:
                    address = ("127.0.0.1", network.open(1, listening.getsockname()[1]))
                    clients = [
                        opened.enter_context(socket.create_connection(address, 10))
                        for _ in range(5)
                    ]
                for client in clients:
                    with suppress(ConnectionResetError):
                        assert client.recv(1) == b""


def test_what_is_cut_is_held_back_until_it_is_healed(echo: int) -> None:
    with Network() as network:
        port = network.open(7, echo)
        with (
            socket.create_connection(("127.0.0.1", port), 30) as first,
            socket.create_connection(("127.0.0.1", port), 30) as second,
        ):
            for connection, node_id in ((first, 8), (second, 9)):
                connection.sendall(hello(node_id))
                assert connection.recv(1000) == hello(node_id)
            network.cut([(8, 7)])
            first.sendall(b"held back")
            second.sendall(b"passes")
            assert second.recv(1000) == b"passes"
            first.settimeout(0.3)
            with pytest.raises(TimeoutError):
                first.recv(1000)
            first.settimeout(30)
            network.heal()
            assert first.recv(1000) == b"held back"
