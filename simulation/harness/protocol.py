"""The node harness protocol: frames of commands to a process, frames of events back.

``protocol.json`` says which there are, with their fields. A frame is its size, an int32, and then
messages; a message is `HEAD` and the fields. All numbers are big-endian. docs/node-harness.md is
for those who write a harness.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

import msgspec

VERSION: Final = 1
FRAME_BYTES_MAX: Final = 64 << 20
SIZE: Final = struct.Struct(">i")
HEAD: Final = struct.Struct(">biii")  # Code, run, node, bytes of the fields.

_FIXED = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uuid": "16s"}

Fields = tuple[Any, ...]
Event = tuple[str, Fields]


class HarnessError(Exception):
    """A harness did not start, ended, hung, or broke the protocol: no verdict about its nodes."""


class Layout(msgspec.Struct, frozen=True):
    """One command or event: ``fields`` are (name, type, meaning).

    ``is_effect`` is of events that the power can prevent.
    """

    code: int
    name: str
    about: str
    fields: tuple[tuple[str, str, str], ...]
    is_effect: bool = False


class Protocol(msgspec.Struct, frozen=True):
    """What ``protocol.json`` says."""

    protocol: str
    version: int
    types: dict[str, str]
    commands: tuple[Layout, ...]
    events: tuple[Layout, ...]
    capabilities: dict[str, str]


def _parts(layout: Layout) -> list[str]:
    """Cut the types of a layout into formats: those of fixed size together, the others alone."""
    parts: list[str] = []
    for _, kind, _ in layout.fields:
        code = _FIXED.get(kind)
        if code is None:
            parts.append(kind)
        elif parts and parts[-1].startswith(">"):
            parts[-1] += code
        else:
            parts.append(f">{code}")
    return parts


def _encode_sized(kind: str, value: Any) -> bytes:
    match kind:
        case "bytes":
            return SIZE.pack(len(value)) + bytes(value)
        case "string":
            return _encode_sized("bytes", value.encode())
        case "[int32]":
            return struct.pack(f">i{len(value)}i", len(value), *value)
        case _:  # [bytes], [string]
            one = kind[1:-1]
            return SIZE.pack(len(value)) + b"".join(_encode_sized(one, item) for item in value)


def _encoder(layout: Layout) -> Callable[..., bytes]:
    code = layout.code
    parts = _parts(layout)
    if not parts or (len(parts) == 1 and parts[0].startswith(">")):
        whole = struct.Struct(HEAD.format + (parts[0][1:] if parts else ""))
        size = whole.size - HEAD.size

        def encode_fixed(run: int, node: int, *values: Any) -> bytes:
            return whole.pack(code, run, node, size, *values)

        return encode_fixed
    if parts[0][0] == ">" and parts[1:] == ["bytes"]:  # A request, a reply: most of what is sent.
        start = struct.Struct(HEAD.format + parts[0][1:] + SIZE.format[1:])
        fixed_size = start.size - HEAD.size

        def encode_body(run: int, node: int, *values: Any) -> bytes:
            body: bytes = values[-1]
            size = len(body)
            return start.pack(code, run, node, fixed_size + size, *values[:-1], size) + body

        return encode_body
    steps = [(part, struct.Struct(part)) if part[0] == ">" else (part, None) for part in parts]
    counts = [len(part) - 1 - 2 * part.count("16s") if part[0] == ">" else 1 for part in parts]

    def encode(run: int, node: int, *values: Any) -> bytes:
        out, at = [], 0
        for (kind, fixed), count in zip(steps, counts, strict=True):
            if fixed is not None:
                out.append(fixed.pack(*values[at : at + count]))
            else:
                out.append(_encode_sized(kind, values[at]))
            at += count
        body = b"".join(out)
        return HEAD.pack(code, run, node, len(body)) + body

    return encode


def _decode_sized(kind: str, data: bytes, at: int) -> tuple[Any, int]:
    (count,) = SIZE.unpack_from(data, at)
    at += SIZE.size
    if not 0 <= count <= len(data) - at:
        raise HarnessError(f"a size of {count} at byte {at - SIZE.size}, and {len(data) - at} left")
    match kind:
        case "bytes":
            return data[at : at + count], at + count
        case "string":
            return data[at : at + count].decode(errors="replace"), at + count
        case "[int32]":
            return struct.unpack_from(f">{count}i", data, at), at + 4 * count
        case _:
            values = []
            for _ in range(count):
                value, at = _decode_sized(kind[1:-1], data, at)
                values.append(value)
            return tuple(values), at


def _decoder(layout: Layout) -> Callable[[bytes, int], tuple[Fields, int]]:
    parts = _parts(layout)
    if len(parts) == 1 and parts[0][0] == ">":
        whole = struct.Struct(parts[0])

        def decode_fixed(data: bytes, at: int) -> tuple[Fields, int]:
            return whole.unpack_from(data, at), at + whole.size

        return decode_fixed
    steps = [(part, struct.Struct(part)) if part[0] == ">" else (part, None) for part in parts]

    def decode(data: bytes, at: int) -> tuple[Fields, int]:
        values: Fields = ()
        for kind, fixed in steps:
            if fixed is not None:
                values += fixed.unpack_from(data, at)
                at += fixed.size
            else:
                value, at = _decode_sized(kind, data, at)
                values += (value,)
        return values, at

    return decode


PROTOCOL: Final = msgspec.json.decode(
    (files("kraftspec.simulation.harness") / "protocol.json").read_bytes(), type=Protocol
)
ENCODERS: Final = {layout.name: _encoder(layout) for layout in PROTOCOL.commands}
_DECODERS: Final = {layout.code: (layout.name, _decoder(layout)) for layout in PROTOCOL.events}
_COMMANDS: Final = {layout.code: (layout.name, _decoder(layout)) for layout in PROTOCOL.commands}
_EVENTS: Final = {layout.name: _encoder(layout) for layout in PROTOCOL.events}


def encode(name: str, run: int, node: int, *values: Any) -> bytes:
    """Return one command as bytes; its values are in the order of ``protocol.json``."""
    return ENCODERS[name](run, node, *values)


def encode_event(name: str, run: int, node: int, *values: Any) -> bytes:
    """Return one event as bytes, for a harness that is written in Python."""
    return _EVENTS[name](run, node, *values)


def decode_events(data: bytes) -> list[tuple[int, int, Event]]:
    """Return the events of a frame, each with its run and node.

    Raises:
        HarnessError: with the offset of what is wrong.
    """
    return _decode(data, _DECODERS)


def decode_commands(data: bytes) -> list[tuple[int, int, Event]]:
    """Return the commands of a frame, for a harness that is written in Python."""
    return _decode(data, _COMMANDS)


def _decode(data: bytes, layouts: dict[int, tuple[str, Any]]) -> list[tuple[int, int, Event]]:
    out = []
    at, end = 0, len(data)
    try:
        while at < end:
            begin = at
            code, run, node, size = HEAD.unpack_from(data, at)
            if code not in layouts:
                raise HarnessError(f"the message at byte {begin} has the unknown code {code}")
            name, decode = layouts[code]
            at += HEAD.size
            values, after = decode(data, at)
            if after != at + size:
                raise HarnessError(f"{name} at byte {begin} has {size} bytes, not {after - at}")
            at = after
            out.append((run, node, (name, values)))
    except struct.error as error:
        raise HarnessError(f"the message at byte {begin} is too short: {error}") from error
    return out
