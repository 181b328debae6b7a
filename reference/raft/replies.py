"""Replies of other nodes: the rules for all of them, then what each one means here.

Each handler returns whether the reply was good; if not, its sender is left alone for a while.
"""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.campaign import Campaign
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.messages import (
    AddVoterReply,
    ApiVersionsReply,
    BeginEpochReply,
    EndEpochReply,
    FetchReply,
    FetchSnapshotReply,
    RemoveVoterReply,
    Reply,
    UpdateVoterReply,
    VoteReply,
)
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.resigned import Resigned
from kraftspec.reference.raft.role import QuorumState, ReplyHandler
from kraftspec.reference.raft.rules import handled_by_rule, top_level_is_good
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import NONE, Node


def on_vote_reply(core: QuorumState, source: Node, reply: VoteReply) -> bool:
    """Count a vote, or do without pre-votes if the voter does not know them (KIP-996)."""
    if reply.top_error == ErrorCode.UNSUPPORTED_VERSION and isinstance(core.role, Prospective):
        core.move(Cause.PRE_VOTE_UNSUPPORTED)
        return True
    if not top_level_is_good(core, source, reply):
        return False
    handled = handled_by_rule(core, reply)
    if handled is not None:
        return handled
    if reply.error:
        return False
    if isinstance(core.role, Campaign):
        core.role.on_vote(source.id, reply.vote_granted)
    return True


def on_begin_epoch_reply(core: QuorumState, source: Node, reply: BeginEpochReply) -> bool:
    """A voter knows that this node leads; it will fetch."""
    if not top_level_is_good(core, source, reply):
        return False
    handled = handled_by_rule(core, reply)
    return reply.error == 0 if handled is None else handled


def on_end_epoch_reply(core: QuorumState, source: Node, reply: EndEpochReply) -> bool:
    """A voter knows that this node has resigned."""
    if not top_level_is_good(core, source, reply):
        return False
    handled = handled_by_rule(core, reply)
    if handled is not None:
        return handled
    if reply.error:
        return False
    if isinstance(core.role, Resigned):
        core.role.acknowledge(source.id)
    return True


def on_fetch_reply(core: QuorumState, source: Node, reply: FetchReply) -> bool:
    """Records, or where to truncate, or which snapshot to fetch: a follower's affair."""
    if reply.top_error and not top_level_is_good(core, source, reply):
        return False
    role = core.role
    is_expected = reply.leader_epoch == core.epoch and reply.leader_id == core.leader_id
    if reply.error or not is_expected or not isinstance(role, Follower):
        handled = handled_by_rule(core, reply)
        if handled is not None:
            return handled
        role = core.role
    if reply.error or not isinstance(role, Follower):
        return False
    # A leader names itself, and lets a Fetch wait. Who does not may answer each at once.
    is_named = reply.leader_id != NONE or not core.policy.rests_when_told_nothing
    return role.on_fetch_reply(reply) and is_named


def on_fetch_snapshot_reply(core: QuorumState, source: Node, reply: FetchSnapshotReply) -> bool:
    """The next bytes of a snapshot.

    A leader of Kafka cannot write an answer that rejects a snapshot (it lacks the records), and its
    server makes an error of the whole request of it: the snapshot may be gone.
    """
    role = core.role
    is_rejected = (
        reply.top_error == ErrorCode.UNKNOWN_SERVER_ERROR
        and source.id == core.leader_id
        and core.policy.abandons_rejected_snapshots
    )
    if is_rejected and isinstance(role, Follower):
        role.abandon_snapshot()
    if not top_level_is_good(core, source, reply):
        return False
    handled = handled_by_rule(core, reply)
    if handled is not None:
        return handled
    return isinstance(core.role, Follower) and core.role.on_snapshot_reply(reply)


def on_api_versions_reply(core: QuorumState, source: Node, reply: ApiVersionsReply) -> bool:
    """What a new voter speaks (KIP-853, AddVoter)."""
    role = core.role
    return not isinstance(role, Leader) or role.membership.on_api_versions(source.id, reply)


def on_update_voter_reply(core: QuorumState, source: Node, reply: UpdateVoterReply) -> bool:
    """The leader knows this voter's endpoints, or does not keep them (KIP-853)."""
    handled = handled_by_rule(core, reply)
    if handled is not None:
        return handled
    if reply.error not in (0, ErrorCode.UNSUPPORTED_VERSION):
        return False
    if isinstance(core.role, Follower):
        core.role.has_updated_leader = True
        core.role.heard_from_leader()
    return True


def on_add_voter_reply(core: QuorumState, source: Node, reply: AddVoterReply) -> bool:
    """This observer was added, or may ask again in the next period (KIP-1186)."""
    return _joined(core, reply, ErrorCode.DUPLICATE_VOTER)


def on_remove_voter_reply(core: QuorumState, source: Node, reply: RemoveVoterReply) -> bool:
    """This observer's old directory votes no longer, or may be tried again (KIP-1186)."""
    return _joined(core, reply, ErrorCode.VOTER_NOT_FOUND)


def _joined(core: QuorumState, reply: Reply, as_good: ErrorCode) -> bool:
    if reply.error not in (0, ErrorCode.REQUEST_TIMED_OUT, as_good) or reply.top_error:
        return False
    if isinstance(core.role, Follower):
        core.role.begin_update_period()
    return True


HANDLERS: dict[type[Reply], ReplyHandler] = {
    VoteReply: on_vote_reply,
    BeginEpochReply: on_begin_epoch_reply,
    EndEpochReply: on_end_epoch_reply,
    FetchReply: on_fetch_reply,
    FetchSnapshotReply: on_fetch_snapshot_reply,
    ApiVersionsReply: on_api_versions_reply,
    UpdateVoterReply: on_update_voter_reply,
    AddVoterReply: on_add_voter_reply,
    RemoveVoterReply: on_remove_voter_reply,
}
