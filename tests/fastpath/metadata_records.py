"""Batches of random metadata records, of every kind and version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from kraftspec.codegen.plan import StructPlan, plan_message
from kraftspec.codegen.reader import read_message
from kraftspec.conformance.fuzz.values import Values
from kraftspec.fastpath.message import Message
from kraftspec.reference.metadata.frames import record_classes
from kraftspec.specs import specs_root


@cache
def _plan(name: str, version: int) -> StructPlan:
    path = next((specs_root() / "kafka").rglob(f"{name}.json"))
    return plan_message(read_message(path), version).struct


def kinds() -> Iterator[tuple[type[Message], int]]:
    """Every record of the cluster's metadata, and each of its versions."""
    for cls in record_classes().values():
        for version in cls.VALID_VERSIONS:
            yield cls, version


def random_record(
    random: Random, cls: type[Message], version: int, *, ascii: bool, unknown_tags: bool
) -> bytes:
    """Return the value of a data record: a frame and a random record."""
    built: Any = Values(random, unknown_tags=unknown_tags).struct(_plan(cls.__name__, version))
    if ascii:
        text = json.dumps(built, ensure_ascii=False)
        built = json.loads("".join(each if each.isascii() else "z" for each in text))
    assert cls.API_KEY is not None
    return bytes([1, cls.API_KEY, version]) + cls.from_json(built, version).encode(version)
