"""The live suite: its scenario files, a target that is wrong, our node, and Kafka's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from kraftspec.conformance.live.messages import MessageError, evaluate, resolve
from kraftspec.conformance.live.run import Result, run_scenario
from kraftspec.conformance.live.scenario_files import (
    own_files,
    parse_scenarios,
    read_roles,
    read_scenarios,
    schema_text,
)
from kraftspec.conformance.live.target import BUILT_IN
from kraftspec.yaml_files import YamlFileError

WRONG = [sys.executable, str(Path(__file__).with_name("wrong_target.py"))]
SCENARIOS = {one.name: one for one in read_scenarios(own_files())}


def play(name: str, command: list[str]) -> Result:
    scenario = SCENARIOS[name]
    return run_scenario(scenario, command, read_roles()[scenario.given.role])


def test_names_differ() -> None:
    assert len(SCENARIOS) == len(read_scenarios(own_files())) >= 25


def test_the_schema_takes_the_scenarios() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    for path in own_files():
        validator.validate(YAML(typ="safe", pure=True).load(path.read_text()))


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("- when: {send: {api: Vot}}", "8:30: there is no API 'Vot'; did you mean Vote?"),
        ("- when: {sent: {api: Vote}}", "8:18: there is no field 'sent'; did you mean send?"),
        (
            "- when: {send: {api: Vote, fields: {replicaEpok: 1}}}",
            "8:58: VoteRequest has no field 'replicaEpok'; did you mean replicaEpoch?",
        ),
    ],
)
def test_a_mistake_has_its_place(line: str, place: str) -> None:
    text = f"""
scenarios:
  - name: one
    about: Something happens.
    steps:
      - when: {{restart: {{by: kill}}}}
        then: [{{must: {{request: {{api: Vote}}}}, cites: KIP-595}}]
        {line.replace("- when", "# ")}
"""
    text = text.replace("        # ", "      - when", 1)
    with pytest.raises(YamlFileError) as caught:
        parse_scenarios(text, "it.yaml")
    assert place.partition(": ")[2] in str(caught.value)
    assert str(caught.value).startswith("it.yaml:8:")


def test_sums() -> None:
    assert evaluate("2*election + fetch - 1", {"election": 10, "fetch": 5}) == 24
    for text in ("", "election fetch", "never", "2*"):
        with pytest.raises(MessageError):
            evaluate(text, {"election": 1, "fetch": 1})


def test_the_beginning_of_a_path_may_be_left_out() -> None:
    assert resolve("Vote", "request", "preVote") == "topics.partitions.preVote"
    assert resolve("Vote", "response", "errorCode") == "errorCode"
    assert resolve("Fetch", "response", "partitions.errorCode") == "responses.partitions.errorCode"


def test_a_wrong_node_fails() -> None:
    result = play("vote-survives-kill", WRONG)
    assert result.failed
    assert [problem.detail for problem in result.problems] == ["voteGranted is True, not False"]
    text = "\n".join(result.transcript.lines())
    assert "3 → node  Vote v2 request" in text
    assert '"voteGranted": true' in text
    assert result.to_json()["exchange"]


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_our_node_passes(name: str) -> None:
    result = play(name, BUILT_IN["kraftspec"])
    assert result.problems == [], "\n".join(result.transcript.lines())


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_kafka_passes(name: str) -> None:
    result = play(name, BUILT_IN["kafka"])
    assert result.problems == [], "\n".join(result.transcript.lines())
