"""A network, disks and clocks in memory, for a few nodes: just enough of a shell for the core.

Time moves only when a test lets it. Messages arrive at once and in order, unless their link is cut.
Effects are carried out as `kraftspec.reference.raft.effects` demands, and what a node has on its
disk is kept apart from the core, so that a test can crash and restart it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kraftspec.fastpath import control_record_key, decode_batch, encode_batch
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.profiles.kafka import KafkaProfile
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

CLUSTER = "a-cluster"
LISTENER = "CONTROLLER"
START_US = 1_000_000_000
SNAPSHOT_BYTES = 30
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


class Disk:
    """What survives a crash, and, above ``synced``, what may not: real batches, and snapshots."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.election: ElectionState | None = None
        self.rest: Any = None  # What quorum-state keeps for the policy.
        self.start = 0
        self.batches: list[ms.Batch] = []
        self.synced = 0
        self.snapshots: dict[SnapshotId, tuple[int, VoterSet | None]] = {}

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
        self.append(*read_batches(data, self.profile.decode_control))

    def append(self, *batches: ms.Batch) -> None:
        for batch in batches:
            assert batch.base_offset == self.end, (batch.base_offset, self.end)
            self.batches.append(batch)

    def append_control(self, effect: fx.AppendControl) -> None:
        encoded = [self.profile.encode_control(record) for record in effect.records]
        keys = [control_record_key(kind) for kind, _ in encoded]
        self.append_values(effect.epoch, effect.base_offset, [v for _, v in encoded], keys)

    def truncate(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last_offset < end]
        assert self.end == end, (self.end, end)
        self.synced = min(self.synced, end)

    def reset(self, snapshot: SnapshotId) -> None:
        self.batches.clear()
        self.start = self.synced = snapshot.end_offset
        self._forget(snapshot)

    def delete_before(self, snapshot: SnapshotId) -> None:
        self.batches = [b for b in self.batches if b.base_offset >= snapshot.end_offset]
        self.start = snapshot.end_offset
        self._forget(snapshot)

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


class Replica:
    """One node: a core, its disk, and what its state machine was told."""

    def __init__(self, net: Network, config: Config, policy: Policy, seed: int) -> None:
        self.net = net
        self.config = config
        self.policy = policy
        self.seed = seed
        self.disk = Disk(net.profile)
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
        self.flushes: list[fx.FlushLog] = []
        self.effects: list[fx.Effect] = []
        self.told: list[tuple[int, int]] = []
        self.commits: list[int] = []
        self.partial: bytearray = bytearray()
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

    def step(self, event: ev.Event) -> list[fx.Effect]:
        effects = self.core.step(event, self.net.now_us)
        self.effects += effects
        for effect in effects:
            self._carry_out(effect)
        return effects

    def flush(self) -> None:
        flushes, self.flushes = self.flushes, []
        for flush in flushes:
            if flush.generation == self.core.log_generation:
                self.disk.synced = max(self.disk.synced, min(flush.end_offset, self.disk.end))
            self.step(ev.LogFlushed(flush.end_offset, flush.generation))

    def _carry_out(self, effect: fx.Effect) -> None:
        disk = self.disk
        net = self.net
        match effect:
            case fx.PersistElection():
                disk.election = effect.state
                disk.rest = effect.rest
            case fx.TruncateLog():
                assert effect.end_offset < disk.end
                disk.truncate(effect.end_offset)
            case fx.AppendRecords():
                disk.append_values(
                    effect.epoch, effect.base_offset, [bytes(value) for value in effect.records]
                )
            case fx.AppendControl():
                disk.append_control(effect)
            case fx.AppendBatches():
                disk.append(*effect.batches)
            case fx.FlushLog():
                self.flushes.append(effect)
                if self.auto_flush:
                    net.later(self, self.flush)
            case fx.Ask():
                net.send(self, effect)
            case fx.Answer():
                self._fill(effect.reply)
                net.answer(self, effect)
            case fx.Commit():
                self.commits.append(effect.high_watermark)
            case fx.LeaderChanged():
                self.told.append((effect.epoch, effect.leader_id))
            case fx.ResetLog():
                disk.reset(effect.snapshot_id)
            case fx.DeleteBefore():
                disk.delete_before(effect.snapshot_id)
            case fx.WriteSnapshot():
                disk.snapshots[effect.id] = (effect.kraft_version, effect.voters)
                stored = ev.SnapshotStored(effect.id, SNAPSHOT_BYTES)
                net.later(self, lambda: self.step(stored))
            case fx.BeginSnapshot():
                self.partial = bytearray()
            case fx.ExtendSnapshot():
                assert effect.position == len(self.partial)
                self.partial += effect.data
            case fx.FinishSnapshot():
                net.later(self, lambda: self._store(effect.id))
            case _:
                pass

    def _store(self, id: SnapshotId) -> None:
        """Finish a fetched snapshot: its bytes stand for what the one that wrote it put there."""
        assert bytes(self.partial) == snapshot_bytes(id)
        level, voters = next(
            r.disk.snapshots[id] for r in self.net.replicas.values() if id in r.disk.snapshots
        )
        self.disk.snapshots[id] = (level, voters)
        self.step(ev.SnapshotStored(id, len(self.partial), 0, level or None, voters))

    def _fill(self, reply: ms.Reply) -> None:
        if isinstance(reply, ms.FetchReply) and reply.read_offset >= 0:
            reply.records = self.disk.read(reply.read_offset)
        if isinstance(reply, ms.FetchSnapshotReply) and reply.read_max_bytes:
            id = SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch)
            end = reply.position + min(reply.read_max_bytes, SNAPSHOT_CHUNK)
            reply.data = snapshot_bytes(id)[reply.position : end]


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
        replica.disk.snapshots = dict(snapshots or {})
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

    def answer(self, replica: Replica, answer: fx.Answer) -> None:
        waiting = self._tokens.pop(answer.token, None)
        if waiting is None:
            self.answers[answer.token] = answer.reply
            return
        source, request_id, request, version = waiting
        if (replica.config.node_id, source.config.node_id) in self.cut:
            return
        body = self.profile.encode_reply(request, answer.reply, version, LISTENER)
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
