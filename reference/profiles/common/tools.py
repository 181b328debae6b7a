"""What tools ask for: DescribeQuorum and ApiVersions, as far as profiles have them alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.common.translation import (
    PARTITION,
    TOPIC,
    not_about_this_log,
    only_partition,
)
from kraftspec.reference.raft.messages import (
    ApiVersions,
    ApiVersionsReply,
    DescribeQuorum,
    DescribeQuorumReply,
    ReplicaDescription,
)

if TYPE_CHECKING:
    from kraftspec.generated import kafka, kip_595, kip_853, kip_996

TIMESTAMPS_FROM = 1  # Of DescribeQuorum.
SOFTWARE = "kraftspec"
SOFTWARE_FROM = 3  # The version of ApiVersions that names it (KIP-511).
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")

DescribeRequest = TypeVar(
    "DescribeRequest",
    "kafka.DescribeQuorumRequest",
    "kip_595.DescribeQuorumRequest",
    "kip_853.DescribeQuorumRequest",
    "kip_996.DescribeQuorumRequest",
)
DescribeResponse = TypeVar(
    "DescribeResponse",
    "kafka.DescribeQuorumResponse",
    "kip_853.DescribeQuorumResponse",
    "kip_996.DescribeQuorumResponse",
)
DescribeResponseOfAll = TypeVar(
    "DescribeResponseOfAll",
    "kafka.DescribeQuorumResponse",
    "kip_595.DescribeQuorumResponse",
    "kip_853.DescribeQuorumResponse",
    "kip_996.DescribeQuorumResponse",
)
ReplicaState = TypeVar(
    "ReplicaState",
    "kafka.DescribeQuorumResponse.ReplicaState",
    "kip_853.DescribeQuorumResponse.ReplicaState",
    "kip_996.DescribeQuorumResponse.ReplicaState",
)
Described = TypeVar("Described", bound=DescribeQuorumReply)
VersionsRequest = TypeVar(
    "VersionsRequest",
    "kafka.ApiVersionsRequest",
    "kip_853.ApiVersionsRequest",
    "kip_996.ApiVersionsRequest",
)
VersionsResponse = TypeVar(
    "VersionsResponse",
    "kafka.ApiVersionsResponse",
    "kip_853.ApiVersionsResponse",
    "kip_996.ApiVersionsResponse",
)


# ---- DescribeQuorum --------------------------------------------------------------------------


def put_describe(
    kind: type[DescribeRequest], request: DescribeQuorum, version: int
) -> DescribeRequest:
    """Return a request about this log."""
    partition = kind.PartitionData(partition_index=PARTITION)
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])


def get_describe(message: DescribeRequest, version: int) -> DescribeQuorum:
    """Return what a request asks."""
    if only_partition(message.topics) is not None:
        return DescribeQuorum()
    return DescribeQuorum(
        refused=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        refused_partitions=tuple(
            (topic.topic_name, partition.partition_index)
            for topic in message.topics
            for partition in topic.partitions
        ),
    )


def put_description(
    kind: type[DescribeResponse],
    reply: DescribeQuorumReply,
    version: int,
    put_state: Callable[[ReplicaDescription, int], Any],
) -> DescribeResponse:
    """Return an answer about this log; ``put_state`` makes the profile's ReplicaState."""
    partition = kind.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        leader_id=reply.leader_id,
        leader_epoch=reply.leader_epoch,
        high_watermark=reply.high_watermark,
        current_voters=[put_state(replica, version) for replica in reply.voters],
        observers=[put_state(replica, version) for replica in reply.observers],
    )
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])


def put_error(
    kind: type[DescribeResponse], request: DescribeQuorum, reply: DescribeQuorumReply
) -> DescribeResponse:
    """Return an answer that has an error, and nothing else, for all that was asked about."""
    about: dict[str, list[Any]] = {}
    requested = request.refused_partitions if request.refused else ((TOPIC, PARTITION),)
    for topic, index in requested:
        partition = kind.PartitionData(partition_index=index, error_code=reply.error)
        about.setdefault(topic, []).append(partition)
    return kind(
        topics=[
            kind.TopicData(topic_name=t, partitions=partitions) for t, partitions in about.items()
        ]
    )


def put_state(kind: type[ReplicaState], replica: ReplicaDescription, version: int) -> ReplicaState:
    """Return how far a replica is, without its uuid."""
    state = kind(replica_id=replica.key.id, log_end_offset=replica.end_offset)
    if version >= TIMESTAMPS_FROM:
        state.last_fetch_timestamp = replica.last_fetch_timestamp_ms
        state.last_caught_up_timestamp = replica.last_caught_up_timestamp_ms
    return state


def get_description(
    kind: type[Described],
    message: DescribeResponseOfAll,
    get_state: Callable[[Any], ReplicaDescription],
) -> Described:
    """Return what an answer says; ``get_state`` reads the profile's ReplicaState."""
    if message.error_code:
        return kind(top_error=message.error_code)
    partition = only_partition(message.topics)
    if partition is None:
        return not_about_this_log(kind)
    return kind(
        error=partition.error_code,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(get_state, partition.current_voters)),
        observers=tuple(map(get_state, partition.observers)),
    )


# ---- ApiVersions -----------------------------------------------------------------------------


def put_api_versions(
    kind: type[VersionsRequest], request: ApiVersions, version: int
) -> VersionsRequest:
    """Return a request, with the software that asks where the version has it."""
    if version < SOFTWARE_FROM:
        return kind()
    return kind(client_software_name=SOFTWARE, client_software_version="1")


def get_api_versions(message: VersionsRequest, version: int) -> ApiVersions:
    """Refuse software without a name (KIP-511; ``ApiVersionsRequest.isValid``)."""
    named = (message.client_software_name, message.client_software_version)
    if version >= SOFTWARE_FROM and not all(map(_SOFTWARE_NAME.fullmatch, named)):
        return ApiVersions(refused=ErrorCode.INVALID_REQUEST)
    return ApiVersions()


def put_api_versions_reply(
    kind: type[VersionsResponse],
    request: ApiVersions,
    reply: ApiVersionsReply,
    version: int,
    listener: str,
) -> VersionsResponse:
    """Return the APIs that the host serves."""
    return kind(
        error_code=reply.top_error or reply.error,
        api_keys=[
            kind.ApiVersion(api_key=a.key, min_version=a.min_version, max_version=a.max_version)
            for a in reply.apis
        ],
    )


def get_api_versions_reply(message: VersionsResponse, listener: str) -> ApiVersionsReply:
    """Return whether the answer is an error: the APIs are the host's to read."""
    return ApiVersionsReply(error=message.error_code)
