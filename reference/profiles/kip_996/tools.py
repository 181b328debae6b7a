"""DescribeQuorum 0-1 (KIP-836) and ApiVersions: what tools ask for."""

from __future__ import annotations

from functools import partial

from kraftspec.generated.kip_996 import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
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
from kraftspec.reference.profiles.common.translation import Translation, api
from kraftspec.reference.raft.messages import (
    ApiVersions,
    DescribeQuorum,
    DescribeQuorumReply,
    ReplicaDescription,
    Reply,
)
from kraftspec.reference.raft.types import ReplicaKey


def _put_describe_reply(
    request: DescribeQuorum, reply: DescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse
    if request.refused or reply.error:
        return put_error(kind, request, reply)
    return put_description(kind, reply, version, partial(put_state, kind.ReplicaState))


def _get_describe_reply(message: DescribeQuorumResponse, listener: str) -> Reply:
    return get_description(DescribeQuorumReply, message, _get_state)


def _get_state(state: DescribeQuorumResponse.ReplicaState) -> ReplicaDescription:
    return ReplicaDescription(
        ReplicaKey(state.replica_id),
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


DESCRIBE_QUORUM = Translation(
    api(DescribeQuorumRequest),
    DescribeQuorum,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    partial(put_describe, DescribeQuorumRequest),
    get_describe,
    _put_describe_reply,
    _get_describe_reply,
)

API_VERSIONS = Translation(
    api(ApiVersionsRequest),
    ApiVersions,
    ApiVersionsRequest,
    ApiVersionsResponse,
    partial(put_api_versions, ApiVersionsRequest),
    get_api_versions,
    partial(put_api_versions_reply, ApiVersionsResponse),
    get_api_versions_reply,
)
