"""spec → plan: the fully resolved wire layout of one message at one version.

No ranges and no conditionals are left in a plan, only "this field, this wire type, this
nullability, this tag". Codecs, vectors, tables and documents are made from plans, never from specs.
``MessagePlan.to_json`` is the documented form; ``Layouts`` (``kraftspec.fastpath.plan``) is the
literal form that generated modules hold.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from kraftspec.codegen.model import Field, Message, Struct
from kraftspec.codegen.versions import Versions
from kraftspec.fastpath.message import header_version_of
from kraftspec.fastpath.plan import AbsentLayout, Layout, TaggedLayout, WireDefault
from kraftspec.fastpath.values import default_json

# The module of a message is beside the package of the codecs.
RESERVED_MODULES = frozenset({"pure"})
# Names that a generated class uses itself; a field of that name gets a trailing underscore.
RESERVED = frozenset({
    "encode", "encode_into", "decode", "decode_from", "to_json", "from_json", "header_version",
    "unknown_tagged_fields",
    # Builtins that the annotations of a class body name.
    "list", "tuple", "bool", "int", "float", "str", "bytes", "memoryview", "range",
    "msgspec",
})  # fmt: skip
# Names of the package's index and of a class's own attributes; a class of that name gets one too.
RESERVED_CLASSES = frozenset({"CATALOGUE", "CODEC", "TYPE"})


def camel_case(name: str) -> str:
    """Return a schema name as JSON and error paths have it: first letter lowered."""
    return name[0].lower() + name[1:]


def snake_case(name: str) -> str:
    """Return a schema name as a Python name: ``IsrWithEpochs`` → ``isr_with_epochs``."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


@cache
def attribute(name: str) -> str:
    """Return the Python attribute of a field, where no field before it has that attribute."""
    snake = snake_case(name)
    return snake + "_" if keyword.iskeyword(snake) or snake in RESERVED else snake


def attributes(struct: Struct) -> dict[str, str]:
    """Return the attribute of each field of a struct, by the field's name; no two are the same.

    ``IPAddress`` and ``IpAddress`` of one struct are ``ip_address`` and ``ip_address_``.
    """
    names: dict[str, str] = {}
    for entry in struct.fields:
        name = attribute(entry.name)
        while name in names.values():
            name += "_"
        names[entry.name] = name
    return names


def class_name(name: str) -> str:
    """Return the Python class of a message or struct."""
    return name + "_" if keyword.iskeyword(name) or name in RESERVED_CLASSES else name


def module_name(name: str) -> str:
    """Return the module that a message's class is in."""
    snake = snake_case(name)
    return snake + "_" if keyword.iskeyword(snake) or snake in RESERVED_MODULES else snake


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field that is on the wire at this version."""

    name: str  # camelCase
    attr: str
    wire: str  # one of kraftspec.fastpath.plan.WIRE
    nullable: bool
    element: str | StructPlan | None  # of arrays and structs
    default: WireDefault
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class AbsentPlan:
    """A field that only other versions have."""

    name: str
    attr: str
    ignorable: bool
    default: WireDefault


@dataclass(frozen=True)
class StructPlan:
    """A struct at this version: its untagged fields in wire order, its tagged ones by tag."""

    name: str
    flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]
    absent: tuple[AbsentPlan, ...]
    later_tags: tuple[int, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.flexible, self.fields, self.tagged, self.absent))


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """One message at one version. ``header_version`` is None for what has no header."""

    message: str
    type: str
    api_key: int | None
    version: int
    flexible: bool
    header_version: int | None
    struct: StructPlan

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON: every struct in place, wire order, nothing left to resolve."""
        return {
            "message": self.message,
            "type": self.type,
            "apiKey": self.api_key,
            "version": self.version,
            "flexible": self.flexible,
            "headerVersion": self.header_version,
            **_struct_json(self.struct),
        }


def _struct_json(struct: StructPlan) -> dict[str, Any]:
    return {
        "struct": struct.name,
        "taggedSection": struct.flexible,
        "fields": [_field_json(entry) for entry in struct.fields],
        "tagged": [_field_json(entry) for entry in struct.tagged],
        "absent": [
            {"name": entry.name, "ignorable": entry.ignorable, "default": _default(entry.default)}
            for entry in struct.absent
        ],
    }


def _field_json(entry: FieldPlan) -> dict[str, Any]:
    out: dict[str, Any] = {"name": entry.name, "wire": entry.wire, "nullable": entry.nullable}
    if entry.tag is not None:
        out = {"tag": entry.tag, **out, "default": _default(entry.default)}
    if isinstance(entry.element, StructPlan):
        out["element"] = _struct_json(entry.element)
    elif entry.element is not None:
        out["element"] = entry.element
    return out


def _default(default: WireDefault) -> Any:
    return "struct of defaults" if default is ... else default_json(default)


def plan_message(message: Message, version: int) -> MessagePlan:
    """Resolve a message at one of its valid versions."""
    if version not in message.valid_versions:
        raise ValueError(f"{message.name} has versions {message.valid_versions}, not {version}")
    flexible = version in message.flexible_versions
    struct = _Resolver(message, version, flexible).struct(message.top)
    return MessagePlan(
        message.name,
        message.type,
        message.api_key,
        version,
        flexible,
        header_version_of(message.type, message.api_key, version, flexible),
        struct,
    )


class _Resolver:
    """Resolves the structs of one message at one version."""

    def __init__(self, message: Message, version: int, flexible: bool) -> None:
        self.message = message
        self.version = version
        self.flexible = flexible

    def struct(self, struct: Struct) -> StructPlan:
        fields, tagged, absent, later = [], [], [], []
        attrs = attributes(struct)
        for entry in struct.fields:
            attr = attrs[entry.name]
            if self.version not in entry.versions:
                absent.append(
                    AbsentPlan(camel_case(entry.name), attr, entry.ignorable, wire_default(entry))
                )
                if entry.tag is not None:
                    later.append(entry.tag)
            elif self.version in entry.tagged_versions:
                tagged.append(self.field(entry, attr, entry.tag))
            else:
                fields.append(self.field(entry, attr, None))
                if entry.tag is not None:
                    later.append(entry.tag)
        tagged.sort(key=lambda plan: plan.tag or 0)
        return StructPlan(
            struct.name,
            self.flexible,
            tuple(fields),
            tuple(tagged),
            tuple(absent),
            tuple(sorted(later)) if self.flexible else (),
        )

    def field(self, entry: Field, attr: str, tag: int | None) -> FieldPlan:
        ranges = entry.flexible_versions
        compact = self.flexible if ranges is None else self.version in ranges
        element: str | StructPlan | None = None
        if entry.type.struct:
            element = self.struct(self.message.structs[entry.type.element])
        elif entry.type.array:
            element = wire_type(entry.type.element, compact)
        wire = (
            wire_type("array", compact)
            if entry.type.array
            else "struct"
            if entry.type.struct
            else wire_type(entry.type.element, compact)
        )
        return FieldPlan(
            camel_case(entry.name),
            attr,
            wire,
            self.version in entry.nullable_versions,
            element,
            wire_default(entry),
            tag,
        )


def wire_type(primitive: str, compact: bool) -> str:
    """Return the wire type of a primitive (or ``array``) in a flexible or an old version."""
    if compact and primitive in ("string", "bytes", "records", "array"):
        return f"compact_{primitive}"
    return primitive


def wire_default(entry: Field) -> WireDefault:
    """Return a field's default in the literal form of a layout."""
    return ... if isinstance(entry.default, dict) else entry.default


@dataclass(slots=True)
class LayoutTable:
    """The distinct layouts of a message over its versions, numbered in order of first use.

    ``structs[i]`` is the name of the class that layouts call ``i``, ``plans[version]`` the number
    of the message's own layout at that version.
    """

    structs: list[str]
    layouts: list[StructPlan] = field(default_factory=list)
    plans: dict[int, int] = field(default_factory=dict)
    _numbers: dict[StructPlan, int] = field(default_factory=dict)

    @classmethod
    def of(cls, message: Message) -> LayoutTable:
        """Plan every version of a message."""
        table = cls([message.name, *message.structs])
        for version in message.valid_versions:
            table.plans[version] = table.number(plan_message(message, version).struct)
        return table

    def number(self, struct: StructPlan) -> int:
        """Return a struct's number, giving it and the structs below it one at first sight."""
        if struct not in self._numbers:
            for entry in (*struct.fields, *struct.tagged):
                if isinstance(entry.element, StructPlan):
                    self.number(entry.element)
            self._numbers[struct] = len(self.layouts)
            self.layouts.append(struct)
        return self._numbers[struct]

    def class_number(self, struct: StructPlan) -> int:
        """Return the number of a struct's class."""
        return self.structs.index(struct.name)

    def literal(self) -> tuple[Layout, ...]:
        """Return the layouts in the literal form that codecs run."""
        return tuple(self._literal(struct) for struct in self.layouts)

    def _literal(self, struct: StructPlan) -> Layout:
        tagged: list[TaggedLayout] = [
            (plan.tag or 0, plan.name, plan.attr, plan.wire, plan.nullable, self._element(plan),
             plan.default)
            for plan in struct.tagged
        ]  # fmt: skip
        absent: list[AbsentLayout] = [
            (plan.name, plan.attr, plan.ignorable, plan.default) for plan in struct.absent
        ]
        return (
            self.class_number(struct),
            struct.flexible,
            tuple(
                (plan.name, plan.attr, plan.wire, plan.nullable, self._element(plan))
                for plan in struct.fields
            ),
            tuple(tagged),
            tuple(absent),
            struct.later_tags,
        )

    def _element(self, plan: FieldPlan) -> str | int | None:
        if isinstance(plan.element, StructPlan):
            return self.number(plan.element)
        return plan.element


def version_range(versions: Versions) -> range:
    """Return a bounded range of versions as Python's own."""
    return range(versions.lowest, versions.highest + 1)
