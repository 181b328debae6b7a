"""What Apache Kafka 4.4.0 decides where there is no plain default.

A draft's profile overrides what its documents say otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.membership import Leadership, Membership
from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Request, UpdateVoter
from kraftspec.reference.raft.role import Decisions, QuorumState
from kraftspec.reference.raft.state import draw_below
from kraftspec.reference.raft.types import BOOTSTRAP_OFFSET, NEVER_US, ReplicaKey

REMOVED_WHEN_COMMITTED: Final = "removed-when-committed"
FIXES: Final = {
    REMOVED_WHEN_COMMITTED: "a voter that alone has the record of its removal, as a leader that "
    "removes itself and goes down, does not campaign, and its log is too long for it to vote for "
    "the others",
}


class Policy(Decisions):
    """Apache Kafka's decisions, and a rule that it lacks. ``without`` are `FIXES` to do without."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.without: Collection[str] = tuple(without)
        self.campaigns_when_removed = REMOVED_WHEN_COMMITTED not in without
        self.seeks_when_unanswered = True

    def end_epoch_backoff_us(self, core: QuorumState, successors: tuple[ReplicaKey, ...]) -> int:
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

    def discover(self, core: QuorumState) -> int:
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

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> Request | None:
        """Return what a follower asks its leader about the voter set, if anything.

        A voter says who it is (KIP-853, UpdateRaftVoter). A controller that only observes may ask
        to become a voter (KIP-1186, ``controller.quorum.auto.join.enable``).
        """
        if core.is_voter:
            return _update(core) if _must_update(core, has_updated_leader) else None
        config = core.config
        may_join = config.auto_join and config.can_become_voter
        return _join(core) if may_join and core.log.kraft_versions.last >= 1 else None

    def membership(self, core: QuorumState, leader: Leadership) -> Membership:
        """Return what changes the voter set on behalf of a new leader."""
        return Membership(core, leader)

    def epoch_start_records(
        self, core: QuorumState, granting: tuple[int, ...]
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


def _must_update(core: QuorumState, has_updated_leader: bool) -> bool:
    """Whether the leader should hear of this voter's endpoints and versions.

    With kraft.version 1 when they are not what stands in the voter set; with 0, once a leader,
    which keeps them in memory for the upgrade.
    """
    log = core.log
    if log.kraft_versions.last >= 1:
        return log.voters.last.needs_update(core.config.voter)
    return not has_updated_leader


def _update(core: QuorumState) -> UpdateVoter:
    config = core.config
    return UpdateVoter(
        cluster_id=config.cluster_id,
        leader_epoch=core.epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        endpoints=config.endpoints,
        kraft_versions=config.kraft_versions,
    )


def _join(core: QuorumState) -> Request:
    """Ask to be added; or, if this id votes under another directory, for its removal."""
    config = core.config
    old = core.log.voters.last.get(config.node_id)
    if old is not None:
        return RemoveVoter(
            cluster_id=config.cluster_id,
            voter_id=old.key.id,
            voter_directory_id=old.key.directory_id,
        )
    return AddVoter(
        cluster_id=config.cluster_id,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        endpoints=config.endpoints,
        ack_when_committed=False,
        timeout_us=config.request_timeout_us,
    )
