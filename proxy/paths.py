"""Paths of fields: ``topicData.partitionData[0].index``, or ``header.clientId`` of the header.

Names are those of the schema. An array without an index, and ``[*]``, mean each of its elements;
``[-1]`` is the last. Where a version has the id of a topic in the place of its name, the path of
the name leads there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.fastpath.types import Uuid

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Codec, Message
    from kraftspec.fastpath.plan import Layout

HEADER = "header"
REQUEST = "request"
NAME_BY_ID: Final = "name by id"  # The type of a place that has the id of a topic, not its name.
TOPIC_NAMES: Final = ("name", "topic")  # Of fields that newer versions replace by topicId.
_STEP = re.compile(r"(?P<name>[A-Za-z_]\w*)(\[(?P<index>\*|-?\d+)\])?")
_INTEGERS: Final = {
    **{f"int{bits}": range(-(1 << bits - 1), 1 << bits - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": range(1 << bits) for bits in (16, 32)},
}
_NUMBERS: Final = {*_INTEGERS, "bool", "float64"}


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


def places(
    message: Message, version: int, steps: tuple[Step, ...], *, by_id: bool = False
) -> Iterator[Place]:
    """Yield the fields of a message that a path names; none where the version lacks them.

    With ``by_id`` the id of a topic is yielded where the version has no name: a NAME_BY_ID.
    """
    codec = message.CODEC
    yield from _places(codec, codec.layout(version), message, steps, by_id=by_id)


def _places(
    codec: Codec, layout: Layout, struct: Any, steps: tuple[Step, ...], *, by_id: bool
) -> Iterator[Place]:
    step, *rest = steps
    field = _field(layout, step.name)
    if field is None:
        topic_id = _field(layout, "topicId")
        if by_id and not rest and step.name in TOPIC_NAMES and topic_id is not None:
            yield Place(struct, topic_id[0], NAME_BY_ID, None, None)
        return
    attr, wire, element = field
    value = getattr(struct, attr)
    is_array = wire.endswith("array")
    if is_array and isinstance(element, int):
        for item in _chosen(value, step.at):
            if rest:
                yield from _places(codec, codec.layouts[element], item, tuple(rest), by_id=by_id)
    elif rest:
        if isinstance(element, int) and value is not None:
            yield from _places(codec, codec.layouts[element], value, tuple(rest), by_id=by_id)
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
    cls: type[Message],
    text: str,
    steps: tuple[Step, ...],
    versions: range | None = None,
    *,
    by_id: bool = False,
) -> str | None:
    """Return what is wrong with a path; None if one of these versions of the message has it."""
    codec = cls.CODEC
    having = versions_with(cls, steps, by_id=by_id)
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


def versions_with(cls: type[Message], steps: tuple[Step, ...], *, by_id: bool = False) -> list[int]:
    """Return the versions of a message that have the field that a path names."""
    having = [one for one in cls.VALID_VERSIONS if has(cls, one, steps)]
    if having and by_id and steps[-1].name in TOPIC_NAMES:
        ids = (*steps[:-1], Step("topicId", None))
        having += [one for one in cls.VALID_VERSIONS if one not in having and has(cls, one, ids)]
    return having


def has(cls: type[Message], version: int, steps: tuple[Step, ...]) -> bool:
    """Whether a version of a message has the field that a path names."""
    return bool(_wire_at(cls.CODEC, cls.CODEC.layout(version), steps))


def misfit(cls: type[Message], steps: tuple[Step, ...], value: Any) -> str | None:
    """Return what a field wants in place of a value; None where it may have that."""
    codec = cls.CODEC
    wires = {_wire_at(codec, codec.layout(version), steps) for version in cls.VALID_VERSIONS}
    wanted = set()
    for wire in wires - {""}:
        kind, fits = _kind(wire, value)
        if fits:
            return None
        wanted.add(kind)
    return " or ".join(sorted(wanted)) or None


def _kind(wire: str, value: Any) -> tuple[str, bool]:
    """Return what values a wire type has, for people, and whether this is one of them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if wire in _INTEGERS:
        return f"of type {wire}", is_number and value in _INTEGERS[wire]
    if wire == "bool":
        return "true or false", isinstance(value, bool)
    if wire == "float64":
        return "a number", is_number
    kind = {"uuid": "a uuid", "string": "a text"}.get(wire.removeprefix("compact_"), "base64")
    if wire.endswith("array") or value is None:  # Whether it may be null is seen when it is put.
        return kind, True
    try:
        return kind, isinstance(value, str) and _of_json(value, wire) is not None
    except ValueError:
        return kind, False


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
