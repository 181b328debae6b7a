"""A real Kafka controller that is put into the state of a node vector, among scripted peers."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

from kraftspec.cache import locked
from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.artifacts import RELEASE, cluster_cache
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, Listener, Node, free_port
from kraftspec.conformance.making.exchanges.disk import (
    QUORUM_STATE,
    files_of,
    identity_of,
    log_of,
    snapshots_of,
)
from kraftspec.conformance.making.exchanges.peers import Peers
from kraftspec.conformance.raw.node import NodeAnswer, NodeAppend, NodeState
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.wire.blocking import ask, receive_frames
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import FrameReader, sized

CONTROLLER = "CONTROLLER"
PEER_PORTS = tuple(range(14_092, 14_096))  # Below those that other tests and the system choose.
HEAP_MIB = 128
WAIT_S = 60.0  # For what takes milliseconds on a machine that does nothing else.
POLL_S = 0.01
ENQUEUED_S = 1.0  # After so long a request is before what comes then.
QUIET_S = 1.0  # A state machine that writes nothing for so long has written all.
_ROLE = re.compile(rb"Completed transition to (\w+?)(?:State)?\(")


class KafkaNode:
    """One process a state: ``kafka.Kafka`` on a log directory made of the vector's bytes.

    It advertises the address that the state says, and listens on any other. Its peers are ours,
    on the ports of the state's voters.
    """

    writes_by_itself = True

    def __init__(self, release: str = RELEASE) -> None:
        """Let it be of a release of Kafka."""
        self.release = release
        self._all = ExitStack()  # Whatever a life has to let go of.
        self._waiting: dict[int, socket.socket] = {}
        self._token = 0
        self._written = 0
        self._must_write = False
        self.node: Node
        self.peers: Peers

    # ---- lives ---------------------------------------------------------------------------------

    def restore(self, state: NodeState) -> None:
        """Write the files, start the process, and wait until it answers."""
        self.close()
        make_class_archive(self.release)
        life = self._all
        life.enter_context(locked(cluster_cache() / "exchanges.lock"))  # Peers have fixed ports.
        home = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="kraftspec-node-")))
        guard = life.enter_context(Guard())
        self.peers = Peers(PEER_PORTS)
        life.callback(self.peers.close)
        port = free_port(set(PEER_PORTS))
        self.node = Node(
            id=identity_of(state).node_id,
            roles="controller",
            directory=home,
            listeners=(Listener(CONTROLLER, port, port),),
            properties={
                **(state.properties or {}),
                "log.dirs": str(home / "data"),
                "listeners": f"{CONTROLLER}://{HOST}:{port}",
            },
            heap_mib=HEAP_MIB,
            process_group=guard.process_group,
            release=self.release,
        )
        life.callback(self.node.kill)
        self.node.write_properties()
        for name, data in files_of(state).items():
            path = home / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._written = self.end_offset()
        self.node.start()
        self.node.wait(self._serves, "serving", WAIT_S)
        if "authorizer.class.name" in self.node.properties:
            self.node.wait(self._authorizes, "authorizing", WAIT_S)

    def close(self) -> None:
        """Kill the process, and forget its files."""
        for connection in self._waiting.values():
            connection.close()
        self._waiting.clear()
        self._all.close()

    def _serves(self) -> bool:
        return ask(self.port, api_versions_request(3), 3, ApiVersionsResponse).error_code == 0

    def _authorizes(self) -> bool:
        """An authorizer that has not loaded its ACLs yet is an unexpected error."""
        answer = ask(self.port, DescribeQuorumRequest(), 2, DescribeQuorumResponse)
        return answer.error_code != ErrorCode.UNKNOWN_SERVER_ERROR

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.node.listener().port

    # ---- what it wrote -------------------------------------------------------------------------

    @property
    def _metadata(self) -> Path:
        return Path(self.node.properties["log.dirs"]) / METADATA_NAME

    def state(self, before: NodeState) -> NodeState:
        """Kill the process; return the state that its files are in, otherwise as before."""
        self.node.kill()
        values = {name: getattr(before, name) for name in before.__struct_fields__}
        path = self._metadata / QUORUM_STATE
        values |= {
            "log": [batch.hex() for batch in self.log()],
            "quorum_state": json.loads(path.read_bytes()),
            "snapshots": snapshots_of(self._metadata),
        }
        return NodeState(**values)

    def log(self) -> list[bytes]:
        """Return the batches of its log."""
        return log_of(self._metadata)

    def end_offset(self) -> int:
        """Return where its log ends."""
        batches = self.log()
        return read_header(batches[-1]).last_offset + 1 if batches else 0

    def role(self) -> str:
        """Return the role that it logged last."""
        roles = _ROLE.findall(self.node.log_path.read_bytes())
        return roles[-1].decode().lower() if roles else ""

    # ---- steps ---------------------------------------------------------------------------------

    def at(self, at_us: int, clock_ms: int | None) -> None:
        """Only remember whether it has to write: its clock is its own."""
        self._must_write = clock_ms is not None
        self._written = self.end_offset()

    def request(self, data: bytes) -> int:
        """Send a frame, on a connection of its own."""
        if self._waiting:  # Of two connections, nothing else tells which is read first.
            time.sleep(ENQUEUED_S)
        connection = socket.create_connection((HOST, self.port), WAIT_S)
        self._token += 1
        self._waiting[self._token] = connection
        connection.sendall(sized(data))
        return self._token

    def reply(self, token: int) -> bytes | None:
        """Receive a frame."""
        connection = self._waiting.pop(token)
        with connection:
            try:
                return next(
                    receive_frames(connection, FrameReader()),
                    None,
                )
            except ConnectionError:
                return None

    def answer(self, answer: NodeAnswer) -> None:
        """Wait until it asks, then answer, in the version in which it asks."""
        package = import_module("kraftspec.generated.kafka")
        request: type[Message] = getattr(package, f"{answer.api}Request")
        response: type[Message] = getattr(package, f"{answer.api}Response")
        pending = self.peers.wait(answer.port, request, WAIT_S)
        body = response.decode(bytes.fromhex(answer.hex), answer.version)
        before = self.peers.count
        self.peers.answer(pending, response, body.encode(pending.version))
        if answer.api in ("Fetch", "FetchSnapshot"):  # A follower that took it in asks again.
            self.until(lambda: self.peers.count > before, "did not ask again")

    def append(self, append: NodeAppend) -> None:
        """Wait until its own state machine has appended as much."""
        end = append.base_offset + len(append.records)
        self.until(lambda: self.end_offset() >= end, f"wrote nothing up to {end}")
        self._must_write = False  # It may have done so before the step, with an answer.

    def settle(self, role: str | None) -> None:
        """Wait for the role, and for what the step makes it write."""
        if role is not None:
            self.until(lambda: self.role() == role, f"did not become {role}")
        if self._must_write:
            self.until(lambda: self.end_offset() > self._written, "wrote nothing")

    def quiet(self) -> None:
        """Wait until its log has not grown for a while."""
        size, since = -1, 0.0
        deadline = time.monotonic() + WAIT_S
        while size != self.end_offset() or time.monotonic() - since < QUIET_S:
            if size != (now := self.end_offset()):
                size, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise TimeoutError("the log of the node does not stop to grow")
            time.sleep(POLL_S)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; ``ClusterError`` with what did not happen."""

        def holds() -> bool:
            with suppress(CodecError):
                return condition()
            return False

        self.node.wait(holds, f"as it should: it {what}", WAIT_S)

    def check_lives(self) -> None:
        """``ClusterError``, with what it printed last, where its process has ended."""
        self.node.wait(lambda: True, "alive")

    def log_tail(self) -> str:
        """Return the last lines that the process printed."""
        return self.node.log_tail() if hasattr(self, "node") else ""
