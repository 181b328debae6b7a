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

from kraftspec.conformance.exchanges.disk import files_of, meta_of
from kraftspec.conformance.raw.node import NodeAnswer, NodeAppend, NodeState
from kraftspec.conformance.simulation.disk import MemoryFiles
from kraftspec.reference.log.properties import render_properties
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.frames import SIZE_BYTES
from kraftspec.reference.node.oddities import Oddities
from kraftspec.reference.node.security.gate import Gate, Session
from kraftspec.reference.node.service import Service
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.storage import Storage

if TYPE_CHECKING:
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.node.server import ServerConnection
    from kraftspec.reference.node.settings import Listener, NodeConfig

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


class ReferenceNode:
    """See the module."""

    writes_by_itself = False

    def restore(self, state: NodeState) -> None:
        """Write the files, recover, and start."""
        files = MemoryFiles()
        for name, data in files_of(state).items():
            _write(files, f"{DIRECTORY}/{name}", data)
        self.profile = KafkaProfile(LISTENER)
        self.config = _config(state)
        config = self.config.core
        self.storage = Storage.open(DIRECTORY, self.profile, config, files=files)
        self.gate = Gate(self.config)
        self.oddities = Oddities(config.node_id)
        self.service = Service(cast("Node", self))  # Of a node it needs what is here.
        self.core = self.storage.make_core(config, _Shortest())
        self.now_us = 0
        self.clock_ms: int | None = state.clock_ms or None
        self.asked: dict[int, fx.Ask] = {}
        self._token = 0
        self._lines: dict[int, _Line] = {}
        self._flush: fx.FlushLog | None = None
        self._step(ev.Start())
        self.settle(state.role)

    def close(self) -> None:
        """Forget it all: what it has is in memory."""

    # ---- steps ---------------------------------------------------------------------------------

    def at(self, at_us: int, clock_ms: int | None) -> None:
        """Let time go on to that point."""
        self.clock_ms = clock_ms
        if at_us > self.now_us:
            self.now_us = at_us
            self._step(ev.Tick())

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
        self._wait(lambda: self._asked(answer) is not None, f"does not ask {answer.api}")
        asked = self._asked(answer)
        assert asked is not None
        del self.asked[asked.request_id]
        reply = self.profile.decode_reply(asked.request, answer.version, bytes.fromhex(answer.hex))
        self._step(ev.ReplyReceived(asked.request_id, reply))

    def append(self, append: NodeAppend) -> None:
        """Let the state machine ask for it, and let the batch be written."""
        end = append.base_offset + len(append.records)
        if self.core.log.end_offset != append.base_offset:
            raise ValueError(f"its log ends at {self.core.log.end_offset}")
        records = tuple(bytes.fromhex(record) for record in append.records)
        self._step(ev.AppendRequested(1, self.core.epoch, records))
        self._wait(lambda: self.storage.log.end_offset >= end, "appends nothing")

    def settle(self, role: str | None) -> None:
        """Hold that it is what it should be."""
        if role is not None and self.core.role.name != role:
            raise ValueError(f"its role is {self.core.role.name}, not {role}")

    def post(self, event: ev.Event) -> None:
        """Take an event of the service's, at once."""
        self._step(event)

    # ---- inside --------------------------------------------------------------------------------

    def _asked(self, answer: NodeAnswer) -> fx.Ask | None:
        for asked in self.asked.values():
            name = self.profile.api_of(asked.request).name
            if (name, asked.node.port) == (answer.api, answer.port):
                return asked
        return None

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(TICKS_MAX):
            if condition():
                return
            deadline_us = self.core.next_deadline_us()
            if deadline_us >= NEVER_US:
                break
            self.now_us = max(self.now_us, deadline_us)
            self._step(ev.Tick())
        if not condition():
            raise TimeoutError(f"the node {what}; it is {self.core.role.name}")

    def _step(self, event: ev.Event) -> None:
        """Take a step, and one more for each flush that it asks for: this disk is quick."""
        for effect in self.core.step(event, self.now_us):
            self._carry_out(effect)
        if self._flush is not None:
            wanted, self._flush = self._flush, None
            self._step(self.storage.flush(wanted))

    def _carry_out(self, effect: fx.Effect) -> None:
        storage = self.storage
        match effect:
            case fx.PersistElection():
                storage.persist_election(effect)
            case fx.TruncateLog():
                storage.truncate(effect.end_offset)
            case fx.ResetLog():
                storage.reset(effect.snapshot_id)
            case fx.AppendRecords():
                effect.timestamp_ms = self._clock(effect.timestamp_ms)
                storage.append_records(effect)
            case fx.AppendControl():
                effect.timestamp_ms = self._clock(effect.timestamp_ms)
                storage.append_control(effect)
            case fx.AppendBatches():
                for batch in effect.batches:
                    storage.append_batch(batch)
            case fx.FlushLog():
                self._flush = effect
            case fx.Ask():
                self.asked[effect.request_id] = effect
            case fx.Answer():
                self.service.answer(effect)
            case fx.UpgradeAnswered():
                self.service.upgraded(effect)
            case fx.DropConnection():
                self.asked = {
                    key: asked for key, asked in self.asked.items() if asked.node != effect.node
                }
            case _:
                storage.carry_out(effect)

    def _clock(self, core_ms: int) -> int:
        return core_ms if self.clock_ms is None else self.clock_ms


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
    said = {
        **properties,
        "listeners": properties.get("advertised.listeners", ""),
        "log.dirs": DIRECTORY,
    }
    with tempfile.TemporaryDirectory(prefix="kraftspec-node-") as directory:
        path = Path(directory) / "node.properties"
        path.write_text(render_properties(said))
        config = load_config(path)
    return config.of_directory(meta_of(state))
