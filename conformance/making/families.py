"""Values to make vectors of, family by family, from a plan.

Each family is a claim about what implementers get wrong: a default that is written though it should
not be, a null that is not one, a length at the edge of its prefix, a tag nobody knows. Values have
the shape of Kafka's JSON converters; what bytes they are is for Apache Kafka to say.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kraftspec.codegen.plan import FieldPlan, MessagePlan, StructPlan
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.values import UNKNOWN_TAGS, default_json

Value = dict[str, Any]
Fill = Callable[[FieldPlan, str], Any]

# Lengths on both sides of each width of a uvarint length + 1 prefix.
SHORT_LENGTHS = (126, 127, 128)
LONG_LENGTHS = (16383, 16384)
STRING_BYTES_MAX = 32767
TEXTS = ("", "é", "漢字", "🐙", "a\x00b", '"\\/')
FLOATS = (-0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"))
RESERVED_UUIDS = (bytes(16), bytes(15) + b"\x01", b"\xff" * 16)
HIGH_TAG = 0x7FFFFFFE  # Kafka keeps 2^31-1 for itself, as the end of a list of tags
# Three records in one batch, as MemoryRecords.withRecords of Apache Kafka 4.3.1 writes them.
REAL_RECORDS = base64.b64encode(
    bytes.fromhex(
        "000000000000000000000051ffffffff0286f791370000000000020000018bcfe568000000018bcfe56802ffff"
        "ffffffffffffffffffffffff0000000310000000026b02760016000202010a76616c7565001400040408676f6e"
        "650100"
    )
).decode()
ARRAYS = ("array", "compact_array")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value for one message at one version, and the family that wanted it."""

    family: str
    value: Value
    comment: str
    op: str = "roundtrip"


def candidates(plan: MessagePlan, *, long: bool) -> Iterator[Candidate]:
    """Enumerate the values of every family; ``long`` adds the lengths of many kilobytes."""
    top = plan.struct
    yield Candidate("defaults", _struct(top, _default), "every field holds its default")
    yield Candidate("populated", _struct(top, _populated, tagged=True), "every field is set")
    yield Candidate("empty", _struct(top, _empty, tagged=True), "all that can be empty is")
    yield Candidate("null", _struct(top, _null, tagged=True), "all that can be null is")
    yield Candidate("multi-element", _struct(top, _many, tagged=True), "two elements an array")
    for name, edge in _EDGES.items():
        yield Candidate("boundaries", _struct(top, edge, tagged=True), f"integers: {name}")
    for path, struct_plan in structs_of(top, ()):
        for entry in (*struct_plan.fields, *struct_plan.tagged):
            yield from _alone(top, path, entry, long)
        if struct_plan.flexible:
            yield from _unknown(top, path, struct_plan)


# ------------------------------------------------------------------------------ building values


def default_value(plan: StructPlan) -> Value:
    """Return the value of a struct whose every field holds its default."""
    return _struct(plan, _default)


def populated_value(plan: StructPlan | FieldPlan) -> Any:
    """Return the value of a struct whose every field is set, or of such a field."""
    return (
        _struct(plan, _populated, tagged=True)
        if isinstance(plan, StructPlan)
        else _populated(plan, "")
    )


def _struct(plan: StructPlan, fill: Fill, *, tagged: bool = False, salt: str = "") -> Value:
    out = {entry.name: fill(entry, salt) for entry in plan.fields}
    if tagged:
        for entry in plan.tagged:
            value = fill(entry, salt)
            if not _holds_default(entry, value):
                out[entry.name] = value
    return out


def _holds_default(entry: FieldPlan, value: Any) -> bool:
    if entry.default is ...:
        return value is not None and value == _default(entry, "")
    if value is None or entry.default is None:
        return value is entry.default
    return bool(value == default_json(entry.default))


def _element(entry: FieldPlan) -> FieldPlan:
    """Return an array's element as if it were a field."""
    nested = isinstance(entry.element, StructPlan)
    wire = "struct" if nested else str(entry.element)
    default = ... if nested else _ZERO.get(wire.removeprefix("compact_"), 0)
    return FieldPlan(
        entry.name, entry.attr, wire, False, entry.element if nested else None, default
    )  # fmt: skip


_ZERO: dict[str, Any] = {
    "bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": b"",
}  # fmt: skip


def _default(entry: FieldPlan, _salt: str) -> Any:
    if entry.default is None and not entry.nullable:
        return _empty(entry, "")
    if entry.default is ... and isinstance(entry.element, StructPlan):
        return _struct(entry.element, _default)
    return default_json(entry.default)


def _empty(entry: FieldPlan, _salt: str) -> Any:
    kind = entry.wire.removeprefix("compact_")
    if kind == "array":
        return []
    if kind in ("string", "bytes", "records"):
        return ""
    if isinstance(entry.element, StructPlan):
        return _struct(entry.element, _empty, tagged=True)
    return default_json(_ZERO.get(kind, 0))


def _populated(entry: FieldPlan, salt: str) -> Any:
    return _fill(entry, salt, _populated, 1)


def _many(entry: FieldPlan, salt: str) -> Any:
    return _fill(entry, salt, _many, 2)


def _null(entry: FieldPlan, salt: str) -> Any:
    return None if entry.nullable else _fill(entry, salt, _null, 1)


def _fill(entry: FieldPlan, salt: str, deeper: Fill, count: int) -> Any:
    if entry.wire in ARRAYS:
        element = _element(entry)
        return [deeper(element, f"{salt}{at}") for at in range(count)]
    if isinstance(entry.element, StructPlan):
        return _struct(entry.element, deeper, tagged=True, salt=salt)
    return _scalar(entry, f"{entry.name}{salt}")


def _scalar(entry: FieldPlan, text: str) -> Any:
    """Return a value that tells its field apart from the others, and is not the default."""
    kind = entry.wire.removeprefix("compact_")
    number = sum(ord(letter) * (at + 1) for at, letter in enumerate(text)) % 101 + 2
    match kind:
        case "bool":
            return entry.default is not True
        case "string":
            return text
        case "bytes":
            return base64.b64encode(text.encode()).decode()
        case "records":
            return REAL_RECORDS
        case "uuid":
            return str(Uuid(struct.pack(">qq", number, number << 32)))
        case "float64":
            return number + 0.25
    low, high = INTEGER_RANGE[kind]
    return (
        number
        * {8: 1, 16: 257, 32: 16_909_320, 64: 72_623_859_790_382_856}[(high - low).bit_length()]
        if number != entry.default
        else number + 1
    )


def _edge(pick: int) -> Fill:
    def fill(entry: FieldPlan, salt: str) -> Any:
        kind = entry.wire
        if kind in INTEGER_RANGE:
            low, high = INTEGER_RANGE[kind]
            return (low, high, low + 1, high - 1)[pick]
        return _fill(entry, salt, fill, 1)

    return fill


_EDGES = {name: _edge(at) for at, name in enumerate(("lowest", "highest", "low + 1", "high - 1"))}


# --------------------------------------------------------------------------- one field at a time

Path = tuple[FieldPlan, ...]


def structs_of(plan: StructPlan, path: Path) -> Iterator[tuple[Path, StructPlan]]:
    """Yield a struct and all structs below it, each with the fields that lead to it."""
    yield path, plan
    for entry in (*plan.fields, *plan.tagged):
        if isinstance(entry.element, StructPlan):
            yield from structs_of(entry.element, (*path, entry))


def value_at(plan: StructPlan, path: Path, change: Callable[[Value], object]) -> Value:
    """Return defaults everywhere, but for the struct at the end of ``path``, which is changed."""
    value = _struct(plan, _default)
    if not path:
        change(value)
        return value
    step, *rest = path
    assert isinstance(step.element, StructPlan)
    inner = value_at(step.element, tuple(rest), change)
    value[step.name] = [inner] if step.wire in ARRAYS else inner
    return value


def value_with(plan: StructPlan, path: Path, fields: Value) -> Value:
    """Return defaults everywhere, but for some fields of the struct at the end of ``path``."""
    return value_at(plan, path, lambda inner: inner.update(fields))


def _alone(top: StructPlan, path: Path, entry: FieldPlan, long: bool) -> Iterator[Candidate]:
    """Set one field of one struct alone, to each of the values that are worth it."""
    where = ".".join([*(step.name for step in path), entry.name])

    def setting(family: str, value: Any, comment: str, op: str = "roundtrip") -> Candidate:
        whole = value_with(top, path, {entry.name: value})
        return Candidate(family, whole, f"{where}: {comment}", op)

    if entry.tag is not None:
        yield setting("tagged", _default(entry, ""), "given, but holds its default", "encode")
    for family, value, comment in _values(entry, long):
        if entry.tag is None or not _holds_default(entry, value):
            yield setting(family, value, comment)


def _values(entry: FieldPlan, long: bool) -> Iterator[tuple[str, Any, str]]:
    family = "alone" if entry.tag is None else "tagged"
    kind = entry.wire.removeprefix("compact_")
    yield family, _populated(entry, ""), "set alone"
    if entry.nullable:
        yield "null", None, "null"
        yield "empty", _empty(entry, ""), "not null, but empty"
    elif kind == "array":
        yield "empty", [], "empty, in a struct that is there"
    lengths = (*SHORT_LENGTHS, *LONG_LENGTHS) if long else SHORT_LENGTHS
    if kind == "string":
        for text in TEXTS:
            yield "strings", text, f"text {text!r}"
        for length in lengths:
            yield "lengths", "x" * length, f"{length} bytes"
        if long:
            yield "lengths", "é" * 63, "63 characters, 126 bytes"
            yield "lengths", "é" * 64, "64 characters, 128 bytes"
            yield "lengths", "y" * STRING_BYTES_MAX, f"{STRING_BYTES_MAX} bytes, the longest"
    elif kind == "bytes":
        for length in lengths:
            raw = bytes(at % 251 for at in range(length))
            yield "lengths", base64.b64encode(raw).decode(), f"{length} bytes"
    elif kind == "records":
        yield "records", "", "empty"
        yield "records", REAL_RECORDS, "a real batch"
    elif kind == "uuid":
        for raw in RESERVED_UUIDS:
            yield "uuid", str(Uuid(raw)), "reserved"
    elif kind == "float64":
        for number in FLOATS:
            finite = number - number == 0
            shown = number if finite else f"0x{struct.pack('>d', number).hex()}"
            yield "boundaries", shown, f"float {number}"
    elif kind in INTEGER_RANGE:
        for number in (*INTEGER_RANGE[kind], -1 if INTEGER_RANGE[kind][0] else 1):
            yield "boundaries", number, f"integer {number}"
    elif kind == "array" and not isinstance(entry.element, StructPlan):
        element = _element(entry)
        for length in lengths[: 3 if long else 2]:
            yield "lengths", [_scalar(element, "") for _ in range(length)], f"{length} elements"
    elif kind == "array" and long and isinstance(entry.element, StructPlan):
        for length in SHORT_LENGTHS:
            rows = [default_value(entry.element) for _ in range(length)]
            yield "lengths", rows, f"{length} structs"


def _unknown(top: StructPlan, path: Path, plan: StructPlan) -> Iterator[Candidate]:
    """Give one struct tags that no version of it knows."""
    where = ".".join(step.name for step in path) or "message"
    taken = {entry.tag for entry in plan.tagged} | set(plan.later_tags)
    low = next(tag for tag in range(len(taken) + 1) if tag not in taken)
    payloads = {
        "low": [(low, "00")],
        "low and high": [(low, ""), (10_009, "3b44a1"), (HIGH_TAG, "ff")],
        "longer than a byte's length": [(low + 127, "5a" * 128)],
    }
    for name, tags in payloads.items():
        shown = [{"tag": tag, "hex": payload} for tag, payload in tags]
        value = value_with(top, path, {UNKNOWN_TAGS: shown})
        yield Candidate("unknown-tags", value, f"{where}: {name}")
        if plan.tagged:
            known = {entry.name: _populated(entry, "") for entry in plan.tagged}
            value = value_with(top, path, {**known, UNKNOWN_TAGS: shown})
            yield Candidate("unknown-tags", value, f"{where}: {name}, after known tags")
