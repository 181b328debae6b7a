"""A quorum of ours alone, operated by Apache Kafka's tools and observed by its servers.

It is the one of ``kraftspec quorum up``, in a process of its own.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reference.kafka_tools import KafkaTools
from tests.waiting import until

from kraftspec.conformance.cluster import Cluster, Node
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.admin import AdminClient, QuorumInfo
from kraftspec.reference.log import LocalFiles, MetadataLog
from kraftspec.reference.log.directory import META_NAME, METADATA_NAME, MetaProperties

pytestmark = pytest.mark.kafka

VOTERS = {101, 102, 103}
OBSERVER = 104
PATIENCE_S = 180.0  # Servers of Kafka's start on a loaded machine.
READ_BYTES = 1 << 30


class Ours:
    """``kraftspec quorum up --json``, and the events that it prints."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "kraftspec", "quorum", "up", "--json"]
        command += ["--directory", str(directory), "--port", str(free_port(set()))]
        command += ["--rate", "20", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.events.extend(map(json.loads, lines))

    def first(self, event: str) -> dict[str, Any]:
        """Wait for the first event of a name."""

        def found() -> dict[str, Any] | None:
            return next((it for it in self.events if it["event"] == event), None)

        until(lambda: found() is not None or self.process.poll() is not None)
        told = found()
        assert told is not None, f"there is no {event}: {self.events[-3:]}"
        return told

    def stop(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(PATIENCE_S)

    @property
    def bootstrap(self) -> str:
        addresses: str = self.first("up")["bootstrapController"]
        return addresses

    def asked(self) -> QuorumInfo:
        with AdminClient(self.bootstrap, to_controllers=True) as admin:
            return admin.describe_quorum()

    def properties(self, node_id: int) -> str:
        return str(self.directory / str(node_id) / "node.properties")

    def log_dir(self, node_id: int) -> Path:
        return self.directory / str(node_id) / "log"

    def directory_id(self, node_id: int) -> Uuid:
        path = self.log_dir(node_id) / META_NAME
        return MetaProperties.parse(path.read_bytes(), str(path)).directory_id


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    directory = tmp_path_factory.mktemp("ours")
    running = Ours(directory, "--observers", "1", "--first-id", "101")
    try:
        running.first("leader")
        until(lambda: OBSERVER in caught_up(running))
        yield running
    finally:
        running.stop()


def test_status(ours: Ours, kafka: KafkaTools) -> None:
    until(lambda: OBSERVER in caught_up(ours))  # A new leader has yet to hear of it.
    told = kafka.quorum("--bootstrap-controller", ours.bootstrap, "describe", "--status")
    assert (told.code, told.err) == (0, "")
    lines = dict(re.split(": +", line, maxsplit=1) for line in told.out.splitlines())
    mine = ours.asked()
    assert lines["ClusterId"] == ours.first("up")["clusterId"]
    assert lines["LeaderId"] == str(mine.leader_id)
    assert lines["LeaderEpoch"] == str(mine.leader_epoch)
    assert 0 < int(lines["HighWatermark"]) <= mine.high_watermark
    voters = json.loads(lines["CurrentVoters"])
    addresses = ours.bootstrap.split(",")
    assert voters == [
        {
            "id": node_id,
            "directoryId": str(ours.directory_id(node_id)),
            "endpoints": [f"CONTROLLER://{address}"],
        }
        for node_id, address in zip(sorted(VOTERS), addresses, strict=True)
    ]
    assert [observer["id"] for observer in json.loads(lines["CurrentObservers"])] == [OBSERVER]


@pytest.mark.parametrize("form", [[], ["--human-readable"]])
def test_replication(ours: Ours, kafka: KafkaTools, form: list[str]) -> None:
    where = ["--bootstrap-controller", ours.bootstrap]
    until(lambda: OBSERVER in caught_up(ours))
    told = kafka.quorum(*where, "describe", "--replication", *form)
    assert (told.code, told.err) == (0, "")
    head, *rows = [re.split(r" *\t", line) for line in told.out.splitlines()]
    assert head[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert [row[6] for row in rows] == ["Leader", "Follower", "Follower", "Observer"]
    assert {int(row[0]) for row in rows[:3]} == VOTERS
    assert all(row[1] == str(ours.directory_id(int(row[0]))) for row in rows)
    now_ms = time.time() * 1000
    for row in rows:
        for cell in row[4:6]:
            ago_ms = int(cell.removesuffix(" ms ago"))
            assert abs(ago_ms if form else now_ms - ago_ms) < PATIENCE_S * 1000


def test_the_admin_client(ours: Ours, kafka: KafkaTools) -> None:
    """Java's own, from a bootstrap of one node: who leads, all nodes, the quorum, features."""
    until(lambda: OBSERVER in caught_up(ours))
    report = kafka.admin(ours.bootstrap.split(",")[1])
    mine = ours.asked()
    assert report["clusterId"] == ours.first("up")["clusterId"]
    assert report["controllerId"] == report["leaderId"] == mine.leader_id
    assert report["leaderEpoch"] == mine.leader_epoch
    assert report["highWatermark"] <= mine.high_watermark
    assert set(VOTERS) <= {int(node_id) for node_id in report["nodes"]}
    assert set(ours.bootstrap.split(",")) <= set(report["nodes"].values())
    assert report["voters"] == {
        str(node_id): str(ours.directory_id(node_id)) for node_id in sorted(VOTERS)
    }
    assert report["observers"] == len(mine.observers)
    assert report["supported"]["kraft.version"] == "0 to 1"


def voters_of(ours: Ours) -> set[int]:
    return {voter.id for voter in ours.asked().voters}


def caught_up(ours: Ours) -> set[int]:
    """The observers that have had all there was: others are not added (KIP-853)."""
    return {one.id for one in ours.asked().observers if one.last_caught_up_ms >= 0}


def remove(ours: Ours, kafka: KafkaTools, node_id: int) -> None:
    directory_id = str(ours.directory_id(node_id))
    arguments = ["remove-controller", "-i", str(node_id), "-d", directory_id]
    told = kafka.quorum("--bootstrap-controller", ours.bootstrap, *arguments)
    assert (told.code, told.err) == (0, "")
    expected = f"Removed KRaft controller {node_id} with directory id {directory_id}"
    assert told.out == expected + "\n"


def add(ours: Ours, kafka: KafkaTools, node_id: int) -> None:
    until(lambda: node_id in caught_up(ours))
    config = ["--command-config", ours.properties(node_id)]
    told = kafka.quorum("--bootstrap-controller", ours.bootstrap, *config, "add-controller")
    assert (told.code, told.err) == (0, "")
    expected = f"Added controller {node_id} with directory id {ours.directory_id(node_id)} and "
    assert told.out.startswith(expected)


def test_a_controller_is_added_and_removed(ours: Ours, kafka: KafkaTools) -> None:
    add(ours, kafka, OBSERVER)
    assert voters_of(ours) == VOTERS | {OBSERVER}
    again = ["--command-config", ours.properties(OBSERVER), "add-controller"]
    refused = kafka.quorum("--bootstrap-controller", ours.bootstrap, *again)
    assert refused.code == 1
    assert "DuplicateVoterException" in refused.err
    remove(ours, kafka, OBSERVER)
    assert voters_of(ours) == VOTERS
    nobody = ["remove-controller", "-i", str(OBSERVER), "-d", str(ours.directory_id(OBSERVER))]
    refused = kafka.quorum("--bootstrap-controller", ours.bootstrap, *nobody)
    assert refused.code == 1
    assert "VoterNotFoundException" in refused.err


def test_the_leader_is_removed_and_comes_back(ours: Ours, kafka: KafkaTools) -> None:
    """It hands over, another leads, and the tool is answered all the same."""
    leader_id = ours.asked().leader_id
    remove(ours, kafka, leader_id)
    until(lambda: ours.asked().leader_id != leader_id)
    after = ours.asked()
    assert {voter.id for voter in after.voters} == VOTERS - {leader_id}
    # It fetches as an observer, and once it has all there is it can be added once more.
    add(ours, kafka, leader_id)
    assert voters_of(ours) == VOTERS


@pytest.fixture(scope="module")
def servers(ours: Ours, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """A controller and a broker of Kafka's own that look for their quorum at ours."""
    where = {"controller.quorum.bootstrap.servers": ours.bootstrap}
    cluster = Cluster(
        tmp_path_factory.mktemp("servers"),
        controllers=0,
        brokers=0,
        controller_properties=where,
        broker_properties=where,
    )
    cluster.cluster_id = ours.first("up")["clusterId"]
    with cluster:
        nodes = [
            cluster.add_node("controller", start=False),
            cluster.add_node("broker", start=False),
        ]
        for node in nodes:
            node.start()
        yield nodes


def said(node: Node, words: str) -> bool:
    return words in node.log_path.read_text("utf-8", errors="replace")


def test_kafka_servers_observe(ours: Ours, servers: list[Node]) -> None:
    """Both follow to the leader's end, with its bytes, and go on doing so.

    Then the controller wants to register with the active controller and the broker likewise; that
    is a Kafka controller's business, and a leader of ours answers that it is none.
    """

    def caught_up() -> bool:
        ends = {observer.id: observer.log_end_offset for observer in ours.asked().observers}
        return all(ends.get(node.id, -1) >= target for node in servers)

    for _ in range(2):  # And again, at an offset that there was not before.
        target = ours.asked().high_watermark
        assert target > 0
        until(caught_up)
    controller, broker = servers
    until(lambda: said(controller, "attempting to send ControllerRegistrationRequestData"))
    until(lambda: said(broker, "Unable to register the broker"))
    assert all(node.running() for node in servers)
    theirs = (controller.metadata_log / "00000000000000000000.log").read_bytes()
    mine = (ours.log_dir(101) / METADATA_NAME / "00000000000000000000.log").read_bytes()
    end = next(header.end for header in iterate_headers(theirs) if header.last_offset + 1 >= target)
    assert theirs[:end] == mine[:end]


def test_a_kafka_controller_becomes_a_voter_of_ours(
    ours: Ours, kafka: KafkaTools, servers: list[Node]
) -> None:
    """Added and removed by Kafka's tool; meanwhile what is committed needs a majority with it."""
    controller, _ = servers
    where = ["--bootstrap-controller", ours.bootstrap]
    config = ["--command-config", str(controller.properties_path)]
    until(lambda: controller.id in caught_up(ours))
    added = kafka.quorum(*where, *config, "add-controller")
    assert (added.code, added.err) == (0, "")
    quorum = ours.asked()
    assert {voter.id for voter in quorum.voters} == VOTERS | {controller.id}
    until(lambda: ours.asked().high_watermark > quorum.high_watermark)
    meta = (controller.metadata_log.parent / META_NAME).read_bytes()
    directory_id = str(MetaProperties.parse(meta, META_NAME).directory_id)
    removed = kafka.quorum(
        *where, "remove-controller", "-i", str(controller.id), "-d", directory_id
    )
    assert (removed.code, removed.err) == (0, "")
    assert voters_of(ours) == VOTERS
    assert controller.running()


def test_dump_log_reads_what_a_stopped_quorum_leaves(kafka: KafkaTools, tmp_path: Path) -> None:
    """Every batch is valid, offsets have no gap, the records are those that were appended."""
    running = Ours(tmp_path, "--first-id", "201")
    running.first("leader")
    until(lambda: running.asked().high_watermark > 40)
    assert running.stop() == 0
    summary = running.first("summary")
    assert summary["acknowledged"] > 0
    logs = [read_log(running.log_dir(node_id) / METADATA_NAME) for node_id in (201, 202, 203)]
    longest = max(logs, key=len)
    assert all(longest.startswith(log) for log in logs)
    counts = []
    for node_id in (201, 202, 203):
        segment = running.log_dir(node_id) / METADATA_NAME / "00000000000000000000.log"
        dumped = kafka.dump("--cluster-metadata-decoder", "--files", str(segment))
        assert "invalid bytes" not in dumped
        offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
        assert offsets == list(range(len(offsets)))
        batches = re.findall(r"^baseOffset: .* isvalid: (\w+)", dumped, re.MULTILINE)
        assert batches
        assert set(batches) == {"true"}
        assert (
            '"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version"' in dumped
        )
        counts.append(dumped.count('"type":"NO_OP_RECORD"'))
        assert "LeaderChange: " in dumped
    assert sorted(counts)[1] >= summary["acknowledged"] - 1  # A majority has them.


def test_what_was_stopped_is_started_again(tmp_path: Path) -> None:
    running = Ours(tmp_path, "--nodes", "1")
    running.first("leader")
    first = running.first("up")
    before = running.asked()
    assert running.stop() == 0
    again = Ours(tmp_path)
    try:
        again.first("leader")
        assert {key: again.first("up")[key] for key in first} == first
        after = again.asked()
        assert after.leader_epoch > before.leader_epoch
        assert after.high_watermark > before.high_watermark
    finally:
        assert again.stop() == 0


def read_log(directory: Path) -> bytes:
    log = MetadataLog.open(str(directory), LocalFiles())
    try:
        return log.read(0, READ_BYTES)
    finally:
        log.close()
