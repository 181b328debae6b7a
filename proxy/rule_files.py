"""Files of rules: YAML, with every mistake named by ``path:line:column``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kraftspec.generated.errors import ErrorCode
from kraftspec.proxy.engine import Engine
from kraftspec.proxy.frame import Api
from kraftspec.proxy.rules import Rule, RuleError
from kraftspec.yaml_files import Steps, YamlFile

SCHEMA_NAME: Final = "rules.schema.json"
_ADDRESS: Final = r"^(\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$"

Address = Annotated[str, Meta(pattern=_ADDRESS)]


class NodeAddress(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A node, and where the proxy stands for it."""

    to: Annotated[Address, Meta(description="Where the node listens: HOST:PORT.")]
    listen: Annotated[
        Address, Meta(description="Where the proxy listens instead; port 0 is a free one.")
    ] = "127.0.0.1:0"
    id: Annotated[int | None, Meta(description="The node's id, for rules that name it.")] = None


class RuleFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rules for `kraftspec proxy`, and the nodes that it stands before."""

    rules: Annotated[list[Rule], Meta(description="They act in this order.")] = []
    nodes: Annotated[list[NodeAddress], Meta(description="Beside --listen and --to.")] = []


def read_rules(path: Path, apis: dict[int, Api]) -> RuleFile:
    """Read and check a file of rules. Raises YamlFileError with all mistakes, OSError."""
    return parse_rules(path.read_text("utf-8"), apis, str(path))


def parse_rules(text: str, apis: dict[int, Api], name: str) -> RuleFile:
    """Read and check the text of a file of rules. Raises YamlFileError with all mistakes."""
    file = YamlFile(text, name)
    if file.values is None:
        return RuleFile()
    rules = file.items("rules", Rule)
    others = file.values
    if rules:  # Each was read by itself, so that each has its mistake named.
        others = {key: value for key, value in others.items() if key != "rules"}
    checked = file.convert(others, RuleFile, []) or RuleFile()
    checked.rules = [rule for rule in rules if rule is not None]
    engine = Engine()
    engine.apis = apis
    for index, rule in enumerate(rules):
        if rule is None:
            continue
        try:
            engine.add(rule)
        except RuleError as error:
            field, _, path = (error.field or "").partition(".")
            steps: Steps = ["rules", index]
            steps += [*([field] if field else []), *([path] if path else [])]
            file.problem(steps, str(error))
    file.finish()
    return checked


def json_schema(apis: dict[int, Api]) -> dict[str, Any]:
    """Return the JSON Schema of such a file, for editors."""
    schema: dict[str, Any] = msgspec.json.schema(RuleFile)
    rule = schema["$defs"]["Rule"]["properties"]
    names = sorted(api.name for api in apis.values())
    rule["api"] = {
        "description": rule["api"]["description"],
        "anyOf": [
            {"enum": names},
            {"type": "array", "items": {"enum": names}, "minItems": 1},
            {"type": "integer"},
        ],
    }
    rule["error"] = {
        "description": rule["error"]["description"],
        "anyOf": [{"enum": [code.name for code in ErrorCode]}, {"type": "integer"}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rules of kraftspec proxy",
        **schema,
    }


def schema_text(apis: dict[int, Api]) -> str:
    """Return the text of the schema's file."""
    return json.dumps(json_schema(apis), indent=2) + "\n"
