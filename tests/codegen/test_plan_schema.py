"""The documented form of a plan: its JSON Schema takes every plan, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kraftspec.codegen.plan import plan_message
from kraftspec.codegen.reader import read_message
from kraftspec.fastpath.plan import WIRE
from kraftspec.specs import specs_root

SCHEMA = json.loads((files("kraftspec.codegen") / "plan.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
FETCH = specs_root() / "kafka" / "clients" / "FetchResponse.json"


def plans(path: Path) -> Iterator[dict[str, Any]]:
    message = read_message(path)
    for version in message.valid_versions:
        yield plan_message(message, version).to_json()


@pytest.mark.parametrize("module", sorted(path.name for path in specs_root().glob("kafka/*/")))
def test_every_newest_plan_is_of_the_documented_form(module: str) -> None:
    checked = 0
    for path in sorted((specs_root() / "kafka" / module).glob("*.json")):
        for plan in list(plans(path))[-1:]:
            VALIDATOR.validate(json.loads(json.dumps(plan)))
            checked += 1
    assert checked


def test_the_schema_is_a_schema_and_names_every_wire_type() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["field"]["properties"]["wire"]["enum"]) == set(WIRE)


@pytest.mark.parametrize("place", [(), ("fields", 0), ("fields", 3, "element"), ("tagged", 0)])
def test_the_schema_refuses_a_key_it_does_not_document(place: tuple[str | int, ...]) -> None:
    plan: Any = list(plans(FETCH))[-1]
    assert VALIDATOR.is_valid(plan)
    spoiled = copy.deepcopy(plan)
    inner = spoiled
    for step in place:
        inner = inner[step]
    inner["oops"] = 1
    assert not VALIDATOR.is_valid(spoiled)
