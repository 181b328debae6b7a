"""A role, the state that it acts on, and the decisions that it asks for.

The three name each other, so they stand together. What a single role does is in its own module, and
what Apache Kafka decides beyond the defaults here is in `policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.config import Config
from kraftspec.reference.raft.control import ControlRecord, Voters
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.messages import Batch, Fetch, Reply, Request
from kraftspec.reference.raft.state import Random, State, draw_below
from kraftspec.reference.raft.transitions import TRANSITIONS, Cause, FatalError, Transitions
from kraftspec.reference.raft.types import (
    NEVER_US,
    NONE,
    ElectionState,
    Endpoints,
    Node,
    ReplicaKey,
    RoleName,
    address,
)
from kraftspec.reference.raft.voters import VoterSet


class Role:
    """Base of the roles: a role that lacks a rule does nothing.

    ``election_deadline_us`` is when its election timer expires, if it has one.
    """

    __slots__ = ("core", "election_deadline_us")

    name: ClassVar[RoleName]

    def __init__(self, core: QuorumState) -> None:
        self.core = core
        self.election_deadline_us = NEVER_US

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
        """Make this the core's role; raise `FatalError` for a transition that is none."""
        raise NotImplementedError

    def begin(self) -> None:
        """Do what the role does first, now that it is the core's."""

    def left(self) -> None:
        """Clear up, now that another role is the core's."""

    def poll(self, now_us: int) -> int:
        """Do what timers say and send what there is to send; return the next deadline."""
        raise NotImplementedError

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether this role gives its vote to ``candidate`` (KIP-595, KIP-996)."""
        raise NotImplementedError

    def remaining_election_us(self) -> int | None:
        """Return the deadline that an Unattached after this role inherits; None: it draws one."""
        return None

    def hurry(self) -> None:
        """Campaign as soon as it may, if it is a voter that waits for a timer."""

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return who should lead next, best first, as this role sees it."""
        return ()

    def granting_voters(self) -> tuple[int, ...]:
        """Return whose votes this role has, ascending."""
        return ()

    def on_flushed(self) -> None:
        """More of the log is durable."""

    def on_timed_out(self, node: Node) -> None:
        """A node did not answer within the request time-out."""

    def on_failed(self, node: Node, request: Request, unsupported: bool) -> bool:
        """A request will not be answered; return whether the node may be asked again at once."""
        return False


class QuorumState(State):
    """What a replica knows, its role, and how it changes it (Kafka's ``QuorumState``).

    To be read by anybody, and written by roles, handlers and decisions only. `core.Core` adds how
    events come in.
    """

    roles: ClassVar[Mapping[RoleName, Enter]]
    role: Role
    memory: Any  # The policy's own.

    def __init__(
        self,
        config: Config,
        policy: Decisions,
        log: LogState,
        election: ElectionState | None,
        random: Random,
    ) -> None:
        super().__init__(config, log, election, random)
        self.policy = policy
        self.control_handlers: dict[type[ControlRecord], ControlHandler] = {}
        self._reported_leader: tuple[int, int] = (NONE, NONE)

    def node(self, voter_id: int) -> Node | None:
        """Return where to send a request to a voter, or None if that is not known."""
        endpoints = self.policy.endpoints(self, voter_id)
        return address(voter_id, endpoints, self.config.listener_name)

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
            if self.is_removed:
                self.voters_changed()

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
        self.know_own_vote()
        if self.must_flush() and not had_to_flush and self.log.flushed_offset < self.log.end_offset:
            self.flush()
        self.policy.voters_changed(self)

    def know_own_vote(self) -> None:
        """Know whether this replica takes part in elections, by the voter sets in its log.

        Who is left out by the last set campaigns until that is committed, where the policy says so
        (Ongaro's thesis, 4.2.2). Where it alone has that record, the others cannot elect anybody
        without it: its log is longer. It counts for no majority of a set that it is not in.
        """
        voters, key = self.log.voters, self.config.key
        self.is_voter = voters.last.is_voter(key)
        self.is_removed = False
        if not self.is_voter and self.policy.campaigns_when_removed:
            committed = self.committed_offset
            pending = [one for offset, one in voters.entries() if offset >= committed]
            self.is_removed = any(one.is_voter(key) for one in (voters.at(committed - 1), *pending))
            self.is_voter = self.is_removed

    def report_leader(self, leader_id: int) -> None:
        """Report a leader to the state machine, or that there is none, once (KIP-595)."""
        reported_epoch, reported_leader = self._reported_leader
        if self.epoch > reported_epoch or (leader_id != NONE and reported_leader == NONE):
            self._reported_leader = (self.epoch, leader_id)
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
        self.roles[target](self, cause, epoch, leader_id, endpoints, voted)
        if self.role is not old:
            old.left()
        self.role.begin()

    def enter(
        self,
        role: Role,
        election: ElectionState,
        endpoints: Endpoints,
        *,
        persist: bool = True,
        keeps_requests: bool = False,
    ) -> None:
        """Take on ``role`` with this election state, written first if it is new (KIP-595).

        ``keeps_requests``: what was asked is still awaited.
        """
        self.epoch = election.epoch
        self.leader_id = election.leader_id
        self.voted = election.voted
        self.leader_endpoints = endpoints
        if persist:
            self.persist(election)
        self.role = role
        self.campaign_us = NEVER_US
        if not keeps_requests:
            self.connections.reset()

    def persist(self, election: ElectionState) -> None:
        """Let quorum-state be written (KIP-595): what follows waits until it is."""
        log = self.log
        level, ids = log.kraft_versions.last, log.voters.last.ids
        self.emit(fx.PersistElection(election, level, ids, self.policy.written(self)))


class Decisions:
    """What differs between protocols, with Kafka's answer wherever that is a plain one.

    A policy answers the rest, and brings handlers for requests, replies and control records that
    only its protocol has. Roles ask the policy and never for a profile's name.
    """

    transitions: Transitions = TRANSITIONS
    request_handlers: Mapping[type[Request], RequestHandler] = {}
    reply_handlers: Mapping[type[Reply], ReplyHandler] = {}
    control_handlers: Mapping[type[ControlRecord], ControlHandler] = {}
    rests_when_told_nothing = True  # See `rules.handled_by_rule`. Kafka's node does not: lock-step.
    abandons_rejected_snapshots = True  # See `replies.on_fetch_snapshot_reply`. Kafka's does not.
    seeks_when_unanswered = False  # See `prospective.Prospective.expired`. Kafka's node does not.
    campaigns_when_removed = False  # Until that is committed: see `know_own_vote`.
    checks_quorum = True  # Whether a leader that a majority does not fetch from resigns.
    flushes_always = False  # The drafts sync every append; Kafka those of who may ever vote.
    leader_keeps_vote = False  # The drafts: VotedId is of the whole epoch. Kafka forgets it here.
    bumps_when_lost = False  # KIP-595 as drafted: a candidate that steps down leaves its epoch.
    discovers_by_fetch = True  # So that a follower which looks for its leader fetches from no one.

    def remember(self, core: QuorumState, rest: Any) -> Any:
        """Return what the policy keeps in a new core, as ``core.memory``: Kafka's nothing.

        ``rest`` is what it had written to quorum-state, or None.
        """
        return None

    def written(self, core: QuorumState) -> Any:
        """Return what quorum-state keeps of ``core.memory``."""
        return None

    def folded(self, record: ControlRecord, voters: VoterSet) -> VoterSet | None:
        """Return the voter set that a control record leaves of ``voters``; None: it is another's.

        For the log and snapshots that a node finds when it starts, or has fetched.
        """
        return record.voters if isinstance(record, Voters) else None

    def folded_in_snapshot(self, record: ControlRecord, voters: VoterSet) -> VoterSet | None:
        """Return as ``folded`` does, of a snapshot; ValueError for a record that none may have."""
        return self.folded(record, voters)

    def snapshot_voters(self, core: QuorumState, last_offset: int) -> VoterSet | None:
        """Return the voters that a snapshot up to this offset says; None if it says none."""
        log = core.log
        return log.voters.at(last_offset) if log.kraft_versions.at(last_offset) >= 1 else None

    def endpoints(self, core: QuorumState, voter_id: int) -> Endpoints:
        """Return where a voter is reached; nothing if that is not known: Kafka's sets say it."""
        return core.log.voters.last.endpoints(voter_id)

    def voters_changed(self, core: QuorumState) -> None:
        """Act on another voter set in the log, appended or cut: Kafka's acts on no more than it."""

    def committed(self, core: QuorumState) -> None:
        """Act on a high watermark that has risen: for Kafka's policy there is nothing to do."""

    def flushed(self, core: QuorumState) -> None:
        """Act on more of the log being durable: for Kafka's policy there is nothing to do."""

    def is_of_cluster(self, core: QuorumState, cluster_id: str | None) -> bool:
        """Whether a request that names this cluster is for this one; tools may name none."""
        return cluster_id is None or cluster_id == core.config.cluster_id

    def retry_backoff_us(self, core: QuorumState, failures: int) -> int:
        """Return how long to leave a node alone after so many answers of no use in a row."""
        return core.config.retry_backoff_us

    def election_timeout_us(self, core: QuorumState) -> int:
        """Return how long an election may take: uniform in [T, 2T) (KIP-595, QuorumState)."""
        timeout_us = core.config.election_timeout_us
        return timeout_us + draw_below(core.random, timeout_us)

    def election_backoff_us(self, core: QuorumState) -> int:
        """Return how long to wait before a campaign, once its time has come.

        Kafka does not wait. KIP-595 as drafted draws a delay before every election, by
        ``core.campaigns``, which counts those since a leader was known.
        """
        return 0

    def refusals_to_lose(self, voters: VoterSet, *, pre_vote: bool) -> int:
        """Return how many refusals end a campaign: so many that no majority can grant any more."""
        return len(voters) - voters.majority + 1

    def may_campaign(self, core: QuorumState) -> bool:
        """Whether a voter knows enough of the others to campaign: in Kafka it always does."""
        return True

    def vote_error(self, core: QuorumState, candidate: ReplicaKey) -> int:
        """Return why a vote is refused before its epoch is looked at, or 0, as always in Kafka."""
        return 0

    def vote_raises_epoch(self, core: QuorumState, request: Any) -> bool:
        """Whether a vote request of a higher epoch takes this node to it: in Kafka each does."""
        return True

    def met_non_voter(self, core: QuorumState, candidate: ReplicaKey) -> None:
        """A vote was refused because of who asked for it; see ``may_vote_for``."""

    def met_other_cluster(self, core: QuorumState, request: Request) -> None:
        """A node of another cluster has refused this request: Kafka's asks again later."""

    def may_vote_for(self, core: QuorumState, candidate: ReplicaKey) -> bool:
        """Whether this replica may get a vote at all: in KRaft anybody may (KIP-853).

        A voter whose log lacks the newest voter set must be able to elect one that has it.
        """
        return True

    def follower_grants_pre_vote(self, core: QuorumState, *, has_fetched: bool) -> bool:
        """Whether a follower grants a pre-vote to a log that is up to date (KIP-996).

        Not once it has fetched from its leader: that leader is alive.
        """
        return not has_fetched

    def leader_grants_pre_vote(self, core: QuorumState) -> bool:
        """Whether a leader grants a pre-vote to a log that is up to date: it is there, and no."""
        return False

    def discovery_request(self, core: QuorumState) -> Request:
        """Return what is asked of a server that may know the leader."""
        return self.fetch_request(core)

    def fetch_request(self, core: QuorumState) -> Fetch:
        """Return the Fetch that asks for what comes next."""
        return core.fetch_request()

    def discover(self, core: QuorumState) -> int:
        """Look for the leader when none is known; return when to try again (KIP-595)."""
        raise NotImplementedError

    def seek(self, core: QuorumState) -> int:
        """Look, while others are told or asked, for where they are; return when to look again.

        Kafka's node does not: its voter sets have the addresses.
        """
        return NEVER_US

    def end_epoch_backoff_us(self, core: QuorumState, successors: tuple[ReplicaKey, ...]) -> int:
        """Return how long to wait before campaigning when a leader has resigned (KIP-595)."""
        raise NotImplementedError

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> Request | None:
        """Return what a follower asks its leader about the voter set, if anything.

        Asked once in a period, the fetch timeout (Kafka 4.1 to 4.3).
        """
        raise NotImplementedError

    def membership(self, core: QuorumState, leader: Any) -> Any:
        """Return the `membership.Membership` that serves a new `leader.Leader`."""
        raise NotImplementedError

    def epoch_start_records(
        self, core: QuorumState, granting: tuple[int, ...]
    ) -> tuple[ControlRecord, ...]:
        """Return what a new leader writes first."""
        raise NotImplementedError


RequestHandler = Callable[[QuorumState, int, Any], None]  # (core, token, request)
ReplyHandler = Callable[[QuorumState, Node, Any], bool]  # (core, source, reply) → good, or back off
ControlHandler = Callable[[QuorumState, int, Any], None]  # (core, offset, record)
# (core, cause, epoch, leader_id, endpoints, voted): takes the role on.
Enter = Callable[[QuorumState, Cause, int, int, Endpoints, ReplicaKey | None], None]


def up_to_date(core: QuorumState, last_epoch: int, end_offset: int) -> bool:
    """Whether a log that ends so holds everything that this one does (Raft §5.4.1, KIP-595)."""
    log = core.log
    return (last_epoch, end_offset) >= (log.last_epoch, log.end_offset)


def grants_without_leader(
    core: QuorumState, candidate: ReplicaKey, is_up_to_date: bool, pre_vote: bool
) -> bool:
    """Decide as Unattached and Prospective do (KIP-595, Vote; KIP-996).

    A pre-vote costs nothing, so only the log counts (KIP-996). A standard vote goes to one
    candidate an epoch (Raft §5.2), and to nobody once a leader of the epoch is known.
    """
    if pre_vote:
        return is_up_to_date
    if core.voted is not None:
        return core.voted.matches(candidate)
    return core.leader_id < 0 and is_up_to_date
