"""Clients of Go and Rust behind their adapters, by Apache Kafka's own bytes."""

from __future__ import annotations

import msgspec
import pytest

from kraftspec.conformance.adapters.harness import decode_request
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner.known import KnownFailures, known_file
from kraftspec.conformance.runner.run import run
from kraftspec.fastpath import RecordBatch, encode_batch
from kraftspec.fastpath.records import Compression

pytestmark = pytest.mark.peers

# Structs in structs, uuids, nullable strings, tagged fields, a float, arrays of each.
MESSAGES = (
    "kafka/MetadataRe", "kafka/OffsetFetchRe", "kafka/CreateTopicsRe",
    "kafka/AlterClientQuotasRequest", "kafka/DescribeClusterResponse",
)  # fmt: skip
VALID = ("defaults", "populated", "empty", "null", "multi-element", "uuid", "alone")
PEERS = ("franz-go", "kafka-protocol-rs", "tansu")


def results(peer: str, *filters: str) -> Results:
    known = KnownFailures.read(known_file(peer.partition("@")[0]))
    results_ = run(find(peer).adapter(timeout_s=60), filters=filters, known=known)
    assert results_.harness_failure is msgspec.UNSET
    return results_


@pytest.mark.parametrize("peer", PEERS)
def test_values_and_bytes_are_kafkas(peer: str) -> None:
    run_results = results(peer, *MESSAGES, *(f"family:{family}" for family in VALID))
    assert run_results.failures == []
    assert run_results.counts.passed > 100 * len(MESSAGES)
    assert (run_results.adapter.name, run_results.adapter.version) == (peer, find(peer).version)


def test_kafka_go_without_nullable_strings() -> None:
    """A null string is an empty one to kafka-go; all else that is valid is Kafka's."""
    messages = ("AddPartitionsToTxnRe", "ListOffsetsRe", "DeleteTopicsRe", "EndTxnRe", "VoteRe")
    families = (f"family:{family}" for family in VALID)
    run_results = results("kafka-go", *(f"kafka/{message}" for message in messages), *families)
    assert run_results.failures == []
    assert run_results.counts.passed > 100
    assert run_results.adapter.version == find("kafka-go").version


def test_sarama_with_maps_for_arrays() -> None:
    """An array of one entry passes through sarama's maps, parallel ones too."""
    messages = ("DeleteTopicsRe", "ListGroupsRe", "MetadataResponse", "TxnOffsetCommitRe", "VoteRe")
    families = (f"family:{family}" for family in VALID)
    run_results = results("sarama", *(f"kafka/{message}" for message in messages), *families)
    assert [failure for failure in run_results.failures if not failure.known] == []
    assert run_results.counts.passed > 100
    assert run_results.adapter.version == find("sarama").version


def test_ks_2026_20() -> None:
    count = 5_000
    batch = encode_batch(
        [b'{"status":"ok"}'] * count, timestamps=1_700_000_000_000, compression=Compression.ZSTD
    )
    assert len(RecordBatch.decode(batch, 2).records) == count
    with find("sarama").adapter() as adapter:
        adapter.hello()
        [reply] = adapter.run([decode_request("1", "RecordBatch", 2, bytes(batch).hex())])
    assert "insufficient data" in reply["error"]["detail"]


@pytest.mark.parametrize(
    ("peer", "tests", "expected"),
    [
        # A decoder that goes by the field of the name version, once it has read it.
        ("kafka-protocol-rs", ["kafka/LeaderChangeMessage", "family:boundaries"],
         {("decode", "refused"), ("decode", "wrong")}),
        # Memory for 2^31 - 1 elements, of which there are none.
        ("kafka-protocol-rs", ["id:4a8c58c221640f9d"], {("decode", "crash")}),
        # KS-2026-01.
        ("franz-go", ["id:878dc67273b3ae87"], {("decode", "crash")}),
        # An array that must not be null, and is.
        ("franz-go", ["id:59d7f2b11ff30373"], {("decode", "accepted")}),
        # The error before the throttle time; a section of tagged fields too many.
        ("kafka-go", ["kafka/HeartbeatResponse", "version:1-4", "family:populated"],
         {("decode", "wrong"), ("encode", "wrong")}),
        ("kafka-go", ["kafka/DescribeAclsRequest", "version:2-3", "family:populated"],
         {("decode", "refused"), ("encode", "wrong")}),
        # KS-2026-15.
        ("kafka-go", ["kafka/CreateAclsRequest", "version:3", "family:length_exceeds_input"],
         {("decode", "crash")}),
        # Null records; the end of a response; an empty array for null.
        ("sarama", ["id:3aa20400505ca46d"], {("decode", "refused")}),
        ("sarama", ["id:98c4fb446c88e599"], {("encode", "wrong")}),
        ("sarama", ["kafka/MetadataRequest", "version:1", "family:defaults"],
         {("encode", "wrong"), ("decode", "wrong")}),
        # Null records; a struct that may be null, and is not.
        ("tansu", ["id:4bc5c65ad36ecca0"], {("decode", "refused"), ("encode", "wrong")}),
        ("tansu", ["id:4c84c4ea2db65f17"], {("encode", "wrong")}),
    ],
)  # fmt: skip
def test_what_a_peer_fails(peer: str, tests: list[str], expected: set[tuple[str, str]]) -> None:
    run_results = results(peer, *tests)
    assert {(failure.direction, failure.kind) for failure in run_results.failures} == expected
    assert [failure for failure in run_results.failures if not failure.known] == []


@pytest.mark.parametrize("release", ["franz-go@1.14.0", "kafka-protocol-rs@0.17.0"])
def test_another_release_answers(release: str) -> None:
    run_results = results(release, "kafka/VoteRe", "family:populated")
    assert (run_results.failures, run_results.counts.passed > 0) == ([], True)
    assert run_results.adapter.version == release.partition("@")[2]
