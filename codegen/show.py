"""``spec show``: a plan as a tree, and bytes held against it.

What a person who debugs a wire wants: which bytes are which field, from which offset on, and where
and why the first wrong byte is wrong.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import FieldPlan, LayoutTable, MessagePlan, StructPlan, plan_message
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.interpret import Decoder, Span
from kraftspec.fastpath.types import Uuid

SIZES = {
    "bool": "1 byte", "int8": "1 byte", "int16": "2 bytes", "uint16": "2 bytes",
    "int32": "4 bytes", "uint32": "4 bytes", "int64": "8 bytes", "float64": "8 bytes",
    "uuid": "16 bytes", "string": "int16 length, UTF-8", "bytes": "int32 length, bytes",
    "records": "int32 length, record batches", "array": "int32 count",
    "compact_string": "uvarint length+1, UTF-8", "compact_bytes": "uvarint length+1, bytes",
    "compact_records": "uvarint length+1, record batches", "compact_array": "uvarint count+1",
}  # fmt: skip
VALUE_MAX = 60  # characters of a value that a line shows


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a tree: its depth, its name and its text."""

    depth: int
    name: str
    wire: str
    detail: str


def headline(plan: MessagePlan) -> str:
    """Return one sentence about a plan."""
    key = "" if plan.api_key is None else f", API key {plan.api_key}"
    header = "" if plan.header_version is None else f", header v{plan.header_version}"
    flexible = "flexible" if plan.flexible else "not flexible"
    return f"{plan.message} v{plan.version} ({plan.type}{key}, {flexible}{header})"


def layout_lines(plan: MessagePlan) -> list[Line]:
    """List the fields of a plan in wire order."""
    return list(_struct_lines(plan.struct, 0))


def _struct_lines(struct: StructPlan, depth: int) -> Iterator[Line]:
    for entry in struct.fields:
        yield from _field_lines(entry, depth)
    if struct.flexible:
        yield Line(depth, "(tagged fields)", "uvarint count", "each: uvarint tag, uvarint size")
        for entry in struct.tagged:
            yield from _field_lines(entry, depth + 1)


def _field_lines(entry: FieldPlan, depth: int) -> Iterator[Line]:
    nested = isinstance(entry.element, StructPlan)
    wire = entry.wire
    if entry.wire in ("array", "compact_array"):
        kind = entry.element.name if isinstance(entry.element, StructPlan) else entry.element
        wire = f"{entry.wire} of {kind}"
    detail = SIZES.get(entry.wire, "")
    if entry.wire == "struct":
        marker = "uvarint 0/1" if entry.tag is not None else "int8 -1/1"
        detail = f"{marker}, fields" if entry.nullable else "fields"
    if entry.nullable:
        detail += "; nullable"
    name = entry.name if entry.tag is None else f"tag {entry.tag}: {entry.name}"
    if entry.tag is not None:
        detail += "; left out when default"
    yield Line(depth, name, wire, detail)
    if nested and isinstance(entry.element, StructPlan):
        yield from _struct_lines(entry.element, depth + 1)


@dataclass(frozen=True, slots=True)
class Dump:
    """Bytes held against a plan: what was read, and the error that ended the reading, if any."""

    plan: MessagePlan
    data: bytes
    spans: tuple[Span, ...]
    value: Any
    error: CodecError | None

    def to_json(self) -> dict[str, Any]:
        """Return the dump as JSON."""
        out: dict[str, Any] = {
            "message": self.plan.message,
            "version": self.plan.version,
            "spans": [
                {
                    "path": span.path,
                    "wire": span.wire,
                    "start": span.start,
                    "end": span.end,
                    "hex": self.data[span.start : span.end].hex(),
                    "value": show_value(span.value),
                }
                for span in self.spans
            ],
        }
        if self.error is not None:
            out["error"] = {
                "class": str(self.error.error_class),
                "offset": self.error.offset,
                "path": self.error.path,
                "detail": self.error.detail,
            }
        return out


def dump(message: Message, version: int, data: bytes, *, lenient: bool = False) -> Dump:
    """Decode ``data`` by the plan of a spec, noting which bytes held what.

    Raises ``ValueError`` for a version that the message does not have.
    """
    plan = plan_message(message, version)
    table = LayoutTable.of(message)
    spans: list[Span] = []
    decoder = Decoder(
        data, 0, table.literal(), lambda _, values: values, lenient=lenient, trace=spans
    )
    value, error = None, None
    try:
        value = decoder.struct(decoder.layouts[table.plans[version]])
        if decoder.at != len(data) and not lenient:
            left = len(data) - decoder.at
            error = CodecError(
                ErrorClass.TRAILING, f"{left} bytes follow the message", offset=decoder.at
            )
    except CodecError as refused:
        error = refused
    return Dump(plan, data, tuple(spans), value, error)


def show_value(value: Any) -> str:
    """Return the value of a primitive, shortened to fit a line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = repr(value)
    elif isinstance(value, Uuid):
        return str(value)
    elif isinstance(value, (bytes, memoryview)):
        text = "1 byte" if len(value) == 1 else f"{len(value)} bytes"
    else:
        text = str(value)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"


def parse_hex(text: str) -> bytes:
    """Read hex as people paste it: spaces, colons, ``0x`` and line breaks are passed over."""
    digits = "".join(text.replace("0x", "").replace(":", "").split())
    wrong = next((letter for letter in digits if letter not in string.hexdigits), None)
    if wrong is not None:
        raise ValueError(f"not hex digits: {wrong!r} at {text.index(wrong)}")
    if len(digits) % 2:
        raise ValueError(f"not hex digits: {len(digits)} of them, an odd number")
    return bytes.fromhex(digits)
