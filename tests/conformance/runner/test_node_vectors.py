"""Node vectors: one made by hand, of bodies that are Kafka's own bytes, put to many nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from kraftspec.conformance.raw.known import KnownFailure
from kraftspec.conformance.raw.node import NodeAnswer, NodeAppend, NodeState, NodeVector
from kraftspec.conformance.runner.known import KnownFailures
from kraftspec.conformance.runner.node import (
    check,
    read_node_vectors,
    replay,
    run_node,
    variants,
)
from kraftspec.conformance.vectors import read_vectors, vectors_root

# The headers, by the protocol's own account: key, version, correlation id, client id, no tags.
API_VERSIONS = "0012000300000007ffff00"
VOTE = "0034000200000008ffff00"
# Of the answers: the correlation id, and no tags in the flexible one (KIP-511: not ApiVersions).
ANSWER_7, ANSWER_8 = "00000007", "0000000800"


def kafkas(message: str, version: int, family: str = "populated") -> tuple[str, dict[str, Any]]:
    """Return bytes that Kafka's classes made of a message with all fields set, and the value."""
    files = read_vectors(vectors_root(), f"kafka/{message}")
    [file] = [file for _, file in files if file.message == message]
    [test] = [one for one in file.tests if (one.version, one.family) == (version, family)]
    assert isinstance(test.hex, str)
    assert isinstance(test.value, dict)
    return test.hex, test.value


API_VERSIONS_BODY, _ = kafkas("ApiVersionsRequest", 3)
API_VERSIONS_ANSWER, _ = kafkas("ApiVersionsResponse", 3)
VOTE_BODY, _ = kafkas("VoteRequest", 2)
VOTE_ANSWER, VOTE_FIELDS = kafkas("VoteResponse", 2)
MANY_ANSWER, MANY_FIELDS = kafkas("VoteResponse", 2, "multi-element")
ANSWERS = {
    API_VERSIONS + API_VERSIONS_BODY: ANSWER_7 + API_VERSIONS_ANSWER,
    VOTE + VOTE_BODY: ANSWER_8 + VOTE_ANSWER,
}


def vector(*undetermined: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the two steps: ApiVersions by each byte of its answer, Vote by the fields."""
    return {
        "id": "two-steps",
        "source": {"kafka": "4.3.1"},
        "state": {
            "log": [],
            "quorum-state": {"leaderId": -1, "leaderEpoch": 3, "votedId": -1, "data_version": 1},
            "snapshots": [],
            "role": "unattached",
            "voters": [{"id": 1, "directoryId": "AAAAAAAAABUAAAAVAAAAAA", "endpoints": []}],
        },
        "steps": [
            {
                "at_us": 0,
                "request": {
                    "api": "ApiVersions",
                    "version": 3,
                    "hex": API_VERSIONS + API_VERSIONS_BODY,
                },
                "expect": {"hex": ANSWER_7 + API_VERSIONS_ANSWER},
            },
            {
                "at_us": 1_500,
                "request": {"api": "Vote", "version": 2, "hex": VOTE + VOTE_BODY},
                "expect": {
                    "fields": fields or VOTE_FIELDS,
                    "undetermined": list(undetermined),
                    **({"why": "it is another one each time"} if undetermined else {}),
                },
            },
        ],
    }  # fmt: skip


def parsed(value: dict[str, Any]) -> NodeVector:
    schema = json.loads((files("kraftspec.conformance") / "schemas/node.schema.json").read_bytes())
    jsonschema.Draft202012Validator(schema).validate(value)
    return msgspec.convert(value, NodeVector)


class Recorded:
    """A node that answers as it was recorded, but for one change."""

    writes_by_itself = False

    def __init__(self, change: Callable[[bytes], bytes] = lambda data: data) -> None:
        self.change = change
        self.replied_at_us: list[int] = []
        self.answers: list[bytes] = []
        self.at_us = -1
        self.ended = False
        self.state: NodeState | None = None

    def restore(self, state: NodeState) -> None:
        self.state = state

    def at(self, at_us: int, clock_ms: int | None) -> None:
        self.at_us = at_us

    def request(self, data: bytes) -> int:
        self.replied_at_us.append(self.at_us)
        self.answers.append(self.change(bytes.fromhex(ANSWERS[data.hex()])))
        return len(self.answers) - 1

    def reply(self, token: int) -> bytes | None:
        return self.answers[token]

    def answer(self, answer: NodeAnswer) -> None:
        raise NotImplementedError

    def append(self, append: NodeAppend) -> None:
        raise NotImplementedError

    def settle(self, role: str | None) -> None:
        if role not in (None, "unattached"):
            raise ValueError(f"it is unattached, not {role}")

    def close(self) -> None:
        self.ended = True


def swapped(old: str, new: str) -> Callable[[bytes], bytes]:
    """Change the answer that holds these bytes, and hold that one does."""
    assert sum(old in answer for answer in ANSWERS.values()) == 1
    return lambda data: bytes.fromhex(data.hex().replace(old, new))


def test_a_node_that_answers_as_kafka_did_passes() -> None:
    node = Recorded()
    expected = parsed(vector())
    assert replay(expected, node) == []
    assert node.replied_at_us == [0, 1_500]
    assert node.state is not None
    assert node.state.quorum_state == expected.state.quorum_state


LEADER_EPOCH = VOTE_FIELDS["topics"][0]["partitions"][0]["leaderEpoch"].to_bytes(4).hex()


def test_another_field_is_named_by_its_path() -> None:
    other = Recorded(swapped(LEADER_EPOCH, "00000009"))
    [failure] = replay(parsed(vector()), other)
    assert (failure.step, failure.at_us, failure.api, failure.version) == (1, 1_500, "Vote", 2)
    assert failure.path == "topics[0].partitions[0].leaderEpoch"
    assert "9 given" in failure.detail
    assert "two-steps step 1 (Vote v2)" in str(failure)


@pytest.mark.parametrize(
    "path",
    [
        "topics[0].partitions[0].leaderEpoch",
        "topics[*].partitions[*].leaderEpoch",
        "topics[*].partitions[0]",
        "topics[*].partitions",
        "topics",
    ],
)
def test_an_undetermined_field_may_be_anything(path: str) -> None:
    assert replay(parsed(vector(path)), Recorded(swapped(LEADER_EPOCH, "00000009"))) == []


@pytest.mark.parametrize(
    "path", ["topics[1].partitions[0].leaderEpoch", "topics[*].partitions[*].leaderId", "errorCode"]
)
def test_what_is_determined_beside_it_is_still_held(path: str) -> None:
    [failure] = replay(parsed(vector(path)), Recorded(swapped(LEADER_EPOCH, "00000009")))
    assert failure.path == "topics[0].partitions[0].leaderEpoch"


def test_null_stays_null_though_it_is_undetermined() -> None:
    none = {**VOTE_FIELDS, "topics": None}
    [failure] = replay(parsed(vector("topics", fields=none)), Recorded())
    assert failure.path == "topics"


def many() -> Recorded:
    """A node whose answer to Vote has lists of several elements."""
    return Recorded(swapped(ANSWER_8 + VOTE_ANSWER, ANSWER_8 + MANY_ANSWER))


def with_endpoints(*which: int, **changes: Any) -> dict[str, Any]:
    endpoints = [{**MANY_FIELDS["nodeEndpoints"][index], **changes} for index in which]
    return {**MANY_FIELDS, "nodeEndpoints": endpoints}


def test_the_order_of_a_list_may_be_open() -> None:
    turned = with_endpoints(1, 0)
    [failure] = replay(parsed(vector(fields=turned)), many())
    assert failure.path.startswith("nodeEndpoints[0]")
    assert replay(parsed(vector("nodeEndpoints[~]", fields=turned)), many()) == []
    for other in (with_endpoints(1), with_endpoints(1, 1), with_endpoints(1, 0, port=1)):
        assert len(replay(parsed(vector("nodeEndpoints[~]", fields=other)), many())) == 1


def test_a_list_may_have_more_than_was_recorded() -> None:
    fewer = with_endpoints(1)
    assert len(replay(parsed(vector(fields=fewer)), many())) == 1
    assert replay(parsed(vector("nodeEndpoints[+]", fields=fewer)), many()) == []
    other = with_endpoints(1, port=1)
    assert len(replay(parsed(vector("nodeEndpoints[+]", fields=other)), many())) == 1


def test_an_undetermined_tagged_field_may_be_left_out() -> None:
    fields = {name: value for name, value in VOTE_FIELDS.items() if name != "nodeEndpoints"}
    assert replay(parsed(vector("nodeEndpoints", fields=fields)), Recorded()) == []
    [failure] = replay(parsed(vector(fields=fields)), Recorded())
    assert failure.path == "nodeEndpoints"


def test_each_byte_is_held_where_bytes_are_wanted() -> None:
    answer = ANSWER_7 + API_VERSIONS_ANSWER
    [failure] = replay(parsed(vector()), Recorded(swapped(answer, answer[:-2] + "ff")))
    assert failure.step == 0
    assert f"byte {len(answer) // 2 - 1}" in failure.detail


def test_an_answer_to_another_request_is_told() -> None:
    answer = ANSWER_8 + VOTE_ANSWER
    [failure] = replay(parsed(vector()), Recorded(swapped(answer, f"00000009{answer[8:]}")))
    assert failure.detail == "correlation id 8 wanted, 9 given"


@pytest.mark.parametrize("answer", ["", ANSWER_8, ANSWER_8 + VOTE_ANSWER + "00"])
def test_an_answer_that_is_none_is_told(answer: str) -> None:
    [failure] = replay(parsed(vector()), Recorded(swapped(ANSWER_8 + VOTE_ANSWER, answer)))
    assert failure.detail.startswith("the answer is not readable")


def test_a_node_that_raises_has_failed_and_is_left_alone() -> None:
    def fall(data: bytes) -> bytes:
        raise RuntimeError("no leader")

    node = Recorded(fall)
    [failure] = replay(parsed(vector()), node)
    assert failure.detail == "raised RuntimeError: no leader"
    assert node.replied_at_us == [0]


class HangingUp(Recorded):
    """A node that closes the connection instead of answering a Vote."""

    def reply(self, token: int) -> bytes | None:
        return super().reply(token) if token == 0 else None


def test_a_node_may_have_to_hang_up() -> None:
    [failure] = replay(parsed(vector()), HangingUp())
    assert failure.detail == "an answer wanted, and the node hung up"
    closing = vector()
    closing["steps"][1]["expect"] = {"closed": True}
    assert replay(parsed(closing), HangingUp()) == []
    [failure] = replay(parsed(closing), Recorded())
    assert failure.detail.startswith("the node should hang up, and answered 00000008")


def test_an_answer_may_come_later() -> None:
    late = vector()
    late["steps"][0]["expect"]["after"] = 1
    order: list[int] = []

    class Late(Recorded):
        def reply(self, token: int) -> bytes | None:
            order.append(token)
            return super().reply(token)

    assert replay(parsed(late), Late()) == []
    assert sorted(order) == [0, 1]
    assert len(order) == 2
    [failure] = replay(parsed(late), Recorded(swapped(ANSWER_7, "00000009")))
    assert failure.step == 0


def test_a_role_is_held() -> None:
    role_vector = vector()
    role_vector["steps"][1]["role"] = "follower"
    node = Recorded()
    [failure] = replay(parsed(role_vector), node)
    assert failure.detail == "raised ValueError: it is unattached, not follower"
    assert node.ended


# -- Vectors that are wrong themselves -------------------------------------------------------------


def broken(change: Callable[[dict[str, Any]], object]) -> NodeVector:
    value = vector()
    change(value["steps"][1])
    return parsed(value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda step: step["request"].update(version=1), "header is of API 52 v2, not of Vote"),
        (lambda step: step["request"].update(api="Fetch"), "52 v2, not of Fetch"),
        (
            lambda step: step["request"].update(version=9, hex=VOTE.replace("0002", "0009", 1)),
            "VoteRequest has versions 0 to 2",
        ),
        (lambda step: step["request"].update(api="DescribeQuorum"), "not of DescribeQuorum"),
        (lambda step: step["request"].update(api="Votes"), "there is no message VotesRequest"),
        (lambda step: step["request"].update(hex=VOTE), "truncated"),
        (lambda step: step["expect"].update(undetermined=["topics"]), "why are topics undeter"),
        (lambda step: step["expect"].update(after=1), "there are not 1 steps after it"),
        (lambda step: step.update(expect={"hex": ANSWER_8}), "step 1: .*truncated"),
        (
            lambda step: step["expect"].update(undetermined=["topics[*].leaderEpoch"], why="so"),
            "VoteResponse v2 has no leaderEpoch there",
        ),
        (
            lambda step: step["expect"].update(undetermined=["errorCode.code"], why="so"),
            "errorCode has no fields",
        ),
    ],
)
def test_a_vector_that_no_node_could_pass_is_refused(
    change: Callable[[dict[str, Any]], object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        check(broken(change))


def test_time_does_not_run_backwards() -> None:
    value = vector()
    value["steps"][0]["at_us"] = 2_000
    with pytest.raises(ValueError, match="at_us is 1500, and was 2000 before"):
        check(parsed(value))


@pytest.mark.parametrize(
    "change",
    [
        lambda step: step.update(expect={}),
        lambda step: step["expect"].update(hex="00"),
        lambda step: step["expect"].pop("undetermined"),
        lambda step: step["expect"].update(undetermined=["topics[-1]"]),
        lambda step: step["expect"].update(undetermined=["Topics"]),
        lambda step: step.update(at_us=-1),
        lambda step: step.update(comment="not in the format"),
    ],
)
def test_the_schema_refuses_what_is_not_the_format(
    change: Callable[[dict[str, Any]], object],
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        broken(change)


# -- Files -----------------------------------------------------------------------------------------


def test_vectors_of_a_directory_are_replayed_each_to_a_new_node(tmp_path: Path) -> None:
    for name in ("a", "b"):
        file = tmp_path / "node" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**vector(), "id": name}))
    nodes: list[Recorded] = []

    def make(release: str) -> Recorded:
        assert release == "4.3.1"
        nodes.append(Recorded(swapped(LEADER_EPOCH, "00000009")))
        return nodes[-1]

    report = run_node(make, tmp_path)
    assert (report.vectors, report.steps, len(nodes)) == (2, 4, 2)
    assert [failure.vector for failure in report.failures] == ["a", "b"]


def of_two_releases() -> dict[str, Any]:
    """4.0.2 was asked the same, and its epoch was 9."""
    value = vector()
    value["source"]["also"] = ["4.2.2", "4.0.2"]
    expect = {"hex": ANSWER_8 + VOTE_ANSWER.replace(LEADER_EPOCH, "00000009")}
    value["steps"][1]["others"] = [{"kafka": ["4.0.2"], "expect": expect}]
    return value


def test_a_vector_has_a_variant_for_each_release() -> None:
    whole = parsed(of_two_releases())
    check(whole)
    recorded, same, other = variants(whole)
    assert recorded is whole
    assert [one.source.kafka for one in (recorded, same, other)] == ["4.3.1", "4.2.2", "4.0.2"]
    assert [same.id, other.id] == ["two-steps@4.2.2", "two-steps@4.0.2"]
    assert replay(recorded, Recorded()) == replay(same, Recorded()) == []
    [failure] = replay(other, Recorded())
    assert (failure.vector, failure.step) == ("two-steps@4.0.2", 1)
    assert replay(other, Recorded(swapped(LEADER_EPOCH, "00000009"))) == []


def test_what_other_releases_answer_is_checked_too() -> None:
    value = of_two_releases()
    value["steps"][1]["others"][0]["expect"] = {"hex": ANSWER_8}
    with pytest.raises(ValueError, match=r"step 1: .*truncated"):
        check(parsed(value))


def test_each_release_is_put_to_a_node_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "node" / "two-steps.json"
    file.parent.mkdir()
    file.write_text(json.dumps(of_two_releases()))
    releases: list[str] = []

    def make(release: str) -> Recorded:
        releases.append(release)
        return Recorded()

    entry = KnownFailure(
        test="node/*@4.0.2/Vote/*", reason="so it is", issue="https://x.example/",
        expires="2999-01-01",
    )  # fmt: skip
    report = run_node(make, tmp_path, known=KnownFailures([entry]))
    assert releases == ["4.3.1", "4.2.2", "4.0.2"]
    assert (report.vectors, report.failures, report.unexpected_passes) == (3, [], [])
    assert report.apis["Vote"].known_failures == 1
    report = run_node(make, tmp_path, chosen=lambda one: one.source.kafka == "4.0.2")
    assert [failure.vector for failure in report.failures] == ["two-steps@4.0.2"]


def test_they_are_no_vectors_of_messages(tmp_path: Path) -> None:
    for name in ("node", "kafka"):
        (tmp_path / name).mkdir()
    (tmp_path / "node" / "VoteRequest.json").write_text(json.dumps(vector()))
    vote = (vectors_root() / "kafka" / "VoteRequest.json").read_bytes()
    (tmp_path / "kafka" / "VoteRequest.json").write_bytes(vote)
    assert [file.message for _, file in read_vectors(tmp_path, "vote")] == ["VoteRequest"]
    assert len(list(read_node_vectors(tmp_path))) == 1


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "node" / "bad.json"
    file.parent.mkdir()
    file.write_text('{"id": "bad"}')
    with pytest.raises(ValueError, match=r"bad\.json: .*missing required field"):
        list(read_node_vectors(tmp_path))


def test_committed_node_vectors_hold_together() -> None:
    for vector_file in read_node_vectors():
        assert vector_file.source.kafka
