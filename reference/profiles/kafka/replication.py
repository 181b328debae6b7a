"""Fetch 4-18, of which a quorum uses 13 and later, and FetchSnapshot 0-1 (KIP-595, KIP-630)."""

from __future__ import annotations

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.profiles.kafka.translation import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    Translation,
    api,
    get_leader,
    not_about_this_log,
    put_leader,
)
from kraftspec.reference.raft.messages import (
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    Reply,
)
from kraftspec.reference.raft.types import NONE

INVALID = int(ErrorCode.INVALID_REQUEST)
UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

TOPIC_IDS_FROM = 13  # Older versions name the topic, and a quorum is known by its id alone.
REPLICA_STATE_FROM = 15
NODE_ENDPOINTS_FROM = 17


# ---- Fetch -----------------------------------------------------------------------------------


def _put_fetch(request: Fetch, version: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        replica_directory_id=request.replica_directory_id,
        high_watermark=request.high_watermark,
    )
    message = FetchRequest(
        cluster_id=request.cluster_id,
        max_wait_ms=request.max_wait_us // 1000,
        max_bytes=request.max_bytes,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )
    if version >= REPLICA_STATE_FROM:
        message.replica_state = FetchRequest.ReplicaState(replica_id=request.replica_id)
    else:
        message.replica_id = request.replica_id
    return message


def _get_fetch(message: FetchRequest, version: int) -> Fetch:
    topics = message.topics
    topic = topics[0] if len(topics) == 1 else None
    if (
        topic is None
        or topic.topic_id != TOPIC_ID
        or len(topic.partitions) != 1
        or topic.partitions[0].partition != PARTITION
    ):
        return Fetch(
            cluster_id=message.cluster_id,
            refused=INVALID,
            replica_id=NONE,
            leader_epoch=NONE,
            fetch_offset=NONE,
            last_fetched_epoch=NONE,
        )
    partition = topic.partitions[0]
    new = version >= REPLICA_STATE_FROM
    return Fetch(
        cluster_id=message.cluster_id,
        replica_id=message.replica_state.replica_id if new else message.replica_id,
        replica_directory_id=partition.replica_directory_id,
        leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_us=message.max_wait_ms * 1000,
        max_bytes=message.max_bytes,
    )


def _put_fetch_reply(
    request: Fetch, reply: FetchReply, version: int, listener: str
) -> FetchResponse:
    if reply.top_error:
        return FetchResponse(error_code=reply.top_error)
    partition = FetchResponse.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        high_watermark=reply.high_watermark,
        log_start_offset=reply.log_start_offset,
        current_leader=FetchResponse.LeaderIdAndEpoch(
            leader_id=reply.leader_id, leader_epoch=reply.leader_epoch
        ),
        records=reply.records or b"",
    )
    if reply.diverging_epoch >= 0:
        partition.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=reply.diverging_epoch, end_offset=reply.diverging_end_offset
        )
    elif reply.snapshot_epoch >= 0:
        partition.snapshot_id = FetchResponse.SnapshotId(
            end_offset=reply.snapshot_end_offset, epoch=reply.snapshot_epoch
        )
    message = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])]
    )
    if version >= NODE_ENDPOINTS_FROM:
        message.node_endpoints = put_leader(FetchResponse.NodeEndpoint, reply, listener)
    return message


def _get_fetch_reply(message: FetchResponse, listener: str) -> Reply:
    if message.error_code:
        return FetchReply(top_error=message.error_code)
    topics = message.responses
    if len(topics) != 1 or topics[0].topic_id != TOPIC_ID or len(topics[0].partitions) != 1:
        return not_about_this_log(FetchReply)
    partition = topics[0].partitions[0]
    if partition.partition_index != PARTITION:
        return not_about_this_log(FetchReply)
    leader_id = partition.current_leader.leader_id
    return FetchReply(
        error=partition.error_code,
        leader_id=leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        leader_endpoints=get_leader(message.node_endpoints, leader_id, listener),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=partition.diverging_epoch.epoch,
        diverging_end_offset=partition.diverging_epoch.end_offset,
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        batches=read_batches(partition.records) if partition.records else (),
    )


FETCH = Translation(
    api(FetchRequest),
    Fetch,
    FetchRequest,
    FetchResponse,
    _put_fetch,
    _get_fetch,
    _put_fetch_reply,
    _get_fetch_reply,
    lambda request: TOPIC_IDS_FROM,
)


# ---- FetchSnapshot ---------------------------------------------------------------------------


def _put_fetch_snapshot(request: FetchSnapshot, version: int) -> FetchSnapshotRequest:
    kind = FetchSnapshotRequest
    partition = kind.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.leader_epoch,
        snapshot_id=kind.SnapshotId(
            end_offset=request.snapshot_end_offset, epoch=request.snapshot_epoch
        ),
        position=request.position,
        replica_directory_id=request.replica_directory_id if version else ZERO_UUID,
    )
    return kind(
        cluster_id=request.cluster_id,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def _get_fetch_snapshot(message: FetchSnapshotRequest, version: int) -> FetchSnapshot:
    refused = 0
    asked = [(topic.name, entry) for topic in message.topics for entry in topic.partitions]
    if len(asked) != 1:
        refused = INVALID
    elif asked[0][0] != TOPIC or asked[0][1].partition != PARTITION:
        refused = UNKNOWN_PARTITION
    if refused:
        return FetchSnapshot(
            cluster_id=message.cluster_id,
            refused=refused,
            refused_partitions=tuple((name, entry.partition) for name, entry in asked),
            replica_id=message.replica_id,
            leader_epoch=NONE,
            snapshot_end_offset=NONE,
            snapshot_epoch=NONE,
            position=NONE,
            max_bytes=message.max_bytes,
        )
    partition = asked[0][1]
    return FetchSnapshot(
        cluster_id=message.cluster_id,
        replica_id=message.replica_id,
        replica_directory_id=partition.replica_directory_id,
        leader_epoch=partition.current_leader_epoch,
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def _put_fetch_snapshot_reply(
    request: FetchSnapshot, reply: FetchSnapshotReply, version: int, listener: str
) -> FetchSnapshotResponse:
    kind = FetchSnapshotResponse
    if reply.top_error:
        return kind(error_code=reply.top_error)
    topic, index = TOPIC, PARTITION
    if request.refused_partitions:
        topic, index = request.refused_partitions[0]
    partition = kind.PartitionSnapshot(
        index=index, error_code=reply.error, unaligned_records=reply.data
    )
    if not request.refused_partitions:
        partition.current_leader = kind.LeaderIdAndEpoch(
            leader_id=reply.leader_id, leader_epoch=reply.leader_epoch
        )
    if not reply.error:
        partition.snapshot_id = kind.SnapshotId(
            end_offset=reply.snapshot_end_offset, epoch=reply.snapshot_epoch
        )
        partition.size = reply.size
        partition.position = reply.position
    return kind(
        topics=[kind.TopicSnapshot(name=topic, partitions=[partition])],
        node_endpoints=put_leader(kind.NodeEndpoint, reply, listener) if version else [],
    )


def _get_fetch_snapshot_reply(message: FetchSnapshotResponse, listener: str) -> Reply:
    if message.error_code:
        return FetchSnapshotReply(top_error=message.error_code)
    topics = message.topics
    if len(topics) != 1 or topics[0].name != TOPIC or len(topics[0].partitions) != 1:
        return not_about_this_log(FetchSnapshotReply)
    partition = topics[0].partitions[0]
    leader_id = partition.current_leader.leader_id
    return FetchSnapshotReply(
        error=partition.error_code,
        leader_id=leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        leader_endpoints=get_leader(message.node_endpoints, leader_id, listener),
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


FETCH_SNAPSHOT = Translation(
    api(FetchSnapshotRequest),
    FetchSnapshot,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    _put_fetch_snapshot,
    _get_fetch_snapshot,
    _put_fetch_snapshot_reply,
    _get_fetch_snapshot_reply,
    lambda request: 0,
)
