"""A node of ours in the simulator: the core of this project, its storage, a disk in memory."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from kraftspec.fastpath.records import CRC_AT
from kraftspec.fastpath.walk import reader_of, walk_headers
from kraftspec.reference.host import Host, PowerLostError
from kraftspec.reference.log import CorruptMetadataLogError, LogDirectory
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.epochs import EpochEntry
from kraftspec.reference.log.known_segments import marks_of, unchanged
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.segment import LOG_SUFFIX
from kraftspec.reference.raft import Config, Core, ElectionState, SnapshotId
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Batch, Reply, Request
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.storage import Storage
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.initial_quorum import LISTENER
from kraftspec.simulation.log_model import SNAPSHOT_STATE, LogModel
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import FULL, Replica, Surroundings
from kraftspec.simulation.rng import Rng

DIRECTORY = "/log"
# What a power loss does to files, in words, by the keys of ``MemoryFiles.power_loss``.
_LOST = {
    "lost write": "loses bytes of", "torn write": "tears", "lost name": "loses the names",
}  # fmt: skip
# Operations that change a disk.
CHANGES = ("write", "sync", "rename", "sync_directory", "truncate")
ONE_BATCH = 1  # Bytes: a read gives one batch at least, and so this one.
READ_BYTES = 1 << 20


class _BegunSync(NamedTuple):
    """What was in a log when a sync of it began: its segment, where that ended, and the offset."""

    wanted: fx.FlushLog
    segment: Any
    end: int
    end_offset: int


class _Turns:
    """A log's lock, among tasks that are no threads: who takes it lets the sync come to its end."""

    def __init__(self, end_sync: Callable[[], None]) -> None:
        self._end_sync = end_sync

    def __enter__(self) -> None:
        self._end_sync()

    def __exit__(self, *_: object) -> None:
        pass


class OwnReplica(Host, Replica):
    """A `Host` of the simulated quorum. Its power may go between any two effects."""

    core: Core
    can_move = True
    _begun: _BegunSync | None = None
    _flushed: ev.LogFlushed | None = None  # What the core is to be told of the last sync.

    def __init__(
        self, world: Surroundings, config: Config, first_files: Mapping[str, bytes] | None
    ) -> None:
        Replica.__init__(self, world, config)
        Host.__init__(self)
        self.campaigns_when_removed = self.profile.policy.campaigns_when_removed
        self.files = MemoryFiles()
        self.files.hook_sees_reads = False  # Faults come at operations that change something.
        self._is_cutting = False  # Whether the power goes at an operation of the disk.
        LogDirectory.format(
            DIRECTORY, world.protocol.meta_properties(config), first_files, self.files
        )
        self.files.sync_directory("/")

    # ---- incarnations --------------------------------------------------------------------------

    def _open(self) -> Storage:
        return Storage.open(
            DIRECTORY, self.profile, self.config,
            files=self.files, log_config=self.world.log_config,
        )  # fmt: skip

    def recover(self, seed: int) -> LogModel:
        """Open the disk, make a core on it, and read the log."""
        self.begin_incarnation()
        try:
            self.storage = self._open()
            self.storage.log.flushing = _Turns(self._end_sync)
            self.core_start = self.storage.election or ElectionState()
            self.core = self.storage.make_core(self.config, Random(seed))
            return self.read_log()
        except (CorruptMetadataLogError, ValueError, LookupError) as error:
            raise Violation("opens_its_disk", f"node {self.id}: {error!r}") from error

    def read_log(self) -> LogModel:
        """Read the log, and the chain of the snapshot that it begins with."""
        log = self.storage.log
        start, chain, epoch = log.start_offset, 0, 0
        if start > 0:
            snapshot = next(one for one in log.snapshots if one.end_offset == start)
            chain, epoch = self.snapshot_chain(snapshot), snapshot.epoch
        log_model = LogModel(start, chain, epoch)
        segments = log.segments_from(start)
        before, known = log.notes.get(LogModel, ((), log_model))
        count = unchanged(before, segments) if known.start == log_model.start else 0
        if count:
            log_model = known.up_to(segments[count - 1].next_offset)
        for segment in segments[count:]:
            while log_model.end_offset < segment.next_offset:
                log_model.append(log.read(log_model.end_offset, READ_BYTES))
        log.notes[LogModel] = marks_of(segments), log_model.up_to(log_model.end_offset)
        return log_model

    def stop(self) -> None:
        """Be down."""
        super().stop()
        self._begun = self._flushed = None
        if self._is_cutting:
            self._is_cutting = False
            self.files.hook = None

    def kill(self) -> None:
        """End the process."""
        self.files.kill()

    def cut_power(self, random: Random) -> Mapping[str, int]:
        """Lose some of what was not synced."""
        lost = self.files.power_loss(random)
        torn = lost.get("torn write", [])
        for what, paths in lost.items():
            names = [_name(path) for path in paths if what == "torn write" or path not in torn]
            if names:
                self.hooks.disk_failed(self, f"{_LOST[what]} {', '.join(names)}")
        return {what: len(paths) for what, paths in lost.items()}

    # ---- the disk ------------------------------------------------------------------------------

    @property
    def log_bytes(self) -> int:
        """The size of the segments."""
        return self.storage.log.size_bytes

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots of the log."""
        return self.storage.log.snapshots

    @property
    def cached_epochs(self) -> Sequence[EpochEntry]:
        """The log's cache."""
        return self.storage.log.epochs

    @property
    def stored_voters(self) -> VoterSet | None:
        """Read quorum-state."""
        state = self.storage.state
        return None if state is None else state.voters

    def values_in(self, snapshot: SnapshotId) -> Sequence[bytes]:
        """Read a snapshot's records."""
        return self.storage.snapshot_values(snapshot)

    def controls_in(self, snapshot: SnapshotId) -> Sequence[ControlRecord]:
        """Read a snapshot's control records."""
        return list(self.storage.snapshot_controls(snapshot))

    def corrupt(self, rng: Rng) -> bool:
        """Flip a bit of a synced batch, in the part of it that its CRC covers, if there is one."""
        directory = f"{DIRECTORY}/{METADATA_NAME}"
        segments = [name for name in self.files.names(directory) if name.endswith(".log")]
        path = f"{directory}/{rng.pick(segments)}"
        data = memoryview(self.files.content(path))
        synced = [
            header
            for header in walk_headers(reader_of(data), 0, len(data))
            if header.base_offset < self.durable_end  # Not what a torn write left.
        ]
        if synced:
            batch = rng.pick(synced)
            at = rng.between(batch.position + CRC_AT, batch.end - 1)
            self.files.corrupt(path, at, 1 << rng.below(8))
        return bool(synced)

    def check_corruption_is_detected(self) -> None:
        """A log whose synced bytes have changed must not be opened as if nothing were."""
        try:
            log = self._open().log
        except (CorruptMetadataLogError, ValueError, OSError):
            return  # An OSError: the disk failed before the log was read. It is not opened.
        finally:
            self.files.kill()
        # One that starts there does so for a snapshot: the corrupted part is not needed any more.
        if log.start_offset < self.durable_end <= log.end_offset:
            raise Violation(
                "corruption_is_detected", f"node {self.id} opens a log whose bits flipped"
            )

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
                    self.hooks.disk_failed(self, f"its disk fails, {_told(operation, path, size)}")
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
                if left == 0:
                    told = _told(operation, path, size)
                    self.hooks.disk_failed(self, f"loses its power before {told}")
            if left <= 0:
                raise PowerLostError  # And so does whatever is tried afterwards.

        self.files.hook = lose
        self._is_cutting = True

    @property
    def is_disk_spoilt(self) -> bool:
        """Whether its disk has a fault that is not over."""
        return self.files.hook is not None or self.files.capacity_bytes is not None

    # ---- events --------------------------------------------------------------------------------

    def step(self, event: ev.Event) -> None:
        """Let the core take an event, do what it says, and let the invariants look."""
        try:
            now_us = self.clock_us() if self.has_own_clock else self.world.now_us
            effects = self.core.step(event, now_us)
        except FatalError as error:
            raise Violation("no_fatal_error", f"node {self.id}: {error}") from error
        if event.__class__ is ev.RequestReceived:
            self.note_handled(event.request, effects)
        if effects:
            self.carry_out(effects)
        self.stepped()
        if self.upcoming:
            self.step(self.upcoming.popleft())

    def take_request(self, token: int, request: Request, message: Message) -> None:
        """Step with a request."""
        self.step(ev.RequestReceived(token, request))

    def take_reply(self, request: Request, message: Message) -> None:
        """Step with an answer."""
        reply = self.profile.decode_reply(request, message.version, message.body)
        self.step(ev.ReplyReceived(message.correlation, reply))

    def flush(self) -> None:
        """End the sync, begin the next where it is needed, and step with what was synced."""
        self._end_sync()
        flushed, self._flushed = self._flushed, None
        assert flushed is not None
        self.synced(flushed)
        self.step(flushed)

    def finish_fetched(self, snapshot: SnapshotId) -> None:
        """Complete a snapshot, and step with that; one that was given up meanwhile is gone."""
        self.finish_snapshot(snapshot)
        if self.upcoming:
            stored = self.upcoming.popleft()
            if isinstance(stored, ev.SnapshotDamaged):
                text = f"node {self.id} fetched {snapshot}, which is {stored.reason}"
                raise Violation("fetched_whole", text)
            self.note_snapshot(snapshot, self.snapshot_chain(snapshot), is_own=False)
            self.step(stored)

    # ---- what differs from a node on a real machine ----------------------------------------------

    clock_us = Replica.clock_us

    @property
    def is_flushing(self) -> bool:
        """Whether a sync is under way."""
        return self.is_syncing

    @property
    def has_untold_sync(self) -> bool:
        """Whether a sync was ended by another one: the core hears of it when it was to end."""
        return self._flushed is not None

    def begin_sync(self) -> None:
        """Begin to sync what is there now; the scheduler says when the disk is done."""
        log: Any = self.storage.log
        segment = log._active
        self.is_syncing = True
        self.files.begin_sync(segment.path + LOG_SUFFIX)
        self._begun = _BegunSync(self.take_flush(), segment, segment.end, log._end_offset)
        self.world.scheduler.will_flush(self)

    def _end_sync(self) -> None:
        """Let the log flush, as it does in a thread: it began earlier, and appends went on since.

        So the log is shown to it as it was then, until the disk has synced.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return
        log: Any = self.storage.log
        segment, hook = begun.segment, self.files.hook
        end, end_offset = segment.end, log._end_offset

        def meanwhile(operation: str, path: str, size: int) -> None:
            if operation == "sync":
                segment.end, log._end_offset = end, end_offset
            if hook is not None:
                hook(operation, path, size)

        segment.end, log._end_offset = begun.end, begun.end_offset
        self.files.hook = meanwhile
        try:
            self._flushed = self.storage.flush(begun.wanted)
        finally:
            self.files.hook = hook
            segment.end, log._end_offset = end, end_offset
        self.note_flushed(self._flushed.end_offset)

    def on_finish_snapshot(self, effect: fx.FinishSnapshot) -> None:
        """Let the scheduler say when the disk is done."""
        self.world.scheduler.will_finish(self, effect.id)

    def on_ask(self, effect: fx.Ask) -> None:
        """Send a request, at a version that both speak."""
        request = effect.request
        self.note_ask(request)
        target = self.world.ports.get(effect.node.port, -1)
        if target < 0:  # A server that nobody runs, or an address that a node had before.
            self.world.scheduler.will_fail(self, effect.request_id, False)
            return
        api = self.profile.api_of(request)
        newest = api.max_version
        version = self.world.version_between(self, target, api.key, newest)
        if version < newest and version < self.profile.min_version(request):
            self.world.scheduler.will_fail(self, effect.request_id, True)
            return
        body = self.profile.encode_request(request, version)
        self.ask(effect.request_id, target, request, api.key, version, body)

    def send_answer(self, token: int, reply: Reply) -> None:
        """Send an answer, at the version of the request."""
        request, message = self.answering[token]
        self.answer(
            token, reply, self.profile.encode_reply(request, reply, message.version, LISTENER)
        )

    def snapshot_values(self, effect: fx.WriteSnapshot) -> Sequence[bytes]:
        """What a state machine is: the chain of what it applied."""
        return [SNAPSHOT_STATE.pack(effect.id.end_offset, self._chain_at(effect.id))]

    def _chain_at(self, snapshot: SnapshotId) -> int:
        chain = self.log_model.chain_at(snapshot.end_offset)
        assert chain is not None
        return chain

    # ---- reports to the invariants ------------------------------------------------------------

    def on_persist_election(self, effect: fx.PersistElection) -> None:
        """Note what may be there, and what is."""
        self.storing = effect.state
        super().on_persist_election(effect)
        self.note_persisted(effect.state)

    def on_truncate_log(self, effect: fx.TruncateLog) -> None:
        """Note a cut, before it and after it."""
        self.note_truncating(effect.end_offset)
        super().on_truncate_log(effect)
        self.note_truncated(effect.end_offset)

    def on_reset_log(self, effect: fx.ResetLog) -> None:
        """Note a new start of the log."""
        snapshot = effect.snapshot_id
        self.durable_end = min(self.durable_end, snapshot.end_offset)
        chain = self.snapshot_chain(snapshot)
        super().on_reset_log(effect)
        self.note_reset(snapshot, chain)

    def on_append_records(self, effect: fx.AppendRecords) -> None:
        """Note the batch as the log has it."""
        Host.on_append_records(self, effect)
        self.note_appended(self.storage.log.read(effect.base_offset, ONE_BATCH))
        log_model = self.log_model
        first = bytes(effect.records[0])
        self.world.appends.written(self.id, log_model.ends[-1], first, log_model.chains[-1])

    def on_append_control(self, effect: fx.AppendControl) -> None:
        """Note the batch as the log has it, and its records."""
        super().on_append_control(effect)
        self.note_appended(self.storage.log.read(effect.base_offset, ONE_BATCH))
        for offset, record in enumerate(effect.records, effect.base_offset):
            self.note_control(offset, record)

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append one after another, and note each, before it is in the log and after it."""
        for batch in batches:
            self.hooks.appending(self, batch.base_offset)
            Host.append_batches(self, (batch,))
            self.note_appended(batch.data)
            for offset, record in batch.control:
                self.note_control(offset, record)

    def on_write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        """Note a snapshot, if it was not there before."""
        super().on_write_snapshot(effect)
        if self.upcoming:
            self.note_snapshot(effect.id, self._chain_at(effect.id), is_own=True)

    def on_delete_before(self, effect: fx.DeleteBefore) -> None:
        """Note where the log starts."""
        super().on_delete_before(effect)
        self.note_log_start(effect.snapshot_id)

    def on_load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        """Report what the state machine gets."""
        self.hooks.snapshot_loaded(self, effect.snapshot_id)

    def on_commit(self, effect: fx.Commit) -> None:
        """Report what the state machine gets."""
        self.note_committed(effect.high_watermark)

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        """Report what the state machine gets."""
        self.note_leader(effect.epoch, effect.leader_id)

    def on_appended(self, effect: fx.Appended) -> None:
        """Tell the client."""
        self.note_taken(effect.append_id, effect.epoch, effect.base_offset, effect.last_offset + 1)

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        """Tell the client."""
        self.world.appends.refuse(effect.append_id)


def _name(path: str) -> str:
    """Return a file's name without the zeros before its offset."""
    return re.sub(r"^0+(?=\d)", "", path.rpartition("/")[2])


def _told(operation: str, path: str, size: int) -> str:
    """Return an operation of a disk in words, such as "write of 84 bytes to quorum-state"."""
    if operation == "write":
        return f"write of {size} bytes to {_name(path)}"
    return f"{operation.replace('_', ' of the ')} {_name(path)}"
