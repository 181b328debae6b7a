"""A real Kafka cluster on loopback: comes up, survives its leader, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import until

from kraftspec.conformance.cluster import (
    QUORUM_COMMAND,
    RELEASE,
    RELEASES,
    TOOLS_RELEASE,
    Cluster,
    ClusterError,
)
from kraftspec.conformance.cluster.node import HEALTHY_TIMEOUT_S, PORTS, Node, free_port
from kraftspec.generated.kafka import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.specs import kafka_release

pytestmark = pytest.mark.kafka
GONE_TIMEOUT_S = 300.0


class WatchedCluster(Cluster):
    """Notes when its nodes were started, and when they were seen to be healthy."""

    def start(self, *, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
        self.steps: list[tuple[str, str]] = []
        with pytest.MonkeyPatch.context() as patch:
            for name in ("start", "wait_healthy"):
                patch.setattr(Node, name, self._noting(name, getattr(Node, name)))
            super().start(timeout_s=timeout_s)

    def _noting(self, name: str, does: Callable[..., None]) -> Callable[..., None]:
        def noted(node: Node, *arguments: float) -> None:
            does(node, *arguments)
            self.steps.append((name, node.roles))

        return noted


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedCluster]:
    with WatchedCluster(tmp_path_factory.mktemp("cluster"), controllers=3, brokers=1) as running:
        yield running


def alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and was not waited for does not."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_the_quorum_has_three_voters_and_a_broker(cluster: Cluster) -> None:
    quorum = cluster.wait_quorum()
    assert {voter.replica_id for voter in quorum.current_voters} == {3001, 3002, 3003}
    until(lambda: cluster.leader().id == cluster.wait_quorum().leader_id)
    known = ask(cluster.brokers[0].listener().port, MetadataRequest(), 12, MetadataResponse)
    assert [(broker.node_id, broker.host) for broker in known.brokers] == [(1, "127.0.0.1")]
    assert known.cluster_id == cluster.cluster_id


def test_brokers_start_when_all_controllers_are_healthy(cluster: WatchedCluster) -> None:
    assert cluster.steps == [
        *[("start", "controller")] * 3, *[("wait_healthy", "controller")] * 3,
        ("start", "broker"), ("wait_healthy", "broker"),
    ]  # fmt: skip


def test_a_tool_is_run_and_its_failure_is_shown(cluster: Cluster) -> None:
    bootstrap = ("--bootstrap-controller", cluster.controller_bootstrap())
    output = cluster.tool(QUORUM_COMMAND, *bootstrap, "describe", "--status").stdout
    assert f"ClusterId:              {cluster.cluster_id}" in output
    with pytest.raises(ClusterError, match=r"MetadataQuorumCommand.* failed with 1:\n(.|\n)*voter"):
        cluster.tool(
            QUORUM_COMMAND, *bootstrap, "remove-controller", "--controller-id", "9",
            "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAACQ",
        )  # fmt: skip


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    old = cluster.leader()
    assert old.kill() == -signal.SIGKILL
    new = cluster.leader()
    assert new is not old
    old.start()
    old.wait_healthy()

    def has_all() -> bool:  # The leader of meanwhile may be another one.
        quorum = cluster.wait_quorum()
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        return ends[old.id] >= quorum.high_watermark

    until(has_all)
    with pytest.raises(ClusterError, match="runs already"):
        old.start()


def test_a_paused_node_goes_on(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    broker.pause()
    with pytest.raises(TimeoutError):
        ask(broker.listener().port, MetadataRequest(), 12, MetadataResponse, timeout_s=0.5)
    broker.resume()
    port = broker.listener().port
    assert ask(port, MetadataRequest(), 12, MetadataResponse, timeout_s=60).brokers


def test_a_fresh_controller_becomes_a_voter(cluster: Cluster) -> None:
    node = cluster.add_node("controller")
    assert node.id == 3004

    def voters() -> set[int]:
        return {voter.replica_id for voter in cluster.wait_quorum().current_voters}

    cluster.add_voter(node.properties_path, lambda: node.id in voters())
    assert voters() == {3001, 3002, 3003, 3004}


def test_a_node_that_refuses_its_properties_is_shown(tmp_path: Path) -> None:
    broken = {"metadata.log.max.record.bytes.between.snapshots": "none"}
    with pytest.raises(ClusterError, match=r"Invalid value none for configuration metadata\.log"):
        Cluster(tmp_path, brokers=0, controller_properties=broken).start()


def test_a_static_quorum_and_one_that_ends_by_itself(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=0, quorum="static") as cluster:
        node = cluster.controllers[0]
        assert f"3001@127.0.0.1:{node.listener().port}" in node.properties_path.read_text()
        assert cluster.leader() is node
        assert (node.metadata_log / "quorum-state").is_file()
        node.kill()
        with pytest.raises(ClusterError, match=r"^node 3001 ended \(exit code -9\):\n") as ended:
            node.wait_healthy()
        printed = node.log_path.read_text().splitlines()
        shown = str(ended.value).splitlines()[1:]
        assert shown == printed[-len(shown) :]
        with pytest.raises(ClusterError, match=r"no controller led the quorum within 0\.2 s"):
            cluster.leader(timeout_s=0.2)
        with pytest.raises(ClusterError, match="does not run"):
            node.pause()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_process_outlives_its_parent(end: signal.Signals, tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from kraftspec.conformance.cluster import Cluster\n"
        "with Cluster(Path(sys.argv[1]), brokers=0) as cluster:\n"
        "    print(cluster.controllers[0].process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        os.kill(parent.pid, end)
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def test_ports_are_free_and_differ() -> None:
    taken: set[int] = set()
    ports = [free_port(taken) for _ in range(20)]
    assert len(set(ports)) == 20 == len(taken)
    assert all(port in PORTS for port in ports)
    with pytest.raises(
        ClusterError, match=f"every port from {PORTS.start} to {PORTS.stop - 1} is in"
    ):
        free_port(set(PORTS))


def test_the_release_of_the_specs_is_the_newest_of_the_servers() -> None:
    assert RELEASES[-1] == RELEASE == kafka_release()
    assert TOOLS_RELEASE in RELEASES


def newest_metadata_version(node: Node) -> int:
    """Which release runs, as a node itself says."""
    answer = ask(node.listener().port, api_versions_request(4), 4, ApiVersionsResponse)
    (feature,) = [one for one in answer.supported_features if one.name == "metadata.version"]
    return feature.max_version


def test_nodes_of_several_releases_are_one_quorum(tmp_path: Path) -> None:
    newest = {"4.2.2": 29, "4.3.1": 30, "4.4.0": 33}
    with Cluster(
        tmp_path,
        controllers=3,
        brokers=0,
        release="4.3.1",
        releases={3002: "4.2.2", 3003: "4.4.0"},
        format_arguments=("--release-version", "4.2"),  # The newest that all of them know.
    ) as cluster:
        nodes = cluster.controllers
        assert [node.release for node in nodes] == ["4.3.1", "4.2.2", "4.4.0"]
        assert [newest_metadata_version(node) for node in nodes] == [
            newest[node.release] for node in nodes
        ]
        bootstraps = [node.directory / "data-0" / "bootstrap.checkpoint" for node in nodes]
        # 4.4 has the records of the features in the checkpoint 0-0 (KAFKA-19648).
        assert [path.exists() for path in bootstraps] == [True, True, False]
        upgraded = nodes[0]
        upgraded.stop()
        upgraded.release = RELEASE
        upgraded.start()
        upgraded.wait_healthy()
        assert newest_metadata_version(upgraded) == newest[RELEASE]
        assert cluster.wait_quorum().leader_id in {node.id for node in nodes}


def test_a_broker_to_try_things_with() -> None:
    """As the page of the proxy has it; SIGTERM leaves nothing behind."""
    command = [sys.executable, "-m", "kraftspec.conformance.cluster"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        answer = ask(port, MetadataRequest(topics=[]), 12, MetadataResponse, timeout_s=60)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.terminate()
        assert process.wait(GONE_TIMEOUT_S) == 0
    assert [broker.port for broker in answer.brokers] == [port]
    assert children
    assert not [pid for pid in children if alive(int(pid))]
