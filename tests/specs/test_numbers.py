"""Error codes, API keys and control record types: Kafka's own, and the drafts' apart from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple

from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.specs import specs_root

INT16_MAX = 0x7FFF
SETS = ("kip-595", "kip-853", "kip-996")


def table(name: str) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = json.loads(
        (specs_root() / f"{name}.json").read_text("utf-8")
    )
    return rows


def specs(folder: str) -> list[dict[str, Any]]:
    paths: list[Path] = sorted((specs_root() / folder).rglob("*.json"))
    return [json.loads(path.read_text("utf-8")) for path in paths]


ERRORS = table("errors")
API_KEYS = table("api-keys")
CONTROL_RECORDS = table("control-records")


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.mark.kafka
def test_errors_are_kafkas(kafka: KafkaAdapter) -> None:
    assert [(row["code"], row["name"], row["retriable"]) for row in ERRORS["errors"]] == [
        astuple(row) for row in kafka.errors()
    ]


@pytest.mark.kafka
def test_api_keys_are_kafkas(kafka: KafkaAdapter) -> None:
    assert [(row["key"], row["name"], row["message"]) for row in API_KEYS["apiKeys"]] == [
        astuple(row) for row in kafka.api_keys()
    ]


def test_well_known_numbers() -> None:
    """A few that any Kafka developer knows by heart."""
    codes = {row["name"]: row["code"] for row in ERRORS["errors"]}
    known = {"UNKNOWN_SERVER_ERROR": -1, "NONE": 0, "INVALID_REQUEST": 42}
    known |= {"FENCED_LEADER_EPOCH": 74, "INCONSISTENT_CLUSTER_ID": 104, "VOTER_NOT_FOUND": 127}
    assert {name: codes[name] for name in known} == known
    keys = {row["name"]: row["key"] for row in API_KEYS["apiKeys"]}
    known = {"PRODUCE": 0, "FETCH": 1, "API_VERSIONS": 18, "VOTE": 52, "ADD_RAFT_VOTER": 80}
    assert {name: keys[name] for name in known} == known
    types = [row["name"] for row in CONTROL_RECORDS["controlRecords"]]
    assert types == [
        "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION",
        "KRAFT_VOTERS",
    ]  # fmt: skip
    assert [row["type"] for row in CONTROL_RECORDS["controlRecords"]] == list(range(7))


@pytest.mark.parametrize(
    ("rows", "number"), [(ERRORS, "code"), (API_KEYS, "key")], ids=["errors", "api-keys"]
)
def test_numbers_and_names_are_unique(rows: dict[str, list[dict[str, Any]]], number: str) -> None:
    kafka, private = rows.values()
    everywhere = [row[number] for row in (*kafka, *private)]
    assert everywhere == sorted(set(everywhere))
    assert max(everywhere) <= INT16_MAX
    assert len({row["name"] for row in kafka}) == len(kafka)
    assert len({(row["set"], row["name"]) for row in private}) == len(private)
    assert all(re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", row["name"]) for row in (*kafka, *private))
    assert {row["set"] for row in private} <= set(SETS)


def test_requests_and_responses_have_the_key_of_their_name() -> None:
    names = {row["key"]: row["message"] for row in API_KEYS["apiKeys"]}
    rpcs = [spec for spec in specs("kafka/clients") if spec["type"] in ("request", "response")]
    assert len(rpcs) == 2 * len(names)
    for spec in rpcs:
        assert spec["name"] == names[spec["apiKey"]] + spec["type"].capitalize()


@pytest.mark.parametrize("folder", SETS)
def test_drafts_use_their_private_keys_and_kafkas_else(folder: str) -> None:
    private = {row["message"]: row["key"] for row in API_KEYS["private"] if row["set"] == folder}
    shared = {row["message"]: row["key"] for row in API_KEYS["apiKeys"]}
    used = set()
    for spec in specs(folder):
        if spec["type"] in ("request", "response"):
            name = spec["name"].removesuffix(spec["type"].capitalize())
            used.add(name)
            assert spec["apiKey"] == private.get(name, shared.get(name)), spec["name"]
    assert private.keys() <= used


def test_control_records_are_messages_of_their_set() -> None:
    kafka = {spec["name"]: spec["type"] for spec in specs("kafka/clients")}
    assert {kafka[row["message"]] for row in CONTROL_RECORDS["controlRecords"]} == {"data"}
    taken = set()
    for row in CONTROL_RECORDS["private"]:
        types = {spec["name"]: spec["type"] for spec in specs(row["set"])}
        assert types[row["message"]] == "data"
        taken.add((row["set"], row["type"]))
    assert len(taken) == len(CONTROL_RECORDS["private"])
