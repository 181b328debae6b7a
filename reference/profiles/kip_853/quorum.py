"""DescribeQuorum 0-2, AddVoter 0, RemoveVoter 0, ApiVersions 0-4 ("RPC").

The answers to AddVoter and RemoveVoter have an error at the top, for the request as a whole, and
one for the partition, with the leader that the node knows: so that a tool finds it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_853 import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from kraftspec.reference.profiles.common.tools import (
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
    PARTITION,
    TOPIC,
    Translation,
    not_about_this_log,
    only_partition,
)
from kraftspec.reference.profiles.kip_853.control import get_endpoints, put_endpoints
from kraftspec.reference.raft.messages import (
    AddVoter,
    AddVoterReply,
    ApiVersions,
    DescribeQuorum,
    DescribeQuorumReply,
    RemoveVoter,
    RemoveVoterReply,
    ReplicaDescription,
    Reply,
)
from kraftspec.reference.raft.types import NONE, ReplicaKey
from kraftspec.reference.wire.apis import Api

UUIDS_FROM = 2  # Of DescribeQuorum.
INVALID = int(ErrorCode.INVALID_REQUEST)


class DraftDescription(ReplicaDescription, gc=False):
    """A replica as the draft's DescribeQuorum tells of it.

    ``should_become_voter`` says of an observer that it fetches with an id and a uuid, and so can be
    made a voter ("DescribeQuorum").
    """

    should_become_voter: bool = False


# ---- DescribeQuorum --------------------------------------------------------------------------


def _put_describe_reply(
    request: DescribeQuorum, reply: DescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse
    if request.refused:
        return put_error(kind, request, reply)
    return put_description(kind, reply, version, _put_state)


def _put_state(replica: ReplicaDescription, version: int) -> DescribeQuorumResponse.ReplicaState:
    kind = DescribeQuorumResponse
    state = put_state(kind.ReplicaState, replica, version)
    if version >= UUIDS_FROM:
        state.replica_uuid = replica.key.directory_id
        state.should_become_voter = getattr(replica, "should_become_voter", False)
        state.end_points = put_endpoints(kind.VoterEndpoint, replica.endpoints)
    return state


def _get_describe_reply(message: DescribeQuorumResponse, listener: str) -> Reply:
    return get_description(DescribeQuorumReply, message, _get_state)


def _get_state(state: DescribeQuorumResponse.ReplicaState) -> ReplicaDescription:
    return DraftDescription(
        ReplicaKey(state.replica_id, state.replica_uuid),
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        get_endpoints(state.end_points),
        state.should_become_voter,
    )


DESCRIBE_QUORUM = Translation(
    Api.of(DescribeQuorumRequest, DescribeQuorumResponse),
    DescribeQuorum,
    partial(put_describe, DescribeQuorumRequest),
    get_describe,
    _put_describe_reply,
    _get_describe_reply,
)


# ---- AddVoter, RemoveVoter -------------------------------------------------------------------


def _put_change_reply(kind: Any) -> Any:
    def put(request: Any, reply: Reply, version: int, listener: str) -> Any:
        if reply.top_error:
            return kind(error_code=reply.top_error)
        partition = kind.PartitionData(index=PARTITION, error_code=reply.error)
        if reply.leader_epoch >= 0:
            partition.current_leader = kind.LeaderIdAndEpoch(
                leader_id=reply.leader_id, leader_epoch=reply.leader_epoch
            )
        return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])

    return put


def _get_change_reply(kind: type[Reply]) -> Any:
    def get(message: Any, listener: str) -> Reply:
        if message.error_code:
            return kind(top_error=message.error_code)
        partition = only_partition(message.topics, "index")
        if partition is None:
            return not_about_this_log(kind)
        return kind(
            error=partition.error_code,
            leader_id=partition.current_leader.leader_id,
            leader_epoch=partition.current_leader.leader_epoch,
        )

    return get


def _put_add(request: AddVoter, version: int) -> AddVoterRequest:
    kind = AddVoterRequest
    partition = kind.PartitionData(
        index=PARTITION,
        voter_id=request.voter_id,
        voter_uuid=request.voter_directory_id,
        end_points=put_endpoints(kind.VoterEndpoint, request.endpoints),
    )
    return kind(
        cluster_id=request.cluster_id or "",
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _get_add(message: AddVoterRequest, version: int) -> AddVoter:
    partition = only_partition(message.topics, "index")
    cluster_id = message.cluster_id or None
    if partition is None:
        nobody = ReplicaKey(NONE)
        return AddVoter(
            cluster_id=cluster_id,
            refused=INVALID,
            voter_id=nobody.id,
            voter_directory_id=nobody.directory_id,
        )
    return AddVoter(
        cluster_id=cluster_id,
        voter_id=partition.voter_id,
        voter_directory_id=partition.voter_uuid,
        endpoints=get_endpoints(partition.end_points),
    )


ADD_VOTER = Translation(
    Api.of(AddVoterRequest, AddVoterResponse),
    AddVoter,
    _put_add,
    _get_add,
    _put_change_reply(AddVoterResponse),
    _get_change_reply(AddVoterReply),
)


def _put_remove(request: RemoveVoter, version: int) -> RemoveVoterRequest:
    kind = RemoveVoterRequest
    partition = kind.PartitionData(
        index=PARTITION, voter_id=request.voter_id, voter_uuid=request.voter_directory_id
    )
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])


def _get_remove(message: RemoveVoterRequest, version: int) -> RemoveVoter:
    partition = only_partition(message.topics, "index")
    if partition is None:
        nobody = ReplicaKey(NONE)
        return RemoveVoter(
            refused=INVALID, voter_id=nobody.id, voter_directory_id=nobody.directory_id
        )
    return RemoveVoter(voter_id=partition.voter_id, voter_directory_id=partition.voter_uuid)


REMOVE_VOTER = Translation(
    Api.of(RemoveVoterRequest, RemoveVoterResponse),
    RemoveVoter,
    _put_remove,
    _get_remove,
    _put_change_reply(RemoveVoterResponse),
    _get_change_reply(RemoveVoterReply),
)


# ---- ApiVersions: no features here; the host says which APIs it serves -----------------------


API_VERSIONS = Translation(
    Api.of(ApiVersionsRequest, ApiVersionsResponse),
    ApiVersions,
    partial(put_api_versions, ApiVersionsRequest),
    lambda message, version: ApiVersions(),
    partial(put_api_versions_reply, ApiVersionsResponse),
    get_api_versions_reply,
)
