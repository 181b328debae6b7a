"""The second verdict: Kafka's own published generator beside ours, on good specs and on mutants."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.check import spec_files
from kraftspec.codegen.reader import check_text, read_message
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.specs import specs_root

pytestmark = pytest.mark.kafka

Spec = dict[str, Any]

MUTANTS = 400 if os.environ.get("HYPOTHESIS_PROFILE", "fast") == "fast" else 20_000
BASE_CHARS_MAX = 6_000  # A mutation of a long spec is no better and takes longer.

# The rules by which we reject what Kafka accepts; bad/expected.txt has the reason for each.
OURS = {
    "api-key-range", "api-key-required", "default-empty", "default-form",
    "deprecated-versions-valid", "field-name-unique", "key-required", "message-name",
    "struct-common-inline", "struct-fields", "struct-known", "struct-versions", "type-known",
    "value-type", "versions-form", "versions-live",
}  # fmt: skip

RANGES = ("0+", "0", "1+", "2+", "0-1", "1-2", "none", "3+", " 1+ ", "5", "12+", "0-32767", "32768")
TYPES = (
    "int32", "int8", "string", "bytes", "records", "uuid", "bool", "float64", "uint16", "uint32",
    "int64", "[]int32", "[]string", "Other", "[]Other", "[]records", "[]bytes", " int32 ", "[]",
    "other", "boolean", "[][]int8",
)  # fmt: skip
DEFAULTS = (
    "null", None, "-1", 0, "0x7f", "true", False, 1.5, "NaN", "Infinity", "", "abc", "+5", "1e3",
    "AAAAAAAAAAAAAAAAAAAAAQ", "0x", "-0x1", "65536", "00", "TRUE", "1_000", "0XF", "-0", " 1",
    12345678901234567890,
)  # fmt: skip
FIELD: Spec = {"name": "Other", "type": "int32", "versions": "0+"}

# What a key may be changed to; a message and its fields share a table.
VALUES: dict[str, tuple[Any, ...]] = {
    "type": TYPES,
    "versions": RANGES,
    "nullableVersions": RANGES,
    "taggedVersions": RANGES,
    "flexibleVersions": RANGES,
    "tag": (0, 1, 2, "0", "1", -1),
    "default": DEFAULTS,
    "name": ("Other", "other", "A_b", "", "1a", "Topics", "ErrorCode"),
    "mapKey": (True, False),
    "ignorable": (True, False),
    "zeroCopy": (True, False),
    "entityType": ("brokerId", "topicName", "groupId", "producerId", "transactionalId", "other"),
    "fields": ([], [FIELD], FIELD),
}
MESSAGE_VALUES: dict[str, tuple[Any, ...]] = {
    "type": (
        "request", "response", "header", "metadata", "data", "coordinator-key",
        "coordinator-value", "message",
    ),
    "apiKey": (1, -1, 70_000),
    "name": ("Other", "other", "Topics"),
    "validVersions": RANGES,
    "flexibleVersions": RANGES,
    "deprecatedVersions": RANGES,
    "listeners": (["broker"], "broker", [], ["zkBroker"]),
    "latestVersionUnstable": (True, False),
}  # fmt: skip


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.mark.parametrize(
    "path", spec_files(specs_root()), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_good_specs(path: Path, kafka: KafkaAdapter) -> None:
    message = read_message(path)
    complaint = kafka.verdict(path.read_text("utf-8"))
    if message.valid_versions.empty:
        # A removed message: Kafka's build passes over it before a class is written.
        assert message.top.fields == ()
    else:
        assert complaint is None


def test_our_own_rules_have_their_reasons() -> None:
    expected = Path(__file__).with_name("bad").joinpath("expected.txt").read_text("utf-8")
    accepted = {
        mistake.split(" ")[1]
        for line in expected.splitlines()
        if " | accepts: " in line
        for mistake in line.split(" | ")[1].split(", ")
    }
    assert {rule for rule in accepted if not rule.startswith("json-")} == OURS


def test_mutants(kafka: KafkaAdapter) -> None:
    """No mutant that Kafka rejects passes here; what only we reject breaks a rule of ours."""
    chance = random.Random(853)
    refused = 0
    for _ in range(MUTANTS):
        text = json.dumps(mutant(chance))
        complaint = kafka.verdict(text)
        message, diagnostics = check_text(text, "mutant")
        rules = {diagnostic.rule for diagnostic in diagnostics}
        assert (message is None) == bool(rules)
        if complaint is not None:
            refused += 1
            assert message is None, (complaint, text)
        else:
            assert not rules or rules & OURS, (rules, text)
    assert MUTANTS // 3 < refused < MUTANTS  # Both verdicts occurred often.


@cache
def bases() -> tuple[str, ...]:
    """Return the texts of the good specs from which mutants are made."""
    texts = [path.read_text("utf-8") for path in spec_files(specs_root())]
    short = (text for text in texts if len(text) < BASE_CHARS_MAX)
    return tuple(text for text in short if json.loads(text)["validVersions"] != "none")


def mutant(chance: random.Random) -> Spec:
    """Return a good spec with one to three changes, most of them mistakes."""
    spec: Spec = json.loads(chance.choice(bases()))
    changes: tuple[Callable[[Spec, random.Random], None], ...] = (change, change, drop, repeat)
    for _ in range(chance.choice((1, 1, 2, 3))):
        chance.choice(changes)(spec, chance)
    return spec


def change(spec: Spec, chance: random.Random) -> None:
    fields = [item for item in objects(spec) if item is not spec]
    item = chance.choice(fields) if fields and chance.random() < 0.8 else spec
    key = chance.choice(sorted(MESSAGE_VALUES if item is spec else VALUES))
    item[key] = deepcopy(chance.choice((MESSAGE_VALUES if item is spec else VALUES)[key]))
    if key == "tag" and chance.random() < 0.8:
        item["taggedVersions"] = chance.choice(RANGES[:7])


def drop(spec: Spec, chance: random.Random) -> None:
    item = chance.choice(objects(spec))
    if item:
        del item[chance.choice(sorted(item))]


def repeat(spec: Spec, chance: random.Random) -> None:
    around = chance.choice(objects(spec)).get("fields")
    if isinstance(around, list) and around:
        around.append(deepcopy(chance.choice(around)))


def objects(item: Spec) -> list[Spec]:
    """Return the message and every field and struct in it."""
    actual = [item]
    for key in ("fields", "commonStructs"):
        inner = item.get(key, [])
        for child in inner if isinstance(inner, list) else [inner]:
            actual += objects(child)
    return actual
