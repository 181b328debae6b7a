"""Vote 0-2, BeginQuorumEpoch 0-1, EndQuorumEpoch 0-1 (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from kraftspec.generated.kafka import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.profiles.common.elections import (
    get_begin_epoch,
    get_end_epoch,
    get_reply,
    get_vote,
    get_vote_reply,
    put_begin_epoch,
    put_end_epoch,
    put_reply,
    put_vote,
    put_vote_reply,
)
from kraftspec.reference.profiles.common.translation import (
    R,
    Translation,
    get_endpoints,
    get_leader,
    put_endpoints,
    put_leader,
)
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Reply,
    Request,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.wire.apis import Api

Response = TypeVar("Response", VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse)


# ---- what their answers have in common -------------------------------------------------------


def _put_reply(
    kind: type[Response], request: Request, reply: Reply, version: int, listener: str
) -> Response:
    message = put_reply(kind, request, reply, version, listener)
    if version:
        message.node_endpoints = put_leader(kind.NodeEndpoint, reply, listener)
    return message


def _get_reply(kind: type[R], message: Response, listener: str) -> R:
    return get_leader(get_reply(kind, message, listener), message.node_endpoints, listener)


# ---- Vote ------------------------------------------------------------------------------------


def _put_vote(request: Vote, version: int) -> VoteRequest:
    message = put_vote(VoteRequest, request, version)
    message.voter_id = request.voter_id
    partition = message.topics[0].partitions[0]
    partition.replica_directory_id = request.replica_directory_id
    partition.voter_directory_id = request.voter_directory_id
    return message


def _get_vote(message: VoteRequest, version: int) -> Vote:
    request = get_vote(message, version)
    if not request.refused:
        partition = message.topics[0].partitions[0]
        request.replica_directory_id = partition.replica_directory_id
        request.voter_id = message.voter_id
        request.voter_directory_id = partition.voter_directory_id
    return request


def _put_vote_reply(request: Vote, reply: VoteReply, version: int, listener: str) -> VoteResponse:
    message = put_vote_reply(VoteResponse, request, reply, version, listener)
    if version:
        message.node_endpoints = put_leader(VoteResponse.NodeEndpoint, reply, listener)
    return message


def _get_vote_reply(message: VoteResponse, listener: str) -> Reply:
    return get_leader(get_vote_reply(message, listener), message.node_endpoints, listener)


VOTE = Translation(
    Api.of(VoteRequest, VoteResponse),
    Vote,
    _put_vote,
    _get_vote,
    _put_vote_reply,
    _get_vote_reply,
    lambda request: 2 if request.pre_vote else 0,
)


# ---- BeginQuorumEpoch, EndQuorumEpoch ----------------------------------------------------------


def _put_begin_epoch(request: BeginEpoch, version: int) -> BeginQuorumEpochRequest:
    kind = BeginQuorumEpochRequest
    message = put_begin_epoch(kind, request, version)
    if version:
        message.voter_id = request.voter_id
        message.topics[0].partitions[0].voter_directory_id = request.voter_directory_id
        message.leader_endpoints = put_endpoints(kind.LeaderEndpoint, request.leader_endpoints)
    return message


def _get_begin_epoch(message: BeginQuorumEpochRequest, version: int) -> BeginEpoch:
    request = get_begin_epoch(message, version)
    if not request.refused:
        request.voter_id = message.voter_id
        request.voter_directory_id = message.topics[0].partitions[0].voter_directory_id
        request.leader_endpoints = get_endpoints(message.leader_endpoints)
    return request


BEGIN_EPOCH = Translation(
    Api.of(BeginQuorumEpochRequest, BeginQuorumEpochResponse),
    BeginEpoch,
    _put_begin_epoch,
    _get_begin_epoch,
    partial(_put_reply, BeginQuorumEpochResponse),
    partial(_get_reply, BeginEpochReply),
)


def _put_end_epoch(request: EndEpoch, version: int) -> EndQuorumEpochRequest:
    kind = EndQuorumEpochRequest
    message = put_end_epoch(kind, request, version)
    if version:
        partition = message.topics[0].partitions[0]
        partition.preferred_successors = ()
        partition.preferred_candidates = [
            kind.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.preferred_successors
        ]
        message.leader_endpoints = put_endpoints(kind.LeaderEndpoint, request.leader_endpoints)
    return message


def _get_end_epoch(message: EndQuorumEpochRequest, version: int) -> EndEpoch:
    request = get_end_epoch(message, version)
    if not request.refused:
        candidates = message.topics[0].partitions[0].preferred_candidates
        if candidates:
            request.preferred_successors = tuple(
                ReplicaKey(info.candidate_id, info.candidate_directory_id) for info in candidates
            )
        request.leader_endpoints = get_endpoints(message.leader_endpoints)
    return request


END_EPOCH = Translation(
    Api.of(EndQuorumEpochRequest, EndQuorumEpochResponse),
    EndEpoch,
    _put_end_epoch,
    _get_end_epoch,
    partial(_put_reply, EndQuorumEpochResponse),
    partial(_get_reply, EndEpochReply),
)
