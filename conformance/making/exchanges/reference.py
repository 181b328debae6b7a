"""The reference node in the state of a node vector, on files in memory.

Core, storage and service are the node's own; sockets, clock and disk are not.

Time is virtual: it goes on only where somebody waits for an answer, or for the node to ask. Its
election time-outs are the shortest there are, so that waiting for it is never long.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kraftspec.conformance.cluster.artifacts import RELEASE
from kraftspec.conformance.making.exchanges.disk import files_of, meta_of
from kraftspec.conformance.raw.node import NodeAnswer, NodeAppend, NodeState
from kraftspec.reference.host import Host
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.properties import render_properties
from kraftspec.reference.node.anomalies import Anomalies
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.controllers import ControllerRecords
from kraftspec.reference.node.security.gate import Gate, Session
from kraftspec.reference.node.service import Service
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.storage import Storage
from kraftspec.reference.wire.frames import SIZE_BYTES

if TYPE_CHECKING:
    from kraftspec.reference.node.server import ServerConnection
    from kraftspec.reference.node.settings import Listener, NodeConfig
    from kraftspec.reference.raft.profile import Profile

DIRECTORY = "/data"
LISTENER = "CONTROLLER"
TICKS_MAX = 1_000  # More than any wait of a vector takes.


class _Shortest:
    """Random numbers that are all 0."""

    def getrandbits(self, k: int, /) -> int:
        return 0


class _Line:
    """What the service of a node needs of a connection: somewhere to answer, or to hang up."""

    session: Session | None = None
    peer, host = "peer:0", "peer"
    is_open = True

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.transport = self
        self.is_done = False
        self.answer: bytes | None = None

    def get_extra_info(self, name: str) -> None:
        """There is no TLS."""

    def reply(self, frame: bytes) -> None:
        """Take the answer, without the size before it."""
        self.answer, self.is_done = frame[SIZE_BYTES:], True

    def drop(self, reason: str) -> None:
        """Take note that the node hangs up."""
        self.is_done = True


class ReferenceNode(Host):
    """The reference node of a node vector: a `Host` with a node's service, and virtual time."""

    writes_by_itself = False

    def __init__(self, release: str = RELEASE) -> None:
        """Let it speak as a release of Kafka."""
        super().__init__()
        self._release = None if release == RELEASE else release

    def restore(self, state: NodeState) -> None:
        """Write the files, recover, and start."""
        self.begin_incarnation()
        files = MemoryFiles()
        for name, data in files_of(state).items():
            _write(files, f"{DIRECTORY}/{name}", data)
        self.profile: Profile = KafkaProfile(LISTENER, release=self._release)
        self.config = _config(state)
        config = self.config.core
        self.storage = Storage.open(DIRECTORY, self.profile, config, files=files)
        self.gate = Gate(self.config)
        self.anomalies = Anomalies(config.node_id, parts_of(self.profile.name).node)
        self.service = Service(self)
        self.core = self.storage.make_core(config, _Shortest())
        self.records = ControllerRecords(self.storage, lambda: self.core.committed_offset)
        self.now_us = 0
        self.clock_ms: int | None = state.clock_ms or None
        self.pending: dict[int, fx.Ask] = {}
        self._token = 0
        self._lines: dict[int, _Line] = {}
        self.step(ev.Start())
        self.settle(state.role)

    def close(self) -> None:
        """Forget it all: what it has is in memory."""

    # ---- steps ---------------------------------------------------------------------------------

    def at(self, at_us: int, clock_ms: int | None) -> None:
        """Let time go on to that point."""
        self.clock_ms = clock_ms
        if at_us > self.now_us:
            self.now_us = at_us
            self.step(ev.Tick())

    def request(self, data: bytes) -> int:
        """Let a request come in, on a connection of its own."""
        self._token += 1
        line = self._lines[self._token] = _Line(self.config.listeners[0])
        self.service.received(cast("ServerConnection", line), data)
        return self._token

    def reply(self, token: int) -> bytes | None:
        """Let time go on until that was answered."""
        line = self._lines.pop(token)
        self._wait(lambda: line.is_done, "does not answer")
        return line.answer

    def answer(self, answer: NodeAnswer) -> None:
        """Let time go on until it asks, and answer."""
        self._wait(lambda: self._pending_of(answer) is not None, f"does not ask {answer.api}")
        pending = self._pending_of(answer)
        assert pending is not None
        del self.pending[pending.request_id]
        reply = self.profile.decode_reply(
            pending.request, answer.version, bytes.fromhex(answer.hex)
        )
        self.step(ev.ReplyReceived(pending.request_id, reply))

    def append(self, append: NodeAppend) -> None:
        """Let the state machine ask for it, and let the batch be written."""
        end = append.base_offset + len(append.records)
        if self.core.log.end_offset != append.base_offset:
            raise ValueError(f"its log ends at {self.core.log.end_offset}")
        records = tuple(bytes.fromhex(record) for record in append.records)
        self.step(ev.AppendRequested(1, self.core.epoch, records))
        self._wait(lambda: self.storage.log.end_offset >= end, "appends nothing")

    def settle(self, role: str | None) -> None:
        """Hold that it is what it should be."""
        if role is not None and self.core.role.name != role:
            raise ValueError(f"its role is {self.core.role.name}, not {role}")

    async def unregister(self, controller_id: int) -> None:
        """Nobody awaits it: what refuses it answers first, in every vector.

        A vector that unregistered a controller would fail, as there is no event loop here.
        """
        raise NotImplementedError

    def post(self, event: ev.Event) -> None:
        """Take an event of the service's, at once."""
        self.step(event)

    # ---- inside --------------------------------------------------------------------------------

    def _pending_of(self, answer: NodeAnswer) -> fx.Ask | None:
        for pending in self.pending.values():
            name = self.profile.api_of(pending.request).name
            if (name, pending.node.port) == (answer.api, answer.port):
                return pending
        return None

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(TICKS_MAX):
            if condition():
                return
            deadline_us = self.core.next_deadline_us()
            if deadline_us >= NEVER_US:
                break
            self.now_us = max(self.now_us, deadline_us)
            self.step(ev.Tick())
        if not condition():
            raise TimeoutError(f"the node {what}; it is {self.core.role.name}")

    # ---- what differs from a node on a real machine ----------------------------------------------

    def clock_us(self) -> int:
        """The time that the vector has come to."""
        return self.now_us

    def _wall_ms(self, core_ms: int) -> int:
        return core_ms if self.clock_ms is None else self.clock_ms

    def on_append_records(self, effect: fx.AppendRecords) -> None:
        """Append at the time that the vector says."""
        effect.timestamp_ms = self._wall_ms(effect.timestamp_ms)
        super().on_append_records(effect)

    def on_append_control(self, effect: fx.AppendControl) -> None:
        """Append at the time that the vector says."""
        effect.timestamp_ms = self._wall_ms(effect.timestamp_ms)
        super().on_append_control(effect)

    def on_ask(self, effect: fx.Ask) -> None:
        """Keep the request until the vector answers it."""
        self.pending[effect.request_id] = effect

    def on_drop_connection(self, effect: fx.DropConnection) -> None:
        """Forget the requests to that node."""
        self.pending = {
            key: pending for key, pending in self.pending.items() if pending.node != effect.node
        }

    def on_answer(self, effect: fx.Answer) -> None:
        """Answer by the node's own service."""
        self.service.answer(effect)

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        """Answer by the node's own service."""
        self.service.upgraded(effect)


def _write(files: MemoryFiles, path: str, data: bytes) -> None:
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts) + 1):
        directory = "/" + "/".join(parts[:count])
        with suppress(FileExistsError):
            files.make_directory(directory)
    file = files.open(path, create=True)
    file.write_at(0, data)
    file.close()


def _config(state: NodeState) -> NodeConfig:
    """Return the configuration that Kafka's properties of a state say."""
    properties = state.properties or {}
    node_properties = {
        **properties,
        "listeners": properties.get("advertised.listeners", ""),
        "log.dirs": DIRECTORY,
    }
    with tempfile.TemporaryDirectory(prefix="kraftspec-node-") as directory:
        path = Path(directory) / "node.properties"
        path.write_text(render_properties(node_properties))
        config = load_config(path)
    return config.of_directory(meta_of(state))
