"""Messages and record batches as Java expressions over Kafka's own classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from textwrap import indent
from typing import Any, Final

from kraftspec.codegen import model
from kraftspec.codegen.plan import attributes
from kraftspec.codegen.reader import read_message
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.records import BatchHeader
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.log.control import MESSAGES, control_type_of
from kraftspec.specs import specs_root

STEP: Final = "    "
LINE_CHARS_MAX: Final = 60  # What fits behind the indentation, most times.
_CASTS: Final = {"int8": "(byte) {}", "int16": "(short) {}", "int64": "{}L"}


@cache
def _spec(name: str) -> model.Message:
    return read_message(specs_root() / "kafka" / "clients" / f"{name}.json")


def decoded(api_key: int, version: int, body: bytes, *, is_reply: bool) -> Message:
    """Read the body of a request or a reply."""
    return _class_of(api_key, "response" if is_reply else "request").decode(body, version)


@cache
def _class_of(api_key: int, kind: str) -> type[Message]:
    for name, (_, its_kind, key, *_) in kafka.CATALOGUE.items():
        if (its_kind, key) == (kind, api_key):
            message: type[Message] = getattr(kafka, name)
            return message
    raise ValueError(f"no {kind} has API key {api_key}")


def java_class(name: str) -> str:
    """Return what Kafka calls the class of a message."""
    return f"{name}Data" if _spec(name).type in ("request", "response") else name


def message_literal(message: Message) -> str:
    """Return ``new VoteRequestData().setClusterId(…)…``, without what is as it is by default."""
    spec = _spec(type(message).__name__)
    return _struct(spec, spec.top, java_class(spec.name), message)


def _struct(spec: model.Message, struct: model.Struct, name: str, value: Any) -> str:
    names = attributes(struct)
    calls = []
    for field in struct.fields:
        of_field = getattr(value, names[field.name])
        if not _is_default(field, of_field):
            setter = f"set{field.name[:1].upper()}{field.name[1:]}"
            calls.append(f".{setter}({_value(spec, field, of_field)})")
    one_line = f"new {name}(){''.join(calls)}"
    if len(one_line) <= LINE_CHARS_MAX and "\n" not in one_line:
        return one_line
    return f"new {name}()\n" + indent("\n".join(calls), STEP)


def _is_default(field: model.Field, value: Any) -> bool:
    if field.type.struct and not field.type.array:
        return value is None if field.default is None else value == type(value)()
    if field.type.array:
        return value is not None and not value and field.default == ()
    return bool(value == field.default)


def _value(spec: model.Message, field: model.Field, value: Any) -> str:
    if value is None:
        return "null"
    if field.name == "ErrorCode":
        return f"Errors.{ErrorCode(value).name}.code()"
    if field.type.array:
        items = [_one(spec, field.type.element, item) for item in value]
        elements = listed("List.of", items)
        if field.type.struct and any(f.map_key for f in spec.struct(field.type.element).fields):
            owner = f"{java_class(spec.name)}.{field.type.element}Collection"
            return f"new {owner}({elements}.iterator())"
        return elements
    return _one(spec, field.type.element, value)


def _one(spec: model.Message, element: str, value: Any) -> str:
    match element:
        case "bool":
            return "true" if value else "false"
        case "string":
            return json.dumps(value)
        case "uuid":
            return uuid_literal(value)
        case "records":
            return _records(spec, bytes(value))
        case "bytes":
            return f'Batches.hex("{bytes(value).hex()}")'
        case _ if element in model.PRIMITIVES:
            return _CASTS.get(element, "{}").format(value)
    return _struct(spec, spec.struct(element), f"{java_class(spec.name)}.{element}", value)


def uuid_literal(value: bytes) -> str:
    """Return an id as Kafka writes it."""
    return f'Uuid.fromString("{Uuid(value)}")'


def listed(call: str, items: Sequence[str]) -> str:
    """Return a call with its arguments, in one line where they fit."""
    if not items:
        return f"{call}()"
    one_line = f"{call}({', '.join(items)})"
    if len(one_line) <= LINE_CHARS_MAX and "\n" not in one_line:
        return one_line
    return f"{call}(\n" + indent(",\n".join(items), STEP) + ")"


def _records(spec: model.Message, data: bytes) -> str:
    if spec.name == "FetchSnapshotResponse":  # A piece of a file, which may end within a batch.
        return f'Batches.piece("{data.hex()}")'
    return listed("Batches.records", batch_literals(data))


def batch_literals(data: bytes) -> list[str]:
    """Return each batch, and what follows the last whole one as its bytes."""
    batches, end = [], 0
    try:
        for header in iterate_headers(data):
            batches.append(_batch(data, header))
            end = header.end
    except CodecError:  # A fetch may end within a batch.
        batches.append(f'Batches.hex("{data[end:].hex()}")')
    return batches


def _batch(data: bytes, header: BatchHeader) -> str:
    where = f"{header.base_offset}, {header.partition_leader_epoch}"
    records = decode_batch(data, header.position)
    if not header.is_control:
        values = [f'"record {header.base_offset + at}"' for at in range(len(records))]
        return listed("Batches.data", [where, *values])
    values = []
    for record in records:
        kind = MESSAGES.get(control_type_of(record))
        if kind is None:
            return f'Batches.hex("{data[header.position : header.end].hex()}")'
        value = bytes(record.value or b"")
        values.append(message_literal(kind.decode(value, int.from_bytes(value[:2], "big"))))
    return listed("Batches.control", [where, *values])
