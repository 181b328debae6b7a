"""The core: what outlives a role, the way from an event to its handler, and changes of role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import replies, requests, snapshots
from kraftspec.reference.raft.candidate import Candidate
from kraftspec.reference.raft.connections import Connection, Connections
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.follower import Follower, address
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.messages import Batch, Fetch, Reply, Request
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.resigned import Resigned
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    NEVER_US,
    NONE,
    ElectionState,
    Endpoints,
    Node,
    ReplicaKey,
    RoleName,
    SnapshotId,
)
from kraftspec.reference.raft.unattached import Unattached

if TYPE_CHECKING:
    from kraftspec.reference.raft.config import Config
    from kraftspec.reference.raft.log_state import LogState
    from kraftspec.reference.raft.policy import (
        ControlHandler,
        Policy,
        Random,
        ReplyHandler,
        RequestHandler,
    )
    from kraftspec.reference.raft.role import Role

R = TypeVar("R", bound=Reply)


class Core:
    """One replica of the quorum. See the package's docstring for how to use it.

    To be read by anybody, and written by roles only: ``role.name``, ``epoch``, ``leader_id`` (-1 if
    none is known), ``leader_endpoints``, ``voted`` (the key this node voted for in this epoch),
    ``campaigns`` (how many of its own, since it last knew a leader),
    ``high_watermark`` (-1 as long as a new leader has not established one), ``committed_offset``
    (the highest that the high watermark ever was in this life), ``log``, ``is_voter``.
    """

    __slots__ = (
        "_reply_handlers",
        "_request_handlers",
        "_told",
        "campaign_us",
        "campaigns",
        "committed_offset",
        "config",
        "connections",
        "control_handlers",
        "deadline_us",
        "effects",
        "epoch",
        "high_watermark",
        "is_voter",
        "leader_endpoints",
        "leader_id",
        "log",
        "log_generation",
        "memory",
        "now_us",
        "policy",
        "random",
        "role",
        "shutdown_deadline_us",
        "stopped",
        "voted",
        "writing_snapshots",
    )

    role: Role

    def __init__(
        self,
        config: Config,
        policy: Policy,
        log: LogState,
        election: ElectionState | None,
        random: Random,
        rest: Any = None,
    ) -> None:
        """Make a core that has not started.

        ``election`` is what quorum-state held, or None if there was no such file; ``rest`` what it
        held for the policy. ``log`` belongs to the core from now on.
        """
        self.config = config
        self.policy = policy
        self.log = log
        self.random = random
        self.now_us = 0
        self.deadline_us = NEVER_US
        self.effects: list[fx.Effect] = []
        state = election or ElectionState()
        self.epoch = state.epoch
        self.leader_id = state.leader_id
        self.leader_endpoints: Endpoints = ()
        self.voted: ReplicaKey | None = state.voted
        self.high_watermark = NONE
        self.committed_offset = NONE
        self.is_voter = log.voters.last.is_voter(config.key)
        self.connections = Connections(config.request_timeout_us, config.retry_backoff_us)
        self.campaigns = 0
        self.campaign_us = NEVER_US
        self.shutdown_deadline_us = NEVER_US
        self.stopped = False
        self.log_generation = 0
        self.writing_snapshots: dict[SnapshotId, None] = {}
        self._told: tuple[int, int] = (NONE, NONE)
        self._request_handlers: dict[type[Request], RequestHandler] = {
            **requests.HANDLERS,
            **policy.request_handlers,
        }
        self._reply_handlers: dict[type[Reply], ReplyHandler] = {
            **replies.HANDLERS,
            **policy.reply_handlers,
        }
        self.control_handlers: dict[type[ControlRecord], ControlHandler] = {
            Voters: _apply_voters,
            KRaftVersion: _apply_kraft_version,
            **policy.control_handlers,
        }
        self.memory = policy.remember(self, rest)  # The policy's own.
        self.role = Unattached(self)

    # ---- for the shell -----------------------------------------------------------------------

    def step(self, event: ev.Event, now_us: int) -> list[fx.Effect]:
        """Take one event; return what must be done, in order.

        ``now_us`` must not go back; where it does, the core's time stands still. Raises
        `FatalError` for what no correct quorum does: the node must stop.
        """
        self.now_us = max(self.now_us, now_us)
        effects: list[fx.Effect] = []
        self.effects = effects
        if self.stopped:
            return effects
        _STEPS[event.__class__](self, event)
        self._poll()
        return effects

    def next_deadline_us(self) -> int:
        """Return when the core wants a `events.Tick` if nothing else happens before."""
        return self.deadline_us

    # ---- for roles and handlers --------------------------------------------------------------

    def emit(self, effect: fx.Effect) -> None:
        """Let this be done after what was emitted before."""
        self.effects.append(effect)

    def ask(self, node: Node, request: Request) -> None:
        """Send a request to a node that is ready."""
        request_id = self.connections.sent(node, request, self.now_us)
        self.effects.append(fx.Ask(request_id, node, request))

    def answer(self, token: int, reply: Reply) -> None:
        """Answer the request of that token."""
        self.effects.append(fx.Answer(token, reply))

    def reply(self, kind: type[R], error: int = 0) -> R:
        """Return a reply with what every reply carries: the leader and epoch known here."""
        return kind(
            error=error,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            leader_endpoints=self.leader_endpoints,
        )

    def refusal(self, kind: type[R], top_error: int) -> R:
        """Return a reply to a request that is refused as a whole."""
        reply = self.reply(kind)
        reply.top_error = top_error
        return reply

    def node(self, voter_id: int) -> Node | None:
        """Return where to send a request to a voter, or None if that is not known."""
        endpoints = self.policy.endpoints(self, voter_id)
        return address(voter_id, endpoints, self.config.listener_name)

    def fetch_request(self) -> Fetch:
        """Return the Fetch that asks for what comes next in this log (KIP-595, Fetch)."""
        config = self.config
        log = self.log
        return Fetch(
            cluster_id=config.cluster_id,
            replica_id=config.node_id,
            replica_directory_id=config.directory_id,
            leader_epoch=self.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            high_watermark=self.high_watermark,
            max_wait_us=config.fetch_max_wait_us,
            max_bytes=config.fetch_max_bytes,
        )

    def leader_error(self, epoch: int) -> int:
        """Return why a request that only the leader of ``epoch`` serves is refused (KIP-595), or 0.

        In Kafka's order: 74 or 75 by the epoch, 6 from anybody who does not lead, 8 while leaving.
        """
        if epoch != self.epoch:
            if epoch < self.epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.role.name is not RoleName.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.shutdown_deadline_us != NEVER_US:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return 0

    def campaign(self, cause: Cause) -> int:
        """Campaign, a timer having expired, at once or after the profile's backoff.

        Return when it will be, or when to look whether it may be; 0 if it was now.
        """
        if not self.policy.may_campaign(self):
            return self.now_us + self.config.retry_backoff_us
        if self.campaign_us == NEVER_US:
            self.campaign_us = self.now_us + self.policy.election_backoff_us(self)
        if self.now_us < self.campaign_us:
            return self.campaign_us
        self.move(cause)
        return 0

    def election_deadline_us(self) -> int:
        """Draw a new election time-out; observers never campaign (KIP-595)."""
        if not self.is_voter:
            return NEVER_US
        return self.now_us + self.policy.election_timeout_us(self)

    def raise_high_watermark(self, offset: int) -> None:
        """Commit up to ``offset`` (KIP-595); what is committed stays so, whatever a leader says."""
        self.high_watermark = offset
        if offset > self.committed_offset:
            self.committed_offset = offset
            self.effects.append(fx.Commit(offset))
            self.policy.committed(self)

    def must_flush(self) -> bool:
        """Whether what this node has may count for a majority, now or later."""
        return self.is_voter or self.config.can_become_voter or self.policy.flushes_always

    def may_fetch(self) -> bool:
        """Whether this node may say what it has: it fetches on only from what is durable."""
        return self.log.flushed_offset >= self.log.end_offset or not self.must_flush()

    def flush(self) -> None:
        """Let everything that was appended become durable."""
        if self.must_flush():
            self.effects.append(fx.FlushLog(self.log.end_offset, self.log_generation))

    def truncate(self, end_offset: int) -> None:
        """Cut the log, and the voter sets and versions in that part (KIP-595, KIP-853)."""
        log = self.log
        if end_offset >= log.end_offset:
            return
        log.truncate_to(end_offset)
        self.log_generation += 1
        self.emit(fx.TruncateLog(end_offset))
        if log.flushed_offset < log.end_offset:
            self.flush()  # The flush that was under way belongs to the log as it was.
        self.voters_changed()

    def apply_control(self, batch: Batch) -> None:
        """Act on the control records of a batch as soon as they are in the log (KIP-853)."""
        for offset, record in batch.control:
            handler = self.control_handlers.get(record.__class__)
            if handler is not None:
                handler(self, offset, record)

    def voters_changed(self) -> None:
        """Take note that the last voter set may be another one."""
        had_to_flush = self.must_flush()
        self.is_voter = self.log.voters.last.is_voter(self.config.key)
        if self.must_flush() and not had_to_flush and self.log.flushed_offset < self.log.end_offset:
            self.flush()
        self.policy.voters_changed(self)

    def tell_leader(self, leader_id: int) -> None:
        """Tell the state machine about a leader, or that there is none, once (KIP-595)."""
        told_epoch, told_leader = self._told
        if self.epoch > told_epoch or (leader_id != NONE and told_leader == NONE):
            self._told = (self.epoch, leader_id)
            self.emit(fx.LeaderChanged(self.epoch, leader_id))

    # ---- changes of role ---------------------------------------------------------------------

    def move(
        self,
        cause: Cause,
        *,
        epoch: int | None = None,
        leader_id: int = NONE,
        endpoints: Endpoints = (),
        voted: ReplicaKey | None = None,
    ) -> None:
        """Leave the role because of ``cause``, for the role that the table names.

        ``epoch`` stays if it is not given. A vote given away in an epoch is kept as long as the
        epoch lasts, which is what stops a second one. Raises `FatalError` for a cause that the role
        does not know, and for a lower epoch.
        """
        old = self.role
        target = self.policy.transitions[old.name].get(cause)
        if target is None:
            raise FatalError(f"a {old.name} in epoch {self.epoch} met: {cause}")
        if epoch is None:
            epoch = self.epoch
        elif epoch < self.epoch:
            raise FatalError(f"epoch {epoch} after {self.epoch}: {cause}")
        if voted is None and epoch == self.epoch:
            voted = self.voted
        _ENTER[target](self, cause, epoch, leader_id, endpoints, voted)
        if self.role is not old:
            old.left()
        self.role.begin()

    def enter(
        self, role: Role, election: ElectionState, endpoints: Endpoints, *, persist: bool = True
    ) -> None:
        """Take on ``role`` with this election state, written first if it is new (KIP-595)."""
        self.epoch = election.epoch
        self.leader_id = election.leader_id
        self.voted = election.voted
        self.leader_endpoints = endpoints
        if persist:
            self.persist(election)
        self.role = role
        self.campaign_us = NEVER_US
        self.connections.reset()

    def persist(self, election: ElectionState) -> None:
        """Let quorum-state be written (KIP-595): what follows waits until it is."""
        log = self.log
        level, ids = log.kraft_versions.last, log.voters.last.ids
        self.emit(fx.PersistElection(election, level, ids, self.policy.written(self)))

    # ---- inside ------------------------------------------------------------------------------

    def _start(self, event: ev.Start) -> None:
        """Choose the first role from quorum-state and the log, and write it down (QuorumState).

        A leader that restarts has resigned: it cannot know what it acknowledged. A candidate goes
        on where it was, bound by its vote for itself.
        """
        log = self.log
        own_id = self.config.node_id
        if self.voted is not None and own_id == NONE:
            raise FatalError(f"quorum-state has a vote, {self.voted}, of a node without an id")
        snapshot = log.latest_snapshot
        if snapshot is not None and snapshot != BOOTSTRAP_SNAPSHOT:
            self.emit(fx.LoadSnapshot(snapshot))
            self.committed_offset = snapshot.end_offset
        if self.epoch < log.last_epoch:
            self.epoch, self.leader_id, self.voted = log.last_epoch, NONE, None
        known = self.leader_id != NONE
        endpoints = self.policy.endpoints(self, self.leader_id) if known else ()
        leader = address(self.leader_id, endpoints, self.config.listener_name)
        role: Role
        if self.leader_id == own_id != NONE:
            role, endpoints, self.voted = Resigned(self), self.config.endpoints, None
        elif (
            self.voted is not None
            and self.voted.matches(self.config.key)
            and self.is_voter
            and self.leader_id == NONE  # Else an epoch that has its leader could get another one.
        ):
            role = Candidate(self)
        elif leader is not None:
            role = Follower(self, leader)
        else:
            role, endpoints = Unattached(self), ()
            role.election_deadline_us = self.election_deadline_us()
        self.enter(role, ElectionState(self.epoch, self.leader_id, self.voted), endpoints)
        is_only_voter = log.voters.last.is_only_voter(self.config.key)
        if is_only_voter and role.name is not RoleName.CANDIDATE and self.policy.may_campaign(self):
            self.move(Cause.SOLE_VOTER)
        else:
            role.begin()

    def _tick(self, event: ev.Tick) -> None:
        """Nothing: `_poll` follows every event."""

    def _request_received(self, event: ev.RequestReceived) -> None:
        request = event.request
        self._request_handlers[request.__class__](self, event.token, request)

    def _reply_received(self, event: ev.ReplyReceived) -> None:
        connection = self.connections.take(event.request_id)
        if connection is None:
            return
        reply = event.reply
        if self._reply_handlers[reply.__class__](self, connection.node, reply):
            connection.failures = 0
        else:
            self._back_off(connection)

    def _request_failed(self, event: ev.RequestFailed) -> None:
        connection = self.connections.take(event.request_id)
        if connection is None:
            return
        request = connection.request
        if not self.role.on_failed(connection.node, request, event.unsupported):
            self._back_off(connection)

    def _back_off(self, connection: Connection) -> None:
        connection.failures += 1
        retry_us = self.policy.retry_backoff_us(self, connection.failures)
        self.connections.back_off(connection, self.now_us, retry_us)

    def _log_flushed(self, event: ev.LogFlushed) -> None:
        log = self.log
        if event.generation == self.log_generation and event.end_offset > log.flushed_offset:
            log.flushed_offset = min(event.end_offset, log.end_offset)
            self.role.on_flushed()

    def _append_requested(self, event: ev.AppendRequested) -> None:
        role = self.role
        if isinstance(role, Leader):
            role.on_append(event)
        else:
            self.emit(fx.AppendRefused(event.append_id, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _resign_requested(self, event: ev.ResignRequested) -> None:
        if isinstance(self.role, Leader) and event.epoch == self.epoch:
            self.role.resign_requested = True

    def _shutdown_requested(self, event: ev.ShutdownRequested) -> None:
        self.shutdown_deadline_us = self.now_us + event.timeout_us

    def _upgrade_requested(self, event: ev.UpgradeRequested) -> None:
        if isinstance(self.role, Leader):
            self.role.membership.upgrade(event)
        else:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.emit(fx.UpgradeAnswered(event.upgrade_id, error, "this node does not lead"))

    def _poll(self) -> None:
        """Let timers expire and requests go out, until the role has nothing more to do."""
        now_us = self.now_us
        if self.shutdown_deadline_us != NEVER_US and self._shutdown_is_over():
            return
        if now_us >= self.connections.check_us:
            for node in self.connections.timed_out(now_us):
                self.emit(fx.DropConnection(node))
                self.role.on_timed_out(node)
        role = self.role
        deadline_us = role.poll(now_us)
        while role is not self.role:
            role = self.role
            deadline_us = role.poll(now_us)
        self.deadline_us = min(deadline_us, self.shutdown_deadline_us)

    def _shutdown_is_over(self) -> bool:
        """End the life of a node that leaves, once somebody else leads or time is up."""
        timed_out = self.now_us >= self.shutdown_deadline_us
        has_remote_leader = self.leader_id not in (NONE, self.config.node_id)
        alone = self.log.voters.last.is_only_voter(self.config.key)
        if not (timed_out or has_remote_leader or alone or not self.is_voter):
            return False
        self.stopped = True
        self.deadline_us = NEVER_US
        self.emit(fx.ShutdownCompleted(timed_out))
        return True


def _apply_voters(core: Core, offset: int, record: Voters) -> None:
    core.log.voters.add(offset, record.voters)
    core.voters_changed()
    if isinstance(core.role, Leader):
        core.role.voters_changed()


def _apply_kraft_version(core: Core, offset: int, record: KRaftVersion) -> None:
    core.log.kraft_versions.add(offset, record.level)


_STEPS: dict[type[ev.Event], Callable[[Core, Any], None]] = {
    ev.Start: Core._start,
    ev.Tick: Core._tick,
    ev.RequestReceived: Core._request_received,
    ev.ReplyReceived: Core._reply_received,
    ev.RequestFailed: Core._request_failed,
    ev.LogFlushed: Core._log_flushed,
    ev.AppendRequested: Core._append_requested,
    ev.ResignRequested: Core._resign_requested,
    ev.ShutdownRequested: Core._shutdown_requested,
    ev.UpgradeRequested: Core._upgrade_requested,
    ev.SnapshotRequested: snapshots.on_snapshot_requested,
    ev.SnapshotStored: snapshots.on_snapshot_stored,
    ev.SnapshotDamaged: snapshots.on_snapshot_damaged,
    ev.CleanRequested: snapshots.on_clean_requested,
}

_ENTER = {
    role.name: role.enter
    for role in (Unattached, Prospective, Candidate, Leader, Follower, Resigned)
}
