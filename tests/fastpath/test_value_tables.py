"""The quick readers and writers of JSON, compared with those that follow the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath import values
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.value_tables import Tables

from .messages import exactly, message_class

# Every message whose name has this in it: all wire types, tags, nulls and nested structs.
SAMPLE = ("Fetch", "VoteRe", "DescribeLogDirs", "ConsumerGroupHeartbeat", "Features", "Scram")
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.0, 2**31, 2**63, 10**40, "", "a", "AAAA", "0x7ff0000000000000", [], [None],
    {}, {"x": 1}, b"a",
)  # fmt: skip


def cases() -> Iterator[tuple[type[Any], int, dict[str, Any]]]:
    for spec, file in read_vectors(vectors_root()):
        if any(part in file.message for part in SAMPLE):
            cls = message_class(f"{spec}/{file.message}")
            for test in file.tests:
                if test.result == "valid" and isinstance(test.value, dict):
                    yield cls, test.version, test.value


def by_the_rules(cls: type[Any], version: int, value: Any) -> Any:
    codec = cls.CODEC
    return values.from_json(codec.layouts, codec.layout(version), value, codec.make)


def from_json(cls: type[Any], version: int, value: Any) -> Any:
    return cls.from_json(value, version)


def tables(cls: type[Any]) -> Tables:
    tables_ = cls.CODEC.tables
    assert isinstance(tables_, Tables)
    return tables_


def test_what_is_right_is_read_and_written_alike() -> None:
    """And hardly any of it by the rules: those are there for what is rare."""
    count = slow = 0
    for cls, version, value in cases():
        count += 1
        slowly = by_the_rules(cls, version, value)
        index = cls.CODEC.plans[version]
        try:
            assert tables(cls).reader(index)(value) == slowly
        except (TypeError, ValueError, KeyError):
            slow += 1
        layout = cls.CODEC.layout(version)
        reported = values.to_json(cls.CODEC.layouts, layout, slowly)
        assert exactly(tables(cls).writer(index)(slowly)) == exactly(reported)
    assert count > 1000
    assert slow < count / 100


def spoiled(value: Any) -> Iterator[Any]:
    """Yield a value with one part of it replaced, left out or added, for each part and way."""
    yield from ODD
    if isinstance(value, dict):
        for name, item in value.items():
            yield {key: other for key, other in value.items() if key != name}
            yield from ({**value, name: other} for other in spoiled(item))
        yield {**value, "more": 1}
        yield {**value, values.UNKNOWN_TAGS: [{"tag": 5}]}
        yield {**value, values.UNKNOWN_TAGS: None}
        yield {**value, values.UNKNOWN_TAGS: [{"tag": 10009, "hex": "00"}]}
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in spoiled(value[0]))


@pytest.mark.parametrize("family", ["populated", "unknown-tags", "null"])
def test_what_is_wrong_is_left_to_the_rules(family: str) -> None:
    """A quick reader that takes a value makes of it what the rules make of it."""
    taken = refused = 0
    for spec, file in read_vectors(vectors_root(), "kafka/"):
        if not any(part in file.message for part in SAMPLE):
            continue
        cls = message_class(f"{spec}/{file.message}")
        for test in [test for test in file.tests if test.family == family][:2]:
            assert isinstance(test.value, dict)
            read = tables(cls).reader(cls.CODEC.plans[test.version])
            for value in spoiled(test.value):
                try:
                    built = read(value)
                except Exception:
                    refused += 1
                    continue
                taken += 1
                assert built == by_the_rules(cls, test.version, value), value
    assert taken > 100
    assert refused > taken


def test_refusals_are_those_of_the_rules() -> None:
    cls = message_class("kafka/VoteRequest")
    for value in spoiled({"clusterId": None, "voterId": 1, "topics": []}):
        reported = []
        for read in (by_the_rules, from_json):
            try:
                reported.append(read(cls, 2, value))
            except CodecError as error:
                reported.append((error.error_class, error.path))
        assert reported[0] == reported[1]
