"""Values that must be refused on encoding, each with its class and the path of the field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kraftspec.codegen.plan import FieldPlan, MessagePlan, StructPlan
from kraftspec.conformance.families import (
    Path,
    Value,
    populated_value,
    structs_of,
    value_at,
)
from kraftspec.conformance.invalid import UNKNOWN_TAG, Fault, picked, place
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
    found: list[Fault] = []
    for path, struct_plan in structs_of(top, ()):
        found += _names(top, path, struct_plan, fields)
        for entry in (*struct_plan.fields, *struct_plan.tagged):
            found += _of_field(top, path, entry)
            if is_long and entry.wire.endswith("string"):
                yield from _too_long(top, path, entry)
    yield from picked(found, plan.version, 1, is_full=is_full)


def _fault(
    top: StructPlan,
    path: Path,
    change: Callable[[Value], object],
    error_class: str,
    comment: str,
    name: str,
    kind: str,
) -> Fault:
    where = place(path, name)
    value = value_at(top, path, lambda inner: void(change(inner)))
    return Fault(error_class, comment, where, value=value, kind=kind)


def void(_: object) -> None:
    """Drop what a change of a dict returns."""


def _names(top: StructPlan, path: Path, plan: StructPlan, fields: Fields) -> Iterator[Fault]:
    """Break one struct by fields that it lacks, or that are not its own."""

    def fault(change: Callable[[Value], object], comment: str, name: str, kind: str) -> Fault:
        return _fault(top, path, change, "field_not_in_version", comment, name, kind)

    for absent in plan.absent:
        other = fields.get((plan.name, absent.name))  # None: no version that is valid has it.
        if other is not None and not absent.ignorable:
            filled = populated_value(other)
            yield fault(
                lambda inner: inner.update({absent.name: filled}),  # noqa: B023 - called at once
                "of other versions only", absent.name, "absent",
            )  # fmt: skip
    for wrong in ("text", None):
        yield fault(
            lambda inner: inner.update({"noSuchField": wrong}),  # noqa: B023 - called at once
            "of no version", "noSuchField", f"no such field, {wrong}",
        )  # fmt: skip
    if not plan.flexible:
        given = [{"tag": 0, "hex": ""}]
        yield fault(
            lambda inner: inner.update({UNKNOWN_TAGS: given}),
            "no tagged fields", UNKNOWN_TAGS, "tags",
        )  # fmt: skip
        return
    tags: dict[str, tuple[list[int], str]] = {
        "tag_out_of_order": ([UNKNOWN_TAG, 10_008], "10008 after 10009"),
        "tag_duplicate": ([UNKNOWN_TAG, UNKNOWN_TAG], "10009 twice"),
    }
    for error_class, (numbers, comment) in tags.items():
        shown = [{"tag": tag, "hex": "00"} for tag in numbers]
        yield _fault(
            top, path, lambda inner: inner.update({UNKNOWN_TAGS: shown}),  # noqa: B023 - called at once
            error_class, comment, UNKNOWN_TAGS, "tags",
        )  # fmt: skip
    for entry in plan.tagged:
        known = [{"tag": entry.tag, "hex": "00"}]
        yield _fault(
            top, path, lambda inner: inner.update({UNKNOWN_TAGS: known}),  # noqa: B023 - called at once
            "tag_duplicate", f"tag {entry.tag} is a known one", UNKNOWN_TAGS, "known tag",
        )  # fmt: skip


def _of_field(top: StructPlan, path: Path, entry: FieldPlan) -> Iterator[Fault]:
    kind = entry.wire.removeprefix("compact_")

    def given(error_class: str, comment: str, value: Any) -> Fault:
        return _fault(
            top, path, lambda inner: inner.update({entry.name: value}), error_class, comment,
            entry.name, kind,
        )  # fmt: skip

    for wrong in WRONG.get(kind, _NO_INTEGERS):
        yield given("wrong_type", f"{wrong!r} for a value of type {kind}", wrong)
    if kind in INTEGER_RANGE:
        low, high = INTEGER_RANGE[kind]
        for number in (low - 1, high + 1):
            yield given("integer_out_of_range", f"{number}, which no {kind} holds", number)
    if not entry.nullable:
        yield given("null_for_non_nullable", f"null for a value of type {kind}", None)
    if entry.tag is None:
        yield _fault(
            top, path, lambda inner: inner.pop(entry.name), "missing_field", "left out",
            entry.name, f"{kind} left out",
        )  # fmt: skip


def _too_long(top: StructPlan, path: Path, entry: FieldPlan) -> Iterator[Fault]:
    text = "z" * (STRING_BYTES_MAX + 1)
    yield _fault(
        top, path, lambda inner: inner.update({entry.name: text}), "length_too_long",
        f"{len(text)} bytes, one too many", entry.name, "length",
    )  # fmt: skip
