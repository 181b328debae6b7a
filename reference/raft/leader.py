"""Leader: appends, serves fetches, commits, and steps down when it has lost its followers.

Followers fetch; what they ask for says what they have. The high watermark is what a majority of
the voters has on disk, this node among them only after its own sync, and it starts to move only
when the record that opened this epoch is part of it (Raft §5.4.2). Until a follower fetches, the
leader tells it by BeginQuorumEpoch (KIP-595). A leader that a majority does not fetch from resigns
(KIP-996's Check Quorum, KAFKA-15489).
"""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.config import (
    BATCH_BYTES_MAX,
    BATCH_OVERHEAD_BYTES,
    OBSERVER_SESSION_US,
    OBSERVERS_MAX,
    RECORD_OVERHEAD_BYTES_MAX,
)
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.events import AppendRequested
from kraftspec.reference.raft.membership import Membership, Progress
from kraftspec.reference.raft.messages import ApiVersions, BeginEpoch, Fetch, FetchReply, Request
from kraftspec.reference.raft.role import QuorumState, Role
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
)


class DelayedFetch:
    """A fetch that found nothing new, and waits for something (KIP-595, Fetch purgatory)."""

    __slots__ = ("deadline_us", "reply", "request", "token")

    def __init__(self, token: int, request: Fetch, reply: FetchReply, deadline_us: int) -> None:
        self.token = token
        self.request = request
        self.reply = reply
        self.deadline_us = deadline_us


class Leader(Role):
    """The role of a node that leads: it appends, serves fetches and commits."""

    __slots__ = (
        "begin_deadline_us",
        "check_quorum_deadline_us",
        "check_quorum_us",
        "delayed_fetches",
        "delayed_fetches_deadline_us",
        "drain_us",
        "epoch_start_offset",
        "fetched_voters",
        "granting",
        "membership",
        "observers",
        "resign_requested",
        "undrained",
        "undrained_bytes",
        "undrained_records",
        "voters",
        "wake_us",
    )

    name = RoleName.LEADER

    def __init__(self, core: QuorumState, granting: tuple[int, ...]) -> None:
        super().__init__(core)
        config = core.config
        self.granting = granting
        self.epoch_start_offset = core.log.end_offset
        self.voters = {v.key.id: Progress(v.key, v.endpoints) for v in core.log.voters.last}
        self.observers: dict[ReplicaKey, Progress] = {}
        self.check_quorum_us = config.fetch_timeout_us * 3 // 2
        self.check_quorum_deadline_us = core.now_us + self.check_quorum_us
        self.fetched_voters: set[int] = set()
        self.begin_deadline_us = core.now_us
        self.delayed_fetches: list[DelayedFetch] = []
        self.delayed_fetches_deadline_us = NEVER_US
        self.undrained: list[fx.AppendRecords] = []
        self.undrained_bytes = 0
        self.undrained_records = 0
        self.drain_us = NEVER_US
        self.resign_requested = False
        self.wake_us = 0
        self.membership: Membership = core.policy.membership(core, self)

    @classmethod
    def enter(
        cls,
        core: QuorumState,
        cause: Cause,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted: ReplicaKey | None,
    ) -> None:
        """Enter, with the leadership written down; the high watermark is unknown at first."""
        old = core.role
        if epoch != core.epoch or not core.is_voter:
            raise FatalError(f"no leader of epoch {epoch} can come from epoch {core.epoch}")
        role = cls(core, old.granting_voters())
        core.high_watermark = NONE
        core.campaigns = 0
        state = ElectionState(
            epoch, core.config.node_id, voted if core.policy.leader_keeps_vote else None
        )
        core.enter(role, state, core.config.endpoints)

    def begin(self) -> None:
        """Open the epoch with a record of its own: it commits what earlier epochs left."""
        self.append_control(self.core.policy.epoch_start_records(self.core, self.granting))

    def left(self) -> None:
        """Tell everybody who waits that this node does not lead any more."""
        self.membership.leadership_lost()
        core = self.core
        for delayed in self.delayed_fetches:
            core.answer(
                delayed.token, empty_fetch_reply(core, ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE)
            )
        self.delayed_fetches.clear()

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, the one with the longest log first, ties by id (KIP-595)."""
        own_id = self.core.config.node_id
        others = [p for p in self.voters.values() if p.key.id != own_id]
        others.sort(key=lambda p: (-p.end_offset, p.key.id))
        return tuple(p.key for p in others)

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Refuse: this epoch has its leader. KIP-996 as drafted lets it grant pre-votes."""
        return pre_vote and up_to_date and self.core.policy.leader_grants_pre_vote(self.core)

    def on_failed(self, node: Node, request: Request, unsupported: bool) -> bool:
        """Give up adding a voter that cannot be asked what it speaks (KIP-853)."""
        if isinstance(request, ApiVersions):
            self.membership.on_api_versions_failed(node.id)
        return False

    # ---- timers ------------------------------------------------------------------------------

    def poll(self, now_us: int) -> int:
        """Resign, drain appends, greet silent voters, answer fetches that waited long enough."""
        core = self.core
        leaving = self.resign_requested or core.shutdown_deadline_us != NEVER_US
        if now_us < self.wake_us and not leaving:
            return self.wake_us
        checks = len(self.voters) > 1 and core.policy.checks_quorum
        check_us = self.check_quorum_deadline_us if checks else NEVER_US
        if leaving or now_us >= check_us:
            core.move(Cause.RESIGNED)
            return 0
        if now_us >= self.drain_us:
            self.drain()
        if now_us >= self.begin_deadline_us:
            self._greet(now_us)
        if now_us >= self.delayed_fetches_deadline_us:
            self._answer_overdue(now_us)
        self.wake_us = min(
            check_us,
            self.begin_deadline_us,
            self.drain_us,
            self.delayed_fetches_deadline_us,
            self.membership.poll(now_us),
        )
        return self.wake_us

    def wake(self, us: int) -> None:
        """Look at the timers at ``us`` at the latest. Looking too early does no harm."""
        self.wake_us = min(self.wake_us, us)

    def _greet(self, now_us: int) -> None:
        """Tell voters that have not fetched for a period that this node leads (KIP-595).

        To all that do not fetch, not only until they answer: an answer may come from a node that
        forgets it by a restart (Kafka 4.2 and later).
        """
        core = self.core
        config = core.config
        period_us = config.fetch_timeout_us // 2
        for progress in self.voters.values():
            key = progress.key
            if key.id == config.node_id or now_us - progress.fetched_us < period_us:
                continue
            node = core.node(key.id)
            if node is not None and core.connections.ready(key.id, now_us):
                core.ask(
                    node,
                    BeginEpoch(
                        cluster_id=config.cluster_id,
                        leader_id=config.node_id,
                        leader_epoch=core.epoch,
                        voter_id=key.id,
                        voter_directory_id=key.directory_id,
                        leader_endpoints=config.endpoints,
                    ),
                )
        self.begin_deadline_us = now_us + period_us

    def heard_from(self, replica_id: int, directory_id: bytes, now_us: int) -> None:
        """Count a voter for Check Quorum; a majority starts the timer anew (KAFKA-15489).

        The leader counts as one of them only if it is a voter. One that is the only voter has its
        majority: an observer starts its timer anew, which has not run out when that is added
        (``LeaderState.updateReplicaState``).
        """
        fetched = self.fetched_voters
        progress = self.voters.get(replica_id)
        if progress is not None and progress.directory_id in (None, directory_id):
            fetched.add(replica_id)
        own = self.core.config.node_id in self.voters
        if len(fetched) >= len(self.voters) // 2 + 1 - own:
            fetched.clear()
            self.check_quorum_deadline_us = now_us + self.check_quorum_us

    # ---- fetches -----------------------------------------------------------------------------

    def on_fetch(self, token: int, request: Fetch) -> None:
        """Answer a fetch, or delay it: at the end of the log, with nothing to send (KIP-595)."""
        core = self.core
        reply = self.fetch_reply(request)
        if (
            reply.error
            or reply.read_offset >= 0
            or request.max_wait_us == 0
            or reply.diverging_epoch >= 0
            or reply.snapshot_epoch >= 0
            or request.high_watermark < reply.high_watermark
        ):
            core.effects.append(fx.Answer(token, reply))
            return
        deadline_us = core.now_us + request.max_wait_us
        self.delayed_fetches.append(DelayedFetch(token, request, reply, deadline_us))
        self.delayed_fetches_deadline_us = min(self.delayed_fetches_deadline_us, deadline_us)
        self.wake(deadline_us)

    def fetch_reply(self, request: Fetch) -> FetchReply:
        """Validate a fetch against the log, and count what it acknowledges (KIP-595, KIP-101)."""
        core = self.core
        log = core.log
        offset = request.fetch_offset
        epoch = request.last_fetched_epoch
        latest = log.latest_snapshot
        if request.replica_id == core.config.node_id:
            return empty_fetch_reply(core, ErrorCode.UNKNOWN_SERVER_ERROR, NONE)
        if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
            return self._snapshot_reply()
        if offset != 0 or log.start_offset != 0:
            if latest is not None and log.is_before_snapshots(offset, epoch):
                return self._snapshot_reply()
            if epoch != log.last_epoch or offset > log.end_offset:
                diverging_epoch, end_offset = log.end_offset_for_epoch(epoch)
                if diverging_epoch != epoch or end_offset < offset:
                    reply = empty_fetch_reply(core, 0, core.high_watermark)
                    reply.diverging_epoch = diverging_epoch
                    reply.diverging_end_offset = end_offset
                    return reply
        self._acknowledged(request, offset)
        has_more = offset < log.end_offset
        return FetchReply(
            leader_id=core.leader_id,
            leader_epoch=core.epoch,
            leader_endpoints=core.leader_endpoints,
            high_watermark=core.high_watermark,
            log_start_offset=log.start_offset,
            read_offset=offset if has_more else NONE,
            read_max_bytes=max(request.max_bytes, 0) if has_more else 0,
        )

    def _snapshot_reply(self) -> FetchReply:
        core = self.core
        latest = core.log.latest_snapshot
        assert latest is not None
        reply = empty_fetch_reply(core, 0, core.high_watermark)
        reply.snapshot_end_offset, reply.snapshot_epoch = latest
        return reply

    def _acknowledged(self, request: Fetch, offset: int) -> None:
        """Count a replica's fetch: everything before ``offset`` is durable there."""
        replica_id = request.replica_id
        core = self.core
        if replica_id < 0:
            return
        now_us = core.now_us
        progress = self.voters.get(replica_id)
        directory_id = request.replica_directory_id
        self.heard_from(replica_id, directory_id, now_us)
        if progress is None or progress.directory_id not in (None, directory_id):
            observer = self._observer(ReplicaKey(replica_id, directory_id))
            observer.fetched(offset, core.log.end_offset, now_us)
            observer.endpoints = request.replica_endpoints
            self.membership.observer_fetched(observer.key)
            return
        progress.fetched(offset, core.log.end_offset, now_us)
        if progress.directory_id is None:
            self.membership.voter_fetched(progress, ReplicaKey(replica_id, directory_id))
        if offset > core.high_watermark:
            self.advance()

    def _observer(self, key: ReplicaKey) -> Progress:
        progress = self.observers.get(key)
        if progress is None:
            if len(self.observers) >= OBSERVERS_MAX:
                del self.observers[next(iter(self.observers))]  # The one that came first.
            progress = self.observers[key] = Progress(key)
        return progress

    def forget_observers(self, now_us: int) -> None:
        """Drop observers that have not fetched for a session, but for a leader that was removed."""
        oldest_us, own = now_us - OBSERVER_SESSION_US, self.core.config.key
        old = [key for key, progress in self.observers.items() if progress.fetched_us <= oldest_us]
        for key in old:
            if key != own:
                del self.observers[key]

    def _complete_parked(self, below_offset: int) -> None:
        """Answer the delayed fetches of offsets below this one, as if they came now."""
        due = [p for p in self.delayed_fetches if p.request.fetch_offset < below_offset]
        if not due:
            return
        self.delayed_fetches = [
            p for p in self.delayed_fetches if p.request.fetch_offset >= below_offset
        ]
        self.delayed_fetches_deadline_us = min(
            (p.deadline_us for p in self.delayed_fetches), default=NEVER_US
        )
        core = self.core
        for delayed in due:
            error = core.leader_error(delayed.request.leader_epoch)
            core.answer(
                delayed.token,
                empty_fetch_reply(core, error, NONE)
                if error
                else self.fetch_reply(delayed.request),
            )

    def _answer_overdue(self, now_us: int) -> None:
        for delayed in self.delayed_fetches:
            if delayed.deadline_us <= now_us:
                self.core.answer(delayed.token, delayed.reply)
        self.delayed_fetches = [p for p in self.delayed_fetches if p.deadline_us > now_us]
        self.delayed_fetches_deadline_us = min(
            (p.deadline_us for p in self.delayed_fetches), default=NEVER_US
        )

    # ---- the high watermark ------------------------------------------------------------------

    def on_flushed(self) -> None:
        """Count this node itself, now that its log is durable."""
        own = self.voters.get(self.core.config.node_id)
        if own is not None:
            own.end_offset = self.core.log.flushed_offset
            if own.end_offset > self.core.high_watermark:
                self.advance()

    def advance(self) -> None:
        """Commit what a majority of the voters has (Raft §5.3, §5.4.2).

        A record of an earlier epoch is committed only together with one of this epoch, and a lower
        result, which a change of voters can bring, changes nothing.
        """
        core = self.core
        offsets = sorted([p.end_offset for p in self.voters.values()], reverse=True)
        offset = offsets[len(offsets) // 2]
        if offset <= self.epoch_start_offset or offset <= core.high_watermark:
            return
        core.raise_high_watermark(offset)
        self.membership.high_watermark_moved(offset)
        core.report_leader(core.leader_id)
        if self.delayed_fetches:
            self._complete_parked(NEVER_US)

    # ---- appends -----------------------------------------------------------------------------

    def on_append(self, event: AppendRequested) -> None:
        """Append the state machine's records, all in one batch, at once or after the linger."""
        core = self.core
        # At most: what the log would refuse must not get as far as that.
        size_bytes = BATCH_OVERHEAD_BYTES + sum(map(len, event.records))
        size_bytes += RECORD_OVERHEAD_BYTES_MAX * len(event.records)
        refusal = self._append_error(event, size_bytes)
        if refusal:
            core.emit(fx.AppendRefused(event.append_id, refusal))
            return
        count = len(event.records)
        base_offset = core.log.end_offset + self.undrained_records
        batch = fx.AppendRecords(core.epoch, base_offset, event.records, core.now_us // 1000)
        core.emit(fx.Appended(event.append_id, core.epoch, base_offset, base_offset + count - 1))
        self.undrained.append(batch)
        self.undrained_records += count
        self.undrained_bytes += size_bytes
        if self.drain_us == NEVER_US:
            self.drain_us = core.now_us + core.config.append_linger_us
            self.wake(self.drain_us)
        if core.config.append_linger_us == 0 or self.undrained_bytes >= BATCH_BYTES_MAX:
            self.drain()

    def _append_error(self, event: AppendRequested, size_bytes: int) -> int:
        epoch = self.core.epoch
        if event.epoch < epoch or self.resign_requested:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if event.epoch > epoch or not event.records:
            return ErrorCode.INVALID_REQUEST
        if size_bytes > BATCH_BYTES_MAX:
            return ErrorCode.RECORD_LIST_TOO_LARGE
        return 0

    def drain(self) -> None:
        """Append what lingered, and let one flush serve it all."""
        self.drain_us = NEVER_US
        if not self.undrained:
            return
        core = self.core
        for batch in self.undrained:
            core.log.append(core.epoch, len(batch.records))
            core.emit(batch)
        self.undrained = []
        self.undrained_bytes = self.undrained_records = 0
        self._appended()

    def append_control(self, records: tuple[ControlRecord, ...]) -> int:
        """Append one control batch, act on it at once (KIP-853), and return its last offset."""
        self.drain()
        core = self.core
        base_offset = core.log.append(core.epoch, len(records))
        core.emit(fx.AppendControl(core.epoch, base_offset, records, core.now_us // 1000))
        for offset, record in enumerate(records, base_offset):
            handler = core.control_handlers.get(record.__class__)
            if handler is not None:
                handler(core, offset, record)
        self._appended()
        return core.log.end_offset - 1

    def _appended(self) -> None:
        core = self.core
        core.flush()
        if self.delayed_fetches:
            self._complete_parked(core.log.end_offset)

    # ---- membership --------------------------------------------------------------------------

    def voters_changed(self) -> None:
        """Count the majority of the new voter set from now on, committed or not (KIP-853).

        Whoever leaves it is an observer; whoever joins keeps what it acknowledged as one.
        """
        self.wake(0)
        old = self.voters
        self.voters = {}
        for voter in self.core.log.voters.last:
            key = voter.key
            progress = old.pop(key.id, None)
            if progress and not (progress.key.matches(key) or key.matches(progress.key)):
                old[key.id] = progress
                progress = None
            if progress is None:
                progress = self.observers.pop(key, None) or Progress(key)
            else:
                self.observers.pop(key, None)
            if any(key.directory_id):
                progress.identify(key)
            progress.endpoints = voter.endpoints
            self.voters[key.id] = progress
        for progress in old.values():
            progress.endpoints = ()
            self.observers.setdefault(progress.key, progress)
        self.advance()


def empty_fetch_reply(core: QuorumState, error: int, high_watermark: int) -> FetchReply:
    """Return a reply to a fetch without records."""
    return FetchReply(
        error=error,
        leader_id=core.leader_id,
        leader_epoch=core.epoch,
        leader_endpoints=core.leader_endpoints,
        high_watermark=high_watermark,
        log_start_offset=core.log.start_offset,
    )
