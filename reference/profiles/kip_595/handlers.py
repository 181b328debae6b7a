"""Requests and replies that the draft handles otherwise, or has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.generated.errors import DraftErrorCode, ErrorCode
from kraftspec.reference.profiles.kip_595.discovery import question, targets_of
from kraftspec.reference.profiles.kip_595.messages import (
    AlterQuorum,
    AlterQuorumReply,
    DraftDescribeQuorumReply,
)
from kraftspec.reference.profiles.kip_595.reassignment import Reassignment
from kraftspec.reference.raft import replies, requests
from kraftspec.reference.raft.effects import Answer
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader, empty_fetch_reply
from kraftspec.reference.raft.membership import Progress
from kraftspec.reference.raft.messages import (
    ApiVersions,
    ApiVersionsReply,
    BeginEpoch,
    BeginEpochReply,
    DescribeQuorum,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    Reply,
)
from kraftspec.reference.raft.rules import learn
from kraftspec.reference.raft.types import NEVER_US, NONE, Node, ReplicaKey

if TYPE_CHECKING:
    from kraftspec.reference.raft.role import QuorumState


# ---- replication -------------------------------------------------------------------------------


def on_fetch(core: QuorumState, token: int, request: Fetch) -> None:
    """FetchQuorumRecords: first tell a voter that was removed that it is none any more."""
    error = requests.top_level_error(core, request) or core.leader_error(request.leader_epoch)
    role = core.role
    changes = role.membership if isinstance(role, Leader) else None
    if (
        not error
        and isinstance(changes, Reassignment)
        and changes.dismisses(request.replica_id, request.fetch_offset)
    ):
        error = DraftErrorCode.NOT_FOLLOWER
        core.answer(token, empty_fetch_reply(core, error, core.high_watermark))
        return
    requests.on_fetch(core, token, request)


def on_fetch_reply(core: QuorumState, source: Node, reply: Reply) -> bool:
    """NOT_FOLLOWER: fetch on as an observer, though the log has not got there yet."""
    role = core.role
    is_dismissal = reply.error == DraftErrorCode.NOT_FOLLOWER and reply.leader_epoch == core.epoch
    if is_dismissal and isinstance(role, Follower):
        core.memory.is_dismissed = True
        core.is_voter = False
        role.heard_from_leader()
        return True
    assert isinstance(reply, FetchReply)
    return replies.on_fetch_reply(core, source, reply)


def on_end_epoch(core: QuorumState, token: int, request: EndEpoch) -> None:
    """EndQuorumEpoch: as ever; from a candidate that gives up, which names no leader, its epoch."""
    error = requests.top_level_error(core, request)
    if error or request.leader_id != NONE:
        requests.on_end_epoch(core, token, request)
        return
    if request.leader_epoch < core.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        learn(core, NONE, request.leader_epoch, ())
    core.answer(token, core.reply(EndEpochReply, error))


def on_begin_epoch(core: QuorumState, token: int, request: BeginEpoch) -> None:
    """BeginQuorumEpoch: as ever; a leader that this node cannot reach is none that it knows."""
    requests.on_begin_epoch(core, token, request)
    answer = core.effects[-1]
    assert isinstance(answer, Answer)
    if not core.leader_endpoints:
        answer.reply.leader_id = NONE


def on_begin_epoch_reply(core: QuorumState, source: Node, reply: Reply) -> bool:
    """A voter knows who leads; one that does not know where is told by FindQuorum.

    Addresses are in memory alone, and BeginQuorumEpoch has none: a voter that started again, and
    has nobody to ask, would know the leader's id and wait.
    """
    assert isinstance(reply, BeginEpochReply)
    good = replies.on_begin_epoch_reply(core, source, reply)
    if good and reply.leader_id == NONE and isinstance(core.role, Leader):
        core.ask(source, question(core))
    return good


# ---- for tools ---------------------------------------------------------------------------------


def on_alter_quorum(core: QuorumState, token: int, request: AlterQuorum) -> None:
    """AlterQuorum, of a leader alone; answered when the targets are committed."""
    error = requests.top_level_error(core, request)
    if error:
        core.answer(token, core.refusal(AlterQuorumReply, error))
        return
    role = core.role
    leads = isinstance(role, Leader) and not role.resign_requested
    message = None
    if not leads or core.shutdown_deadline_us != NEVER_US:
        error = DraftErrorCode.NOT_QUORUM_LEADER
    elif not request.targets or min(request.targets) < 0:
        error, message = ErrorCode.INVALID_REQUEST, "the target voters are ids of 0 or more"
    if error:
        reply = core.reply(AlterQuorumReply, error)
        reply.message = message
        core.answer(token, reply)
    elif isinstance(role, Leader) and isinstance(role.membership, Reassignment):
        role.membership.alter(token, request)


def on_describe_quorum(core: QuorumState, token: int, request: DescribeQuorum) -> None:
    """DescribeQuorum: current voters, target voters, observers."""
    role = core.role
    error = request.refused
    if not error and not isinstance(role, Leader):
        error = DraftErrorCode.NOT_QUORUM_LEADER
    reply = core.reply(DraftDescribeQuorumReply, error)
    if not error and isinstance(role, Leader):
        role.forget_observers(core.now_us)
        reply.high_watermark = core.high_watermark
        observers = [progress for _, progress in sorted(role.observers.items())]
        reply.voters = tuple(requests.description(core, p) for p in role.voters.values())
        reply.observers = tuple(requests.description(core, p) for p in observers)
        known = {p.key.id: p for p in (*observers, *role.voters.values())}
        reply.targets = tuple(
            requests.description(core, known.get(id) or Progress(ReplicaKey(id)))
            for id in targets_of(core) or ()
        )
    core.answer(token, reply)


def on_api_versions(core: QuorumState, token: int, request: ApiVersions) -> None:
    """ApiVersions: there are no features."""
    core.answer(token, ApiVersionsReply(error=request.refused))
