"""Random valid specs: our reader, generator and codec beside Kafka's published generator.

Two batches here; ``HYPOTHESIS_PROFILE=deep`` goes on for ten minutes. A spec that once parted us
from Kafka is kept in ``regressions/``, under a name that says what it showed.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.conformance.adapters.peers import (
    absent_differences,
    ask,
    difference,
    effort,
    verdict_difference,
)

from kraftspec.codegen.generate import MessageSet, generate
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import class_name, plan_message
from kraftspec.codegen.reader import check_text
from kraftspec.conformance.adapters.harness import decode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter, RefusedError
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.fastpath.message import Message

from .random_values import Values, mutated
from .spec_strategies import specs

pytestmark = pytest.mark.kafka

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
SET = "random"
BATCH = 16  # Specs a batch: a run of the Java compiler costs a second or two whatever it compiles.
BATCHES = 2 if effort() == 1 else 50  # The first of them holds the simplest specs there are.
SECONDS_MIN = 0.0 if effort() == 1 else 600.0  # A deep run goes on until this is up.
VALUES_PER_PAIR = 6


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.fixture(scope="module")
def counts() -> Iterator[dict[str, int]]:
    tally = {"batches": 0, "specs": 0, "pairs": 0, "values": 0, "mutants": 0, "absent": 0}
    yield tally
    print(f"random specs: {tally}")


def for_java(spec: Any) -> Any:
    """Return a spec without its prose, which Kafka's generator copies unquoted into Java."""
    if isinstance(spec, dict):
        return {key: for_java(value) for key, value in spec.items() if key != "about"}
    return [for_java(value) for value in spec] if isinstance(spec, list) else spec


def read(text: str) -> Spec:
    message, diagnostics = check_text(text, "spec")
    assert message is not None, f"our reader refuses it: {diagnostics[0]}\n{text}"
    return message


def classes_of(texts: Sequence[str], tmp_path: Path, number: int) -> list[type[Message]]:
    """Generate a package of specs, and import the classes."""
    directory = tmp_path / f"specs{number}"
    directory.mkdir()
    names = []
    for text in texts:
        names.append(json.loads(text)["name"])
        (directory / f"{names[-1]}.json").write_text(text)
    package = f"random_specs_{number}"
    generate([MessageSet(SET, directory, tmp_path / package, package)])
    importlib.invalidate_caches()
    module = importlib.import_module(package)
    return [getattr(module, class_name(name)) for name in names]


def load(kafka: KafkaAdapter, texts: Sequence[str]) -> None:
    """Have Kafka compile the specs; on refusal say which it was."""
    bare = [for_java(json.loads(text)) for text in texts]
    try:
        kafka.load(SET, specs={f"{spec['name']}.json": json.dumps(spec) for spec in bare})
    except RefusedError as refused:
        for spec in bare:
            verdict = kafka.verdict(json.dumps(spec))
            assert verdict is None, f"Kafka refuses it: {verdict}\n{json.dumps(spec)}"
        for spec in bare:
            try:
                kafka.load("one", specs={f"{spec['name']}.json": json.dumps(spec)})
            except RefusedError as why:
                raise AssertionError(f"Kafka: {why}\n{json.dumps(spec)}") from why
        raise AssertionError(f"Kafka refuses them together: {refused}") from refused


def hold(
    kafka: KafkaAdapter, cls: type[Message], text: str, random: Random, counts: dict[str, int]
) -> None:
    """Hold one spec's codec to Kafka's: values, mutated bytes, fields that a version lacks."""
    spec = read(text)
    values = Values(random)
    cases = [
        (version, values.struct(plan_message(spec, version).struct))
        for version in spec.valid_versions
        for _ in range(VALUES_PER_PAIR)
    ]
    answers = list(ask(kafka, SET, spec.name, cases))
    for answer in answers:
        where = difference(cls, answer)
        assert not where, f"v{answer.version} {answer.value}: {where}\n{text}"
    mutants = [
        (answer.version, mutated(random, bytes.fromhex(answer.encoded["hex"])))
        for answer in answers
        if "hex" in answer.encoded
    ]
    replies = kafka.run(
        decode_request(str(at), spec.name, version, data.hex(), SET)
        for at, (version, data) in enumerate(mutants)
    )
    for (version, data), reply in zip(mutants, replies, strict=True):
        where = verdict_difference(cls, version, data, reply)
        assert not where, f"v{version} {data.hex()}: {where}\n{text}"
    plain = Values(random, unknown_tags=False)
    for where in absent_differences(kafka, SET, spec, cls, plain):
        counts["absent"] += 1
        assert not where, f"{where}\n{text}"
    counts["pairs"] += len(spec.valid_versions)
    counts["values"] += len(cases)
    counts["mutants"] += len(mutants)


def hold_batch(
    kafka: KafkaAdapter,
    texts: Sequence[str],
    random: Random,
    tmp_path: Path,
    counts: dict[str, int],
) -> None:
    for text in texts:
        read(text)
    number = counts["batches"]
    counts["batches"] += 1
    counts["specs"] += len(texts)
    try:
        classes = classes_of(texts, tmp_path, number)
        load(kafka, texts)
        for cls, text in zip(classes, texts, strict=True):
            hold(kafka, cls, text, random, counts)
    finally:
        for name in [name for name in sys.modules if name.startswith(f"random_specs_{number}")]:
            del sys.modules[name]


def test_random_specs(
    kafka: KafkaAdapter,
    counts: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)

    # No shrinking: a failure names the one spec, which a person makes small.
    @settings(
        max_examples=BATCHES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(st.tuples(*(specs(f"Spec{at}") for at in range(BATCH))), st.integers(0, 2**32))
    def run(batch: tuple[dict[str, Any], ...], seed: int) -> None:
        hold_batch(kafka, list(map(json.dumps, batch)), Random(seed), tmp_path, counts)

    end = time.monotonic() + SECONDS_MIN
    run()
    while time.monotonic() < end:
        run()
    assert counts["specs"] >= BATCHES * BATCH


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_specs_that_parted_us_once(
    kafka: KafkaAdapter,
    counts: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    hold_batch(kafka, [path.read_text()], Random(0), tmp_path, counts)
