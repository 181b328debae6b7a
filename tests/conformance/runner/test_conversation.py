"""Whole conversations between the runner and adapters: each line is of the protocol's schema."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from msgspec import to_builtins

from kraftspec.conformance.adapters.harness import Adapter
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner.run import adapter_named, run

SCHEMAS = files("kraftspec.conformance") / "schemas"
HARNESS = json.loads((SCHEMAS / "harness.schema.json").read_text())
RESULTS = json.loads((SCHEMAS / "results.schema.json").read_text())
# Requests, responses, records, drafts and batches; what must be refused is among their tests.
FILTERS = ["*/VoteRe*", "kafka/FeatureLevelRecord", "kafka/RecordBatch", "kafka/DescribeLogDirsRe*"]


def recorded(adapter: Adapter, directory: Path) -> tuple[Results, list[Any], list[Any]]:
    """Run and record the conversation; return the results, the requests and the replies."""
    requests, replies = directory / "requests", directory / "replies"
    command = shlex.join(adapter.command)
    tees = [f"tee {shlex.quote(str(path))}" for path in (requests, replies)]
    adapter.command = ["sh", "-c", f"{tees[0]} | {command} | {tees[1]}"]
    results = run(adapter, filters=FILTERS)
    lines = [
        [json.loads(line) for line in path.read_bytes().splitlines()]
        for path in (requests, replies)
    ]
    return results, lines[0], lines[1]


def check(results: Results, requests: list[Any], answered: list[Any]) -> None:
    """Hold every line to the half of the schema that it belongs to, and the results to theirs."""
    for half, lines in (("request", requests), ("reply", answered)):
        validator = jsonschema_rs.validator_for({**HARNESS, "anyOf": [{"$ref": f"#/$defs/{half}"}]})
        wrong = [line for line in lines if not validator.is_valid(line)]
        assert wrong == []
    jsonschema_rs.validator_for(RESULTS).validate(json.loads(json.dumps(to_builtins(results))))
    counts = results.counts
    assert counts.skipped == counts.failed == 0
    others = {"hello", "stop", "load"}
    cases = [line for line in requests if line["cmd"] not in others]
    assert len(cases) == counts.passed > 2000
    assert requests[0]["cmd"] == "hello"
    assert requests[-1]["cmd"] == "stop"
    # One reply a request, in order, but for stop.
    assert [line["id"] for line in answered if "hex" in line or "value" in line or "error" in line
            ] == [line["id"] for line in cases]  # fmt: skip
    assert len(answered) == len(requests) - 1
    kinds = {name for line in answered for name in ("hex", "value", "error") if name in line}
    assert kinds == {"hex", "value", "error"}


@pytest.mark.parametrize("name", ["kraftspec", "kraftspec-python"])
def test_of_ours(name: str, tmp_path: Path) -> None:
    results, requests, answered = recorded(adapter_named(name), tmp_path)
    check(results, requests, answered)
    refused = [line["error"] for line in answered if "error" in line]
    assert all({"class", "path", "detail"} <= set(error) for error in refused)
    assert any("offset" in error for error in refused)
    jsonschema_rs.validator_for(HARNESS).validate(answered[0])


@pytest.mark.kafka
def test_of_kafka(tmp_path: Path) -> None:
    adapter = adapter_named("kafka")
    assert isinstance(adapter, KafkaAdapter)
    results, requests, answered = recorded(adapter, tmp_path)
    assert [line["set"] for line in requests if line["cmd"] == "load"] == [
        "kip-595", "kip-853", "kip-996",
    ]  # fmt: skip
    check(results, requests, answered)
