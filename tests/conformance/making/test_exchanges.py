"""Golden exchanges: what real controllers answered, asked of the reference node, and of Kafka."""

from __future__ import annotations

import json
import socket
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner
from tests.conformance.report.result_samples import write_known

from kraftspec.cli import main
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.disk import files_of
from kraftspec.conformance.making.exchanges.nodes import NODES, node_maker
from kraftspec.conformance.making.exchanges.peers import KRAFT_APIS, Peers
from kraftspec.conformance.making.exchanges.reference import ReferenceNode
from kraftspec.conformance.making.exchanges.scenarios import BASES, CASES
from kraftspec.conformance.raw.known import KnownFailure
from kraftspec.conformance.raw.node import NodeStep, NodeVector
from kraftspec.conformance.runner.known import KnownFailures, known_file
from kraftspec.conformance.runner.metadata_batches import (
    own_batches_bared,
    sets_in_order,
    split_batches,
    written_from,
)
from kraftspec.conformance.runner.node import (
    NodeReport,
    answered_fields,
    check,
    read_node_vectors,
    replay,
    run_node,
    variants,
)
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.message import Message
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    FetchRequest,
    LeaderChangeMessage,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.log.control import control_value, encode_control_values
from kraftspec.reference.profiles.kafka import elections, membership, replication
from kraftspec.reference.raft import requests
from kraftspec.reference.raft.core import Core
from kraftspec.reference.wire.frames import sized

PORT = 14_097  # Of a scripted peer; the recorder has those before it.
VECTORS = {vector.id: vector for vector in read_node_vectors()}
VARIANTS = [variant for vector in VECTORS.values() for variant in variants(vector)]
STEPS = [step for vector in VARIANTS for step in vector.steps if step.request]


def known() -> KnownFailures:
    return KnownFailures.read(known_file("reference"))


# -- What was recorded -----------------------------------------------------------------------------


def test_each_file_is_of_the_schema_and_of_a_scenario() -> None:
    schema = json.loads((files("kraftspec.conformance") / "schemas/node.schema.json").read_bytes())
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted(Path(str(files("kraftspec.conformance") / "vectors/node")).glob("*.json")):
        value = json.loads(path.read_bytes())
        validator.validate(value)
        assert value["id"] == path.stem
    assert set(VECTORS) == {case.id for case in CASES}
    assert {case.base for case in CASES} == set(BASES)
    for case in CASES:
        source = VECTORS[case.id].source
        assert [source.kafka, *(source.also or ())] == [*reversed(case.releases)]


def test_every_version_of_every_api_of_a_quorum_was_asked() -> None:
    assert len(STEPS) >= 5_000
    counts = Counter((step.request.api, step.request.version) for step in STEPS if step.request)
    assert len(KRAFT_APIS) == 10
    for api in KRAFT_APIS:
        for version in api.request.VALID_VERSIONS:
            assert counts[api.name, version]


def codes(value: Any) -> set[int]:
    """Return the error codes at any place of an answer."""
    if isinstance(value, list):
        return set().union(*map(codes, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    return {value[name] for name in ("errorCode",) if name in value}.union(
        *map(codes, value.values())
    )


def test_most_errors_of_a_quorum_are_among_the_answers() -> None:
    answered = set().union(*(codes(answered_fields(step)) for step in STEPS))
    assert {ErrorCode(code).name for code in answered if code >= 0} >= {
        "NONE", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT",
        "UNSUPPORTED_VERSION", "INVALID_REQUEST", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH",
        "INCONSISTENT_CLUSTER_ID", "INVALID_VOTER_KEY", "DUPLICATE_VOTER", "VOTER_NOT_FOUND",
    }  # fmt: skip


def test_every_role_is_among_the_states() -> None:
    roles = {vector.state.role for vector in VECTORS.values()}
    roles |= {step.role for vector in VECTORS.values() for step in vector.steps if step.role}
    assert roles == {
        "unattached", "follower", "prospective", "candidate", "leader", "resigned",
    }  # fmt: skip


# -- The reference node ----------------------------------------------------------------------------


def test_the_reference_node_answers_as_kafka_did() -> None:
    report = run_node(ReferenceNode, known=known())
    assert [str(failure) for failure in report.failures] == []
    assert report.unexpected_passes == []
    assert report.warnings == []
    assert report.vectors == len(VARIANTS)
    passed = sum(counts.passed for counts in report.apis.values())
    excused = sum(counts.known_failures for counts in report.apis.values())
    assert passed + excused == len(STEPS)
    assert excused < len(STEPS) // 10


def test_it_answers_as_the_newest_release_but_for_little() -> None:
    report = run_node(ReferenceNode, known=known(), chosen=lambda one: one.id in VECTORS)
    assert report.failures == []
    passed = sum(counts.passed for counts in report.apis.values())
    excused = sum(counts.known_failures for counts in report.apis.values())
    assert excused < (passed + excused) // 20


def without(room: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(room, name, value)


def no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "leader_error", lambda self, epoch: 0 if self.role.name == "leader" else 6)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("break_it", "api"),
    [
        (without(requests, "voter_error", lambda core, sender_id, epoch: 0), "Vote"),
        (without(requests, "is_meant", lambda core, voter_id, directory_id: True), "Vote"),
        (without(requests, "up_to_date", lambda core, epoch, offset: True), "Vote"),
        (without(requests, "NO_DIRECTORY", b"\1" * 16), "RemoveRaftVoter"),
        (no_epoch_check, "Fetch"),
        (without(replication, "NODE_ENDPOINTS_FROM", 18), "Fetch"),
        (without(membership, "DIRECTORIES_FROM", 3), "DescribeQuorum"),
        (without(elections, "put_leader", lambda kind, reply, listener: []), "BeginQuorumEpoch"),
    ],
    ids=[
        "no check of a voter's epoch", "whoever is meant", "any log is up to date",
        "another zero uuid", "no check of a leader's epoch", "endpoints too late",
        "directories too late", "no endpoints",
    ],
)  # fmt: skip
def test_a_node_that_is_wrong_is_found_out(
    break_it: Callable[[pytest.MonkeyPatch], None], api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    report = run_node(ReferenceNode, known=known(), chosen=lambda one: one.id in VECTORS)
    assert report.apis[api].failed > 0


def test_a_known_failure_that_passes_is_told() -> None:
    entry = KnownFailure(
        test="node/wire-api-versions/ApiVersions/4/*",
        reason="it was so",
        issue="https://kafka.apache.org/",
        expires="2999-01-01",
    )
    excuses = KnownFailures([entry])
    report = run_node(
        ReferenceNode, known=excuses, chosen=lambda vector: vector.id == "wire-api-versions"
    )
    assert report.unexpected_passes == ["node/wire-api-versions/ApiVersions/4/4"]


def test_a_leader_writes_the_bytes_that_kafka_wrote() -> None:
    """Its first batch is read back whole: only the order of who elected it is not Kafka's."""
    vector = VECTORS["leader-fetches"]
    node = ReferenceNode()
    node.restore(vector.state)
    elected = vector.steps[0]
    assert elected.answer
    assert elected.clock_ms
    node.at(elected.at_us, elected.clock_ms)
    node.answer(elected.answer)
    node.settle("leader")
    ours = node.storage.log.read(written_from(vector.state), 1)
    header = read_header(ours)
    assert (header.base_timestamp, header.partition_leader_epoch) == (elected.clock_ms, 7)
    expected = answered_fields(vector.steps[1])["responses"][0]["partitions"][0]
    assert sets_in_order(ours) == sets_in_order(b64decode(expected["records"]))


# -- What they are made of -------------------------------------------------------------------------


def control(voters: list[int], timestamp_ms: int) -> bytes:
    message = LeaderChangeMessage(
        leader_id=1,
        granting_voters=[LeaderChangeMessage.Voter(voter_id=voter) for voter in voters],
    )
    return encode_control_values(
        [control_value(message)], base_offset=4, epoch=2, timestamp_ms=timestamp_ms
    )


def test_only_the_order_of_voters_is_open() -> None:
    assert control([1, 2], 5) != control([2, 1], 5)
    assert sets_in_order(control([1, 2], 5)) == sets_in_order(control([2, 1], 5))
    assert sets_in_order(control([1, 2], 5)) != sets_in_order(control([1, 3], 5))
    assert sets_in_order(control([1, 2], 5)) != sets_in_order(control([1, 2], 6))
    assert sets_in_order(control([1, 2], 5)) != sets_in_order(control([1, 2], 5) + b"\0")


def test_of_a_node_with_its_own_clock_only_what_it_wrote_is_bared() -> None:
    def bared(data: bytes, written: int) -> Any:
        return own_batches_bared({"topics": [{"records": b64encode(data).decode()}]}, written)

    assert bared(control([1, 2], 5), 4) == bared(control([2, 1], 6), 4)
    assert bared(control([1, 2], 5), 5) != bared(control([1, 2], 6), 5)
    assert bared(control([1, 2], 5), 4) != bared(control([1], 5), 4)


def test_a_state_becomes_the_files_of_a_directory() -> None:
    state = VECTORS["snapshots-fetched-late"].state
    written = files_of(state)
    first = read_header(bytes.fromhex(state.log[0])).base_offset
    assert first > 0
    data = written[f"__cluster_metadata-0/{first:020}.log"]
    assert [batch.hex() for batch in split_batches(data)] == state.log
    assert json.loads(written["__cluster_metadata-0/quorum-state"]) == state.quorum_state
    snapshot = state.snapshots[-1]
    name = f"{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"
    assert written[f"__cluster_metadata-0/{name}"].hex() == snapshot.hex
    assert b"node.id=1\n" in written["meta.properties"]


def test_a_node_that_never_asks_is_not_waited_for() -> None:
    vector = VECTORS["follower-fetching"]
    step = next(step for step in vector.steps if step.answer)
    assert step.answer
    nobody = msgspec.structs.replace(step.answer, port=1)
    wrong = NodeVector(
        id="x",
        source=vector.source,
        state=vector.state,
        steps=[NodeStep(at_us=0, answer=nobody)],
    )
    check(wrong)
    [failure] = replay(wrong, ReferenceNode())
    assert "does not ask Fetch" in failure.detail


@pytest.fixture
def peers() -> Iterator[Peers]:
    started = Peers([PORT])
    yield started
    started.close()


def ask_peer(connection: socket.socket, message: Message, version: int) -> None:
    connection.sendall(sized(rq.frame_of(message, version, 7)))


def test_a_scripted_peer_greets_and_then_waits_for_its_script(peers: Peers) -> None:
    with socket.create_connection(("127.0.0.1", PORT), 10) as node, node.makefile("rb") as stream:
        ask_peer(node, rq.api_versions(4), 4)
        greeting = stream.read(int.from_bytes(stream.read(4), "big"))
        offered = ApiVersionsResponse.decode(greeting[4:], 4)
        assert {key.api_key for key in offered.api_keys} == {api.key for api in KRAFT_APIS}
        ask_peer(node, rq.api_versions(4), 4)
        ask_peer(node, rq.vote(2, 3, last=(0, 0)), 2)
        request = peers.wait(PORT, VoteRequest, 10)
        assert (request.version, request.correlation_id, peers.count) == (2, 7, 2)
        with pytest.raises(TimeoutError, match=r"no FetchRequest came in .* \[\(14097, 18\), "):
            peers.wait(PORT, FetchRequest, 0.01)
        body = rq.vote_answer(3, granted=True).encode(2)
        peers.answer(request, VoteResponse, body)
        answer = stream.read(int.from_bytes(stream.read(4), "big"))
        assert answer == b"\0\0\0\7\0" + body
        with pytest.raises(TimeoutError):
            peers.wait(PORT, VoteRequest, 0.01)


# -- The command -----------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["conform", "run", "--node", *arguments])


def test_the_command_prints_a_table_and_json() -> None:
    result = run("reference", "--filter", "wire-other")
    assert result.exit_code == 0, result.output
    assert "DescribeQuorum" in result.output
    assert max(map(len, result.output.splitlines()[:-1])) <= 80
    result = run("reference", "--filter", "wire-other", "--json")
    assert json.loads(result.output)["apis"]["Fetch"]["failed"] == 0


def test_the_command_exits_as_a_runner_does(tmp_path: Path) -> None:
    none = write_known(tmp_path / "none.toml")
    result = run("reference", "--filter", "leader-cut", "--known", str(none))
    assert result.exit_code == 1
    assert "kraftspec conform run --node reference --filter leader-cut-batches" in result.output
    known_vote = write_known(tmp_path / "vote.toml", {"test": "node/wire-no-requests/Vote/*"})
    assert run("reference", "--filter", "wire-no", "--known", str(known_vote)).exit_code == 2
    assert run("reference", "--filter", "no such vector").exit_code == 3
    assert run("reference", "--jobs", "2").exit_code == 2
    assert run("nothing").exit_code == 2
    assert run("reference", "--exec", "true").exit_code == 2


def test_a_scenario_that_there_is_not_is_told() -> None:
    result = CliRunner().invoke(main, ["conform", "record-node", "--filter", "no such scenario"])
    assert result.exit_code == 2
    assert "no scenario has 'no such scenario' in its id" in result.stderr


# -- Apache Kafka ----------------------------------------------------------------------------------

# One of each kind: all of them take minutes (conform run --node kafka).
STILL = ("wire-no-requests", "unattached-votes-static", "leader-commits", "voters-additions")


@pytest.mark.kafka
def test_kafka_still_answers_so() -> None:
    assert "kafka" in NODES
    report: NodeReport = run_node(node_maker("kafka"), chosen=lambda vector: vector.id in STILL)
    assert report.vectors == len(STILL)
    assert [str(failure) for failure in report.failures] == []


@pytest.mark.kafka
def test_what_is_recorded_anew_is_what_the_reference_node_answers(tmp_path: Path) -> None:
    recorded = ["conform", "record-node", "--filter", "observer-greetings", "--json"]
    result = CliRunner().invoke(main, [*recorded, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["vectors"], report["unrepeated"]) == (1, [])
    assert report["changed"] == ["observer-greetings"]
    [vector] = read_node_vectors(tmp_path)
    assert replay(vector, ReferenceNode()) == []
    assert [step.request for step in vector.steps if step.request] == [
        step.request for step in VECTORS["observer-greetings"].steps if step.request
    ]
