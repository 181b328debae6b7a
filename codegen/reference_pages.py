"""A set of specs as a protocol reference: static HTML, a page a message, made from its plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraftspec.codegen.history.states import packaged_history
from kraftspec.codegen.history.view import rows
from kraftspec.codegen.model import Field, Message, Struct
from kraftspec.codegen.plan import FieldPlan, MessagePlan, StructPlan, camel_case, plan_message
from kraftspec.codegen.rendering import render
from kraftspec.codegen.show import SIZES
from kraftspec.fastpath.values import default_json

TYPES = {
    "request": "Requests",
    "response": "Responses",
    "header": "Headers",
    "metadata": "Records of the metadata log",
    "data": "Other messages",
    "coordinator-key": "Keys of coordinator records",
    "coordinator-value": "Values of coordinator records",
}
# A batch of magic 2 up to its records: (field, type, bytes, about).
BATCH = (
    ("baseOffset", "int64", 8, "Offset of the first record, also where compaction removed it."),
    ("batchLength", "int32", 4, "Bytes that follow this field."),
    ("partitionLeaderEpoch", "int32", 4, "Epoch of the leader that appended the batch, or -1."),
    ("magic", "int8", 1, "2."),
    ("crc", "uint32", 4, "CRC-32C of all bytes from attributes on."),
    ("attributes", "int16", 2, "Bits 0-2 compression (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), "
     "3 log append time, 4 transactional, 5 control, 6 delete horizon."),
    ("lastOffsetDelta", "int32", 4, "Offset of the last record, less the base offset."),
    ("baseTimestamp", "int64", 8, "Milliseconds, to which the records' deltas are."),
    ("maxTimestamp", "int64", 8, "Milliseconds."),
    ("producerId", "int64", 8, "-1 for none."),
    ("producerEpoch", "int16", 2, "-1 for none."),
    ("baseSequence", "int32", 4, "Sequence number of the first record, -1 for none."),
    ("recordCount", "int32", 4, "How many records follow, as one compressed block or plain."),
)  # fmt: skip
RECORD = (
    ("length", "varint", "Bytes that follow."),
    ("attributes", "int8", "0."),
    ("timestampDelta", "varlong", "To the base timestamp."),
    ("offsetDelta", "varint", "To the base offset."),
    ("key", "varint length, bytes", "A length of -1 is null."),
    ("value", "varint length, bytes", "A length of -1 is null."),
    ("headers", "varint count, elements", "Each: a varint length and UTF-8 as the key, a varint "
     "length and bytes as the value (-1 is null)."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A field in the table of a version."""

    depth: int
    name: str
    wire: str
    form: str
    nullable: bool
    tag: int | None
    default: str
    about: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a message: its table, or the version that has the same bytes."""

    plan: MessagePlan
    rows: tuple[Row, ...]
    same_as: int | None
    added: tuple[str, ...]
    gone: tuple[str, ...]


def render_reference(
    messages: Iterable[Message], numbers: Path, title: str, *, history: bool = False
) -> dict[str, str]:
    """Render the pages of a set: file name to text.

    Args:
        messages: all of the set.
        numbers: the directory of ``errors.json``.
        title: what the set is called, such as ``Apache Kafka 4.4.0``.
        history: whether the set is the one that ``specs/history.json`` leads to.
    """
    named = {message.name: message for message in sorted(messages, key=lambda one: one.name)}
    errors = json.loads((numbers / "errors.json").read_text("utf-8"))["errors"]
    pages = {
        "index.html": _page("index", "Protocol reference", title, **_index(named)),
        "errors.html": _page("errors", "Error codes", title, errors=errors),
        "records.html": _page("records", "Record batches", title, batch=_batch(), record=RECORD),
        "style.css": render("reference/style.css.jinja", {}),
    }
    for name, message in named.items():
        pages[f"{name}.html"] = _page(
            "message", name, title, **facts(message, named, history=history)
        )
    return pages


def _page(template: str, heading: str, title: str, **context: Any) -> str:
    context |= {"heading": heading, "title": title}
    return render(f"reference/{template}.html.jinja", context)


def _index(named: Mapping[str, Message]) -> dict[str, Any]:
    requests = [message for message in named.values() if message.type == "request"]
    groups = {
        heading: [message for message in named.values() if message.type == kind]
        for kind, heading in TYPES.items()
    }
    return {
        "apis": sorted(requests, key=lambda message: message.api_key or 0),
        "groups": {heading: group for heading, group in groups.items() if group},
    }


def facts(message: Message, named: Mapping[str, Message], *, history: bool) -> dict[str, Any]:
    """Return what a page tells of a message, versions newest first; `history` by release, too."""
    versions = list(_versions(message))
    changes = list(packaged_history().messages.get(message.name, ())) if history else []
    other = None
    for kind, counterpart in (("Request", "Response"), ("Response", "Request")):
        if message.name.endswith(kind):
            other = named.get(message.name.removesuffix(kind) + counterpart)
    return {
        "message": message,
        "other": other,
        "flexible": message.valid_versions & message.flexible_versions,
        "deprecated": message.valid_versions & message.deprecated_versions,
        "versions": list(reversed(versions)),
        "codes": any(row.name == "errorCode" for version in versions for row in version.rows),
        "history": rows({message.name: changes}) if changes else [],
    }


def _versions(message: Message) -> Iterator[Version]:
    seen: dict[tuple[bool, tuple[Row, ...]], int] = {}
    before: dict[str, str] | None = None
    for number in message.valid_versions:
        plan = plan_message(message, number)
        table = tuple(_rows(message, plan.struct, message.top, 0))
        paths = dict(_paths(table))
        added = [path for path in paths if before is not None and path not in before]
        gone = [path for path in before or () if path not in paths]
        yield Version(plan, table, seen.get((plan.flexible, table)), tuple(added), tuple(gone))
        seen.setdefault((plan.flexible, table), number)
        before = paths


def _paths(table: Iterable[Row]) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    for row in table:
        above[row.depth :] = [row.name]
        yield ".".join(above), row.wire


def _rows(message: Message, plan: StructPlan, struct: Struct, depth: int) -> Iterator[Row]:
    fields = {camel_case(entry.name): entry for entry in struct.fields}
    for entry in (*plan.fields, *plan.tagged):
        yield _row(entry, fields[entry.name], depth)
        if isinstance(entry.element, StructPlan):
            yield from _rows(message, entry.element, message.structs[entry.element.name], depth + 1)


def _row(entry: FieldPlan, field: Field, depth: int) -> Row:
    element = entry.element.name if isinstance(entry.element, StructPlan) else entry.element
    wire = entry.wire if element is None else f"{entry.wire} of {element}"
    form = SIZES.get(entry.wire, "its fields")
    if entry.wire == "struct":
        wire = str(element)
        if entry.nullable:
            form = f"{'int8 -1/1' if entry.tag is None else 'uvarint 0/1'}, its fields"
    default = "" if entry.default is ... else json.dumps(default_json(entry.default))
    return Row(depth, entry.name, wire, form, entry.nullable, entry.tag, default, field.about)


def _batch() -> Iterator[tuple[str, str, int, int, str]]:
    at = 0
    for name, wire, size, about in BATCH:
        yield name, wire, at, size, about
        at += size
