"""What the draft of KIP-595 decides, and the rules beside it for its flaws.

No pre-votes: a follower without a live leader becomes a candidate, and a candidate that loses steps
down. Voters are ids, FindQuorum returns their addresses; votes are for voters alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import DraftErrorCode
from kraftspec.reference.profiles.kip_595 import discovery, handlers
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.memory import Memory, Stored
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum, FindQuorum, FindQuorumReply
from kraftspec.reference.profiles.kip_595.reassignment import Reassignment
from kraftspec.reference.raft.control import ControlRecord, LeaderChange, Voters
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.messages import (
    ApiVersions,
    BeginEpoch,
    BeginEpochReply,
    DescribeQuorum,
    EndEpoch,
    Fetch,
    FetchReply,
    Reply,
    Request,
)
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.state import draw_below
from kraftspec.reference.raft.transitions import TRANSITIONS, Cause, FatalError, Transitions
from kraftspec.reference.raft.types import (
    NEVER_US,
    ElectionState,
    Endpoint,
    Endpoints,
    ReplicaKey,
    RoleName,
)

if TYPE_CHECKING:
    from kraftspec.reference.raft.membership import Leadership
    from kraftspec.reference.raft.role import QuorumState, ReplyHandler, RequestHandler

OWN_EPOCH_COMMIT = "own-epoch-commit"
ONE_FIRST_QUORUM = "one-first-quorum"
DEAF_TO_NON_VOTERS = "deaf-to-strangers"
NON_VOTERS_IN_NEED = "strangers-in-need"
CAUGHT_UP_FIRST = "caught-up-first"
SETTLED_CLUSTER_ID = "settled-cluster-id"
CHECK_QUORUM = "check-quorum"
ASK_BACK = "ask-back"
BUMP_WHEN_LOST = "bump-when-lost"
LEADER_STAYS = "leader-stays"

FIXES: Mapping[str, str] = {
    OWN_EPOCH_COMMIT: "A new leader changes the voters before it has committed anything of its own "
    "epoch: two leaders each make a majority of sets that do not overlap.",
    ONE_FIRST_QUORUM: "Nodes that are started with different quorum.voters elect a first leader "
    "for each of those sets: two logs, two clusters.",
    DEAF_TO_NON_VOTERS: "Who is asked for a vote by a non-voter becomes a candidate: a node that "
    "was removed, and cannot hear it, deposes a leader that the others hear again and again.",
    NON_VOTERS_IN_NEED: "No non-voter ever gets a vote: a voter whose log lacks the last changes "
    "refuses the only one that could be elected, and cannot be elected itself, for good.",
    CAUGHT_UP_FIRST: "A new voter is added as soon as it is known, however far it is behind: "
    "nothing is committed until it has fetched all there is.",
    SETTLED_CLUSTER_ID: "A cluster id is cached as soon as it is in the log: a node that has one "
    "which was never committed takes its own cluster for another, and ends itself.",
    CHECK_QUORUM: "A leader that a majority has stopped fetching from goes on leading.",
    ASK_BACK: "FindQuorum is answered from an old log: where all voters have changed while the "
    "bootstrap servers were down, no node that restarts ever finds the quorum.",
    BUMP_WHEN_LOST: "A candidate that loses backs off in the epoch that it lost, and bumps it when "
    "it campaigns again. This rule is the draft's own order: bump, step down, back off.",
    LEADER_STAYS: "A leader that asks where the voters are becomes a candidate when one of them "
    "has not heard yet that it leads: a new leader deposes itself again and again.",
}

NOT_FOLLOWER = int(DraftErrorCode.NOT_FOLLOWER)
BACKOFF_BASE_US = 50_000  # The draft gives a cap, and no first bound: this one doubles each time.
DOUBLINGS_MAX = 20  # Whatever the cap is, this is beyond it.
NON_VOTER_PERIODS = 5  # Fetch time-outs in which a non-voter is heeded once.
JITTER_PERMILLE = 200  # KIP-580: 20 % less or more.

_UNATTACHED = RoleName.UNATTACHED
_CANDIDATE = RoleName.CANDIDATE
_LEADER = RoleName.LEADER
_FOLLOWER = RoleName.FOLLOWER
_RESIGNED = RoleName.RESIGNED

DRAFT_TRANSITIONS: Transitions = {
    _UNATTACHED: {
        **TRANSITIONS[_UNATTACHED],
        Cause.ELECTION_TIMEOUT: _CANDIDATE,
        Cause.SOLE_VOTER: _CANDIDATE,
    },
    RoleName.PROSPECTIVE: {},
    _CANDIDATE: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.LEADER_FOUND: _FOLLOWER,
        Cause.ELECTION_WON: _LEADER,
        Cause.ELECTION_LOST: _UNATTACHED,
    },
    _LEADER: TRANSITIONS[_LEADER],
    _FOLLOWER: {
        **TRANSITIONS[_FOLLOWER],
        Cause.FETCH_TIMEOUT: _CANDIDATE,
        Cause.SOLE_VOTER: _CANDIDATE,
    },
    _RESIGNED: {**TRANSITIONS[_RESIGNED], Cause.SOLE_VOTER: _CANDIDATE},
}


class DraftPolicy(Policy):
    """The decisions of KIP-595's draft. ``without`` names the fixes that it does without."""

    transitions = DRAFT_TRANSITIONS
    flushes_always = True
    leader_keeps_vote = True
    discovers_by_fetch = False

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.without = frozenset(without)
        self.checks_quorum = CHECK_QUORUM not in self.without
        self.asks_back = ASK_BACK not in self.without
        self.bumps_when_lost = BUMP_WHEN_LOST not in self.without
        self.request_handlers: Mapping[type[Request], RequestHandler] = {
            FindQuorum: discovery.on_find_quorum,
            AlterQuorum: handlers.on_alter_quorum,
            Fetch: handlers.on_fetch,
            BeginEpoch: handlers.on_begin_epoch,
            EndEpoch: handlers.on_end_epoch,
            DescribeQuorum: handlers.on_describe_quorum,
            ApiVersions: handlers.on_api_versions,
        }
        self.reply_handlers: Mapping[type[Reply], ReplyHandler] = {
            FindQuorumReply: partial(
                discovery.on_find_quorum_reply,
                learns_voters=ONE_FIRST_QUORUM not in self.without,
                leader_stays=LEADER_STAYS not in self.without,
            ),
            FetchReply: handlers.on_fetch_reply,
            BeginEpochReply: handlers.on_begin_epoch_reply,
        }

    # ---- state ---------------------------------------------------------------------------------

    def remember(self, core: QuorumState, rest: Any) -> Memory:
        """Return the memory of a new core, which knows from now on which cluster it is of."""
        stored = rest or Stored()
        cached = core.config.cluster_id
        if cached and stored.cluster_id and cached != stored.cluster_id:
            raise ValueError(
                f"quorum-state is of the cluster {stored.cluster_id}, and this node of {cached}"
            )
        memory = Memory(cached, stored)
        discovery.name_cluster(core, memory)
        return memory

    def written(self, core: QuorumState) -> Stored:
        """Return what quorum-state has of it: voters only once they are committed."""
        memory: Memory = core.memory
        _apply(core)
        return Stored(memory.cluster_id, memory.applied_offset, memory.applied, memory.learned)

    def committed(self, core: QuorumState) -> None:
        """Know the cluster id from the first committed voters on, and write voters down."""
        memory: Memory = core.memory
        settled = core.log.voters.at(core.committed_offset - 1)
        if isinstance(settled, Assignment) and not memory.is_strict:
            memory.is_strict = True
            discovery.settle(core, settled.cluster_id)
        self.flushed(core)

    def flushed(self, core: QuorumState) -> None:
        """Write down voters that are committed and on this disk, whichever came last."""
        if _apply(core):
            core.persist(ElectionState(core.epoch, core.leader_id, core.voted))

    def voters_changed(self, core: QuorumState) -> None:
        """Act on an assignment that was appended or cut, as far as it is not the core's to do."""
        memory: Memory = core.memory
        last = core.log.voters.last
        if memory.is_dismissed:
            # What the leader said stands until the log says so too.
            memory.is_dismissed = core.is_voter
            core.is_voter = False
        is_named = memory.cluster_id != ""
        if SETTLED_CLUSTER_ID in self.without and isinstance(last, Assignment) and not is_named:
            discovery.settle(core, last.cluster_id)
        discovery.name_cluster(core, memory)

    def is_of_cluster(self, core: QuorumState, cluster_id: str | None) -> bool:
        """Whether a request may be served: once an assignment is committed, only of this cluster.

        Before, who asks cannot know an id, or knows one that nobody has agreed to yet.
        """
        memory: Memory = core.memory
        return cluster_id is None or not memory.is_strict or cluster_id == memory.cluster_id

    def met_other_cluster(self, core: QuorumState, request: Request) -> None:
        """End this node, which asks another cluster; one that knows of none asks who they are.

        A request from before it was sure of its cluster had no id, or one of no consequence.
        """
        memory: Memory = core.memory
        if not memory.cluster_id:
            memory.find_us = core.now_us
        elif request.cluster_id == memory.cluster_id:
            raise FatalError(
                f"this node is of the cluster {memory.cluster_id}, and has asked a node of another"
            )

    # ---- who is where ----------------------------------------------------------------------------

    def endpoints(self, core: QuorumState, voter_id: int) -> Endpoints:
        """Return where a voter is, as FindQuorum has told."""
        if voter_id == core.config.node_id:
            return core.config.endpoints
        known = core.memory.connections.get(voter_id)
        if known is None:
            return ()
        return (Endpoint(core.config.listener_name, known.host, known.port),)

    def discover(self, core: QuorumState) -> int:
        """Send FindQuorum to whoever may know the leader."""
        next_us = discovery.look(core, self.asks_back)
        if core.role.name is _FOLLOWER:  # Its leader is left alone for a while, not for good.
            next_us = min(next_us, core.connections.next_ready_us(core.now_us))
        return next_us

    def seek(self, core: QuorumState) -> int:
        """Send FindQuorum as a former leader; and as a candidate, while it misses an address."""
        if core.role.name is _CANDIDATE and not discovery.unknown_voters(core):
            return NEVER_US
        return discovery.look(core, self.asks_back)

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> Request | None:
        """Tell the leader where this node is, and learn where the others are."""
        return discovery.question(core)

    # ---- elections -------------------------------------------------------------------------------

    def election_timeout_us(self, core: QuorumState) -> int:
        """Return quorum.election.timeout.ms: what is random is the delay before an election."""
        return core.config.election_timeout_us

    def election_backoff_us(self, core: QuorumState) -> int:
        """Draw the delay before an election: uniform below a bound that doubles, up to the cap."""
        bound_us = BACKOFF_BASE_US << min(core.campaigns, DOUBLINGS_MAX)
        return draw_below(core.random, min(core.config.election_backoff_max_us, bound_us) + 1)

    def retry_backoff_us(self, core: QuorumState, failures: int) -> int:
        """Return KIP-580's backoff: twice as long each time, ±20 %, and never above the maximum."""
        config = core.config
        doubled_us = config.retry_backoff_us << min(max(failures - 1, 0), DOUBLINGS_MAX)
        permille = 1000 - JITTER_PERMILLE + draw_below(core.random, 2 * JITTER_PERMILLE + 1)
        return min(config.retry_backoff_max_us, doubled_us * permille // 1000)

    def may_campaign(self, core: QuorumState) -> bool:
        """Whether it is known where a majority is; before a first election, that others agree.

        The draft has a node ask ``bootstrap.servers`` first, and fall back on ``quorum.voters``
        when nobody could tell ("Bootstrapping", steps 3 to 5).
        """
        if not discovery.knows_majority(core):
            return False
        if not discovery.is_first(core):
            return True
        if ONE_FIRST_QUORUM in self.without:
            return discovery.contacts_queried(core)
        return discovery.majority_agrees(core)

    def may_vote_for(self, core: QuorumState, candidate: ReplicaKey) -> bool:
        """Whether a candidate is a voter by this node's own log; or, in need, whether it is none.

        Need is when this node has no say in who votes, being no voter itself by its log, or having
        no log yet; and when it has become a candidate, as the draft has it, and was not elected
        either.
        """
        if candidate.id in core.log.voters.last:
            return True
        has_no_say = not core.is_voter or discovery.is_first(core)
        return NON_VOTERS_IN_NEED not in self.without and (has_no_say or core.campaigns > 0)

    def met_non_voter(self, core: QuorumState, candidate: ReplicaKey) -> None:
        """Become a candidate, if a voter: the non-voter may know voters that this log does not."""
        if core.is_voter:
            discovery.become_candidate(core)

    def vote_error(self, core: QuorumState, candidate: ReplicaKey) -> int:
        """Reject a non-voter's vote and its epoch as long as there is a leader, but not each time.

        NOT_FOLLOWER is the reason, and an error makes it send fewer requests. Once in a while the
        epoch is adopted: a node with a higher epoch than all others could never fetch again.
        """
        if DEAF_TO_NON_VOTERS in self.without or candidate.id in core.log.voters.last:
            return 0
        role = core.role
        has_leader = role.name is _LEADER or (
            isinstance(role, Follower) and role.has_fetched and core.now_us < role.fetch_deadline_us
        )
        if not has_leader:
            return 0
        period_us = NON_VOTER_PERIODS * core.config.fetch_timeout_us
        memory: Memory = core.memory
        return 0 if memory.heeds(candidate.id, core.now_us, period_us) else NOT_FOLLOWER

    # ---- leading ---------------------------------------------------------------------------------

    def epoch_start_records(
        self, core: QuorumState, granting: tuple[int, ...]
    ) -> tuple[ControlRecord, ...]:
        """Return a LeaderChangeMessage; before it, if the log is empty, who votes and where.

        The first leader gives the cluster its id: the cached one, as in a migration, or a new one.
        """
        change = LeaderChange(core.config.node_id, (), granting)
        if not discovery.is_first(core):
            return (change,)
        voters = core.log.voters.last
        cluster_id = core.config.cluster_id or _new_cluster_id(core)
        return (Voters(Assignment(cluster_id, voters.ids)), change)

    def membership(self, core: QuorumState, leader: Leadership) -> Reassignment:
        """Return what moves the voters towards their targets."""
        return Reassignment(
            core,
            leader,
            waits_for_epoch=OWN_EPOCH_COMMIT not in self.without,
            waits_for_log=CAUGHT_UP_FIRST not in self.without,
        )


def _apply(core: QuorumState) -> bool:
    """Take over the newest assignment that is committed, and on this disk; tell if it is news."""
    memory: Memory = core.memory
    end_offset = min(core.committed_offset, core.log.flushed_offset)
    if end_offset <= 0:
        return False
    assignment = core.log.voters.at(end_offset - 1)
    if not isinstance(assignment, Assignment):
        return False
    memory.applied_offset = max(memory.applied_offset, end_offset - 1)
    is_news = assignment != memory.applied
    memory.applied = assignment
    return is_news


def _new_cluster_id(core: QuorumState) -> str:
    """Draw an id such as ``kafka-storage random-uuid`` makes: none that begins with a dash."""
    while True:
        words = [core.random.getrandbits(32).to_bytes(4, "big") for _ in range(4)]
        cluster_id = str(Uuid(b"".join(words)))
        if not cluster_id.startswith("-"):
            return cluster_id
