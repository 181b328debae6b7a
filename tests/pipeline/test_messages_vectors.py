"""Messages of every version as Arrow: the golden vectors, which Kafka wrote, say what is right.

A vector's value is compared with its row field by field, by schema files and not by plans: they
say which fields a version has, of what type, and what a tagged field is that was left out.
"""

from __future__ import annotations

from base64 import b64decode
from functools import cache
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from msgspec import UNSET

from kraftspec.codegen.model import Default, Field, Message, Struct
from kraftspec.codegen.reader import read_message
from kraftspec.conformance.raw.vectors import Test as Vector
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.pipeline.messages import arrow_type, decode_message
from kraftspec.specs import specs_root

TAGS = "_unknownTaggedFields"
SETS = ("kafka", "kip-595", "kip-853", "kip-996")


@cache
def specs(spec_set: str) -> dict[str, Message]:
    messages = map(read_message, (specs_root() / spec_set).rglob("*.json"))
    return {message.name: message for message in messages}


@cache
def vectors(spec_set: str) -> list[tuple[str, list[Vector]]]:
    result = []
    for name, file in read_vectors(vectors_root()):
        tests = [test for test in file.tests if test.hex is not UNSET]
        if name == spec_set and tests and file.message in specs(spec_set):
            result.append((file.message, tests))
    return result


class Row:
    """Says what the row of a value is, by the schema of its message."""

    def __init__(self, message: Message, version: int) -> None:
        self.message = message
        self.version = version

    def struct(self, struct: Struct, value: dict[str, Any]) -> dict[str, Any]:
        row = {}
        flexible = False
        for field in struct.fields:
            if not any(version in field.versions for version in self.message.valid_versions):
                continue
            there = self.version in field.versions
            row[field.json_name] = self.field(field, value) if there else None
        for version in self.message.valid_versions:
            flexible |= version in self.message.flexible_versions and version in struct.versions
        if flexible:
            tags = [(tag["tag"], bytes.fromhex(tag["hex"])) for tag in value.get(TAGS, ())]
            row[TAGS] = tags or None
        return row

    def field(self, field: Field, value: dict[str, Any]) -> Any:
        if field.json_name not in value:
            assert field.tag is not None
            assert self.version in field.tagged_versions
            return self.default(field, field.default)
        source_ = value[field.json_name]
        if field.type.array and source_ is not None:
            return [self.element(field, item) for item in source_]
        return self.element(field, source_)

    def default(self, field: Field, default: Default) -> Any:
        if isinstance(default, dict):
            return self.defaults(self.message.struct(field.type.element))
        if default == () and isinstance(default, tuple):
            return []
        if isinstance(default, bytes) and field.type.element == "uuid":
            return "A" * 22
        return default

    def defaults(self, struct: Struct) -> dict[str, Any]:
        """A struct that was left out: each of its fields that the version has at its default."""
        row = self.struct(struct, dict.fromkeys(field.json_name for field in struct.fields))
        for field in struct.fields:
            if self.version in field.versions:
                row[field.json_name] = self.default(field, field.default)
        return row

    def element(self, field: Field, value: Any) -> Any:
        if value is None:
            return None
        match field.type.element:
            case "bytes" | "records":
                return b64decode(value)
            case "float64":
                return float64(bytes.fromhex(value[2:]) if isinstance(value, str) else value)
            case name if field.type.struct:
                return self.struct(self.message.struct(name), value)
        return value


def float64(value: bytes | float) -> bytes:
    """The bits of a float, so that NaN is equal to itself."""
    return value if isinstance(value, bytes) else pack(">d", value)


def plain(value: Any) -> Any:
    """A row with floats as their bits and unknown tags, which pyarrow gives as pairs, unchanged."""
    if isinstance(value, float):
        return float64(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.soak
@pytest.mark.parametrize("spec_set", SETS)
def test_a_row_is_the_value_of_the_golden_vector(spec_set: str) -> None:
    pairs = set()
    for name, tests in vectors(spec_set):
        good = [test for test in tests if test.result == "valid" and test.value is not UNSET]
        if not good:
            continue
        message = specs(spec_set)[name]
        column = pa.array([bytes.fromhex(str(test.hex)) for test in good])
        versions = pa.array([test.version for test in good], pa.int16())
        built = decode_message(column, name, versions, spec_set=spec_set, mode="FAILFAST")
        built.validate(full=True)
        assert built.type == arrow_type(name, spec_set)
        for test, row in zip(good, built.to_pylist(), strict=True):
            assert row.pop("_version") == test.version
            assert test.value is not UNSET
            expected = Row(message, test.version).struct(message.top, test.value)
            assert plain(row) == expected, (name, test.version, test.id)
            pairs.add((name, test.version))
    every = {
        (message.name, version)
        for message in specs(spec_set).values()
        for version in message.valid_versions
    }
    assert pairs == every


@pytest.mark.parametrize("spec_set", SETS)
def test_a_bad_vector_is_null_and_its_error_stands_beside(spec_set: str) -> None:
    seen = 0
    for name, tests in vectors(spec_set):
        bad = [test for test in tests if test.result == "invalid" and test.op == "decode"]
        if not bad:
            continue
        column = pa.array([bytes.fromhex(str(test.hex)) for test in bad], pa.binary())
        versions = pa.array([test.version for test in bad], pa.int32())
        assert decode_message(column, name, versions, spec_set=spec_set).null_count == len(bad)
        built = decode_message(column, name, versions, spec_set=spec_set, errors=True)
        for test, row in zip(bad, built.to_pylist(), strict=True):
            why = row.pop("_error")
            assert not any(value is not None for value in row.values())
            assert test.error is not UNSET
            assert why["class"] == test.error.class_, (name, test.version, test.id)
            if test.error.offset is not UNSET:
                assert why["position"] == test.error.offset, (name, test.version, test.id)
            seen += 1
    assert seen > 20
