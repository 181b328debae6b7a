"""kafka-python 3 behind the harness protocol: the messages that it compiles from Kafka's schemas.

kafka-python reads the JSON schemas when it is imported, and compiles an encoder and a decoder for a
message's version when they are first used. The adapter walks the same schemas to fill and to read
its objects, and uses only its public ``encode`` and ``decode``.
"""

from __future__ import annotations

import importlib.metadata
import io
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import kafka.protocol
from kafka.errors import UnsupportedCodecError
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_header import RequestHeader, ResponseHeader
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from peer import (
    INTEGERS,
    TAGS,
    ZERO_UUID,
    Refused,
    check_fields,
    inside,
    scalar_from_json,
    scalar_to_json,
    serve,
)
from record_batches import NAME, VERSION, Records

RECORDS = Records(
    "kafka-python",
    DefaultRecordBatchBuilder,
    MemoryRecords,
    DefaultRecordBatch,
    lambda batch, _: int(batch.leader_epoch),
    0,
    UnsupportedCodecError,
)
HEADERS = (RequestHeader, ResponseHeader)
# kafka-python gives three fields a name of its own, each the only one of its struct.
RENAMED = {
    ("MetadataResponse", "authorized_operations"): "ClusterAuthorizedOperations",
    ("MetadataResponseTopic", "authorized_operations"): "TopicAuthorizedOperations",
    ("DescribeClusterResponse", "authorized_operations"): "ClusterAuthorizedOperations",
}
NO_OPERATIONS = -(1 << 31)  # What kafka-python holds as None: no set of operations was asked for.


def json_name(struct: Any, field: Any) -> str:
    """Return a field's name in JSON: Kafka's, with a lower first letter."""
    owner = struct._json.get("type") if "versions" in struct._json else struct._json["name"]
    name: str = RENAMED.get((owner, field._json["name"]), field._json["name"])
    return name[0].lower() + name[1:]


def kind_of(field: Any) -> str | None:
    """Return the Kafka type of a field or of its elements; None for a struct."""
    if field.is_struct() or field.is_struct_array():
        return None
    return str(field._type_str).removeprefix("[]")


def fields_of(struct: Any, version: int) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name in JSON, field, tagged) of a struct in a version."""
    for field in struct._fields:
        if field.for_version_q(version):
            yield json_name(struct, field), field, field.tagged_field_q(version)


def to_peer(data_class: Any, struct: Any, value: Any, version: int, path: str) -> Any:
    """Build one of kafka-python's objects from the JSON value of a struct."""
    fields = list(fields_of(struct, version))
    untagged = [name for name, _, tagged in fields if not tagged]
    value = check_fields(value, untagged, [name for name, _, tagged in fields if tagged], path)
    members = {
        field.name: _to_peer(field, value[name], version, inside(path, name))
        for name, field, _ in fields
        if name in value
    }
    # A member that begins with an underscore is how kafka-python holds an unknown tagged field.
    for unknown in value.get(TAGS, ()):
        members[f"_{unknown['tag']}"] = bytes.fromhex(unknown["hex"])
    return data_class(version=version, **members)


def _to_peer(field: Any, value: Any, version: int, path: str) -> Any:
    if not field.is_array():
        return _element_to_peer(field, value, version, path)
    if value is None:
        return None
    if not isinstance(value, list):
        raise Refused("wrong_type", f"{type(value).__name__} for an array", path)
    return [
        _element_to_peer(field, element, version, f"{path}[{at}]")
        for at, element in enumerate(value)
    ]


def _element_to_peer(field: Any, value: Any, version: int, path: str) -> Any:
    kind = kind_of(field)
    if value is None and (kind is None or kind in ("string", "bytes", "records")):
        return None  # kafka-python takes it for any field, nullable or not.
    if kind is None:
        struct = field.array_of if field.is_array() else field
        return to_peer(field.data_class, struct, value, version, path)
    if kind == "bitfield":
        bits = scalar_from_json("int32", value, path)
        if not NO_OPERATIONS <= bits < -NO_OPERATIONS:
            raise Refused("integer_out_of_range", f"{bits} has no place in 32 bits", path)
        return None if bits == NO_OPERATIONS else {bit for bit in range(32) if bits >> bit & 1}
    scalar = scalar_from_json(kind, value, path)
    # kafka-python reads the zero uuid as None, and takes None for a field's default.
    return None if scalar == ZERO_UUID else scalar


def to_json(item: Any, struct: Any, version: int) -> dict[str, Any]:
    """Turn one of kafka-python's objects into JSON, tagged fields only where they say something."""
    value = {}
    for name, field, tagged in fields_of(struct, version):
        if tagged and (item.tags is None or field.name not in item.tags):
            continue
        member = _to_json(field, getattr(item, field.name), version)
        if not tagged or member != default(field, version):
            value[name] = member
    if item.unknown_tags:
        unknown = sorted((int(name[1:]), raw) for name, raw in item.unknown_tags.items())
        value[TAGS] = [{"tag": tag, "hex": bytes(raw).hex()} for tag, raw in unknown]
    return value


def _to_json(field: Any, value: Any, version: int) -> Any:
    if field.is_array() and value is not None:
        return [_element_to_json(field, element, version) for element in value]
    return _element_to_json(field, value, version)


def _element_to_json(field: Any, value: Any, version: int) -> Any:
    kind = kind_of(field)
    if kind == "bitfield":
        bits = sum(1 << bit for bit in value) if value is not None else 1 << 31
        return bits - (1 << 32) if bits >> 31 else bits
    if value is None and not field.is_array():
        return scalar_to_json(kind or "struct", None)
    if kind is None:
        if value is None:
            return None
        return to_json(value, field.array_of if field.is_array() else field, version)
    return scalar_to_json(kind, value)


def default(field: Any, version: int) -> Any:
    """Return what the schema says that a tagged field holds where it is absent, as JSON."""
    text, kind = field._json.get("default", ""), kind_of(field)
    if text == "null":
        return None
    if field.is_array():
        return []
    if kind is None:
        return {
            name: default(inner, version)
            for name, inner, tagged in fields_of(field, version)
            if not tagged
        }
    if kind in INTEGERS:
        return int(str(text) or "0", 0)
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    return scalar_to_json("uuid", None) if kind == "uuid" else text


def messages() -> dict[str, Any]:
    """Return kafka-python's classes by Kafka's name, from all modules of its protocol package."""
    classes: dict[str, Any] = {header.__name__: header for header in HEADERS}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in module.name or "generate_stubs" in module.name:
            continue
        for named in vars(importlib.import_module(module.name)).values():
            schema = getattr(named, "_json", None)
            if isinstance(named, type) and isinstance(schema, dict) and "validVersions" in schema:
                classes[schema["name"]] = named
    return classes


MESSAGES = messages()


def load(message: str, version: int) -> Any:
    """Return kafka-python's class; ``Refused`` where it has none, or not that version."""
    if message not in MESSAGES:
        raise Refused("unknown_message", f"kafka-python has no {message}")
    first, last = MESSAGES[message]._valid_versions
    if not first <= version <= last:
        versions = f"kafka-python has {message} in versions {first} to {last}"
        raise Refused("unsupported_version", versions)
    return MESSAGES[message]


def encode(message: str, version: int, value: Any) -> dict[str, Any]:
    """Answer an encode request."""
    if (message, version) == (NAME, VERSION):
        return dict(RECORDS.encode(value))
    cls = load(message, version)
    item = to_peer(cls, cls._struct, value, version, "")
    if cls in HEADERS:
        data = item.encode(flexible=version == cls._valid_versions[1])
    elif issubclass(cls, ApiData):
        data = item.encode(version=version, header=False)
    else:
        data = item.encode(version=version)
    return {"hex": bytes(data).hex()}


def decode(message: str, version: int, data: bytes) -> dict[str, Any]:
    """Answer a decode request. ``decode`` does not tell how much it has read: no ``trailing``."""
    if (message, version) == (NAME, VERSION):
        return dict(RECORDS.decode(data))
    cls = load(message, version)
    if cls in HEADERS:
        flexible = version == cls._valid_versions[1]
        item = cls.decode(io.BytesIO(data), flexible=flexible)
    elif issubclass(cls, ApiData):
        item = cls.decode(data, version=version, header=False)
    else:
        item = cls.decode(data, version=version)
    return {"value": to_json(item, cls._struct, version)}


def _range(cls: Any) -> str:
    first, last = cls._valid_versions
    return f"{first}-{last}" if last >= 0 else "none"


if __name__ == "__main__":
    served = {name: _range(cls) for name, cls in MESSAGES.items()}
    served[NAME] = f"{VERSION}-{VERSION}"
    hello = {
        "name": "kafka-python",
        "version": importlib.metadata.version("kafka-python"),
        "spec": "kafka",
        "messages": served,
        "notes": "kafka-python does not tell nullable fields from others.",
    }
    raise SystemExit(serve(hello, encode, decode))
