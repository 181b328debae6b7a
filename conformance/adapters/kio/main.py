"""kio behind the harness protocol: its dataclasses, found and filled by introspection.

kio has a class for each message, version and struct. A field's metadata has its Kafka type
(``int32``, ``error_code``, ``timedelta_i64`` …) and its tag, its type says whether it is an array,
a struct, nullable. Its readers and writers are used as they are.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import io
import resource
import sys
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
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

try:
    import batches
except ImportError:  # Releases to 0.3 have none.
    batches = None

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
# What kio holds in classes of its own, by the type on the wire.
HELD = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
NONE_IS_NO_NULL = {"uuid", "datetime_i64"}  # Of these None is a value: all zeros, and -1.
# A limit makes what kio does the same on a machine of any size (KS-2026-02).
MEMORY_BYTES_MAX = 1 << 35
# kio's exceptions that say the same as a class of the harness protocol.
CLASSES = {
    "BufferUnderflow": "truncated",
    "UnexpectedNull": "null_for_non_nullable",
    "InvalidUnicode": "invalid_utf8",
    "NegativeByteLength": "negative_length",
}


@dataclasses.dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field: ``name`` in JSON, ``attribute`` in kio; ``kind`` is None for a struct."""

    name: str
    attribute: str
    kind: str | None
    type_: Any
    tagged: bool
    array: bool
    nullable: bool
    default: Any


@cache
def plan(entity: Any) -> tuple[FieldPlan, ...]:
    """Return the fields of one of kio's dataclasses."""
    return tuple(map(_field_plan, dataclasses.fields(entity)))


def _field_plan(field: dataclasses.Field[Any]) -> FieldPlan:
    inner, nullable = _unwrapped(field.type)
    array = typing.get_origin(inner) is tuple
    if array:
        inner, _ = _unwrapped(typing.get_args(inner)[0])
    kind = None if dataclasses.is_dataclass(inner) else field.metadata["kafka_type"]
    first, *rest = field.name.split("_")
    name = first + "".join(part.capitalize() for part in rest)
    # Where kio holds a duration or a time, it drops the unit from the schema's name.
    name += "Ms" if kind in HELD and kind != "error_code" else ""
    return FieldPlan(
        name, field.name, kind, inner, "tag" in field.metadata, array, nullable, field.default
    )


def _unwrapped(type_: Any) -> tuple[Any, bool]:
    if typing.get_origin(type_) not in (types.UnionType, typing.Union):
        return type_, False
    [inner] = (part for part in typing.get_args(type_) if part is not types.NoneType)
    return inner, True


def to_kio(entity: type, value: Any, path: str) -> Any:
    """Build one of kio's dataclasses from the JSON value of a struct."""
    fields = plan(entity)
    untagged = [field.name for field in fields if not field.tagged]
    tagged = [field.name for field in fields if field.tagged]
    value = check_fields(value, untagged, tagged, path)
    if value.get(TAGS):
        raise Refused("refused", "kio has no place for unknown tagged fields", path)
    return entity(
        **{
            field.attribute: _to_kio(field, value[field.name], inside(path, field.name))
            if field.name in value
            else _default(field)
            for field in fields
        }
    )


def _to_kio(field: FieldPlan, value: Any, path: str) -> Any:
    if value is None and field.nullable and (field.array or field.kind not in NONE_IS_NO_NULL):
        return None
    if not field.array:
        return _element_to_kio(field, value, path)
    if not isinstance(value, list):
        if value is None:
            raise Refused("null_for_non_nullable", "null for an array", path)
        raise Refused("wrong_type", f"{type(value).__name__} for an array", path)
    return tuple(
        _element_to_kio(field, element, f"{path}[{at}]") for at, element in enumerate(value)
    )


def _element_to_kio(field: FieldPlan, value: Any, path: str) -> Any:
    if field.kind is None:
        return to_kio(field.type_, value, path)
    scalar = scalar_from_json(HELD.get(field.kind, field.kind), value, path)
    if field.kind == "uuid" and scalar.int == 0:
        return None
    if field.kind not in HELD:
        return scalar
    try:
        if field.kind == "error_code":
            return field.type_(scalar)
        if field.kind == "datetime_i64":
            if scalar == -1 and field.nullable:
                return None
            return EPOCH + scalar * MILLISECOND
        return scalar * MILLISECOND
    except (ValueError, OverflowError) as error:
        shown = "ErrorCode" if field.kind == "error_code" else field.kind.split("_")[0]
        raise Refused("refused", f"kio holds this as {shown}, and cannot: {error}", path) from None


def to_json(entity: Any) -> dict[str, Any]:
    """Turn one of kio's dataclasses into JSON, without tagged fields that hold their default."""
    return dict(_members(entity))


def _members(entity: Any) -> Iterator[tuple[str, Any]]:
    for field in plan(entity.__class__):
        value = _to_json(field, getattr(entity, field.attribute))
        if not field.tagged or value != _to_json(field, _default(field)):
            yield field.name, value


def _to_json(field: FieldPlan, value: Any) -> Any:
    if field.array and value is not None:
        return [_element_to_json(field, element) for element in value]
    return _element_to_json(field, value)


def _element_to_json(field: FieldPlan, value: Any) -> Any:
    if field.kind is None:
        return None if value is None else to_json(value)
    if field.kind == "datetime_i64":
        return -1 if value is None else (value - EPOCH) // MILLISECOND
    if field.kind in ("timedelta_i32", "timedelta_i64"):
        return value // MILLISECOND
    return scalar_to_json(HELD.get(field.kind, field.kind), value)


def _default(field: FieldPlan) -> Any:
    """Return the default of a tagged field; where kio states none it is the type's zero."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.array:
        return ()
    if field.kind is None:
        return field.type_(**{inner.attribute: _default(inner) for inner in plan(field.type_)})
    zeros = {"string": "", "bool": False, "float64": 0.0, "bytes": "", "uuid": "A" * 22}
    return _element_to_kio(field, zeros.get(field.kind, 0), field.name)


def entities() -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return kio's messages by Kafka's name and version: what its index needs to load them."""
    schemas: dict[str, dict[int, tuple[Any, ...]]] = {}
    for name, versions in schema_name_map.items():
        for version, paths in versions.items():
            for kind, path in paths.items():
                schemas.setdefault(path.rpartition(":")[2], {})[version] = (name, version, kind)
    return schemas


ENTITIES = entities()


@cache
def load(message: str, version: int) -> Any:
    """Return kio's class; ``Refused`` where it has none, ``Skipped`` for a gap in its versions."""
    if message not in ENTITIES:
        raise Refused("unknown_message", f"kio has no {message}")
    schemas = ENTITIES[message]
    if version in schemas:
        return load_entity_schema(*schemas[version])
    versions = f"kio has {message} in versions {', '.join(map(str, sorted(schemas)))}"
    if min(schemas) < version < max(schemas):
        raise Skipped(versions)
    raise Refused("unsupported_version", versions)


def encode(message: str, version: int, value: Any) -> dict[str, Any]:
    """Answer an encode request."""
    if batches is not None and (message, version) == (batches.NAME, batches.VERSION):
        return dict(batches.encode_batch(value, lambda time_ms: EPOCH + time_ms * MILLISECOND))
    entity = to_kio(load(message, version), value, "")
    buffer = io.BytesIO()
    try:
        entity_writer(type(entity))(buffer, entity)
    except Exception as error:
        raise _refusal(error) from error
    return {"hex": buffer.getvalue().hex()}


def decode(message: str, version: int, data: bytes) -> dict[str, Any]:
    """Answer a decode request."""
    if batches is not None and (message, version) == (batches.NAME, batches.VERSION):
        return dict(batches.decode_batch(data, lambda time: (time - EPOCH) // MILLISECOND))
    reader = entity_reader(load(message, version))
    try:
        if OVER_BYTES:
            entity, size = reader(data, 0)
        else:
            stream = io.BytesIO(data)
            entity, size = reader(stream), stream.tell()
    except Exception as error:
        raise _refusal(error) from error
    reply = {"value": to_json(entity)}
    return {**reply, "trailing": len(data) - size} if size < len(data) else reply


def _refusal(error: Exception) -> Refused:
    name = type(error).__name__
    return Refused(CLASSES.get(name, "refused"), f"{name}: {error}")


def _reads_bytes() -> bool:
    """Tell how this release reads: from bytes and an offset, or from a stream (to 0.3)."""
    reader = entity_reader(load("ResponseHeader", 0))
    try:
        reader(bytes(4), 0)
    except TypeError:
        return False
    return True


OVER_BYTES = _reads_bytes()

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    served = {name: f"{min(schemas)}-{max(schemas)}" for name, schemas in ENTITIES.items()}
    if batches is not None:
        served[batches.NAME] = f"{batches.VERSION}-{batches.VERSION}"
    hello = {
        "name": "kio",
        "version": importlib.metadata.version("kio"),
        "spec": "kafka",
        "messages": served,
        "notes": "kio refuses unknown tagged fields, and holds error codes, durations and times "
        "in classes that do not take every integer.",
    }
    raise SystemExit(serve(hello, encode, decode))
