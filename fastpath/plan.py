"""The literal form of a plan: what generated modules hold and what every codec runs.

A *layout* is one struct at one version with nothing left to decide. A message's layouts are a
tuple, shared by all of its versions (versions with the same bytes share the same layouts), and
structs refer to each other by index::

    layout  = (struct, flexible, fields, tagged, absent, later_tags)
      struct      int    index into the module's STRUCTS (the classes), 0 is the message itself
      flexible    bool   whether the struct ends with a tagged-field section
      fields      in wire order:      (name, attr, wire, nullable, element)
      tagged      in tag order:  (tag, name, attr, wire, nullable, element, default)
      absent      not in this version:     (name, attr, ignorable, default)
      later_tags  tag numbers that only other versions of this struct define

``name`` is the schema's name in camelCase, ``attr`` the Python attribute. ``wire`` is one of WIRE.
``element`` is, for arrays, the element's wire type or a layout's index, for a struct its layout's
index, else None. ``default`` is a bool, int, float, str, bytes or None (null); ``()`` is an empty
array and ``...`` a struct whose fields all hold their defaults.
"""

from __future__ import annotations

import uuid
from types import EllipsisType
from typing import Any

WireDefault = bool | int | float | str | bytes | tuple[()] | EllipsisType | None
Element = str | int | None
FieldLayout = tuple[str, str, str, bool, Element]
TaggedLayout = tuple[int, str, str, str, bool, Element, WireDefault]
AbsentLayout = tuple[str, str, bool, WireDefault]
Layout = tuple[
    int,
    bool,
    tuple[FieldLayout, ...],
    tuple[TaggedLayout, ...],
    tuple[AbsentLayout, ...],
    tuple[int, ...],
]
Layouts = tuple[Layout, ...]

# struct-module codes of the fixed-width types, big-endian everywhere.
FIXED = {
    "bool": "B",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
INTEGER_RANGE = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
VARIABLE = (
    "string", "compact_string", "bytes", "compact_bytes", "records", "compact_records",
    "array", "compact_array", "struct",
)  # fmt: skip
WIRE = (*FIXED, *VARIABLE)

STRING_BYTES_MAX = 0x7FFF  # Kafka's limit for both forms: the old prefix is an int16
LENGTH_MAX = 0x7FFFFFFF  # int32 prefixes; Java arrays
UVARINT_MAX = 0x7FFFFFFF  # lengths, counts and tags are Java ints, which must not be negative
UVARINT_BYTES_MAX = 5


def is_default(value: Any, default: WireDefault) -> bool:
    """Return whether ``value`` is the default of a field in the schema."""
    if default is ...:
        return hasattr(type(value), "__struct_fields__") and bool(value == type(value)())
    if default == () and isinstance(default, tuple):
        return isinstance(value, (list, tuple)) and not value
    if value is None or default is None:
        return value is default
    if isinstance(default, bytes):
        if isinstance(value, uuid.UUID):
            return value.bytes == default
        return isinstance(value, (bytes, bytearray, memoryview)) and value == default
    try:
        return bool(value == default)
    except Exception:  # It compares as no field's value does: element by element, perhaps.
        return False
