"""The draft's messages: version 0 of each, flat and by private API keys ("5 core RPCs").

One error code says both what concerns the request as a whole and what concerns the log. Whatever it
is, the response has the leader and the epoch that its sender knows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_595 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
    FindQuorumRequest,
    FindQuorumResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.profiles.common.tools import get_describe, get_description, put_describe
from kraftspec.reference.profiles.common.translation import PARTITION, TOPIC, Translation
from kraftspec.reference.profiles.kip_595.assignment import batches_of
from kraftspec.reference.profiles.kip_595.messages import (
    AlterQuorum,
    AlterQuorumReply,
    Connection,
    DraftDescribeQuorumReply,
    FindQuorum,
    FindQuorumReply,
)
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    BeginEpochReply,
    DescribeQuorum,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    ReplicaDescription,
    Reply,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.wire.apis import Api

RESPONSE_BYTES_MAX = 1 << 20  # Of records; a request does not say how many it takes.
_ABOUT_THE_REQUEST = frozenset(
    {ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)


def _put(response_class: Any, reply: Reply, **fields: Any) -> Any:
    return response_class(
        error_code=reply.top_error or reply.error,
        leader_id=reply.leader_id,
        leader_epoch=reply.leader_epoch,
        **fields,
    )


def _get(kind: type[Reply], response: Any, /, **fields: Any) -> Any:
    code = response.error_code
    is_top = code in _ABOUT_THE_REQUEST
    return kind(
        error=0 if is_top else code,
        top_error=code if is_top else 0,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        **fields,
    )


# ---- Vote ------------------------------------------------------------------------------------

VOTE = Translation(
    Api.of(VoteRequest, VoteResponse),
    Vote,
    lambda request, version: VoteRequest(
        cluster_id=request.cluster_id or "",
        candidate_epoch=request.epoch,
        candidate_id=request.replica_id,
        last_epoch=request.last_epoch,
        last_epoch_end_offset=request.end_offset,
    ),
    lambda message, version: Vote(
        cluster_id=message.cluster_id,
        epoch=message.candidate_epoch,
        replica_id=message.candidate_id,
        last_epoch=message.last_epoch,
        end_offset=message.last_epoch_end_offset,
    ),
    lambda request, reply, version, listener: _put(
        VoteResponse, reply, vote_granted=reply.vote_granted
    ),
    lambda message, listener: _get(VoteReply, message, vote_granted=message.vote_granted),
)

# ---- BeginQuorumEpoch, EndQuorumEpoch ----------------------------------------------------------

BEGIN_EPOCH = Translation(
    Api.of(BeginQuorumEpochRequest, BeginQuorumEpochResponse),
    BeginEpoch,
    lambda request, version: BeginQuorumEpochRequest(
        cluster_id=request.cluster_id or "",
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    ),
    lambda message, version: BeginEpoch(
        cluster_id=message.cluster_id,
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
    ),
    lambda request, reply, version, listener: _put(BeginQuorumEpochResponse, reply),
    lambda message, listener: _get(BeginEpochReply, message),
)

END_EPOCH = Translation(
    Api.of(EndQuorumEpochRequest, EndQuorumEpochResponse),
    EndEpoch,
    # Only leaders send it here, so the sender is the leader.
    lambda request, version: EndQuorumEpochRequest(
        cluster_id=request.cluster_id or "",
        replica_id=request.leader_id,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=tuple(key.id for key in request.preferred_successors),
    ),
    lambda message, version: EndEpoch(
        cluster_id=message.cluster_id,
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
        preferred_successors=tuple(ReplicaKey(id) for id in message.preferred_successors),
    ),
    lambda request, reply, version, listener: _put(EndQuorumEpochResponse, reply),
    lambda message, listener: _get(EndEpochReply, message),
)

# ---- FetchQuorumRecords ------------------------------------------------------------------------


def _put_fetch_reply(
    request: Fetch, reply: FetchReply, version: int, listener: str
) -> FetchQuorumRecordsResponse:
    message: FetchQuorumRecordsResponse = _put(
        FetchQuorumRecordsResponse,
        reply,
        high_watermark=reply.high_watermark,
        records=reply.records or b"",
        first_dirty_offset=-1,
        last_caught_up_time_ms=-1,
    )
    if reply.diverging_epoch >= 0:
        message.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        message.next_fetch_offset = reply.diverging_end_offset
        message.next_fetch_offset_epoch = reply.diverging_epoch
    return message


def _get_fetch_reply(message: FetchQuorumRecordsResponse, listener: str) -> Reply:
    reply: FetchReply = _get(
        FetchReply,
        message,
        high_watermark=message.high_watermark,
        batches=batches_of(message.records) if message.records else (),
    )
    has_hint = message.next_fetch_offset >= 0 and message.next_fetch_offset_epoch >= 0
    if reply.error == ErrorCode.OFFSET_OUT_OF_RANGE and has_hint:
        reply.error = 0
        reply.diverging_end_offset = message.next_fetch_offset
        reply.diverging_epoch = message.next_fetch_offset_epoch
    return reply


FETCH = Translation(
    Api.of(FetchQuorumRecordsRequest, FetchQuorumRecordsResponse),
    Fetch,
    lambda request, version: FetchQuorumRecordsRequest(
        cluster_id=request.cluster_id or "",
        replica_id=request.replica_id,
        leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        max_wait_time_ms=request.max_wait_us // 1000,
    ),
    lambda message, version: Fetch(
        cluster_id=message.cluster_id,
        replica_id=message.replica_id,
        leader_epoch=message.leader_epoch,
        fetch_offset=message.fetch_offset,
        last_fetched_epoch=message.last_fetched_epoch,
        max_wait_us=message.max_wait_time_ms * 1000,
        max_bytes=RESPONSE_BYTES_MAX,
    ),
    _put_fetch_reply,
    _get_fetch_reply,
)

# ---- FindQuorum --------------------------------------------------------------------------------


def _put_connection(connection: Connection) -> FindQuorumResponse.Voter:
    return FindQuorumResponse.Voter(
        voter_id=connection.voter_id,
        boot_timestamp=connection.boot_timestamp_ms,
        host=connection.host,
        port=connection.port,
        security_protocol=connection.security_protocol,
    )


def _get_connection(voter: FindQuorumResponse.Voter) -> Connection:
    return Connection(
        voter.voter_id, voter.boot_timestamp, voter.host, voter.port, voter.security_protocol
    )


def _put_quorum(
    request: FindQuorum, reply: FindQuorumReply, version: int, listener: str
) -> FindQuorumResponse:
    targets = reply.targets
    message: FindQuorumResponse = _put(
        FindQuorumResponse,
        reply,
        cluster_id=reply.cluster_id,
        voters=[_put_connection(voter) for voter in reply.voters],
        target_voters=None if targets is None else [_put_connection(voter) for voter in targets],
    )
    return message


def _get_quorum(message: FindQuorumResponse, listener: str) -> Reply:
    targets = message.target_voters
    reply: FindQuorumReply = _get(
        FindQuorumReply,
        message,
        cluster_id=message.cluster_id,
        voters=tuple(map(_get_connection, message.voters)),
        targets=None if targets is None else tuple(map(_get_connection, targets)),
    )
    return reply


FIND_QUORUM = Translation(
    Api.of(FindQuorumRequest, FindQuorumResponse),
    FindQuorum,
    lambda request, version: FindQuorumRequest(
        replica_id=request.sender.voter_id,
        boot_timestamp=request.sender.boot_timestamp_ms,
        host=request.sender.host,
        port=request.sender.port,
        security_protocol=request.sender.security_protocol,
    ),
    lambda message, version: FindQuorum(
        sender=Connection(
            message.replica_id,
            message.boot_timestamp,
            message.host,
            message.port,
            message.security_protocol,
        )
    ),
    _put_quorum,
    _get_quorum,
)

# ---- AlterQuorum -------------------------------------------------------------------------------


ALTER_QUORUM = Translation(
    Api.of(AlterQuorumRequest, AlterQuorumResponse),
    AlterQuorum,
    lambda request, version: AlterQuorumRequest(
        cluster_id=request.cluster_id,
        target_voters=[AlterQuorumRequest.Voter(voter_id=id) for id in request.targets],
        timeout_ms=request.timeout_us // 1000,
    ),
    lambda message, version: AlterQuorum(
        cluster_id=message.cluster_id,
        targets=tuple(voter.voter_id for voter in message.target_voters),
        timeout_us=message.timeout_ms * 1000,
    ),
    lambda request, reply, version, listener: _put(
        AlterQuorumResponse, reply, error_message=reply.message
    ),
    lambda message, listener: _get(AlterQuorumReply, message, message=message.error_message),
)

# ---- DescribeQuorum, as the late prototype had it: by topics and partitions ----------------------


def _put_description(
    request: DescribeQuorum, reply: DraftDescribeQuorumReply, version: int, listener: str
) -> DescribeQuorumResponse:
    requested = request.refused_partitions if request.refused else ((TOPIC, PARTITION),)
    topics: dict[str, list[Any]] = {}
    for name, index in requested:
        partition = DescribeQuorumResponse.PartitionData(
            partition_index=index,
            error_code=reply.error,
            leader_id=reply.leader_id,
            leader_epoch=reply.leader_epoch,
            high_watermark=reply.high_watermark,
            current_voters=[_put_replica(replica) for replica in reply.voters],
            target_voters=[_put_replica(replica) for replica in reply.targets],
            observers=[_put_replica(replica) for replica in reply.observers],
        )
        topics.setdefault(name, []).append(partition)
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.TopicData(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def _put_replica(replica: ReplicaDescription) -> DescribeQuorumResponse.ReplicaState:
    return DescribeQuorumResponse.ReplicaState(
        replica_id=replica.key.id,
        log_end_offset=replica.end_offset,
        last_caught_up_time_ms=replica.last_caught_up_timestamp_ms,
    )


def _get_description(message: DescribeQuorumResponse, listener: str) -> Reply:
    reply = get_description(DraftDescribeQuorumReply, message, _get_replica)
    if not reply.top_error:
        targets = message.topics[0].partitions[0].target_voters
        reply.targets = tuple(map(_get_replica, targets))
    return reply


def _get_replica(state: DescribeQuorumResponse.ReplicaState) -> ReplicaDescription:
    return ReplicaDescription(
        ReplicaKey(state.replica_id),
        state.log_end_offset,
        last_caught_up_timestamp_ms=state.last_caught_up_time_ms,
    )


DESCRIBE_QUORUM = Translation(
    Api.of(DescribeQuorumRequest, DescribeQuorumResponse),
    DescribeQuorum,
    partial(put_describe, DescribeQuorumRequest),
    get_describe,
    _put_description,
    _get_description,
)
