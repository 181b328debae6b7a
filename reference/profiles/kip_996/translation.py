"""The draft's Vote, and the other messages as Apache Kafka 3.6 had them.

Vote 0-1, with PreVote in both directions; BeginQuorumEpoch 0 and EndQuorumEpoch 0; Fetch 0-15,
of which a quorum uses 13 and later, and FetchSnapshot 0; DescribeQuorum 0-1 (KIP-836) and
ApiVersions.
"""

from __future__ import annotations

from functools import partial

from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kip_996 import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderChangeMessage,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.profiles.common.elections import (
    begin_epoch,
    end_epoch,
    get_vote,
    get_vote_reply,
    put_vote,
    put_vote_reply,
)
from kraftspec.reference.profiles.common.replication import (
    fetch_snapshot,
    get_fetch,
    get_fetch_reply,
    get_replica_id,
    put_fetch,
    put_fetch_reply,
    put_replica_id,
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
from kraftspec.reference.profiles.common.translation import Translation, only_partition
from kraftspec.reference.profiles.kafka.records import (
    get_leader_change,
    put_leader_change,
    read_batches,
)
from kraftspec.reference.raft.control import ControlRecord, LeaderChange
from kraftspec.reference.raft.messages import (
    ApiVersions,
    Batch,
    Bytes,
    DescribeQuorum,
    DescribeQuorumReply,
    Fetch,
    ReplicaDescription,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.wire.apis import Api

PRE_VOTE_FROM = 1  # Of Vote.
TOPIC_IDS_FROM = 13  # Older versions name the topic, and a quorum is known by its id alone.


# ---- Vote, BeginQuorumEpoch, EndQuorumEpoch ------------------------------------------------------


def _put_vote_reply(request: Vote, reply: VoteReply, version: int, listener: str) -> VoteResponse:
    message = put_vote_reply(VoteResponse, request, reply, version, listener)
    for topic in message.topics:
        topic.partitions[0].pre_vote = request.pre_vote and version >= PRE_VOTE_FROM
    return message


def answers_pre_vote(body: Bytes, version: int) -> bool | None:
    """Return what PreVote of a VoteResponse says; None where it is not about this log."""
    partition = only_partition(VoteResponse.decode(body, version).topics)
    return None if partition is None else partition.pre_vote


VOTE = Translation(
    Api.of(VoteRequest, VoteResponse),
    Vote,
    partial(put_vote, VoteRequest),
    get_vote,
    _put_vote_reply,
    get_vote_reply,
    lambda request: PRE_VOTE_FROM if request.pre_vote else 0,
)
BEGIN_EPOCH = begin_epoch(BeginQuorumEpochRequest, BeginQuorumEpochResponse)
END_EPOCH = end_epoch(EndQuorumEpochRequest, EndQuorumEpochResponse)


# ---- Fetch, FetchSnapshot, and the control record in their records -------------------------------


def encode_control(record: ControlRecord) -> tuple[int, bytes]:
    """Return the control type and the value of a record: LeaderChange is the only one."""
    if not isinstance(record, LeaderChange):
        raise TypeError(f"kip-996 has no control record for {record!r}")
    return ControlRecordType.LEADER_CHANGE, put_leader_change(LeaderChangeMessage, record)


def decode_control(control_type: int, value: Bytes) -> ControlRecord | None:
    """Return a LeaderChange; None for a control record of another type."""
    if control_type != ControlRecordType.LEADER_CHANGE:
        return None
    return get_leader_change(LeaderChangeMessage, value)


def _batches_of(data: Bytes) -> tuple[Batch, ...]:
    return read_batches(data, decode_control)


def _put_fetch(request: Fetch, version: int) -> FetchRequest:
    message = put_fetch(FetchRequest, request)
    put_replica_id(message, request.replica_id, version)
    return message


FETCH = Translation(
    Api.of(FetchRequest, FetchResponse),
    Fetch,
    _put_fetch,
    lambda message, version: get_fetch(message, get_replica_id(message, version)),
    lambda request, reply, version, listener: put_fetch_reply(FetchResponse, reply),
    lambda message, listener: get_fetch_reply(message, _batches_of),
    lambda request: TOPIC_IDS_FROM,
)
FETCH_SNAPSHOT = fetch_snapshot(FetchSnapshotRequest, FetchSnapshotResponse)


# ---- what tools ask for --------------------------------------------------------------------------


def _put_describe_reply(
    request: DescribeQuorum, reply: DescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse
    if request.refused or reply.error:
        return put_error(kind, request, reply)
    return put_description(kind, reply, version, partial(put_state, kind.ReplicaState))


def _get_state(state: DescribeQuorumResponse.ReplicaState) -> ReplicaDescription:
    return ReplicaDescription(
        ReplicaKey(state.replica_id),
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
    lambda message, listener: get_description(DescribeQuorumReply, message, _get_state),
)
API_VERSIONS = Translation(
    Api.of(ApiVersionsRequest, ApiVersionsResponse),
    ApiVersions,
    partial(put_api_versions, ApiVersionsRequest),
    get_api_versions,
    partial(put_api_versions_reply, ApiVersionsResponse),
    get_api_versions_reply,
)
