"""Answers with an error, for every API at every version that has a place for one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.proxy.peers import APIS
from tests.proxy.samples import filled

from kraftspec.conformance.cluster import class_path
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    FetchRequest,
    MetadataRequest,
)
from kraftspec.proxy.error_answers import Level, error_answer, level_of, mark
from kraftspec.proxy.frame import Api

CODE = 42
# Kafka answers these at both levels, for clients that look at one of them. A rule says which.
BOTH = {
    "Fetch", "Metadata", "ElectLeaders", "AlterPartitionReassignments",
    "DescribeUserScramCredentials",
}  # fmt: skip
# The results of these versions are directories, which the request does not name.
WITHOUT = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
VERSIONS = [(api, version) for api in APIS.values() for version in api.request.VALID_VERSIONS]
PAIRS = [pytest.param(api, version, id=f"{api.name}-{version}") for api, version in VERSIONS]


def codes(value: Any) -> Iterator[tuple[str, int]]:
    """Yield the error codes of a message in JSON with their paths, by their names alone."""
    if isinstance(value, dict):
        for name, field in value.items():
            if name.lower().endswith("errorcode") and isinstance(field, int):
                yield name, field
            else:
                yield from ((f"{name}.{path}", code) for path, code in codes(field))
    elif isinstance(value, list):
        for item in value:
            yield from codes(item)


def spec_has_code(api: Api, version: int) -> bool:
    return any(True for _ in codes(filled(api.response, version).to_json(version)))


@pytest.mark.parametrize("level", ["top", "items"])
@pytest.mark.parametrize(("api", "version"), PAIRS)
def test_the_answer_holds_the_code(api: Api, version: int, level: Level) -> None:
    request = filled(api.request, version)
    answer = error_answer(request, api.response, version, CODE, level)
    assert spec_has_code(api, version)
    if (api.name, version) in WITHOUT:
        assert answer is None
        return
    assert answer is not None
    decoded = api.response.decode(answer.encode(version), version)
    assert decoded == answer
    pairs = list(codes(decoded.to_json(version)))
    placed = {path for path, code in pairs if code == CODE}
    assert placed
    assert {code for _, code in pairs} <= {0, CODE}
    depths = {path.count(".") for path in placed}
    assert len(depths) == 1
    deepest = max(path.count(".") for path, _ in pairs)
    assert level == "top" or depths == {deepest}


@pytest.mark.parametrize(("api", "version"), PAIRS)
def test_a_response_is_marked_in_the_same_places(api: Api, version: int) -> None:
    response = filled(api.response, version)
    for level in ("top", "items"):
        assert mark(response, version, CODE, level)
        placed = {path for path, code in codes(response.to_json(version)) if code == CODE}
        assert placed


def test_each_element_of_the_request_is_answered_once() -> None:
    """Whoever asked finds all that it asked about, whatever the two messages call it."""
    expected = {
        "AlterReplicaLogDirs": 8, "WriteTxnMarkers": 8, "AddPartitionsToTxn": 8, "OffsetFetch": 8,
        "ElectLeaders": 4, "DeleteTopics": 2, "FindCoordinator": 2, "DescribeGroups": 2,
        "CreateAcls": 2, "DeleteAcls": 2, "AlterUserScramCredentials": 4, "DescribeConfigs": 2,
    }  # fmt: skip
    counts = {}
    for name in expected:
        api = APIS[name]
        version = api.request.VALID_VERSIONS[-1]
        request = filled(api.request, version)
        answer = error_answer(request, api.response, version, CODE, "items")
        assert answer is not None
        counts[name] = sum(code == CODE for _, code in codes(answer.to_json(version)))
    assert counts == expected


def test_results_say_what_they_are_about() -> None:
    entity = AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="anna")
    quotas = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=[entity])])
    answer: Any = error_answer(quotas, APIS["AlterClientQuotas"].response, 1, CODE)
    (entry,) = answer.entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [("user", "anna")]
    gone = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="gone")
    new = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(name="new")
    scram = AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[new])
    answer = error_answer(scram, APIS["AlterUserScramCredentials"].response, 0, CODE)
    assert [result.user for result in answer.results] == ["gone", "new"]


def test_where_an_error_belongs() -> None:
    assert level_of(ErrorCode.NOT_LEADER_OR_FOLLOWER) == "items"
    assert level_of(ErrorCode.FETCH_SESSION_ID_NOT_FOUND) == "top"
    assert level_of(ErrorCode.NOT_COORDINATOR) == "top"


def test_an_item_error_of_nothing_goes_to_the_top() -> None:
    """An incremental fetch may name no partitions."""
    fetch = APIS["Fetch"].response
    answer: Any = error_answer(FetchRequest(), fetch, 12, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answer.error_code == 6
    assert error_answer(FetchRequest(), fetch, 6, ErrorCode.NOT_LEADER_OR_FOLLOWER) is None
    metadata = APIS["Metadata"].response
    assert error_answer(MetadataRequest(topics=None), metadata, 12, CODE) is None
    answer = error_answer(MetadataRequest(topics=None), metadata, 13, CODE)
    assert answer.error_code == CODE


def places(message: Any, version: int) -> list[str]:
    return sorted(path for path, code in codes(message.to_json(version)) if code == CODE)


@pytest.mark.kafka
def test_kafka_answers_in_the_same_places(tmp_path: Path) -> None:
    """For each API and version, by ``getErrorResponse`` of Kafka's own request classes."""
    requests = [filled(api.request, version) for api, version in VERSIONS]
    lines = [
        f"{api.key} {version} {CODE} {request.encode(version).hex()}\n"
        for (api, version), request in zip(VERSIONS, requests, strict=True)
    ]
    (tmp_path / "requests").write_text("".join(lines))
    oracle = Path(__file__).with_name("ErrorOracle.java")
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
         "-cp", os.pathsep.join(map(str, class_path())), str(oracle), str(tmp_path / "requests")],
        capture_output=True, text=True, timeout=500, check=True,
    )  # fmt: skip
    both = set()
    for (api, version), request, line in zip(
        VERSIONS, requests, done.stdout.splitlines(), strict=True
    ):
        assert not line.startswith("!"), f"{api.name} {version}: {line}"
        theirs = places(api.response.decode(bytes.fromhex(line), version), version)
        levels: tuple[Level, Level] = ("top", "items")
        answers = [error_answer(request, api.response, version, CODE, one) for one in levels]
        ours = [places(answer, version) if answer else [] for answer in answers]
        if theirs == sorted(ours[0] + ours[1]) and theirs not in ours:
            both.add(api.name)
        else:
            assert theirs in ours, f"{api.name} {version}"
        assert bool(theirs) is ((api.name, version) not in WITHOUT)
    assert both == BOTH
