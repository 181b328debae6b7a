"""A network, disks and clocks in memory, for a few nodes: just enough of a shell for the core.

Time moves only when a test lets it. Messages arrive at once and in order, unless their link is cut.
Effects are carried out as `kraftspec.reference.raft.effects` demands, and what a node has on its
disk is kept apart from the core, so that a test can crash and restart it.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, Config
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.core import Core
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.types import (
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
from kraftspec.reference.raft.voters import VoterSet

CLUSTER = "a-cluster"
START_US = 1_000_000_000


def directory(node_id: int, generation: int = 0) -> Uuid:
    return Uuid(bytes([generation + 1, *([0] * 14), node_id]))


def voter(node_id: int, *, key: bool = True) -> Voter:
    endpoint = Endpoint("CONTROLLER", f"node{node_id}", 9000 + node_id)
    if not key:
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


Entry = tuple[int, Any]  # (epoch, value or control record), at index = offset - start offset


class Disk:
    """What survives a crash, and, above ``synced``, what may not."""

    def __init__(self) -> None:
        self.election: ElectionState | None = None
        self.start = 0
        self.entries: list[Entry] = []
        self.synced = 0
        self.base_offsets: dict[int, int] = {}
        self.snapshots: dict[SnapshotId, tuple[int, VoterSet | None, tuple[Entry, ...]]] = {}

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def append(self, base_offset: int, entries: list[Entry]) -> None:
        assert base_offset == self.end, (base_offset, self.end)
        for offset in range(base_offset, base_offset + len(entries)):
            self.base_offsets[offset] = base_offset
        self.entries += entries

    def truncate(self, end: int) -> None:
        del self.entries[end - self.start :]
        self.synced = min(self.synced, end)

    def reset(self, snapshot: SnapshotId) -> None:
        self.entries.clear()
        self.start = self.synced = snapshot.end_offset
        self._forget(snapshot)

    def delete_before(self, snapshot: SnapshotId) -> None:
        del self.entries[: snapshot.end_offset - self.start]
        self.start = snapshot.end_offset
        self._forget(snapshot)

    def _forget(self, snapshot: SnapshotId) -> None:
        self.snapshots = {k: v for k, v in self.snapshots.items() if k >= snapshot}

    def read(self, offset: int) -> tuple[ms.Batch, ...]:
        """Return all batches from the one that holds ``offset`` on."""
        batches = []
        while offset < self.end:
            base = self.base_offsets[offset]
            last = base
            while last + 1 < self.end and self.base_offsets[last + 1] == base:
                last += 1
            entries = self.entries[base - self.start : last + 1 - self.start]
            control = tuple(
                (base + i, value)
                for i, (_, value) in enumerate(entries)
                if isinstance(value, ControlRecord)
            )
            data = repr([value for _, value in entries]).encode()
            batch = ms.Batch(base, last, entries[0][0], data, control)
            batches.append(batch)
            self.contents[(base, entries[0][0])] = entries
            offset = last + 1
        return tuple(batches)

    contents: dict[tuple[int, int], list[Entry]] = {}  # By (base offset, epoch): bytes of all logs.

    def recover(self, static: VoterSet) -> LogState:
        voters: list[tuple[int, VoterSet]] = []
        levels: list[tuple[int, int]] = []
        for snapshot, (level, known, _) in sorted(self.snapshots.items())[-1:]:
            if known is not None:
                voters.append((snapshot.end_offset - 1, known))
            levels.append((snapshot.end_offset - 1, level))
        epochs: list[tuple[int, int]] = []
        for offset, (epoch, value) in enumerate(self.entries, self.start):
            if not epochs or epoch > epochs[-1][0]:
                epochs.append((epoch, offset))
            newest = max(self.snapshots, default=SnapshotId(0, 0)).end_offset
            if offset >= newest and isinstance(value, Voters):
                voters.append((offset, value.voters))
            if offset >= newest and isinstance(value, KRaftVersion):
                levels.append((offset, value.level))
        return LogState(
            start_offset=self.start,
            end_offset=self.end,
            epochs=epochs,
            snapshots=[Snapshot(id, size=10) for id in self.snapshots],
            voters=voters,
            kraft_versions=levels,
            static_voters=static,
        )


class Replica:
    """One node: a core, its disk, and what its state machine was told."""

    def __init__(self, net: Network, config: Config, policy: Policy, seed: int) -> None:
        self.net = net
        self.config = config
        self.policy = policy
        self.seed = seed
        self.disk = Disk()
        self.up = False
        self.auto_flush = True
        self.start()

    def start(self) -> None:
        self.core = Core(
            self.config,
            self.policy,
            self.disk.recover(self.config.voters),
            self.disk.election,
            random.Random(self.seed),
        )
        self.waiting: dict[int, tuple[int, int]] = {}
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

    def step(self, event: ev.Event) -> list[fx.Effect]:
        before = self.role
        effects = self.core.step(event, self.net.now_us)
        self.effects += effects
        if self.role is not before:
            self.net.roles.append((self.config.node_id, before, self.role))
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
            case fx.TruncateLog():
                assert effect.end_offset < disk.end
                disk.truncate(effect.end_offset)
            case fx.AppendRecords():
                disk.append(effect.base_offset, [(effect.epoch, r) for r in effect.records])
            case fx.AppendControl():
                disk.append(effect.base_offset, [(effect.epoch, r) for r in effect.records])
            case fx.AppendBatches():
                for batch in effect.batches:
                    disk.append(batch.base_offset, disk.contents[(batch.base_offset, batch.epoch)])
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
                entries = tuple(disk.entries[: effect.id.end_offset - disk.start])
                disk.snapshots[effect.id] = (effect.kraft_version, effect.voters, entries)
                net.later(self, lambda: self.step(ev.SnapshotStored(effect.id, 10)))
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
        source = next(r for r in self.net.replicas.values() if id in r.disk.snapshots)
        level, voters, entries = source.disk.snapshots[id]
        self.disk.snapshots[id] = (level, voters, entries)
        self.step(ev.SnapshotStored(id, len(self.partial), 0, level, voters))

    def _fill(self, reply: ms.Reply) -> None:
        if isinstance(reply, ms.FetchReply) and reply.read_offset >= 0:
            reply.batches = self.disk.read(reply.read_offset)
        if isinstance(reply, ms.FetchSnapshotReply) and reply.read_max_bytes:
            reply.data = bytes(min(reply.read_max_bytes, 4))


class Network:
    """Nodes, and links that can be cut."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now_us = START_US
        self.policy = policy or Policy()
        self.replicas: dict[int, Replica] = {}
        self.cut: set[tuple[int, int]] = set()
        self.queue: deque[Any] = deque()
        self.roles: list[tuple[int, RoleName, RoleName]] = []
        self.log: list[tuple[int, int, ms.Request, ms.Reply | None]] = []
        self._tokens: dict[int, tuple[Replica, int, int]] = {}
        self._next_token = 1
        self.no_pre_vote: set[int] = set()

    def add(self, config: Config, seed: int | None = None) -> Replica:
        replica = Replica(self, config, self.policy, config.node_id if seed is None else seed)
        self.replicas[config.node_id] = replica
        return replica

    def later(self, replica: Replica, action: Any) -> None:
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
        target = self.replicas.get(ask.node.id)
        own_id = source.config.node_id
        self.log.append((own_id, ask.node.id, ask.request, None))
        if (own_id, ask.node.id) in self.cut or target is None or not target.up:
            return
        if isinstance(ask.request, ms.Vote) and ask.request.pre_vote:
            if ask.node.id in self.no_pre_vote:
                failed = ev.RequestFailed(ask.request_id, unsupported=True)
                self.later(source, lambda: source.step(failed))
                return
        token = self._next_token
        self._next_token += 1
        self._tokens[token] = (source, ask.request_id, ask.node.id)
        self.later(target, lambda: target.step(ev.RequestReceived(token, ask.request)))

    def answer(self, replica: Replica, answer: fx.Answer) -> None:
        waiting = self._tokens.pop(answer.token, None)
        if waiting is None:
            self.answers[answer.token] = answer.reply
            return
        source, request_id, _ = waiting
        if (replica.config.node_id, source.config.node_id) not in self.cut:
            self.later(source, lambda: source.step(ev.ReplyReceived(request_id, answer.reply)))

    answers: dict[int, ms.Reply] = {}

    def ask(self, node_id: int, request: ms.Request) -> ms.Reply | None:
        """Put a question to one node, and let everything happen that follows at once."""
        token = -self._next_token
        self._next_token += 1
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
            if next_us > end_us:
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


def quorum(
    count: int = 3, *, policy: Policy | None = None, dynamic: bool = False, **changes: Any
) -> Network:
    """Return a network of voters 1 .. count that have not met yet."""
    net = Network(policy)
    voters = VoterSet(voter(n, key=dynamic) for n in range(1, count + 1))
    for node_id in voters.ids:
        if dynamic:
            add_formatted(net, config(node_id, VoterSet(), **contacts(voters), **changes), voters)
        else:
            net.add(config(node_id, voters, **changes))
    return net


def contacts(voters: VoterSet) -> dict[str, Any]:
    return {
        "bootstrap_servers": tuple(
            Node(-2 - i, f"node{v.key.id}", 9000 + v.key.id) for i, v in enumerate(voters)
        )
    }


def add_formatted(net: Network, config: Config, voters: VoterSet) -> Replica:
    raise NotImplementedError


__all__ = ["LeaderChange", "Network", "Replica", "add_formatted", "quorum"]
