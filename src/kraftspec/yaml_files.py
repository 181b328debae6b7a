"""YAML that people write, as typed values; every mistake has its ``path:line:column``."""

from __future__ import annotations

import re
from functools import cached_property
from io import StringIO
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from kraftspec.words import alike

_PLACE = re.compile(r"(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")

Steps = list[str | int]
_Value = TypeVar("_Value")
_Type = TypeVar("_Type", bound=inspect.Type)


class YamlFileError(ValueError):
    """What is wrong in a file: a line ``path:line:column: text`` for each mistake."""


class YamlFile:
    """A file's values, and the places of what is wrong with them."""

    def __init__(self, text: str, name: str) -> None:
        """Parse the text of the file of that name. Raises YamlFileError where it is no YAML."""
        self.name = name
        self._text = text
        self._problems: list[tuple[tuple[int, int], str]] = []
        try:
            self.values: Any = YAML(typ="safe", pure=True).load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
            raise YamlFileError(f"{where}: {error.problem}") from error
        except YAMLError as error:
            raise YamlFileError(f"{name}:1:1: {error}") from error

    @cached_property
    def _root(self) -> Node | None:
        """The file once more, with places: only mistakes and `place` need them."""
        root: Node | None = YAML(typ="rt", pure=True).compose(StringIO(self._text))
        return root

    def problem(self, steps: Steps, text: str, *, at_key: bool = False) -> None:
        """Note a mistake in the value that steps lead to; ``at_key``: in its key."""
        line, column = self._mark(steps, at_key=at_key)
        self._problems.append(((line, column), f"{self.name}:{line + 1}:{column + 1}: {text}"))

    def convert(self, value: Any, kind: type[_Value], before: Steps) -> _Value | None:
        """Return the value that stands at ``before`` as a ``kind``; None, and a mistake noted."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            self._note(error, kind, before)
            return None

    def items(self, key: str, kind: type[_Value]) -> list[_Value | None]:
        """Return the list below a key, each item converted by itself; None for a wrong one."""
        listed = self.values.get(key) if isinstance(self.values, dict) else None
        if not isinstance(listed, list):
            return []
        return [self.convert(item, kind, [key, at]) for at, item in enumerate(listed)]

    def finish(self) -> None:
        """Raise YamlFileError with all mistakes that were noted, if there are any."""
        if self._problems:
            raise YamlFileError("\n".join(text for _, text in sorted(self._problems)))

    def place(self, steps: Steps) -> str:
        """Return ``path:line`` of a value."""
        return f"{self.name}:{self._mark(steps, at_key=False)[0] + 1}"

    def _note(self, error: msgspec.ValidationError, kind: type, before: Steps) -> None:
        match = _PLACE.fullmatch(str(error))
        assert match is not None
        below: Steps = []
        for key, index in _STEP.findall((match["path"] or "$").removeprefix("$")):
            if key or index:
                below.append(key or int(index))
        unknown = _UNKNOWN.search(match["text"])
        if unknown:
            text = f"there is no field {unknown['name']!r}"
            fields = _fields_at(kind, below)
            text += alike(unknown["name"], fields) or f": {', '.join(fields)}"
            self.problem([*before, *below, unknown["name"]], text, at_key=True)
            return
        text = match["text"][:1].lower() + match["text"][1:]
        choice = _type_at(inspect.type_info(kind), below, inspect.LiteralType)
        if choice is not None and text.startswith("invalid enum value"):
            text += f"; there are {', '.join(map(str, choice.values))}"
        field = f"{below[-1]}: " if below and isinstance(below[-1], str) else ""
        self.problem([*before, *below], f"{field}{text}")

    def _mark(self, steps: Steps, *, at_key: bool) -> tuple[int, int]:
        """Return line and column of the value that steps lead to, or as far as they lead."""
        node = self._root
        if node is None:
            return 0, 0
        for number, step in enumerate(steps):
            child: Node | None = None
            if isinstance(node, MappingNode):
                for key, value in node.value:
                    if key.value == str(step):
                        is_last = number == len(steps) - 1
                        child = key if at_key and is_last else value
            elif isinstance(node, SequenceNode) and isinstance(step, int):
                child = node.value[step] if step < len(node.value) else None
            if child is None:
                break
            node = child
        return node.start_mark.line, node.start_mark.column


def _fields_at(kind: type, steps: Steps) -> list[str]:
    """Return the names of the fields of the struct that steps lead to, if it is one."""
    struct = _type_at(inspect.type_info(kind), steps, inspect.StructType)
    return [] if struct is None else [field.encode_name for field in struct.fields]


def _type_at(info: inspect.Type, steps: Steps, kind: type[_Type]) -> _Type | None:
    """Return the type that steps lead to, if it is one of that kind."""
    if isinstance(info, inspect.Metadata):
        return _type_at(info.type, steps, kind)
    if isinstance(info, inspect.UnionType):
        found = (_type_at(one, steps, kind) for one in info.types)
        return next((one for one in found if one is not None), None)
    if not steps:
        return info if isinstance(info, kind) else None
    step, *rest = steps
    if isinstance(info, inspect.ListType) and isinstance(step, int):
        return _type_at(info.item_type, rest, kind)
    if isinstance(info, inspect.DictType):
        return _type_at(info.value_type, rest, kind)
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            if field.encode_name == step:
                return _type_at(field.type, rest, kind)
    return None
