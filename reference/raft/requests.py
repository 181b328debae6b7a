"""Requests that other nodes and tools send: the checks, in Kafka's order, then the role's answer.

Order is part of the protocol: which of two errors a request gets, and whether it moved the receiver
to a higher epoch before it was refused. Source: KIP-595, KIP-853, KIP-996 and ``KafkaRaftClient``.
"""

from __future__ import annotations

from typing import Any

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader, empty_fetch_reply
from kraftspec.reference.raft.membership import NO_DIRECTORY, NOT_YET_US, Progress
from kraftspec.reference.raft.messages import (
    AddVoter,
    AddVoterReply,
    ApiVersions,
    ApiVersionsReply,
    BeginEpoch,
    BeginEpochReply,
    DescribeQuorum,
    DescribeQuorumReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    RemoveVoter,
    RemoveVoterReply,
    ReplicaDescription,
    Request,
    UpdateVoter,
    UpdateVoterReply,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.role import QuorumState, RequestHandler, up_to_date
from kraftspec.reference.raft.rules import learn
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    NONE,
    ReplicaKey,
    SnapshotId,
    Voter,
)


def top_level_error(core: QuorumState, request: Request) -> int:
    """Return why a request is refused as a whole: another cluster's, or not about this log.

    A request without a cluster id is accepted; tools and old nodes send none.
    """
    if not core.policy.is_of_cluster(core, request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return request.refused


def voter_error(core: QuorumState, sender_id: int, epoch: int) -> int:
    """Return why a request between voters is refused; whether its sender votes is not asked."""
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender_id < 0:
        return ErrorCode.INVALID_REQUEST
    return 0


def is_meant(core: QuorumState, voter_id: int, directory_id: bytes) -> bool:
    """Whether a request that names its receiver names this replica; one that does not, may be."""
    config = core.config
    if voter_id < 0:
        return True
    return voter_id == config.node_id and directory_id in (NO_DIRECTORY, config.directory_id)


# ---- elections -------------------------------------------------------------------------------


def on_vote(core: QuorumState, token: int, request: Vote) -> None:
    """Vote (KIP-595), as KIP-853 (voter keys) and KIP-996 (pre-vote) changed it."""
    error = top_level_error(core, request)
    if error:
        core.answer(token, core.refusal(VoteReply, error))
        return
    # A candidate's epoch is above that of its log; who asks for a pre-vote has not bumped it yet.
    epoch_max = request.epoch if request.pre_vote else request.epoch - 1
    if request.end_offset < 0 or request.last_epoch < 0 or request.last_epoch > epoch_max:
        error = ErrorCode.INVALID_REQUEST
    else:
        error = voter_error(core, request.replica_id, request.epoch)
    if not error:
        candidate = ReplicaKey(request.replica_id, request.replica_directory_id)
        error = core.policy.vote_error(core, candidate)
    if error:
        core.answer(token, core.reply(VoteReply, error))
        return
    if request.epoch > core.epoch and core.policy.vote_raises_epoch(core, request):
        core.move(Cause.HIGHER_EPOCH, epoch=request.epoch)
    if not is_meant(core, request.voter_id, request.voter_directory_id):
        core.answer(token, core.reply(VoteReply, ErrorCode.INVALID_VOTER_KEY))
        return
    granted = _grant(core, request)
    reply = core.reply(VoteReply)
    reply.vote_granted = granted
    core.answer(token, reply)


def _grant(core: QuorumState, request: Vote) -> bool:
    """Decide; a standard vote that is the first of its epoch is written down before the answer."""
    own_id = core.config.node_id
    if own_id < 0 or (request.replica_id == own_id and not request.pre_vote):
        return False  # A vote for itself is what makes a candidate, and none is to be given away.
    candidate = ReplicaKey(request.replica_id, request.replica_directory_id)
    if not core.policy.may_vote_for(core, candidate):
        core.policy.met_non_voter(core, candidate)
        return False
    is_up_to_date = up_to_date(core, request.last_epoch, request.end_offset)
    granted = core.role.grants(candidate, is_up_to_date, request.pre_vote)
    if granted and not request.pre_vote and core.voted is None:
        core.move(Cause.VOTE_GRANTED, voted=candidate)
    return granted


def on_begin_epoch(core: QuorumState, token: int, request: BeginEpoch) -> None:
    """BeginQuorumEpoch: follow that leader (KIP-595). A wrong key is told afterwards (KIP-853)."""
    error = top_level_error(core, request)
    if error:
        core.answer(token, core.refusal(BeginEpochReply, error))
        return
    error = voter_error(core, request.leader_id, request.leader_epoch)
    if not error:
        learn(core, request.leader_id, request.leader_epoch, request.leader_endpoints)
        if not is_meant(core, request.voter_id, request.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
    core.answer(token, core.reply(BeginEpochReply, error))


def on_end_epoch(core: QuorumState, token: int, request: EndEpoch) -> None:
    """EndQuorumEpoch: campaign, the sooner the better this node's place in the list (KIP-595)."""
    error = top_level_error(core, request)
    if error:
        core.answer(token, core.refusal(EndEpochReply, error))
        return
    error = voter_error(core, request.leader_id, request.leader_epoch)
    if not error:
        learn(core, request.leader_id, request.leader_epoch, request.leader_endpoints)
        role = core.role
        if isinstance(role, Follower) and core.leader_id == request.leader_id:
            backoff_us = core.policy.end_epoch_backoff_us(core, request.preferred_successors)
            role.fetch_deadline_us = core.now_us + backoff_us
    core.answer(token, core.reply(EndEpochReply, error))


# ---- replication -----------------------------------------------------------------------------


def on_fetch(core: QuorumState, token: int, request: Fetch) -> None:
    """Fetch (KIP-595)."""
    error = top_level_error(core, request)
    if error:
        core.answer(token, core.refusal(FetchReply, error))
        return
    if (
        request.max_wait_us < 0
        or request.fetch_offset < 0
        or request.last_fetched_epoch < 0
        or request.last_fetched_epoch > request.leader_epoch
    ):
        error = ErrorCode.INVALID_REQUEST
    else:
        error = core.leader_error(request.leader_epoch)
    if error:
        core.answer(token, empty_fetch_reply(core, error, NONE))
        return
    leader: Any = core.role
    leader.on_fetch(token, request)


def on_fetch_snapshot(core: QuorumState, token: int, request: FetchSnapshot) -> None:
    """FetchSnapshot (KIP-630): bytes from a position, not aligned to batches."""
    error = top_level_error(core, request)
    if error in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST):
        core.answer(token, FetchSnapshotReply(top_error=error))
        return
    error = error or core.leader_error(request.leader_epoch)
    snapshot_id = SnapshotId(request.snapshot_end_offset, request.snapshot_epoch)
    snapshot = core.log.snapshots.get(snapshot_id)
    if error:
        pass
    elif request.replica_id == core.config.node_id:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    elif snapshot is None or snapshot_id == BOOTSTRAP_SNAPSHOT:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    elif not 0 <= request.position < snapshot.size:
        error = ErrorCode.POSITION_OUT_OF_RANGE
    reply = core.reply(FetchSnapshotReply, error)
    if not error and snapshot is not None and isinstance(core.role, Leader):
        core.role.heard_from(request.replica_id, request.replica_directory_id, core.now_us)
        reply.snapshot_end_offset, reply.snapshot_epoch = snapshot_id
        reply.size = snapshot.size
        reply.position = request.position
        reply.read_max_bytes = min(max(request.max_bytes, 0), snapshot.size - request.position)
    core.answer(token, reply)


# ---- DescribeQuorum, ApiVersions ----------------------------------------------------------------


def on_describe_quorum(core: QuorumState, token: int, request: DescribeQuorum) -> None:
    """DescribeQuorum (KIP-595, KIP-836, KIP-853): a leader's knowledge of all replicas."""
    error = request.refused
    role = core.role
    if not error and not isinstance(role, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    reply = core.reply(DescribeQuorumReply, error)
    if not error and isinstance(role, Leader):
        role.forget_observers(core.now_us)
        reply.high_watermark = core.high_watermark
        reply.voters = tuple(description(core, progress) for progress in role.voters.values())
        reply.observers = tuple(description(core, p) for _, p in sorted(role.observers.items()))
    core.answer(token, reply)


def description(core: QuorumState, progress: Progress) -> ReplicaDescription:
    """Return what a leader knows of a replica, or of itself."""
    if progress.key.id == core.config.node_id:
        now_ms = core.now_us // 1000
        return ReplicaDescription(
            progress.key, core.log.end_offset, now_ms, now_ms, progress.endpoints
        )
    fetched_us, caught_up_us = progress.fetched_us, progress.caught_up_us
    return ReplicaDescription(
        progress.key,
        progress.end_offset,
        NONE if fetched_us == NOT_YET_US else fetched_us // 1000,
        NONE if caught_up_us == NOT_YET_US else caught_up_us // 1000,
        progress.endpoints,
    )


def on_api_versions(core: QuorumState, token: int, request: ApiVersions) -> None:
    """ApiVersions: of it, only the feature kraft.version is the core's to answer (KIP-853)."""
    if request.refused:
        core.answer(token, ApiVersionsReply(error=request.refused))
        return
    reply = ApiVersionsReply(
        kraft_versions=core.config.kraft_versions,
        finalized_kraft_version=core.log.kraft_versions.last,
        finalized_epoch=core.log.kraft_versions.last_offset or 0,
    )
    core.answer(token, reply)


# ---- membership (KIP-853) ----------------------------------------------------------------------


def on_add_voter(core: QuorumState, token: int, request: AddVoter) -> None:
    """AddRaftVoter."""
    error = top_level_error(core, request) or core.leader_error(core.epoch)
    message = None
    if not error:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        listener = core.config.listener_name
        if key.id < 0 or key.directory_id == NO_DIRECTORY:
            error, message = ErrorCode.INVALID_REQUEST, "a voter has an id and a directory id"
        elif Voter(key, request.endpoints).node(listener) is None:
            error, message = ErrorCode.INVALID_REQUEST, f"there is no endpoint named {listener}"
    role = core.role
    if error or not isinstance(role, Leader):
        core.answer(token, AddVoterReply(error=error, message=message))
    else:
        role.membership.add(token, request)


def on_remove_voter(core: QuorumState, token: int, request: RemoveVoter) -> None:
    """RemoveRaftVoter."""
    error = top_level_error(core, request) or core.leader_error(core.epoch)
    message = None
    if not error and (request.voter_id < 0 or request.voter_directory_id == NO_DIRECTORY):
        error, message = ErrorCode.INVALID_REQUEST, "a voter has an id and a directory id"
    role = core.role
    if error or not isinstance(role, Leader):
        core.answer(token, RemoveVoterReply(error=error, message=message))
    else:
        role.membership.remove(token, request)


def on_update_voter(core: QuorumState, token: int, request: UpdateVoter) -> None:
    """UpdateRaftVoter."""
    error = top_level_error(core, request) or core.leader_error(request.leader_epoch)
    if not error:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        low, high = request.kraft_versions
        if (
            key.id < 0
            or key.directory_id == NO_DIRECTORY
            or Voter(key, request.endpoints).node(core.config.listener_name) is None
            or not 0 <= low <= high
        ):
            error = ErrorCode.INVALID_REQUEST
    role = core.role
    if not error and isinstance(role, Leader):
        error = role.membership.update(request)
    core.answer(token, core.reply(UpdateVoterReply, error))


HANDLERS: dict[type[Request], RequestHandler] = {
    Vote: on_vote,
    BeginEpoch: on_begin_epoch,
    EndEpoch: on_end_epoch,
    Fetch: on_fetch,
    FetchSnapshot: on_fetch_snapshot,
    DescribeQuorum: on_describe_quorum,
    ApiVersions: on_api_versions,
    AddVoter: on_add_voter,
    RemoveVoter: on_remove_voter,
    UpdateVoter: on_update_voter,
}
