"""Fetch 0-15 and FetchSnapshot 0, as Apache Kafka 3.6 had them, and the control record in them."""

from __future__ import annotations

from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kip_996 import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderChangeMessage,
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
from kraftspec.reference.profiles.common.translation import Translation, api
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft.control import ControlRecord, LeaderChange
from kraftspec.reference.raft.messages import Batch, Bytes, Fetch

TOPIC_IDS_FROM = 13  # Older versions name the topic, and a quorum is known by its id alone.


def decode_control(control_type: int, value: Bytes) -> ControlRecord | None:
    """Return a LeaderChange; None for a control record of another type."""
    if control_type != ControlRecordType.LEADER_CHANGE:
        return None
    change = LeaderChangeMessage.decode(value, 0)
    return LeaderChange(
        change.leader_id,
        tuple(voter.voter_id for voter in change.voters),
        tuple(voter.voter_id for voter in change.granting_voters),
    )


def _batches_of(data: Bytes) -> tuple[Batch, ...]:
    return read_batches(data, decode_control)


def _put_fetch(request: Fetch, version: int) -> FetchRequest:
    message = put_fetch(FetchRequest, request)
    put_replica_id(message, request.replica_id, version)
    return message


FETCH = Translation(
    api(FetchRequest),
    Fetch,
    FetchRequest,
    FetchResponse,
    _put_fetch,
    lambda message, version: get_fetch(message, get_replica_id(message, version)),
    lambda request, reply, version, listener: put_fetch_reply(FetchResponse, reply),
    lambda message, listener: get_fetch_reply(message, _batches_of),
    lambda request: TOPIC_IDS_FROM,
)
FETCH_SNAPSHOT = fetch_snapshot(FetchSnapshotRequest, FetchSnapshotResponse)
