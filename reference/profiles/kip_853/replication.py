"""Fetch 0-14, of which a quorum uses 12 and later, and FetchSnapshot 0 ("Fetch").

Version 14 has the replica's uuid, beside its id, for the whole request; and of an observer where it
listens, so that DescribeQuorum has all that adding it needs. Up to 12 the topic is named; from 13
on it has an id.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kraftspec.generated.kip_853 import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kraftspec.reference.profiles.common.replication import (
    fetch_snapshot,
    get_fetch,
    get_fetch_reply,
    put_fetch,
    put_fetch_reply,
)
from kraftspec.reference.profiles.common.translation import TOPIC, TOPIC_ID, Translation
from kraftspec.reference.profiles.kip_853.control import (
    batches_of,
    get_endpoints,
    put_endpoints,
)
from kraftspec.reference.raft.messages import Fetch, FetchReply
from kraftspec.reference.raft.types import NONE
from kraftspec.reference.wire.apis import Api

EPOCHS_FROM = 12  # Cluster id, last fetched epoch, and where logs part: older ones lack them.
UUIDS_FROM = 14
# More than any node has: who makes replicas up gets no more of the leader's memory.
ENDPOINTS_MAX = 16
NAME_CHARS_MAX = 255


def _put_names(
    topics: Iterable[FetchRequest.FetchTopic | FetchResponse.FetchableTopicResponse],
) -> None:
    """Name the topic, beside its id: a version's codec writes what the version has."""
    for topic in topics:
        topic.topic = TOPIC


def _get_ids(
    topics: Iterable[FetchRequest.FetchTopic | FetchResponse.FetchableTopicResponse],
) -> None:
    """Give a topic that is named its id."""
    for topic in topics:
        if topic.topic == TOPIC:
            topic.topic_id = TOPIC_ID


def _put_fetch(request: Fetch, version: int) -> FetchRequest:
    message = put_fetch(FetchRequest, request)
    _put_names(message.topics)
    message.replica_id = request.replica_id
    if version >= UUIDS_FROM:
        message.replica_uuid = request.replica_directory_id
        kind = FetchRequest.ReplicaEndpoint
        message.replica_end_points = put_endpoints(kind, request.replica_endpoints)
    return message


def _get_fetch(message: FetchRequest, version: int) -> Fetch:
    _get_ids(message.topics)
    request = get_fetch(message, message.replica_id)
    if not request.refused:
        request.replica_directory_id = message.replica_uuid
        request.replica_endpoints = get_endpoints(
            one
            for one in message.replica_end_points[:ENDPOINTS_MAX]
            if max(len(one.name), len(one.host)) <= NAME_CHARS_MAX
        )
    return request


def _put_fetch_reply(
    request: Fetch, reply: FetchReply, version: int, listener: str
) -> FetchResponse:
    if version < EPOCHS_FROM:
        reply = msgspec.structs.replace(
            reply, leader_id=NONE, leader_epoch=NONE, diverging_epoch=NONE, snapshot_epoch=NONE
        )
    message = put_fetch_reply(FetchResponse, reply)
    _put_names(message.responses)
    return message


def _get_fetch_reply(message: FetchResponse, listener: str) -> FetchReply:
    _get_ids(message.responses)
    return get_fetch_reply(message, batches_of)


FETCH = Translation(
    Api.of(FetchRequest, FetchResponse),
    Fetch,
    _put_fetch,
    _get_fetch,
    _put_fetch_reply,
    _get_fetch_reply,
    lambda request: EPOCHS_FROM,
)
FETCH_SNAPSHOT = fetch_snapshot(FetchSnapshotRequest, FetchSnapshotResponse)
