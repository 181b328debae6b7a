"""The nodes of a wreck's copy as processes again, and controllers that are added."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from kraftspec.cache import locked
from kraftspec.conformance.cluster import ClusterError, Node, java_command
from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.cluster import (
    BROKER_HEAP_MIB,
    CONTROLLER,
    CONTROLLER_HEAP_MIB,
    PLAINTEXT,
    quorum_at,
)
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, Listener, free_port
from kraftspec.generated.errors import ErrorCode
from kraftspec.interop.ours import Described, wait_until
from kraftspec.interop.reproduce.stage import directory_id
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts
from kraftspec.reference.admin.client import AdminClient, Endpoint
from kraftspec.reference.admin.errors import AnswerError

BOOTSTRAP = "controller.quorum.bootstrap.servers"
STATIC = "controller.quorum.voters"
FIRST_ADDED_ID = 3101
SPARE_COUNT = 3
LEADER_S = 180.0
# What wrecks are made with would be waited for: a broker that was killed does not register again
# before its old session has ended, nor has a leader that is killed a successor before this time.
# A batch larger than a segment ends a controller: some wrecks have small ones, and many topics.
PROPERTIES = {
    "broker.session.timeout.ms": "10000",
    "controller.quorum.fetch.timeout.ms": "5000",
    "internal.metadata.log.segment.bytes": "1048576",
}


class Standing:
    """``with Standing(home, manifest) as standing``: no node runs yet; at the end none does.

    All copies of a wreck have the same ports, for its log names them: one copy stands at a time.
    """

    def __init__(self, home: Path, manifest: Manifest) -> None:
        self.home = home
        self.manifest = manifest
        self._guard = Guard()
        self._turn = ExitStack()
        ports = {node.port for node in manifest.nodes}
        # Where controllers will be added: a broker looks for leaders at bootstrap servers alone.
        self._spare = [free_port(ports) for _ in range(SPARE_COUNT)]
        first = [node.port for node in manifest.nodes if node.roles == "controller"]
        self.bootstrap = ",".join(f"{HOST}:{port}" for port in [*first, *self._spare])
        self.nodes = {facts.id: self._node(facts) for facts in manifest.nodes}

    def __enter__(self) -> Self:
        make_class_archive(self.manifest.release)
        lock = f"kraftspec-wreck-{self.manifest.cluster_id}.lock"
        self._turn.enter_context(locked(Path(tempfile.gettempdir()) / lock))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._guard.close()
        for node in self.nodes.values():
            node.kill()
        self._turn.close()

    def _node(self, facts: NodeFacts) -> Node:
        directory = self.home / facts.name
        name = CONTROLLER if facts.roles == "controller" else PLAINTEXT
        properties = facts.properties | {
            **PROPERTIES,
            "log.dirs": str(directory / "data-0"),
            "listeners": f"{name}://{HOST}:{facts.port}",
            "advertised.listeners": f"{name}://{HOST}:{facts.port}",
            BOOTSTRAP: self.bootstrap,
        }
        return Node(
            id=facts.id,
            roles=facts.roles,
            directory=directory,
            listeners=(Listener(name, facts.port, facts.port),),
            properties=properties,
            heap_mib=CONTROLLER_HEAP_MIB if facts.roles == "controller" else BROKER_HEAP_MIB,
            process_group=self._guard.process_group,
            release=self.manifest.release,
        )

    def start(self, node: Node, changes: Mapping[str, str] | None = None) -> None:
        """Start a node, with changed properties."""
        node.write_properties(changes)
        node.start()

    def quorum(self) -> Described | None:
        """Return what a leader that runs knows of the quorum."""
        for node in self.nodes.values():
            if node.roles == "controller" and node.running():
                quorum = quorum_at(node.listener().port)
                if quorum is not None:
                    return quorum
        return None

    def wait_leader(self) -> int:
        """Return the id of the leader, once one has committed."""

        def is_there() -> bool:
            quorum = self.quorum()
            return quorum is not None and quorum.high_watermark > 0

        wait_until("a controller leads", is_there, timeout_s=LEADER_S)
        quorum = self.quorum()
        return -1 if quorum is None else quorum.leader_id

    def add_controller(self) -> Node:
        """Format a controller without voters, start it, and make it a voter."""
        id = max(FIRST_ADDED_ID - 1, *self.nodes) + 1
        model = next(node for node in self.manifest.nodes if node.roles == "controller")
        properties = {key: text for key, text in model.properties.items() if key != STATIC}
        facts = NodeFacts(
            id=id,
            roles="controller",
            port=self._spare.pop(),
            directory_id="",
            log_end=0,
            state="added",
            properties=properties | {"node.id": str(id)},
        )
        node = self._node(facts)
        self.nodes[node.id] = node
        node.write_properties()
        self._format(node)
        node.start()
        node.wait_healthy()
        wait_until(f"{node.id} is a voter", lambda: self._becomes_voter(node))
        return node

    def _becomes_voter(self, node: Node) -> bool:
        """Ask for it, as often as a busy leader says that it was too slow."""
        now = self.quorum()
        if now is not None and node.id in {voter.replica_id for voter in now.current_voters}:
            return True
        endpoint = Endpoint(CONTROLLER, HOST, node.listener().port)
        try:
            with AdminClient(self.running_controllers(), to_controllers=True) as admin:
                admin.add_voter(node.id, directory_id(node), [endpoint])
        except AnswerError as error:
            if error.code not in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER):
                raise
            return False
        return True

    def running_controllers(self) -> str:
        """Return the addresses of the controllers that run."""
        return ",".join(
            f"{HOST}:{node.listener().port}"
            for node in self.nodes.values()
            if node.roles == "controller" and node.running()
        )

    def _format(self, node: Node) -> None:
        arguments = ["format", "-t", self.manifest.cluster_id, "-c", str(node.properties_path)]
        command = java_command(
            "kafka.tools.StorageTool", *arguments, "--no-initial-controllers",
            release=self.manifest.release,
        )  # fmt: skip
        completed = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if completed.returncode:
            raise ClusterError(f"kafka-storage failed:\n{completed.stdout}{completed.stderr}")
