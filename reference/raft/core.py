"""The core: the way from an event to its handler, and the first role of a life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import replies, requests, snapshots
from kraftspec.reference.raft.candidate import Candidate
from kraftspec.reference.raft.config import Config
from kraftspec.reference.raft.connections import Connection
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.resigned import Resigned
from kraftspec.reference.raft.role import (
    Decisions,
    QuorumState,
    ReplyHandler,
    RequestHandler,
    Role,
)
from kraftspec.reference.raft.state import Random
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    NEVER_US,
    NONE,
    ElectionState,
    RoleName,
    address,
)
from kraftspec.reference.raft.unattached import Unattached

_ENTER = {
    role.name: role.enter
    for role in (Unattached, Prospective, Candidate, Leader, Follower, Resigned)
}


class Core(QuorumState):
    """One replica of the quorum. See the package's docstring for how to use it."""

    # Those of the bases, too: Python 3.11 is slower at a slot that a base class has.
    __slots__ = (
        "_reply_handlers",
        "_reported_leader",
        "_request_handlers",
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
        "is_removed",
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
        "started_us",
        "stopped",
        "voted",
        "writing_snapshots",
    )

    roles = _ENTER

    def __init__(
        self,
        config: Config,
        policy: Decisions,
        log: LogState,
        election: ElectionState | None,
        random: Random,
        rest: Any = None,
    ) -> None:
        """Make a core that has not started.

        ``election`` is what quorum-state held, or None if there was no such file; ``rest`` what it
        held for the policy. ``log`` belongs to the core from now on.
        """
        super().__init__(config, policy, log, election, random)
        self._request_handlers: dict[type[Request], RequestHandler] = {
            **requests.HANDLERS,
            **policy.request_handlers,
        }
        self._reply_handlers: dict[type[Reply], ReplyHandler] = {
            **replies.HANDLERS,
            **policy.reply_handlers,
        }
        self.control_handlers = {
            Voters: _apply_voters,
            KRaftVersion: _apply_kraft_version,
            **policy.control_handlers,
        }
        self.memory = policy.remember(self, rest)
        self.role = Unattached(self)

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

    # ---- inside ------------------------------------------------------------------------------

    def _start(self, event: ev.Start) -> None:
        """Choose the first role from quorum-state and the log, and write it down (QuorumState).

        A leader that restarts has resigned: it cannot know what it acknowledged. A candidate goes
        on where it was, bound by its vote for itself.
        """
        self.started_us = self.now_us
        log = self.log
        own_id = self.config.node_id
        if self.voted is not None and own_id == NONE:
            raise FatalError(f"quorum-state has a vote, {self.voted}, of a node without an id")
        snapshot = log.latest_snapshot
        if snapshot is not None and snapshot != BOOTSTRAP_SNAPSHOT:
            self.emit(fx.LoadSnapshot(snapshot))
            self.committed_offset = snapshot.end_offset
        self.know_own_vote()
        if self.epoch < log.last_epoch:
            self.epoch, self.leader_id, self.voted = log.last_epoch, NONE, None
        known = self.leader_id != NONE
        endpoints = self.policy.endpoints(self, self.leader_id) if known else ()
        leader = address(self.leader_id, endpoints, self.config.listener_name)
        role: Role
        if self.leader_id == own_id != NONE:
            role, endpoints = Resigned(self), self.config.endpoints
            if not self.policy.leader_keeps_vote:
                self.voted = None
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
            self.policy.flushed(self)

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


def _apply_voters(core: QuorumState, offset: int, record: Voters) -> None:
    core.log.voters.add(offset, record.voters)
    core.voters_changed()
    if isinstance(core.role, Leader):
        core.role.voters_changed()


def _apply_kraft_version(core: QuorumState, offset: int, record: KRaftVersion) -> None:
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
