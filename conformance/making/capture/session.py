"""A whole capture: a cluster behind the proxy, the workloads, and what its nodes say by themselves.

The cluster lies in a directory whose name says nothing of the machine, because brokers tell their
clients where their logs are.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kraftspec.cache import locked
from kraftspec.conformance.cluster import QUORUM_COMMAND, Cluster, ClusterError, Node
from kraftspec.conformance.making.capture.programs import (
    Language,
    go_workload,
    java_workload,
    run_workload,
)
from kraftspec.conformance.making.capture.proxy import Proxy, Recorder

OnPhase = Callable[[str], None]

NEUTRAL_DIRECTORY = Path("/tmp/kraftspec-capture")
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
FEATURE_COMMAND = "org.apache.kafka.tools.FeatureCommand"
CLUSTER_COMMAND = "org.apache.kafka.tools.ClusterTool"
SNAPSHOT_TIMEOUT_S = 60.0
SETTLE_S = 3.0  # Longer than a heartbeat, a lagging replica's patience and a fetch.

JAVA_PARTS = (
    "topics", "configs", "security", "placement", "quorum", "produce", "transactions", "consume",
    "groups", "share", "streams", "telemetry",
)  # fmt: skip
# From new to old: the SCRAM user that the old ones log in as is made by a newer one.
GO_PARTS = (
    "4.3", "4.2", "4.1", "4.0", "3.9", "3.8", "3.7", "3.6", "3.5", "3.4", "3.3", "3.2", "3.1",
    "3.0", "2.8", "2.7", "2.6", "2.5", "2.4", "2.3", "2.2", "2.1",
)  # fmt: skip
PYTHON_PARTS = (
    *(f"kafka-python-{release}" for release in ("4.3", "3.9", "3.5", "3.0", "2.8", "2.5", "2.1")),
    "aiokafka",
)
_COMMON = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "captured-secret",
    # A snapshot then comes in several pieces, as a large one does.
    "controller.quorum.fetch.snapshot.max.bytes": "3000",
}
_OF_CONTROLLERS = _COMMON | {
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.log.segment.ms": "10000",
    "internal.metadata.log.segment.bytes": "65536",
    "internal.metadata.max.retention.bytes": "65536",
}
_OF_BROKERS = _COMMON | {
    "metric.reporters": "kraftspec.capture.TelemetrySink",
    "broker.rack": "rack-1",
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is started, and what runs on it."""

    controllers: int
    brokers: int
    runs: tuple[tuple[Language, tuple[str, ...]], ...] = ()
    nodes: bool = False
    plain: bool = False


SCENARIOS = {
    "java": Scenario(3, 2, (("java", JAVA_PARTS),)),
    "plain": Scenario(3, 2, plain=True),
    "go": Scenario(3, 2, (("go", GO_PARTS),)),
    "python": Scenario(3, 2, (("python", PYTHON_PARTS),)),
    "nodes": Scenario(3, 2, nodes=True),
    "all": Scenario(
        controllers=3,
        brokers=2,
        runs=(("java", JAVA_PARTS), ("go", GO_PARTS), ("python", PYTHON_PARTS)),
        nodes=True,
        plain=True,
    ),
    # Enough to see that everything works together, in seconds.
    "short": Scenario(
        1, 1, (("java", ("produce",)), ("go", ("4.3",)), ("python", ("kafka-python-4.3",)))
    ),
}


@dataclass(slots=True)
class Recording:
    """What was recorded, what failed of the work, and how long it took."""

    recorder: Recorder
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def record(
    scenario: Scenario, *, directory: Path = NEUTRAL_DIRECTORY, on_phase: OnPhase | None = None
) -> Recording:
    """Run a scenario and return all that passed between its clients and nodes.

    One capture a directory at a time: another waits. ``on_phase`` is called when a phase begins.

    Raises:
        ClusterError: a tool is missing, a program did not build, or a node did not do its work.
    """
    started = time.perf_counter()
    jar = java_workload()
    if any(language == "go" for language, _ in scenario.runs):
        go_workload()
    with locked(directory.with_name(f"{directory.name}.lock")), Proxy() as proxy:
        shutil.rmtree(directory, ignore_errors=True)
        cluster = Cluster(
            directory,
            controllers=scenario.controllers,
            brokers=scenario.brokers,
            log_dirs=2,
            sasl=True,
            controller_properties=_OF_CONTROLLERS,
            broker_properties=_OF_BROKERS,
            broker_class_path=[jar],
            front=proxy.open,
        )
        session = _Session(cluster, proxy, on_phase or (lambda _: None))
        session.begin_phase("nodes start")
        with cluster:
            session.work(scenario)
        shutil.rmtree(directory, ignore_errors=True)
    recording = Recording(proxy.recorder, session.failures)
    recording.seconds = time.perf_counter() - started
    return recording


class _Session:
    """What happens on one cluster, from its first start to its end."""

    def __init__(self, cluster: Cluster, proxy: Proxy, on_phase: OnPhase) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.on_phase = on_phase
        self.failures: list[str] = []

    def begin_phase(self, phase: str) -> None:
        """Name the phase of all frames from now on."""
        self.proxy.recorder.phase = phase
        self.on_phase(phase)

    def work(self, scenario: Scenario) -> None:
        for language, parts in scenario.runs:
            self._run(language, parts)
        if scenario.nodes:
            self._tools()
            self._voters()
            self._elections()
            self._brokers()
        if scenario.plain:  # Last: of equal frames, the one of a real client is kept.
            self._run("java", ("plain",))
        self.begin_phase("nodes stop")

    def _run(self, language: Language, parts: tuple[str, ...]) -> None:
        cluster = self.cluster
        where = [cluster.bootstrap(), cluster.bootstrap("SASL"), cluster.controller_bootstrap()]

        def on_phase(part: str) -> None:
            self.begin_phase(f"{language} {part}")

        self.failures += run_workload(language, [*where, *parts], on_phase)

    def _quorum_tool(self, *arguments: str) -> None:
        bootstrap = ("--bootstrap-controller", self.cluster.controller_bootstrap())
        self.cluster.tool(QUORUM_COMMAND, *bootstrap, *arguments)

    def _tools(self) -> None:
        """Kafka's own tools, through a broker; and enough topics for snapshots of the metadata."""
        self.begin_phase("tools")
        bootstrap = ("--bootstrap-server", self.cluster.bootstrap())
        for arguments in (("describe", "--status"), ("describe", "--replication")):
            self.cluster.tool(QUORUM_COMMAND, *bootstrap, *arguments)
            self._quorum_tool(*arguments)
        self.cluster.tool(FEATURE_COMMAND, *bootstrap, "describe")
        self.cluster.tool(CLUSTER_COMMAND, "list-endpoints", *bootstrap)
        for number in range(3):
            topic = ("--topic", f"tool-wide-{number}", "--partitions", "60")
            self.cluster.tool(TOPIC_COMMAND, *bootstrap, "--create", *topic)
        self.cluster.leader().wait(self._has_snapshot, "writing snapshots", SNAPSHOT_TIMEOUT_S)

    def _has_snapshot(self) -> bool:
        checkpoints = list(self.cluster.leader().metadata_log.glob("*.checkpoint"))
        return len(checkpoints) > 1  # The first one is of the formatting.

    def _voters(self) -> None:
        """A fresh controller fetches the snapshot, becomes a voter, moves, and leaves again."""
        self.begin_phase("nodes join")
        node = self.cluster.add_node("controller")
        config = ("--command-config", str(node.properties_path))
        self.begin_phase("nodes join: add-controller")
        self._quorum_tool(*config, "add-controller")
        self.begin_phase("nodes move")
        self._move(node)
        self.begin_phase("nodes leave: remove-controller")
        self._quorum_tool(
            "remove-controller", "--controller-id", str(node.id),
            "--controller-directory-id", self._directory_id(node),
        )  # fmt: skip
        node.stop()

    def _move(self, node: Node) -> None:
        """Let a voter come back at another address, of which it tells the leader."""
        node.stop()
        listener = node.listener()
        port = self.proxy.open(f"controller {node.id} {listener.name}", listener.port)
        node.write_properties({"advertised.listeners": f"{listener.name}://127.0.0.1:{port}"})
        node.start()
        node.wait_healthy()

        def moved() -> bool:
            quorum = self.cluster.describe_quorum(self.cluster.leader())
            ports = [one.port for voter in quorum.nodes for one in voter.listeners]
            return port in ports

        node.wait(moved, "known at its new address")

    def _directory_id(self, node: Node) -> str:
        lines = (node.metadata_log.parent / "meta.properties").read_text("utf-8").splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id"))

    def _elections(self) -> None:
        """The active controller is killed, another one resigns; both come back."""
        for say, end in (("nodes fail over", Node.kill), ("nodes resign", Node.stop)):
            self.begin_phase(say)
            leader = self.cluster.leader()
            end(leader)
            self.cluster.leader()
            time.sleep(SETTLE_S)
            leader.start()
            leader.wait_healthy()

    def _brokers(self) -> None:
        """A broker leaves and returns, another is killed and returns, a third is unregistered."""
        for say, end in (("brokers leave", Node.stop), ("brokers fail", Node.kill)):
            self.begin_phase(say)
            broker = self.cluster.brokers[-1]
            end(broker)
            time.sleep(SETTLE_S)
            broker.start()
            broker.wait_healthy()
            time.sleep(SETTLE_S)
        self.begin_phase("brokers are unregistered")
        third = self.cluster.add_node("broker")
        third.stop()
        bootstrap = ("--bootstrap-server", self.cluster.bootstrap())
        completed = self.cluster.tool(
            CLUSTER_COMMAND, "unregister", *bootstrap, "--id", str(third.id), check=False
        )
        if completed.returncode != 0:
            self.failures.append(f"broker {third.id} was not unregistered: {completed.stderr}")


def merged(names: Sequence[str]) -> Scenario:
    """Return one scenario for the names of several; ``all`` where there are none.

    Raises ``ClusterError`` for a name that there is not.
    """
    for name in names:
        if name not in SCENARIOS:
            raise ClusterError(f"there is no workload {name!r}: {', '.join(SCENARIOS)}")
    if not names or "all" in names:
        return SCENARIOS["all"]
    chosen = [SCENARIOS[name] for name in names]
    return Scenario(
        controllers=max(one.controllers for one in chosen),
        brokers=max(one.brokers for one in chosen),
        runs=tuple(run for one in chosen for run in one.runs),
        nodes=any(one.nodes for one in chosen),
        plain=any(one.plain for one in chosen),
    )
