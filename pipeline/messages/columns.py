"""Structs of decoded messages as Arrow columns: a field at a time, never a row at a time."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraftspec.fastpath.message import Codec
from kraftspec.fastpath.plan import Layout
from kraftspec.fastpath.types import UUID_BYTES
from kraftspec.pipeline.messages.schema import (
    PRIMITIVES,
    TAGS_TYPE,
    StructField,
    field_type,
    fields_of,
    has_tags,
    struct_type,
)

UUID_TEXT_BYTES: Final = 22
# Two more bytes make the 16 of a uuid a whole number of base64's groups; its text is the same.
_UUID_PADDING: Final = b"\0\0"
_UUID_PADDED_TEXT_BYTES: Final = (UUID_BYTES + len(_UUID_PADDING)) // 3 * 4
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_unknown_tags: Final = attrgetter("unknown_tagged_fields")


def struct_array(codec: Codec, layout: Layout, rows: Sequence[Any]) -> pa.StructArray:
    """Return structs of one layout as an Arrow array of ``struct_type``; no row is None."""
    children = struct_columns(codec, layout, rows)
    type_ = struct_type(codec, layout[0])
    if not children:  # A struct without fields has its length from nowhere else.
        return pa.array([{}] * len(rows), type_)
    return pa.StructArray.from_arrays(children, fields=list(type_))


def struct_columns(codec: Codec, layout: Layout, rows: Sequence[Any]) -> list[pa.Array]:
    """Return the columns of structs of one layout, in the order of ``struct_type``."""
    struct, _, fields, tagged, _, _ = layout
    present = {entry[1]: (entry[3], entry[4]) for entry in fields}
    present.update({entry[2]: (entry[4], entry[5]) for entry in tagged})
    columns = []
    for field in fields_of(codec, struct):
        if field.attr in present:
            nullable, element = present[field.attr]
            values = list(map(attrgetter(field.attr), rows))
            columns.append(_column(codec, field, values, nullable, element))
        else:
            columns.append(pa.nulls(len(rows), field_type(codec, field)))
    if has_tags(codec, struct):
        columns.append(_tags(layout, rows))
    return columns


def _column(
    codec: Codec, field: StructField, values: list[Any], nullable: bool, element: str | int | None
) -> pa.Array:
    """Return the values of one field; ``element`` is the layout of structs, as in plans."""
    if isinstance(element, int):
        layout = codec.layouts[element]
        if field.kind == "array":
            return _list(field_type(codec, field), codec, layout, values)
        return _struct(codec, layout, values) if nullable else struct_array(codec, layout, values)
    if field.kind == "uuid":
        return uuid_text(values)
    if field.element == "uuid":
        return _uuid_lists(field_type(codec, field), values)
    if field.kind == "array":
        return pa.array(values, field_type(codec, field))
    return pa.array(values, PRIMITIVES[field.kind])


def _struct(codec: Codec, layout: Layout, values: list[Any]) -> pa.Array:
    """Return structs that may be null."""
    there = [value for value in values if value is not None]
    structs = struct_array(codec, layout, there)
    return (
        structs if len(there) == len(values) else _spread(structs, [v is not None for v in values])
    )


def _spread(values: pa.Array, present: Sequence[bool]) -> pa.Array:
    """Return an array of ``present``'s length: the elements of ``values`` in order, else null."""
    places = accumulate(present, initial=-1)
    next(places)
    return values.take(
        pa.array(
            [place if there else None for place, there in zip(places, present, strict=True)],
            pa.int64(),
        )
    )


def _list(type_: pa.ListType, codec: Codec, layout: Layout, values: list[Any]) -> pa.Array:
    """Return lists of structs."""
    lists = [value or () for value in values]
    items = struct_array(codec, layout, list(chain.from_iterable(lists)))
    return _with_offsets(type_, values, lists, items)


def _uuid_lists(type_: pa.ListType, values: list[Any]) -> pa.Array:
    lists = [value or () for value in values]
    return _with_offsets(type_, values, lists, uuid_text(list(chain.from_iterable(lists))))


def _with_offsets(
    type_: pa.ListType, values: list[Any], lists: list[Any], items: pa.Array
) -> pa.Array:
    offsets = pa.array(list(accumulate(map(len, lists), initial=0)), pa.int32())
    mask = pa.array([value is None for value in values]) if None in values else None
    return pa.ListArray.from_arrays(offsets, items, type=type_, mask=mask)


def uuid_text(values: Sequence[bytes]) -> pa.StringArray:
    """Return uuids as Kafka prints them, all of them by one call of base64."""
    padded = _UUID_PADDING.join([*values, b""])
    text = binascii.b2a_base64(padded, newline=False).translate(_URL_SAFE)
    whole = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_UUID_PADDED_TEXT_BYTES), len(values), [None, pa.py_buffer(text)]
    )
    return pc.binary_slice(whole, 0, UUID_TEXT_BYTES).cast(pa.string())


def _tags(layout: Layout, rows: Sequence[Any]) -> pa.Array:
    """Return the unknown tagged fields, null where there are none."""
    if not layout[1]:
        return pa.nulls(len(rows), TAGS_TYPE)
    values = [tags or None for tags in map(_unknown_tags, rows)]
    return pa.array(values, TAGS_TYPE) if any(values) else pa.nulls(len(rows), TAGS_TYPE)
