"""All messages and versions of all sets, random values and random bytes, against Kafka's classes.

A few for each pair here; hundreds with ``HYPOTHESIS_PROFILE=deep``, from a new seed each time.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.harness import decode_request, encode_request
from kraftspec.conformance.java import KafkaAdapter
from kraftspec.conformance.run import value_difference
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.plan import FieldLayout, Layout
from kraftspec.fastpath.values import from_json
from kraftspec.specs import specs_root

from .peers import KAFKA, ask, difference, effort, seed
from .random_values import Lacking, Values, lacking, mutated

pytestmark = pytest.mark.java

VALUES_PER_PAIR = 4
MUTANTS_PER_MESSAGE = 8
MUTATED_HEX_MAX = 4_000  # Longer vectors are lengths; a change of theirs is mostly in a payload.

Pair = tuple[str, Spec, type[Message]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with KafkaAdapter() as adapter:
        for message_set in specs_sets(specs_root(), Path(), ""):
            if message_set.name != KAFKA:
                adapter.load(message_set.name, directory=message_set.directory)
        yield adapter


def messages() -> Iterator[Pair]:
    """Yield (set, spec, class) of every message that has versions."""
    for message_set in specs_sets(specs_root(), Path(), "kraftspec.generated"):
        package = importlib.import_module(message_set.package)
        for spec in read_set(message_set).values():
            if not spec.valid_versions.empty:
                yield message_set.name, spec, getattr(package, spec.name)


def report(found: list[str], count: int, start: int) -> None:
    """Print what was held, and fail with the first differences."""
    print(f"seed {start}: {count} held, {len(found)} differ")
    assert not found, f"seed {start}, {len(found)} of {count}:\n" + "\n".join(found[:20])


def test_random_values_are_the_same_bytes_and_json(kafka: KafkaAdapter) -> None:
    start = seed()
    values = Values(Random(start))
    found: list[str] = []
    count = pairs = 0
    for set_name, spec, cls in messages():
        cases = []
        for version in spec.valid_versions:
            plan = plan_message(spec, version).struct
            cases += [(version, values.struct(plan)) for _ in range(VALUES_PER_PAIR * effort())]
            pairs += 1
        for answer in ask(kafka, set_name, spec.name, cases):
            count += 1
            if where := difference(cls, answer):
                found.append(f"{set_name}/{spec.name} v{answer.version} {answer.value}: {where}")
    assert pairs == 895
    report(found, count, start)


def test_mutated_bytes_get_kafkas_verdict(kafka: KafkaAdapter) -> None:
    """Lenient decode is Kafka's; what strict decode accepts, Kafka accepts as the same value."""
    start = seed()
    random = Random(start)
    classes = {(set_name, spec.name): cls for set_name, spec, cls in messages()}
    found: list[str] = []
    count = 0
    for set_name, file in read_vectors(vectors_root()):
        cls = classes[set_name, file.message]
        tests = [test for test in file.tests if test.hex and len(test.hex) < MUTATED_HEX_MAX]
        cases = []
        for test in random.choices(tests, k=MUTANTS_PER_MESSAGE * effort()):
            # Bytes of one version read as another are a mutation too.
            donor = random.choice(tests) if random.random() < 0.1 else test
            cases.append((test.version, mutated(random, bytes.fromhex(str(donor.hex)))))
        spec = None if set_name == KAFKA else set_name
        replies = kafka.run(
            decode_request(str(at), file.message, version, data.hex(), spec)
            for at, (version, data) in enumerate(cases)
        )
        for (version, data), reply in zip(cases, replies, strict=True):
            count += 1
            if where := verdict_difference(cls, version, data, reply):
                found.append(f"{set_name}/{file.message} v{version} {data.hex()}: {where}")
    report(found, count, start)


def verdict_difference(cls: type[Message], version: int, data: bytes, reply: dict[str, Any]) -> str:
    """Say how our decoders and Kafka part over bytes."""
    theirs = reply.get("value")
    strict, why = attempt(lambda: cls.decode(data, version).to_json(version))
    lenient, why_lenient = attempt(lambda: cls.decode(data, version, lenient=True).to_json(version))
    if (lenient is None) != (theirs is None):
        return f"lenient {lenient or why_lenient}, Kafka {reply}"
    if theirs is not None and (where := value_difference(theirs, lenient)):
        return f"lenient decode: {where}"
    if strict is not None and (where := value_difference(theirs, strict)):
        return f"strict decode: {where}"
    try:
        fast = cls.CODEC.decoders[version](data, 0)[1] == len(data)
    except Exception:
        fast = False  # Straight-line code refuses by any exception.
    return "" if fast == (strict is not None) else f"straight-line {fast}, interpreter {why}"


def attempt(decode: Callable[[], Any]) -> tuple[Any, CodecError | None]:
    """Return the value and no error, or None and the error; any other exception is a failure."""
    try:
        return decode(), None
    except CodecError as error:
        return None, error


def test_fields_that_a_version_lacks(kafka: KafkaAdapter) -> None:
    """Each such field, everywhere it could be, set to some value: dropped or refused, as Kafka."""
    start = seed()
    values = Values(Random(start), unknown_tags=False)
    found: list[str] = []
    count = refused = 0
    for set_name, spec, cls in messages():
        spec_name = None if set_name == KAFKA else set_name
        cases = [
            (version, field, field.value(values, plan_message(spec, version).struct),
             values.field(field.field, 0))
            for version in spec.valid_versions
            for field in lacking(spec, version)
            for _ in range(effort())
        ]  # fmt: skip
        objects = []
        for version, field, value, extra in cases:
            message = cls.from_json(value, version)
            give(cls, message, field, extra)
            objects.append(message)
            field.inside(value)[field.absent.name] = extra
        replies = kafka.run(
            encode_request(str(at), spec.name, version, value, spec_name)
            for at, (version, _, value, _) in enumerate(cases)
        )
        for (version, field, _, extra), message, reply in zip(cases, objects, replies, strict=True):
            count += 1
            made, error = attempt(partial(message.encode, version))
            refused += made is None
            theirs = reply.get("hex", reply.get("error", {}).get("class"))
            ours = str(error.error_class) if made is None and error else made.hex()
            if ours != theirs:
                where = f"{set_name}/{spec.name} v{version} {field.absent.name}={extra!r}"
                found.append(f"{where}: ours {error or ours}, Kafka's {reply}")
    assert refused > count // 10
    report(found, count, start)


def give(cls: type[Message], message: Any, field: Lacking, extra: object) -> None:
    """Set the field in the object, whatever the version says."""
    codec = cls.CODEC
    inner = message
    for step in field.path:
        inner = getattr(inner, step.attr)
        inner = inner[0] if isinstance(inner, list) else inner
    number = codec.structs.index(type(inner))
    known: Iterator[FieldLayout] = (
        entry
        for candidate in codec.layouts
        if candidate[0] == number
        for entry in (*candidate[2], *(tagged[1:6] for tagged in candidate[3]))
    )
    layout = next(entry for entry in known if entry[0] == field.absent.name)
    alone: Layout = (number, False, (layout,), (), (), ())
    read = from_json(codec.layouts, alone, {field.absent.name: extra}, codec.make)
    setattr(inner, field.absent.attr, getattr(read, field.absent.attr))
