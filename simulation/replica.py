"""A node of the simulated quorum, as the world, the faults and the invariants see it.

`Replica` has what is the same for every implementation: its clock, its incarnations, its
messages, a `LogModel` of its log, and the calls (``note_…``) that report to the invariants what it
does. A subclass determines the core and the disk: `own.OwnReplica` runs the core of this project.
An implementation in another process is one more subclass, and ``Rules.replica`` returns it. It
turns ``step`` and ``take_…`` into commands, calls a ``note_…`` for each effect, in order, and
``stepped`` at the end of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.host import NO_LIMIT
from kraftspec.reference.log import LogConfig
from kraftspec.reference.log.epochs import EpochEntry
from kraftspec.reference.raft import Config, ElectionState, ReplicaKey, RoleName, SnapshotId
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    DescribeQuorum,
    EndEpoch,
    Fetch,
    FetchSnapshot,
    Reply,
    Request,
    UpdateVoter,
    Vote,
)
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import BOOTSTRAP_OFFSET, Endpoints
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.clients import Appends
from kraftspec.simulation.core_view import CoreView
from kraftspec.simulation.initial_quorum import endpoints_after
from kraftspec.simulation.log_model import SNAPSHOT_STATE, LogModel
from kraftspec.simulation.network import Message
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.rules import Rules

FULL = -1  # In place of a number of operations: the disk is full at once.


class Scheduler(Protocol):
    """Who decides what happens next."""

    def sent(self, message: Message) -> None:
        """A message is on its way, if it is let."""

    def stepped(self, replica: Replica) -> None:
        """A node took a step: its clock may strike at another time."""

    def will_flush(self, replica: Replica) -> None:
        """A disk began to sync."""

    def will_finish(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A disk began to sync a fetched snapshot."""

    def will_fail(self, replica: Replica, request_id: int, unsupported: bool) -> None:
        """A request cannot be sent."""

    def fell(self, replica: Replica) -> None:
        """A node is down by its disk, or by a power loss that waited for what it does."""

    def answered(self, request: Request, reply: Reply) -> None:
        """The operator has an answer."""


class Surroundings(Protocol):
    """What a node, and whoever looks at it, sees of the world that it is in."""

    now_us: int
    protocol: Rules
    profile: Profile
    log_config: LogConfig
    scheduler: Scheduler
    appends: Appends
    hooks: Any  # `invariants.Hooks`: calls what each invariant has of that name.
    met: Counter[str]
    replicas: dict[int, Replica]
    ports: dict[int, int]  # Where nodes are reached now → their ids.

    def send(self, message: Message) -> None:
        """Give a message to the network."""

    def version_between(self, replica: Replica, target: int, api_key: int, version: int) -> int:
        """Return the highest version of an API that both speak."""

    def leader_changed(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """A state machine learns who leads."""

    def leader(self) -> Replica | None:
        """Return who leads the highest epoch."""

    def replica_of(self, key: ReplicaKey) -> Replica | None:
        """Return the node that has this key; with no directory, the one that has the id."""


class Replica(ABC):
    """A node of the simulated quorum, up or down.

    ``log_model`` is what its log should be, ``durable_end`` how much of that was synced, ``stored``
    the last quorum-state that was, ``storing`` the one that was being written. ``incarnation`` is
    the number of its starts. ``effects_left`` is the number of effects until a power loss, and
    ``power_seed`` determines what the disk keeps then; ``flush_wanted`` is what its disk is to sync
    next.
    """

    core: CoreView
    # Properties that are not judged of this node: not shown, or it has a rule of its own.
    unseen: frozenset[str] = frozenset()
    is_foreign = False  # Of a harness: whoever runs it cannot mend what it breaks.
    has_pre_votes = True  # False for a release before KIP-996.
    campaigns_when_removed = False  # As `reference.raft.policy` says.
    will_reset = False  # Whether its start has still to reset the log to a snapshot.
    can_move = False  # Whether it can restart under another address.
    effects_left: int = NO_LIMIT
    flush_wanted: fx.FlushLog | None = None

    def __init__(self, world: Surroundings, config: Config) -> None:
        self.world = world
        self.hooks = world.hooks
        self.config = config
        self.id = config.node_id
        self.key: ReplicaKey = config.key
        self.profile = world.profile
        # Highest version by API key, where it is an older release.
        self.api_max: dict[int, int] = {}
        self.incarnation = 0
        self.is_new = True  # The disk was never started from.
        self.is_up = False
        self.log_model = LogModel()
        self.durable_end = 0
        self.stored = ElectionState()
        self.storing: ElectionState | None = None  # It may be there, when the write fails.
        self.core_start = ElectionState()
        self.role: RoleName | None = None  # None before it starts.
        self.epoch = 0
        self.epoch_start = 0
        self.high_watermark = -1
        self.committed = -1  # As its state machine was told.
        self.leads_epoch = -1  # The same.
        self.led_epochs: list[int] = []
        self.power_seed = 0
        self.is_failing = False  # It goes down because of what was decided before.
        self.clock_offset_us = 0
        self.clock_drift_ppm = 0
        self.has_own_clock = False  # Whether either of them may be other than 0.
        self.paused_until_us = 0
        self.tick_at_us = -1  # When the scheduler will wake it.
        self.sent_requests: dict[int, tuple[Request, int]] = {}  # Request id → request, version.
        # Kind of request, node → the last of them that was answered, to a foreign one, and how.
        self.last_replies: dict[tuple[type[Request], int], tuple[Request, Message]] = {}
        self.answering: dict[int, tuple[Request, Message]] = {}  # Token → what to answer.
        self.has_new_voters = False  # Since the step began.
        self.fetched_snapshot: SnapshotId | None = None  # It is to replace the log.
        self._token = 0

    # ---- what a subclass says ------------------------------------------------------------------

    @abstractmethod
    def recover(self, seed: int) -> LogModel:
        """Start a core on what the disk has; return its log. ``seed`` is of its random numbers.

        ``core_start`` is what quorum-state says now. The core takes no event before ``step``.
        """

    @abstractmethod
    def step(self, event: ev.Event) -> None:
        """Let the core take an event that is no message, and do what it says."""

    @abstractmethod
    def take_request(self, token: int, request: Request, message: Message) -> None:
        """Let the core take a request: in ``message`` it is as bytes."""

    @abstractmethod
    def take_reply(self, request: Request, message: Message) -> None:
        """Let the core take the answer to its request."""

    @abstractmethod
    def flush(self) -> None:
        """The disk is done syncing what was there when it began."""

    @abstractmethod
    def finish_fetched(self, snapshot: SnapshotId) -> None:
        """The disk has synced a snapshot that was fetched."""

    @property
    @abstractmethod
    def log_bytes(self) -> int:
        """How much of the disk the segments of its log take."""

    @property
    @abstractmethod
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots on its disk."""

    @property
    @abstractmethod
    def cached_epochs(self) -> Sequence[EpochEntry]:
        """Its cache of leader epochs; empty where it has none to show."""

    @property
    @abstractmethod
    def stored_voters(self) -> VoterSet | None:
        """The voters that quorum-state has, of a profile that recovers them from there."""

    @abstractmethod
    def read_log(self) -> LogModel:
        """Read the log from its disk; ValueError and LookupError where it cannot be read."""

    @abstractmethod
    def values_in(self, snapshot: SnapshotId) -> Sequence[bytes]:
        """Return the records of a snapshot's data."""

    @abstractmethod
    def controls_in(self, snapshot: SnapshotId) -> Sequence[ControlRecord]:
        """Return the control records of a snapshot."""

    @abstractmethod
    def kill(self) -> None:
        """The process is gone; the disk keeps what was written."""

    @abstractmethod
    def cut_power(self, random: Random) -> Mapping[str, int]:
        """The power is gone; return by name what the disk lost of what was not synced."""

    @property
    def is_flushing(self) -> bool:
        """Whether its disk is syncing the log, or about to."""
        return self.flush_wanted is not None

    @property
    def has_untold_sync(self) -> bool:
        """Whether its disk has synced what the core does not know to be synced."""
        return False

    # Faults of a disk: whoever has none of its own here overrides none of these.

    @property
    def is_disk_spoilt(self) -> bool:
        """Whether its disk has a fault that is not over."""
        return False

    def spoil_disk(self, operations: int) -> None:  # noqa: B027 - nothing, by default.
        """Let one of the operations to come fail; whether its bytes got there, nobody knows.

        ``FULL`` lets no file grow; 0: all is well again.
        """

    def lose_power_at(self, operations: int, seed: int) -> None:
        """Let the power go before one of the operations to come, in the start too."""
        self.lose_power_within(operations, seed)

    def corrupt(self, rng: Rng) -> bool:
        """Flip a bit of a synced batch, in the part of it that its CRC covers, if there is one."""
        return False

    def check_corruption_is_detected(self) -> None:  # noqa: B027 - none, by default.
        """A log whose synced bytes have changed must not be opened as if nothing were."""

    @property
    def endpoints(self) -> Endpoints:
        """Where it listens from its next start on."""
        return self.config.endpoints

    def move(self, moves: int) -> None:
        """Listen elsewhere from the next start on."""
        endpoints = endpoints_after(moves, self.id, len(self.config.endpoints))
        self.config = msgspec.structs.replace(self.config, endpoints=endpoints)

    # ---- incarnations --------------------------------------------------------------------------

    def start(self, seed: int) -> None:
        """Recover, make a core, and let it begin."""
        before = self.log_model if self.incarnation and not self.is_new else None
        self.config = self.world.protocol.configuration_of(
            self.config, self.incarnation, self.durable_end
        )
        self.is_new = False
        self.incarnation += 1
        self.is_up = True
        self.effects_left = NO_LIMIT
        self.flush_wanted = None
        self.sent_requests.clear()
        self.answering.clear()
        self.has_new_voters = False
        self.tick_at_us = -1
        self.log_model = self.recover(seed)
        self.role = None
        self.epoch = self.core.epoch
        self.high_watermark = self.committed = self.leads_epoch = -1
        self.led_epochs = []
        self.hooks.started(self, before)
        if self.fetched_snapshot is not None:
            is_longer = before is not None and before.end_offset > self.fetched_snapshot.end_offset
            of_which = "a longer log" if is_longer else "a log"
            self.world.met[f"down between a snapshot and the reset of {of_which}"] += 1
            self.fetched_snapshot = None
        self.stored, self.storing = self.core_start, None
        self.durable_end = self.durable_at_start
        self.step(ev.Start())

    @property
    def durable_at_start(self) -> int:
        """How much of the log that was recovered is synced: all, where recovery syncs."""
        return self.log_model.end_offset

    def stop(self) -> None:
        """Be down: nothing in memory is left. The disk is another matter."""
        self.is_up = False
        self.world.appends.give_up(self.id)

    def lose_power_within(self, effects: int, seed: int) -> None:
        """Let the power go after so many effects from now on; ``NO_LIMIT``: it stays."""
        self.effects_left = effects
        self.power_seed = seed

    @property
    def known_voters(self) -> list[tuple[int, VoterSet]]:
        """The voter sets that its log has, by offset."""
        return self.core.log.voters.entries() if self.incarnation and not self.is_new else []

    @property
    def first_voters(self) -> VoterSet:
        """The voters before any that its log or its snapshots name."""
        return self.core.log.voters.at(BOOTSTRAP_OFFSET - 1)

    def snapshot_voters(self, snapshot: SnapshotId) -> list[tuple[int, VoterSet]]:
        """Return the voter set that a snapshot has, if it has one, at its last offset."""
        known = None
        for record in self.controls_in(snapshot):
            voters = self.profile.policy.folded(record, known or VoterSet())
            known = known if voters is None else voters
        return [] if known is None else [(snapshot.end_offset - 1, known)]

    def snapshot_chain(self, snapshot: SnapshotId) -> int:
        """Return the chain that a snapshot says its prefix has."""
        for value in self.values_in(snapshot):
            end_offset, chain = SNAPSHOT_STATE.unpack(value)
            assert end_offset == snapshot.end_offset
            return int(chain)
        return 0  # The bootstrap checkpoint holds no records: nothing was before it.

    @property
    def syncs(self) -> bool:
        """Whether it has to sync before it fetches on: in Kafka not so as a mere observer."""
        return self.config.can_become_voter or self.profile.policy.flushes_always

    # ---- its clock -----------------------------------------------------------------------------

    def clock_us(self) -> int:
        """What this node's clock says."""
        now_us = self.world.now_us
        if not self.has_own_clock:
            return now_us
        return now_us + self.clock_offset_us + now_us * self.clock_drift_ppm // 1_000_000

    def drift(self, ppm: int) -> None:
        """Let its clock run faster, or slower, by so many parts in a million."""
        self.clock_drift_ppm = ppm
        self.has_own_clock = True

    def jump(self, by_us: int) -> None:
        """Set its clock forward, or back."""
        self.clock_offset_us += by_us
        self.has_own_clock = True

    def world_us(self, clock_us: int) -> int:
        """When this node's clock will say that."""
        elapsed = clock_us - self.clock_offset_us
        return -(-elapsed * 1_000_000 // (1_000_000 + self.clock_drift_ppm))

    # ---- messages ------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take a request or a reply, as bytes."""
        if message.is_reply:
            if message.incarnation != self.incarnation:
                self.world.met["reply to an earlier incarnation"] += 1
                return
            sent = self.sent_requests.pop(message.correlation, None)
            if sent is None:  # Answered already, or given up.
                self.world.met["late reply"] += 1
                return
            if sent[0].__class__ is FetchSnapshot:
                self.hooks.snapshot_answered(self, sent[0], message)
            self.take_reply(sent[0], message)
            return
        request = self.profile.decode_request(message.api_key, message.version, message.body)
        self.hooks.request_arrived(self, message, request)
        self._token += 1
        self.answering[self._token] = (request, message)
        self.take_request(self._token, request, message)

    def note_handled(self, request: Any, effects: Sequence[fx.Effect]) -> None:
        """The core took a request; none of its effects is carried out yet."""
        kind = request.__class__
        if kind is Fetch or kind is FetchSnapshot:
            self.hooks.fetch_handled(self, request.replica_id, request.replica_directory_id)
        elif kind is Vote:
            self.hooks.vote_handled(self, request, effects)
        elif kind in self.world.protocol.changes:
            self.hooks.change_requested(self, request)
            if kind is UpdateVoter:
                self.hooks.fetch_handled(self, request.voter_id, request.voter_directory_id)

    def note_ask(self, request: Request) -> None:
        """The core is about to send a request."""
        kind = request.__class__
        if kind is Fetch:
            self.hooks.fetch_requested(self, request)
        elif kind is Vote:
            self.hooks.vote_requested(self, request)

    def ask(
        self, request_id: int, target: int, request: Request, key: int, version: int, body: bytes
    ) -> None:
        """Send a request, of the API that has this key."""
        self.sent_requests[request_id] = (request, version)
        self.hooks.asked(self, target, request)
        self.world.scheduler.sent(
            Message(self.id, target, False, request_id, self.incarnation, key, version, body)
        )

    def answer(self, token: int, reply: Reply, body: bytes) -> None:
        """Send an answer."""
        request, message = self.answering.pop(token)
        if request.__class__ is not Fetch and not reply.error and not reply.top_error:
            if isinstance(request, Vote):
                granted = reply.vote_granted  # type: ignore[attr-defined] # A Vote's answer has it.
                self.hooks.vote_answered(self, request, granted)
                self.hooks.epoch_answered(self, request.epoch)
            elif isinstance(request, BeginEpoch | EndEpoch):
                self.hooks.epoch_answered(self, request.leader_epoch)
            elif isinstance(request, self.world.protocol.changes):
                self.has_new_voters = True  # Or is to have them, when the step is over.
                self.hooks.change_answered(self, request)
            elif isinstance(request, DescribeQuorum):
                told = self.profile.decode_reply(request, message.version, body)
                self.hooks.quorum_described(self, message.version, told)
        elif reply.error == ErrorCode.SNAPSHOT_NOT_FOUND:
            self.world.met["snapshot deleted while it was fetched"] += 1
        self.world.scheduler.sent(
            Message(
                self.id, message.source, True, message.correlation, message.incarnation,
                message.api_key, message.version, body,
            )
        )  # fmt: skip

    # ---- what it does --------------------------------------------------------------------------

    def note_persisted(self, state: ElectionState) -> None:
        """Quorum-state is written and synced."""
        self.stored, self.storing = state, None
        self.hooks.persisted(self, state)

    def note_appended(self, data: Any) -> None:
        """Batches are in its log."""
        self.hooks.appended(self, self.log_model.append(data))

    def note_control(self, offset: int, record: ControlRecord) -> None:
        """A control record is in its log."""
        self.has_new_voters = True
        self.hooks.control_appended(self, offset, record)

    def note_truncating(self, end_offset: int) -> None:
        """Its log is about to be cut."""
        self.has_new_voters = True
        self.hooks.truncating(self, end_offset)
        self.durable_end = min(self.durable_end, end_offset)  # A cut may end half-way.

    def note_truncated(self, end_offset: int) -> None:
        """Its log is cut."""
        self.log_model.truncate_to(end_offset)
        self.durable_end = min(self.durable_end, self.log_model.end_offset)
        self.hooks.truncated(self)

    def note_reset(self, snapshot: SnapshotId, chain: int) -> None:
        """Its log was thrown away for a snapshot that has this chain."""
        self.fetched_snapshot = None
        if self.log_model.end_offset > snapshot.end_offset:
            self.world.met["log longer than the snapshot that replaces it"] += 1
        self.log_model = LogModel(snapshot.end_offset, chain, snapshot.epoch)
        self.durable_end = snapshot.end_offset
        self.has_new_voters = True
        self.hooks.log_reset(self, snapshot)

    def note_log_start(self, snapshot: SnapshotId) -> None:
        """Its log starts at a snapshot's end now."""
        self.log_model.start_at(snapshot.end_offset)
        self.hooks.log_start_changed(self)

    def note_flushed(self, end_offset: int) -> None:
        """A sync is done."""
        self.durable_end = end_offset
        self.hooks.flushed(self)

    def note_snapshot(self, snapshot: SnapshotId, chain: int, *, is_own: bool) -> None:
        """A snapshot is complete; ``is_own``: its state machine wrote it."""
        self.hooks.snapshot_stored(self, snapshot, chain)
        if is_own:
            self.hooks.snapshot_written(self, snapshot)
        else:
            self.fetched_snapshot = snapshot

    def note_committed(self, high_watermark: int) -> None:
        """Its state machine learns what is committed."""
        self.committed = high_watermark
        if self.core.high_watermark != self.high_watermark:
            self.note_high_watermark()
        self.world.appends.committed(self.id, high_watermark, self.world.now_us)

    def note_leader(self, epoch: int, leader_id: int) -> None:
        """Its state machine learns the leader."""
        self.leads_epoch = epoch if leader_id == self.id else -1
        if leader_id == self.id:
            self.led_epochs.append(epoch)
        self.world.leader_changed(self, epoch, leader_id)
        self.hooks.leader_reported(self, epoch, leader_id)

    def note_taken(self, append_id: int, epoch: int, base_offset: int, end_offset: int) -> None:
        """An append is taken, in this epoch; these offsets it will have."""
        operation = self.world.appends.took(append_id, base_offset, end_offset)
        if operation is not None:
            self.hooks.append_taken(self, operation, epoch)

    def epoch_to_append(self, is_stale: bool) -> int:
        """Return the epoch that its state machine leads, as it was told; -1: none.

        ``is_stale``: the one that it led before that, as one does that was late to listen.
        """
        if not is_stale:
            return self.leads_epoch
        earlier = self.led_epochs[: -1 if self.leads_epoch >= 0 else None]
        return earlier[-1] if earlier else -1

    def note_high_watermark(self) -> None:
        """The core has another high watermark."""
        old, self.high_watermark = self.high_watermark, self.core.high_watermark
        self.hooks.high_watermark_changed(self, old, self.high_watermark)

    def stepped(self) -> None:
        """A step is over: tell what it changed."""
        world, core = self.world, self.core
        if self.has_new_voters:
            self.has_new_voters = False
            self.hooks.voters_changed(self)
        if core.epoch != self.epoch:
            old, self.epoch = self.epoch, core.epoch
            self.hooks.epoch_changed(self, old, core.epoch)
        role = core.role.name
        if role is not self.role:
            old_role, self.role = self.role, role
            if role is RoleName.LEADER:
                self.epoch_start = self._epoch_start()
            elif old_role is RoleName.LEADER:
                world.appends.give_up(self.id)
            self.hooks.role_changed(self, old_role, role)
        if core.high_watermark != self.high_watermark:
            self.note_high_watermark()
        world.scheduler.stepped(self)

    def _epoch_start(self) -> int:
        """Return where the records of the last epoch in its log begin."""
        log_model = self.log_model
        first = len(log_model.ends) - 1
        while first > 0 and log_model.epochs[first - 1] == log_model.epochs[first]:
            first -= 1
        return log_model.base_of(first) if first >= 0 else 0
