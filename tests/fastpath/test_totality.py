"""Any bytes give a value or a ``CodecError``, any value bytes or a ``CodecError``.

What is accepted is what would be written. The bytes and values are the golden vectors of every
message and version, damaged.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.interpret import Decoder
from kraftspec.fastpath.message import Message

from .messages import (
    FILES,
    by_straight_line,
    exactly,
    message_class,
    put_by_interpreter,
    put_by_straight_line,
    vectors_of,
)

STEPS = 20  # damaged inputs an example of hypothesis; the deep profile makes 5,000 examples
MUTANTS_PER_PAIR = 8
HEX_MAX = 4_000  # a longer vector is one long payload, and damage falls into it
BYTES = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


class Noticing(Decoder):
    """Notes whether a tagged field held, on the wire, the default that it is left out for."""

    given_defaults = 0

    def _tags(self, known: dict[int, Any], later: tuple[int, ...], values: dict[str, Any]) -> None:
        super()._tags(known, later, values)
        if known:
            # Which struct this is, is known by the fields it has: make it with none of them set.
            owner = next(
                layout for layout in self.layouts if layout[3] and layout[3][0] in known.values()
            )
            unset = self.make(owner[0], {})
            for entry in known.values():
                if entry[2] in values:
                    value, default = values[entry[2]], getattr(unset, entry[2])
                    self.given_defaults += value == default


def within(data: bytes, error: CodecError) -> None:
    assert error.offset is not None
    assert 0 <= error.offset <= len(data)


def hold(cls: type[Message], data: bytes, version: int) -> str:
    """Decode bytes in every way, and hold the ways against each other; return what came of it."""
    codec = cls.CODEC
    decoder = Noticing(data, 0, codec.layouts, codec.make)
    rendered = by_straight_line(cls, data, version)
    try:
        cls.decode(data, version, lenient=True)
    except CodecError as error:
        within(data, error)
    try:
        value = cls.decode(data, version)
    except CodecError as error:
        within(data, error)
        refused = str(error.error_class)
    else:
        refused = ""
    if refused:
        assert rendered is None, "the straight-line code accepts what the interpreter refuses"
        return refused
    assert rendered is not None, "the interpreter accepts what the straight-line code refuses"
    interpreted = decoder.struct(codec.layout(version))
    assert decoder.at == len(data)
    assert exactly(interpreted.to_json(version)) == exactly(value.to_json(version))
    assert exactly(rendered.to_json(version)) == exactly(value.to_json(version))
    encoded = value.encode(version)
    if decoder.given_defaults:
        # Legal, though no encoder writes it: the field is left out when it is written again.
        assert len(encoded) < len(data)
        again = cls.decode(encoded, version)
        assert exactly(again.to_json(version)) == exactly(value.to_json(version))
        assert again.encode(version) == encoded
        return "default given"
    assert encoded == data
    return "accepted"


def damaged(data: bytes, kind: int, where: int, byte: int) -> bytes:
    """Return ``data`` with one byte changed, put in or taken out, or with its end cut off."""
    at = where % (len(data) + 1)
    match kind:
        case 0:
            return data[:at] + bytes((byte,)) + data[at + 1 :]
        case 1:
            return data[:at] + bytes((byte,)) + data[at:]
        case 2:
            return data[:at] + data[at + 1 :]
        case 3:
            return data[:at]
    return data[:at] + data[at : at + 1 + byte % 9] + data[at:]


@pytest.mark.parametrize("name", FILES)
def test_damaged_vectors(name: str) -> None:
    cls = message_class(name)
    random = Random(zlib.crc32(name.encode()))
    by_version: dict[int, list[str]] = {}
    for test in vectors_of(name):
        if len(test["hex"]) <= HEX_MAX:
            by_version.setdefault(test["version"], []).append(test["hex"])
    for version, texts in by_version.items():
        for _ in range(MUTANTS_PER_PAIR):
            data = bytes.fromhex(random.choice(texts))
            for _ in range(random.choice((1, 1, 2))):
                byte = random.choice((*BYTES, random.randrange(256)))
                data = damaged(data, random.randrange(5), random.randrange(1 << 16), byte)
            hold(cls, data, version)


step = st.tuples(
    st.integers(0, 4), st.integers(0, 4000), st.sampled_from(BYTES) | st.integers(0, 255)
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from(FILES), st.integers(0), st.lists(step, min_size=STEPS, max_size=STEPS))
def test_vectors_damaged_more_and_more(
    name: str, which: int, steps: list[tuple[int, int, int]]
) -> None:
    tests = vectors_of(name)
    test = tests[which % len(tests)]
    start = data = bytes.fromhex(test["hex"])
    for number, (kind, where, byte) in enumerate(steps):
        if number % 4 == 0:  # repeated damage is rejected at the beginning and shows no more
            data = start
        data = damaged(data, kind, where, byte)
        hold(message_class(name), data, test["version"])


@given(st.sampled_from(FILES), st.integers(0), st.binary(max_size=200))
def test_bytes_of_no_sense(name: str, which: int, data: bytes) -> None:
    tests = vectors_of(name)
    hold(message_class(name), data, tests[which % len(tests)]["version"])


WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


def given_defaults(cls: type[Message], version: int) -> Iterator[tuple[str, bytes]]:
    """Yield (tagged field, the message's defaults with that field put in by hand)."""
    plain = cls().encode(version)
    assert plain[-1:] == b"\0"  # no tagged fields
    for entry in cls.CODEC.layouts[cls.CODEC.plans[version]][3]:
        tag, name, wire, default = entry[0], entry[1], entry[3], entry[6]
        if wire in WIDTHS and isinstance(default, int):
            body = default.to_bytes(WIDTHS[wire], "big", signed=True)
        elif wire == "compact_array" and default == ():
            body = b"\1"
        elif wire.startswith("compact_") and default is None:
            body = b"\0"
        else:
            continue
        yield name, plain[:-1] + bytes((1, tag, len(body))) + body


def test_a_default_given_on_the_wire_is_read_and_not_written() -> None:
    seen = set()
    for name in FILES:
        cls = message_class(name)
        for version in cls.FLEXIBLE_VERSIONS:
            try:
                cases = list(given_defaults(cls, version))
            except CodecError:
                continue  # a field whose default is null, and which must not be null
            for field, data in cases:
                assert hold(cls, data, version) == "default given"
                assert cls.decode(data, version) == cls()
                seen.add((name, field))
    assert {
        ("kafka/ApiVersionsResponse", "finalizedFeaturesEpoch"),
        ("kafka/ApiVersionsResponse", "supportedFeatures"),
        ("kafka/FetchRequest", "clusterId"),
        ("kafka/PartitionRecord", "eligibleLeaderReplicas"),
        ("kip-853/FetchRequest", "clusterId"),
    } <= seen
    assert len(seen) >= 20


# ------------------------------------------------------------------------------- values, damaged

WRONG_PER_PAIR = 12
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 127, 128, 1 << 15, 1 << 31, 1 << 63, 1 << 70, 0.0, 1.5,
    float("nan"), "", "x", "\ud800", "x" * 40_000, b"", bytes(16), b"x", bytearray(b"x"),
    memoryview(b"x"), memoryview(b"abcd")[::2], uuid.UUID(int=1), (), [], [None], ("x",), [1],
    [b"x"], [bytes(16)], {}, {"x": 1}, object(), range(3),
    ((5, b""),), ((5, b""), (4, b"")), ((5, ""),), ((-1, b""),), ((0, b"x"),),
]  # fmt: skip


def structs_in(value: Any) -> Iterator[Any]:
    """Yield a message and every struct in it."""
    yield value
    for attribute in value.__struct_fields__:
        inner = getattr(value, attribute)
        for item in inner if isinstance(inner, list) else [inner]:
            if hasattr(item, "__struct_fields__"):
                yield from structs_in(item)


@pytest.mark.parametrize("name", FILES)
def test_odd_values(name: str) -> None:
    """One attribute anywhere is given any value: bytes or a ``CodecError``, the same either way."""
    cls = message_class(name)
    random = Random(zlib.crc32(name.encode()))
    for test in vectors_of(name):
        if test["family"] not in ("populated", "defaults"):
            continue
        version = test["version"]
        for _ in range(WRONG_PER_PAIR // 2):
            value = cls.from_json(test["value"], version)
            owner = random.choice(list(structs_in(value)))
            if not owner.__struct_fields__:
                continue
            attribute = random.choice(owner.__struct_fields__)
            setattr(owner, attribute, random.choice([*ODD, cls()]))
            try:
                encoded: bytes | None = value.encode(version)
            except CodecError:
                encoded = None
            assert put_by_interpreter(value, version) == encoded
            assert put_by_straight_line(value, version) == encoded
