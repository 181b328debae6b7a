"""All messages and versions of all sets, random values and random bytes, against Kafka's classes.

A few for each pair here; hundreds with ``HYPOTHESIS_PROFILE=deep``, from a new seed each time.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.conformance.adapters.peers import (
    KAFKA,
    absent_differences,
    ask,
    difference,
    effort,
    seed,
    spec_of,
    verdict_difference,
)

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.adapters.harness import decode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.message import Message
from kraftspec.specs import specs_root

from .random_values import Values, mutated

pytestmark = pytest.mark.kafka

VALUES_PER_PAIR = 4
MUTANTS_PER_MESSAGE = 8
MUTATED_HEX_MAX = 4_000  # Longer vectors are lengths; a change of theirs is mostly in a payload.

Pair = tuple[str, Spec, type[Message]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
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


def report(differences: list[str], count: int, start: int) -> None:
    """Print what was held, and fail with the first differences."""
    print(f"seed {start}: {count} held, {len(differences)} differ")
    assert not differences, f"seed {start}, {len(differences)} of {count}:\n" + "\n".join(
        differences[:20]
    )


def test_random_values_are_the_same_bytes_and_json(kafka: KafkaAdapter) -> None:
    start = seed()
    values = Values(Random(start))
    differences: list[str] = []
    count = pairs = 0
    for set_name, spec, cls in messages():
        cases = []
        for version in spec.valid_versions:
            plan = plan_message(spec, version).struct
            cases += [(version, values.struct(plan)) for _ in range(VALUES_PER_PAIR * effort())]
            pairs += 1
        for answer in ask(kafka, set_name, spec.name, cases):
            count += "hex" in answer.encoded
            if where := difference(cls, answer):
                differences.append(
                    f"{set_name}/{spec.name} v{answer.version} {answer.value}: {where}"
                )
    assert (pairs, count) == (917, 917 * VALUES_PER_PAIR * effort())
    report(differences, count, start)


def test_mutated_bytes_get_kafkas_verdict(kafka: KafkaAdapter) -> None:
    """Lenient decode is Kafka's; what strict decode accepts, Kafka accepts as the same value."""
    start = seed()
    random = Random(start)
    classes = {(set_name, spec.name): cls for set_name, spec, cls in messages()}
    differences: list[str] = []
    count = 0
    for set_name, file in read_vectors(vectors_root()):
        if file.message in ("RecordBatch", "NoSuchMessage"):
            continue  # The one has a reader of its own, tested with it; the other is no message.
        cls = classes[set_name, file.message]
        tests = [
            test
            for test in file.tests
            if test.result == "valid" and test.hex and len(test.hex) < MUTATED_HEX_MAX
        ]
        cases = []
        for test in random.choices(tests, k=MUTANTS_PER_MESSAGE * effort()):
            # Bytes of one version read as another are a mutation too.
            donor = random.choice(tests) if random.random() < 0.1 else test
            cases.append((test.version, mutated(random, bytes.fromhex(str(donor.hex)))))
        replies = kafka.run(
            decode_request(str(at), file.message, version, data.hex(), spec_of(set_name))
            for at, (version, data) in enumerate(cases)
        )
        for (version, data), reply in zip(cases, replies, strict=True):
            count += 1
            if where := verdict_difference(cls, version, data, reply):
                differences.append(f"{set_name}/{file.message} v{version} {data.hex()}: {where}")
    report(differences, count, start)


def test_fields_that_a_version_lacks(kafka: KafkaAdapter) -> None:
    """Each such field, everywhere it could be, set to some value: dropped or refused, as Kafka."""
    start = seed()
    values = Values(Random(start), unknown_tags=False)
    differences: list[str] = []
    count = 0
    for set_name, spec, cls in messages():
        for where in absent_differences(kafka, set_name, spec, cls, values, effort()):
            count += 1
            differences += [f"{set_name}/{where}"] if where else []
    assert count > 1000
    report(differences, count, start)
