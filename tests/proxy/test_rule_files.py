"""Files of rules: what is read, and where mistakes are said to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from ruamel.yaml import YAML
from tests.proxy.peers import APIS

from kraftspec.proxy.rule_files import parse_rules, read_rules, schema_text
from kraftspec.proxy.rules import Corruption, Rule
from kraftspec.yaml_files import YamlFileError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "proxy" / "rules.schema.json"
BY_KEY = {api.key: api for api in APIS.values()}

EVERYTHING = """
nodes:
  - {listen: "127.0.0.1:19092", to: "broker:9092", id: 1}
rules:
  - {name: all, api: [Fetch, Produce], versions: 9+, direction: response, client_id: c*, node: 1,
     where: {throttleTimeMs: {min: 1}}, nth: 1, after: 2, probability: 0.5, seed: 3, error: 6,
     error_at: items, set: {throttleTimeMs: 4}, throttle_time_ms: 5, delay_ms: 6, hold: true,
     reorder_ms: 7, bytes_per_second: 8, duplicate: 9, truncate_bytes: 10,
     corrupt: {at: 11, xor: ff00}}
  - {api: 18, every: 2, times: 3, drop: true}
  - {corrupt: {bytes: 2}}
  - {close: reset}
  - {cut_bytes: 0}
  - {pass: true}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(YamlFileError) as caught:
        parse_rules(text, BY_KEY, "rules.yaml")
    return str(caught.value).splitlines()


def test_everything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(EVERYTHING)
    read = read_rules(path, BY_KEY)
    assert read.rules[1:] == [
        Rule(api=18, every=2, times=3, drop=True),
        Rule(corrupt=Corruption(bytes=2)),
        Rule(close="reset"),
        Rule(cut_bytes=0),
        Rule(pass_=True),
    ]
    assert read.rules[0].corrupt == Corruption(at=11, xor="ff00")
    assert (read.nodes[0].to, read.nodes[0].id) == ("broker:9092", 1)
    assert parse_rules("", BY_KEY, "empty.yaml").rules == []


def test_the_schema_is_the_one_in_the_package() -> None:
    assert SCHEMA.read_text() == schema_text(BY_KEY)


def test_the_schema_takes_what_is_read() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(YAML(typ="safe", pure=True).load(EVERYTHING))
    fields = schema["$defs"]["Rule"]["properties"]
    names = {field.encode_name for field in msgspec.structs.fields(Rule)}
    assert set(fields) == names
    used = YAML(typ="safe", pure=True).load(EVERYTHING)["rules"]
    assert set().union(*used) == names  # The example has every field.


@pytest.mark.parametrize(
    "rule",
    [
        {"api": "Fetsch", "drop": True},
        {"api": "Fetch", "drop": "yes"},
        {"api": "Fetch", "dorp": True},
        {"api": "Fetch", "times": 0, "drop": True},
        {"error": "NO_SUCH_ERROR"},
        {"probability": 2, "drop": True},
        {"close": "now"},
        {"corrupt": {"at": 1, "xor": "xyz"}},
        {"delay_ms": -1},
    ],
    ids=str,
)
def test_schema_and_reader_refuse_alike(rule: Any) -> None:
    schema = json.loads(SCHEMA.read_text())
    assert not jsonschema.Draft202012Validator(schema).is_valid({"rules": [rule]})
    assert problems(json.dumps({"rules": [rule]}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rules:\n  - api: Fetsch\n    drop: true\n", "2:10: there is no API 'Fetsch'; did you"),
        (
            "rules:\n  - api: Fetch\n    dorp: true\n",
            "3:5: there is no field 'dorp'; did you",
        ),
        (
            "rules:\n  - client_id: [a, b]\n    drop: true\n",
            "2:16: client_id: expected `str | null`, got `array`",
        ),
        (
            "rules:\n  - close: later\n",
            "2:12: close: invalid enum value 'later'; there are after, before, reset",
        ),
        ("rules:\n  - times: 0\n    drop: true\n", "2:12: times: expected `int` >= 1"),
        ("rules:\n  - api: Fetch\n", "2:5: it does nothing"),
        ("rules:\n  - corrupt: {at: 1, xor: g}\n", "2:27: xor: expected `str` matching"),
        ("rules:\n  - {api: Fetch, drop: true, where: {a.b: 1}}\n", "2:43: FetchRequest has no"),
        ("rules:\n  - drop: true\n    drop: true\n", "3:5: found duplicate key"),
        ("rules: [\n", "2:1: "),
        ("rulez: []\n", "1:1: there is no field 'rulez'; did you mean rules?"),
        ("- drop: true\n", "1:1: expected `object`, got `array`"),
        ("nodes:\n  - {id: 1}\n", "2:5: object missing required field `to`"),
        ("nodes:\n  - {to: here}\n", "2:10: to: expected `str` matching"),
        ("rules: 3\n", "1:8: rules: expected `array`, got `int`"),
    ],
)
def test_where_mistakes_are(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"rules.yaml:{expected}")


def test_all_mistakes_are_named() -> None:
    lines = problems("rules:\n- {drop: 1}\n- {api: X, drop: true}\n- {pass: false}\nx: 1\n")
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4", "5"]
