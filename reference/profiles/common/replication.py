"""Fetch and FetchSnapshot, as far as Apache Kafka and two drafts have them alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.common.translation import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    Translation,
    not_about_this_log,
)
from kraftspec.reference.raft.messages import (
    Batch,
    Bytes,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
)
from kraftspec.reference.raft.types import NONE
from kraftspec.reference.wire.apis import Api

if TYPE_CHECKING:
    from kraftspec.generated import kafka, kip_853, kip_996

INVALID = int(ErrorCode.INVALID_REQUEST)
UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

REPLICA_STATE_FROM = 15

FetchRequest = TypeVar(
    "FetchRequest", "kafka.FetchRequest", "kip_853.FetchRequest", "kip_996.FetchRequest"
)
FetchRequestOf15 = TypeVar("FetchRequestOf15", "kafka.FetchRequest", "kip_996.FetchRequest")
FetchResponse = TypeVar(
    "FetchResponse", "kafka.FetchResponse", "kip_853.FetchResponse", "kip_996.FetchResponse"
)
SnapshotRequest = TypeVar(
    "SnapshotRequest",
    "kafka.FetchSnapshotRequest",
    "kip_853.FetchSnapshotRequest",
    "kip_996.FetchSnapshotRequest",
)
SnapshotResponse = TypeVar(
    "SnapshotResponse",
    "kafka.FetchSnapshotResponse",
    "kip_853.FetchSnapshotResponse",
    "kip_996.FetchSnapshotResponse",
)


# ---- Fetch -----------------------------------------------------------------------------------


def put_fetch(kind: type[FetchRequest], request: Fetch) -> FetchRequest:
    """Return a request, without the replica that fetches: versions differ in where it stands."""
    partition = kind.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
    )
    return kind(
        cluster_id=request.cluster_id,
        max_wait_ms=request.max_wait_us // 1000,
        max_bytes=request.max_bytes,
        topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def get_fetch(message: FetchRequest, replica_id: int) -> Fetch:
    """Return what a request of this replica asks."""
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
    return Fetch(
        cluster_id=message.cluster_id,
        replica_id=replica_id,
        leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_wait_us=message.max_wait_ms * 1000,
        max_bytes=message.max_bytes,
    )


def put_replica_id(message: FetchRequestOf15, replica_id: int, version: int) -> None:
    """Say who fetches, where this version has it."""
    if version >= REPLICA_STATE_FROM:
        message.replica_state.replica_id = replica_id
    else:
        message.replica_id = replica_id


def get_replica_id(message: FetchRequestOf15, version: int) -> int:
    """Return who fetches."""
    return message.replica_state.replica_id if version >= REPLICA_STATE_FROM else message.replica_id


def put_fetch_reply(kind: type[FetchResponse], reply: FetchReply) -> FetchResponse:
    """Return the answer to a Fetch."""
    if reply.top_error:
        return kind(error_code=reply.top_error)
    partition = kind.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        high_watermark=reply.high_watermark,
        log_start_offset=reply.log_start_offset,
        current_leader=kind.LeaderIdAndEpoch(
            leader_id=reply.leader_id, leader_epoch=reply.leader_epoch
        ),
        records=reply.records or b"",
    )
    if reply.diverging_epoch >= 0:
        partition.diverging_epoch = kind.EpochEndOffset(
            epoch=reply.diverging_epoch, end_offset=reply.diverging_end_offset
        )
    elif reply.snapshot_epoch >= 0:
        partition.snapshot_id = kind.SnapshotId(
            end_offset=reply.snapshot_end_offset, epoch=reply.snapshot_epoch
        )
    topic = kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return kind(responses=[topic])


def get_fetch_reply(
    message: FetchResponse, read: Callable[[Bytes], tuple[Batch, ...]]
) -> FetchReply:
    """Return what the answer to a Fetch says; ``read`` reads the profile's record batches."""
    if message.error_code:
        return FetchReply(top_error=message.error_code)
    topics = message.responses
    if len(topics) != 1 or topics[0].topic_id != TOPIC_ID or len(topics[0].partitions) != 1:
        return not_about_this_log(FetchReply)
    partition = topics[0].partitions[0]
    if partition.partition_index != PARTITION:
        return not_about_this_log(FetchReply)
    return FetchReply(
        error=partition.error_code,
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=partition.diverging_epoch.epoch,
        diverging_end_offset=partition.diverging_epoch.end_offset,
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        batches=read(partition.records) if partition.records else (),
    )


# ---- FetchSnapshot ---------------------------------------------------------------------------


def put_fetch_snapshot(
    kind: type[SnapshotRequest], request: FetchSnapshot, version: int
) -> SnapshotRequest:
    """Return a request for bytes of a snapshot."""
    partition = kind.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.leader_epoch,
        snapshot_id=kind.SnapshotId(
            end_offset=request.snapshot_end_offset, epoch=request.snapshot_epoch
        ),
        position=request.position,
    )
    return kind(
        cluster_id=request.cluster_id,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def get_fetch_snapshot(message: SnapshotRequest, version: int) -> FetchSnapshot:
    """Return what a request asks."""
    refused = 0
    requested = [(topic.name, entry) for topic in message.topics for entry in topic.partitions]
    if len(requested) != 1:
        refused = INVALID
    elif requested[0][0] != TOPIC or requested[0][1].partition != PARTITION:
        refused = UNKNOWN_PARTITION
    if refused:
        return FetchSnapshot(
            cluster_id=message.cluster_id,
            refused=refused,
            refused_partitions=tuple((name, entry.partition) for name, entry in requested),
            replica_id=message.replica_id,
            leader_epoch=NONE,
            snapshot_end_offset=NONE,
            snapshot_epoch=NONE,
            position=NONE,
            max_bytes=message.max_bytes,
        )
    partition = requested[0][1]
    return FetchSnapshot(
        cluster_id=message.cluster_id,
        replica_id=message.replica_id,
        leader_epoch=partition.current_leader_epoch,
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def put_fetch_snapshot_reply(
    kind: type[SnapshotResponse],
    request: FetchSnapshot,
    reply: FetchSnapshotReply,
    version: int,
    listener: str,
) -> SnapshotResponse:
    """Return the answer to a FetchSnapshot; a refused one names what it was asked about."""
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
    return kind(topics=[kind.TopicSnapshot(name=topic, partitions=[partition])])


def get_fetch_snapshot_reply(message: SnapshotResponse, listener: str) -> FetchSnapshotReply:
    """Return what the answer to a FetchSnapshot says."""
    if message.error_code:
        return FetchSnapshotReply(top_error=message.error_code)
    topics = message.topics
    if len(topics) != 1 or topics[0].name != TOPIC or len(topics[0].partitions) != 1:
        return not_about_this_log(FetchSnapshotReply)
    partition = topics[0].partitions[0]
    return FetchSnapshotReply(
        error=partition.error_code,
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        snapshot_end_offset=partition.snapshot_id.end_offset,
        snapshot_epoch=partition.snapshot_id.epoch,
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


def fetch_snapshot(
    request_class: type[SnapshotRequest], response_class: type[SnapshotResponse]
) -> Translation:
    """Return FetchSnapshot of a draft: it has no fields of its own."""
    return Translation(
        Api.of(request_class, response_class),
        FetchSnapshot,
        partial(put_fetch_snapshot, request_class),
        get_fetch_snapshot,
        partial(put_fetch_snapshot_reply, response_class),
        get_fetch_snapshot_reply,
    )
