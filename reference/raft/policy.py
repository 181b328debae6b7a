"""Decisions that differ between profiles. What stands here is what Apache Kafka 4.3.1 decides.

A draft's profile overrides what its documents say otherwise, and brings handlers for requests,
replies and control records that only it has. Roles ask the policy and never the profile's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kraftspec.reference.raft import joining
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.membership import Membership
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.transitions import TRANSITIONS, Transitions
from kraftspec.reference.raft.types import (
    BOOTSTRAP_OFFSET,
    NEVER_US,
    Endpoints,
    Node,
    ReplicaKey,
)

if TYPE_CHECKING:
    from kraftspec.reference.raft.core import Core
    from kraftspec.reference.raft.leader import Leader
    from kraftspec.reference.raft.voters import VoterSet

RequestHandler = Callable[["Core", int, Any], None]  # (core, token, request)
ReplyHandler = Callable[["Core", Node, Any], bool]  # (core, source, reply) → good, or back off
ControlHandler = Callable[["Core", int, Any], None]  # (core, offset, record)


class Random(Protocol):
    """All that the core wants of a ``random.Random``."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of ``k`` random bits."""
        ...


def draw_below(random: Random, bound: int) -> int:
    """Return one of 0 .. bound - 1, by integers alone, so that it is the same on any machine."""
    return random.getrandbits(32) * bound >> 32


class Policy:
    """Apache Kafka's decisions."""

    transitions: Transitions = TRANSITIONS
    request_handlers: Mapping[type[Request], RequestHandler] = {}
    reply_handlers: Mapping[type[Reply], ReplyHandler] = {}
    control_handlers: Mapping[type[ControlRecord], ControlHandler] = {}
    checks_quorum = True  # Whether a leader that a majority does not fetch from resigns.
    flushes_always = False  # The drafts sync every append; Kafka those of who may ever vote.
    discovers_by_fetch = True  # So that a follower which looks for its leader fetches from no one.

    def remember(self, core: Core, rest: Any) -> Any:
        """Return what the policy keeps in a new core, as ``core.memory``: Kafka's nothing.

        ``rest`` is what it had written to quorum-state, or None.
        """
        return None

    def written(self, core: Core) -> Any:
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

    def snapshot_voters(self, core: Core, last_offset: int) -> VoterSet | None:
        """Return the voters that a snapshot up to this offset says; None if it says none."""
        log = core.log
        return log.voters.at(last_offset) if log.kraft_versions.at(last_offset) >= 1 else None

    def endpoints(self, core: Core, voter_id: int) -> Endpoints:
        """Return where a voter is reached; nothing if that is not known: Kafka's sets say it."""
        return core.log.voters.last.endpoints(voter_id)

    def voters_changed(self, core: Core) -> None:
        """Act on another voter set in the log, appended or cut: Kafka's acts on no more than it."""

    def committed(self, core: Core) -> None:
        """Act on a high watermark that has risen: for Kafka's policy there is nothing to do."""

    def is_of_cluster(self, core: Core, cluster_id: str | None) -> bool:
        """Whether a request that names this cluster is for this one; tools may name none."""
        return cluster_id is None or cluster_id == core.config.cluster_id

    def retry_backoff_us(self, core: Core, failures: int) -> int:
        """Return how long to leave a node alone after so many answers of no use in a row."""
        return core.config.retry_backoff_us

    def election_timeout_us(self, core: Core) -> int:
        """Return how long an election may take: uniform in [T, 2T) (KIP-595, QuorumState)."""
        timeout_us = core.config.election_timeout_us
        return timeout_us + draw_below(core.random, timeout_us)

    def election_backoff_us(self, core: Core) -> int:
        """Return how long to wait before a campaign, once its time has come.

        Kafka does not wait. KIP-595 as drafted draws a delay before every election, by
        ``core.campaigns``, which counts those since a leader was known.
        """
        return 0

    def may_campaign(self, core: Core) -> bool:
        """Whether a voter knows enough of the others to campaign: in Kafka it always does."""
        return True

    def vote_error(self, core: Core, candidate: ReplicaKey) -> int:
        """Return why a vote is refused before its epoch is looked at, or 0, as always in Kafka."""
        return 0

    def met_stranger(self, core: Core, candidate: ReplicaKey) -> None:
        """A vote was refused because of who asked for it; see ``may_vote_for``."""

    def met_other_cluster(self, core: Core, reply: Reply) -> None:
        """Another node says that it is of another cluster: Kafka's asks again later."""

    def end_epoch_backoff_us(self, core: Core, successors: tuple[ReplicaKey, ...]) -> int:
        """Return how long to wait before campaigning when a leader has resigned (KIP-595).

        The first of its preferred successors does not wait, the next ones wait twice as long each,
        and who is not among them waits the whole ``election_backoff_max_us``. Kafka counts whole
        milliseconds here, and so do we: 1000 ms among three is 0, 250, 500 ms.
        """
        max_ms = core.config.election_backoff_max_us // 1000
        count = len(successors)
        place = 0
        for key in successors:
            if key.matches(core.config.key):
                break
            place += 1
        if place == 0:
            return 0
        if place >= count:
            return max_ms * 1000
        return min(max_ms, (max_ms >> (count - 1)) << (place - 1)) * 1000

    def may_vote_for(self, core: Core, candidate: ReplicaKey) -> bool:
        """Whether this replica may get a vote at all: in KRaft anybody may (KIP-853).

        A voter whose log lacks the newest voter set must be able to elect one that has it.
        """
        return True

    def follower_grants_pre_vote(self, core: Core, *, has_fetched: bool) -> bool:
        """Whether a follower grants a pre-vote to a log that is up to date (KIP-996).

        Not once it has fetched from its leader: that leader is alive.
        """
        return not has_fetched

    def leader_grants_pre_vote(self, core: Core) -> bool:
        """Whether a leader grants a pre-vote to a log that is up to date: it is there, and no."""
        return False

    def discover(self, core: Core) -> int:
        """Look for the leader when none is known; return when to try again (KIP-595).

        One server that is ready, chosen at random, is sent a Fetch: its answer names the leader.
        """
        if not core.may_fetch():
            return NEVER_US  # A server that leads would take it for an acknowledgement.
        connections = core.connections
        busy_until_us = connections.busy_until_us(core.now_us)
        if busy_until_us:
            return busy_until_us
        contacts = core.config.contacts
        if not contacts:
            return core.now_us + core.config.retry_backoff_us
        first = draw_below(core.random, len(contacts))
        node = connections.first_ready(contacts, first, core.now_us)
        if node is None:
            return connections.next_ready_us(core.now_us)
        core.ask(node, self.discovery_request(core))
        return connections.busy_until_us(core.now_us)

    def discovery_request(self, core: Core) -> Request:
        """Return what is asked of a server that may know the leader."""
        return core.fetch_request()

    def membership_request(self, core: Core, has_updated_leader: bool) -> Request | None:
        """Return what a follower asks its leader about the voter set, if anything.

        Asked once in a period, the fetch timeout (Kafka 4.1 to 4.3).
        """
        return joining.membership_request(core, has_updated_leader)

    def membership(self, core: Core, leader: Leader) -> Membership:
        """Return what changes the voter set on behalf of a new leader."""
        return Membership(core, leader)

    def epoch_start_records(
        self, core: Core, granting: tuple[int, ...]
    ) -> tuple[ControlRecord, ...]:
        """Return what a new leader writes first (KIP-595, KIP-853).

        The LeaderChange record; and, once kraft.version is 1, the version and the voters if they
        stand in nothing but the bootstrap checkpoint, which is not replicated, or if this node's
        own entry is out of date.
        """
        voters = core.log.voters.last
        change = LeaderChange(core.config.node_id, voters.ids, granting)
        level = core.log.kraft_versions.last
        if level < 1:
            return (change,)
        local = core.config.voter
        if core.log.voters.last_offset != BOOTSTRAP_OFFSET and not voters.needs_update(local):
            return (change,)
        return (change, KRaftVersion(level), Voters(voters.with_voter(local)))
