"""DescribeQuorum 0-2, AddRaftVoter 0-1, RemoveRaftVoter 0, UpdateRaftVoter 0, ApiVersions 0-5."""

from __future__ import annotations

from functools import partial

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kraftspec.reference.profiles.common.tools import (
    get_api_versions,
    get_api_versions_reply,
    get_describe,
    get_description,
    put_api_versions,
    put_api_versions_reply,
    put_describe,
    put_description,
    put_error,
    put_state,
)
from kraftspec.reference.profiles.common.translation import (
    Translation,
    get_endpoints,
    put_endpoints,
)
from kraftspec.reference.raft.messages import (
    AddVoter,
    AddVoterReply,
    ApiVersions,
    ApiVersionsReply,
    DescribeQuorum,
    DescribeQuorumReply,
    RemoveVoter,
    RemoveVoterReply,
    ReplicaDescription,
    Reply,
    UpdateVoter,
    UpdateVoterReply,
)
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, VersionRange
from kraftspec.reference.wire.apis import Api

KRAFT_VERSION = "kraft.version"

# DescribeQuorum
DIRECTORIES_FROM = 2
# ApiVersions
FEATURES_FROM = 3
ZERO_MINIMUM_FROM = 4  # Before it, a feature whose lowest level is 0 is left out of the answer.
TARGET_FROM = 5  # KIP-1242: which node of which cluster is meant.
NO_NODE = -1


def _text(error: int, message: str | None) -> str | None:
    """Return the message of an error: its own, or at least its name."""
    if not error or message is not None:
        return message
    return ErrorCode(error).name if error in ErrorCode.__members__.values() else f"error {error}"


# ---- DescribeQuorum --------------------------------------------------------------------------


def _put_describe_reply(
    request: DescribeQuorum, reply: DescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse
    if request.refused or reply.error:
        message = put_error(kind, request, reply)
        for topic in message.topics:
            for partition in topic.partitions:
                partition.error_message = _text(reply.error, None)
        return message
    message = put_description(kind, reply, version, _put_state)
    if version >= DIRECTORIES_FROM:
        message.nodes = [
            kind.Node(
                node_id=voter.key.id,
                listeners=put_endpoints(kind.Listener, voter.endpoints),
            )
            for voter in reply.voters
        ]
    return message


def _put_state(replica: ReplicaDescription, version: int) -> DescribeQuorumResponse.ReplicaState:
    state = put_state(DescribeQuorumResponse.ReplicaState, replica, version)
    if version >= DIRECTORIES_FROM:
        state.replica_directory_id = replica.key.directory_id
    return state


def _get_describe_reply(message: DescribeQuorumResponse, listener: str) -> Reply:
    reply = get_description(DescribeQuorumReply, message, _get_state)
    endpoints = {node.node_id: get_endpoints(node.listeners) for node in message.nodes}
    for voter in reply.voters:
        voter.endpoints = endpoints.get(voter.key.id, ())
    return reply


def _get_state(state: DescribeQuorumResponse.ReplicaState) -> ReplicaDescription:
    return ReplicaDescription(
        ReplicaKey(state.replica_id, state.replica_directory_id),
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


DESCRIBE_QUORUM = Translation(
    Api.of(DescribeQuorumRequest, DescribeQuorumResponse),
    DescribeQuorum,
    partial(put_describe, DescribeQuorumRequest),
    get_describe,
    _put_describe_reply,
    _get_describe_reply,
)


# ---- AddRaftVoter ----------------------------------------------------------------------------


def _put_add(request: AddVoter, version: int) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_us // 1000,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        listeners=put_endpoints(AddRaftVoterRequest.Listener, request.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


def _get_add(message: AddRaftVoterRequest, version: int) -> AddVoter:
    return AddVoter(
        cluster_id=message.cluster_id,
        voter_id=message.voter_id,
        voter_directory_id=message.voter_directory_id,
        endpoints=get_endpoints(message.listeners),
        ack_when_committed=message.ack_when_committed,
        timeout_us=message.timeout_ms * 1000,
    )


def _put_add_reply(
    request: AddVoter, reply: AddVoterReply, version: int, listener: str
) -> AddRaftVoterResponse:
    error = reply.top_error or reply.error
    return AddRaftVoterResponse(error_code=error, error_message=_text(error, reply.message))


def _get_add_reply(message: AddRaftVoterResponse, listener: str) -> Reply:
    return AddVoterReply(error=message.error_code, message=message.error_message)


ADD_VOTER = Translation(
    Api.of(AddRaftVoterRequest, AddRaftVoterResponse),
    AddVoter,
    _put_add,
    _get_add,
    _put_add_reply,
    _get_add_reply,
    lambda request: 0 if request.ack_when_committed else 1,
)


# ---- RemoveRaftVoter -------------------------------------------------------------------------


def _put_remove(request: RemoveVoter, version: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
    )


def _get_remove(message: RemoveRaftVoterRequest, version: int) -> RemoveVoter:
    return RemoveVoter(
        cluster_id=message.cluster_id,
        voter_id=message.voter_id,
        voter_directory_id=message.voter_directory_id,
    )


def _put_remove_reply(
    request: RemoveVoter, reply: RemoveVoterReply, version: int, listener: str
) -> RemoveRaftVoterResponse:
    error = reply.top_error or reply.error
    return RemoveRaftVoterResponse(error_code=error, error_message=_text(error, reply.message))


def _get_remove_reply(message: RemoveRaftVoterResponse, listener: str) -> Reply:
    return RemoveVoterReply(error=message.error_code, message=message.error_message)


REMOVE_VOTER = Translation(
    Api.of(RemoveRaftVoterRequest, RemoveRaftVoterResponse),
    RemoveVoter,
    _put_remove,
    _get_remove,
    _put_remove_reply,
    _get_remove_reply,
)


# ---- UpdateRaftVoter -------------------------------------------------------------------------


def _put_update(request: UpdateVoter, version: int) -> UpdateRaftVoterRequest:
    kind = UpdateRaftVoterRequest
    return kind(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.leader_epoch,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        listeners=put_endpoints(kind.Listener, request.endpoints),
        k_raft_version_feature=kind.KRaftVersionFeature(
            min_supported_version=request.kraft_versions.min,
            max_supported_version=request.kraft_versions.max,
        ),
    )


def _get_update(message: UpdateRaftVoterRequest, version: int) -> UpdateVoter:
    feature = message.k_raft_version_feature
    return UpdateVoter(
        cluster_id=message.cluster_id,
        leader_epoch=message.current_leader_epoch,
        voter_id=message.voter_id,
        voter_directory_id=message.voter_directory_id,
        endpoints=get_endpoints(message.listeners),
        kraft_versions=VersionRange(feature.min_supported_version, feature.max_supported_version),
    )


def _put_update_reply(
    request: UpdateVoter, reply: UpdateVoterReply, version: int, listener: str
) -> UpdateRaftVoterResponse:
    kind = UpdateRaftVoterResponse
    leader = kind.CurrentLeader(leader_id=reply.leader_id, leader_epoch=reply.leader_epoch)
    for endpoint in reply.leader_endpoints:
        if endpoint.name == listener:
            leader.host, leader.port = endpoint.host, endpoint.port
    return kind(error_code=reply.top_error or reply.error, current_leader=leader)


def _get_update_reply(message: UpdateRaftVoterResponse, listener: str) -> Reply:
    leader = message.current_leader
    known = leader.leader_id >= 0 and leader.host
    return UpdateVoterReply(
        error=message.error_code,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        leader_endpoints=(Endpoint(listener, leader.host, leader.port),) if known else (),
    )


UPDATE_VOTER = Translation(
    Api.of(UpdateRaftVoterRequest, UpdateRaftVoterResponse),
    UpdateVoter,
    _put_update,
    _get_update,
    _put_update_reply,
    _get_update_reply,
)


# ---- ApiVersions: the core answers for kraft.version, the host for the APIs that it serves -----


def _get_api_versions(message: ApiVersionsRequest, version: int) -> ApiVersions:
    """Refuse a cluster without a node, and a node without a cluster.

    That they are others is nothing to a controller of Kafka's: only its brokers compare them.
    """
    has_cluster, has_node = message.cluster_id is not None, message.node_id != NO_NODE
    if version >= TARGET_FROM and has_cluster != has_node:
        return ApiVersions(refused=ErrorCode.INVALID_REQUEST)
    return get_api_versions(message, version)


def _put_api_versions_reply(
    request: ApiVersions, reply: ApiVersionsReply, version: int, listener: str
) -> ApiVersionsResponse:
    kind = ApiVersionsResponse
    message = put_api_versions_reply(kind, request, reply, version, listener)
    if version >= FEATURES_FROM and reply.kraft_versions is not None:
        ranges = {**dict(reply.supported_features), KRAFT_VERSION: reply.kraft_versions}
        message.supported_features = [
            kind.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in ranges.items()
            if low > 0 or version >= ZERO_MINIMUM_FROM
        ]
        levels = {**dict(reply.finalized_features), KRAFT_VERSION: reply.finalized_kraft_version}
        message.finalized_features = [
            kind.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in levels.items()
            if level > 0
        ]
        if message.finalized_features:
            message.finalized_features_epoch = reply.finalized_epoch
    return message


def _get_api_versions_reply(message: ApiVersionsResponse, listener: str) -> Reply:
    reply = get_api_versions_reply(message, listener)
    for feature in message.supported_features:
        if feature.name == KRAFT_VERSION:
            reply.kraft_versions = VersionRange(feature.min_version, feature.max_version)
    return reply


API_VERSIONS = Translation(
    Api.of(ApiVersionsRequest, ApiVersionsResponse),
    ApiVersions,
    partial(put_api_versions, ApiVersionsRequest),
    _get_api_versions,
    _put_api_versions_reply,
    _get_api_versions_reply,
)
