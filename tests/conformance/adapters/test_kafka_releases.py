"""Kafka's own classes of other releases: the vectors that concern them, and their headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET

from kraftspec.codegen.diff import load_side
from kraftspec.codegen.headers import api_headers
from kraftspec.codegen.model import Message
from kraftspec.codegen.releases import release_specs
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner.known import known_failures
from kraftspec.conformance.runner.run import run
from kraftspec.conformance.vectors import read_vectors, vectors_root

pytestmark = [pytest.mark.kafka, pytest.mark.soak]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "conformance.md"
ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (\d+) % \|", re.MULTILINE)
PERCENT = {release: int(part) for release, part in ROW.findall(PAGE.read_text("utf-8"))}


@pytest.fixture(scope="module", params=PERCENT)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def specs(release: str) -> dict[str, Message]:
    return load_side(str(release_specs(release)))


@pytest.fixture(scope="module")
def kafka(release: str) -> Iterator[KafkaAdapter]:
    adapter = find(f"kafka@{release}").adapter()
    assert isinstance(adapter, KafkaAdapter)
    with adapter:
        yield adapter


@pytest.fixture(scope="module")
def results(release: str) -> Results:
    name = f"kafka@{release}"
    return run(find(name).adapter(), filters=["set:kafka"], known=known_failures(name))


def test_its_messages_are_those_of_its_schemas(
    release: str, kafka: KafkaAdapter, specs: dict[str, Message]
) -> None:
    hello = kafka.hello()
    assert hello.version == release
    assert hello.messages.pop("RecordBatch") == "2-2"  # It has no schema.
    ranges = {
        name: "none"
        if message.valid_versions.empty
        else f"{message.valid_versions.lowest}-{message.valid_versions.highest}"
        for name, message in specs.items()
    }
    assert hello.messages == ranges


def test_its_headers_follow_the_rule(kafka: KafkaAdapter, specs: dict[str, Message]) -> None:
    rows = [
        (api.key, version, *headers)
        for api in api_headers(specs.values())
        for version, headers in api.versions.items()
    ]
    answered = kafka.header_versions()
    assert rows == sorted((row.id, row.version, row.request, row.response) for row in answered)


def test_what_concerns_it_passes(release: str, results: Results) -> None:
    counts = results.counts
    assert [failure for failure in results.failures if not failure.known] == []
    assert (counts.failed, counts.unexpected_passes, results.harness_failure) == (0, 0, UNSET)
    reasons = [skip.reason for skip in results.skips]
    assert [reason for reason in reasons if f"not of Kafka {release}: " not in reason] == []
    concerns = counts.passed + counts.known_failures
    percent = 100 * concerns / (concerns + counts.skipped)
    assert percent == pytest.approx(PERCENT[release], abs=1), "docs/conformance.md"


def test_what_fails_in_it_is_what_kafka_has_changed(results: Results) -> None:
    """The vectors tell in the newest classes' own words why these refuse the bytes."""
    failed = {(failure.message, failure.id) for failure in results.failures}
    verdicts = {
        test.kafka.detail
        for _, file in read_vectors(vectors_root(), "kafka/")
        for test in file.tests
        if (file.message, test.id) in failed and test.kafka is not UNSET
    }
    assert verdicts == {
        "java.lang.RuntimeException: Invalid negative number of tagged fields -2147483648"
    }
