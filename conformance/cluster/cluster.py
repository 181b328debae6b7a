"""Any number of controllers and brokers on loopback, formatted and started by Kafka's own tools."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.artifacts import (
    QUORUM_COMMAND,
    RELEASE,
    TOOLS_RELEASE,
    ClusterError,
    java_command,
)
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import (
    HEALTHY_TIMEOUT_S,
    HOST,
    POLL_S,
    REQUEST_TIMEOUT_S,
    Listener,
    Node,
    free_port,
)
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated import kafka
from kraftspec.generated.kafka import DescribeQuorumResponse
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.wire.blocking import ask

Quorum = Literal["initial", "standalone", "static"]
Front = Callable[
    [str, int], int
]  # (name of the listener, its port) to the port that others connect to

CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"
SASL = "SASL"
FIRST_CONTROLLER_ID = 3001
FIRST_BROKER_ID = 1
CONTROLLER_HEAP_MIB = 128
BROKER_HEAP_MIB = 256
FORMATS_AT_ONCE = 2
TOOL_TIMEOUT_S = 120.0

# These make a broker small and its start fast. None of them changes its bytes on the wire.
SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.partitions": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "group.initial.rebalance.delay.ms": "0",
    # By default a broker gives up after a minute, which is too short on a busy machine.
    "initial.broker.registration.timeout.ms": str(int(1000 * HEALTHY_TIMEOUT_S)),
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


def base64_uuid() -> str:
    """Return a new uuid as Kafka writes it: 22 characters, none of them a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # A tool would read it as an option.
            return text


class Cluster:
    """A cluster in ``directory``: ``with Cluster(directory, controllers=3, brokers=2) as cluster``.

    Leaving the block stops every node; the directory with the nodes' logs stays. It is not
    thread-safe.
    """

    def __init__(
        self,
        directory: Path,
        *,
        controllers: int = 1,
        brokers: int = 1,
        quorum: Quorum = "initial",
        other_voters: Mapping[int, str] | None = None,
        log_dirs: int = 1,
        sasl: bool = False,
        controller_properties: Mapping[str, str] | None = None,
        broker_properties: Mapping[str, str] | None = None,
        format_arguments: Sequence[str] = (),
        broker_class_path: Sequence[Path] = (),
        controller_command: Sequence[str] = (),
        front: Front | None = None,
        release: str = RELEASE,
        releases: Mapping[int, str] | None = None,
        ports: range | None = None,
    ) -> None:
        """Lay out the nodes; ``start`` formats and starts them.

        Args:
            directory: where properties, logs and what the nodes print go; an absolute path.
            controllers: how many; their ids are 3001 and on.
            brokers: how many; their ids are 1 and on.
            quorum: ``initial`` (kraft.version 1, all controllers are voters from the start),
                ``standalone`` (the first alone is; the others observe until they are added) or
                ``static`` (``controller.quorum.voters``, kraft.version 0).
            other_voters: id to ``host:port`` of voters of a static quorum that are not ours.
            log_dirs: how many log directories a broker has.
            sasl: give brokers a second listener, ``SASL``, with SCRAM-SHA-256.
            controller_properties: beside, or instead of, what we set.
            broker_properties: likewise.
            format_arguments: passed to every ``kafka-storage format``, such as ``--feature``.
            broker_class_path: directories or jars of plugins that brokers load.
            controller_command: what starts a controller in place of Kafka's server; the path of its
                properties follows.
            front: called for every listener; returns the port that is advertised for it.
            release: of Kafka, for every node; one of ``RELEASES``.
            releases: id to another release.
            ports: those to choose from, if not from `free_port`'s.
        """
        self.directory = directory
        self.cluster_id = base64_uuid()
        self.quorum = quorum
        self._other_voters = dict(other_voters or {})
        self._log_dirs = log_dirs
        self._sasl = sasl
        self._extra = {
            "controller": dict(controller_properties or {}),
            "broker": dict(broker_properties or {}),
        }
        self._format_arguments = list(format_arguments)
        self._broker_class_path = tuple(broker_class_path)
        self._controller_command = tuple(controller_command)
        self._front = front
        self._release = release
        self._releases = dict(releases or {})
        self._ports: set[int] = set()
        self._ports_allowed = ports
        self._replicas = max(1, min(brokers, 3))
        self._guard: Guard | None = None
        self.nodes: dict[int, Node] = {}
        for number in range(controllers):
            self._lay_out(FIRST_CONTROLLER_ID + number, "controller")
        for number in range(brokers):
            self._lay_out(FIRST_BROKER_ID + number, "broker")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def controllers(self) -> list[Node]:
        """The controllers, by id."""
        return [node for node in self.nodes.values() if node.roles == "controller"]

    @property
    def brokers(self) -> list[Node]:
        """The brokers, by id."""
        return [node for node in self.nodes.values() if node.roles == "broker"]

    def bootstrap(self, listener: str = PLAINTEXT) -> str:
        """Return the brokers' addresses as clients take them, as they are advertised."""
        return _addresses(self.brokers, listener)

    def controller_bootstrap(self) -> str:
        """Return the controllers' addresses, as they are advertised."""
        return _addresses(self.controllers, CONTROLLER)

    def _lay_out(self, node_id: int, roles: str) -> Node:
        names = [CONTROLLER] if roles == "controller" else [PLAINTEXT]
        if roles == "broker" and self._sasl:
            names.append(SASL)
        listeners = []
        for name in names:
            port = free_port(self._ports, self._ports_allowed)
            front = self._front
            advertised = front(f"{roles} {node_id} {name}", port) if front else port
            listeners.append(Listener(name, port, advertised))
        node = Node(
            id=node_id,
            roles=roles,
            directory=self.directory / f"{roles}-{node_id}",
            listeners=tuple(listeners),
            properties={},
            heap_mib=CONTROLLER_HEAP_MIB if roles == "controller" else BROKER_HEAP_MIB,
            process_group=0,
            release=self._releases.get(node_id, self._release),
            extra_class_path=self._broker_class_path if roles == "broker" else (),
            command=self._controller_command if roles == "controller" else (),
        )
        self.nodes[node_id] = node
        return node

    def _properties(self, node: Node) -> dict[str, str]:
        data = [node.directory / f"data-{number}" for number in range(self._log_dirs)]
        if node.roles == "controller":
            data = data[:1]
        properties = {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "log.dirs": ",".join(map(str, data)),
            "controller.listener.names": CONTROLLER,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
            ",SASL:SASL_PLAINTEXT",
            "listeners": ",".join(f"{one.name}://{HOST}:{one.port}" for one in node.listeners),
            "advertised.listeners": ",".join(
                f"{one.name}://{HOST}:{one.advertised_port}" for one in node.listeners
            ),
        }
        # Controllers decide on replicas that a client leaves open.
        properties["default.replication.factor"] = str(self._replicas)
        if self.quorum == "static":
            properties["controller.quorum.voters"] = self._static_voters()
        else:
            properties["controller.quorum.bootstrap.servers"] = self.controller_bootstrap()
        if node.roles == "broker":
            replicas = str(self._replicas)
            properties |= SMALL
            properties |= {
                "inter.broker.listener.name": PLAINTEXT,
                "offsets.topic.replication.factor": replicas,
                "transaction.state.log.replication.factor": replicas,
                "transaction.state.log.min.isr": "1",
                "share.coordinator.state.topic.replication.factor": replicas,
                "share.coordinator.state.topic.min.isr": "1",
            }
            if self._sasl:
                properties["sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
                properties["listener.name.sasl.scram-sha-256.sasl.jaas.config"] = (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
        return properties | self._extra[node.roles]

    def _static_voters(self) -> str:
        ours = {node.id: f"{HOST}:{node.listener().advertised_port}" for node in self.controllers}
        voters = sorted((ours | self._other_voters).items())
        return ",".join(f"{node_id}@{address}" for node_id, address in voters)

    def start(self, *, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
        """Format every node, start them, and wait until all are healthy.

        Raises:
            ClusterError: Java or Maven is missing, the jars cannot be fetched, or a node rejected
                its configuration or did not start; no process is left.
        """
        # Before the threads: the first call may fetch for a minute.
        for release in sorted({node.release for node in self.nodes.values()}):
            make_class_archive(release)
        self._guard = Guard()
        for node in self.controllers:
            node.directory_id = base64_uuid()
        try:
            with ThreadPoolExecutor(FORMATS_AT_ONCE) as pool:
                list(pool.map(self.format, list(self.nodes.values())))
            # Brokers start once the first epoch has committed, because of KS-2026-05.
            for nodes in (self.controllers, self.brokers):
                for node in nodes:
                    node.start()
                for node in nodes:
                    node.wait_healthy(timeout_s)
        except BaseException:  # Also on an interrupt: no process is left.
            self.stop()
            raise

    def add_node(self, roles: Literal["controller", "broker"], *, start: bool = True) -> Node:
        """Lay out, format and start one more node, under the next id of its kind.

        A controller starts as an observer; ``MetadataQuorumCommand add-controller`` makes it a
        voter.
        """
        first = FIRST_CONTROLLER_ID if roles == "controller" else FIRST_BROKER_ID
        same = [node.id for node in self.nodes.values() if node.roles == roles]
        node = self._lay_out(max(same, default=first - 1) + 1, roles)
        self.format(node)
        if start:
            node.start()
            node.wait_healthy()
        return node

    def format(self, node: Node) -> None:
        """Write a node's properties, and format its log directories, which have nothing yet."""
        if self._guard is None:
            raise ClusterError("start the cluster first")
        node.process_group = self._guard.process_group
        node.write_properties(self._properties(node))
        arguments = ["format", "-t", self.cluster_id, "-c", str(node.properties_path)]
        arguments += self._format_arguments
        if self.quorum != "static" and node.roles == "controller":
            first = self.controllers[0]
            if self.quorum == "initial" and node.directory_id is not None:
                arguments += ["--initial-controllers", self._initial_controllers()]
            elif self.quorum == "standalone" and node is first:
                arguments.append("--standalone")
            else:
                arguments.append("--no-initial-controllers")
        self.tool("kafka.tools.StorageTool", *arguments, release=node.release)

    def _initial_controllers(self) -> str:
        return ",".join(
            f"{node.id}@{HOST}:{node.listener().advertised_port}:{node.directory_id}"
            for node in self.controllers
            if node.directory_id is not None
        )

    def tool(
        self,
        main_class: str,
        *arguments: str,
        release: str = TOOLS_RELEASE,
        check: bool = True,
        timeout_s: float = TOOL_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of a release's tools by its main class, and return its output.

        Raises:
            ClusterError: it did not exit with 0 (unless ``check`` is False), or took too long.
        """
        command = java_command(
            main_class,
            *arguments,
            release=release,
            options=["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"],
        )
        group = None if self._guard is None else self._guard.process_group
        try:
            completed = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                process_group=group,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"{main_class} did not end within {timeout_s:g} s") from error
        if check and completed.returncode != 0:
            output = (completed.stdout + completed.stderr).strip()
            raise ClusterError(
                f"{main_class} {' '.join(arguments)} failed with {completed.returncode}:\n{output}"
            )
        return completed

    def leader(self, timeout_s: float = HEALTHY_TIMEOUT_S) -> Node:
        """Return the active controller, waiting for the election of one.

        Raises:
            ClusterError: no live controller reports itself as leader within ``timeout_s``.
        """
        return self._led(timeout_s)[0]

    def wait_quorum(
        self, timeout_s: float = HEALTHY_TIMEOUT_S
    ) -> DescribeQuorumResponse.PartitionData:
        """Return the leader's view of the quorum, waiting until it knows the high watermark.

        Raises:
            ClusterError: no live controller does within ``timeout_s``.
        """
        return self._led(timeout_s, high_watermark_min=0)[1]

    def _led(
        self, timeout_s: float, high_watermark_min: int = -1
    ) -> tuple[Node, DescribeQuorumResponse.PartitionData]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for node in self.controllers:
                quorum = self.quorum_of(node) if node.running() else None
                if quorum is not None and quorum.high_watermark >= high_watermark_min:
                    return node, quorum
            time.sleep(POLL_S)
        raise ClusterError(f"no controller led the quorum within {timeout_s:g} s")

    def add_voter(self, properties_path: Path, is_voter: Callable[[], bool]) -> None:
        """Make a controller a voter by Kafka's tool.

        A leader may be too slow for its own time-out, and add the voter all the same. So it is
        asked again until ``is_voter`` holds.

        Raises:
            ClusterError: it was refused for another reason, or is no voter in the end.
        """
        deadline = time.monotonic() + HEALTHY_TIMEOUT_S
        bootstrap = ("--bootstrap-controller", self.controller_bootstrap())
        config = ("--command-config", str(properties_path))
        while True:
            try:
                self.tool(QUORUM_COMMAND, *bootstrap, *config, "add-controller")
            except ClusterError as error:
                is_slow = "TimeoutException" in str(error) or "DuplicateVoter" in str(error)
                if not is_slow or time.monotonic() > deadline:
                    raise
            else:
                return
            if is_voter():
                return
            time.sleep(POLL_S)

    def quorum_of(self, node: Node) -> DescribeQuorumResponse.PartitionData | None:
        """Return a controller's view of the quorum; None if it is not the leader."""
        return quorum_at(node.listener(CONTROLLER).port)

    def describe_quorum(self, node: Node) -> DescribeQuorumResponse:
        """Return a controller's answer to DescribeQuorum; ``OSError`` if there is none."""
        return _describe_quorum(node.listener(CONTROLLER).port)

    def stop(self) -> None:
        """Stop every node, brokers first. No process is left, also after an error."""
        try:
            for nodes in (self.brokers, self.controllers):
                with ThreadPoolExecutor(max(1, len(nodes))) as pool:
                    list(pool.map(Node.stop, nodes))
        finally:
            if self._guard is not None:
                self._guard.close()
                self._guard = None
            for node in self.nodes.values():
                node.kill()


def _addresses(nodes: Sequence[Node], listener: str) -> str:
    return ",".join(f"{HOST}:{node.listener(listener).advertised_port}" for node in nodes)


def quorum_at(port: int) -> DescribeQuorumResponse.PartitionData | None:
    """Return the view of the quorum of the node at a port; None if it is not the leader."""
    try:
        answer = _describe_quorum(port)
    except (OSError, CodecError):
        return None
    if answer.error_code != 0 or not answer.topics:
        return None
    partition = answer.topics[0].partitions[0]
    return partition if partition.error_code == 0 else None


def _describe_quorum(port: int) -> DescribeQuorumResponse:
    return ask(port, quorum_request(kafka), 2, DescribeQuorumResponse, timeout_s=REQUEST_TIMEOUT_S)
