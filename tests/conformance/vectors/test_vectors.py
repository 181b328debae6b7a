"""The committed vectors as files: their form, their reach, and where they come from."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema_rs import validator_for

from kraftspec.codegen.plan import plan_message
from kraftspec.codegen.reader import read_message
from kraftspec.conformance import bugs, vectors
from kraftspec.conformance.making.families import candidates
from kraftspec.conformance.making.make import LONG
from kraftspec.specs import kafka_release, specs_root

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/vectors.schema.json").read_text())
SETS = ("kafka", "kip-595", "kip-853", "kip-996")
BATCHES = vectors.vectors_root() / "kafka/RecordBatch.json"  # There is no spec of a batch.
UNKNOWN = vectors.vectors_root() / "kafka/NoSuchMessage.json"
ALL_PATHS = sorted(path for spec in SETS for path in vectors.vectors_root().glob(f"{spec}/*.json"))
PATHS = [path for path in ALL_PATHS if path not in (BATCHES, UNKNOWN)]
# Apache Kafka 4.4.0's own schemas: 286 messages, of which 8 have no version left.
KAFKA_PAIRS = 744
KAFKA_MESSAGES = 278
FEW = 8  # tests a pair has at least


@cache
def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_bytes())
    return loaded


def all_tests(paths: Iterable[Path] = PATHS) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in paths:
        for test in load(path)["tests"]:
            yield path.parent.name, path.stem, test


def valid_tests() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for spec, message, test in all_tests():
        if test["result"] == "valid":
            yield spec, message, test


def specs() -> dict[tuple[str, str], Path]:
    """Return the spec file of each message of each set."""
    return {
        (name, re.sub(r'.*"name": "(\w+)".*', r"\1", _line(path, "name"))): path
        for name in SETS
        for path in (specs_root() / name).rglob("*.json")
    }


def _line(path: Path, key: str) -> str:
    """Return the line of a message's own key, which the specs' normal form indents by two."""
    return next(line for line in path.read_text().splitlines() if line.startswith(f'  "{key}":'))


def valid_versions(path: Path) -> range:
    match = re.search(r'"validVersions": "(\d+)(?:-(\d+))?"', _line(path, "validVersions"))
    return range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("spec", SETS)
def test_every_file_is_of_the_schema(spec: str) -> None:
    validator = validator_for(SCHEMA)  # In Rust: the other takes a minute for all tests.
    chosen = [path for path in ALL_PATHS if path.parent.name == spec]
    assert chosen
    for path in chosen:
        errors = [error.message for error in validator.iter_errors(load(path))]
        assert errors == [], path.name
        assert load(path)["message"] == path.stem
        assert load(path).get("spec", "kafka") == spec


def test_every_pair_of_every_set_is_there() -> None:
    expected = {
        (spec, message, version)
        for (spec, message), path in specs().items()
        for version in valid_versions(path)
    }
    assert sum(spec == "kafka" for spec, _, _ in expected) == KAFKA_PAIRS
    assert len({message for spec, message, _ in expected if spec == "kafka"}) == KAFKA_MESSAGES
    assert {(spec, message, test["version"]) for spec, message, test in valid_tests()} == expected
    others = {
        (spec, message, test["version"])
        for spec, message, test in all_tests()
        if (test.get("error") or {}).get("class") != "unsupported_version"
    }
    assert others == expected
    lacking = Counter(
        (spec, message)
        for spec, message, test in all_tests()
        if (spec, message, test["version"]) not in expected
    )
    assert lacking.keys() == {(spec, message) for spec, message, _ in expected}
    assert set(lacking.values()) == {6}  # Three versions, both ways.


def test_no_pair_is_left_with_a_handful() -> None:
    counts: Counter[tuple[str, str, int]] = Counter()
    valid: Counter[tuple[str, str, int]] = Counter()
    fields: dict[tuple[str, str, int], int] = {}
    for spec, message, test in all_tests():
        pair = spec, message, test["version"]
        counts[pair] += 1
        if test["result"] == "valid":
            valid[pair] += 1
            fields[pair] = max(fields.get(pair, 0), len(test["value"]))
    assert min(counts[pair] for pair in valid) == FEW
    # A message of one boolean has no more values to try than the boolean has.
    few = {pair: count for pair, count in valid.items() if count < FEW}
    assert {pair for pair in few if fields[pair] > 2} == set()
    assert {pair for pair, count in few.items() if count < 4 and fields[pair]} == set()
    assert (len(few), len(valid)) == (40, 917)
    with_defaults = {
        (spec, message, test["version"])
        for spec, message, test in valid_tests()
        if test["family"] == "defaults"
    }
    assert with_defaults == valid.keys()


def test_ids_are_made_of_the_content_and_stand_once() -> None:
    seen = set()
    for spec, message, test in all_tests(ALL_PATHS):
        content = test.get("hex")
        if test["op"] == "encode":
            content = json.dumps(test["value"], separators=(",", ":"))
        hashed = hashlib.sha256(f"{message}/{test['version']}/{test['op']}/{content}".encode())
        assert test["id"] == hashed.hexdigest()[:16]
        assert (spec, test["id"]) not in seen
        seen.add((spec, test["id"]))


def test_every_family_is_there() -> None:
    counts = Counter(test["family"] for _, _, test in valid_tests())
    assert set(counts) == {
        "defaults", "populated", "empty", "null", "multi-element", "boundaries", "alone",
        "tagged", "unknown-tags", "strings", "lengths", "uuid", "records", bugs.FAMILY,
    }  # fmt: skip


# ------------------------------------------------------------- both states of a field, from specs


def holds(versions: str | None, version: int) -> bool:
    """Whether a range of a spec (``2+``, ``0-3``, ``4``, ``none``) holds a version."""
    first, _, last = (versions or "none").replace("+", "-32767").partition("-")
    return first != "none" and int(first) <= version <= int(last or first)


def states(spec: dict[str, Any], version: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each nullable and each tagged field of a version, read from its JSON."""
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}

    def walk(
        fields: list[dict[str, Any]], path: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        for entry in fields:
            if not holds(entry.get("versions", entry.get("taggedVersions")), version):
                continue
            here = (*path, entry["name"][0].lower() + entry["name"][1:])
            if holds(entry.get("nullableVersions"), version):
                yield here, "nullable"
            if holds(entry.get("taggedVersions"), version):
                yield here, "tagged"
            yield from walk(
                common.get(entry["type"].removeprefix("[]"), entry.get("fields", [])), here
            )

    return walk(spec["fields"], ())


def seen(
    value: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a value shows of its fields: that they are null, or other than null."""
    for name, item in value.items():
        here = (*path, name)
        yield here, "null" if item is None else "other"
        for inner in item if isinstance(item, list) else [item]:
            if isinstance(inner, dict):
                yield from seen(inner, here)


def absences(value: dict[str, Any], names: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return which of the fields a value lacks though their struct is there."""
    lacking: set[tuple[str, ...]] = set()

    def look(inner: dict[str, Any], path: tuple[str, ...]) -> None:
        lacking.update(name for name in names if name[:-1] == path and name[-1] not in inner)
        for key, item in inner.items():
            for element in item if isinstance(item, list) else [item]:
                if isinstance(element, dict):
                    look(element, (*path, key))

    look(value, ())
    return lacking


def test_every_nullable_and_every_tagged_field_is_there_in_both_states() -> None:
    count: Counter[str] = Counter()
    for (set_name, message), path in specs().items():
        file = vectors.vectors_root() / set_name / f"{message}.json"
        spec = json.loads(path.read_text())
        shown: dict[int, set[Any]] = {}
        expected = {version: set(states(spec, version)) for version in valid_versions(path)}
        for test in load(file)["tests"] if file.exists() else ():
            if test["result"] == "valid":
                states_ = shown.setdefault(test["version"], set())
                states_.update(seen(test["value"]))
                tagged = {name for name, kind in expected[test["version"]] if kind == "tagged"}
                states_.update((name, "absent") for name in absences(test["value"], tagged))
        for version, fields in expected.items():
            for name, kind in fields:
                count[kind] += 1
                where = f"{set_name}/{message} v{version} {'.'.join(name)}"
                if kind == "nullable":
                    assert (name, "null") in shown[version], where
                    assert (name, "other") in shown[version], where
                else:
                    assert (name, "absent") in shown[version], where
                    assert {(name, "null"), (name, "other")} & shown[version], where
    assert count == {"nullable": 690, "tagged": 215}


def test_sources_are_the_specs_of_today() -> None:
    by_message = specs()
    stale = [
        f"{path.parent.name}/{path.stem}"
        for path in PATHS
        if load(path)["source"]["schemaSha256"]
        != hashlib.sha256(by_message[path.parent.name, path.stem].read_bytes()).hexdigest()
    ]
    assert stale == []
    for path in PATHS:
        source = load(path)["source"]
        assert source["kafka"] == kafka_release()
        assert source.get("generator", False) == (path.parent.name != "kafka")


# --------------------------------------------------------------------- reading and writing files


HEAD = {
    "schemaVersion": 1, "message": "M",
    "source": {"kafka": "4.3.1", "schemaSha256": "0" * 64}, "notes": {},
}  # fmt: skip
TEST = {
    "id": "0123456789abcdef", "version": 3, "op": "roundtrip", "family": "alone",
    "value": {"text": "é\u2028"}, "hex": "00", "result": "valid",
}  # fmt: skip


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "mine/M.json"
    assert vectors.write_vectors(path, HEAD, [TEST, TEST])
    assert not vectors.write_vectors(path, HEAD, [TEST, TEST])
    assert path.read_text() == (
        '{"schemaVersion":1,"message":"M","source":{"kafka":"4.3.1","schemaSha256":"'
        + "0" * 64
        + '"},"notes":{},"tests":[\n'
        + ",\n".join(
            ['{"id":"0123456789abcdef","version":3,"op":"roundtrip","family":"alone",'
             '"value":{"text":"\\u00e9\\u2028"},"hex":"00","result":"valid"}'] * 2
        )
        + "\n]}\n"
    )  # fmt: skip
    Draft202012Validator(SCHEMA).validate(json.loads(path.read_text()))
    assert vectors.write_vectors(path, HEAD, [TEST])


def test_files_are_read_by_a_part_of_their_path(tmp_path: Path) -> None:
    for name in ("one/Alpha", "one/Beta", "two/Alpha"):
        head = {**HEAD, "spec": "two"} if name == "two/Alpha" else HEAD
        vectors.write_vectors(tmp_path / f"{name}.json", head, [TEST])
    read = [(name, file.tests[0].value) for name, file in vectors.read_vectors(tmp_path, "ALPHA")]
    assert read == [("kafka", TEST["value"]), ("two", TEST["value"])]  # As the files say.
    assert [name for name, _ in vectors.read_vectors(tmp_path, "one/")] == ["kafka", "kafka"]
    assert len(list(vectors.read_vectors(tmp_path))) == 3
    assert list(vectors.read_vectors(tmp_path, "gamma")) == []


def test_ids_by_hand() -> None:
    digest = hashlib.sha256(b"VoteRequest/2/roundtrip/00").hexdigest()
    assert vectors.test_id("VoteRequest", 2, "roundtrip", "00") == digest[:16]


def test_json_of_a_line_has_no_surprises() -> None:
    assert vectors.dumps({"b": 1, "a": "é"}) == '{"b":1,"a":"\\u00e9"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        vectors.dumps(float("nan"))


# ------------------------------------------------------------------------------------- the values


@pytest.mark.soak
@pytest.mark.parametrize("spec", SETS)
def test_the_values_are_those_of_the_families(spec: str) -> None:
    """What is committed is what the plans of today call for: no more, and nothing left out."""
    for (name, message), path in specs().items():
        if name != spec:
            continue
        committed: dict[int, set[str]] = {}
        known: dict[int, set[str]] = {}
        file = vectors.vectors_root() / spec / f"{message}.json"
        tests = load(file)["tests"] if file.exists() else ()
        for test in (test for test in tests if test["result"] == "valid"):
            committed.setdefault(test["version"], set()).add(vectors.dumps(test["value"]))
            known.setdefault(test["version"], set()).add(test["hex"])
        of_bugs = {vectors.dumps(test["value"]) for test in tests if test["family"] == bugs.FAMILY}
        read = read_message(path)
        cls = getattr(import_module(f"kraftspec.generated.{spec.replace('-', '_')}"), message)
        for version in read.valid_versions:
            long = message in LONG and version == read.valid_versions.highest
            expected = {
                vectors.dumps(candidate.value): candidate.value
                for candidate in candidates(plan_message(read, version), long=long)
            }
            assert committed[version] <= set(expected) | of_bugs
            for text in set(expected) - committed[version]:
                # Another value of the same bytes stands for it.
                again = cls.from_json(expected[text], version).encode(version).hex()
                assert again in known[version], text
