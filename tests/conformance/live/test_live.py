"""The live suite: its scenario files, a target that is wrong, our node, and Kafka's."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.conformance.live.messages import (
    NAMES,
    MessageError,
    evaluate,
    recorded_batch,
    recorded_request,
    resolve,
)
from kraftspec.conformance.live.peers import Asked, LivePeers
from kraftspec.conformance.live.recorded import own_scenarios
from kraftspec.conformance.live.run import Result, run_scenario
from kraftspec.conformance.live.scenario_files import (
    own_files,
    parse_scenarios,
    problems_of,
    read_roles,
    schema_text,
)
from kraftspec.conformance.live.target import BUILT_IN, TargetError
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.report.transcript import Transcript
from kraftspec.conformance.runner.node import read_node_vectors
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.proxy.capture import FILE_HEADER
from kraftspec.reference.wire.blocking import receive_frames
from kraftspec.reference.wire.frames import FrameReader, read_correlation_id, sized
from kraftspec.simulation import live_scenarios
from kraftspec.yaml_files import YamlFileError

WRONG = [sys.executable, str(Path(__file__).with_name("wrong_target.py"))]
ALL = own_scenarios()
SCENARIOS = {one.name: one for one in ALL}


def play(name: str, command: list[str]) -> Result:
    scenario = SCENARIOS[name]
    return run_scenario(scenario, command, read_roles()[scenario.given.role])


def test_names_differ() -> None:
    assert len(SCENARIOS) == len(ALL) >= 150
    assert sum(name.startswith("recorded-") for name in SCENARIOS) >= 60


def test_scenarios_have_no_mistakes() -> None:
    for scenario in ALL:
        mistakes = [problem for step in scenario.steps for problem in problems_of(step)]
        assert mistakes == [], scenario.name


def test_recorded_answers_are_what_must_come() -> None:
    steps = SCENARIOS["recorded-voted-votes"].steps
    assert steps[2].when.send is not None  # The vote that the role is about.
    assert steps[3].then[0].must is not None
    again = next(one for one in steps[4:] if one.when.send and one.when.send.frame)
    answer = again.then[0].outcomes[0].answer
    assert answer is not None
    assert answer["topics[0].partitions[0].leaderEpoch"] == 7
    assert "topics[0].partitions[0].voteGranted" in answer


def test_ports_in_recorded_bytes_are_those_of_the_run() -> None:
    ports = {1: 21_001, 2: 21_002, 3: 21_003}
    begin = rq.frame_of(rq.begin_epoch(1, 7), 1, 5)
    changed = recorded_request(begin, ports, static=False)
    body = changed[len(changed) - len(begin.split(b"kraftspec", 1)[1]) :]
    assert (21_002).to_bytes(2, "big") in body
    assert rq.port_of(2).to_bytes(2, "big") not in body
    assert recorded_request(b"nonsense", ports, static=False) == b"nonsense"
    (vector,) = (one for one in read_node_vectors() if one.id == "voted-votes")
    batch = recorded_batch(bytes.fromhex(vector.state.log[0]), ports)
    assert (21_003).to_bytes(2, "big") in batch
    decode_batch(batch)  # Checks the CRC.


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
        (
            "- when: {send: {api: Vote, fields: {replicaEpoch: abc}}}",
            "8:58: there is no 'abc': epoch, end, last_epoch, port_1",
        ),
        (
            "- when: {send: {api: Vote, fields: {preVote: 1}}}",
            "8:58: 1 is not true or false",
        ),
        (
            "- when: {send: {api: Vote, sender: 5}}",
            "8:58: sender: invalid enum value 5; there are 2, 3, 4",
        ),
        (
            "- when: {restart: {by: reboot}}",
            "8:58: by: invalid enum value 'reboot'; there are kill, stop",
        ),
        ("- when: {restart: {at: 3}}", "8:58: there is no field 'at': by, properties"),
        (
            "- then: [{must: {no_request: {api: Vote, during: fetch - 3}}, cites: KIP-595}]",
            "8:58: 'fetch - 3' has 3 milliseconds in a sum",
        ),
        (
            "- then: [{must: {answer: {leaderEpoch: {min: x}}}, cites: KIP-595}]\n"
            "        when: {send: {api: Vote}}",
            "8:58: there is no 'x': epoch, end",
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
      {line}
"""
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


@pytest.mark.soak
def test_a_wrong_node_fails() -> None:
    result = play("vote-survives-kill", WRONG)
    assert result.failed
    assert [problem.detail for problem in result.problems] == ["voteGranted is True, not False"]
    text = "\n".join(result.transcript.lines())
    assert "│<────────│─────────│         Vote v2 request" in text
    assert result.transcript.pcap(result.ports).startswith(FILE_HEADER)
    assert '"voteGranted": true' in text
    assert result.to_json()["exchange"]


@pytest.mark.parametrize("second", ["Vote", "Fetch"])
def test_a_connection_is_answered_in_order(second: str) -> None:
    port = free_port(set())
    transcript = Transcript(rq.ME, "node")
    peers = LivePeers({2: port}, transcript, lambda _: dict.fromkeys(NAMES, 0))
    first = rq.fetch(17, 0, 0, last_epoch=0)
    later = rq.vote(2, 1, last=(0, 0)) if second == "Vote" else rq.fetch(17, 1, 0, last_epoch=0)
    try:
        with socket.create_connection((HOST, port)) as node:
            for number, message in enumerate((first, later), 1):
                version = type(message).VALID_VERSIONS[-1]
                node.sendall(sized(rq.frame_of(message, version, number)))
            came = [peers.until(numbered(number), time.monotonic() + 60) for number in (1, 2)]
            assert came[0] is not None
            assert came[1] is not None
            if second == "Vote":
                peers.reply(came[1], rq.vote_answer(1, granted=True))
                assert not any("response" in entry.title for entry in transcript.entries)
                peers.reply(came[0], rq.fetch_answer(0, 2, 0))
            else:
                peers.reply(came[1], rq.fetch_answer(1, 2, 0))
            frames = receive_frames(node, FrameReader())
            assert [read_correlation_id(next(frames)) for _ in came] == [1, 2]
            rejected = '"errorCode": 6' in "\n".join(transcript.lines())
            assert rejected == (second == "Fetch")
    finally:
        peers.close()


def test_a_leader_answers_what_came_on_another_connection_too() -> None:
    port = free_port(set())
    peers = LivePeers({2: port}, Transcript(rq.ME, "node"), lambda _: dict.fromkeys(NAMES, 0))
    fetch = rq.fetch(17, 1, 0, last_epoch=0)
    frame = sized(rq.frame_of(fetch, type(fetch).VALID_VERSIONS[-1], 1))
    address = (HOST, port)
    try:
        with socket.create_connection(address) as one, socket.create_connection(address) as other:
            for node in (one, other):
                node.sendall(frame)
            assert peers.until(lambda _: len(peers.requests) == 2 or None, time.monotonic() + 60)
            peers.stand(lambda one: not one.is_answered, lambda _: rq.fetch_answer(1, 2, 0))
            for node in (one, other):
                assert read_correlation_id(next(receive_frames(node, FrameReader()))) == 1
            one.sendall(frame)  # And what comes later.
            assert read_correlation_id(next(receive_frames(one, FrameReader()))) == 1
    finally:
        peers.close()


def numbered(number: int) -> Callable[[Asked], Asked | None]:
    return lambda request: request if request.pending.correlation_id == number else None


@pytest.mark.soak
def test_no_step_waits_for_what_never_ends() -> None:
    text = """
scenarios:
  - name: for-ever
    about: A vote is due within a time-out that nobody has shortened.
    steps:
      - when: {send: {api: Vote}}
        then: [{must: {request: {api: Vote, within: fetch}}, cites: KIP-595}]
"""
    (scenario,) = parse_scenarios(text, "it.yaml")
    with pytest.raises(TargetError, match="'fetch', a time-out that never ends here"):
        run_scenario(scenario, WRONG, read_roles()["unattached"])


# A part that is played by the tests, of every file and every way in which a node is brought into a
# role. `make live` and `make live-kafka` play all.
OURS = (
    "added-voter-is-asked-after-kill", "alone-adds-a-voter", "array-longer-than-its-frame",
    "candidate-gives-no-vote-in-its-epoch", "diverging-log-is-cut", "elected-by-peers",
    "fetched-record-survives-kill", "leader-deposed-by-vote", "observer-does-not-campaign",
    "prospective-hears-of-leader", "recorded-candidate-votes", "recorded-follower-grown-static",
    "recorded-leader-fetches", "recorded-wire-other-logs-vote", "requests-in-one-write",
    "resigned-leader-does-not-lead-again", "simulated-29-0", "simulated-7-0",
    "unknown-version-of-api-versions", "vote-survives-kill", "vote-survives-kill-static",
    "voter-is-removed",
)  # fmt: skip
KAFKA = (
    "elected-by-peers", "fetched-record-survives-kill", "leader-deposed-by-vote",
    "observer-does-not-campaign", "recorded-follower-grown-static", "recorded-voted-votes",
    "simulated-7-0",
    "tagged-fields-without-end", "vote-survives-kill", "voter-is-removed",
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("name", OURS)
def test_our_node_passes(name: str) -> None:
    result = play(name, BUILT_IN["kraftspec"])
    assert result.problems == [], "\n".join(result.transcript.lines())


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", KAFKA)
def test_kafka_passes(name: str) -> None:
    result = play(name, BUILT_IN["kafka"])
    assert result.problems == [], "\n".join(result.transcript.lines())


@pytest.mark.kafka
@pytest.mark.soak
def test_simulated_scenarios_are_what_their_seeds_give() -> None:
    assert live_scenarios.FILE.read_text("utf-8") == live_scenarios.make()
