"""Three nodes in one process, each with a log directory of its own on this machine's disk.

Everything is the reference node's own but sockets: cores, the profile's bytes for each request and
reply, ``Storage`` on ``LocalFiles``. One thread runs the three cores, as an event loop would. Each
node has a second one that does nothing but sync its log: while a sync is under way appends go on,
and the next one serves whatever came meanwhile.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.host import Host
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import Config, ReplicaKey, RoleName, Voter, VoterSet
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.types import Endpoint
from kraftspec.reference.storage import Storage

LISTENER = "CONTROLLER"
CLUSTER_ID = "YtGxSdNvQRG40ENstXFRtw"
PORT_BASE = 9000
PATIENCE_S = 600.0
BATCHES = {1: 400, 100: 400, 1_000: 40}  # A round, by records a batch.

Records = tuple[bytes, ...]


def batches_of(count: int, at: int) -> Iterator[Records]:
    """Yield what is appended in a round: no record is like another."""
    for batch in range(BATCHES[count]):
        yield tuple(b"%06d %06d %06d" % (at, batch, number) + bytes(80) for number in range(count))


class QuorumError(Exception):
    """The quorum did not do what it was started for."""


class Node(Host):
    """A host whose disk is a thread that syncs."""

    def __init__(self, quorum: Quorum, config: Config, path: str) -> None:
        super().__init__()
        self.quorum = quorum
        self.id = config.node_id
        self.profile = quorum.profile
        self.storage = Storage.open(path, self.profile, config)
        self.core = self.storage.make_core(config, random.Random(config.node_id))
        self.flushed: list[int] = []  # The end offset of each sync.
        self._to_sync: SimpleQueue[fx.FlushLog | None] = SimpleQueue()
        self._requests: dict[int, tuple[Request, int]] = {}
        self._answering: dict[int, tuple[Node, int, Request, int]] = {}
        self._token = 0
        self._thread = threading.Thread(target=self._sync, name=f"sync {self.id}")
        self._thread.start()

    def close(self) -> None:
        """End the thread, and leave the directory as after a clean stop."""
        self._to_sync.put(None)
        self._thread.join()
        self.storage.close()

    def clock_us(self) -> int:
        """The clock of all nodes."""
        return self.quorum.now_us()

    # ---- group commit --------------------------------------------------------------------------

    def begin_sync(self) -> None:
        """Begin after this turn, so that the sync serves the whole of it."""
        self.is_syncing = True
        self.quorum.due.append(lambda: self._to_sync.put(self.take_flush()))

    def _sync(self) -> None:
        """Run the node's second thread."""
        while (effect := self._to_sync.get()) is not None:
            try:
                self.quorum.call(partial(self._synced, self.storage.flush(effect)))
            except BaseException as error:
                self.quorum.call(partial(_throw, error))
                return

    def _synced(self, event: ev.LogFlushed) -> None:
        self.flushed.append(event.end_offset)
        self.synced(event)
        self.step(event)

    # ---- messages ------------------------------------------------------------------------------

    def on_ask(self, effect: fx.Ask) -> None:
        """Send it as the profile's bytes."""
        request = effect.request
        api = self.profile.api_of(request)
        body = self.profile.encode_request(request, api.max_version)
        self._requests[effect.request_id] = (request, api.max_version)
        target = self.quorum.nodes[effect.node.port - PORT_BASE]
        self.quorum.due.append(
            partial(target._receive, self, effect.request_id, api.key, api.max_version, body)
        )

    def _receive(self, source: Node, id: int, api_key: int, version: int, body: bytes) -> None:
        request = self.profile.decode_request(api_key, version, body)
        self._token += 1
        self._answering[self._token] = (source, id, request, version)
        self.step(ev.RequestReceived(self._token, request))

    def send_answer(self, token: int, reply: Reply) -> None:
        """Send it as the profile's bytes."""
        source, id, request, version = self._answering.pop(token)
        body = self.profile.encode_reply(request, reply, version, LISTENER)
        self.quorum.due.append(partial(source._answered, id, body))

    def _answered(self, request_id: int, body: bytes) -> None:
        request, version = self._requests.pop(request_id)
        reply = self.profile.decode_reply(request, version, body)
        self.step(ev.ReplyReceived(request_id, reply))

    # ---- the client ----------------------------------------------------------------------------

    def on_appended(self, effect: fx.Appended) -> None:
        """Give the client the offset of its batch."""
        self.quorum.appended(effect)

    def on_commit(self, effect: fx.Commit) -> None:
        """Give the client the high watermark."""
        self.quorum.committed(self, effect.high_watermark)

    # ---- what no quiet quorum needs ------------------------------------------------------------

    def on_truncate_log(self, effect: fx.TruncateLog) -> None:
        """A log differs: this measures nothing."""
        raise QuorumError(f"node {self.id}: {effect!r}")

    def on_begin_snapshot(self, effect: fx.BeginSnapshot) -> None:
        """A log lacks its start: this measures nothing."""
        raise QuorumError(f"node {self.id}: {effect!r}")

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        """Another leads: this measures nothing."""
        raise QuorumError(f"node {self.id}: {effect!r}")

    def on_drop_connection(self, effect: fx.DropConnection) -> None:
        """A node did not answer: this measures nothing."""
        raise QuorumError(f"node {self.id}: {effect!r}")


def _throw(error: BaseException) -> None:
    raise error


class Quorum:
    """Three voters, and a client that keeps some batches on their way.

    ``due`` is what the thread of the cores has to do next. A batch is acknowledged when the leader
    says that it is committed; ``latencies_s`` has how long each took since it was given, and
    ``base_offsets`` where each is.
    """

    def __init__(self, directory: Path, *, in_flight: int) -> None:
        self.profile = KafkaProfile(LISTENER)
        self.due: deque[Callable[[], None]] = deque()
        self.nodes: dict[int, Node] = {}
        self.in_flight = in_flight
        self.latencies_s: list[float] = []
        self.base_offsets: list[int] = []
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._to_give: deque[Records] = deque()
        self._waiting: deque[tuple[int, float]] = deque()  # Last offset, when it was given.
        self._given_s = 0.0
        self._leader: Node | None = None
        try:
            for config in _configurations():
                path = directory / str(config.node_id)
                LogDirectory.format(
                    str(path),
                    MetaProperties(
                        cluster_id=CLUSTER_ID,
                        node_id=config.node_id,
                        directory_id=config.directory_id,
                    ),
                )
                self.nodes[config.node_id] = Node(self, config, str(path))
            for node in self.nodes.values():
                node.step(ev.Start())
            self._run(self._has_leader)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Quorum:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all nodes."""
        for node in self.nodes.values():
            node.close()

    @property
    def leader(self) -> Node:
        """The node that leads."""
        assert self._leader is not None
        return self._leader

    def append(self, batches: Sequence[Records]) -> None:
        """Append batches; return once each is acknowledged, and all three logs are durable."""
        self._to_give.extend(batches)
        self._give_more()
        self._run(self._is_done)

    def settle(self) -> None:
        """Return once all nodes know that everything is committed."""
        end = self.leader.core.log.end_offset
        self._run(lambda: all(node.core.high_watermark == end for node in self.nodes.values()))

    def call(self, action: Callable[[], None]) -> None:
        """Let the thread of the cores do something. From any thread."""
        self._calls.put(action)

    @staticmethod
    def now_us() -> int:
        """The clock of all nodes."""
        return time.monotonic_ns() // 1000

    # ---- the thread of the cores ---------------------------------------------------------------

    def _run(self, is_done: Callable[[], bool]) -> None:
        due, calls = self.due, self._calls
        until_us = self.now_us() + int(PATIENCE_S * S)
        while not is_done():
            if due and calls.empty():
                due.popleft()()
                continue
            now_us = self.now_us()
            next_us = min(node.core.next_deadline_us() for node in self.nodes.values())
            if now_us > until_us:
                raise QuorumError(f"nothing more came of it in {PATIENCE_S:.0f} s")
            try:
                calls.get(timeout=max(0, min(next_us, until_us) - now_us) / S)()
            except Empty:
                for node in self.nodes.values():
                    node.step(ev.Tick())

    def _has_leader(self) -> bool:
        leaders = [node for node in self.nodes.values() if node.core.role.name is RoleName.LEADER]
        self._leader = leaders[0] if leaders else None
        return self._leader is not None and self._leader.core.high_watermark >= 0

    def _is_done(self) -> bool:
        if self._to_give or self._waiting:
            return False
        end = self.leader.core.log.end_offset
        return all(node.core.log.flushed_offset == end for node in self.nodes.values())

    # ---- the client ----------------------------------------------------------------------------

    def _give_more(self) -> None:
        leader = self.leader
        while self._to_give and len(self._waiting) < self.in_flight:
            self._given_s = time.perf_counter()
            records = self._to_give.popleft()
            leader.step(ev.AppendRequested(len(self.base_offsets), leader.core.epoch, records))

    def appended(self, effect: fx.Appended) -> None:
        """Note where a batch will be."""
        self.base_offsets.append(effect.base_offset)
        self._waiting.append((effect.last_offset, self._given_s))

    def committed(self, node: Node, high_watermark: int) -> None:
        """Acknowledge what is committed, and let as much follow."""
        if node is not self._leader:
            return
        now_s = time.perf_counter()
        waiting = self._waiting
        while waiting and waiting[0][0] < high_watermark:
            self.latencies_s.append(now_s - waiting.popleft()[1])
        if self._to_give:
            self.due.append(self._give_more)


def _configurations() -> list[Config]:
    endpoints = {id: (Endpoint(LISTENER, "localhost", PORT_BASE + id),) for id in (1, 2, 3)}
    voters = VoterSet(Voter(ReplicaKey(id, ZERO_UUID), endpoints[id]) for id in endpoints)
    return [
        Config(
            cluster_id=CLUSTER_ID,
            node_id=id,
            directory_id=Uuid(bytes([*range(15), id])),
            endpoints=endpoints[id],
            voters=voters,
            election_timeout_us=100 * MS,
            # A disk that others use may keep a node for seconds.
            fetch_timeout_us=30 * S,
            request_timeout_us=30 * S,
            append_linger_us=0,
        )
        for id in endpoints
    ]
