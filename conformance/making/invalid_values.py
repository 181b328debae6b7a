"""Values that must be refused on encoding, each with its class and the path of the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kraftspec.codegen.plan import FieldPlan, MessagePlan, StructPlan
from kraftspec.conformance.making.families import (
    Path,
    populated_value,
    structs_of,
    value_at,
    value_with,
)
from kraftspec.conformance.making.invalid import UNKNOWN_TAG, Fault, picked, place
from kraftspec.fastpath.plan import INTEGER_RANGE, STRING_BYTES_MAX
from kraftspec.fastpath.values import UNKNOWN_TAGS

# What is not of a type, and near enough to it that somebody converts it.
_NO_INTEGERS: Final = ("five", "5", 5.5, True, [5])
WRONG: Final[Mapping[str, tuple[Any, ...]]] = {
    "bool": (1, "true", 0.0),
    "string": (5, False, ["text"], {}),
    "bytes": (5, "not base64!", [1, 2]),
    "records": (5, "not base64!"),
    "uuid": (5, "AAAAAAAAAAAAAAAAAAAAA", "not a uuid, which has 22 letters"),
    "float64": ("one", True, [1.0]),
    "array": ({}, "text", 5),
    "struct": ([], "text", 5),
}

Fields = Mapping[tuple[str, str], FieldPlan]


def fields_of(plans: Mapping[int, MessagePlan]) -> Fields:
    """Return every field of every version of a message, by the names of struct and field."""
    return {
        (struct_plan.name, entry.name): entry
        for plan in plans.values()
        for _, struct_plan in structs_of(plan.struct, ())
        for entry in (*struct_plan.fields, *struct_plan.tagged)
    }


def encode_faults(
    plan: MessagePlan, fields: Fields, *, is_full: bool, is_long: bool
) -> Iterator[Fault]:
    """Enumerate what is wrong with values of one message at one version.

    ``fields`` are those of all versions; ``is_full`` is as for bytes; ``is_long`` adds strings that
    are longer than any may be.
    """
    top = plan.struct
    faults: list[Fault] = []
    for path, struct_plan in structs_of(top, ()):
        faults += _names(top, path, struct_plan, fields)
        for entry in (*struct_plan.fields, *struct_plan.tagged):
            faults += _of_field(top, path, entry)
            if is_long and entry.wire.endswith("string"):
                yield from _too_long(top, path, entry)
    yield from picked(faults, plan.version, 1, is_full=is_full)


def _fault(
    top: StructPlan,
    path: Path,
    entry: tuple[str, Any],
    error_class: str,
    comment: str,
    kind: str,
) -> Fault:
    """Give the struct at ``path`` a field, by name and value."""
    name, wrong = entry
    value = value_with(top, path, {name: wrong})
    return Fault(error_class, comment, place(path, name), value=value, kind=kind)


def _names(top: StructPlan, path: Path, plan: StructPlan, fields: Fields) -> Iterator[Fault]:
    """Break one struct by fields that it lacks, or that are not its own."""

    def fault(name: str, value: Any, error_class: str, comment: str, kind: str) -> Fault:
        return _fault(top, path, (name, value), error_class, comment, kind)

    lacking = "field_not_in_version"
    for absent in plan.absent:
        other = fields.get((plan.name, absent.name))  # None: no version that is valid has it.
        if other is not None and not absent.ignorable:
            filled = populated_value(other)
            yield fault(absent.name, filled, lacking, "of other versions only", "absent")
    for wrong in ("text", None):
        kind = f"no such field, {wrong}"
        yield fault("noSuchField", wrong, lacking, "of no version", kind)
    if not plan.flexible:
        unknown = [{"tag": 0, "hex": ""}]
        yield fault(UNKNOWN_TAGS, unknown, lacking, "no tagged fields", "tags")
        return
    tags: dict[str, tuple[list[int], str]] = {
        "tag_out_of_order": ([UNKNOWN_TAG, 10_008], "10008 after 10009"),
        "tag_duplicate": ([UNKNOWN_TAG, UNKNOWN_TAG], "10009 twice"),
    }
    for error_class, (numbers, comment) in tags.items():
        shown = [{"tag": tag, "hex": "00"} for tag in numbers]
        yield fault(UNKNOWN_TAGS, shown, error_class, comment, "tags")
    for entry in plan.tagged:
        known = [{"tag": entry.tag, "hex": "00"}]
        comment = f"tag {entry.tag} is a known one"
        yield fault(UNKNOWN_TAGS, known, "tag_duplicate", comment, "known tag")


def _of_field(top: StructPlan, path: Path, entry: FieldPlan) -> Iterator[Fault]:
    kind = entry.wire.removeprefix("compact_")

    def fault(error_class: str, comment: str, value: Any) -> Fault:
        return _fault(top, path, (entry.name, value), error_class, comment, kind)

    for wrong in WRONG.get(kind, _NO_INTEGERS):
        yield fault("wrong_type", f"{wrong!r} for a value of type {kind}", wrong)
    if kind in INTEGER_RANGE:
        low, high = INTEGER_RANGE[kind]
        for number in (low - 1, high + 1):
            yield fault("integer_out_of_range", f"{number}, which no {kind} holds", number)
    if not entry.nullable:
        yield fault("null_for_non_nullable", f"null for a value of type {kind}", None)
    if entry.tag is None:
        value = value_at(top, path, lambda inner: inner.pop(entry.name))
        where = place(path, entry.name)
        yield Fault("missing_field", "left out", where, value=value, kind=f"{kind} left out")


def _too_long(top: StructPlan, path: Path, entry: FieldPlan) -> Iterator[Fault]:
    text = "z" * (STRING_BYTES_MAX + 1)
    comment = f"{len(text)} bytes, one too many"
    yield _fault(top, path, (entry.name, text), "length_too_long", comment, "length")
