"""The Arrow type of a message: one struct for all of its versions.

======================  ==================================
on the wire             in Arrow (and in Spark)
======================  ==================================
bool                    bool (boolean)
int8, int16             int8, int16 (byte, short)
int32, int64            int32, int64 (int, long)
uint16                  int32 (int)
uint32                  int64 (long)
float64                 double
string                  string
uuid                    string: 22 characters of URL-safe base64, as Kafka prints them
bytes, records          binary
array                   list<element: …> (array)
struct                  struct
tags nobody knows       map<int32, binary>, ``_unknownTaggedFields``, of a struct with tagged fields
======================  ==================================

Fields have the schema's names in camelCase and are nullable, all of them: null is a field that the
version lacks, and a null on the wire. A tagged field that was left out holds its default. The
message itself starts with ``_version`` (int16), because rows of several versions share a column.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kraftspec.fastpath.message import Codec, Message
from kraftspec.fastpath.values import UNKNOWN_TAGS

VERSION: Final = "_version"
ERROR: Final = "_error"
ROOT: Final = 0  # The message itself among the structs of its codec.

VERSION_TYPE: Final = pa.int16()
TAGS_TYPE: Final = pa.map_(pa.int32(), pa.binary())
ERROR_TYPE: Final = pa.struct(
    [("class", pa.string()), ("position", pa.int64()), ("detail", pa.string())]
)
PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),
    "int32": pa.int32(),
    "uint32": pa.int64(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "uuid": pa.string(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "records": pa.binary(),
}


class StructField(NamedTuple):
    """A field of a struct in whatever versions have it.

    ``kind`` is its wire type without ``compact_``. ``element`` is, for a struct or an array of
    them, the index of the struct in its codec; for another array the kind of its elements.
    """

    name: str
    attr: str
    kind: str
    element: str | int | None


def kind_of(wire: str) -> str:
    """Return a wire type without regard to how its length is written."""
    return wire.removeprefix("compact_")


def messages_of(spec_set: str) -> ModuleType:
    """Return the module of a set's messages; ValueError when there is no such set."""
    name = spec_set.replace("-", "_")
    try:
        return import_module(f"kraftspec.generated.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"kraftspec.generated.{name}":
            raise
        raise ValueError(f"there is no set of specs {spec_set!r}") from None


def message_class(message: str | type[Message], spec_set: str = "kafka") -> type[Message]:
    """Return the class of a message by its name in a set; ValueError names those that look alike.

    A class is itself, so that messages of your own schemas can be given.
    """
    if not isinstance(message, str):
        return message
    module = messages_of(spec_set)
    known: dict[str, Any] = module.CATALOGUE
    if message not in known:
        close = get_close_matches(message, known, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"there is no message {message!r} in {spec_set}{hint}")
    cls: type[Message] = getattr(module, message)
    return cls


@cache
def fields_of(codec: Codec, struct: int) -> tuple[StructField, ...]:
    """Return the fields that a struct has in any version, in the order of its class."""
    by_attr: dict[str, StructField] = {}
    for index, _, fields, tagged, _, _ in codec.layouts:
        if index != struct:
            continue
        entries = [*fields, *(entry[1:6] for entry in tagged)]
        for name, attr, wire, _, element in entries:
            kind = kind_of(wire)
            target: str | int | None = None
            if isinstance(element, int):
                target = codec.layouts[element][0]
            elif element is not None:
                target = kind_of(element)
            field = StructField(name, attr, kind, target)
            if by_attr.setdefault(attr, field) != field:
                raise ValueError(f"{name} has no one type: {by_attr[attr]} and {field}")
    order = codec.structs[struct].__struct_fields__
    return tuple(by_attr[attr] for attr in order if attr in by_attr)


@cache
def struct_type(codec: Codec, struct: int = ROOT) -> pa.StructType:
    """Return the Arrow type of one struct of a message (without ``_version``)."""
    fields = [pa.field(field.name, field_type(codec, field)) for field in fields_of(codec, struct)]
    if has_tags(codec, struct):
        fields.append(pa.field(UNKNOWN_TAGS, TAGS_TYPE))
    return pa.struct(fields)


@cache
def has_tags(codec: Codec, struct: int) -> bool:
    """Whether a struct has room for tagged fields in any version."""
    return any(layout[0] == struct and layout[1] for layout in codec.layouts)


def field_type(codec: Codec, field: StructField) -> pa.DataType:
    """Return the Arrow type of a field."""
    if isinstance(field.element, int):
        child: pa.DataType = struct_type(codec, field.element)
    else:
        child = PRIMITIVES[field.element or field.kind]
    return pa.list_(pa.field("element", child)) if field.kind == "array" else child


def arrow_type(
    message: str | type[Message], spec_set: str = "kafka", *, errors: bool = False
) -> pa.StructType:
    """Return the struct that ``decode_message`` gives: ``_version``, then the message's fields.

    With ``errors`` it ends with ``_error``: struct<class: string, position: int64, detail: string>.
    """
    return decoded_type(message_class(message, spec_set), errors)


@cache
def decoded_type(cls: type[Message], errors: bool) -> pa.StructType:
    """Return ``arrow_type`` of a message's class."""
    fields = [pa.field(VERSION, VERSION_TYPE), *struct_type(cls.CODEC)]
    if errors:
        fields.append(pa.field(ERROR, ERROR_TYPE))
    return pa.struct(fields)
