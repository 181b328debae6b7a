"""aiokafka behind the harness protocol: the classes of its protocol package, by Kafka's schemas.

aiokafka has a class for each version of a request, which names the class that reads the response.
Their fields are in Kafka's order, mostly with older names: a field is bound to that of the same
name, and those that are left to each other in their order.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import aiokafka.protocol
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import UnsupportedCodecError
from aiokafka.protocol import api
from aiokafka.protocol.types import Array, Schema, TaggedFields
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from peer import (
    TAGS,
    Refused,
    Skipped,
    check_fields,
    inside,
    scalar_from_json,
    scalar_to_json,
    serve,
)
from record_batches import NAME, VERSION, Records

Json = dict[str, Any]

# aiokafka does not tell the leader epoch of a batch: these bytes of it are read by the adapter.
LEADER_EPOCH = slice(12, 16)
RECORDS = Records(
    "aiokafka",
    DefaultRecordBatchBuilder,
    MemoryRecords,
    DefaultRecordBatch,
    lambda _, data: int.from_bytes(data[LEADER_EPOCH], signed=True),
    -1,
    UnsupportedCodecError,
)
# What members of a group give each other: these structs begin with the version, Kafka's do not.
MEMBERS = {
    "ConsumerProtocolSubscription": ConsumerProtocol.METADATA,
    "ConsumerProtocolAssignment": ConsumerProtocol.ASSIGNMENT,
}
MEMBER_VERSION = b"\0\0"
HEADERS = {
    "RequestHeader": {1: api.RequestHeader_v1, 2: api.RequestHeader_v2},
    "ResponseHeader": {0: api.ResponseHeader_v0, 1: api.ResponseHeader_v1},
}


@dataclass(frozen=True)
class Field:
    """A field of a message in a version, and what aiokafka has for it.

    Attributes:
        path: its place in aiokafka's schema, through structs that Kafka has not; empty: none.
        kind: the type of Kafka, or of an element.
        inner: the fields of a struct.
    """

    name: str
    path: tuple[int, ...]
    kind: str
    is_array: bool
    inner: Struct | None


@dataclass(frozen=True)
class Struct:
    """The fields of a struct that a version has.

    Attributes:
        tags_at: where aiokafka keeps its tagged fields.
        schema: aiokafka's; None where it has the only field of the struct alone.
    """

    fields: list[Field]
    tagged: dict[int, str]
    tags_at: int | None
    schema: Any


def in_version(text: str, version: int) -> bool:
    """Whether a version is in a range as ``0-3``, ``4+``, ``2`` or ``none``."""
    if text == "none":
        return False
    first, _, last = text.rstrip("+").partition("-")
    return int(first) <= version <= (1 << 15 if text.endswith("+") else int(last or first))


def snake(name: str) -> str:
    """Return a name of Kafka as Python has it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    """Return a name of Kafka as JSON has it."""
    return name[0].lower() + name[1:]


def places(schema: Any) -> dict[str, tuple[int, ...]]:
    """Return where the fields of a schema are, those of structs in it too, but for tags."""
    out: dict[str, tuple[int, ...]] = {}
    for at, (name, of) in enumerate(zip(schema.names, schema.fields, strict=True)):
        if isinstance(of, Schema):
            out |= {inner: (at, *path) for inner, path in places(of).items()}
        elif of is not TaggedFields:
            out[name] = (at,)
    return out


def at_path(schema: Any, path: tuple[int, ...]) -> Any:
    """Return the type of a field."""
    for at in path:
        schema = schema.fields[at]
    return schema


def bind(fields: list[Json], commons: dict[str, list[Json]], schema: Any, version: int) -> Struct:
    """Lay the fields of a struct of Kafka over a schema of aiokafka, or over its only field."""
    there = [one for one in fields if in_version(one.get("versions", "0+"), version)]
    plain = [one for one in there if not in_version(one.get("taggedVersions", "none"), version)]
    tagged = {one["tag"]: camel(one["name"]) for one in there if one not in plain}
    alone = not isinstance(schema, Schema)
    if alone:
        schema = Schema((snake(plain[0]["name"]), schema))
    paths = places(schema)
    taken = {one["name"]: paths.get(snake(one["name"]), ()) for one in plain}
    left = iter([path for path in paths.values() if path not in taken.values()])
    bound = []
    for one in plain:
        path = taken[one["name"]] or next(left, ())
        kind = one["type"].removeprefix("[]")
        children = one.get("fields") or commons.get(kind)
        inner = None
        if children and path:
            of = at_path(schema, path)
            inner = bind(children, commons, of.array_of if isinstance(of, Array) else of, version)
        is_array = one["type"].startswith("[]")
        bound.append(Field(camel(one["name"]), path, kind, is_array, inner))
    tags_at = next((at for at, of in enumerate(schema.fields) if of is TaggedFields), None)
    return Struct(bound, tagged, tags_at, None if alone else schema)


def blank(schema: Any) -> list[Any]:
    """Return values for a schema that are not set."""
    return [blank(of) if isinstance(of, Schema) else None for of in schema.fields]


def to_peer(struct: Struct, value: Any, path: str) -> Any:
    """Return the values of a struct in aiokafka's order, or the only one."""
    names = [field.name for field in struct.fields]
    value = check_fields(value, names, struct.tagged.values(), path)
    for name in struct.tagged.values():
        if name in value:
            raise Skipped("aiokafka keeps tagged fields as bytes")
    if struct.schema is None:
        only = struct.fields[0]
        return _to_peer(only, value[only.name], inside(path, only.name))
    out = blank(struct.schema)
    for field in struct.fields:
        if field.path:
            *owners, at = field.path
            owner = out
            for step in owners:
                owner = owner[step]
            owner[at] = _to_peer(field, value[field.name], inside(path, field.name))
    unknown = value.get(TAGS, [])
    if struct.tags_at is not None:
        tags = [one["tag"] for one in unknown]
        if tags != sorted(set(tags)):
            raise Skipped("aiokafka keeps tagged fields in a dictionary, each once")
        out[struct.tags_at] = {one["tag"]: bytes.fromhex(one["hex"]) for one in unknown}
    elif unknown:
        raise Refused("field_not_in_version", "there are no tagged fields", inside(path, TAGS))
    return out


def _to_peer(field: Field, value: Any, path: str) -> Any:
    if value is None and (field.is_array or field.kind in ("string", "bytes", "records")):
        return None  # aiokafka takes it for any of these fields, nullable or not.
    if not field.is_array:
        return _element_to_peer(field, value, path)
    if not isinstance(value, list):
        raise Refused("wrong_type", f"{type(value).__name__} for an array", path)
    return [_element_to_peer(field, one, f"{path}[{at}]") for at, one in enumerate(value)]


def _element_to_peer(field: Field, value: Any, path: str) -> Any:
    if field.inner is not None:
        return to_peer(field.inner, value, path)
    if value is None and field.kind == "string":
        return None
    return scalar_from_json(field.kind, value, path)


def to_json(struct: Struct, values: Any) -> Json:
    """Return the JSON value of a struct."""
    if struct.schema is None:
        return {struct.fields[0].name: _to_json(struct.fields[0], values)}
    out = {}
    for field in struct.fields:
        if field.path:
            held = values
            for step in field.path:
                held = held[step]
            out[field.name] = _to_json(field, held)
    if struct.tags_at is not None and values[struct.tags_at]:
        tags = values[struct.tags_at]
        if not struct.tagged.keys().isdisjoint(tags):
            raise Skipped("aiokafka keeps tagged fields as bytes")
        out[TAGS] = [{"tag": tag, "hex": data.hex()} for tag, data in tags.items()]
    return out


def _to_json(field: Field, value: Any) -> Any:
    if field.is_array and value is not None:
        return [_element_to_json(field, one) for one in value]
    return _element_to_json(field, value)


def _element_to_json(field: Field, value: Any) -> Any:
    if field.inner is not None:
        return None if value is None else to_json(field.inner, value)
    return scalar_to_json(field.kind, value)


def structs() -> Iterator[Any]:
    """Yield the classes of requests that the client chooses from, in its order."""
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        for named in vars(importlib.import_module(module.name)).values():
            if isinstance(named, type) and issubclass(named, api.Request):
                yield from getattr(named, "_CLASSES", ())


def messages(specs: Path) -> dict[str, dict[int, tuple[Any, Struct]]]:
    """Return aiokafka's classes by Kafka's name and version, each with its layout."""
    classes: dict[tuple[str, int], dict[int, Any]] = {}
    for cls in structs():  # Where two say the same version, the client takes the last.
        classes.setdefault(("request", cls.API_KEY), {})[cls.API_VERSION] = cls
        classes.setdefault(("response", cls.API_KEY), {})[cls.API_VERSION] = cls.RESPONSE_TYPE
    out: dict[str, dict[int, tuple[Any, Struct]]] = {}
    for path in specs.rglob("*.json"):
        schema = json.loads(path.read_bytes())
        name = schema["name"]
        of = classes.get((schema["type"], schema.get("apiKey", -1)), {})
        of = HEADERS.get(name, of)
        if name in MEMBERS:
            of = {0: MEMBERS[name]}
        commons = {one["name"]: one["fields"] for one in schema.get("commonStructs", ())}
        for version, cls in sorted(of.items()):
            if in_version(schema["validVersions"], version):
                layout = cls.SCHEMA
                if name in MEMBERS:
                    layout = Schema(*zip(layout.names[1:], layout.fields[1:], strict=True))
                struct = bind(schema["fields"], commons, layout, version)
                out.setdefault(name, {})[version] = (cls, struct)
    return out


MESSAGES = messages(Path(sys.argv[1]))


def load(message: str, version: int) -> tuple[Any, Struct]:
    """Return aiokafka's class; ``Refused`` where it has none, or not that version."""
    if message not in MESSAGES:
        raise Refused("unknown_message", f"aiokafka has no {message}")
    if version not in MESSAGES[message]:
        if min(MESSAGES[message]) < version < max(MESSAGES[message]):
            raise Skipped("aiokafka does not have this version")
        versions = ", ".join(map(str, MESSAGES[message]))
        detail = f"aiokafka has {message} in the versions {versions}"
        raise Refused("unsupported_version", detail)
    return MESSAGES[message][version]


def encode(message: str, version: int, value: Any) -> Json:
    """Answer an encode request."""
    if (message, version) == (NAME, VERSION):
        return dict(RECORDS.encode(value))
    cls, struct = load(message, version)
    values = to_peer(struct, value, "")
    if message in MEMBERS:
        return {"hex": cls(0, *values).encode().removeprefix(MEMBER_VERSION).hex()}
    if message == "RequestHeader":
        request = SimpleNamespace(API_KEY=values[0], API_VERSION=values[1])
        return {"hex": cls(request, *values[2:]).encode().hex()}
    return {"hex": cls(*values).encode().hex()}


def decode(message: str, version: int, data: bytes) -> Json:
    """Answer a decode request."""
    if (message, version) == (NAME, VERSION):
        return dict(RECORDS.decode(data))
    cls, struct = load(message, version)
    if message == "RequestHeader":
        raise Skipped("aiokafka does not read headers of requests")
    source = io.BytesIO((MEMBER_VERSION if message in MEMBERS else b"") + data)
    item = cls.decode(source)
    values = [item.get_item(name) for name in cls.SCHEMA.names]
    value = to_json(struct, values[1:] if message in MEMBERS else values)
    trailing = len(source.read())
    return {"value": value, **({"trailing": trailing} if trailing else {})}


if __name__ == "__main__":
    served = {name: f"{min(of)}-{max(of)}" for name, of in MESSAGES.items()}
    served[NAME] = f"{VERSION}-{VERSION}"
    hello = {
        "name": "aiokafka",
        "version": importlib.metadata.version("aiokafka"),
        "spec": "kafka",
        "messages": served,
        "notes": "aiokafka does not tell nullable fields from others.",
    }
    raise SystemExit(serve(hello, encode, decode))
