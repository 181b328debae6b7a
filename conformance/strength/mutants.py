"""Mutants: plans with one mistake, for a mutation test of the vectors.

A mutant is the plan of one message at one version with one mistake that implementers make: a wrong
width, sign, nullability, tag or default, two swapped fields, a field one version too early. The
mistake is in one use of a struct, not in all of them.

``of_plan`` changes a plan in place. ``of_spec`` changes a spec and plans it again, for a wrong
range of versions or a wrong default.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kraftspec.codegen.model import Field, Message, Struct
from kraftspec.codegen.plan import FieldPlan, StructPlan, plan_message
from kraftspec.codegen.versions import Versions
from kraftspec.fastpath.plan import VARIABLE

# The integer types one width smaller and larger.
WIDTHS = {
    "int8": ("int16",),
    "int16": ("int8", "int32"),
    "uint16": ("uint32",),
    "int32": ("int16", "int64"),
    "uint32": ("uint16", "int64"),
    "int64": ("int32",),
}
# Kafka has no uint8 and no uint64; an implementer may still read its integers as such.
SIGNS = {
    "int8": "uint8", "int16": "uint16", "uint16": "int16", "int32": "uint32", "uint32": "int32",
    "int64": "uint64",
}  # fmt: skip
TYPES = {
    "bool": "int8", "float64": "int64", "uuid": "string", "string": "bytes", "bytes": "string",
    "compact_string": "compact_bytes", "compact_bytes": "compact_string",
}  # fmt: skip
LENGTHS = ("string", "bytes", "records", "array")  # Types with a classic and a compact prefix.
# No field of any message holds it, so a tagged field with this default is always written.
NEVER_DEFAULT = b"no value is this default"
ONE_UUID = bytes(15) + b"\x01"  # Kafka's METADATA_TOPIC_ID: the other uuid with a meaning.

_Part = TypeVar("_Part", Message, Struct, Field)
Place = tuple[tuple[str, int], ...]  # From the message down: ("fields" or "tagged", index).


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong plan. ``shape`` is the plan for JSON, if that is not the wrong one.

    ``message`` is the spec of the classes, if they differ too (another default).
    """

    operator: str
    path: str
    detail: str
    plan: StructPlan
    shape: StructPlan
    message: Message | None = None


def mutants(message: Message, version: int) -> Iterator[Mutant]:
    """Yield every mutant of a message at a version, always in the same order."""
    top = plan_message(message, version).struct
    for mutant in (*of_plan(top), *of_spec(message, version, top)):
        if mutant.plan != top:
            yield mutant


# --------------------------------------------------------------------------- plans changed in place


def of_plan(top: StructPlan) -> Iterator[Mutant]:
    """Yield the mutants of one plan."""
    for place, path, struct in _places(top, (), ""):
        for section in ("fields", "tagged"):
            for at, entry in enumerate(getattr(struct, section)):
                for operator, detail, changed in _of_field(entry):
                    plan = _rebuilt(top, (*place, (section, at)), changed)
                    unsigned = operator.endswith("sign") and detail.endswith(("uint8", "uint64"))
                    always = operator == "default always written"
                    shape = top if unsigned or always else plan
                    yield Mutant(operator, path + entry.name, detail, plan, shape)
        for operator, detail, changed_struct in _of_struct(struct):
            plan = _rebuilt(top, place, changed_struct)
            yield Mutant(operator, path.removesuffix("."), detail, plan, plan)


def _places(struct: StructPlan, place: Place, path: str) -> Iterator[tuple[Place, str, StructPlan]]:
    yield place, path, struct
    for section in ("fields", "tagged"):
        for at, entry in enumerate(getattr(struct, section)):
            if isinstance(entry.element, StructPlan):
                mark = "." if entry.wire == "struct" else "[]."
                inside = path + entry.name + mark
                yield from _places(entry.element, (*place, (section, at)), inside)


def _rebuilt(struct: StructPlan, place: Place, changed: Any) -> StructPlan:
    """Return the plan with the field or struct at ``place`` replaced."""
    if not place:
        assert isinstance(changed, StructPlan)
        return changed
    (section, at), *rest = place
    entries: tuple[FieldPlan, ...] = getattr(struct, section)
    entry = entries[at]
    if rest or isinstance(changed, StructPlan):
        assert isinstance(entry.element, StructPlan)
        changed = replace(entry, element=_rebuilt(entry.element, tuple(rest), changed))
    after = (*entries[:at], changed, *entries[at + 1 :])
    return replace(struct, fields=after) if section == "fields" else replace(struct, tagged=after)


def _of_field(entry: FieldPlan) -> Iterator[tuple[str, str, FieldPlan]]:
    for operator, wire in _of_wire(entry.wire):
        yield operator, f"{entry.wire} → {wire}", replace(entry, wire=wire)
    if isinstance(entry.element, str):
        for operator, wire in _of_wire(entry.element):
            detail = f"[]{entry.element} → []{wire}"
            yield f"element {operator}", detail, replace(entry, element=wire)
    if entry.wire in VARIABLE:
        comment = "not nullable" if entry.nullable else "nullable"
        yield "nullability", comment, replace(entry, nullable=not entry.nullable)
    if entry.tag is not None:
        yield "default always written", "", replace(entry, default=NEVER_DEFAULT)


def _of_wire(wire: str) -> Iterator[tuple[str, str]]:
    for other in WIDTHS.get(wire, ()):
        yield "width", other
    if wire in SIGNS:
        yield "sign", SIGNS[wire]
    if wire in TYPES:
        yield "type", TYPES[wire]
    plain = wire.removeprefix("compact_")
    if plain in LENGTHS:
        yield "compactness", f"compact_{plain}" if plain == wire else plain


def _of_struct(struct: StructPlan) -> Iterator[tuple[str, str, StructPlan]]:
    last = len(struct.fields) - 1
    swaps = [(at, at + 1) for at in range(last)] + ([(0, last)] if last > 1 else [])
    for one, other in swaps:
        fields = list(struct.fields)
        fields[one], fields[other] = fields[other], fields[one]
        detail = f"{fields[one].name} before {fields[other].name}"
        yield "order", detail, replace(struct, fields=tuple(fields))
    yield from _of_tags(struct)
    if struct.flexible:
        yield "trailer", "dropped", replace(struct, flexible=False, tagged=(), later_tags=())
    else:
        yield "trailer", "added", replace(struct, flexible=True)
    for tag in struct.later_tags:
        later = tuple(other for other in struct.later_tags if other != tag)
        yield (
            "tag of another version",
            f"{tag} taken for unknown",
            replace(struct, later_tags=later),
        )


def _of_tags(struct: StructPlan) -> Iterator[tuple[str, str, StructPlan]]:
    taken = {entry.tag or 0 for entry in struct.tagged} | set(struct.later_tags)
    free = next(tag for tag in range(len(taken) + 1) if tag not in taken)
    for at, entry in enumerate(struct.tagged):
        moved = [*struct.tagged[:at], *struct.tagged[at + 1 :], replace(entry, tag=free)]
        yield "tag number", f"{entry.name}: {entry.tag} → {free}", _by_tag(struct, moved)
        if at + 1 < len(struct.tagged):
            other = struct.tagged[at + 1]
            swapped = [*struct.tagged[:at], *struct.tagged[at + 2 :]]
            swapped += [replace(entry, tag=other.tag), replace(other, tag=entry.tag)]
            detail = f"{entry.name} and {other.name} swapped"
            yield "tag number", detail, _by_tag(struct, swapped)


def _by_tag(struct: StructPlan, tagged: list[FieldPlan]) -> StructPlan:
    return replace(struct, tagged=tuple(sorted(tagged, key=lambda entry: entry.tag or 0)))


# --------------------------------------------------------------------------- specs changed


def of_spec(message: Message, version: int, top: StructPlan) -> Iterator[Mutant]:
    """Yield the mutants of a spec that change the plan at this version."""
    for name in ("", *message.structs):
        for at, entry in enumerate(message.struct(name).fields):
            path = f"{name or message.name}.{entry.json_name}"
            for what in ("versions", "nullable_versions", "tagged_versions"):
                for detail, versions in _shifted(getattr(entry, what), version):
                    changed = _with_field(message, name, at, **{what: versions})
                    plan = plan_message(changed, version).struct
                    shown = f"{what.replace('_v', 'V')} {detail}"
                    yield Mutant("version bound", path, shown, plan, plan)
            if version in entry.tagged_versions and version in entry.versions:
                for other in _other_defaults(entry, version):
                    changed = _with_field(message, name, at, default=other)
                    plan = plan_message(changed, version).struct
                    detail = f"{entry.default!r} → {other!r}"
                    yield Mutant("default", path, detail, plan, plan, changed)
    for detail, versions in _shifted(message.flexible_versions, version):
        flexible = _changed(message, flexible_versions=versions)
        plan = plan_message(flexible, version).struct
        yield Mutant("version bound", "", f"flexibleVersions {detail}", plan, plan)


def _shifted(versions: Versions, version: int) -> Iterator[tuple[str, Versions]]:
    """Move the bounds of a range by one, if that adds or removes this version."""
    low, high = versions.lowest, versions.highest
    if versions.empty:
        return
    for comment, other in (
        ("a version too late", Versions(low + 1, high)),
        ("a version too early", Versions(low - 1, high)),
        ("ends a version too early", Versions(low, high - 1)),
        ("ends a version too late", Versions(low, high + 1)),
    ):
        if (version in other) != (version in versions):
            yield comment, other


def _other_defaults(entry: Field, version: int) -> Iterator[Any]:
    """Return other defaults that the spec language allows for a field of this type."""
    default, kind = entry.default, entry.type
    nullable = version in entry.nullable_versions
    others: tuple[Any, ...]
    if kind.array:
        others = ((),)
    elif kind.struct:
        others = ({},)
    else:
        others = {
            "bool": (False, True), "string": ("", "x"), "bytes": (b"",), "float64": (0.0, 1.0),
            "uuid": (bytes(16), ONE_UUID), "uint16": (0, 1), "uint32": (0, 1),
        }.get(kind.element, (0, -1))  # fmt: skip
    for other in (*others, *((None,) if nullable else ())):
        if type(other) is not type(default) or other != default:
            yield other


def _with_field(message: Message, struct_name: str, at: int, **values: Any) -> Message:
    struct = message.struct(struct_name)
    entry = _changed(struct.fields[at], **values)
    fields = (*struct.fields[:at], entry, *struct.fields[at + 1 :])
    changed: Struct = _changed(struct, fields=fields)
    if not struct_name:
        return _changed(message, top=changed)
    return _changed(message, structs={**message.structs, struct_name: changed})


def _changed(part: _Part, **values: Any) -> _Part:
    """Copy a part of a spec with other values, without its validation."""
    changed = copy(part)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed
