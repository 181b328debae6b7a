"""Encodes and decodes any message by its plan: what your codec replaces.

``plans.json`` has a plan for each message and version: the fields in wire order, the wire type of
each, whether it may be null, and the tagged fields with their defaults.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from pathlib import Path
from typing import Any, cast

Plan = dict[str, Any]

LONGEST_STRING = 32767
UNKNOWN = "_unknownTaggedFields"
FIXED = {
    "bool": ">B",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
    "uuid": ">16s",
}
PLANS: dict[tuple[str, int], Plan] = {
    (plan["message"], plan["version"]): plan
    for plan in json.loads(Path(__file__).with_name("plans.json").read_text("utf-8"))
}


def ranges() -> dict[str, str]:
    """Return the versions of each message, as hello has them."""
    versions: dict[str, list[int]] = {}
    for message, version in PLANS:
        versions.setdefault(message, []).append(version)
    return {message: f"{min(held)}-{max(held)}" for message, held in versions.items()}


def encode(message: str, version: int, value: Any) -> bytes:
    """Return the bytes of a message. Raises ValueError, KeyError or struct.error."""
    return put_struct(PLANS[message, version], value)


def decode(message: str, version: int, data: bytes) -> dict[str, Any]:
    """Return what the bytes hold. Raises ValueError, KeyError or struct.error."""
    reader = Reader(data)
    value = reader.struct(PLANS[message, version])
    check(reader.at == len(data), f"{len(data) - reader.at} bytes are left")
    return value


def check(holds: bool, otherwise: str) -> None:
    """Refuse unless something holds."""
    if not holds:
        raise ValueError(otherwise)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 0 and false are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def put_length(wire: str, length: int) -> bytes:
    """Return a length or a count; -1 is null."""
    if wire.startswith("compact_"):
        return uvarint(length + 1)
    return struct.pack(">h" if wire == "string" else ">i", length)


def put_struct(plan: Plan, value: Any) -> bytes:
    """Return the bytes of a struct, which has the fields of its plan and no others."""
    check(isinstance(value, dict), f"a struct wanted, not {value!r:.40}")
    tagged = {field["name"]: field for field in plan["tagged"]}
    known = {field["name"] for field in plan["fields"]} | set(tagged)
    if plan["taggedSection"]:
        known.add(UNKNOWN)
    if more := set(value) - known:
        raise ValueError(f"no such field: {min(more)}")
    out = b"".join(put(field, value[field["name"]]) for field in plan["fields"])
    if not plan["taggedSection"]:
        return out
    tags = {}
    for name, field in tagged.items():
        if name in value and not same(value[name], field["default"]):
            tags[field["tag"]] = put(field, value[name])
    last, taken = -1, {*plan["laterTags"], *(field["tag"] for field in plan["tagged"])}
    for unknown in value.get(UNKNOWN, []):
        tag = unknown["tag"]
        check(last < tag <= 0x7FFFFFFF and tag not in taken, f"tag {tag} after {last}, or taken")
        tags[tag] = bytes.fromhex(unknown["hex"])
        last = tag
    parts = (uvarint(tag) + uvarint(len(body)) + body for tag, body in sorted(tags.items()))
    return out + uvarint(len(tags)) + b"".join(parts)


def put(field: Plan, value: Any) -> bytes:
    """Return the bytes of a field, or of an element of an array."""
    wire = field["wire"]
    if wire in FIXED:
        return put_fixed(wire, value)
    if value is None:
        check(field["nullable"], f"{field['name']} is never null")
        if wire == "struct":
            return b"\x00" if "tag" in field else b"\xff"
        return put_length(wire, -1)
    if wire == "struct":
        return (b"\x01" if field["nullable"] else b"") + put_struct(field["element"], value)
    if wire.endswith("array"):
        check(isinstance(value, list), f"{field['name']} is an array")
        items = b"".join(put_element(field, item) for item in value)
        return put_length(wire, len(value)) + items
    check(isinstance(value, str), f"{field['name']} is a string in JSON")
    if wire.endswith("string"):
        data: bytes = value.encode()
        check(len(data) <= LONGEST_STRING, f"{field['name']} has {len(data)} bytes")
    else:
        data = base64.b64decode(value, validate=True)
    return put_length(wire, len(data)) + data


def put_element(field: Plan, value: Any) -> bytes:
    """Return the bytes of an element of an array; it is never null."""
    element = field["element"]
    if isinstance(element, dict):
        return put_struct(element, value)
    return put({"name": field["name"], "wire": element, "nullable": False}, value)


def put_fixed(wire: str, value: Any) -> bytes:
    """Return the bytes of a type of fixed width."""
    if wire == "uuid":
        data = base64.urlsafe_b64decode(cast(str, value) + "==")
        check(len(data) == 16, "a uuid has 16 bytes")
        return data
    if wire == "float64" and isinstance(value, str):
        value = struct.unpack(">d", bytes.fromhex(value.removeprefix("0x")))[0]
    kind = {"bool": bool, "float64": float}.get(wire, int)
    check(type(value) is kind, f"{wire} wanted, not {value!r:.40}")
    return struct.pack(FIXED[wire], value)


class Reader:
    """Reads values from bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Read so many bytes."""
        check(count <= len(self.data) - self.at, f"{count} bytes wanted at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def uvarint(self) -> int:
        """Read an unsigned varint, in as few bytes as it needs."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                check(byte > 0 or shift == 0, "a varint in too many bytes")
                check(value <= 0x7FFFFFFF, "a varint of more than 31 bits")
                return value
        raise ValueError("a varint has at most 5 bytes")

    def length(self, field: Plan) -> int | None:
        """Read a length or a count; None is null."""
        wire = field["wire"]
        if wire.startswith("compact_"):
            length = self.uvarint() - 1
        else:
            layout = ">h" if wire == "string" else ">i"
            (length,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        check(length >= -1, f"length {length}")
        check(length >= 0 or field["nullable"], f"{field['name']} is never null")
        check(length <= len(self.data) - self.at, f"{field['name']}: length {length}")
        return None if length < 0 else length

    def struct(self, plan: Plan) -> dict[str, Any]:
        """Read a struct."""
        value = {field["name"]: self.value(field) for field in plan["fields"]}
        if not plan["taggedSection"]:
            return value
        known = {field["tag"]: field for field in plan["tagged"]}
        unknown = []
        last = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            check(last < tag and tag not in plan["laterTags"], f"tag {tag} after {last}")
            last = tag
            size = self.uvarint()
            start = self.at
            if tag not in known:
                unknown.append({"tag": tag, "hex": self.take(size).hex()})
                continue
            held = self.value(known[tag])
            check(self.at - start == size, f"tag {tag} has {self.at - start} bytes, not {size}")
            if not same(held, known[tag]["default"]):
                value[known[tag]["name"]] = held
        if unknown:
            value[UNKNOWN] = unknown
        return value

    def value(self, field: Plan) -> Any:
        """Read a field, or an element of an array."""
        wire = field["wire"]
        if wire in FIXED:
            return self.fixed(wire)
        if wire == "struct":
            if field["nullable"]:
                (marker,) = self.take(1)
                check(marker in (1, 0 if "tag" in field else 255), f"marker {marker}")
                if marker != 1:
                    return None
            return self.struct(field["element"])
        length = self.length(field)
        if length is None:
            return None
        if wire.endswith("array"):
            return [self.element(field) for _ in range(length)]
        if wire.endswith("string"):
            check(length <= LONGEST_STRING, f"{field['name']} has {length} bytes")
            return self.take(length).decode()
        return base64.b64encode(self.take(length)).decode()

    def element(self, field: Plan) -> Any:
        """Read an element of an array."""
        element = field["element"]
        if isinstance(element, dict):
            return self.struct(element)
        return self.value({"name": field["name"], "wire": element, "nullable": False})

    def fixed(self, wire: str) -> Any:
        """Read a type of fixed width."""
        data = self.take(struct.calcsize(FIXED[wire]))
        if wire == "uuid":
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        (value,) = struct.unpack(FIXED[wire], data)
        if wire == "bool":
            check(value <= 1, f"a bool is 0 or 1, not {value}")
            return value == 1
        if wire == "float64" and not math.isfinite(value):
            return "0x" + data.hex()
        return value
