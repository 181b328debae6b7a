"""An adapter's answers judged: against fake adapters, and our own over real vectors."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import to_builtins

from kraftspec.conformance.adapters.harness import Adapter, Answer, Line, Reply
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner.cases import Shard
from kraftspec.conformance.runner.run import adapter_exec, adapter_named, run
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
        name: str = "fake",
    ) -> None:
        super().__init__([name])
        self.answers = answers
        self.served = dict.fromkeys(messages, "0-2")
        self.sets = sets or {}
        self.seen: list[dict[str, Any]] = []
        self.started = False

    @property
    def running(self) -> bool:
        return self.started

    def start(self) -> None:
        self.started = True

    def stop(self) -> int | None:
        self.started = False
        return 0

    def hello(self) -> HelloReply:
        return HelloReply(
            protocol=1, name=self.command[0], language="none", version="0", spec="kafka/4.3.1",
            messages=self.served, sets=self.sets,
        )  # fmt: skip

    def exchange(self, lines: Iterable[Line]) -> Iterator[Answer]:
        for _, line in lines:
            assert line.endswith(b"}\n")
            request = json.loads(line)
            self.seen.append(request)
            right = {"hex": HEX} if request["cmd"] == "encode" else {"value": VALUE}
            reply = {"id": request["id"], **self.answers.get(str(request["id"]), right)}
            yield msgspec.json.decode(json.dumps(reply), type=Answer)


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
    assert (results.tests, results.pairs, results.failures, fake.running) == (3, 2, [], False)
    assert fake.seen == [
        {"cmd": "encode", "id": key(1, "e"), "message": "VoteRequest", "version": 2,
         "value": VALUE},
        {"cmd": "decode", "id": key(1, "d"), "message": "VoteRequest", "version": 2, "hex": HEX},
        {"cmd": "encode", "id": key(2, "e"), "message": "VoteRequest", "version": 2,
         "value": VALUE},
        {"cmd": "decode", "id": key(3, "d"), "message": "VoteRequest", "version": 1, "hex": HEX},
    ]  # fmt: skip


REFUSAL = {"error": {"class": "truncated", "offset": 17, "path": "topics[0]", "detail": "why"}}


def test_what_must_be_refused(tmp_path: Path) -> None:
    invalid = vector(1, op="decode", result="invalid", error={"class": "truncated", "offset": 3})
    del invalid["value"]
    root = vectors(tmp_path, invalid, {**invalid, "id": f"{2:016x}"})
    results = run(Fake({key(1, "d"): REFUSAL}), root=root)
    assert verdicts(results) == (1, 1, 0)
    assert results.failures[0].id == f"{2:016x}"
    assert results.failures[0].detail == "accepted what must be refused: truncated at byte 3"


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


def test_reasons_made_for_each_case_are_not_all_kept(tmp_path: Path) -> None:
    root = vectors(tmp_path, *(vector(number) for number in range(100)))
    skips = {key(number, "d"): {"skipped": {"reason": f"not {number}"}} for number in range(90)}
    skips |= {key(number, "d"): {"skipped": {"reason": "lazy"}} for number in range(90, 100)}
    results = run(Fake(skips), root=root)
    assert len(results.skips) == 51
    assert (results.skips[0].reason, results.skips[0].count) == ("lazy", 10)
    assert (results.skips[-1].reason, results.skips[-1].count) == ("one of 41 other reasons", 41)
    assert sum(skip.count for skip in results.skips) == results.counts.skipped == 100


def test_of_a_long_name_the_beginning_is_kept(tmp_path: Path) -> None:
    results = run(Fake({}, name="x" * 100_000), root=vectors(tmp_path, vector(0)))
    assert results.adapter.name == "x" * 500


def test_versions_outside_the_adapters_range(tmp_path: Path) -> None:
    """They are not put to it, unless that is what the test is about."""
    of_none = vector(2, op="decode", version=9, result="invalid",
                     error={"class": "unsupported_version"})  # fmt: skip
    root = vectors(tmp_path, vector(1, version=7), of_none)
    fake = Fake({key(2, "d"): {"error": {"class": "unsupported_version"}}})
    results = run(fake, root=root)
    assert [request["version"] for request in fake.seen] == [9]
    assert (verdicts(results), results.pairs) == ((1, 0, 2), 1)
    assert [(skip.reason, skip.count) for skip in results.skips] == [
        ("the adapter does not have this version", 2)
    ]


def test_a_line_that_the_protocol_has_no_room_for(tmp_path: Path) -> None:
    long = vector(1, op="decode", hex="00" * (8 << 20))
    results = run(Fake({}), root=vectors(tmp_path, long, vector(2, op="decode")))
    assert verdicts(results) == (1, 0, 1)
    assert "longer than 16777216 bytes" in results.skips[0].reason


@pytest.mark.parametrize("name", ["fake", "kraftspec", "kraftspec-python"])
def test_of_our_own_the_class_and_the_offset_are_asked_too(tmp_path: Path, name: str) -> None:
    expected = [{"class": "truncated", "offset": 17}, {"class": "truncated", "offset": 3},
              {"class": "trailing", "offset": 17}, {"class": "truncated"}]  # fmt: skip
    tests = [
        vector(number, op="decode", result="invalid", error=error)
        for number, error in enumerate(expected)
    ]
    answers = {key(number, "d"): REFUSAL for number in range(len(tests))}
    results = run(Fake(answers, name=name), root=vectors(tmp_path, *tests))
    kinds = [] if name == "fake" else [(1, "offset"), (2, "class")]
    assert [(int(failure.id, 16), failure.kind) for failure in results.failures] == kinds
    assert results.counts.passed == 4 - len(kinds)


# ------------------------------------------------------------------------------------- selection


def test_shards_are_all_of_it_and_each_test_is_in_one(tmp_path: Path) -> None:
    root = vectors(tmp_path, *(vector(number) for number in range(40)))
    seen = []
    for number in (1, 2, 3):
        fake = Fake({})
        results = run(fake, root=root, shard=Shard(number, 3))
        assert results.selection.shard == f"{number}/3"
        assert results.tests >= 13
        seen += [request["id"] for request in fake.seen]
    assert sorted(seen) == sorted(key(number, way) for number in range(40) for way in "ed")


def test_a_seed_is_an_order_and_no_other_result(tmp_path: Path) -> None:
    root = vectors(tmp_path, *(vector(number) for number in range(40)))
    wrong = {key(number, "e"): {"hex": "00"} for number in (5, 3, 30)}
    orders, outcomes = [], []
    for seed in (None, 1, 1, 2):
        fake = Fake(wrong)
        results = run(fake, root=root, seed=seed)
        orders.append([request["id"] for request in fake.seen])
        outcomes.append((to_builtins(results.failures), to_builtins(results.messages)))
    assert orders[1] == orders[2] != orders[3] != orders[0]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[3])
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]
    assert results.selection.seed == 2


# ------------------------------------------------------------------------------------------ sets


def test_drafts_are_asked_for_by_their_set(tmp_path: Path) -> None:
    vectors(tmp_path, vector(1))
    vectors(tmp_path, vector(1), spec="kip-853")
    vectors(tmp_path, vector(1), spec="kip-996")
    fake = Fake({}, sets={"kip-853": {"VoteRequest": "0-2"}})
    seen: list[tuple[str, int, int]] = []
    results = run(fake, root=tmp_path, progress=lambda *call: seen.append(call))
    assert [request.get("spec") for request in fake.seen] == [None, None, "kip-853", "kip-853"]
    assert to_builtins(results.messages) == {
        "VoteRequest": {"2": counts(passed=2)},
        "kip-853/VoteRequest": {"2": counts(passed=2)},
        "kip-996/VoteRequest": {"2": counts(skipped=2)},
    }
    # Those that are skipped are not put to it, and not waited for.
    assert seen == [("4 passed, 0 failed, 0 skipped", 4, 4)]
    assert verdicts(run(fake, root=tmp_path, filters=["kip-996/vote"])) == (0, 0, 2)


def test_an_adapter_that_compiles_sets_is_given_them(tmp_path: Path) -> None:
    vectors(tmp_path, vector(1), spec="kip-853")
    loading = Loading({})
    assert verdicts(run(loading, root=tmp_path)) == (2, 0, 0)
    assert loading.loaded == ("kip-853", "kip-853")


# --------------------------------------------------------------------------------------- results


def test_results_are_of_their_schema(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    results = run(Fake({key(1, "e"): {"hex": "00"}}), root=vectors(tmp_path, vector(1)))
    plain = json.loads(json.dumps(to_builtins(results)))
    Draft202012Validator(SCHEMA).validate(plain)
    assert plain.pop("seconds") >= 0
    stats = plain.pop("stats")
    assert (stats["jobs"], stats["answered"]) == (1, 2)
    assert plain == {
        "schemaVersion": 1,
        "adapter": {
            "name": "fake", "language": "none", "version": "0", "spec": "kafka/4.3.1",
        },
        "pairs": 1,
        "tests": 1,
        "selection": {},
        "counts": counts(passed=1, failed=1),
        "messages": {"VoteRequest": {"2": counts(passed=1, failed=1)}},
        "failures": [{
            "spec": "kafka", "message": "VoteRequest", "version": 2, "id": f"{1:016x}",
            "direction": "encode", "family": "alone", "flags": [], "kind": "wrong",
            "detail": results.failures[0].detail, "path": "clusterId", "offset": 0,
            "wanted": HEX, "given": "00",
            "reproduce": f"kraftspec conform run --filter kafka/VoteRequest --filter id:{1:016x}",
        }],
        "unexpectedPasses": [],
        "known": [],
        "skips": [],
        "restarts": 0,
    }  # fmt: skip


# -------------------------------------------------------------------------------------- adapters


@pytest.mark.kafka
def test_adapters_by_name() -> None:
    assert isinstance(adapter_named("kafka"), KafkaAdapter)
    for name, options in (("kraftspec", []), ("kraftspec-python", ["--codec", "python"])):
        command = adapter_named(name).command
        assert command[0] == sys.executable
        assert command[3:] == ["adapter", *options]
    with pytest.raises(ValueError, match=r"no adapter 'java': .*kafka, .*kraftspec"):
        adapter_named("java")
    assert adapter_exec("my-adapter --flag 'two words'").command == [
        "my-adapter", "--flag", "two words",
    ]  # fmt: skip


def test_our_own_codec_behind_a_pipe() -> None:
    results = run(adapter_named("kraftspec-python"), filters=["/VoteRe"])
    assert results.failures == []
    sets = {name.rpartition("/")[0] for name in results.messages}
    assert sets == {"", "kip-595", "kip-853", "kip-996"}
    expected: Counter[str] = Counter()
    for path in vectors_root().glob("*/VoteRe*.json"):
        expected.update(vector["op"] for vector in json.loads(path.read_bytes())["tests"])
    once = expected["encode"] + expected["decode"]
    assert verdicts(results) == (2 * expected["roundtrip"] + once, 0, 0)
    assert (results.adapter.name, results.adapter.language) == ("kraftspec-python", "python")
