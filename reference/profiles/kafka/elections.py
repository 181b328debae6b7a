"""Vote 0-2, BeginQuorumEpoch 0-1, EndQuorumEpoch 0-1 (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from typing import Any

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.profiles.kafka.translation import (
    PARTITION,
    TOPIC,
    Translation,
    api,
    get_endpoints,
    get_leader,
    not_about_this_log,
    only_partition,
    put_endpoints,
    put_leader,
)
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Reply,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.types import NONE, ReplicaKey

INVALID = int(ErrorCode.INVALID_REQUEST)


# ---- what their answers have in common -------------------------------------------------------


def _put_epoch_reply(response_class: Any) -> Any:
    def put(request: Any, reply: Reply, version: int, listener: str) -> Any:
        if reply.top_error:
            return response_class(error_code=reply.top_error)
        partition = response_class.PartitionData(
            partition_index=PARTITION,
            error_code=reply.error,
            leader_id=reply.leader_id,
            leader_epoch=reply.leader_epoch,
        )
        return response_class(
            topics=[response_class.TopicData(topic_name=TOPIC, partitions=[partition])],
            node_endpoints=put_leader(response_class.NodeEndpoint, reply, listener)
            if version
            else [],
        )

    return put


def _get_epoch_reply(kind: type[Reply]) -> Any:
    def get(message: Any, listener: str) -> Reply:
        if message.error_code:
            return kind(top_error=message.error_code)
        partition = only_partition(message.topics)
        if partition is None:
            return not_about_this_log(kind)
        return kind(
            error=partition.error_code,
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            leader_endpoints=get_leader(message.node_endpoints, partition.leader_id, listener),
        )

    return get


# ---- Vote ------------------------------------------------------------------------------------


def _put_vote(request: Vote, version: int) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.replica_id,
        replica_directory_id=request.replica_directory_id,
        voter_directory_id=request.voter_directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    return VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        topics=[VoteRequest.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _get_vote(message: VoteRequest, version: int) -> Vote:
    partition = only_partition(message.topics)
    if partition is None:
        return Vote(
            cluster_id=message.cluster_id,
            refused=INVALID,
            epoch=NONE,
            replica_id=NONE,
            last_epoch=NONE,
            end_offset=NONE,
        )
    return Vote(
        cluster_id=message.cluster_id,
        epoch=partition.replica_epoch,
        replica_id=partition.replica_id,
        replica_directory_id=partition.replica_directory_id,
        voter_id=message.voter_id,
        voter_directory_id=partition.voter_directory_id,
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def _put_vote_reply(request: Vote, reply: VoteReply, version: int, listener: str) -> VoteResponse:
    message: VoteResponse = _put_epoch_reply(VoteResponse)(request, reply, version, listener)
    for topic in message.topics:
        topic.partitions[0].vote_granted = reply.vote_granted
    return message


def _get_vote_reply(message: VoteResponse, listener: str) -> Reply:
    reply: VoteReply = _get_epoch_reply(VoteReply)(message, listener)
    if not reply.top_error:
        reply.vote_granted = message.topics[0].partitions[0].vote_granted
    return reply


VOTE = Translation(
    api(VoteRequest),
    Vote,
    VoteRequest,
    VoteResponse,
    _put_vote,
    _get_vote,
    _put_vote_reply,
    _get_vote_reply,
    lambda request: 2 if request.pre_vote else 0,
)


# ---- BeginQuorumEpoch, EndQuorumEpoch ----------------------------------------------------------


def _put_begin_epoch(request: BeginEpoch, version: int) -> BeginQuorumEpochRequest:
    kind = BeginQuorumEpochRequest
    partition = kind.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter_directory_id if version else ZERO_UUID,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    return kind(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id if version else NONE,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=put_endpoints(kind.LeaderEndpoint, request.leader_endpoints)
        if version
        else [],
    )


def _get_begin_epoch(message: BeginQuorumEpochRequest, version: int) -> BeginEpoch:
    partition = only_partition(message.topics)
    if partition is None:
        return BeginEpoch(
            cluster_id=message.cluster_id, refused=INVALID, leader_id=NONE, leader_epoch=NONE
        )
    return BeginEpoch(
        cluster_id=message.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        voter_id=message.voter_id,
        voter_directory_id=partition.voter_directory_id,
        leader_endpoints=get_endpoints(message.leader_endpoints),
    )


BEGIN_EPOCH = Translation(
    api(BeginQuorumEpochRequest),
    BeginEpoch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    _put_begin_epoch,
    _get_begin_epoch,
    _put_epoch_reply(BeginQuorumEpochResponse),
    _get_epoch_reply(BeginEpochReply),
    lambda request: 0,
)


def _put_end_epoch(request: EndEpoch, version: int) -> EndQuorumEpochRequest:
    kind = EndQuorumEpochRequest
    successors = request.preferred_successors
    partition = kind.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=() if version else tuple(key.id for key in successors),
        preferred_candidates=[
            kind.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in successors
        ]
        if version
        else [],
    )
    return kind(
        cluster_id=request.cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=put_endpoints(kind.LeaderEndpoint, request.leader_endpoints)
        if version
        else [],
    )


def _get_end_epoch(message: EndQuorumEpochRequest, version: int) -> EndEpoch:
    partition = only_partition(message.topics)
    if partition is None:
        return EndEpoch(
            cluster_id=message.cluster_id, refused=INVALID, leader_id=NONE, leader_epoch=NONE
        )
    successors = [
        ReplicaKey(info.candidate_id, info.candidate_directory_id)
        for info in partition.preferred_candidates
    ] or [ReplicaKey(node_id) for node_id in partition.preferred_successors]
    return EndEpoch(
        cluster_id=message.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        preferred_successors=tuple(successors),
        leader_endpoints=get_endpoints(message.leader_endpoints),
    )


END_EPOCH = Translation(
    api(EndQuorumEpochRequest),
    EndEpoch,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    _put_end_epoch,
    _get_end_epoch,
    _put_epoch_reply(EndQuorumEpochResponse),
    _get_epoch_reply(EndEpochReply),
    lambda request: 0,
)
