"""Clients of Go and Rust behind their adapters, by Apache Kafka's own bytes."""

from __future__ import annotations

import msgspec
import pytest

from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.registry import find
from kraftspec.conformance.run import run

pytestmark = pytest.mark.peers

# Structs in structs, uuids, nullable strings, tagged fields, a float, arrays of each.
MESSAGES = (
    "kafka/MetadataRe", "kafka/OffsetFetchRe", "kafka/CreateTopicsRe",
    "kafka/AlterClientQuotasRequest", "kafka/DescribeClusterResponse",
)  # fmt: skip
VALID = ("defaults", "populated", "empty", "null", "multi-element", "uuid", "alone")


def results(peer: str, *messages: str) -> Results:
    filters = [*messages, *(f"family:{family}" for family in VALID)]
    found = run(find(peer).adapter(), filters=filters)
    assert found.harness_failure is msgspec.UNSET
    return found


@pytest.mark.parametrize("peer", ["franz-go", "kafka-protocol-rs"])
def test_values_and_bytes_are_kafkas(peer: str) -> None:
    found = results(peer, *MESSAGES)
    assert found.failures == []
    assert found.counts.passed > 100 * len(MESSAGES)
    assert (found.adapter.name, found.adapter.version) == (peer, find(peer).version)


def test_a_hidden_version_is_found() -> None:
    """Its decoder goes by the field of that name, once it has read it."""
    found = results("kafka-protocol-rs", "kafka/LeaderChangeMessage")
    assert {failure.direction for failure in found.failures} == {"decode"}
    assert found.counts.passed > 0


def test_a_decode_without_end_ends_the_adapter() -> None:
    """One count of tagged fields, 2^31 of them, and nothing after it."""
    adapter = find("franz-go").adapter(timeout_s=60)
    found = run(adapter, filters=["id:878dc67273b3ae87"])
    assert [failure.kind for failure in found.failures] == ["crash"]
