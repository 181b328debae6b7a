"""Follower: fetches from a leader that it knows, voter or observer (KIP-595).

Fetching on is how it acknowledges what it has, so a voter fetches only once its log is durable. A
voter whose fetch timer expires campaigns. Where the logs part, it truncates; where its log ends
before the leader's begins, it fetches a snapshot (KIP-630). It acts on voter sets when they are in
its log, committed or not (KIP-853).
"""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.events import SnapshotStored
from kraftspec.reference.raft.messages import (
    Batch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    Request,
    UpdateVoter,
)
from kraftspec.reference.raft.role import QuorumState, Role
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import (
    NEVER_US,
    NONE,
    ElectionState,
    Endpoints,
    Node,
    ReplicaKey,
    RoleName,
    SnapshotId,
    address,
)


class Follower(Role):
    """The role of a node that fetches from a leader it knows."""

    __slots__ = (
        "fetch_deadline_us",
        "fetching",
        "fetching_position",
        "has_fetched",
        "has_updated_leader",
        "is_update_due",
        "leader",
        "leader_was_silent",
        "storing",
        "update_deadline_us",
    )

    name = RoleName.FOLLOWER

    def __init__(self, core: QuorumState, leader: Node) -> None:
        super().__init__(core)
        self.leader = leader
        timeout_us = core.config.fetch_timeout_us
        self.fetch_deadline_us = core.now_us + timeout_us
        self.update_deadline_us = core.now_us + timeout_us  # KIP-853; the period is Kafka 4.1's.
        self.has_fetched = False
        self.has_updated_leader = False
        self.is_update_due = False
        self.leader_was_silent = False
        self.fetching: SnapshotId | None = None
        self.fetching_position = 0
        self.storing = False

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
        """Enter, unless this leader cannot be one (QuorumState.transitionToFollower)."""
        if leader_id == core.config.node_id:
            raise FatalError(f"node {leader_id} was to follow itself in epoch {epoch}")
        if cause is Cause.NEW_LEADER and epoch <= core.epoch:
            raise FatalError(f"leader {leader_id} of epoch {epoch} after epoch {core.epoch}")
        if epoch == core.epoch and core.leader_id not in (NONE, leader_id):
            raise FatalError(f"epoch {epoch} has two leaders: {core.leader_id} and {leader_id}")
        node = address(leader_id, endpoints, core.config.listener_name)
        if node is None:
            raise FatalError(f"no endpoint of leader {leader_id} is known: {endpoints}")
        core.campaigns = 0
        core.enter(cls(core, node), ElectionState(epoch, leader_id, voted), endpoints)

    def begin(self) -> None:
        """Tell the state machine who leads."""
        self.core.report_leader(self.core.leader_id)

    def left(self) -> None:
        """Forget a snapshot that was being fetched."""
        self.abandon_snapshot()

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Refuse: there is a leader. A pre-vote may pass before the first fetch (KIP-996).

        Who is no voter follows on when its leader is silent. It does not refuse for ever, as
        Kafka's does: it may be a voter by a record that it lacks, and the one that others need.
        """
        core = self.core
        has_fetched = self.has_fetched and (core.is_voter or core.now_us < self.fetch_deadline_us)
        return (
            pre_vote
            and up_to_date
            and core.policy.follower_grants_pre_vote(core, has_fetched=has_fetched)
        )

    # ---- timers and requests -----------------------------------------------------------------

    def poll(self, now_us: int) -> int:
        """Campaign when the leader is silent for too long; else ask it for more."""
        core = self.core
        fetch_deadline_us = NEVER_US  # An observer has nothing to campaign for.
        if core.is_voter:
            if core.shutdown_deadline_us != NEVER_US:
                return NEVER_US
            fetch_deadline_us = self.fetch_deadline_us
            if now_us >= fetch_deadline_us:
                campaign_us = core.campaign(Cause.FETCH_TIMEOUT)
                return min(self._fetch(now_us), campaign_us) if campaign_us else 0
        if now_us >= self.update_deadline_us or self.is_update_due:
            request = core.policy.membership_request(core, self.has_updated_leader)
            if request is not None:
                return min(self._ask_leader(request, now_us), fetch_deadline_us)
            if now_us >= self.update_deadline_us:
                self.begin_update_period()
            self.is_update_due = not core.is_voter  # It asks as soon as a record lets it.
        return min(self._fetch(now_us), fetch_deadline_us, self.update_deadline_us)

    def _fetch(self, now_us: int) -> int:
        """Fetch from the leader, or, if it was silent or failed, from a bootstrap server."""
        core = self.core
        if not core.may_fetch():
            return NEVER_US  # The flush that is awaited is an event.
        connections = core.connections
        if self.leader_was_silent or connections.backing_off(self.leader.id, now_us):
            self.leader_was_silent = False
            return core.policy.discover(core)
        if core.policy.discovers_by_fetch:
            busy_us = connections.busy_until_us(now_us)
        else:
            is_ready = connections.ready(self.leader.id, now_us)
            busy_us = 0 if is_ready else connections.ready_us(self.leader.id)
        if busy_us or self.storing:
            return busy_us or NEVER_US
        is_fetching = self.fetching is None
        request = core.policy.fetch_request(core) if is_fetching else self._snapshot_request()
        core.ask(self.leader, request)
        return connections.ready_us(self.leader.id)

    def _ask_leader(self, request: Request, now_us: int) -> int:
        """Send the leader what is due once in a period (KIP-853); return when to look again."""
        core = self.core
        if not core.connections.ready(self.leader.id, now_us):
            return core.connections.ready_us(self.leader.id)
        core.ask(self.leader, request)
        self.leader_was_silent = False  # Its answer, or none, says more than the time-out before.
        self.begin_update_period()
        return core.connections.ready_us(self.leader.id)

    def on_timed_out(self, node: Node) -> None:
        """Look elsewhere: the leader may be another one by now."""
        if node.id == self.leader.id:
            self.leader_was_silent = True

    def on_failed(self, node: Node, request: Request, unsupported: bool) -> bool:
        """Do not ask a leader again for what it does not know (KIP-853)."""
        is_update = isinstance(request, UpdateVoter)
        if unsupported and is_update:
            self.has_updated_leader = True
        return is_update and not self.core.policy.rests_when_told_nothing

    def _snapshot_request(self) -> FetchSnapshot:
        core = self.core
        assert self.fetching is not None
        return FetchSnapshot(
            cluster_id=core.config.cluster_id,
            replica_id=core.config.node_id,
            replica_directory_id=core.config.directory_id,
            leader_epoch=core.epoch,
            snapshot_end_offset=self.fetching.end_offset,
            snapshot_epoch=self.fetching.epoch,
            position=self.fetching_position,
            max_bytes=core.config.fetch_snapshot_max_bytes,
        )

    # ---- replication -------------------------------------------------------------------------

    def hurry(self) -> None:
        """Campaign in this step, though the leader may be there."""
        self.fetch_deadline_us = min(self.fetch_deadline_us, self.core.now_us)

    def heard_from_leader(self) -> None:
        """Start the fetch timer anew, after a good answer of the leader."""
        self.core.campaign_us = NEVER_US
        self.fetch_deadline_us = self.core.now_us + self.core.config.fetch_timeout_us
        self.has_fetched = True

    def on_fetch_reply(self, reply: FetchReply) -> bool:
        """Truncate, or fetch a snapshot, or append (KIP-595, Fetch response handling)."""
        if reply.diverging_epoch >= 0:
            self._truncate(reply.diverging_epoch, reply.diverging_end_offset)
        elif reply.snapshot_epoch >= 0 or reply.snapshot_end_offset >= 0:
            if reply.snapshot_epoch < 0 or reply.snapshot_end_offset < 0:
                return False
            self._begin_snapshot(SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch))
        else:
            if reply.batches:
                self._append(reply.batches)
            self._follow_high_watermark(reply.high_watermark)
        self.heard_from_leader()
        return True

    def _append(self, batches: tuple[Batch, ...]) -> None:
        """Append what continues the log; voters make it durable before they fetch on.

        A batch of a later epoch than the leader's own is not this leader's to send (KAFKA-18723).
        """
        core = self.core
        log = core.log
        taken = 0
        for batch in batches:
            if batch.base_offset != log.end_offset or batch.epoch > core.epoch:
                break
            if batch.epoch < log.last_epoch:
                break
            log.append(batch.epoch, batch.last_offset + 1 - batch.base_offset)
            taken += 1
        if not taken:
            return
        if taken < len(batches):
            batches = batches[:taken]
        core.emit(fx.AppendBatches(batches))
        core.flush()
        for batch in batches:
            if batch.control:
                core.apply_control(batch)

    def _follow_high_watermark(self, offset: int) -> None:
        """Take over the leader's high watermark as far as this log goes; it never falls."""
        core = self.core
        offset = min(offset, core.log.end_offset)
        if offset > core.high_watermark:
            core.raise_high_watermark(offset)

    def _truncate(self, epoch: int, end_offset: int) -> None:
        """Cut off what the leader does not have, or as much as is known by now (KIP-101).

        If the epoch that the leader named is in this log too, the logs agree up to where the
        shorter of the two ends; if not, up to the end of the largest epoch below it, at most.
        """
        core = self.core
        log = core.log
        if epoch == 0:
            cut = min(end_offset, log.end_offset)
        else:
            local = log.end_offset_for_epoch(epoch)
            cut = min(local.end_offset, end_offset) if local.epoch == epoch else local.end_offset
        committed = max(core.high_watermark, core.committed_offset)
        if min(cut, end_offset) < committed:
            raise FatalError(
                f"leader {core.leader_id} of epoch {core.epoch} wants the log truncated to "
                f"{min(cut, end_offset)}, below the high watermark {committed}"
            )
        core.truncate(cut)

    # ---- snapshots ---------------------------------------------------------------------------

    def _begin_snapshot(self, snapshot: SnapshotId) -> None:
        """Fetch a snapshot instead of records, unless it is here already (KIP-630)."""
        if snapshot in self.core.log.snapshots:
            return
        self.abandon_snapshot()
        self.fetching = snapshot
        self.fetching_position = 0
        self.core.emit(fx.BeginSnapshot(snapshot))

    def abandon_snapshot(self) -> None:
        """Return to Fetch, and forget what is here of a snapshot."""
        if self.fetching is not None:
            self.core.emit(fx.AbandonSnapshot(self.fetching))
            self.fetching = None

    def on_snapshot_reply(self, reply: FetchSnapshotReply) -> bool:
        """Add bytes to the partial file; at the last ones, let it be finished (KIP-630)."""
        core = self.core
        if (
            reply.error == ErrorCode.SNAPSHOT_NOT_FOUND
            or reply.snapshot_end_offset < 0
            or reply.snapshot_epoch < 0
        ):
            self.abandon_snapshot()
            self.heard_from_leader()
            return True
        if reply.error:
            return False
        snapshot = SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch)
        if snapshot != self.fetching or reply.position != self.fetching_position:
            raise FatalError(
                f"the leader sent byte {reply.position} of {snapshot}, asked for byte "
                f"{self.fetching_position} of {self.fetching}"
            )
        core.emit(fx.ExtendSnapshot(snapshot, reply.position, reply.data))
        self.fetching_position += len(reply.data)
        if self.fetching_position == reply.size:
            self.storing = True
            core.emit(fx.FinishSnapshot(snapshot))
        self.heard_from_leader()
        return True

    def on_snapshot_stored(self, event: SnapshotStored) -> None:
        """Let the log begin where the snapshot ends (KIP-630)."""
        core = self.core
        log = core.log
        self.fetching = None
        self.storing = False
        end_offset, epoch = event.id
        if (epoch, end_offset) <= (log.last_epoch, log.end_offset):
            raise FatalError(f"snapshot {event.id} is not ahead of the log that it should replace")
        log.reset_to(event.id, event.voters, event.kraft_version)
        core.emit(fx.ResetLog(event.id))
        core.emit(fx.LoadSnapshot(event.id))
        core.log_generation += 1
        core.high_watermark = max(core.high_watermark, end_offset)
        core.committed_offset = max(core.committed_offset, end_offset)
        core.voters_changed()
        self.heard_from_leader()

    def on_snapshot_damaged(self) -> None:
        """Forget it, and leave the leader alone for the retry backoff: it may be damaged there."""
        self.fetching = None
        self.storing = False
        self.core.connections.leave_alone(self.leader.id, self.core.now_us)

    # ---- membership ---------------------------------------------------------------------------

    def begin_update_period(self) -> None:
        """Wait a whole period before the next request about membership."""
        self.is_update_due = False
        self.update_deadline_us = self.core.now_us + self.core.config.fetch_timeout_us
