"""How far the vectors reach, field by field, read from the specs' own JSON.

What is asked of each type stands here a second time, so that the families of ``conformance`` are
not measured by themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.vectors.test_vectors import SETS, holds, specs, valid_versions

from kraftspec.conformance.vectors import vectors_root
from kraftspec.specs import specs_root

Name = tuple[str, ...]
Facts = set[Any]

INTEGERS = {
    "int8": (-128, 127), "int16": (-32768, 32767), "uint16": (0, 65535),
    "int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip
UUIDS = {"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "_____________________w"}
NOT_FINITE = {"0x7ff0000000000000", "0xfff0000000000000", "0x7ff8000000000000"}
SHORT = {("bytes", size) for size in (126, 127, 128)}


def fields(spec: dict[str, Any], version: int) -> Iterator[tuple[Name, str, bool]]:
    """Yield path, type and whether it may be null, of each field of a version."""
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}

    def walk(entries: list[dict[str, Any]], path: Name) -> Iterator[tuple[Name, str, bool]]:
        for entry in entries:
            if holds(entry.get("versions", entry.get("taggedVersions")), version):
                here = (*path, entry["name"][0].lower() + entry["name"][1:])
                yield here, entry["type"], holds(entry.get("nullableVersions"), version)
                element = entry["type"].removeprefix("[]")
                yield from walk(common.get(element, entry.get("fields", [])), here)

    return walk(spec["fields"], ())


def facts(value: Any) -> Iterator[Any]:
    """Yield what a vector shows by holding a value."""
    if isinstance(value, list):
        yield "count", min(len(value), 2)
    elif isinstance(value, str):
        yield value if len(value) < 40 else "long"
        yield "text", len(value.encode())
        yield "bytes", len(value) * 3 // 4 - value.count("=")
        if not value.isascii():
            yield "multi-byte"
    elif not isinstance(value, dict):
        yield value if value is None else (type(value).__name__, value)


def shown(value: dict[str, Any], facts_of: dict[Name, Facts], path: Name = ()) -> None:
    """Collect the facts of all fields of a value."""
    for name, item in value.items():
        here = (*path, name)
        facts_of.setdefault(here, set()).update(facts(item))
        for inner in item if isinstance(item, list) else [item]:
            if isinstance(inner, dict):
                shown(inner, facts_of, here)


def required_facts(kind: str, nullable: bool) -> Facts:
    """Return the facts that the vectors of a field of that type must show."""
    null: Facts = {None} if nullable else set()
    if kind.startswith("[]"):
        return null | {("count", 0), ("count", 1), ("count", 2)}
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        return {("int", number) for number in (low, low + 1, high - 1, high, -1 if low else 1)}
    match kind:
        case "bool":
            return {("bool", True), ("bool", False)}
        case "string":
            return null | {"", "multi-byte", ("text", 126), ("text", 127), ("text", 128)}
        case "bytes":
            return null | {""} | SHORT
        case "records":
            return null | {"", "long"}  # Nothing, and a batch.
        case "uuid":
            return set(UUIDS)
        case "float64":
            return {("float", -0.0), ("float", 5e-324), *NOT_FINITE}
    return null


@pytest.mark.parametrize("spec_set", SETS)
def test_every_field_is_shown_at_its_edges(spec_set: str) -> None:
    count: Counter[str] = Counter()
    for (set_name, message), path in specs().items():
        if set_name != spec_set:
            continue
        file = vectors_root() / set_name / f"{message}.json"
        tests = json.loads(file.read_bytes())["tests"] if file.exists() else []
        spec = json.loads(path.read_text())
        for version in valid_versions(path):
            facts_of: dict[Name, Facts] = {}
            for test in tests:
                if test["version"] == version and test["result"] == "valid":
                    shown(test["value"], facts_of)
            for name, kind, nullable in fields(spec, version):
                count[kind] += 1
                lacking = required_facts(kind, nullable) - facts_of[name]
                # A tagged field that holds its default is not written down.
                is_default = {"", ("count", 0), ("bool", False), None, "AAAAAAAAAAAAAAAAAAAAAA"}
                if any(is_tagged(spec, name, version)):
                    lacking -= is_default
                where = f"{set_name}/{message} v{version} {'.'.join(name)}"
                assert lacking == set(), where
    assert count.total() > 100


@pytest.mark.parametrize("spec_set", SETS)
def test_every_field_that_must_not_be_null_is_null_in_some_bytes(spec_set: str) -> None:
    """At every version: a codec states for each field by itself whether it may be null."""
    count = 0
    for (set_name, message), path in specs().items():
        if set_name != spec_set:
            continue
        file = vectors_root() / set_name / f"{message}.json"
        tests = json.loads(file.read_bytes())["tests"] if file.exists() else []
        spec = json.loads(path.read_text())
        for version in valid_versions(path):
            nulls = {
                test["error"]["path"]
                for test in tests
                if (test["version"], test["op"]) == (version, "decode")
                and test["family"] == "null_for_non_nullable"
            }
            # Every array of structs has one element; null elements of arrays are more than asked.
            shown_null = {
                tuple(null.replace("[0]", "").split("."))
                for null in nulls
                if not null.endswith("[0]")
            }
            wanted = {
                name
                for name, kind, nullable in fields(spec, version)
                if not nullable
                and (kind.startswith("[]") or kind in ("string", "bytes", "records"))
            }
            assert shown_null == wanted, f"{set_name}/{message} v{version}"
            count += len(wanted)
    assert count > 20


def is_tagged(spec: dict[str, Any], name: Name, version: int) -> Iterator[bool]:
    """Tell of each field on the way to ``name`` whether it is tagged."""
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}
    entries = spec["fields"]
    for step in name:
        entry = next(e for e in entries if e["name"][0].lower() + e["name"][1:] == step)
        yield holds(entry.get("taggedVersions"), version)
        entries = common.get(entry["type"].removeprefix("[]"), entry.get("fields", []))


def test_longest_lengths_are_there() -> None:
    """Of 16,383 and 16,384 bytes, where a length takes a third byte, and the longest string."""
    lengths: Counter[int] = Counter()
    for name in ("VoteRequest", "SaslAuthenticateRequest", "DescribeGroupsRequest"):
        file = json.loads((vectors_root() / f"kafka/{name}.json").read_bytes())
        for test in file["tests"]:
            if test["result"] == "valid" and test["family"] == "lengths":
                facts_of: dict[Name, Facts] = {}
                shown(test["value"], facts_of)
                for field_facts in facts_of.values():
                    lengths.update(fact[1] for fact in field_facts if isinstance(fact, tuple))
    assert {16_383, 16_384, 32_767} <= set(lengths)


def test_tags_low_between_and_high_are_in_every_flexible_struct() -> None:
    for (set_name, message), path in specs().items():
        spec = json.loads(path.read_text())
        file = vectors_root() / set_name / f"{message}.json"
        tests = json.loads(file.read_bytes())["tests"] if file.exists() else []
        for version in valid_versions(path):
            if not holds(spec["flexibleVersions"], version):
                continue
            tags = [
                tuple(tag["tag"] for tag in test["value"]["_unknownTaggedFields"])
                for test in tests
                if (test["version"], test["result"]) == (version, "valid")
                and "_unknownTaggedFields" in test["value"]
            ]
            assert any(len(numbers) == 3 for numbers in tags), f"{set_name}/{message} v{version}"
            low, between, high = next(numbers for numbers in tags if len(numbers) == 3)
            assert low < 130 < between < high == 0x7FFF_FFFE


def test_the_specs_are_read() -> None:
    spec = json.loads((specs_root() / "kafka/clients/VoteRequest.json").read_text())
    types = {name: (kind, nullable) for name, kind, nullable in fields(spec, 2)}
    assert types["clusterId",] == ("string", True)
    assert types["topics", "partitions", "preVote"] == ("bool", False)
    assert ("topics", "partitions", "preVote") not in dict.fromkeys(
        name for name, _, _ in fields(spec, 1)
    )
