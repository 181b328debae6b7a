"""Delta debugging: find the least value, or the fewest bytes, for which a condition holds.

``holds`` gets many candidates at once, the largest cuts first, because one batch of questions to an
adapter is cheaper than many single ones. Every candidate is less than its origin in a well-founded
order. So the search ends; and while there is one cause, it ends at the same result from every
starting point.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kraftspec.codegen.plan import FieldPlan, StructPlan
from kraftspec.conformance.fuzz.values import ARRAYS, Value, plain, plain_field
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.values import UNKNOWN_TAGS

COUNTED_BYTES_MAX = 80  # The number of edits is the square of this.


class Effort(NamedTuple):
    """The limits of a search: the number of rounds, and of candidates in each."""

    rounds: int
    batch: int


FULL = Effort(400, 64)  # A value of thousands of fields is not fully minimised.
LITTLE = Effort(500, 1)  # For an input that ends a process: a restart takes a second.
NONE = Effort(0, 1)  # For an input that hangs: each try takes a whole timeout.


_Case = TypeVar("_Case")
Holds = Callable[[Sequence[_Case]], Sequence[bool]]


def least(
    case: _Case,
    simpler: Callable[[_Case], Iterator[_Case]],
    holds: Holds[_Case],
    effort: Effort = FULL,
) -> _Case:
    """Replace the case by a simpler one for which the condition holds, until there is none."""
    rounds = 0
    candidates = simpler(case)
    while rounds < effort.rounds:
        batch = list(islice(candidates, effort.batch))
        if not batch:
            return case
        rounds += 1
        results = holds(batch)
        if any(results):
            case = batch[list(results).index(True)]
            candidates = simpler(case)
    return case


# ------------------------------------------------------------------------------------- values


def least_value(
    plan: StructPlan, value: Value, holds: Holds[Value], effort: Effort = FULL
) -> Value:
    """Return the least value of a plan for which the condition holds."""
    return least(value, lambda case: _structs(plan, case), holds, effort)


def _structs(plan: StructPlan, value: Value) -> Iterator[Value]:
    """Yield simpler values of a struct: the empty one, then those with one item less."""
    bare = plain(plan)
    if value != bare:
        yield bare
    for entry in (*plan.fields, *plan.tagged):
        if entry.name not in value:
            continue
        inner = value[entry.name]
        if entry.tag is not None:
            yield {name: kept for name, kept in value.items() if name != entry.name}
        elif inner != plain_field(entry):
            yield {**value, entry.name: plain_field(entry)}
    if UNKNOWN_TAGS in value:
        yield {name: kept for name, kept in value.items() if name != UNKNOWN_TAGS}
    for entry in (*plan.fields, *plan.tagged):
        if entry.name in value:
            for simpler in _fields(entry, value[entry.name]):
                yield {**value, entry.name: simpler}
    taken = {entry.tag for entry in plan.tagged} | set(plan.later_tags)
    free = next(tag for tag in range(len(taken) + 1) if tag not in taken)
    for simpler in _unknown(value.get(UNKNOWN_TAGS, []), free):
        yield {**value, UNKNOWN_TAGS: simpler}


def _fields(entry: FieldPlan, value: Any) -> Iterator[Any]:
    if value is None:
        return
    if entry.wire in ARRAYS:
        yield from _arrays(entry, value)
    elif isinstance(entry.element, StructPlan):
        yield from _structs(entry.element, value)
    else:
        default = plain_field(entry)
        yield from (other for other in _scalars(entry.wire, value, default) if other != default)


def _arrays(entry: FieldPlan, value: list[Any]) -> Iterator[list[Any]]:
    yield from _shorter(value)
    for at, item in enumerate(value):
        if isinstance(entry.element, StructPlan):
            simpler = _structs(entry.element, item)
        else:
            simpler = _scalars(str(entry.element), item, None)
        for other in simpler:
            yield [*value[:at], other, *value[at + 1 :]]


def _shorter(items: Sequence[Any]) -> Iterator[Any]:
    """Remove runs from a sequence: all of it, halves, quarters, down to single items."""
    size = len(items)
    while size:
        for at in range(0, len(items), size):
            yield items[:at] + items[at + size :]  # type: ignore[operator]  # list or bytes
        size //= 2


def _scalars(wire: str, value: Any, default: Any) -> Iterator[Any]:
    """Yield simpler values of a primitive. The default is the simplest."""
    if value == default and type(value) is type(default):
        return
    kind = wire.removeprefix("compact_")
    if kind in INTEGER_RANGE:
        yield from _integers(value)
    elif kind == "bool":
        yield from [False] if value else []
    elif kind == "float64":
        yield from [other for other in (0.0, 1.0) if _before(other, value, (0.0, 1.0))]
    elif kind == "uuid":
        zero, one = "A" * 22, "A" * 21 + "Q"
        yield from [other for other in (zero, one) if _before(other, value, (zero, one))]
    elif kind == "string":
        yield from _shorter(value)
        if set(value) - {"a"}:
            yield "a" * len(value)
        for at, letter in enumerate(value):
            if letter != "a":
                yield f"{value[:at]}a{value[at + 1 :]}"
    else:
        yield from _base64(value)


def _before(other: Any, value: Any, order: tuple[Any, ...]) -> bool:
    places = [at for at, item in enumerate(order) if item == value and type(item) is type(value)]
    return not places or order.index(other) < places[0]


def _integers(value: int) -> Iterator[int]:
    order = (0, 1, -1)
    for other in order:
        if _before(other, value, order) and (other >= 0 or value < 0):
            yield other
    if value not in order:
        size, sign = abs(value), -1 if value < 0 else 1
        # Halves first, then smaller and smaller steps: a few dozen steps reach any limit.
        for shift in range(1, size.bit_length() + 1):
            other = sign * (size - (size >> shift or 1))
            if other not in order:
                yield other


def _base64(value: str) -> Iterator[str]:
    raw = base64.b64decode(value)
    for other in _shorter(raw):
        yield base64.b64encode(other).decode()
    if any(raw):
        yield base64.b64encode(bytes(len(raw))).decode()


def _unknown(tags: list[Value], free: int) -> Iterator[list[Value]]:
    """Yield simpler unknown tags; ``free`` is the lowest unused tag."""
    if len(tags) == 1 and tags[0]["tag"] > free:
        yield [{**tags[0], "tag": free}]
    if len(tags) > 1:
        yield from (shorter for shorter in _shorter(tags) if shorter)
    for at, entry in enumerate(tags):
        raw = bytes.fromhex(entry["hex"])
        for other in (*_shorter(raw), *([bytes(len(raw))] if any(raw) else [])):
            yield [*tags[:at], {**entry, "hex": other.hex()}, *tags[at + 1 :]]


# -------------------------------------------------------------------------------------- bytes


Edit = tuple[int, int, bytes]  # data[start:end] becomes these bytes.


def least_bytes(data: bytes, holds: Holds[bytes], effort: Effort = FULL) -> bytes:
    """Return few bytes, zero if possible, for which the condition holds.

    Runs of bytes are removed, then zeroed, in decreasing length. Then single bytes are lowered, and
    the same number of following bytes is removed, because the byte may be a length. This repeats
    until nothing changes.
    """
    rounds = 0
    before = None
    while data != before and rounds < effort.rounds:
        before = data
        for edits in (_cuts, _zeros, _lengths, _lower, _counts):
            at = 0
            candidates = list(edits(data))
            while at < len(candidates) and rounds < effort.rounds:
                batch = candidates[at : at + effort.batch]
                at += effort.batch
                rounds += 1
                results = holds([_edited(data, [edit]) for edit in batch])
                if chosen := [edit for edit, good in zip(batch, results, strict=True) if good]:
                    data = _combined(data, chosen, holds)
                    candidates, at = list(edits(data)), 0
    return data


def _combined(data: bytes, edits: list[Edit], holds: Holds[bytes]) -> bytes:
    """Apply all edits if the condition holds for them together, else the first one."""
    apart: list[Edit] = []
    for edit in sorted(edits):
        if not apart or edit[0] >= apart[-1][1]:
            apart.append(edit)
    if len(apart) > 1:
        together = _edited(data, apart)
        if holds([together]) == [True]:
            return together
    return _edited(data, edits[:1])


def _edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for start, end, other in reversed(edits):
        data = data[:start] + other + data[end:]
    return data


def _runs(count: int) -> Iterator[tuple[int, int]]:
    size = count
    while size:
        for at in range(0, count, size):
            yield at, min(at + size, count)
        size //= 2


def _cuts(data: bytes) -> Iterator[Edit]:
    for start, end in _runs(len(data)):
        yield start, end, b""


def _zeros(data: bytes) -> Iterator[Edit]:
    for start, end in _runs(len(data)):
        if any(data[start:end]):
            yield start, end, bytes(end - start)


def _lengths(data: bytes) -> Iterator[Edit]:
    for at, byte in enumerate(data):
        for other in (0, 1):
            if 0 < byte - other < len(data) - at:
                yield at, at + 1 + byte - other, bytes((other,))


def _counts(data: bytes) -> Iterator[Edit]:
    """Lower a byte by one and remove bytes after it: one element less. Only for few bytes."""
    for at, byte in enumerate(data[:COUNTED_BYTES_MAX] if len(data) <= COUNTED_BYTES_MAX else b""):
        for end in range(len(data), at + 1, -1) if byte else ():
            yield at, end, bytes((byte - 1,))


def _lower(data: bytes) -> Iterator[Edit]:
    for at, byte in enumerate(data):
        for other in sorted({1, byte & 0x7F, byte >> 1}):
            if other < byte:
                yield at, at + 1, bytes((other,))


# ------------------------------------------------------------- the fields that a value sets


def salient(plan: StructPlan, value: Value, path: str = "") -> list[str]:
    """Return the innermost paths at which a value differs from the plain one."""
    fields: list[str] = []
    for entry in (*plan.fields, *plan.tagged):
        if entry.name not in value or (
            entry.tag is None and value[entry.name] == plain_field(entry)
        ):
            continue
        inner, where = value[entry.name], path + entry.name
        items = inner if isinstance(inner, list) else [inner]
        mark = "[]" if isinstance(inner, list) and inner else ""
        deeper: list[str] = []
        if isinstance(entry.element, StructPlan):
            for item in items:
                if item is not None:
                    deeper += salient(entry.element, item, f"{where}{mark}.")
        fields += deeper or [where + mark]
    if UNKNOWN_TAGS in value:
        fields.append(path + UNKNOWN_TAGS)
    return sorted(set(fields))
