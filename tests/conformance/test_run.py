"""An adapter's answers judged: against fake adapters, and our own over real vectors."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import to_builtins

from kraftspec.conformance.harness import Adapter, AdapterError, Reply, Request
from kraftspec.conformance.java import KafkaAdapter
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.run import (
    adapter_exec,
    adapter_named,
    describe,
    hex_difference,
    run,
    value_difference,
)
from kraftspec.conformance.vectors import vectors_root, write_vectors

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/results.schema.json").read_text())
VALUE = {"clusterId": "a", "topics": []}
HEX = "0261ffffffff0100"


class Fake(Adapter):
    """Answers in this process: what it is told to, or for an unknown request rightly."""

    def __init__(
        self,
        answers: dict[str, Reply],
        messages: Iterable[str] = ("VoteRequest",),
        sets: dict[str, dict[str, str]] | None = None,
    ) -> None:
        super().__init__(["fake"])
        self.answers = answers
        self.served = dict.fromkeys(messages, "0-2")
        self.sets = sets or {}
        self.seen: list[Request] = []
        self.running = 0

    def start(self) -> None:
        self.running += 1

    def stop(self) -> int | None:
        self.running -= 1
        return 0

    def hello(self) -> HelloReply:
        return HelloReply(
            protocol=1, name="fake", language="none", version="0", spec="kafka/4.3.1",
            messages=self.served, sets=self.sets,
        )  # fmt: skip

    def run(self, requests: Iterable[Request]) -> Iterator[Reply]:
        for request in requests:
            self.seen.append(request)
            right = {"hex": HEX} if request["cmd"] == "encode" else {"value": VALUE}
            yield {"id": request["id"], **self.answers.get(str(request["id"]), right)}


class Loading(Fake):
    """Compiles other sets when asked, as the adapter over Kafka's classes does."""

    def load(self, spec: str, *, directory: Path) -> dict[str, str]:
        self.loaded = spec, directory.name
        return {"VoteRequest": "0-2"}


def vector(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{number:016x}", "version": 2, "op": "roundtrip", "family": "alone",
        "value": VALUE, "hex": HEX, "result": "valid", **more,
    }  # fmt: skip


def vectors(root: Path, *tests: dict[str, Any], spec: str = "kafka") -> Path:
    head: dict[str, Any] = {"schemaVersion": 1, "message": "VoteRequest"}
    if spec != "kafka":
        head["spec"] = spec
    head |= {"source": {"kafka": "4.3.1", "schemaSha256": "0" * 64}, "notes": {}}
    write_vectors(root / spec / "VoteRequest.json", head, tests)
    return root


def key(number: int, direction: str) -> str:
    return f"{number:016x}-{direction}"


def counts(**some: int) -> dict[str, int]:
    names = ("passed", "failed", "skipped", "knownFailures", "unexpectedPasses")
    return {name: some.get(name, 0) for name in names}


def verdicts(results: Results) -> tuple[int, int, int]:
    return results.counts.passed, results.counts.failed, results.counts.skipped


# -------------------------------------------------------------------------------------- verdicts


def test_a_roundtrip_counts_in_both_directions(tmp_path: Path) -> None:
    root = vectors(tmp_path, vector(1), vector(2, op="encode"), vector(3, op="decode", version=1))
    fake = Fake({})
    results = run(fake, root=root)
    assert verdicts(results) == (4, 0, 0)
    assert (results.tests, results.pairs, results.failures, fake.running) == (3, 2, [], 0)
    assert fake.seen == [
        {"cmd": "encode", "id": key(1, "e"), "message": "VoteRequest", "version": 2,
         "value": VALUE},
        {"cmd": "decode", "id": key(1, "d"), "message": "VoteRequest", "version": 2, "hex": HEX},
        {"cmd": "encode", "id": key(2, "e"), "message": "VoteRequest", "version": 2,
         "value": VALUE},
        {"cmd": "decode", "id": key(3, "d"), "message": "VoteRequest", "version": 1, "hex": HEX},
    ]  # fmt: skip


REFUSAL = {"error": {"class": "truncated", "offset": 17, "path": "topics[0]", "detail": "why"}}


@pytest.mark.parametrize(
    ("direction", "reply", "detail"),
    [
        ("e", {"hex": "0262ffffffff0100"}, "bytes differ from byte 1 on (8 wanted, 8 given): "
         "…0261ffffffff0100… wanted, …0262ffffffff0100… given"),
        ("e", {"hex": None}, "no hex in the reply, but None"),
        ("e", {"value": VALUE}, "no hex in the reply, but None"),
        ("e", {"error": {"class": "wrong_type"}}, "refused:  [wrong_type]"),
        ("e", REFUSAL, "refused at topics[0] byte 17: why [truncated]"),
        ("e", {"error": {"class": "truncated", "offset": 0, "path": "", "detail": "x"}},
         "refused byte 0: x [truncated]"),
        ("d", {"value": {**VALUE, "clusterId": "b"}}, 'clusterId: "a" wanted, "b" given'),
        ("d", {"value": {"clusterId": "a"}}, "topics: missing"),
        ("d", {"value": {**VALUE, "voterId": 1}}, "voterId: not wanted"),
        ("d", {"value": None}, ': {"clusterId": "a", "topics": []} wanted, null given'),
        ("d", REFUSAL, "refused at topics[0] byte 17: why [truncated]"),
    ],
)  # fmt: skip
def test_a_failure(tmp_path: Path, direction: str, reply: Reply, detail: str) -> None:
    results = run(Fake({key(1, direction): reply}), root=vectors(tmp_path, vector(1), vector(2)))
    assert verdicts(results) == (3, 1, 0)
    [failure] = results.failures
    way = {"e": "encode", "d": "decode"}[direction]
    assert failure.detail == detail
    assert describe(failure) == f"kafka/VoteRequest v2 {way} {1:016x}: {detail}"
    assert results.messages["VoteRequest"]["2"].failed == 1


def test_what_must_be_refused(tmp_path: Path) -> None:
    invalid = vector(1, op="decode", result="invalid", error={"class": "truncated", "offset": 3})
    del invalid["value"]
    root = vectors(tmp_path, invalid, {**invalid, "id": f"{2:016x}"})
    results = run(Fake({key(1, "d"): REFUSAL}), root=root)
    assert verdicts(results) == (1, 1, 0)
    assert results.failures[0].id == f"{2:016x}"
    assert results.failures[0].detail == "accepted what must be refused"


def test_what_may_be_refused(tmp_path: Path) -> None:
    with_value = vector(1, op="decode", result="acceptable")
    without = vector(2, op="decode", result="acceptable")
    del without["value"]
    root = vectors(tmp_path, with_value, without, vector(3, op="decode", result="acceptable"))
    other = {"value": {**VALUE, "clusterId": "b"}}
    assert verdicts(run(Fake({}), root=root)) == (3, 0, 0)
    refused = {key(number, "d"): REFUSAL for number in (1, 2, 3)}
    assert verdicts(run(Fake(refused), root=root)) == (3, 0, 0)
    # What is accepted must be read rightly, where it is known what is right.
    results = run(Fake({key(1, "d"): other, key(2, "d"): other}), root=root)
    assert [failure.id for failure in results.failures] == [f"{1:016x}"]


def test_what_is_skipped(tmp_path: Path) -> None:
    root = vectors(tmp_path, vector(1), vector(2))
    results = run(Fake({key(1, "e"): {"skipped": {"reason": "not yet"}}}), root=root)
    assert verdicts(results) == (3, 0, 1)
    fake = Fake({}, messages=["VoteResponse"])  # which is not the message of the vectors
    results = run(fake, root=root)
    assert verdicts(results) == (0, 0, 4)
    assert (fake.seen, results.failures) == ([], [])
    assert results.messages["VoteRequest"]["2"].skipped == 4
    assert [(skip.reason, skip.count) for skip in results.skips] == [
        ("the adapter does not have this message", 4)
    ]


# ------------------------------------------------------------------------------------------ sets


def test_drafts_are_asked_for_by_their_set(tmp_path: Path) -> None:
    vectors(tmp_path, vector(1))
    vectors(tmp_path, vector(1), spec="kip-853")
    vectors(tmp_path, vector(1), spec="kip-996")
    fake = Fake({}, sets={"kip-853": {"VoteRequest": "0-0"}})
    seen: list[tuple[str, int, int]] = []
    results = run(fake, root=tmp_path, progress=lambda *call: seen.append(call))
    assert [request.get("spec") for request in fake.seen] == [None, None, "kip-853", "kip-853"]
    assert to_builtins(results.messages) == {
        "VoteRequest": {"2": counts(passed=2)},
        "kip-853/VoteRequest": {"2": counts(passed=2)},
        "kip-996/VoteRequest": {"2": counts(skipped=2)},
    }
    assert seen == [("kafka/VoteRequest", 1, 3), ("kip-853/VoteRequest", 2, 3),
                    ("kip-996/VoteRequest", 3, 3)]  # fmt: skip
    assert verdicts(run(fake, root=tmp_path, name="kip-996/vote")) == (0, 0, 2)


def test_an_adapter_that_compiles_sets_is_given_them(tmp_path: Path) -> None:
    vectors(tmp_path, vector(1), spec="kip-853")
    loading = Loading({})
    assert verdicts(run(loading, root=tmp_path)) == (2, 0, 0)
    assert loading.loaded == ("kip-853", "kip-853")


# --------------------------------------------------------------------------------------- results


def test_results_are_of_their_schema(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    results = run(Fake({key(1, "e"): {"hex": "00"}}), root=vectors(tmp_path, vector(1)))
    told = json.loads(json.dumps(to_builtins(results)))
    Draft202012Validator(SCHEMA).validate(told)
    assert told.pop("seconds") >= 0
    assert told == {
        "schemaVersion": 1,
        "adapter": {"name": "fake", "language": "none", "version": "0"},
        "pairs": 1,
        "tests": 1,
        "selection": {},
        "counts": counts(passed=1, failed=1),
        "messages": {"VoteRequest": {"2": counts(passed=1, failed=1)}},
        "failures": [{
            "spec": "kafka", "message": "VoteRequest", "version": 2, "id": f"{1:016x}",
            "direction": "encode", "family": "alone", "flags": [], "kind": "wrong",
            "detail": results.failures[0].detail,
            "reproduce": "kraftspec conform run --filter kafka/VoteRequest",
        }],
        "unexpectedPasses": [],
        "known": [],
        "skips": [],
        "restarts": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "got", "says"),
    [
        ("", "", ""),
        ("00ff", "00ff", ""),
        ("00ff", "00", "from byte 1 on (2 wanted, 1 given): …00ff… wanted, …00… given"),
        ("00", "00ff", "from byte 1 on (1 wanted, 2 given)"),
        ("", "ff", "from byte 0 on (0 wanted, 1 given)"),
        ("0102", "0103", "from byte 1 on"),  # the first half of the byte is the same
        ("11" * 40, "11" * 20 + "22" * 20, "from byte 20 on (40 wanted, 40 given): "
         f"…{'11' * 16}… wanted, …{'11' * 8 + '22' * 8}… given"),
        ("00", 5, "no hex in the reply, but 5"),
    ],
)  # fmt: skip
def test_differences_of_bytes(wanted: str, got: object, says: str) -> None:
    assert says in hex_difference(wanted, got)
    assert bool(hex_difference(wanted, got)) == (wanted != got)


@pytest.mark.parametrize(
    ("wanted", "got", "says"),
    [
        ({"a": 1, "b": [1, {"c": None}]}, {"b": [1, {"c": None}], "a": 1}, ""),
        ({"a": 1}, {"a": 1.0}, "a: 1 wanted, 1.0 given"),
        ({"a": 1}, {"a": True}, "a: 1 wanted, true given"),
        ({"a": 0.0}, {"a": -0.0}, "a: 0.0 wanted, -0.0 given"),
        ({"a": None}, {}, "a: missing"),
        ({}, {"a": None}, "a: not wanted"),
        ({"a": [1, 2]}, {"a": [1]}, "a: [1, 2] wanted, [1] given"),
        ({"a": [{"b": [1, 2]}]}, {"a": [{"b": [1, 3]}]}, "a[0].b[1]: 2 wanted, 3 given"),
        ({"a": [{"b": 1}]}, {"a": [{}]}, "a[0].b: missing"),
        ({"a": {}}, {"a": []}, "a: {} wanted, [] given"),
        ({"a": "x" * 200}, {"a": ""}, f'a: "{"x" * 79} wanted, "" given'),
    ],
)
def test_differences_of_values(wanted: Any, got: Any, says: str) -> None:
    assert value_difference(wanted, got) == says


# -------------------------------------------------------------------------------------- adapters


def test_adapters_by_name() -> None:
    assert isinstance(adapter_named("kafka"), KafkaAdapter)
    for name, options in (("kraftspec", []), ("kraftspec-python", ["--codec", "python"])):
        command = adapter_named(name).command
        assert command[0] == sys.executable
        assert command[3:] == ["adapter", *options]
    with pytest.raises(ValueError, match="no adapter 'java': kraftspec, kraftspec-python, kafka"):
        adapter_named("java")
    assert adapter_exec("my-adapter --flag 'two words'").command == [
        "my-adapter", "--flag", "two words",
    ]  # fmt: skip


def test_our_own_codec_behind_a_pipe() -> None:
    results = run(adapter_named("kraftspec-python"), name="/VoteRe")
    assert results.failures == []
    sets = {name.rpartition("/")[0] for name in results.messages}
    assert sets == {"", "kip-595", "kip-853", "kip-996"}
    wanted: Counter[str] = Counter()
    for path in vectors_root().glob("*/VoteRe*.json"):
        wanted.update(made["op"] for made in json.loads(path.read_bytes())["tests"])
    assert verdicts(results) == (2 * wanted["roundtrip"] + wanted["encode"], 0, 0)
    assert (results.adapter.name, results.adapter.language) == ("kraftspec-python", "python")


def test_a_harness_that_fails_is_no_failed_test(tmp_path: Path) -> None:
    fake = Path(__file__).with_name("misbehaving_adapter.py")
    judged = adapter_exec(f"{sys.executable} -S -E {fake} stillborn")
    with pytest.raises(AdapterError) as caught:
        run(judged, root=vectors(tmp_path, vector(1)))
    assert caught.value.kind == "died"
