"""DescribeQuorum 0 of the late prototype, by topics and partitions; and ApiVersions."""

from __future__ import annotations

from functools import partial
from typing import Any

from kraftspec.generated.kip_595 import DescribeQuorumRequest, DescribeQuorumResponse
from kraftspec.reference.profiles.common.tools import get_describe, get_description, put_describe
from kraftspec.reference.profiles.common.translation import (
    PARTITION,
    TOPIC,
    Translation,
    api,
)
from kraftspec.reference.profiles.kafka.membership import API_VERSIONS
from kraftspec.reference.profiles.kip_595.messages import DraftDescribeQuorumReply
from kraftspec.reference.raft.messages import DescribeQuorum, ReplicaDescription, Reply
from kraftspec.reference.raft.types import ReplicaKey

_Response = DescribeQuorumResponse


def _put_description(
    request: DescribeQuorum, reply: DraftDescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    asked = request.refused_partitions if request.refused else ((TOPIC, PARTITION),)
    topics: dict[str, list[Any]] = {}
    for name, index in asked:
        partition = _Response.PartitionData(
            partition_index=index,
            error_code=reply.error,
            leader_id=reply.leader_id,
            leader_epoch=reply.leader_epoch,
            high_watermark=reply.high_watermark,
            current_voters=[_put_state(replica) for replica in reply.voters],
            target_voters=[_put_state(replica) for replica in reply.targets],
            observers=[_put_state(replica) for replica in reply.observers],
        )
        topics.setdefault(name, []).append(partition)
    return _Response(
        topics=[
            _Response.TopicData(topic_name=name, partitions=found) for name, found in topics.items()
        ]
    )


def _put_state(replica: ReplicaDescription) -> _Response.ReplicaState:
    return _Response.ReplicaState(
        replica_id=replica.key.id,
        log_end_offset=replica.end_offset,
        last_caught_up_time_ms=replica.last_caught_up_timestamp_ms,
    )


def _get_description(message: DescribeQuorumResponse, listener: str) -> Reply:
    reply = get_description(DraftDescribeQuorumReply, message, _get_state)
    if not reply.top_error:
        targets = message.topics[0].partitions[0].target_voters
        reply.targets = tuple(map(_get_state, targets))
    return reply


def _get_state(state: _Response.ReplicaState) -> ReplicaDescription:
    return ReplicaDescription(
        ReplicaKey(state.replica_id),
        state.log_end_offset,
        last_caught_up_timestamp_ms=state.last_caught_up_time_ms,
    )


DESCRIBE_QUORUM = Translation(
    api(DescribeQuorumRequest),
    DescribeQuorum,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    partial(put_describe, DescribeQuorumRequest),
    get_describe,
    _put_description,
    _get_description,
)

__all__ = ["API_VERSIONS", "DESCRIBE_QUORUM"]
