"""A network, disks and clocks in memory, for a few nodes: just enough of a host for the core.

Time moves only when a test lets it. Messages arrive at once and in order, unless their link is cut.
A node is a `Host`; what is on its disk is kept apart from the core, so that a test can crash and
restart it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kraftspec.fastpath import control_record_key, decode_batch, encode_batch
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.host import Host
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.campaign import Campaign
from kraftspec.reference.raft.config import MS, Config
from kraftspec.reference.raft.control import KRaftVersion
from kraftspec.reference.raft.core import Core
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    ElectionState,
    Endpoint,
    Node,
    ReplicaKey,
    RoleName,
    Snapshot,
    SnapshotId,
    VersionRange,
    Voter,
)
from kraftspec.reference.raft.voters import History, VoterSet
from kraftspec.reference.storage import Storage

CLUSTER = "a-cluster"
LISTENER = "CONTROLLER"
START_US = 1_000_000_000
SNAPSHOT_BYTES = 30
Snapshots = dict[SnapshotId, tuple[int, VoterSet | None]]  # kraft.version and voters.
SNAPSHOT_CHUNK = 12  # A snapshot takes three requests.


def directory(node_id: int, generation: int = 0) -> Uuid:
    return Uuid(bytes([generation + 1, *([0] * 14), node_id]))


def voter(node_id: int, *, named: bool = True) -> Voter:
    """Return a voter, ``named`` by its directory too, or as ``controller.quorum.voters`` has it."""
    endpoint = Endpoint(LISTENER, f"node{node_id}", 9000 + node_id)
    if not named:
        return Voter(ReplicaKey(node_id, ZERO_UUID), (endpoint,))
    return Voter(ReplicaKey(node_id, directory(node_id)), (endpoint,), VersionRange(0, 1))


def config(node_id: int, voters: VoterSet, **changes: Any) -> Config:
    own = voter(node_id)
    contacts = tuple(Node(v.key.id, f"node{v.key.id}", 9000 + v.key.id) for v in voters)
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "node_id": node_id,
        "directory_id": own.key.directory_id,
        "endpoints": own.endpoints,
        "voters": voters,
        "bootstrap_servers": contacts,
        "append_linger_us": 0,
    }
    return Config(**{**values, **changes})


class Disk(Storage):
    """A storage in lists, durable to ``synced``; ``shared`` are the snapshots of all nodes."""

    election: ElectionState | None = None

    def __init__(self, profile: Profile, shared: Snapshots) -> None:
        self.profile = profile
        self.shared = shared
        self.rest: Any = None  # What quorum-state keeps for the policy.
        self.start = 0
        self.batches: list[ms.Batch] = []
        self.synced = 0
        self.snapshots: Snapshots = {}
        self.partial: bytearray = bytearray()

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start

    def append_values(
        self, epoch: int, base_offset: int, values: list[bytes], keys: list[bytes] | None = None
    ) -> None:
        data = encode_batch(
            values,
            keys=keys,
            timestamps=0,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
            control=keys is not None,
        )
        self.append_batches(read_batches(data, self.profile.decode_control))

    def persist_election(self, effect: fx.PersistElection) -> None:
        self.election, self.rest = effect.state, effect.rest

    def name_cluster(self, cluster_id: str) -> None:
        """A node's configuration has it already."""

    def append_batches(self, batches: Sequence[ms.Batch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end, (batch.base_offset, self.end)
            self.batches.append(batch)

    def append_records(self, effect: fx.AppendRecords) -> None:
        self.append_values(effect.epoch, effect.base_offset, [*map(bytes, effect.records)])

    def append_control(self, effect: fx.AppendControl) -> None:
        encoded = [self.profile.encode_control(record) for record in effect.records]
        keys = [control_record_key(kind) for kind, _ in encoded]
        self.append_values(effect.epoch, effect.base_offset, [v for _, v in encoded], keys)

    def flush(self, effect: fx.FlushLog) -> ev.LogFlushed:
        self.synced = self.end
        return ev.LogFlushed(self.end, effect.generation)

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last_offset < end_offset]
        assert self.end == end_offset, (self.end, end_offset)
        self.synced = min(self.synced, end_offset)

    def reset(self, snapshot_id: SnapshotId) -> None:
        self.batches.clear()
        self.start = self.synced = snapshot_id.end_offset
        self._forget(snapshot_id)

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        self.batches = [b for b in self.batches if b.base_offset >= snapshot_id.end_offset]
        self.start = snapshot_id.end_offset
        self._forget(snapshot_id)

    def fill(self, reply: ms.Reply) -> None:
        if isinstance(reply, ms.FetchReply) and reply.read_offset >= 0:
            reply.records = self.read(reply.read_offset)
        if isinstance(reply, ms.FetchSnapshotReply) and reply.read_max_bytes:
            id = SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch)
            end = reply.position + min(reply.read_max_bytes, SNAPSHOT_CHUNK)
            reply.data = snapshot_bytes(id)[reply.position : end]

    def write_snapshot(
        self, effect: fx.WriteSnapshot, values: Sequence[bytes], timestamp_ms: int
    ) -> ev.SnapshotStored:
        self.snapshots[effect.id] = self.shared[effect.id] = (effect.kraft_version, effect.voters)
        return ev.SnapshotStored(effect.id, SNAPSHOT_BYTES)

    def extend_snapshot(self, effect: fx.ExtendSnapshot) -> None:
        assert effect.position == len(self.partial)
        self.partial += effect.data

    def abandon_snapshot(self, _: SnapshotId | None = None) -> None:
        self.partial = bytearray()

    def begin_snapshot(self, snapshot_id: SnapshotId) -> None:
        self.partial = bytearray()

    def finish_snapshot(self, snapshot_id: SnapshotId) -> ev.SnapshotStored:
        """Finish a fetched snapshot: its bytes stand for what the one that wrote it put there."""
        assert bytes(self.partial) == snapshot_bytes(snapshot_id)
        level, voters = self.snapshots[snapshot_id] = self.shared[snapshot_id]
        return ev.SnapshotStored(snapshot_id, len(self.partial), 0, level or None, voters)

    def _forget(self, snapshot: SnapshotId) -> None:
        self.snapshots = {id: held for id, held in self.snapshots.items() if id >= snapshot}

    def read(self, offset: int) -> bytes:
        return b"".join(bytes(b.data) for b in self.batches if b.last_offset >= offset)

    def values(self) -> list[bytes | None]:
        """What the state machine would see of the log."""
        return [
            record.value
            for batch in self.batches
            if not batch.control
            for record in decode_batch(batch.data)
        ]

    def recover(self, static: VoterSet) -> LogState:
        policy = self.profile.policy
        voters: History[VoterSet] = History(static)
        levels: list[tuple[int, int]] = []
        newest = max(self.snapshots, key=lambda id: (id.epoch, id.end_offset), default=None)
        if newest is not None and newest.end_offset > self.end:
            self.reset(newest)  # Its records were committed, and had not been synced here.
        if newest is not None:
            level, known = self.snapshots[newest]
            if known is not None:
                voters.put(newest.end_offset - 1, known)
            if level:
                levels.append((newest.end_offset - 1, level))
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            if not epochs or batch.epoch > epochs[-1][0]:
                epochs.append((batch.epoch, batch.base_offset))
            for offset, record in batch.control:
                if newest is not None and offset < newest.end_offset:
                    continue
                changed = policy.folded(record, voters.last)
                if changed is not None:
                    voters.put(offset, changed)
                elif isinstance(record, KRaftVersion):
                    levels.append((offset, record.level))
        return LogState(
            start_offset=self.start,
            end_offset=self.end,
            epochs=epochs,
            snapshots=[Snapshot(id, size=SNAPSHOT_BYTES) for id in self.snapshots],
            voters=voters.entries(),
            kraft_versions=levels,
            static_voters=static,
        )


class Watched(Core):
    """A core whose changes of role are written down, several in one step too."""

    __slots__ = ("moves",)

    moves: list[tuple[RoleName, Cause, RoleName]]

    def move(self, cause: Cause, **facts: Any) -> None:
        before = self.role.name
        target = self.policy.transitions[before].get(cause)
        if target is not None:
            self.moves.append((before, cause, target))
        super().move(cause, **facts)


class Replica(Host):
    """One node: a core, its disk, and what its state machine was told."""

    core: Watched

    def __init__(self, net: Network, config: Config, policy: Policy, seed: int) -> None:
        super().__init__()
        self.net = net
        self.config = config
        self.policy = policy
        self.seed = seed
        self.storage = self.disk = Disk(net.profile, net.snapshots)
        self.moves: list[tuple[RoleName, Cause, RoleName]] = []
        self.up = False
        self.auto_flush = True

    def start(self) -> None:
        self.core = Watched(
            self.config,
            self.policy,
            self.disk.recover(self.config.voters),
            self.disk.election,
            random.Random(self.seed),
            self.disk.rest,
        )
        self.core.moves = self.moves
        self.begin_incarnation()
        self.effects: list[fx.Effect] = []
        self.reported_leaders: list[tuple[int, int]] = []
        self.commits: list[int] = []
        self.up = True
        self.step(ev.Start())

    def crash(self) -> None:
        self.disk.truncate(max(self.disk.synced, self.disk.start))
        self.up = False

    def restart(self) -> None:
        self.seed += 1
        self.start()

    @property
    def role(self) -> RoleName:
        return self.core.role.name

    @property
    def leading(self) -> Leader:
        assert isinstance(self.core.role, Leader)
        return self.core.role

    @property
    def following(self) -> Follower:
        assert isinstance(self.core.role, Follower)
        return self.core.role

    @property
    def campaigning(self) -> Campaign:
        assert isinstance(self.core.role, Campaign)
        return self.core.role

    def step(self, event: ev.Event) -> list[fx.Effect]:  # type: ignore[override] # For tests.
        effects = self.core.step(event, self.net.now_us)
        self.effects += effects
        self.carry_out(effects)
        while self.upcoming:
            self.step(self.upcoming.popleft())
        return effects

    def begin_sync(self) -> None:
        if self.auto_flush:
            self.net.later(self, self.flush)

    def flush(self) -> None:
        if self.flush_wanted is not None:
            self.step(self.sync())

    def clock_us(self) -> int:
        return self.net.now_us

    def on_ask(self, effect: fx.Ask) -> None:
        self.net.send(self, effect)

    def send_answer(self, token: int, reply: ms.Reply) -> None:
        self.net.answer(self, token, reply)

    def on_commit(self, effect: fx.Commit) -> None:
        self.commits.append(effect.high_watermark)

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        self.reported_leaders.append((effect.epoch, effect.leader_id))


def snapshot_bytes(id: SnapshotId) -> bytes:
    return repr(tuple(id)).encode().ljust(SNAPSHOT_BYTES, b".")


class Network:
    """Nodes, and links that can be cut. What is said crosses them as the profile's bytes.

    ``versions`` are the highest that everybody speaks, by API name, where it is not the newest.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self.now_us = START_US
        self.profile = profile or KafkaProfile()
        self.versions: dict[str, int] = {}
        self.replicas: dict[int, Replica] = {}
        self.snapshots: Snapshots = {}
        self.cut: set[tuple[int, int]] = set()
        self.queue: deque[Callable[[], None]] = deque()
        self.sent: list[tuple[int, int, ms.Request]] = []
        self.answers: dict[int, ms.Reply] = {}
        self._tokens: dict[int, tuple[Replica, int, ms.Request, int]] = {}
        self._next_token = 1
        self.last_token = 0  # Of `ask`: below 0, and a node's own requests have those above.

    def add(
        self,
        config: Config,
        seed: int | None = None,
        snapshots: Mapping[SnapshotId, tuple[int, VoterSet | None]] | None = None,
    ) -> Replica:
        """Add a node, with these snapshots on its disk, and start it."""
        replica = Replica(
            self, config, self.profile.policy, config.node_id * 1_000 if seed is None else seed
        )
        self.replicas[config.node_id] = replica
        replica.disk.snapshots.update(snapshots or {})
        self.snapshots.update(snapshots or {})
        replica.start()
        return replica

    def later(self, replica: Replica, action: Callable[[], object]) -> None:
        core = replica.core if hasattr(replica, "core") else None

        def run() -> None:
            if replica.up and replica.core is core:
                action()

        self.queue.append(run)

    def isolate(self, node_id: int) -> None:
        for other in self.replicas:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    def send(self, source: Replica, ask: fx.Ask) -> None:
        target_id = ask.node.port - 9000
        target = self.replicas.get(target_id)
        own_id = source.config.node_id
        self.sent.append((own_id, target_id, ask.request))
        if (own_id, target_id) in self.cut or target is None or not target.up:
            return
        api = self.profile.api_of(ask.request)
        version = min(self.versions.get(api.name, api.max_version), api.max_version)
        if version < self.profile.min_version(ask.request):
            failed = ev.RequestFailed(ask.request_id, unsupported=True)
            self.later(source, lambda: source.step(failed))
            return
        body = self.profile.encode_request(ask.request, version)
        request = self.profile.decode_request(api.key, version, body)
        token = self._next_token
        self._next_token += 1
        self._tokens[token] = (source, ask.request_id, ask.request, version)
        self.later(target, lambda: target.step(ev.RequestReceived(token, request)))

    def answer(self, replica: Replica, token: int, answer: ms.Reply) -> None:
        waiting = self._tokens.pop(token, None)
        if waiting is None:
            self.answers[token] = answer
            return
        source, request_id, request, version = waiting
        if (replica.config.node_id, source.config.node_id) in self.cut:
            return
        body = self.profile.encode_reply(request, answer, version, LISTENER)
        reply = self.profile.decode_reply(request, version, body)
        self.later(source, lambda: source.step(ev.ReplyReceived(request_id, reply)))

    def ask(self, node_id: int, request: ms.Request) -> ms.Reply | None:
        """Put a question to one node, and let everything happen that follows at once."""
        token = self.last_token = self.last_token - 1
        self.replicas[node_id].step(ev.RequestReceived(token, request))
        self.settle()
        return self.answers.pop(token, None)

    def settle(self) -> None:
        """Deliver everything that is under way, without letting time pass."""
        for _ in range(100_000):
            if not self.queue:
                return
            self.queue.popleft()()
        raise AssertionError("the nodes never stop talking")

    def run(self, us: int) -> None:
        """Let time pass."""
        end_us = self.now_us + us
        self.settle()
        while True:
            alive = [r for r in self.replicas.values() if r.up]
            next_us = min((r.core.next_deadline_us() for r in alive), default=end_us)
            if not alive or next_us > end_us:
                break
            self.now_us = max(self.now_us, next_us)
            for replica in alive:
                if replica.up and replica.core.next_deadline_us() <= self.now_us:
                    replica.step(ev.Tick())
            self.settle()
        self.now_us = end_us

    @property
    def leader(self) -> Replica | None:
        """The leader of the highest epoch."""
        leaders = [r for r in self.replicas.values() if r.up and r.role is RoleName.LEADER]
        return max(leaders, key=lambda r: r.core.epoch, default=None)

    def elect(self, limit_us: int = 20_000 * MS) -> Replica:
        """Let time pass until there is a leader that has committed its epoch's start."""
        end_us = self.now_us + limit_us
        while self.now_us < end_us:
            self.run(50 * MS)
            leader = self.leader
            if leader is not None and leader.core.high_watermark >= 0:
                return leader
        raise AssertionError({r.config.node_id: r.role for r in self.replicas.values()})


def quorum(count: int = 3, *, profile: Profile | None = None, **changes: Any) -> Network:
    """Return a network of static voters 1 .. count that have not met yet (kraft.version 0)."""
    net = Network(profile)
    voters = VoterSet(voter(node_id, named=False) for node_id in range(1, count + 1))
    for node_id in voters.ids:
        net.add(config(node_id, voters, **changes))
    return net


def formatted(count: int = 3, **changes: Any) -> Network:
    """Return voters 1 .. count, formatted with a bootstrap checkpoint (kraft.version 1)."""
    net = Network()
    voters = VoterSet(voter(node_id) for node_id in range(1, count + 1))
    for node_id in voters.ids:
        checkpoint = {BOOTSTRAP_SNAPSHOT: (1, voters)}
        net.add(joiner(node_id, count, **changes), snapshots=checkpoint)
    return net


def joiner(node_id: int, servers: int = 3, **changes: Any) -> Config:
    """Return the configuration of a node that knows some servers, and no voters."""
    contacts = tuple(Node(-2 - i, f"node{i + 1}", 9001 + i) for i in range(servers))
    return config(node_id, VoterSet(), **{"bootstrap_servers": contacts, **changes})
