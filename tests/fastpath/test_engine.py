"""The native engine against the pure codec, over all messages and versions of all sets."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from tests.conformance.fuzz.random_values import Values, mutated

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import plan_message
from kraftspec.fastpath.errors import CodecError
from kraftspec.specs import specs_root

from .engine_twins import engine, hold_decode, hold_encode, same
from .messages import FILES as VECTOR_FILES
from .messages import message_class, vectors_of
from .test_totality import ODD, structs_in

# More under HYPOTHESIS_PROFILE=deep: 2.2 million changed inputs, for minutes.
DEEP = not settings().derandomize
VALUES_PER_PAIR = 40 if DEEP else 2
MUTANTS_PER_MESSAGE = 7_500 if DEEP else 40
ODD_PER_MESSAGE = 400 if DEEP else 12
ERRORS_HELD = 0.05 if DEEP else 0.25  # Part of the refusals whose place is held too: it is slow.
MUTATED_HEX_MAX = 4_000  # Damage of a longer one falls into a payload.


def random_of(name: str) -> Random:
    return Random(None if DEEP else zlib.crc32(name.encode()))


@cache
def specs() -> dict[str, Spec]:
    """Return the spec of each ``set/Message``."""
    return {
        f"{message_set.name}/{spec.name}": spec
        for message_set in specs_sets(specs_root(), Path(), "kraftspec.generated")
        for spec in read_set(message_set).values()
    }


FILES = [name for name in VECTOR_FILES if name in specs()]


def test_every_plan_of_every_set_compiles() -> None:
    pairs = 0
    for name in specs():
        cls = message_class(name)
        for version in cls.CODEC.plans:
            cls.CODEC.programs.compile(version)
            pairs += 1
    assert pairs == 917


@pytest.mark.parametrize("name", FILES)
def test_golden_vectors_never_make_it_give_up(name: str) -> None:
    cls = message_class(name)
    for test in vectors_of(name):
        version, data = test["version"], bytes.fromhex(test["hex"])
        value = cls.from_json(test["value"], version)
        assert engine.try_encode(value, version) == data, test["id"]
        read = engine.try_decode(cls, data, version)
        assert read is not None, test["id"]
        assert engine.try_encode(read, version) == data, test["id"]
        assert hold_decode(cls, data, version)
        assert b"".join(read.encode_parts(version)) == data
        part, end = cls.decode_from(b"\xee" + data + b"\xee", 1, version)
        owned = cls.decode(data, version, copy=True)
        assert same(owned, cls.decode_from(bytearray(data), 0, version, copy=True)[0])
        assert (part.encode(version), end) == (data, 1 + len(data))
        buffer = bytearray(len(data) + 2)
        assert read.encode_into(buffer, 1, version) == 1 + len(data)
        assert buffer == b"\0" + data + b"\0"


@pytest.mark.parametrize("name", FILES)
def test_random_values_and_changed_bytes(name: str) -> None:
    cls, spec, random = message_class(name), specs()[name], random_of(name)
    values = Values(random)
    donors = [
        (test["version"], bytes.fromhex(test["hex"]))
        for test in vectors_of(name)
        if len(test["hex"]) <= MUTATED_HEX_MAX
    ]
    for version in spec.valid_versions:
        plan = plan_message(spec, version).struct
        for _ in range(VALUES_PER_PAIR):
            value = cls.from_json(values.struct(plan), version)
            assert hold_encode(value, version) == "encoded"
            data = value.encode(version)
            assert hold_decode(cls, data, version)
            donors.append((version, data))
    for _ in range(MUTANTS_PER_MESSAGE):
        version, data = random.choice(donors)
        if random.random() < 0.1:  # Bytes of one version read as another are a change too.
            version = random.choice(donors)[0]
        hold_decode(cls, mutated(random, data), version, random.random() < ERRORS_HELD)


@pytest.mark.parametrize("name", FILES)
def test_odd_values(name: str) -> None:
    cls, random = message_class(name), random_of(name)
    tests = [test for test in vectors_of(name) if test["family"] in ("populated", "defaults")]
    for _ in range(ODD_PER_MESSAGE if tests else 0):
        test = random.choice(tests)
        value = cls.from_json(test["value"], test["version"])
        owner = random.choice(list(structs_in(value)))
        if not owner.__struct_fields__:
            continue
        attribute, unusual = random.choice(owner.__struct_fields__), random.choice([*ODD, cls()])
        setattr(owner, attribute, unusual)
        outcome = hold_encode(value, test["version"])
        assert outcome != "left", (attribute, unusual)


def test_a_version_that_is_not_there() -> None:
    cls = message_class("kafka/VoteRequest")
    versions: list[Any] = [-1, 3, 1 << 40, 1 << 80, "2", None, 1.5]
    for version in versions:
        with pytest.raises(CodecError, match="VoteRequest has versions 0 to 2"):
            cls().encode(version)
        with pytest.raises(CodecError, match="VoteRequest has versions 0 to 2"):
            cls.decode(b"", version)
    assert cls().encode(2.0) == cls().encode(2)  # type: ignore[arg-type]  # a key of the dict
