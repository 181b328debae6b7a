"""Primitives that the rendered straight-line codecs share.

That code is optimistic: it refuses by any exception and names nothing. The caller then runs the
plan interpreter over the same input, which names the class, path and offset.
"""

from __future__ import annotations

import uuid
from functools import partial
from struct import Struct
from typing import Any, NoReturn

from kraftspec.fastpath.plan import FIXED, STRING_BYTES_MAX, UVARINT_BYTES_MAX, UVARINT_MAX
from kraftspec.fastpath.types import UUID_BYTES, UnknownTags, Uuid

Bytes = bytes | memoryview


class RefusedError(Exception):
    """Raised by straight-line code; never leaves the codec."""


# Takes a str and nothing else that happens to have a method of that name.
utf8 = str.encode


def refuse() -> NoReturn:
    """Refuse the value at hand, from inside an expression."""
    raise RefusedError


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint: 7 bits a byte, least significant first, high bit = more."""
    if value < 0 or value > UVARINT_MAX:
        refuse()
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte is the definition
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# UV[n] is uvarint(n) and UV1[n] is uvarint(n + 1): nearly every length and count is one byte.
UV = tuple(bytes((n,)) for n in range(128))
UV1 = UV[1:]


def read_uvarint(data: Bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint; return (value, offset after it)."""
    value = 0
    for shift in range(0, 7 * UVARINT_BYTES_MAX, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            if (byte == 0 and shift) or value > UVARINT_MAX:
                refuse()
            return value, at
    refuse()


# Arrays of integers: packers for the short ones are made once.
SMALL = 16


def _packers(code: str) -> tuple[Any, ...]:
    return tuple(Struct(f">{count}{code}").pack for count in range(SMALL))


def _unpackers(code: str) -> tuple[Any, ...]:
    return tuple(Struct(f">{count}{code}").unpack_from for count in range(SMALL))


PACK = {code: _packers(code) for code in "bhHiIqd"}
UNPACK = {code: _unpackers(code) for code in "bhHiIqd"}
# One value of each fixed-width type, as tagged fields hold them.
UNPACK1 = {code: Struct(f">{code}").unpack_from for code in FIXED.values()}
put_int16, put_int32 = PACK["h"][1], PACK["i"][1]
get_int16, get_int32 = UNPACK["h"][1], UNPACK["i"][1]


def as_array(value: object) -> Any:
    """Let subclasses of list and tuple through."""
    return value if isinstance(value, (list, tuple)) else refuse()


def as_uuid(value: object) -> bytes:
    """Accept 16 plain bytes or a ``uuid.UUID`` for a uuid field."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value if isinstance(value, bytes) and len(value) == UUID_BYTES else refuse()


def as_bytes(value: object) -> Bytes:
    """Accept any contiguous buffer for a bytes or records field, without a copy of a bytes."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return memoryview(value).cast("B")
    refuse()


def compact_length(length: int) -> bytes:
    """Write the compact length prefix of a string of 127 bytes or more, within Kafka's limit."""
    return uvarint(length + 1) if length <= STRING_BYTES_MAX else refuse()


# Makes a Uuid of 16 bytes known to be right, past the checks of its constructor.
make_uuid = partial(bytes.__new__, Uuid)


def write_tags(
    write: Any, known: list[tuple[int, bytes]], unknown: UnknownTags, reserved: tuple[int, ...] = ()
) -> None:
    """Write a tagged-field section: known and unknown tags merged in ascending order.

    ``reserved`` are the numbers that the schema gives out, in any version.
    """
    tags = known
    if unknown:
        if unknown.__class__ is not tuple:
            refuse()
        last = -1
        for tag, payload in unknown:
            if tag <= last or tag in reserved:
                refuse()
            if not isinstance(tag, int) or not isinstance(payload, bytes):
                refuse()
            last = tag
        tags = sorted([*known, *unknown])
    write(uvarint(len(tags)))
    for tag, payload in tags:
        write(uvarint(tag))
        write(uvarint(len(payload)))
        write(payload)


def read_tags(data: Bytes, at: int, value: Any, later: tuple[int, ...]) -> int:
    """Read a tagged-field section of a struct that knows no tags; return the offset after it."""
    count, at = read_uvarint(data, at)
    unknown = []
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        end = at + size
        if tag <= last or tag in later or end > len(data):
            refuse()
        last = tag
        unknown.append((tag, bytes(data[at:end])))
        at = end
    value.unknown_tagged_fields = tuple(unknown)
    return at
