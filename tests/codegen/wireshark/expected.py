"""What the dissector must show of a message: our decoder's own trace of the same bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import snake_case
from kraftspec.codegen.show import Dump, dump
from kraftspec.fastpath.interpret import Span

from .tshark import Shown

# (filter name, first byte, the byte after, what is shown)
Line = tuple[str, int, int, object]
NULL = "null"
_UNTYPED = re.compile(r"\.element$")


def root_of(message: Message) -> str:
    """Return what begins the filter names of a message."""
    api = message.type in ("request", "response")
    return snake_case(re.sub("(Request|Response)$", "", message.name) if api else message.name)


def expected(message: Message, version: int, data: bytes) -> tuple[list[Line], Dump]:
    """Return the lines of a message's tree in order, and our decoder's own verdict."""
    read = dump(message, version, data)
    lines = [line for span in read.spans for line in _lines(span, data, root_of(message))]
    return lines, read


def _lines(span: Span, data: bytes, root: str) -> Iterator[Line]:
    steps = [snake_case(step) for step in re.sub(r"\[\d+\]", "", span.path).split(".")]
    name = ".".join([root, *steps])
    start, end, value = span.start, span.end, span.value
    if span.wire == "count":
        yield f"{name}.length", start, end, NULL if value is None else value
    elif span.wire == "tag count":
        yield "tags", start, end, value
    elif span.wire.startswith("tag "):
        tag = int(span.wire[4:])
        size_at = start + len(_uvarint(tag))
        yield "tag", start, size_at, tag
        yield "tag.size", size_at, end, value
    elif span.wire == "marker":
        yield "marker", start, end, value
    elif span.wire == "unknown":
        yield "tag.unknown", start, end, bytes(value)
    elif value is None:
        yield name, start, end, NULL
    elif span.wire.endswith(("bytes", "records")):  # Shown without their length.
        yield name, end - len(value), end, bytes(value)
    elif span.wire == "float64":
        yield name, start, end, struct.pack(">d", value)
    elif span.wire.endswith("string"):
        yield name, start, end, value.replace("\0", "\N{SYMBOL FOR NULL}")
    elif span.wire == "uuid":
        yield name, start, end, str(value)
    else:
        yield name, start, end, value


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def shown(body: Shown, lines: list[Line]) -> list[Line]:
    """Return what the tree of a message shows, each value read as the expectation has it.

    Records below a field of batches, and what the dissector says of errors, are left out.
    """
    kept = [
        line
        for line in _pruned(body)
        if line.name != "kraftspec.error"
        and not _UNTYPED.search(line.name)
        and not _structure(line)
    ]
    return [
        _compared(line, body.at, lines[number] if number < len(lines) else None)
        for number, line in enumerate(kept)
    ]


def _structure(line: Shown) -> bool:
    return not line.value and not line.raw and line.size > 0 and ": " not in line.text


def _pruned(line: Shown) -> Iterator[Shown]:
    for inner in line.below:
        if inner.name.startswith(("kraftspec.batch", "kraftspec.null", "_ws")) or not inner.name:
            continue
        yield inner
        yield from _pruned(inner)


def _compared(line: Shown, start: int, wanted: Line | None) -> Line:
    value: object = line.value
    end = line.at + line.size
    if wanted is not None:
        if any(inner.name == "kraftspec.null" for inner in line.below):
            value, end = NULL, wanted[2] + start  # Null bytes have no bytes to show.
        elif isinstance(wanted[3], bytes):
            value = line.raw
        elif isinstance(wanted[3], bool):
            value = {"0": False, "1": True, "False": False, "True": True}.get(line.value)
        elif isinstance(wanted[3], int):
            value = int(line.value)
        if line.below and wanted[0].endswith(("length", "tags", "tag")):
            end = wanted[2] + start  # Shown with all that is below it.
    return line.name.removeprefix("kraftspec."), line.at - start, end - start, value
