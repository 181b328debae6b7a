"""The reference node in the state of a node vector: core and storage, on files in memory.

Time is virtual: it goes on only where somebody waits for an answer, or for the node to ask. Its
election time-outs are the shortest there are, so that waiting for it is never long.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kraftspec.conformance.exchanges.disk import files_of, meta_of
from kraftspec.conformance.raw.node import NodeAnswer, NodeAppend, NodeState
from kraftspec.conformance.simulation.disk import MemoryFiles
from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.log.properties import render_properties
from kraftspec.reference.node.apis import unsupported_api_versions
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.frames import (
    API_VERSIONS_KEY,
    SIZE_BYTES,
    peek_api,
    read_request_head,
    response_frame,
)
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.raft import Config, Core
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import (
    Api,
    ApiVersionsReply,
    FetchReply,
    FetchSnapshotReply,
    Request,
)
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.storage import Storage

DIRECTORY = "/data"
LISTENER = "CONTROLLER"
TICKS_MAX = 1_000  # More than any wait of a vector takes.


class _Shortest:
    """Random numbers that are all 0."""

    def getrandbits(self, k: int, /) -> int:
        return 0


class _Asked(NamedTuple):
    """A request that is not answered yet."""

    api: Api
    version: int
    data: bytes
    request: Request


class ReferenceNode:
    """See the module."""

    writes_by_itself = False

    def restore(self, state: NodeState) -> None:
        """Write the files, recover, and start."""
        files = MemoryFiles()
        for name, data in files_of(state).items():
            _write(files, f"{DIRECTORY}/{name}", data)
        self.profile = KafkaProfile(LISTENER)
        config = _config(state)
        self.storage = Storage.open(DIRECTORY, self.profile, config, files=files)
        self.core = Core(
            config,
            self.profile.policy,
            self.storage.log_state(config.voters),
            self.storage.election,
            _Shortest(),
        )
        self.now_us = 0
        self.clock_ms: int | None = state.clock_ms or None
        self.asked: dict[int, fx.Ask] = {}
        self._token = 0
        self._requests: dict[int, _Asked] = {}
        self._replies: dict[int, bytes | None] = {}
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
        """Let a request come in; as the node's server, hang up on what is none."""
        self._token += 1
        token = self._token
        key, version = peek_api(data)
        api = self.profile.apis.get(key)
        self._replies[token] = None
        if api is None:
            return token
        if not api.min_version <= version <= api.max_version:
            if key == API_VERSIONS_KEY:
                body = unsupported_api_versions(api)
                self._replies[token] = _frame(api, 0, data, body)
            return token
        try:
            head = read_request_head(data, version >= api.first_flexible_version)
            request = self.profile.decode_request(key, version, data[head.body_at :])
        except CodecError:
            return token
        del self._replies[token]
        self._requests[token] = _Asked(api, version, data, request)
        self._step(ev.RequestReceived(token, request))
        return token

    def reply(self, token: int) -> bytes | None:
        """Let time go on until that was answered."""
        self._wait(lambda: token in self._replies, "does not answer")
        return self._replies.pop(token)

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
                self._answer(effect)
            case fx.DropConnection():
                self.asked = {
                    key: asked for key, asked in self.asked.items() if asked.node != effect.node
                }
            case _:
                storage.carry_out(effect)

    def _clock(self, core_ms: int) -> int:
        return core_ms if self.clock_ms is None else self.clock_ms

    def _answer(self, effect: fx.Answer) -> None:
        asked = self._requests.pop(effect.token)
        reply = effect.reply
        if isinstance(reply, FetchReply | FetchSnapshotReply):
            self.storage.fill(reply)
        elif isinstance(reply, ApiVersionsReply) and not reply.error:
            reply.apis = tuple(self.profile.apis.values())
        body = self.profile.encode_reply(asked.request, reply, asked.version, LISTENER)
        self._replies[effect.token] = _frame(asked.api, asked.version, asked.data, body)


def _frame(api: Api, version: int, request: bytes, body: bytes) -> bytes:
    """Return the answer to a request, without the size before it."""
    correlation_id = int.from_bytes(request[4:8], "big", signed=True)
    return response_frame(api, version, correlation_id, body)[SIZE_BYTES:]


def _write(files: MemoryFiles, path: str, data: bytes) -> None:
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts) + 1):
        directory = "/" + "/".join(parts[:count])
        with suppress(FileExistsError):
            files.make_directory(directory)
    file = files.open(path, create=True)
    file.write_at(0, data)
    file.close()


def _config(state: NodeState) -> Config:
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
    return config.of_directory(meta_of(state)).core
