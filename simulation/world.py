"""All nodes, what is between them, and what may happen: each method is one event.

The world does not choose. A scheduler does, and is told what there is to choose from: messages
sent, disks that sync, clocks that will strike.
"""

from __future__ import annotations

import errno
import hashlib
import struct
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from random import Random
from typing import Any

import msgspec

from kraftspec.fastpath import crc32c
from kraftspec.reference.host import PowerLostError
from kraftspec.reference.log import LogConfig
from kraftspec.reference.raft import Config, ReplicaKey, RoleName, SnapshotId
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import DescribeQuorum, Request
from kraftspec.simulation.clients import OPERATOR, Appends, records_of
from kraftspec.simulation.committed_log import CommittedLog, Violation
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.initial_quorum import LISTENER, endpoints_of
from kraftspec.simulation.invariants import Hooks, Invariant
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica, Scheduler
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.rules import Rules
from kraftspec.simulation.swarm import Swarm

_TRACE = struct.Struct(">BiqIiqq")
# What an event is in the trace.
DELIVER, TICK, FLUSH, FINISH, FAIL, APPEND, ASK, CRASH = range(8)
START, SNAPSHOT, CLEAN, JUMP, STOP, BOUNDARY, REPLACE, DISK = range(8, 16)
UPGRADE, CUT, MOVE = 16, 17, 18


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """One event, so that it can be repeated. ``detail`` is what its kind needs."""

    kind: int
    at_us: int
    node: int
    detail: tuple[Any, ...] = ()


class World:
    """The state of a run, between two events."""

    def __init__(
        self,
        protocol: Rules,
        invariants: list[Invariant],
        scheduler: Scheduler,
        log_config: LogConfig,
    ) -> None:
        self.protocol = protocol
        self.profile = protocol.profile
        self.log_config = log_config
        self.scheduler = scheduler
        self.now_us = 0
        self.events = 0
        self.met: Counter[str] = Counter()  # Faults that happened, by name.
        self.committed_log = CommittedLog()
        self.hooks = Hooks(invariants, self.committed_log)
        self.replicas: dict[int, Replica] = {}
        self.by_key: dict[ReplicaKey, Replica] = {}
        self.ports: dict[int, int] = {}
        self.appends = Appends(self.hooks.operation_ended)
        self.leaders: dict[int, int] = {}  # Epoch → leader, as elected.
        self._operator_requests: dict[int, Request] = {}
        self._operator_count = 0
        self.decisions: list[Decision] | None = None  # Where to note them, if at all.
        self._trace = hashlib.blake2b(digest_size=16)

    def breaches_at_end(self, replicas: list[Replica]) -> list[Violation]:
        """Return what the invariants say at the end of a run, of these nodes and of all of it."""
        found = []
        for invariant in self.hooks.invariants:
            try:
                invariant.finished(replicas)
            except Violation as violation:
                found.append(violation)
        return found

    # ---- the events ----------------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """Bytes arrive; at a node that is down they are lost."""
        if message.target == OPERATOR:
            self._to_operator(message)
            return
        replica = self.replicas[message.target]
        if replica.is_up:
            if self.decisions is not None:
                self._note(DELIVER, replica, *message.key, message.correlation, message.incarnation)
            self._run(replica, DELIVER, crc32c(message.body), replica.receive, message)

    def tick(self, replica: Replica) -> None:
        """A node's clock says that its deadline has come."""
        if self.decisions is not None:
            self._note(TICK, replica)
        self._run(replica, TICK, 0, replica.step, ev.Tick())
        self.hooks.ticked(replica)

    def flush(self, replica: Replica) -> None:
        """A disk has synced."""
        if self.decisions is not None:
            self._note(FLUSH, replica)
        self._run(replica, FLUSH, 0, replica.flush)

    def finish(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A fetched snapshot is synced and has its name."""
        if self.decisions is not None:
            self._note(FINISH, replica, *snapshot)
        self._run(replica, FINISH, 0, replica.finish_fetched, snapshot)

    def fail(self, replica: Replica, request_id: int, unsupported: bool) -> None:
        """A request comes to nothing."""
        if self.decisions is not None:
            self._note(FAIL, replica, request_id, unsupported)
        replica.sent_requests.pop(request_id, None)
        event = ev.RequestFailed(request_id, unsupported)
        self._run(replica, FAIL, int(unsupported), replica.step, event)

    def append(self, replica: Replica, count: int, size: int, is_stale: bool) -> None:
        """A state machine appends records in the epoch that it leads; see ``epoch_to_append``."""
        if self.decisions is not None:
            self._note(APPEND, replica, count, size, is_stale)
        operation = self.appends.call(replica.id, replica.epoch_to_append(is_stale), self.now_us)
        records = records_of(operation.id, count, size)
        event = ev.AppendRequested(operation.id, operation.epoch, records)
        self._run(replica, APPEND, operation.id, replica.step, event)

    def snapshot(self, replica: Replica, is_mistaken: bool, until: int = -1) -> None:
        """A state machine asks to write what is committed, or by mistake all that there is.

        ``until`` is the end of a part of that; -1: all of it.
        """
        if self.decisions is not None:
            self._note(SNAPSHOT, replica, is_mistaken, until)
        log_model = replica.log_model
        end = (
            log_model.end_offset
            if is_mistaken
            else min(replica.high_watermark, log_model.end_offset)
        )
        if until >= 0:
            end = min(end, until)
        if end <= log_model.start_offset or log_model.chain_at(end) is None:
            return
        epoch = log_model.epochs[log_model.index_of(end)]
        event = ev.SnapshotRequested(SnapshotId(end, epoch))
        self._run(replica, SNAPSHOT, end & 0xFFFFFFFF, replica.step, event)

    def clean(self, replica: Replica) -> None:
        """Time to delete what snapshots made superfluous."""
        if self.decisions is not None:
            self._note(CLEAN, replica)
        event = ev.CleanRequested(replica.log_bytes)
        self._run(replica, CLEAN, 0, replica.step, event)

    def jump(self, replica: Replica, by_us: int) -> None:
        """A clock jumps."""
        if self.decisions is not None:
            self._note(JUMP, replica, by_us)
        replica.jump(by_us)
        self._run(replica, JUMP, by_us & 0xFFFFFFFF, replica.step, ev.Tick())

    def resign(self, replica: Replica) -> None:
        """A state machine does not want to lead."""
        if self.decisions is not None:
            self._note(STOP, replica, -1)
        event = ev.ResignRequested(replica.core.epoch)
        self._run(replica, STOP, 0, replica.step, event)

    def shut_down(self, replica: Replica, timeout_us: int) -> None:
        """A node leaves in good order."""
        if self.decisions is not None:
            self._note(STOP, replica, timeout_us)
        self._run(replica, STOP, 1, replica.step, ev.ShutdownRequested(timeout_us))

    def upgrade(self, replica: Replica, level: int) -> None:
        """An operator raises kraft.version, by UpdateFeatures to whoever leads."""
        if self.decisions is not None:
            self._note(UPGRADE, replica, level)
        event = ev.UpgradeRequested(level, replica.core.epoch, level)
        self._run(replica, UPGRADE, level, replica.step, event)

    def crash(self, replica: Replica, seed: int | None) -> None:
        """A process dies; with a seed for what its disk keeps, the power fails."""
        if self.decisions is not None and not replica.is_failing:
            self._note(CRASH, replica, seed)
        replica.is_failing = False
        self._count(replica, CRASH, (seed or 0) & 0xFFFFFFFF)
        replica.stop()
        if seed is None:
            replica.kill()
        else:
            self.met.update(replica.cut_power(Random(seed)))

    def start(self, replica: Replica, seed: int) -> None:
        """A node starts, from what its disk has."""
        if self.decisions is not None:
            self._note(START, replica, seed)
        self._run(replica, START, seed & 0xFFFFFFFF, replica.start, seed)

    def lose_power_within(self, replica: Replica, effects: int, seed: int) -> None:
        """Let a node's power go after so many effects from now on."""
        if self.decisions is not None:
            self._note(BOUNDARY, replica, effects, seed)
        replica.lose_power_within(effects, seed)

    def lose_power_at(self, replica: Replica, operations: int, seed: int) -> None:
        """Let a node's power go before an operation of its disk, that many from now on."""
        if self.decisions is not None:
            self._note(CUT, replica, operations, seed)
        replica.lose_power_at(operations, seed)

    def spoil_disk(self, replica: Replica, operations: int) -> None:
        """Let an operation of a disk fail, that many from now on; see ``Replica.spoil_disk``."""
        if self.decisions is not None:
            self._note(DISK, replica, operations)
        replica.spoil_disk(operations)

    def replace(self, replica: Replica) -> None:
        """A node has a new disk, formatted under another directory id, and no vote by it yet."""
        if self.decisions is not None:
            self._note(REPLACE, replica, str(replica.config.directory_id))
        self.replicas[replica.id] = replica
        self.by_key[replica.key] = replica
        self._listen(replica)

    def move(self, replica: Replica, moves: int) -> None:
        """A node that is down will listen elsewhere: it has moved so many times."""
        if self.decisions is not None:
            self._note(MOVE, replica, moves)
        replica.move(moves)
        self._listen(replica)

    def _listen(self, replica: Replica) -> None:
        """Let a node be reached where it listens, by the name that stays, and nowhere else."""
        self.ports = {port: id for port, id in self.ports.items() if id != replica.id}
        for endpoint in (*endpoints_of(replica.id), *replica.config.endpoints):
            if endpoint.name == LISTENER:
                self.ports[endpoint.port] = replica.id

    def ask(self, target: int, request: Request) -> None:
        """The operator asks a node."""
        api = self.profile.api_of(request)
        version = self.replicas[target].api_max.get(api.key, api.max_version)
        if isinstance(request, DescribeQuorum):  # As tools of all releases ask.
            version -= self._operator_count % (version - self.profile.min_version(request) + 1)
        body = self.profile.encode_request(request, version)
        if self.decisions is not None:
            self._note(ASK, self.replicas[target], api.key, version, body.hex())
        self._operator_count += 1
        self._operator_requests[self._operator_count] = request
        self.scheduler.sent(
            Message(OPERATOR, target, False, self._operator_count, 0, api.key, version, body)
        )

    # ---- how ------------------------------------------------------------------------------------

    def _run(
        self, replica: Replica, kind: int, detail: int, act: Callable[..., Any], *args: Any
    ) -> None:
        """Do it; a node whose disk fails or whose power goes is down afterwards."""
        try:
            act(*args)
        except (Violation, HarnessError):
            raise
        except PowerLostError:
            replica.is_failing = True
            self.crash(replica, replica.power_seed)
            self.scheduler.fell(replica)
        except OSError as error:  # LogFailedError, or quorum-state's: the node must stop.
            is_full = error.errno == errno.ENOSPC
            self.met["stopped by a full disk" if is_full else "stopped by its disk"] += 1
            if is_full:
                self.hooks.disk_failed(replica, "its disk is full")
            replica.is_failing = True
            self.crash(replica, None)
            self.scheduler.fell(replica)
        except Exception as error:
            raise Violation("no_exception", f"node {replica.id}: {_where(error)}") from error
        self._count(replica, kind, detail)

    def _note(self, kind: int, replica: Replica, *detail: Any) -> None:
        assert self.decisions is not None
        self.decisions.append(Decision(kind, self.now_us, replica.id, detail))

    def _count(self, replica: Replica, kind: int, detail: int) -> None:
        self.events += 1
        log_model = replica.log_model
        self._trace.update(
            _TRACE.pack(
                kind, replica.id, self.now_us, detail, replica.epoch, replica.high_watermark,
                log_model.end_offset,
            )
        )  # fmt: skip

    @property
    def trace_hash(self) -> str:
        """A hash over every event so far and what it led to."""
        return self._trace.hexdigest()

    def _to_operator(self, message: Message) -> None:
        request = self._operator_requests.pop(message.correlation, None)
        if request is not None:
            reply = self.profile.decode_reply(request, message.version, message.body)
            self.scheduler.answered(request, reply)

    def version_between(self, replica: Replica, target: int, api_key: int, version: int) -> int:
        """Return the highest version of an API that both speak."""
        own, other = replica.api_max, self.replicas[target].api_max
        if own or other:
            known = min(version, own.get(api_key, version), other.get(api_key, version))
            if known < version:
                self.met["older version"] += 1
            return known
        return version

    def replica_of(self, key: ReplicaKey) -> Replica | None:
        """Return the node that has this key; with no directory, the one that has the id."""
        replica = self.by_key.get(key)
        if replica is None:
            other = self.replicas.get(key.id)
            if other is not None and key.matches(other.key):
                return other
        return replica

    def by_key_now(self) -> dict[ReplicaKey, Replica]:
        """Return the nodes by the keys that their present disks have."""
        return {replica.key: replica for replica in self.replicas.values()}

    def running(self) -> Iterator[Replica]:
        """Yield the nodes that are up, by id."""
        for replica in self.replicas.values():
            if replica.is_up:
                yield replica

    def leader(self) -> Replica | None:
        """Return the leader of the highest epoch."""
        leader = None
        for replica in self.running():
            if replica.role is RoleName.LEADER and (leader is None or replica.epoch > leader.epoch):
                leader = replica
        return leader

    def leader_changed(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """A state machine learns who leads."""
        if leader_id >= 0:
            self.leaders[epoch] = leader_id


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error!r} in {PurePath(last.filename).name}, {last.name}"


def add_node(
    world: World,
    swarm: Swarm,
    rng: Rng,
    config: Config,
    first_files: Mapping[str, bytes] | None = None,
) -> Replica:
    """Give the quorum a node with a new disk, in place of the one that has its id."""
    replica: Replica = world.protocol.replica(world, config, first_files)
    drift = swarm.clock_drift_ppm_max
    if drift:
        replica.drift(rng.between(-drift, drift))
        world.met["clock drift"] += 1
    if config.node_id < swarm.old_nodes:
        for key, version in world.protocol.older(swarm.old_vote_version).items():
            replica.api_max[key] = min(version, replica.api_max.get(key, version))
    before = world.replicas.get(config.node_id)
    if before is not None:
        replica.incarnation = (
            before.incarnation
        )  # A incarnation is the node's: messages to an earlier one are lost.
        if before.has_own_clock:
            replica.drift(before.clock_drift_ppm)
    world.replace(replica)
    return replica


def form(world: World, swarm: Swarm, rng: Rng) -> None:
    """Make all nodes of a run; none is started."""
    configs = world.protocol.configurations(swarm, rng)
    first_files = world.protocol.first_files(configs, swarm)
    for config in configs:
        add_node(world, swarm, rng, config, first_files.get(config.node_id))
