"""Files of rules: YAML, with every mistake named by ``path:line:column``."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from kraftspec.generated.errors import ErrorCode
from kraftspec.proxy.engine import Engine
from kraftspec.proxy.frame import Api
from kraftspec.proxy.rules import Rule, RuleError
from kraftspec.words import alike

SCHEMA_NAME: Final = "rules.schema.json"
_ADDRESS: Final = r"^(\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$"
_PLACE = re.compile(r"(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")

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


class RuleFileError(ValueError):
    """What is wrong in a file: a line ``path:line:column: text`` for each mistake."""


def read_rules(path: Path, apis: dict[int, Api]) -> RuleFile:
    """Read and check a file of rules. Raises RuleFileError with all mistakes, OSError."""
    return parse_rules(path.read_text("utf-8"), apis, str(path))


def parse_rules(text: str, apis: dict[int, Api], name: str) -> RuleFile:
    """Read and check the text of a file of rules. Raises RuleFileError with all mistakes."""
    try:
        values = YAML(typ="safe", pure=True).load(text)
        root = YAML(typ="rt", pure=True).compose(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        raise RuleFileError(f"{where}: {error.problem}") from error
    except YAMLError as error:
        raise RuleFileError(f"{name}:1:1: {error}") from error
    if root is None:
        return RuleFile()
    problems: list[tuple[tuple[int, int], str]] = []

    def problem(steps: list[str | int], text: str, *, at_key: bool = False) -> None:
        line, column = _mark(root, steps, at_key=at_key)
        problems.append(((line, column), f"{name}:{line + 1}:{column + 1}: {text}"))

    checked = _convert(values, problem)
    engine = Engine()
    engine.apis = apis
    for index, rule in enumerate(checked.rules):
        if rule is None:
            continue
        try:
            engine.add(rule)
        except RuleError as error:
            field, _, path = (error.field or "").partition(".")
            steps: list[str | int] = ["rules", index]
            steps += [*([field] if field else []), *([path] if path else [])]
            problem(steps, str(error))
    if problems:
        raise RuleFileError("\n".join(text for _, text in sorted(problems)))
    return checked


def _convert(values: Any, problem: Any) -> RuleFile:
    """Return the file as a value; what is wrong is reported, each rule by itself."""
    rules: Any = values.get("rules") if isinstance(values, dict) else None
    others = values
    if isinstance(rules, list):
        others = {key: value for key, value in values.items() if key != "rules"}
    checked = RuleFile()
    try:
        checked = msgspec.convert(others, RuleFile)
    except msgspec.ValidationError as error:
        _report(error, [], problem)
    if isinstance(rules, list):
        for index, value in enumerate(rules):
            checked.rules.append(_convert_rule(value, index, problem))
    return checked


def _convert_rule(value: Any, index: int, problem: Any) -> Any:
    try:
        return msgspec.convert(value, Rule)
    except msgspec.ValidationError as error:
        _report(error, ["rules", index], problem)
        return None


def _report(error: msgspec.ValidationError, before: list[str | int], problem: Any) -> None:
    match = _PLACE.fullmatch(str(error))
    assert match is not None
    steps = list(before)
    for key, index in _STEP.findall((match["path"] or "$").removeprefix("$")):
        if key or index:
            steps.append(key or int(index))
    unknown = _UNKNOWN.search(match["text"])
    if unknown:
        fields = _fields_at(steps)
        text = f"there is no field {unknown['name']!r}{alike(unknown['name'], fields)}"
        problem([*steps, unknown["name"]], text, at_key=True)
        return
    problem(steps, match["text"][:1].lower() + match["text"][1:])


def _fields_at(steps: list[str | int]) -> tuple[str, ...]:
    kind: Any = RuleFile
    if steps[:1] == ["rules"]:
        kind = Rule
    elif steps[:1] == ["nodes"]:
        kind = NodeAddress
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


def _mark(root: Node, steps: list[str | int], *, at_key: bool) -> tuple[int, int]:
    """Return line and column of the value that steps lead to, or as far as they lead."""
    node = root
    for number, step in enumerate(steps):
        found: Node | None = None
        if isinstance(node, MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    is_last = number == len(steps) - 1
                    found = key if at_key and is_last else value
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
        if found is None:
            break
        node = found
    return node.start_mark.line, node.start_mark.column


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
