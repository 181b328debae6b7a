"""Nodes of ours as processes in a real Kafka quorum, and what is asked of both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kraftspec.conformance.cluster import Cluster, ask
from kraftspec.conformance.cluster import Node as KafkaNode
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import LOG_OVERHEAD_BYTES, RECORDS_AT
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    LeaderChangeMessage,
)
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_type_of
from kraftspec.reference.log.properties import parse_properties

WAIT_S = 90.0  # What a loaded machine may need; waits end as soon as they may.
POLL_S = 0.05
STOP_S = 30.0
LEADER_CHANGE = 2
BROKER_RESOURCE = 4
METADATA = "__cluster_metadata-0"

Replica = DescribeQuorumResponse.ReplicaState


def wait_until(what: str, condition: Callable[[], bool], poll_s: float = POLL_S) -> None:
    """Look until something is so; AssertionError with ``what`` where it is not in time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not so after {WAIT_S:g} s"
        time.sleep(poll_s)


class Ours:
    """A node of ours: its properties, its directory, its process."""

    def __init__(
        self,
        cluster: Cluster,
        home: Path,
        node_id: int,
        *,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.cluster = cluster
        self.id = node_id
        self.home = home
        self.port = port or free_port(cluster._ports)
        self.options = options
        self.log_dir = home / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.properties: dict[str, str] = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(self.log_dir),
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "advertised.listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": cluster.controller_bootstrap(),
            **(properties or {}),
        }
        home.mkdir(parents=True)
        self.write_properties()

    def write_properties(self, **changes: str) -> None:
        """Write its properties; in names of ``changes``, ``__`` stands for a dot."""
        self.properties |= {key.replace("__", "."): value for key, value in changes.items()}
        lines = [f"{key}={value}\n" for key, value in self.properties.items()]
        self.properties_path.write_text("".join(lines))

    @property
    def properties_path(self) -> Path:
        return self.home / "node.properties"

    @property
    def output_path(self) -> Path:
        return self.home / "node.log"

    @property
    def metadata_log(self) -> Path:
        return self.log_dir / METADATA

    @property
    def directory_id(self) -> str:
        text = (self.log_dir / "meta.properties").read_text()
        return parse_properties(text)["directory.id"]

    def format(self) -> None:
        """Format the directory under a new directory id, as a node that joins later."""
        meta = MetaProperties(
            cluster_id=self.cluster.cluster_id,
            node_id=self.id,
            directory_id=Uuid(os.urandom(16)),
        )
        LogDirectory.format(str(self.log_dir), meta)

    def start(self) -> None:
        assert not self.running()
        command = [sys.executable, "-m", "kraftspec", "node", "-c", str(self.properties_path)]
        with self.output_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self.cluster._guard.process_group if self.cluster._guard else None,
            )

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """End it by SIGTERM: it must leave in good order."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(STOP_S) == 0, self.output()

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_S)

    def wipe(self) -> None:
        """Lose the disk."""
        assert not self.running()
        shutil.rmtree(self.log_dir)

    def output(self) -> str:
        return self.output_path.read_text(errors="replace")[-4000:]

    def quorum_state(self) -> dict[str, int | str]:
        """What its quorum-state file says; empty before there is one."""
        path = self.metadata_log / "quorum-state"
        found: dict[str, int | str] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def add(self) -> None:
        """Let Kafka's own tool make it a voter."""
        self._quorum_tool("add-controller", config=True)

    def remove(self, directory_id: str | None = None) -> None:
        """Let Kafka's own tool remove it from the voters."""
        self._quorum_tool(
            "remove-controller", "-i", str(self.id), "-d", directory_id or self.directory_id
        )

    def _quorum_tool(self, *arguments: str, config: bool = False) -> None:
        options = ["--bootstrap-controller", self.cluster.controller_bootstrap()]
        if config:
            options += ["--command-config", str(self.properties_path)]
        self.cluster.tool("org.apache.kafka.tools.MetadataQuorumCommand", *options, *arguments)

    # ---- what the quorum's leader says of it ---------------------------------------------------

    def replica(self) -> Replica | None:
        """What the leader, a Kafka controller, knows of this directory; None if nothing."""
        said = describe(self.cluster)
        if said is None:
            return None
        for replica in [*said.current_voters, *said.observers]:
            if replica.replica_id == self.id and str(replica.replica_directory_id) in (
                self.directory_id,
                "AAAAAAAAAAAAAAAAAAAAAA",
            ):
                return replica
        return None

    def is_voter(self) -> bool:
        said = describe(self.cluster)
        return said is not None and (self.id, self.directory_id) in {
            (voter.replica_id, str(voter.replica_directory_id)) for voter in said.current_voters
        }

    def wait_caught_up(self) -> None:
        """Wait until the leader has heard that it has everything there was when this began."""
        end_offset = -1

        def is_caught_up() -> bool:
            nonlocal end_offset
            assert self.running(), self.output()
            said, replica = describe(self.cluster), self.replica()
            if said is None or replica is None:
                return False
            if end_offset < 0:
                end_offset = said.high_watermark
            return 0 <= end_offset <= replica.log_end_offset

        wait_until(f"node {self.id} has caught up", is_caught_up)

    def wait_voter(self) -> None:
        wait_until(f"node {self.id} is a voter", self.is_voter)


def describe(cluster: Cluster) -> DescribeQuorumResponse.PartitionData | None:
    """What the leader says of the quorum, where a live Kafka controller leads it."""
    for node in cluster.controllers:
        if node.running():
            said = cluster.quorum_of(node)
            if said is not None:
                return said
    return None


def describe_by(ours: Ours) -> DescribeQuorumResponse.PartitionData | None:
    """What our node says of the quorum, where it leads it."""
    partitions = [DescribeQuorumRequest.PartitionData(partition_index=0)]
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=partitions)
    try:
        said = ask(ours.port, DescribeQuorumRequest(topics=[topic]), 2, DescribeQuorumResponse)
    except OSError:
        return None
    partition = said.topics[0].partitions[0]
    return partition if partition.error_code == 0 else None


def set_configs(cluster: Cluster, count: int, size: int = 200) -> None:
    """Let the active controller write ``count`` records, by IncrementalAlterConfigs."""
    kind = IncrementalAlterConfigsRequest
    done = 0

    def set_one() -> bool:
        nonlocal done
        config = kind.AlterableConfig(
            name=f"kraftspec.{done % 10}", config_operation=0, value=f"{done}:".ljust(size, "x")
        )
        resource = kind.AlterConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
        )
        try:
            port = cluster.leader().listener().port
            said = ask(port, kind(resources=[resource]), 1, IncrementalAlterConfigsResponse)
        except (OSError, CodecError):
            return False
        done += said.responses[0].error_code == 0
        return done == count

    wait_until(f"{count} configs are set", set_one, poll_s=0.0)


# ---- logs -----------------------------------------------------------------------------------


class LogBatch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    is_control: bool
    data: bytes


def batches_of(directory: Path) -> Iterator[LogBatch]:
    """Yield the whole batches of a metadata log, by its files alone; it may be written to."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        at = 0
        while at + RECORDS_AT <= len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big")
            end = at + LOG_OVERHEAD_BYTES + size
            if size == 0 or end > len(data):
                break  # What is written ahead, or is being written.
            try:
                header = read_header(data, at)
            except CodecError:
                break
            yield LogBatch(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.is_control,
                data[at:end],
            )
            at = end


def assert_same_log(kafka: KafkaNode, ours: Ours, end_offset: int) -> int:
    """Compare two logs batch by batch, as far as both have them, up to ``end_offset``.

    Returns how many batches were compared: what a snapshot stands for is in neither.
    """
    theirs = {batch.base_offset: batch for batch in batches_of(kafka.metadata_log)}
    own = {batch.base_offset: batch for batch in batches_of(ours.metadata_log)}
    start = max(min(theirs, default=0), min(own, default=0))
    compared = 0
    offset = start
    while offset < end_offset:
        assert offset in theirs, f"Kafka's log has no batch at {offset} (from {start})"
        assert offset in own, f"our log has no batch at {offset} (from {start} to {end_offset})"
        assert own[offset].data == theirs[offset].data, f"the batches at {offset} differ"
        offset = own[offset].last_offset + 1
        compared += 1
    return compared


def assert_agrees(cluster: Cluster, ours: Ours) -> None:
    """Hold our log against that of every live Kafka controller, up to the high watermark."""
    ours.wait_caught_up()
    said = describe(cluster)
    while said is None:
        said = describe(cluster)
    leader = cluster.leader()
    replica = ours.replica()
    assert replica is not None
    end_offset = min(said.high_watermark, replica.log_end_offset)
    assert assert_same_log(leader, ours, end_offset) > 0


def leaders_of(directory: Path) -> dict[int, int]:
    """Return who led each epoch, as the LeaderChange records of a log say."""
    found = {}
    for batch in batches_of(directory):
        if batch.is_control:
            for record in decode_batch(batch.data, 0):
                if control_type_of(record) == LEADER_CHANGE and record.value is not None:
                    change = LeaderChangeMessage.decode(bytes(record.value), 0)
                    found[batch.epoch] = change.leader_id
    return found


def dump(cluster: Cluster, *paths: Path) -> str:
    """What Kafka's DumpLogSegments prints of log files; it must find every batch valid."""
    done = cluster.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        ",".join(map(str, paths)),
    )
    assert "isvalid: false" not in done.stdout
    assert "Error at" not in done.stdout
    assert "invalid bytes" not in done.stdout
    assert "Exception" not in done.stdout + done.stderr
    return done.stdout
