"""Paths of fields: ``topicData.partitionData[0].index``, or ``header.clientId`` of the header.

Names are those of the schema. An array without an index, and ``[*]``, mean each of its elements;
``[-1]`` is the last.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftspec.fastpath.types import Uuid

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Codec, Message
    from kraftspec.fastpath.plan import Layout

HEADER = "header"
REQUEST = "request"
_STEP = re.compile(r"(?P<name>[A-Za-z_]\w*)(\[(?P<index>\*|-?\d+)\])?")
_NUMBERS = {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}


class PathError(ValueError):
    """Not a path, or not one of that message."""


class Step(NamedTuple):
    """A field, and which element of it; None for each of them."""

    name: str
    at: int | None


class Place(NamedTuple):
    """A field of a struct that was found, or an element of an array of primitives."""

    owner: Any
    attr: str
    wire: str
    element: str | int | None
    at: int | None

    @property
    def value(self) -> Any:
        """Its value."""
        value = getattr(self.owner, self.attr)
        return value if self.at is None else value[self.at]

    def put(self, value: Any) -> None:
        """Set it, as ``set`` of a rule says: a value of JSON, or ``{"add": number}``."""
        if isinstance(value, dict) and set(value) == {"add"}:
            value = self.value + value["add"]
        if self.at is not None:
            items = list(getattr(self.owner, self.attr))
            items[self.at] = _of_json(value, str(self.element))
            value = tuple(items)
        elif isinstance(value, list) and isinstance(self.element, str):
            value = tuple(_of_json(item, self.element) for item in value)
        else:
            value = _of_json(value, self.wire)
        setattr(self.owner, self.attr, value)


def parse(text: str) -> tuple[Step, ...]:
    """Return the steps of a path; PathError where it is none."""
    steps = []
    for word in text.split("."):
        match = _STEP.fullmatch(word)
        if match is None:
            raise PathError(f"{text!r} is not a path such as topicData[0].name: see {word!r}")
        index = match["index"]
        steps.append(Step(match["name"], None if index in (None, "*") else int(index)))
    return tuple(steps)


def places(message: Message, version: int, steps: tuple[Step, ...]) -> Iterator[Place]:
    """Yield the fields of a message that a path names; none where the version lacks them."""
    codec = message.CODEC
    yield from _places(codec, codec.layout(version), message, steps)


def _places(codec: Codec, layout: Layout, struct: Any, steps: tuple[Step, ...]) -> Iterator[Place]:
    step, *rest = steps
    field = _field(layout, step.name)
    if field is None:
        return
    attr, wire, element = field
    value = getattr(struct, attr)
    is_array = wire.endswith("array")
    if is_array and isinstance(element, int):
        for item in _chosen(value, step.at):
            if rest:
                yield from _places(codec, codec.layouts[element], item, tuple(rest))
    elif rest:
        if isinstance(element, int) and value is not None:
            yield from _places(codec, codec.layouts[element], value, tuple(rest))
    elif is_array and step.at is not None:
        if value is not None and -len(value) <= step.at < len(value):
            yield Place(struct, attr, wire, element, step.at)
    else:
        yield Place(struct, attr, wire, element, None)


def _chosen(items: Any, index: int | None) -> Any:
    if items is None:
        return ()
    if index is None:
        return items
    return items[index : index + 1 or None]


def _field(layout: Layout, name: str) -> tuple[str, str, str | int | None] | None:
    for known, attr, wire, _, element in layout[2]:
        if known == name:
            return attr, wire, element
    for _, known, attr, wire, _, element, _ in layout[3]:
        if known == name:
            return attr, wire, element
    return None


def problem_of(
    cls: type[Message], text: str, steps: tuple[Step, ...], versions: range | None = None
) -> str | None:
    """Return what is wrong with a path; None if one of these versions of the message has it."""
    codec = cls.CODEC
    having = [one for one in cls.VALID_VERSIONS if _wire_at(codec, codec.layout(one), steps)]
    if having and (versions is None or set(having) & set(versions)):
        return None
    if having:
        return f"{cls.__name__} has {text!r} at versions {having[0]} to {having[-1]} alone"
    for version in reversed(cls.VALID_VERSIONS):
        inner = _names_below(codec, codec.layout(version), steps)
        if inner:
            return f"{text!r} of {cls.__name__} is a list; name a field of it: {', '.join(inner)}"
    return f"{cls.__name__} has no field {text!r} at any version"


def _names_below(codec: Codec, layout: Layout, steps: tuple[Step, ...]) -> list[str]:
    """Return the fields of the structs that a path leads to; none where it leads to no struct."""
    for step in steps:
        field = _field(layout, step.name)
        if field is None or not isinstance(field[2], int):
            return []
        layout = codec.layouts[field[2]]
    return [row[0] for row in layout[2]]


def misfit(cls: type[Message], steps: tuple[Step, ...], value: Any) -> str | None:
    """Return what a field wants in place of a value; None where it may have that."""
    codec = cls.CODEC
    wires = {_wire_at(codec, codec.layout(version), steps) for version in cls.VALID_VERSIONS}
    wanted = set()
    for wire in wires - {""}:
        if wire == "bool":
            kind, fits = "true or false", isinstance(value, bool)
        elif wire in _NUMBERS:
            kind, fits = "a number", isinstance(value, int | float) and not isinstance(value, bool)
        else:  # Which texts are ids, or bytes, is seen when one is put there.
            kind, fits = "a text", wire.endswith("array") or value is None or isinstance(value, str)
        if fits:
            return None
        wanted.add(kind)
    return " or ".join(sorted(wanted)) or None


def _wire_at(codec: Codec, layout: Layout, steps: tuple[Step, ...]) -> str:
    """Return the type of the field that a path names; empty where there is none."""
    step, *rest = steps
    field = _field(layout, step.name)
    if field is None:
        return ""
    _, wire, element = field
    if step.at is not None and not wire.endswith("array"):
        return ""
    if not rest:
        return "" if wire.endswith("array") and isinstance(element, int) else wire
    if not isinstance(element, int):
        return ""
    return _wire_at(codec, codec.layouts[element], tuple(rest))


def _of_json(value: Any, wire: str) -> Any:
    """Return a value as a field of that wire type has it; codecs refuse what does not fit."""
    if not isinstance(value, str) or wire in _NUMBERS or wire.endswith("string"):
        return value
    return Uuid(value) if wire == "uuid" else base64.b64decode(value, validate=True)
