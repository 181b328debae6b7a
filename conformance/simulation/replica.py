"""One node: the core, its storage on a disk of its own, and the shell between the two.

The shell carries out effects in their order, and can be made to lose its power between any two.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from kraftspec.conformance.simulation.disk import MemoryFiles
from kraftspec.conformance.simulation.invariants.base import Violation
from kraftspec.conformance.simulation.mirror import Mirror
from kraftspec.conformance.simulation.network import Message
from kraftspec.fastpath.records import CRC_AT, LOG_OVERHEAD_BYTES, RECORDS_AT
from kraftspec.reference.log import CorruptMetadataLogError
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.raft import (
    Config,
    Core,
    ElectionState,
    ReplicaKey,
    RoleName,
    SnapshotId,
    VoterSet,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    Request,
    UpdateVoter,
    Vote,
)
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import BOOTSTRAP_OFFSET
from kraftspec.reference.storage import Storage

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.dice import Dice
    from kraftspec.conformance.simulation.world import World

DIRECTORY = "/log"
PORT_BASE = 9000  # A node listens where its id says, so that an address tells who it is.
LISTENER = "CONTROLLER"
FULL = -1  # In place of a number of operations: the disk is full at once.
# Operations that change a disk.
CHANGES = ("write", "sync", "rename", "sync_directory", "truncate")
ONE_BATCH = 1  # Bytes: a read gives one batch at least, and so this one.


class PowerLostError(Exception):
    """The node has no power any more: nothing after this happens."""


class Replica:
    """A node of the simulated quorum, up or down.

    ``mirror`` is what its log should be, ``durable_end`` how much of that was synced, ``stored``
    the last quorum-state that was, ``storing`` the one whose write did not return. ``life`` counts
    its starts.
    """

    def __init__(self, world: World, config: Config, files: MemoryFiles) -> None:
        self.world = world
        self.config = config
        self.id = config.node_id
        self.key: ReplicaKey = config.key
        self.files = files
        self.profile = world.profile
        self.api_max: dict[
            int, int
        ] = {}  # Highest version by API key, where it is an older release.
        self.life = 0
        self.is_new = True  # The disk was never started from.
        self.is_up = False
        self.core: Core
        self.storage: Storage
        self.mirror = Mirror()
        self.durable_end = 0
        self.stored = ElectionState()
        self.storing: ElectionState | None = None  # It may be there, when the write fails.
        self.core_start = ElectionState()
        self.role: RoleName | None = None  # None before it starts.
        self.epoch = 0
        self.epoch_start = 0
        self.high_watermark = -1
        self.effects_left = -1  # Until the power goes; below 0: it stays.
        self.power_seed = 0  # Of what the disk keeps when it goes so.
        self._is_cutting = False  # Whether it goes at an operation of the disk.
        self.is_failing = False  # It goes down because of what was decided before.
        self.clock_offset_us = 0
        self.clock_drift_ppm = 0
        self.has_own_clock = False  # Whether either of them may be other than 0.
        self.paused_until_us = 0
        self.tick_at_us = -1  # When the scheduler will wake it.
        self.flushing: fx.FlushLog | None = None
        self.asked: dict[int, tuple[Request, int]] = {}  # Request id → request, version.
        self.answering: dict[int, tuple[Request, Message]] = {}  # Token → what to answer.
        self.has_new_voters = False  # Since the step began.
        self.written: ev.SnapshotStored | None = None  # In this step: the core hears of it next.
        self._token = 0
        self._carry: dict[type[fx.Effect], Callable[[Any], None]] = {
            fx.PersistElection: self._persist,
            fx.TruncateLog: self._truncate,
            fx.ResetLog: self._reset,
            fx.AppendRecords: self._append,
            fx.AppendControl: self._append_control,
            fx.AppendBatches: self._append_batches,
            fx.FlushLog: self._flush,
            fx.WriteSnapshot: self._write_snapshot,
            fx.FinishSnapshot: self._finish_snapshot,
            fx.DeleteBefore: self._delete_before,
            fx.Ask: self._ask,
            fx.Answer: self._answer,
            fx.Commit: self._commit,
            fx.LeaderChanged: self._leader_changed,
            fx.LoadSnapshot: self._load_snapshot,
            fx.Appended: self._appended,
            fx.AppendRefused: self._append_refused,
        }

    # ---- lives ---------------------------------------------------------------------------------

    def start(self, seed: int) -> None:
        """Recover, make a core, and let it begin. ``seed`` is of its random numbers."""
        before = self.mirror if self.life and not self.is_new else None
        self.config = self.world.protocol.configuration_of(self)
        self.is_new = False
        self.life += 1
        self.is_up = True
        self.effects_left = -1
        self.asked.clear()
        self.answering.clear()
        self.flushing = None
        self.has_new_voters = False
        self.written = None
        self.tick_at_us = -1
        try:
            self.storage = Storage.open(
                DIRECTORY, self.profile, self.config,
                files=self.files, log_config=self.world.log_config,
            )  # fmt: skip
            self.core_start = self.storage.election or ElectionState()
            self.core = self.storage.make_core(self.config, Random(seed))
            self.mirror = self.world.mirror_of(self)
        except (CorruptMetadataLogError, ValueError, LookupError) as error:
            raise Violation("opens_its_disk", f"node {self.id}: {error!r}") from error
        self.role = None
        self.epoch = self.core.epoch
        self.high_watermark = -1
        self.world.hooks.started(self, before)
        self.stored, self.storing = self.core_start, None
        self.durable_end = self.mirror.end_offset
        self.step(ev.Start())

    @property
    def known_voters(self) -> list[tuple[int, VoterSet]]:
        """The voter sets that its log has, by offset."""
        return self.core.log.voters.entries() if self.life and not self.is_new else []

    @property
    def first_voters(self) -> VoterSet:
        """The voters before any that its log or its snapshots name."""
        return self.core.log.voters.at(BOOTSTRAP_OFFSET - 1)

    def snapshot_voters(self, snapshot: SnapshotId) -> list[tuple[int, VoterSet]]:
        """Return the voter set that a snapshot has, if it has one, at its last offset."""
        found = None
        for record in self.storage.snapshot_controls(snapshot):
            voters = self.profile.policy.folded(record, found or VoterSet())
            found = found if voters is None else voters
        return [] if found is None else [(snapshot.end_offset - 1, found)]

    def rot(self, dice: Dice) -> bool:
        """Flip a bit of a synced batch, in the part of it that its CRC covers, if there is one."""
        directory = f"{DIRECTORY}/{METADATA_NAME}"
        segments = [name for name in self.files.names(directory) if name.endswith(".log")]
        path = f"{directory}/{dice.pick(segments)}"
        data = self.files.content(path)
        starts, position = [], 0
        while position + RECORDS_AT <= len(data):
            if int.from_bytes(data[position : position + 8], "big") < self.durable_end:
                starts.append(position)  # Not what a torn write left.
            position += LOG_OVERHEAD_BYTES + int.from_bytes(
                data[position + 8 : position + 12], "big"
            )
        if starts:
            start = dice.pick(starts)
            end = start + LOG_OVERHEAD_BYTES + int.from_bytes(data[start + 8 : start + 12], "big")
            at = dice.between(start + CRC_AT, min(end, len(data)) - 1)
            self.files.corrupt(path, at, 1 << dice.below(8))
        return bool(starts)

    def check_rot_is_noticed(self) -> None:
        """A log whose synced bytes have changed must not be opened as if nothing were."""
        try:
            storage = Storage.open(
                DIRECTORY, self.profile, self.config, files=self.files,
                log_config=self.world.log_config,
            )  # fmt: skip
        except (CorruptMetadataLogError, ValueError, OSError):
            return  # An OSError: the disk failed before the log was read. It is not opened.
        finally:
            self.files.kill()
        log = storage.log
        # One that starts there does so for a snapshot: the rotten part is not needed any more.
        if log.start_offset < self.durable_end <= log.end_offset:
            raise Violation("rot_is_noticed", f"node {self.id} opens a log whose bits flipped")

    def stop(self) -> None:
        """Be down: nothing in memory is left. The disk is another matter."""
        self.is_up = False
        if self._is_cutting:
            self._is_cutting = False
            self.files.hook = None
        self.world.appends.give_up(self.id)

    def spoil_disk(self, operations: int) -> None:
        """Let one of the operations to come fail; whether its bytes got there, nobody knows.

        ``FULL`` lets no file grow; 0: all is well again.
        """
        self.files.hook = None
        self._is_cutting = False
        self.files.capacity_bytes = 0 if operations == FULL else None
        if operations <= 0:
            return
        left = operations

        def fail(operation: str, path: str, size: int) -> None:
            nonlocal left
            if operation in CHANGES:
                left -= 1
                if left == 0:
                    raise OSError(errno.EIO, "the simulated disk failed", path)

        self.files.hook = fail

    def lose_power_at(self, operations: int, seed: int) -> None:
        """Let the power go before one of the operations to come, in the start too."""
        self.power_seed = seed
        left = operations

        def lose(operation: str, path: str, size: int) -> None:
            nonlocal left
            if operation in CHANGES:
                left -= 1
            if left <= 0:
                raise PowerLostError  # And so does whatever is tried afterwards.

        self.files.hook = lose
        self._is_cutting = True

    @property
    def is_disk_spoilt(self) -> bool:
        """Whether its disk has a fault that is not over."""
        return self.files.hook is not None or self.files.capacity_bytes is not None

    @property
    def syncs(self) -> bool:
        """Whether it has to sync before it fetches on: in Kafka not so as a mere observer."""
        return self.config.can_become_voter or self.profile.policy.flushes_always

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

    # ---- events --------------------------------------------------------------------------------

    def step(self, event: ev.Event) -> None:
        """Let the core take an event, do what it says, and let the invariants look."""
        try:
            effects = self.core.step(event, self.clock_us())
        except FatalError as error:
            raise Violation("no_fatal_error", f"node {self.id}: {error}") from error
        if event.__class__ is ev.RequestReceived:
            request: Any = event.request
            kind = request.__class__
            if kind is Fetch or kind is FetchSnapshot:
                self.world.hooks.fetch_handled(
                    self, request.replica_id, request.replica_directory_id
                )
            elif kind is Vote:
                self.world.hooks.vote_handled(self, request, effects)
            elif kind is UpdateVoter:
                self.world.hooks.fetch_handled(self, request.voter_id, request.voter_directory_id)
        if effects:
            carry = self._carry
            for effect in effects:
                if self.effects_left >= 0:
                    self.effects_left -= 1
                    if self.effects_left < 0:
                        raise PowerLostError
                how = carry.get(effect.__class__)
                if how is None:
                    self._rest(effect)
                else:
                    how(effect)
            if self.has_new_voters:
                self.has_new_voters = False
                self.world.hooks.voters_changed(self)
        core = self.core
        if core.epoch != self.epoch:
            old, self.epoch = self.epoch, core.epoch
            self.world.hooks.epoch_changed(self, old, core.epoch)
        role = core.role.name
        if role is not self.role:
            old_role, self.role = self.role, role
            if role is RoleName.LEADER:
                last = len(self.mirror.ends) - 1
                self.epoch_start = self.mirror.base_of(last) if last >= 0 else 0
            elif old_role is RoleName.LEADER:
                self.world.appends.give_up(self.id)
            self.world.hooks.role_changed(self, old_role, role)
        if core.high_watermark != self.high_watermark:
            self._note_high_watermark()
        self.world.scheduler.stepped(self)
        if self.written is not None:
            event, self.written = self.written, None
            self.step(event)

    def _note_high_watermark(self) -> None:
        old, new = self.high_watermark, self.core.high_watermark
        self.high_watermark = new
        self.world.hooks.high_watermark_changed(self, old, new)

    def receive(self, message: Message) -> None:
        """Take a request or a reply, as bytes."""
        if message.is_reply:
            asked = self.asked.pop(message.correlation, None)
            if asked is None or message.life != self.life:
                is_late = message.life == self.life  # Answered already, or given up.
                self.world.met["late reply" if is_late else "reply to an earlier life"] += 1
                return
            request, version = asked
            reply = self.profile.decode_reply(request, version, message.body)
            self.step(ev.ReplyReceived(message.correlation, reply))
            return
        request = self.profile.decode_request(message.api_key, message.version, message.body)
        self._token += 1
        self.answering[self._token] = (request, message)
        self.step(ev.RequestReceived(self._token, request))

    def flush(self) -> None:
        """The disk is done syncing what was there when it began."""
        assert self.flushing is not None
        wanted, self.flushing = self.flushing, None
        flushed = self.storage.flush(wanted)
        self.durable_end = flushed.end_offset
        self.world.hooks.flushed(self)
        self.step(flushed)

    # ---- effects -------------------------------------------------------------------------------

    def _rest(self, effect: fx.Effect) -> None:
        """What concerns only the storage, and what concerns nobody here."""
        self.storage.carry_out(effect)

    def _persist(self, effect: fx.PersistElection) -> None:
        self.storing = effect.state
        self.storage.persist_election(effect)
        self.stored, self.storing = effect.state, None
        self.world.hooks.persisted(self, effect.state)

    def _truncate(self, effect: fx.TruncateLog) -> None:
        self.has_new_voters = True
        self.world.hooks.truncating(self, effect.end_offset)
        self.durable_end = min(self.durable_end, effect.end_offset)  # A cut may end half-way.
        self.storage.truncate(effect.end_offset)
        self.mirror.truncate_to(effect.end_offset)
        self.durable_end = min(self.durable_end, self.mirror.end_offset)
        self.world.hooks.truncated(self)

    def _reset(self, effect: fx.ResetLog) -> None:
        snapshot = effect.snapshot_id
        self.durable_end = min(self.durable_end, snapshot.end_offset)
        chain = self.world.snapshot_chain(self, snapshot)
        self.storage.reset(snapshot)
        self.mirror = Mirror(snapshot.end_offset, chain, snapshot.epoch)
        self.durable_end = snapshot.end_offset
        self.has_new_voters = True
        self.world.hooks.log_reset(self, snapshot)

    def _took(self, data: Any) -> None:
        first = self.mirror.append(data)
        self.world.hooks.appended(self, first)

    def _append(self, effect: fx.AppendRecords) -> None:
        self.storage.append_records(effect)
        self._took(self.storage.log.read(effect.base_offset, ONE_BATCH))
        mirror = self.mirror
        first = bytes(effect.records[0])
        self.world.appends.written(self.id, mirror.ends[-1], first, mirror.chains[-1])

    def _append_control(self, effect: fx.AppendControl) -> None:
        self.storage.append_control(effect)
        self._took(self.storage.log.read(effect.base_offset, ONE_BATCH))
        self.has_new_voters = True
        for index, record in enumerate(effect.records):
            self.world.hooks.control_appended(self, effect.base_offset + index, record)

    def _append_batches(self, effect: fx.AppendBatches) -> None:
        for batch in effect.batches:
            self.world.hooks.appending(self, batch.base_offset)
            self.storage.append_batch(batch)
            self._took(batch.data)
            for offset, record in batch.control:
                self.has_new_voters = True
                self.world.hooks.control_appended(self, offset, record)

    def _flush(self, effect: fx.FlushLog) -> None:
        is_under_way = self.flushing is not None
        self.flushing = effect
        if not is_under_way:  # Else one sync serves both.
            self.world.scheduler.will_flush(self)

    def _write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        self.world.write_snapshot(self, effect)

    def _finish_snapshot(self, effect: fx.FinishSnapshot) -> None:
        self.world.scheduler.will_finish(self, effect.id)

    def _delete_before(self, effect: fx.DeleteBefore) -> None:
        self.storage.delete_before(effect.snapshot_id)
        self.mirror.start_at(effect.snapshot_id.end_offset)
        self.world.hooks.log_start_changed(self)

    def _ask(self, effect: fx.Ask) -> None:
        request = effect.request
        kind = request.__class__
        if kind is Fetch:
            self.world.hooks.fetch_asked(self, request)
        elif kind is Vote:
            self.world.hooks.vote_asked(self, request)
        target = effect.node.port - PORT_BASE
        api = self.profile.api_of(request)
        newest = api.max_version
        version = self.world.version_between(self, target, api.key, newest)
        if version < newest and version < self.profile.min_version(request):
            self.world.scheduler.will_fail(self, effect.request_id, True)
            return
        body = self.profile.encode_request(request, version)
        self.asked[effect.request_id] = (request, version)
        self.world.send(
            Message(self.id, target, False, effect.request_id, self.life, api.key, version, body)
        )

    def _answer(self, effect: fx.Answer) -> None:
        request, asked = self.answering.pop(effect.token)
        reply = effect.reply
        kind = reply.__class__
        if kind is FetchReply or kind is FetchSnapshotReply:
            self.storage.fill(reply)
        elif not reply.error and not reply.top_error:
            if isinstance(request, Vote):
                granted = reply.vote_granted  # type: ignore[attr-defined] # A Vote's answer has it.
                self.world.hooks.vote_answered(self, request, granted)
                self.world.hooks.epoch_answered(self, request.epoch)
            elif isinstance(request, BeginEpoch | EndEpoch):
                self.world.hooks.epoch_answered(self, request.leader_epoch)
        body = self.profile.encode_reply(request, reply, asked.version, LISTENER)
        self.world.send(
            Message(
                self.id, asked.source, True, asked.correlation, asked.life,
                asked.api_key, asked.version, body,
            )
        )  # fmt: skip

    def _commit(self, effect: fx.Commit) -> None:
        if self.core.high_watermark != self.high_watermark:
            self._note_high_watermark()
        self.world.appends.committed(self.id, effect.high_watermark)

    def _leader_changed(self, effect: fx.LeaderChanged) -> None:
        self.world.leader_changed(self, effect.epoch, effect.leader_id)
        self.world.hooks.leader_told(self, effect.leader_id)

    def _load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        self.storage.carry_out(effect)
        self.world.hooks.snapshot_loaded(self, effect.snapshot_id)

    def _appended(self, effect: fx.Appended) -> None:
        self.world.appends.took(effect.append_id, effect.base_offset, effect.last_offset + 1)

    def _append_refused(self, effect: fx.AppendRefused) -> None:
        self.world.appends.refuse(effect.append_id)
