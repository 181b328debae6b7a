"""Fetch 4-18, of which a quorum uses 13 and later, and FetchSnapshot 0-1 (KIP-595, KIP-630)."""

from __future__ import annotations

from kraftspec.generated.kafka import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kraftspec.reference.profiles.common.replication import (
    get_fetch,
    get_fetch_reply,
    get_fetch_snapshot,
    get_fetch_snapshot_reply,
    get_replica_id,
    put_fetch,
    put_fetch_reply,
    put_fetch_snapshot,
    put_fetch_snapshot_reply,
    put_replica_id,
)
from kraftspec.reference.profiles.common.translation import Translation, get_leader, put_leader
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft.messages import (
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    Reply,
)
from kraftspec.reference.wire.apis import Api

TOPIC_IDS_FROM = 13  # Older versions name the topic, and a quorum is known by its id alone.
NODE_ENDPOINTS_FROM = 17


# ---- Fetch -----------------------------------------------------------------------------------


def _put_fetch(request: Fetch, version: int) -> FetchRequest:
    message = put_fetch(FetchRequest, request)
    put_replica_id(message, request.replica_id, version)
    partition = message.topics[0].partitions[0]
    partition.replica_directory_id = request.replica_directory_id
    partition.high_watermark = request.high_watermark
    return message


def _get_fetch(message: FetchRequest, version: int) -> Fetch:
    request = get_fetch(message, get_replica_id(message, version))
    if not request.refused:
        partition = message.topics[0].partitions[0]
        request.replica_directory_id = partition.replica_directory_id
        request.high_watermark = partition.high_watermark
    return request


def _put_fetch_reply(
    request: Fetch, reply: FetchReply, version: int, listener: str
) -> FetchResponse:
    message = put_fetch_reply(FetchResponse, reply)
    if version >= NODE_ENDPOINTS_FROM:
        message.node_endpoints = put_leader(FetchResponse.NodeEndpoint, reply, listener)
    return message


def _get_fetch_reply(message: FetchResponse, listener: str) -> Reply:
    reply = get_fetch_reply(message, read_batches)
    return get_leader(reply, message.node_endpoints, listener)


FETCH = Translation(
    Api.of(FetchRequest, FetchResponse),
    Fetch,
    _put_fetch,
    _get_fetch,
    _put_fetch_reply,
    _get_fetch_reply,
    lambda request: TOPIC_IDS_FROM,
)


# ---- FetchSnapshot ---------------------------------------------------------------------------


def _put_fetch_snapshot(request: FetchSnapshot, version: int) -> FetchSnapshotRequest:
    message = put_fetch_snapshot(FetchSnapshotRequest, request, version)
    if version:
        message.topics[0].partitions[0].replica_directory_id = request.replica_directory_id
    return message


def _get_fetch_snapshot(message: FetchSnapshotRequest, version: int) -> FetchSnapshot:
    request = get_fetch_snapshot(message, version)
    if not request.refused:
        [partition] = [entry for topic in message.topics for entry in topic.partitions]
        request.replica_directory_id = partition.replica_directory_id
    return request


def _put_fetch_snapshot_reply(
    request: FetchSnapshot, reply: FetchSnapshotReply, version: int, listener: str
) -> FetchSnapshotResponse:
    kind = FetchSnapshotResponse
    message = put_fetch_snapshot_reply(kind, request, reply, version, listener)
    if version:
        message.node_endpoints = put_leader(kind.NodeEndpoint, reply, listener)
    return message


def _get_fetch_snapshot_reply(message: FetchSnapshotResponse, listener: str) -> Reply:
    reply = get_fetch_snapshot_reply(message, listener)
    return get_leader(reply, message.node_endpoints, listener)


FETCH_SNAPSHOT = Translation(
    Api.of(FetchSnapshotRequest, FetchSnapshotResponse),
    FetchSnapshot,
    _put_fetch_snapshot,
    _get_fetch_snapshot,
    _put_fetch_snapshot_reply,
    _get_fetch_snapshot_reply,
)
