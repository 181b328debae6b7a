"""Clients of Python and JavaScript behind their adapters, by Apache Kafka's own bytes."""

from __future__ import annotations

import msgspec
import pytest

from kraftspec.conformance.adapters.harness import Reply, decode_request, encode_request
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.runner.known import KnownFailures, known_file
from kraftspec.conformance.runner.run import run

pytestmark = pytest.mark.peers

PEERS = ("aiokafka", "kio", "kafka-python", "platformatic-kafka", "kafkajs")
VALID = (
    "defaults", "populated", "empty", "null", "multi-element", "uuid", "records", "alone", "counts",
)  # fmt: skip
# Structs in structs, uuids, records, tagged structs, durations and times, headers, a float.
MESSAGES = (
    "kafka/DescribeClusterResponse", "kafka/CreateTopicsRequest", "kafka/CreateDelegationToken",
    "kafka/DescribeClientQuotasResponse", "kafka/FetchRe", "kafka/ApiVersionsRe",
    "kafka/RequestHeader", "kafka/ConsumerProtocolAssignment", "kafka/DescribeQuorumResponse",
    "kafka/MetadataRe", "kafka/OffsetForLeaderEpochRe", "kafka/RecordBatch",
)  # fmt: skip


def ask(peer: str, *requests: object) -> list[Reply]:
    with find(peer).adapter() as adapter:
        adapter.hello()
        return list(adapter.run(requests))  # type: ignore[arg-type]  # Mappings, all of them.


@pytest.mark.parametrize("peer", PEERS)
def test_what_fails_has_a_reason(peer: str) -> None:
    filters = [*MESSAGES, *(f"family:{family}" for family in VALID)]
    results = run(find(peer).adapter(), filters=filters, known=KnownFailures.read(known_file(peer)))
    assert results.harness_failure is msgspec.UNSET
    assert [failure for failure in results.failures if not failure.known] == []
    assert results.unexpected_passes == []
    assert results.counts.passed > 10 * len(MESSAGES)


@pytest.mark.parametrize("peer", PEERS)
def test_it_is_the_release_that_was_asked_for(peer: str) -> None:
    with find(peer).adapter() as adapter:
        hello = adapter.hello()
    assert (hello.name, hello.version) == (peer, find(peer).version)
    assert len(hello.messages) > 50


@pytest.mark.parametrize("peer", PEERS)
def test_what_it_does_not_have(peer: str) -> None:
    version, message, other_set = ask(
        peer,
        encode_request("1", "CreateTopicsRequest", 99, {}),
        decode_request("2", "NoSuchRequest", 0, ""),
        decode_request("3", "VoteRequest", 0, "", "kip-853"),
    )
    assert version["error"]["class"] == "unsupported_version"
    assert message["error"]["class"] == "unknown_message"
    assert "Apache Kafka" in other_set["skipped"]["reason"]


@pytest.mark.parametrize(
    ("value", "error", "path"),
    [
        ({}, "missing_field", "correlationId"),
        ({"correlationId": 1, "noSuchField": 1}, "field_not_in_version", "noSuchField"),
        ({"correlationId": "1"}, "wrong_type", "correlationId"),
        ({"correlationId": None}, "null_for_non_nullable", "correlationId"),
        ([], "wrong_type", ""),
    ],
)
@pytest.mark.parametrize("peer", ["aiokafka", "kio", "kafka-python"])
def test_a_value_of_the_wrong_shape(peer: str, value: object, error: str, path: str) -> None:
    request = {"cmd": "encode", "id": "1", "message": "ResponseHeader", "version": 1}
    [reply] = ask(peer, {**request, "value": value})
    assert (reply["error"]["class"], reply["error"]["path"]) == (error, path)


UNKNOWN_TAG = "0000000701994e033b44a1"  # Correlation id 7, and tag 10009 with three bytes.
UNKNOWN = {"correlationId": 7, "_unknownTaggedFields": [{"tag": 10009, "hex": "3b44a1"}]}


def test_kio_refuses_unknown_tags() -> None:
    read, written = ask(
        "kio",
        decode_request("1", "ResponseHeader", 1, UNKNOWN_TAG),
        encode_request("2", "ResponseHeader", 1, UNKNOWN),
    )
    assert "KeyError" in read["error"]["detail"]
    assert "no place" in written["error"]["detail"]


def test_kafka_python_reads_unknown_tags_and_does_not_write_them() -> None:
    read, written = ask(
        "kafka-python",
        decode_request("1", "ResponseHeader", 1, UNKNOWN_TAG),
        encode_request("2", "ResponseHeader", 1, UNKNOWN),
    )
    assert read["value"] == UNKNOWN
    assert written["hex"] == "0000000700"


def test_aiokafka_reads_groups_of_version_3_as_version_2() -> None:
    """Each group ends with four bytes that it does not read."""
    group = f"{'00' * 14}80000000"
    one, two = ask(
        "aiokafka",
        decode_request("1", "DescribeGroupsResponse", 3, f"0000000000000001{group}"),
        decode_request("2", "DescribeGroupsResponse", 3, f"0000000000000002{group * 2}"),
    )
    assert "authorizedOperations" not in one["value"]["groups"][0]
    assert one["trailing"] == 4
    assert [read["errorCode"] for read in two["value"]["groups"]] == [0, -(1 << 15)]


def test_kio_holds_no_unknown_error_code() -> None:
    known, unknown = ask(
        "kio",
        decode_request("1", "HeartbeatResponse", 0, "0019"),
        decode_request("2", "HeartbeatResponse", 0, "7000"),
    )
    assert known["value"] == {"errorCode": 25}
    assert "28672 is not a valid ErrorCode" in unknown["error"]["detail"]


def test_times_are_carried_to_the_millisecond() -> None:
    times = {"issueTimestampMs": 1_700_000_000_123, "expiryTimestampMs": -1}
    value = {
        "errorCode": 0, "principalType": "", "principalName": "", **times,
        "maxTimestampMs": 253_402_300_799_999, "tokenId": "", "hmac": "", "throttleTimeMs": 7,
    }  # fmt: skip
    [written] = ask("kio", encode_request("1", "CreateDelegationTokenResponse", 1, value))
    assert (1_700_000_000_123).to_bytes(8).hex() in written["hex"]
    assert (253_402_300_799_999).to_bytes(8).hex() in written["hex"]


def test_the_javascript_client_has_one_direction_of_each() -> None:
    request, response = ask(
        "platformatic-kafka",
        decode_request("1", "HeartbeatRequest", 4, ""),
        encode_request("2", "HeartbeatResponse", 4, {"throttleTimeMs": 0, "errorCode": 0}),
    )
    assert "does not read requests" in request["skipped"]["reason"]
    assert "does not write responses" in response["skipped"]["reason"]


def test_kafkajs_takes_an_empty_array_for_null() -> None:
    """A caller who asks for no topics gets all of them."""
    value = {"topics": [], "allowAutoTopicCreation": True}
    empty, null = ask(
        "kafkajs",
        encode_request("1", "MetadataRequest", 4, value),
        encode_request("2", "MetadataRequest", 4, value | {"topics": None}),
    )
    assert empty["hex"] == "ffffffff01"
    assert "TypeError" in null["error"]["detail"]


def test_kafkajs_writes_the_tags_of_the_header_before_the_body() -> None:
    [reply] = ask(
        "kafkajs",
        encode_request(
            "1", "ListPartitionReassignmentsRequest", 0, {"timeoutMs": 60000, "topics": None}
        ),
    )
    assert reply["hex"] == "0000ea600000"


def test_javascript_keeps_64_bits() -> None:
    """A number of 19 digits is none of JavaScript's own."""
    value = {"transactionalId": "t", "producerId": 2**63 - 1, "producerEpoch": 1, "groupId": "g"}
    written, read = ask(
        "platformatic-kafka",
        encode_request("1", "AddOffsetsToTxnRequest", 3, value),
        decode_request("2", "InitProducerIdResponse", 4, f"{'00' * 6}80{'00' * 6}01000000"),
    )
    assert written["hex"] == f"0274{2**63 - 1:016x}0001026700"
    assert read["value"]["producerId"] == -(2**63) + 1


def test_javascript_says_what_it_cannot_write() -> None:
    """createRequest asks for no log start offset, and writes -1."""
    partition = {
        "partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1,
        "logStartOffset": 5, "partitionMaxBytes": 0,
    }  # fmt: skip
    topic = {"topicId": "A" * 22, "partitions": [partition]}
    value = {
        "maxWaitMs": 0, "minBytes": 0, "maxBytes": 2147483647, "isolationLevel": 0,
        "sessionId": 0, "sessionEpoch": -1, "topics": [topic], "forgottenTopicsData": [],
        "rackId": "",
    }  # fmt: skip
    [reply] = ask("platformatic-kafka", encode_request("1", "FetchRequest", 17, value))
    assert "logStartOffset" in reply["skipped"]["reason"]


@pytest.mark.parametrize(("release", "reads"), [("kio@0.1.0", False), ("kio@0.3.0", True)])
def test_a_release_with_a_bug_and_one_without(release: str, reads: bool) -> None:
    """Without an explicit default a tagged field was taken to be there always (kio's #216)."""
    data = f"0000000000000201020f1e3c78{'00' * 31}01000000"
    [reply] = ask(release, decode_request("1", "FetchSnapshotResponse", 0, data))
    assert ("value" in reply) == reads
    if not reads:
        assert "current_leader" in reply["error"]["detail"]
