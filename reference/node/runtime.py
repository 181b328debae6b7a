"""A node: the core and its log directory, driven by asyncio.

One coroutine takes events in the order in which they come, lets the core decide, and carries out
what it says, effect by effect. What may wait for the disk (quorum-state, a cut, the first append of
an epoch) runs in a thread, and the next effect only after it: so the order of effects is that of
the core, while other connections are served. A sync of the log runs beside all that, and its end is
an event like any other.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.node.client import Asker, Peers
from kraftspec.reference.node.descriptors import connections_max
from kraftspec.reference.node.handing_back import LOOK_AGAIN_S, HandingBack
from kraftspec.reference.node.kinds import kind_of
from kraftspec.reference.node.meters import Meters
from kraftspec.reference.node.oddities import Oddities
from kraftspec.reference.node.registration import register
from kraftspec.reference.node.security.gate import Gate
from kraftspec.reference.node.security.records import SecurityRecords
from kraftspec.reference.node.server import Server
from kraftspec.reference.node.service import Service
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.node.snapshotting import Snapshotting
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.raft import Core, RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.config import CLEAN_PERIOD_US
from kraftspec.reference.raft.messages import EndEpoch
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.storage import Storage

if TYPE_CHECKING:
    from types import TracebackType

    from kraftspec.reference.log import Files
    from kraftspec.reference.node.settings import Limits, NodeConfig
    from kraftspec.reference.raft import types as raft
    from kraftspec.reference.raft.messages import Reply
    from kraftspec.reference.raft.profile import Profile

SHUTDOWN_TIMEOUT_S: Final = 5.0  # KafkaRaftClient.GRACEFUL_SHUTDOWN_TIMEOUT_MS
EVENTS_AT_ONCE: Final = 256  # Then other tasks get their turn.

_UNKNOWN: Final = "this node leads no longer: whether the records are committed, it cannot say"

log = logging.getLogger("kraftspec.node")


class NotAppendedError(Exception):
    """Records were not appended, or nobody can say whether they were; ``error`` is Kafka's code."""

    def __init__(self, error: int, message: str) -> None:
        super().__init__(message)
        self.error = error


class Appended(NamedTuple):
    """Where records are, now that they are committed."""

    epoch: int
    base_offset: int
    last_offset: int


class Node:
    """One node. ``async with Node(config) as node`` starts it, and stops it in good order.

    To be read by anybody: ``core``, ``storage``, ``listeners`` (name to the host and port that are
    bound), ``server``, ``peers``, ``failure`` (what ended it, or what its disk said as it ended).

    ``hand_back`` says whether to resign from leading once the epoch's first record is committed:
    True, False, or None for what the profile does: that of Kafka, where another voter is a Kafka
    controller (see `handing_back`).
    """

    core: Core
    storage: Storage
    server: Server
    peers: Peers

    def __init__(
        self,
        config: NodeConfig,
        *,
        profile: Profile | None = None,
        hand_back: bool | None = None,
        files: Files | None = None,
    ) -> None:
        self.config = config
        self.listeners: dict[str, tuple[str, int]] = {}
        self.failure: BaseException | None = None
        self.profile = profile or KafkaProfile(config.core.listener_name)
        self.kind = kind_of(self.profile)
        self._handing_back = HandingBack(self.kind.hands_back if hand_back is None else hand_back)
        self._files = files
        self._random = random.SystemRandom()
        self._inbox: deque[ev.Event] = deque()
        self._turns: deque[Callable[[], Coroutine[Any, Any, None] | None]] = deque()
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()  # It is ending: nothing begins any more.
        self._is_over = asyncio.Event()  # Nothing is left open.
        self._left = asyncio.Event()  # The core has nothing more to do.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = NEVER_US
        self._cleaner: asyncio.TimerHandle | None = None
        self._append_id = 0
        self._appending: dict[int, asyncio.Future[Appended]] = {}
        self._uncommitted: list[tuple[int, int, Appended]] = []  # (last offset, append id, …)
        self._flushing: fx.FlushLog | None = None
        self._is_flush_running = False
        self._watchers: list[tuple[Callable[[Node], bool], asyncio.Future[None]]] = []
        self._driver: asyncio.Task[None] | None = None
        self._registration: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._disk = ThreadPoolExecutor(2, thread_name_prefix=f"node-{config.node_id}-disk")
        self._written: Future[Any] | None = None  # What the driver had the disk do last.
        self._clock_base_ns = time.time_ns() - time.monotonic_ns()
        self.oddities = Oddities(config.node_id, self.kind)
        self.service = Service(self)
        self.meters = Meters()
        self._snapshots = Snapshotting(self) if self.kind.writes_snapshots else None
        self._carry: dict[type[fx.Effect], Callable[[Any], Coroutine[Any, Any, None] | None]] = {
            fx.PersistElection: self._persist,
            fx.TruncateLog: self._truncate,
            fx.ResetLog: self._reset,
            fx.AppendRecords: self._append_records,
            fx.AppendControl: self._append_control,
            fx.AppendBatches: self._append_batches,
            fx.FlushLog: self._flush,
            fx.FinishSnapshot: self._finish_snapshot,
            fx.DeleteBefore: self._delete_before,
            fx.Ask: self._ask,
            fx.Answer: self.service.answer,
            fx.DropConnection: self._drop_connection,
            fx.Commit: self._commit,
            fx.LeaderChanged: self._leader_changed,
            fx.UpgradeAnswered: self.service.upgraded,
            fx.Appended: self._appended,
            fx.AppendRefused: self._append_refused,
            fx.ShutdownCompleted: self._shutdown_completed,
        }
        if self._snapshots is not None:
            self._carry[fx.WriteSnapshot] = self._snapshots.permitted
            self._carry[fx.SnapshotRefused] = self._snapshots.refused
            self._carry[fx.LoadSnapshot] = self._snapshots.replaced

    # ---- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the directory, listen, and take part in the quorum.

        Raises what ``Storage.open`` does (NotFormattedError, BlockingIOError, …), TlsError for a
        key store of no use, and OSError for a listener that cannot be had; nothing is left open
        then.
        """
        loop = asyncio.get_running_loop()
        config = self.config
        self.gate = Gate(config, self.kind.messages)
        self.storage = await loop.run_in_executor(
            self._disk,
            lambda: Storage.open(
                config.log_dir, self.profile, config.core, files=self._files, log_config=config.log
            ),
        )
        try:
            config = self.config = config.of_directory(self._own_meta())
            self._make_core()
            if self.gate.needs_records:
                records = SecurityRecords(self.storage, lambda: self.core.committed_offset)
                await loop.run_in_executor(self._disk, records.refresh)
                self.gate.records = records
            self.server = Server(self._limits(), self.service.received, lambda: len(self._inbox))
            self.peers = Peers(self._asker())
            for listener in config.listeners:
                self.listeners[listener.name] = await self.server.listen(
                    listener, self.gate.server_tls(listener)
                )
        except BaseException:
            if hasattr(self, "server"):
                await self.server.close()
            self.storage.close()
            raise
        log.info(
            "started",
            extra={
                "node": config.node_id,
                "cluster": config.core.cluster_id,
                "directory": str(config.core.directory_id),
                "listeners": self._where(),
                "epoch": self.core.epoch,
                "end_offset": self.storage.log.end_offset,
            },
        )
        self._driver = loop.create_task(self._drive())
        self._cleaner = loop.call_later(CLEAN_PERIOD_US / 1e6, self._clean)
        if self.kind.registers:
            self._registration = loop.create_task(register(self))
            self._registration.add_done_callback(_told)
        self.post(ev.Start())

    def _where(self) -> str:
        """Return the listeners as ``listeners`` has them, with what is bound."""
        found = self.listeners.items()
        return ",".join(f"{name}://{host_port(host, port)}" for name, (host, port) in found)

    def _own_meta(self) -> Any:
        """Return meta.properties; a directory that is to have an id has one from now on."""
        directory = self.storage.directory
        if self.kind.names_directory and directory.meta.directory_id == ZERO_UUID:
            made = Uuid.random()  # Never one that Kafka's tools would take for an option.
            directory.set_meta(msgspec.structs.replace(directory.meta, directory_id=made))
        return directory.meta

    def _make_core(self) -> None:
        self.core = self.storage.make_core(self.config.core, self._random)

    def _limits(self) -> Limits:
        """Return the limits, with no more connections than leave descriptors for the log."""
        limits = self.config.limits
        config = self.config.core
        fit = connections_max(len(self.core.log.voters.last) + len(config.bootstrap_servers))
        if fit is None or fit >= limits.connections_max:
            return limits
        return msgspec.structs.replace(limits, connections_max=fit)

    def _asker(self) -> Asker:
        config = self.config
        return Asker(
            profile=self.profile,
            client_id=f"raft-client-{config.node_id}",
            request_timeout_s=config.core.request_timeout_us / 1e6,
            connect_timeout_s=config.limits.connect_ms / 1000,
            connect_timeout_max_s=config.limits.connect_ms_max / 1000,
            response_bytes_max=config.limits.request_bytes_max,
            tls=self.gate.client_tls,
            login=self.gate.login if self.gate.has_login else None,
            replied=self._replied,
            failed=lambda request_id, unsupported: self.post(
                ev.RequestFailed(request_id, unsupported)
            ),
        )

    async def stop(self, timeout_s: float = SHUTDOWN_TIMEOUT_S) -> None:
        """Leave in good order: resign if this node leads, let another be elected, close the log.

        Takes ``timeout_s`` at the most for that; raises what ended the node if it failed before.
        """
        if self._ended.is_set():
            await self._is_over.wait()
        elif self._driver is not None:
            log.info("stopping", extra=self._state())
            self.post(ev.ShutdownRequested(int(timeout_s * 1e6)))
            leaving = asyncio.ensure_future(self._left.wait())
            ended = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({leaving, ended}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            ended.cancel()
            await self._end(None)
            if self.failure is None:
                log.info("stopped", extra=self._state())
        if self.failure is not None:
            raise self.failure

    def _state(self) -> dict[str, int]:
        core = self.core
        return {
            "node": self.config.node_id,
            "epoch": core.epoch,
            "end_offset": core.log.end_offset,
        }

    async def end_now(self) -> None:
        """Close the log and everything else, without a word to the others."""
        await self._end(None)

    async def wait(self) -> None:
        """Return when the node has stopped; raise what ended it if it failed."""
        await self._is_over.wait()
        if self.failure is not None:
            raise self.failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _end(self, failure: BaseException | None) -> None:
        """Let everything go. After a failure nothing more is written, and nothing more is said.

        Returns once all is closed, whoever began it.
        """
        if self._ended.is_set():
            self.failure = self.failure or failure
            await self._is_over.wait()
            return
        self._ended.set()
        self.failure = failure
        try:
            await self._close_all()
        finally:
            self._is_over.set()

    async def _close_all(self) -> None:
        for handle in (self._timer, self._cleaner):
            if handle is not None:
                handle.cancel()
        if self._driver is not None and self._driver is not asyncio.current_task():
            self._driver.cancel()
            with suppress(asyncio.CancelledError):
                await self._driver
        for task in (self._registration, self._looking):
            if task is not None:
                task.cancel()
        self.peers.close()
        await self.server.close()
        if self._snapshots is not None:
            await self._snapshots.close()
        self._give_up_appends(_UNKNOWN)
        for appending in self._appending.values():
            if not appending.done():
                error = NotAppendedError(ErrorCode.BROKER_NOT_AVAILABLE, "the node stopped")
                appending.set_exception(error)
        for _, future in self._watchers:
            if not future.done():
                future.set_exception(self.failure or ConnectionError("the node stopped"))
        closing = asyncio.create_task(asyncio.to_thread(self._close_log))
        await asyncio.wait((closing,), timeout=SHUTDOWN_TIMEOUT_S)  # Not for a disk that hangs.
        if closing.done():
            try:
                closing.result()
            except OSError as error:
                self.failure = self.failure or error

    def _close_log(self) -> None:
        # What was being written as the driver ended comes to its end before the log is closed.
        self._disk.shutdown()
        self.storage.close()
        if self._written is not None and not self._written.cancelled():
            self._written.result()  # Nobody else learns of its failure: the driver is gone.

    # ---- for others ----------------------------------------------------------------------------

    def post(self, event: ev.Event) -> None:
        """Let the core take an event, after those that came before it."""
        self._inbox.append(event)
        self._wake.set()

    def take_turn(self, work: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
        """Do something between two events, when nothing else is done to the log but syncing it."""
        self._turns.append(work)
        self._wake.set()

    def now_us(self) -> int:
        """Microseconds since 1970 by a clock that never jumps: set once, at the node's start."""
        return (self._clock_base_ns + time.monotonic_ns()) // 1000

    async def append(self, records: Sequence[bytes]) -> Appended:
        """Append records as the leader, all in one batch, and return once they are committed.

        Raises NotAppendedError: where the node does not lead, and where it stopped leading before
        it could tell whether they are committed.
        """
        self._append_id += 1
        append_id = self._append_id
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        if self._ended.is_set():
            raise NotAppendedError(ErrorCode.BROKER_NOT_AVAILABLE, "the node stopped")
        self._appending[append_id] = future
        self.post(ev.AppendRequested(append_id, self.core.epoch, tuple(records)))
        return await future

    async def until(self, condition: Callable[[Node], bool], timeout_s: float | None) -> None:
        """Wait until something is so, looked at after each event; TimeoutError where it is not."""
        if condition(self):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._watchers.append(entry)
        try:
            await asyncio.wait_for(future, timeout_s)
        finally:
            if entry in self._watchers:
                self._watchers.remove(entry)

    # ---- events --------------------------------------------------------------------------------

    async def _drive(self) -> None:
        """Take events and carry out effects until the core is done, or something fails."""
        try:
            while not self._left.is_set():
                if not self._inbox and not self._turns:
                    self._wake.clear()
                    began_s = time.monotonic()
                    await self._wake.wait()
                    self.meters.waited(began_s)
                for _ in range(EVENTS_AT_ONCE):
                    if self._turns:
                        waits = self._turns.popleft()()
                    elif self._inbox:
                        waits = self._step(self._inbox.popleft())
                    else:
                        break
                    if waits is not None:
                        await waits
                    if self.server.waiting:
                        self.server.go_on()
                else:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            log.critical(
                "the node stops: it failed",
                extra={"node": self.config.node_id, "reason": f"{type(error).__name__}: {error}"},
                exc_info=not isinstance(error, OSError | FatalError),
            )
            log.debug("where it failed", exc_info=True)
            await self._end(error)

    def _step(self, event: ev.Event) -> Coroutine[Any, Any, None] | None:
        """Let the core take an event; return what is left to be done where the disk is slow."""
        effects = iter(self.core.step(event, self.now_us()))
        for effect in effects:
            waits = self._carry_out(effect)
            if waits is not None:
                return self._go_on(waits, effects)
        self._stepped()
        return None

    async def _go_on(self, waits: Coroutine[Any, Any, None], effects: Any) -> None:
        await waits
        for effect in effects:
            more = self._carry_out(effect)
            if more is not None:
                await more
        self._stepped()

    def _carry_out(self, effect: fx.Effect) -> Coroutine[Any, Any, None] | None:
        how = self._carry.get(effect.__class__)
        if how is not None:
            return how(effect)
        return self._in_thread(lambda: self.storage.carry_out(effect))

    def _stepped(self) -> None:
        """Set the timer to when the core wants to be woken, and look at who waits."""
        self.meters.stepped(self.core)
        deadline_us = self.core.next_deadline_us()
        if deadline_us < self._timer_us:  # A timer that fires too early is set again then.
            if self._timer is not None:
                self._timer.cancel()
            self._set_timer(deadline_us)
        for condition, future in self._watchers[:] if self._watchers else ():
            if not future.done() and condition(self):
                future.set_result(None)

    def _set_timer(self, deadline_us: int) -> None:
        self._timer_us = deadline_us
        delay_s = max(deadline_us - self.now_us(), 0) / 1e6
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_us = NEVER_US
        deadline_us = self.core.next_deadline_us()
        if deadline_us <= self.now_us():
            self.post(ev.Tick())
        elif deadline_us < NEVER_US:
            self._set_timer(deadline_us)

    def _clean(self) -> None:
        self.post(ev.CleanRequested(self.storage.log.size_bytes))
        self._cleaner = asyncio.get_running_loop().call_later(CLEAN_PERIOD_US / 1e6, self._clean)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        self._written = self._disk.submit(work)
        return await asyncio.wrap_future(self._written)

    # ---- requests to others --------------------------------------------------------------------

    def _ask(self, effect: fx.Ask) -> None:
        request = effect.request
        if isinstance(request, EndEpoch):
            request.preferred_successors = self._handing_back.in_order(
                self.core, self.peers, request.preferred_successors
            )
        self.peers.ask(effect.request_id, effect.node, effect.request)

    def _replied(self, request_id: int, reply: Reply, node: raft.Node) -> None:
        self.oddities.look_at_reply(self.core, reply, host_port(node.host, node.port))
        self.post(ev.ReplyReceived(request_id, reply))

    def _drop_connection(self, effect: fx.DropConnection) -> None:
        self.peers.drop(effect.node)

    # ---- the disk ------------------------------------------------------------------------------

    def _persist(self, effect: fx.PersistElection) -> Coroutine[Any, Any, None]:
        return self._in_thread(lambda: self.storage.persist_election(effect))

    def _truncate(self, effect: fx.TruncateLog) -> Coroutine[Any, Any, None]:
        log.warning(
            "the log is cut: the leader's differs",
            extra={"node": self.config.node_id, "end_offset": effect.end_offset},
        )
        return self._in_thread(lambda: self.storage.truncate(effect.end_offset))

    def _reset(self, effect: fx.ResetLog) -> Coroutine[Any, Any, None]:
        self.oddities.look_at_voters(self.core)
        return self._in_thread(lambda: self.storage.reset(effect.snapshot_id))

    def _append_records(self, effect: fx.AppendRecords) -> Coroutine[Any, Any, None] | None:
        if self.storage.append_syncs(effect):
            return self._in_thread(lambda: self.storage.append_records(effect))
        self.storage.append_records(effect)
        return None

    def _append_control(self, effect: fx.AppendControl) -> Coroutine[Any, Any, None]:
        return self._in_thread(lambda: self.storage.append_control(effect))

    def _append_batches(self, effect: fx.AppendBatches) -> Coroutine[Any, Any, None] | None:
        if any(batch.control for batch in effect.batches):
            self.oddities.look_at_voters(self.core)

        def append() -> None:
            for batch in effect.batches:
                self.storage.append_batch(batch)

        if self.storage.append_syncs(effect):
            return self._in_thread(append)
        append()
        return None

    def _flush(self, effect: fx.FlushLog) -> None:
        """Sync, beside what comes next; one that is wanted meanwhile begins when it is done."""
        self._flushing = effect
        if not self._is_flush_running:
            self._begin_flush()

    def _begin_flush(self) -> None:
        wanted, self._flushing = self._flushing, None
        assert wanted is not None
        self._is_flush_running = True
        running = asyncio.get_running_loop().run_in_executor(self._disk, self.storage.flush, wanted)
        running.add_done_callback(self._flushed)

    def _flushed(self, done: asyncio.Future[ev.LogFlushed]) -> None:
        self._is_flush_running = False
        if done.cancelled():
            return
        error = done.exception()
        if self._ended.is_set():
            self.failure = self.failure or error
            return
        if error is not None:
            self._fail_soon(error)
            return
        if self._flushing is not None:
            self._begin_flush()
        self.post(done.result())

    def _fail_soon(self, error: BaseException) -> None:
        """End the node before it takes another event."""
        log.critical(
            "the node stops: its disk failed",
            extra={"node": self.config.node_id, "reason": str(error)},
        )
        if self._driver is not None:
            self._driver.cancel()
        self._ending = asyncio.ensure_future(self._end(error))

    async def _finish(self, effect: fx.FinishSnapshot) -> None:
        stored = await self._in_thread(lambda: self.storage.finish_snapshot(effect.id))
        if stored is not None:
            # Before what came meanwhile: the leader was not silent, as a timer would have it.
            self._inbox.appendleft(stored)

    def _finish_snapshot(self, effect: fx.FinishSnapshot) -> Coroutine[Any, Any, None]:
        return self._finish(effect)

    def _delete_before(self, effect: fx.DeleteBefore) -> Coroutine[Any, Any, None]:
        return self._in_thread(lambda: self.storage.delete_before(effect.snapshot_id))

    # ---- the state machine ---------------------------------------------------------------------

    def _appended(self, effect: fx.Appended) -> None:
        found = Appended(effect.epoch, effect.base_offset, effect.last_offset)
        heapq.heappush(self._uncommitted, (found.last_offset, effect.append_id, found))

    def _append_refused(self, effect: fx.AppendRefused) -> None:
        future = self._appending.pop(effect.append_id, None)
        if future is not None and not future.done():
            name = ErrorCode(effect.error).name
            future.set_exception(NotAppendedError(effect.error, f"not appended: {name}"))

    def _commit(self, effect: fx.Commit) -> None:
        if self._snapshots is not None:
            self._snapshots.committed(effect.high_watermark)
        waiting = self._uncommitted
        while waiting and waiting[0][0] < effect.high_watermark:
            _, append_id, found = heapq.heappop(waiting)
            future = self._appending.pop(append_id, None)
            if future is None or future.done():
                continue
            if found.epoch == self.core.epoch:
                future.set_result(found)
            else:  # These offsets are another leader's records.
                future.set_exception(NotAppendedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, _UNKNOWN))

    def _leader_changed(self, effect: fx.LeaderChanged) -> None:
        core = self.core
        log.info(
            "leader changed",
            extra={"node": core.config.node_id, "epoch": effect.epoch, "leader": effect.leader_id},
        )
        self.oddities.look_at_voters(core)
        if effect.leader_id != core.config.node_id or core.role.name is not RoleName.LEADER:
            self._give_up_appends(_UNKNOWN)
        else:
            self._hand_back_if_due()

    def _hand_back_if_due(self) -> None:
        """Resign where a Kafka controller could lead; while this node leads, look now and then."""
        core = self.core
        if core.role.name is not RoleName.LEADER or self._ended.is_set():
            return
        if self._handing_back.is_due(core, self.peers):
            log.info(
                "resigning: another is to lead",
                extra={"node": core.config.node_id, "epoch": core.epoch},
            )
            self.post(ev.ResignRequested(core.epoch))
        elif self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again())

    async def _look_again(self) -> None:
        while self.core.role.name is RoleName.LEADER:
            await self._handing_back.ask_around(self.core, self.peers.asker)
            await asyncio.sleep(LOOK_AGAIN_S)
            self._hand_back_if_due()

    def _give_up_appends(self, why: str) -> None:
        waiting, self._uncommitted = self._uncommitted, []
        for _, append_id, _ in waiting:
            future = self._appending.pop(append_id, None)
            if future is not None and not future.done():
                future.set_exception(NotAppendedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why))

    def _shutdown_completed(self, effect: fx.ShutdownCompleted) -> None:
        if effect.timed_out:
            log.warning("no other leader was elected in time", extra={"node": self.config.node_id})
        self._left.set()


def _told(task: asyncio.Task[None]) -> None:
    """Say so where the registration ended by an error: the quorum itself goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, ConnectionError):
        log.error("this node is not registered", exc_info=error)
