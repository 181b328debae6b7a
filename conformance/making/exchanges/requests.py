"""Requests as scenarios put them: valid ones by default, wrong in what they are told to be."""

from __future__ import annotations

from typing import Any

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    LeaderChangeMessage,
    RemoveRaftVoterRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.log.control import control_value, encode_control_values
from kraftspec.reference.profiles.common.translation import TOPIC, TOPIC_ID
from kraftspec.reference.wire.frames import request_header

CLUSTER_ID = "a3JhZnRzcGVjLWNsdXN0ZQ"
OTHER_CLUSTER_ID = "c29tZS1vdGhlci1jbHVzdA"
CLIENT_ID = "kraftspec"
HOST = "127.0.0.1"
ME = 1  # The node that is recorded; 2 and 3 are the other voters, 4 is none, 9 nobody knows.
NOBODY = 9
NONE = -1
FIRST_PORT = 14_090
OPENED_MS = 1_700_000_000_000  # When scripted leaders were elected.
REPLICA_STATE_FROM = 15  # Fetch: the replica id moved into a struct of its own.
DIRECTORY_FROM = 17
HIGH_WATERMARK_FROM = 18
IDS_FROM = 13


def directory_id(node_id: int) -> Uuid:
    """Return the directory id of a node: its id sixteen times; zero of none."""
    return Uuid(bytes([node_id]) * 16) if node_id > 0 else ZERO_UUID


def port_of(node_id: int) -> int:
    """Return where a node is told to listen."""
    return FIRST_PORT + node_id


def text_of(uuid: Uuid) -> str:
    """Return a uuid as Kafka writes it."""
    return str(uuid)


def frame_of(message: Message, version: int, correlation_id: int) -> bytes:
    """Return a request as it is sent, without the size before it."""
    header = request_header(type(message), version, correlation_id, CLIENT_ID)
    return header + message.encode(version)


def _topics(kind: Any, partition: Any, topic: str, copies: int, named: str = "topic_name") -> Any:
    """Return topics: one with that partition, or with ``copies`` of it."""
    return [kind(**{named: topic, "partitions": [partition] * copies})] if copies else []


# ---- elections ---------------------------------------------------------------------------------


def vote(
    version: int,
    epoch: int,
    *,
    last: tuple[int, int],
    pre: bool = False,
    sender: int = 2,
    sender_directory: Uuid | None = None,
    to: int = ME,
    to_directory: Uuid | None = None,
    cluster_id: str | None = CLUSTER_ID,
    topic: str = TOPIC,
    partition: int = 0,
    copies: int = 1,
) -> VoteRequest:
    """Ask for a vote by a log that ends with ``last``: epoch and end offset."""
    has_keys = version >= 1
    own = directory_id(sender) if sender_directory is None else sender_directory
    theirs = directory_id(to) if to_directory is None else to_directory
    data = VoteRequest.PartitionData(
        partition_index=partition,
        replica_epoch=epoch,
        replica_id=sender,
        replica_directory_id=own if has_keys else ZERO_UUID,
        voter_directory_id=theirs if has_keys else ZERO_UUID,
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=pre,
    )
    return VoteRequest(
        cluster_id=cluster_id,
        voter_id=to if has_keys else NONE,
        topics=_topics(VoteRequest.TopicData, data, topic, copies),
    )


def begin_epoch(
    version: int,
    epoch: int,
    *,
    leader: int = 2,
    to: int = ME,
    to_directory: Uuid | None = None,
    cluster_id: str | None = CLUSTER_ID,
    topic: str = TOPIC,
    partition: int = 0,
    copies: int = 1,
    listener: str | None = "CONTROLLER",
) -> BeginQuorumEpochRequest:
    """Tell that ``leader`` leads an epoch."""
    kind = BeginQuorumEpochRequest
    has_keys = version >= 1
    theirs = directory_id(to) if to_directory is None else to_directory
    data = kind.PartitionData(
        partition_index=partition,
        voter_directory_id=theirs if has_keys else ZERO_UUID,
        leader_id=leader,
        leader_epoch=epoch,
    )
    endpoints = []
    if has_keys and listener is not None and leader > 0:
        endpoints = [kind.LeaderEndpoint(name=listener, host=HOST, port=port_of(leader))]
    return kind(
        cluster_id=cluster_id,
        voter_id=to if has_keys else NONE,
        topics=_topics(kind.TopicData, data, topic, copies),
        leader_endpoints=endpoints,
    )


def end_epoch(
    version: int,
    epoch: int,
    *,
    leader: int = 2,
    preferred: tuple[int, ...] = (3, ME),
    cluster_id: str | None = CLUSTER_ID,
    topic: str = TOPIC,
    partition: int = 0,
    copies: int = 1,
) -> EndQuorumEpochRequest:
    """Tell that ``leader`` has resigned."""
    kind = EndQuorumEpochRequest
    data = kind.PartitionData(partition_index=partition, leader_id=leader, leader_epoch=epoch)
    endpoints = []
    if version >= 1:
        data.preferred_candidates = [
            kind.ReplicaInfo(candidate_id=one, candidate_directory_id=directory_id(one))
            for one in preferred
        ]
        if leader > 0:
            endpoints = [kind.LeaderEndpoint(name="CONTROLLER", host=HOST, port=port_of(leader))]
    else:
        data.preferred_successors = preferred
    return kind(
        cluster_id=cluster_id,
        topics=_topics(kind.TopicData, data, topic, copies),
        leader_endpoints=endpoints,
    )


def vote_answer(epoch: int, granted: bool, leader: int = NONE) -> VoteResponse:
    """Return the answer of another voter."""
    data = VoteResponse.PartitionData(
        partition_index=0, leader_id=leader, leader_epoch=epoch, vote_granted=granted
    )
    return VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[data])])


# ---- replication -------------------------------------------------------------------------------


def fetch(
    version: int,
    epoch: int,
    offset: int,
    *,
    last_epoch: int,
    sender: int = 2,
    sender_directory: Uuid | None = None,
    high_watermark: int | None = None,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    cluster_id: str | None = CLUSTER_ID,
    topic_id: Uuid = TOPIC_ID,
    topic: str = TOPIC,
    partition: int = 0,
    copies: int = 1,
) -> FetchRequest:
    """Fetch from ``offset``, with all before it, last of ``last_epoch``, at hand."""
    own = directory_id(sender) if sender_directory is None else sender_directory
    data = FetchRequest.FetchPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset,
        last_fetched_epoch=last_epoch if version >= 12 else NONE,  # noqa: PLR2004 # KIP-595
        partition_max_bytes=max_bytes,
    )  # fmt: skip
    if version < 9:  # noqa: PLR2004 # KIP-320
        data.current_leader_epoch = NONE
    if version >= DIRECTORY_FROM:
        data.replica_directory_id = own
    if version >= HIGH_WATERMARK_FROM and high_watermark is not None:
        data.high_watermark = high_watermark
    kind = FetchRequest.FetchTopic
    named = kind(topic_id=topic_id) if version >= IDS_FROM else kind(topic=topic)
    named.partitions = [data] * copies
    message = FetchRequest(
        max_wait_ms=max_wait_ms, max_bytes=max_bytes, topics=[named] if copies else []
    )
    if version >= 12:  # noqa: PLR2004 # KIP-595
        message.cluster_id = cluster_id
    if version >= REPLICA_STATE_FROM:
        message.replica_state = FetchRequest.ReplicaState(replica_id=sender)
    else:
        message.replica_id = sender
    return message


def fetch_answer(
    epoch: int,
    leader: int,
    high_watermark: int,
    *,
    records: bytes = b"",
    diverging: tuple[int, int] | None = None,
) -> FetchResponse:
    """Return a leader's answer: records, or the epoch and the offset where logs part, or none."""
    data = FetchResponse.PartitionData(
        partition_index=0,
        high_watermark=high_watermark,
        log_start_offset=0,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        records=records,
    )
    if diverging is not None:
        data.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=diverging[0], end_offset=diverging[1]
        )
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    endpoint = FetchResponse.NodeEndpoint(node_id=leader, host=HOST, port=port_of(leader))
    return FetchResponse(responses=[topic], node_endpoints=[endpoint])


def opening(epoch: int, leader: int, offset: int) -> bytes:
    """Return the batch that a leader of static or older voters writes first."""
    message = LeaderChangeMessage(leader_id=leader)
    return encode_control_values(
        [control_value(message)], base_offset=offset, epoch=epoch, timestamp_ms=OPENED_MS
    )


def fetch_snapshot(
    version: int,
    epoch: int,
    snapshot: tuple[int, int],
    position: int = 0,
    *,
    max_bytes: int = 1 << 20,
    sender: int = 2,
    cluster_id: str | None = CLUSTER_ID,
    topic: str = TOPIC,
    partition: int = 0,
    copies: int = 1,
) -> FetchSnapshotRequest:
    """Fetch bytes of a snapshot: end offset and epoch."""
    kind = FetchSnapshotRequest
    data = kind.PartitionSnapshot(
        partition=partition,
        current_leader_epoch=epoch,
        snapshot_id=kind.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        position=position,
        replica_directory_id=directory_id(sender) if version >= 1 else ZERO_UUID,
    )
    return kind(
        cluster_id=cluster_id,
        replica_id=sender,
        max_bytes=max_bytes,
        topics=_topics(kind.TopicSnapshot, data, topic, copies, "name"),
    )


# ---- membership, and what tools ask ------------------------------------------------------------


def describe_quorum(
    topic: str = TOPIC, partition: int = 0, copies: int = 1
) -> DescribeQuorumRequest:
    """Ask for the quorum's state."""
    kind = DescribeQuorumRequest
    data = kind.PartitionData(partition_index=partition)
    return kind(topics=_topics(kind.TopicData, data, topic, copies))


def add_voter(
    version: int,
    node_id: int = 4,
    *,
    directory: Uuid | None = None,
    listener: str | None = "CONTROLLER",
    cluster_id: str | None = CLUSTER_ID,
    ack_when_committed: bool = True,
) -> AddRaftVoterRequest:
    """Ask for a voter to be added."""
    kind = AddRaftVoterRequest
    listeners = []
    if listener is not None:
        listeners = [kind.Listener(name=listener, host=HOST, port=port_of(max(node_id, 0)))]
    return kind(
        cluster_id=cluster_id,
        timeout_ms=60_000,
        voter_id=node_id,
        voter_directory_id=directory_id(node_id) if directory is None else directory,
        listeners=listeners,
        ack_when_committed=ack_when_committed,
    )


def remove_voter(
    node_id: int = 3, *, directory: Uuid | None = None, cluster_id: str | None = CLUSTER_ID
) -> RemoveRaftVoterRequest:
    """Ask for a voter to be removed."""
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id,
        voter_id=node_id,
        voter_directory_id=directory_id(node_id) if directory is None else directory,
    )


def update_voter(
    epoch: int,
    node_id: int = 3,
    *,
    directory: Uuid | None = None,
    listener: str | None = "CONTROLLER",
    port: int | None = None,
    versions: tuple[int, int] = (0, 1),
    cluster_id: str | None = CLUSTER_ID,
) -> UpdateRaftVoterRequest:
    """Tell where a voter is, and which kraft.versions it speaks."""
    kind = UpdateRaftVoterRequest
    where = port_of(max(node_id, 0)) if port is None else port
    return kind(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=node_id,
        voter_directory_id=directory_id(node_id) if directory is None else directory,
        listeners=[] if listener is None else [kind.Listener(name=listener, host=HOST, port=where)],
        k_raft_version_feature=kind.KRaftVersionFeature(
            min_supported_version=versions[0], max_supported_version=versions[1]
        ),
    )


def update_features(
    version: int, *updates: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesRequest:
    """Ask for features to be updated: name, level and type of upgrade, which version 0 has not."""
    kind = UpdateFeaturesRequest.FeatureUpdateKey
    return UpdateFeaturesRequest(
        timeout_ms=60_000,
        feature_updates=[
            kind(feature=name, max_version_level=level, upgrade_type=upgrade_type if version else 1)
            for name, level, upgrade_type in updates
        ],
        validate_only=validate_only,
    )


def api_versions(
    version: int, cluster_id: str | None = None, node_id: int = NONE
) -> ApiVersionsRequest:
    """Ask for what the node speaks; since version 5, a node of that cluster and id (KIP-1242)."""
    if version < 3:  # noqa: PLR2004 # KIP-511
        return ApiVersionsRequest()
    return ApiVersionsRequest(
        client_software_name=CLIENT_ID,
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=node_id,
    )


def unregister_controller(node_id: int) -> UnregisterControllerRequest:
    """Ask for the registration of a controller to be forgotten."""
    return UnregisterControllerRequest(controller_id=node_id)
