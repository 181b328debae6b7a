"""Random values of fields that a version lacks, beside those that the fuzzer makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import AbsentPlan, FieldPlan, StructPlan, plan_message
from kraftspec.conformance.fuzz.values import ARRAYS, Value, Values, mutated

__all__ = ["Lacking", "Values", "lacking", "mutated"]


@dataclass(frozen=True, slots=True)
class Lacking:
    """A field that a version lacks. ``path`` leads to its struct; ``field`` is it elsewhere."""

    path: tuple[FieldPlan, ...]
    absent: AbsentPlan
    field: FieldPlan

    def value(self, values: Values, top: StructPlan) -> Value:
        """Make a value of the version in which the struct at the end of the path exists."""
        out = values.struct(top)
        inner = out
        for step in self.path:
            assert isinstance(step.element, StructPlan)
            struct = values.struct(step.element)
            inner[step.name] = [struct] if step.wire in ARRAYS else struct
            inner = struct
        return out

    def inside(self, value: Value) -> Value:
        """Return the struct at the end of the path."""
        for step in self.path:
            inner = value[step.name]
            value = inner[0] if isinstance(inner, list) else inner
        return value


def lacking(message: Message, version: int) -> Iterator[Lacking]:
    """Find every field that a version of a message lacks, wherever it would be."""

    def walk(plan: StructPlan, path: tuple[FieldPlan, ...]) -> Iterator[Lacking]:
        for absent in plan.absent:
            field = _elsewhere(message, plan.name, absent.name)
            if field is not None:
                yield Lacking(path, absent, field)
        for entry in (*plan.fields, *plan.tagged):
            if isinstance(entry.element, StructPlan):
                yield from walk(entry.element, (*path, entry))

    yield from walk(plan_message(message, version).struct, ())


def _elsewhere(message: Message, struct: str, name: str) -> FieldPlan | None:
    """Return the field in its lowest version, in which the adapter reads a struct too young."""
    fields = message.structs.get(struct, message.top).fields
    lowest = next(entry.versions.lowest for entry in fields if entry.json_name == name)
    if lowest not in message.valid_versions:
        return None
    for plan in _structs(plan_message(message, lowest).struct):
        for entry in (*plan.fields, *plan.tagged):
            if (plan.name, entry.name) == (struct, name):
                return entry
    return None


def _structs(plan: StructPlan) -> Iterator[StructPlan]:
    yield plan
    for entry in (*plan.fields, *plan.tagged):
        if isinstance(entry.element, StructPlan):
            yield from _structs(entry.element)
