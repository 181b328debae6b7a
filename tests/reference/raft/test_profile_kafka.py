"""The translator of profile kafka, against frames that Apache Kafka 4.3.1's own nodes exchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reference.raft.network import CLUSTER, LISTENER, directory, voter

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    FetchRequest,
    FetchSnapshotRequest,
    LeaderChangeMessage,
    VoteRequest,
    VotersRecord,
)
from kraftspec.reference.profiles.common.translation import TOPIC, TOPIC_ID, Translation
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.types import ReplicaKey, VersionRange
from kraftspec.reference.raft.voters import VoterSet

CAPTURED = Path(__file__).resolve().parents[3] / "conformance" / "vectors" / "captured"
PROFILE = KafkaProfile(LISTENER)
CRC, LAST_OFFSET_DELTA = slice(17, 21), slice(23, 27)  # Where they stand in a batch.
APIS = {api.name: PROFILE._by_key[key] for key, api in PROFILE.apis.items()}
MESSAGE_IN_DESCRIBE_QUORUM = 2  # The first version that has an error message.
QUORUM_ONLY = sorted(set(APIS) - {"ApiVersions"})  # In that one each node names its own software.


def frames(name: str, kind: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = json.loads((CAPTURED / f"{name}{kind}.json").read_text("utf-8"))[
        "tests"
    ]
    assert tests
    return tests


def is_about_the_quorum(value: dict[str, Any]) -> bool:
    """Whether a message is about the metadata log, by its value as Kafka's own classes see it."""
    topics = value.get("topics", value.get("responses"))
    if topics is None:
        return True
    names = [
        topic.get("topicName", topic.get("name", topic.get("topicId", topic.get("topic"))))
        for topic in topics
    ]
    return names in ([TOPIC], [str(TOPIC_ID)])


# ---- frames of real nodes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", QUORUM_ONLY)
def test_real_requests_become_the_same_bytes_again(name: str) -> None:
    translation = APIS[name]
    same = 0
    for frame in frames(name, "Request"):
        version, body = frame["version"], bytes.fromhex(frame["hex"])
        request = PROFILE.decode_request(translation.api.key, version, body)
        if is_about_the_quorum(frame["value"]):
            assert not request.refused, frame["id"]
            assert PROFILE.encode_request(request, version).hex() == frame["hex"], frame["id"]
            same += 1
        else:
            assert request.refused, frame["id"]
    assert same >= 2


@pytest.mark.parametrize("name", QUORUM_ONLY)
def test_real_responses_become_the_same_bytes_again(name: str) -> None:
    """What a response says of its request (another topic, say) is not in it, and left out here."""
    example = next(request for request, _ in MESSAGES if type(request) is APIS[name].asks)
    same = 0
    for frame in frames(name, "Response"):
        version, body = frame["version"], bytes.fromhex(frame["hex"])
        reply = PROFILE.decode_reply(example, version, body)
        if reply.top_error == -1:
            assert not is_about_the_quorum(frame["value"]), frame["id"]
            continue
        if isinstance(reply, ms.FetchReply):
            reply.records = b"".join(bytes(batch.data) for batch in reply.batches)
        encoded = PROFILE.encode_reply(example, reply, version, LISTENER).hex()
        if name == "DescribeQuorum" and reply.error and version >= MESSAGE_IN_DESCRIBE_QUORUM:
            continue  # It has a text for people, and ours is another.
        assert encoded == frame["hex"], frame["id"]
        same += 1
    assert same >= 2


@pytest.mark.parametrize("kind", ["Request", "Response"])
def test_real_api_versions_are_read(kind: str) -> None:
    """Kafka's controllers offer kraft.version 0 to 1; before version 4 they cannot say so."""
    for frame in frames("ApiVersions", kind):
        version, body = frame["version"], bytes.fromhex(frame["hex"])
        if kind == "Request":
            request = PROFILE.decode_request(18, version, body)
            # One of the clients leaves its software's name empty, which no version 3 may.
            named = version < 3 or frame["value"]["clientSoftwareName"]
            assert request == ms.ApiVersions(refused=0 if named else ErrorCode.INVALID_REQUEST)
            continue
        reply = PROFILE.decode_reply(ms.ApiVersions(), version, body)
        assert isinstance(reply, ms.ApiVersionsReply)
        features = [f["name"] for f in frame["value"].get("supportedFeatures", [])]
        expected = VersionRange(0, 1) if "kraft.version" in features else None
        assert reply.kraft_versions == expected


# ---- what is not about this log ----------------------------------------------------------------


def vote_topics(*topics: tuple[str, list[int]]) -> bytes:
    message = VoteRequest(
        cluster_id="c",
        topics=[
            VoteRequest.TopicData(
                topic_name=name,
                partitions=[VoteRequest.PartitionData(partition_index=i) for i in partitions],
            )
            for name, partitions in topics
        ],
    )
    return message.encode(2)


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [("other", [0])],
        [(TOPIC, [])],
        [(TOPIC, [1])],
        [(TOPIC, [0, 0])],
        [(TOPIC, [0]), ("other", [0])],
    ],
)
def test_another_topic_or_partition_is_marked(topics: list[tuple[str, list[int]]]) -> None:
    request = PROFILE.decode_request(52, 2, vote_topics(*topics))
    assert (request.refused, request.cluster_id) == (42, "c")


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_fetch_that_names_the_topic_is_not_about_this_log(version: int) -> None:
    """Only the topic id counts, which version 13 brought."""
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[FetchRequest.FetchPartition()])
    body = FetchRequest(topics=[topic], replica_id=2).encode(version)
    assert PROFILE.decode_request(1, version, body).refused == 42


def test_a_snapshot_of_another_topic_is_answered_with_its_name() -> None:
    kind = FetchSnapshotRequest
    topic = kind.TopicSnapshot(name="other", partitions=[kind.PartitionSnapshot(partition=7)])
    request = PROFILE.decode_request(59, 1, kind(topics=[topic]).encode(1))
    assert request.refused == 3
    body = PROFILE.encode_reply(
        request, ms.FetchSnapshotReply(error=3, leader_id=2, leader_epoch=5), 1, LISTENER
    )
    answer: Any = APIS["FetchSnapshot"].api.response.decode(body, 1)
    (topic,) = answer.topics
    assert (topic.name, topic.partitions[0].index, topic.partitions[0].error_code) == (
        "other",
        7,
        3,
    )


def test_bytes_that_are_no_request_are_an_error() -> None:
    for key in PROFILE.apis:
        if key != 18:
            with pytest.raises(CodecError):
                PROFILE.decode_request(key, PROFILE.apis[key].max_version, b"\x01")


# ---- every version -----------------------------------------------------------------------------

KEY = {"replica_id": 2, "replica_directory_id": directory(2)}
ENDPOINTS = voter(3).endpoints

MESSAGES: list[tuple[ms.Request, ms.Reply]] = [
    (
        ms.Vote(
            cluster_id=CLUSTER,
            epoch=5,
            replica_id=2,
            replica_directory_id=directory(2),
            voter_id=3,
            voter_directory_id=directory(3),
            last_epoch=4,
            end_offset=9,
        ),
        ms.VoteReply(leader_id=3, leader_epoch=5, leader_endpoints=ENDPOINTS, vote_granted=True),
    ),
    (
        ms.BeginEpoch(
            cluster_id=CLUSTER,
            leader_id=2,
            leader_epoch=5,
            voter_id=3,
            voter_directory_id=directory(3),
            leader_endpoints=ENDPOINTS,
        ),
        ms.BeginEpochReply(leader_id=3, leader_epoch=5, leader_endpoints=ENDPOINTS),
    ),
    (
        ms.EndEpoch(
            cluster_id=CLUSTER,
            leader_id=2,
            leader_epoch=5,
            preferred_successors=(ReplicaKey(3, directory(3)), ReplicaKey(1, directory(1))),
        ),
        ms.EndEpochReply(error=74, leader_id=3, leader_epoch=5, leader_endpoints=ENDPOINTS),
    ),
    (
        ms.Fetch(
            cluster_id=CLUSTER,
            replica_id=2,
            replica_directory_id=directory(2),
            leader_epoch=5,
            fetch_offset=10,
            last_fetched_epoch=4,
            high_watermark=8,
            max_wait_us=500_000,
            max_bytes=1000,
        ),
        ms.FetchReply(
            leader_id=3,
            leader_epoch=5,
            leader_endpoints=ENDPOINTS,
            high_watermark=9,
            log_start_offset=1,
            diverging_epoch=3,
            diverging_end_offset=7,
        ),
    ),
    (
        ms.FetchSnapshot(
            cluster_id=CLUSTER,
            replica_id=2,
            replica_directory_id=directory(2),
            leader_epoch=5,
            snapshot_end_offset=7,
            snapshot_epoch=3,
            position=12,
            max_bytes=100,
        ),
        ms.FetchSnapshotReply(
            leader_id=3,
            leader_epoch=5,
            leader_endpoints=ENDPOINTS,
            snapshot_end_offset=7,
            snapshot_epoch=3,
            size=100,
            position=12,
            data=b"some bytes",
        ),
    ),
    (
        ms.AddVoter(
            cluster_id=CLUSTER,
            voter_id=4,
            voter_directory_id=directory(4),
            endpoints=ENDPOINTS,
            timeout_us=2_000_000,
        ),
        ms.AddVoterReply(error=126, message="no"),
    ),
    (
        ms.RemoveVoter(cluster_id=CLUSTER, voter_id=4, voter_directory_id=directory(4)),
        ms.RemoveVoterReply(error=127, message="no"),
    ),
    (
        ms.UpdateVoter(
            cluster_id=CLUSTER,
            leader_epoch=5,
            voter_id=4,
            voter_directory_id=directory(4),
            endpoints=ENDPOINTS,
            kraft_versions=VersionRange(0, 1),
        ),
        ms.UpdateVoterReply(leader_id=3, leader_epoch=5, leader_endpoints=ENDPOINTS),
    ),
    (
        ms.DescribeQuorum(),
        ms.DescribeQuorumReply(
            leader_id=3,
            leader_epoch=5,
            high_watermark=9,
            voters=(ms.ReplicaDescription(ReplicaKey(3, directory(3)), 9, 100, 90, ENDPOINTS),),
            observers=(ms.ReplicaDescription(ReplicaKey(4, directory(4)), 8, 100, 80),),
        ),
    ),
    (
        ms.ApiVersions(),
        ms.ApiVersionsReply(kraft_versions=VersionRange(0, 1)),
    ),
]

# (message, field) → the first version that carries it
SINCE = {
    ("Vote", "voter_id"): 1,
    ("Vote", "voter_directory_id"): 1,
    ("Vote", "replica_directory_id"): 1,
    ("BeginEpoch", "voter_id"): 1,
    ("BeginEpoch", "voter_directory_id"): 1,
    ("BeginEpoch", "leader_endpoints"): 1,
    ("Fetch", "replica_directory_id"): 17,
    ("Fetch", "high_watermark"): 18,
    ("FetchSnapshot", "replica_directory_id"): 1,
    ("VoteReply", "leader_endpoints"): 1,
    ("BeginEpochReply", "leader_endpoints"): 1,
    ("EndEpochReply", "leader_endpoints"): 1,
    ("FetchReply", "leader_endpoints"): 17,
    ("FetchSnapshotReply", "leader_endpoints"): 1,
    ("ApiVersionsReply", "kraft_versions"): 4,
}


def cases() -> list[tuple[Translation, int, ms.Request, ms.Reply]]:
    examples = []
    for request, reply in MESSAGES:
        api = PROFILE.api_of(request)
        for version in range(PROFILE.min_version(request), api.max_version + 1):
            examples.append((APIS[api.name], version, request, reply))
    return examples


def fields(message: Any, version: int) -> dict[str, Any]:
    name = type(message).__name__
    return {
        field: getattr(message, field)
        for field in message.__struct_fields__
        if version >= SINCE.get((name, field), 0)
    }


@pytest.mark.parametrize(
    ("translation", "version", "request_", "reply"),
    cases(),
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_each_version_carries_what_it_can(
    translation: Translation, version: int, request_: ms.Request, reply: ms.Reply
) -> None:
    body = PROFILE.encode_request(request_, version)
    read = PROFILE.decode_request(translation.api.key, version, body)
    if isinstance(read, ms.EndEpoch) and version == 0:
        read.preferred_successors = tuple(
            ReplicaKey(key.id, directory(key.id)) for key in read.preferred_successors
        )
    assert fields(read, version) == fields(request_, version)
    body = PROFILE.encode_reply(request_, reply, version, LISTENER)
    answer = PROFILE.decode_reply(request_, version, body)
    if isinstance(answer, ms.DescribeQuorumReply):
        assert answer.high_watermark == 9
        assert [d.end_offset for d in answer.voters + answer.observers] == [9, 8]
        assert (answer == reply) is (version == 2)
    else:
        assert fields(answer, version) == fields(reply, version)


def test_what_needs_a_newer_version() -> None:
    vote = MESSAGES[0][0]
    assert isinstance(vote, ms.Vote)
    assert PROFILE.min_version(vote) == 0
    vote = ms.Vote(epoch=1, replica_id=1, last_epoch=0, end_offset=0, pre_vote=True)
    assert PROFILE.min_version(vote) == 2
    with pytest.raises(CodecError):
        PROFILE.encode_request(vote, 1)
    add = ms.AddVoter(voter_id=1, voter_directory_id=directory(1), ack_when_committed=False)
    assert PROFILE.min_version(add) == 1
    with pytest.raises(CodecError):
        PROFILE.encode_request(add, 0)


def test_the_leader_is_told_on_the_listener_that_was_asked() -> None:
    request, reply = MESSAGES[0]
    body = PROFILE.encode_reply(request, reply, 2, "OTHER")
    answer = PROFILE.decode_reply(request, 2, body)
    assert (answer.leader_id, answer.leader_endpoints) == (3, ())


# ---- records -----------------------------------------------------------------------------------


def test_control_records_are_kafkas() -> None:
    kind, value = PROFILE.encode_control(LeaderChange(2, (1, 2, 3), (2, 3)))
    change = LeaderChangeMessage.decode(value, 0)
    assert kind == ControlRecordType.LEADER_CHANGE
    assert (change.version, change.leader_id) == (0, 2)
    assert [v.voter_id for v in change.voters] == [1, 2, 3]
    assert [v.voter_id for v in change.granting_voters] == [2, 3]
    kind, value = PROFILE.encode_control(Voters(VoterSet([voter(1)])))
    record = VotersRecord.decode(value, 0)
    assert kind == ControlRecordType.KRAFT_VOTERS
    assert record.voters[0].voter_directory_id == directory(1)
    assert record.voters[0].k_raft_version_feature.max_supported_version == 1
    for control in (
        LeaderChange(2, (1, 2, 3), (2, 3)),
        KRaftVersion(1),
        Voters(VoterSet([voter(1), voter(2, named=False)])),
    ):
        assert PROFILE.decode_control(*PROFILE.encode_control(control)) == control
    assert PROFILE.decode_control(ControlRecordType.SNAPSHOT_HEADER, b"\0") is None
    with pytest.raises(CodecError):
        PROFILE.decode_control(ControlRecordType.KRAFT_VOTERS, b"\xff")


def test_batches_are_read_up_to_the_first_that_is_damaged_or_cut() -> None:
    parts = [
        encode_batch([b"one", b"two"], timestamps=0, base_offset=5, partition_leader_epoch=3),
        encode_batch([b"three"], timestamps=0, base_offset=7, partition_leader_epoch=4),
    ]
    data = b"".join(parts)
    batches = [(b.base_offset, b.last_offset, b.epoch, bytes(b.data)) for b in read_batches(data)]
    assert batches == [(5, 6, 3, parts[0]), (7, 7, 4, parts[1])]
    assert len(read_batches(data[:-1])) == 1
    damaged = bytearray(data)
    damaged[-1] ^= 1
    assert len(read_batches(bytes(damaged))) == 1
    damaged[70] ^= 1
    assert read_batches(bytes(damaged)) == ()
    assert read_batches(b"") == ()


def test_a_batch_that_ends_before_it_begins_is_damaged() -> None:
    good, bad = (
        bytearray(
            encode_batch([b"value"], timestamps=0, base_offset=base, partition_leader_epoch=3)
        )
        for base in (5, 6)
    )
    bad[LAST_OFFSET_DELTA] = (-1).to_bytes(4, "big", signed=True)
    bad[CRC] = crc32c(bad[CRC.stop :]).to_bytes(4, "big")
    assert [batch.last_offset for batch in read_batches(bytes(good + bad))] == [5]
    assert bytes(16) == ZERO_UUID
