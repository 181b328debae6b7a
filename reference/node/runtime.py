"""A node: start and stop, its listeners, and what reaches its core from both sides.

How its core is driven is in `asyncio_host`, the order of its effects in `reference.host`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import UnregisterControllerRecord, UnregisterControllerResponse
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.node.anomalies import Anomalies
from kraftspec.reference.node.appending import Appended, Appending, NotAppendedError
from kraftspec.reference.node.asyncio_host import AsyncioHost
from kraftspec.reference.node.client import Asker, Peers
from kraftspec.reference.node.controllers import ControllerRecords
from kraftspec.reference.node.descriptors import connections_max
from kraftspec.reference.node.leadership_transfer import LOOK_AGAIN_S, LeadershipTransfer
from kraftspec.reference.node.registration import register
from kraftspec.reference.node.security.gate import Gate
from kraftspec.reference.node.security.records import SecurityRecords
from kraftspec.reference.node.server import Server
from kraftspec.reference.node.service import Service
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.node.snapshotting import Snapshotting
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.config import CLEAN_PERIOD_US
from kraftspec.reference.raft.messages import EndEpoch
from kraftspec.reference.storage import Storage

if TYPE_CHECKING:
    from types import TracebackType

    from kraftspec.reference.host import Wait
    from kraftspec.reference.log import Files
    from kraftspec.reference.node.settings import Limits, NodeConfig
    from kraftspec.reference.raft import types as raft
    from kraftspec.reference.raft.messages import Reply
    from kraftspec.reference.raft.profile import Profile

SHUTDOWN_TIMEOUT_S: Final = 5.0  # KafkaRaftClient.GRACEFUL_SHUTDOWN_TIMEOUT_MS

log = logging.getLogger("kraftspec.node")


class Node(AsyncioHost):
    """One node. ``async with Node(config) as node`` starts it, and stops it in good order.

    Public: ``core``, ``storage``, ``listeners`` (name to the host and port that are bound),
    ``server``, ``peers``, ``failure`` (what ended it, or the error of its disk as it ended).

    ``transfer_leadership`` is whether to resign as the leader once the epoch's first record is
    committed: True, False, or None for what the profile does: that of Kafka, where another voter is
    a Kafka controller (see `leadership_transfer`).
    """

    server: Server
    peers: Peers

    def __init__(
        self,
        config: NodeConfig,
        *,
        profile: Profile | None = None,
        transfer_leadership: bool | None = None,
        files: Files | None = None,
    ) -> None:
        super().__init__(config.node_id)
        self.config = config
        self.listeners: dict[str, tuple[str, int]] = {}
        self.profile = profile or KafkaProfile(config.core.listener_name)
        self.kind = parts_of(self.profile.name).node
        self._transfer = LeadershipTransfer(
            self.kind.hands_back if transfer_leadership is None else transfer_leadership
        )
        self._files = files
        self._random = random.SystemRandom()
        self._is_over = asyncio.Event()  # Nothing is left open.
        self._cleaner: asyncio.TimerHandle | None = None
        self._appending = Appending(self.inbox, self.post)
        self._registration: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._unregistering = asyncio.Lock()
        self.records: ControllerRecords | None = None
        self.anomalies = Anomalies(config.node_id, self.kind)
        self.service = Service(self)
        self._snapshots = Snapshotting(self, config) if self.kind.writes_snapshots else None

    # ---- start, stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the directory, listen, and take part in the quorum.

        Raises what ``Storage.open`` does (NotFormattedError, BlockingIOError, …), TlsError for a
        key store of no use, and OSError for a listener that cannot be had; nothing is left open
        then.
        """
        loop = asyncio.get_running_loop()
        config = self.config
        self.gate = Gate(config, self.kind.profile.messages)
        self.storage = await loop.run_in_executor(
            self.disk,
            lambda: Storage.open(
                config.log_dir, self.profile, config.core, files=self._files, log_config=config.log
            ),
        )
        try:
            config = self.config = config.of_directory(self._own_meta())
            self._make_core()
            if self.gate.needs_records:
                records = SecurityRecords(self.storage, lambda: self.core.committed_offset)
                await loop.run_in_executor(self.disk, records.refresh)
                self.gate.records = records
            if self.kind.registers:
                self.records = ControllerRecords(self.storage, lambda: self.core.committed_offset)
            self.server = Server(self._limits(), self.service.received, lambda: len(self.inbox))
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
        for fix in sorted(self.profile.without):
            log.warning("the fix %s is switched off", fix, extra={"node": config.node_id})
        self.begin_driving()
        self._cleaner = loop.call_later(CLEAN_PERIOD_US / 1e6, self._clean)
        if self.kind.registers:
            self._registration = loop.create_task(register(self, config, self.peers.asker))
            self._registration.add_done_callback(_log_failure)
        self.post(ev.Start())

    def _where(self) -> str:
        """Return the listeners as ``listeners`` has them, with what is bound."""
        bound = self.listeners.items()
        return ",".join(f"{name}://{host_port(host, port)}" for name, (host, port) in bound)

    def _own_meta(self) -> Any:
        """Return meta.properties; a directory that is to have an id has one from now on."""
        directory = self.storage.directory
        if self.kind.names_directory and directory.meta.directory_id == ZERO_UUID:
            directory_id = Uuid.random()  # Never one that Kafka's tools would take for an option.
            directory.set_meta(msgspec.structs.replace(directory.meta, directory_id=directory_id))
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
        if self.ended.is_set():
            await self._is_over.wait()
        elif self.is_driving:
            log.info("stopping", extra=self._state())
            self.post(ev.ShutdownRequested(int(timeout_s * 1e6)))
            leaving = asyncio.ensure_future(self.left.wait())
            ended = asyncio.ensure_future(self.ended.wait())
            await asyncio.wait({leaving, ended}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            ended.cancel()
            await self.end(None)
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
        """Close the log and everything else, without a message to the others."""
        await self.end(None)

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

    async def end(self, failure: BaseException | None) -> None:
        """Let everything go. After a failure nothing more is written or sent.

        Returns once all is closed, whichever call began it.
        """
        if self.ended.is_set():
            self.failure = self.failure or failure
            await self._is_over.wait()
            return
        self.ended.set()
        self.failure = failure
        try:
            await self._close_all()
        finally:
            self._is_over.set()

    async def _close_all(self) -> None:
        if self._cleaner is not None:
            self._cleaner.cancel()
        await self.stop_driving()
        for task in (self._registration, self._looking):
            if task is not None:
                task.cancel()
        self.peers.close()
        await self.server.close()
        if self._snapshots is not None:
            await self._snapshots.close()
        self._appending.close()
        closing = asyncio.create_task(asyncio.to_thread(self.close_disk))
        await asyncio.wait((closing,), timeout=SHUTDOWN_TIMEOUT_S)  # Not for a disk that hangs.
        if closing.done():
            try:
                closing.result()
            except OSError as error:
                self.failure = self.failure or error

    def stepped(self) -> None:
        """Let connections go on that wait until fewer events do."""
        if self.server.waiting:
            self.server.go_on()

    def ticked(self) -> None:
        """Log whom an election waits for."""
        self.anomalies.check_wait(self.core)

    # ---- for others ----------------------------------------------------------------------------

    async def append(self, records: Sequence[bytes]) -> Appended:
        """Append records as the leader, all in one batch, and return once they are committed.

        The batch may have records of other calls, too (see `Appending`). Raises NotAppendedError:
        where the node does not lead, and where it stopped leading before it could know whether they
        are committed; TypeError for a record that is not bytes-like.
        """
        if self.ended.is_set():
            raise NotAppendedError(ErrorCode.BROKER_NOT_AVAILABLE, "the node stopped")
        return await self._appending.add(self.core.epoch, records)

    async def unregister(self, controller_id: int) -> UnregisterControllerResponse:
        """Return the answer to UnregisterController once its record is committed.

        One at a time: each has to see the records of those before it.
        """
        assert self.records is not None
        async with self._unregistering:
            refused = self.records.refusal(self.core, controller_id)
            if refused is not None:
                return refused
            record = UnregisterControllerRecord(controller_id=controller_id)
            try:
                await self.append([write_frame(record, 0)])
            except NotAppendedError as error:
                return UnregisterControllerResponse(
                    error_code=ErrorCode.NOT_CONTROLLER, error_message=str(error)
                )
        return UnregisterControllerResponse()

    def _clean(self) -> None:
        self.post(ev.CleanRequested(self.storage.log.size_bytes))
        self._cleaner = asyncio.get_running_loop().call_later(CLEAN_PERIOD_US / 1e6, self._clean)

    # ---- requests to others --------------------------------------------------------------------

    def on_ask(self, effect: fx.Ask) -> None:
        """Send it on the connection to that node."""
        request = effect.request
        if isinstance(request, EndEpoch):
            request.preferred_successors = self._transfer.in_order(
                self.core, self.peers, request.preferred_successors
            )
        self.peers.ask(effect.request_id, effect.node, effect.request)

    def _replied(self, request_id: int, reply: Reply, node: raft.Node) -> None:
        self.anomalies.check_reply(self.core, reply, host_port(node.host, node.port))
        self.post(ev.ReplyReceived(request_id, reply))

    def on_drop_connection(self, effect: fx.DropConnection) -> None:
        """Close the connection to that node."""
        self.peers.drop(effect.node)

    def answer(self, effect: fx.Answer) -> None:
        """Answer on the connection that the request came by."""
        self.service.answer(effect)

    # ---- the log -------------------------------------------------------------------------------

    def on_truncate_log(self, effect: fx.TruncateLog) -> Wait | None:
        """Truncate it, and log that."""
        log.warning(
            "the log is truncated: the leader's differs",
            extra={"node": self.config.node_id, "end_offset": effect.end_offset},
        )
        return super().on_truncate_log(effect)

    def on_reset_log(self, effect: fx.ResetLog) -> Wait | None:
        """Throw it away: there may be other voters now."""
        self.anomalies.check_voters(self.core)
        return super().on_reset_log(effect)

    def on_append_batches(self, effect: fx.AppendBatches) -> Wait | None:
        """Append: there may be other voters now."""
        if any(batch.control for batch in effect.batches):
            self.anomalies.check_voters(self.core)
        return super().on_append_batches(effect)

    def on_write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        """Let the program that writes snapshots write it."""
        if self._snapshots is not None:
            self._snapshots.permitted(effect)

    def on_snapshot_refused(self, effect: fx.SnapshotRefused) -> None:
        """Let the program that writes snapshots give it up."""
        if self._snapshots is not None:
            self._snapshots.refused(effect)

    def on_load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        """Count from there when the next snapshot is due."""
        if self._snapshots is not None:
            self._snapshots.replaced(effect)

    # ---- the state machine ---------------------------------------------------------------------

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        """Answer on the connection that the request came by."""
        self.service.upgraded(effect)

    def on_appended(self, effect: fx.Appended) -> None:
        """Wait until it is committed."""
        self._appending.appended(effect)

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        """Fail the calls of ``append``."""
        self._appending.refused(effect)

    def on_commit(self, effect: fx.Commit) -> None:
        """Complete the appends that are committed, and write a snapshot where one is due."""
        if self._snapshots is not None:
            self._snapshots.committed(effect.high_watermark)
        self._appending.committed(effect.high_watermark, self.core.epoch)

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        """Give up what was not committed where another leads."""
        core = self.core
        log.info(
            "leader changed",
            extra={"node": core.config.node_id, "epoch": effect.epoch, "leader": effect.leader_id},
        )
        self.anomalies.check_voters(core)
        self._transfer.leader_changed(effect.leader_id)
        if effect.leader_id != core.config.node_id or core.role.name is not RoleName.LEADER:
            self._appending.give_up()
        else:
            self._transfer_if_due()

    def _transfer_if_due(self) -> None:
        """Resign where a Kafka controller could lead; while this node leads, check again."""
        core = self.core
        if core.role.name is not RoleName.LEADER or self.ended.is_set():
            return
        if self._transfer.is_due(core, self.peers):
            log.info(
                "resigning: another is to lead",
                extra={"node": core.config.node_id, "epoch": core.epoch},
            )
            self._transfer.resigned(core)
            self.post(ev.ResignRequested(core.epoch))
        elif self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again())

    async def _look_again(self) -> None:
        while self.core.role.name is RoleName.LEADER:
            await self._transfer.query_voters(self.core, self.peers.asker)
            await asyncio.sleep(LOOK_AGAIN_S)
            self._transfer_if_due()

    def on_shutdown_completed(self, effect: fx.ShutdownCompleted) -> None:
        """Let ``stop`` go on."""
        if effect.timed_out:
            log.warning("no other leader was elected in time", extra={"node": self.config.node_id})
        self.left.set()


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log an error that ended the registration: the quorum itself goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, ConnectionError):
        log.error("this node is not registered", exc_info=error)
