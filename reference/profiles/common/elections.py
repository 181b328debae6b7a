"""Vote, BeginQuorumEpoch and EndQuorumEpoch, as far as Apache Kafka and two drafts agree."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.common.translation import (
    PARTITION,
    TOPIC,
    R,
    Translation,
    not_about_this_log,
    only_partition,
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
from kraftspec.reference.raft.types import NONE, ReplicaKey
from kraftspec.reference.wire.apis import Api

if TYPE_CHECKING:
    from kraftspec.generated import kafka, kip_853, kip_996

INVALID = int(ErrorCode.INVALID_REQUEST)

VoteRequest = TypeVar("VoteRequest", "kafka.VoteRequest", "kip_996.VoteRequest")
VoteResponse = TypeVar(
    "VoteResponse", "kafka.VoteResponse", "kip_853.VoteResponse", "kip_996.VoteResponse"
)
BeginRequest = TypeVar(
    "BeginRequest",
    "kafka.BeginQuorumEpochRequest",
    "kip_853.BeginQuorumEpochRequest",
    "kip_996.BeginQuorumEpochRequest",
)
EndRequest = TypeVar(
    "EndRequest",
    "kafka.EndQuorumEpochRequest",
    "kip_853.EndQuorumEpochRequest",
    "kip_996.EndQuorumEpochRequest",
)
Response = TypeVar(
    "Response",
    "kafka.VoteResponse",
    "kafka.BeginQuorumEpochResponse",
    "kafka.EndQuorumEpochResponse",
    "kip_853.VoteResponse",
    "kip_853.BeginQuorumEpochResponse",
    "kip_853.EndQuorumEpochResponse",
    "kip_996.VoteResponse",
    "kip_996.BeginQuorumEpochResponse",
    "kip_996.EndQuorumEpochResponse",
)


# ---- what their answers have in common -------------------------------------------------------


def put_reply(
    kind: type[Response], request: Request, reply: Reply, version: int, listener: str
) -> Response:
    """Return an answer with the leader and the epoch that the node knows."""
    if reply.top_error:
        return kind(error_code=reply.top_error)
    partition = kind.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        leader_id=reply.leader_id,
        leader_epoch=reply.leader_epoch,
    )
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])


def get_reply(kind: type[R], message: Response, listener: str) -> R:
    """Return what an answer says, as this kind of reply."""
    if message.error_code:
        return kind(top_error=message.error_code)
    partition = only_partition(message.topics)
    if partition is None:
        return not_about_this_log(kind)
    return kind(
        error=partition.error_code,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
    )


# ---- Vote ------------------------------------------------------------------------------------


def put_vote(kind: type[VoteRequest], request: Vote, version: int) -> VoteRequest:
    """Return a request for a vote or a pre-vote, without uuids of anybody."""
    partition = kind.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.replica_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    return kind(
        cluster_id=request.cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def get_vote(message: VoteRequest, version: int) -> Vote:
    """Return what a request asks."""
    partition = only_partition(message.topics)
    if partition is None:
        return refused_vote(message.cluster_id)
    return Vote(
        cluster_id=message.cluster_id,
        epoch=partition.replica_epoch,
        replica_id=partition.replica_id,
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def refused_vote(cluster_id: str | None) -> Vote:
    """Return a request that is not about this log."""
    return Vote(
        cluster_id=cluster_id,
        refused=INVALID,
        epoch=NONE,
        replica_id=NONE,
        last_epoch=NONE,
        end_offset=NONE,
    )


def put_vote_reply(
    kind: type[VoteResponse], request: Vote, reply: VoteReply, version: int, listener: str
) -> VoteResponse:
    """Return the answer to a Vote."""
    message = put_reply(kind, request, reply, version, listener)
    for topic in message.topics:
        topic.partitions[0].vote_granted = reply.vote_granted
    return message


def get_vote_reply(message: VoteResponse, listener: str) -> VoteReply:
    """Return what the answer to a Vote says."""
    reply = get_reply(VoteReply, message, listener)
    if not reply.top_error:
        reply.vote_granted = message.topics[0].partitions[0].vote_granted
    return reply


# ---- BeginQuorumEpoch, EndQuorumEpoch ----------------------------------------------------------


def put_begin_epoch(kind: type[BeginRequest], request: BeginEpoch, version: int) -> BeginRequest:
    """Return a leader's word that it leads."""
    partition = kind.PartitionData(
        partition_index=PARTITION, leader_id=request.leader_id, leader_epoch=request.leader_epoch
    )
    return kind(
        cluster_id=request.cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def get_begin_epoch(message: BeginRequest, version: int) -> BeginEpoch:
    """Return what a request says."""
    partition = only_partition(message.topics)
    if partition is None:
        return BeginEpoch(
            cluster_id=message.cluster_id, refused=INVALID, leader_id=NONE, leader_epoch=NONE
        )
    return BeginEpoch(
        cluster_id=message.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
    )


def begin_epoch(request_class: type[BeginRequest], response_class: type[Response]) -> Translation:
    """Return BeginQuorumEpoch of a draft: it has no fields of its own."""
    return Translation(
        Api.of(request_class, response_class),
        BeginEpoch,
        partial(put_begin_epoch, request_class),
        get_begin_epoch,
        partial(put_reply, response_class),
        partial(get_reply, BeginEpochReply),
    )


def put_end_epoch(kind: type[EndRequest], request: EndEpoch, version: int) -> EndRequest:
    """Return a leader's word that it leads no longer."""
    partition = kind.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=tuple(key.id for key in request.preferred_successors),
    )
    return kind(
        cluster_id=request.cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def get_end_epoch(message: EndRequest, version: int) -> EndEpoch:
    """Return what a request says."""
    partition = only_partition(message.topics)
    if partition is None:
        return EndEpoch(
            cluster_id=message.cluster_id, refused=INVALID, leader_id=NONE, leader_epoch=NONE
        )
    return EndEpoch(
        cluster_id=message.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        preferred_successors=tuple(ReplicaKey(id) for id in partition.preferred_successors),
    )


def end_epoch(request_class: type[EndRequest], response_class: type[Response]) -> Translation:
    """Return EndQuorumEpoch of a draft: it has no fields of its own."""
    return Translation(
        Api.of(request_class, response_class),
        EndEpoch,
        partial(put_end_epoch, request_class),
        get_end_epoch,
        partial(put_reply, response_class),
        partial(get_reply, EndEpochReply),
    )
