"""The bytes of a value, primitive by primitive: what can be broken, and where it then is.

A third way to write a message, beside the codecs and Kafka: from a plan and a JSON value to a list
of ``Token``, whose ``raw`` joined are the message. ``make`` holds them against the bytes that
Kafka wrote for the same value before anything is derived from them.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kraftspec.codegen.plan import FieldPlan, StructPlan
from kraftspec.fastpath.plan import FIXED
from kraftspec.fastpath.values import UNKNOWN_TAGS

Kind = Literal["fixed", "length", "count", "marker", "tags", "tag", "size", "content"]
UVARINT_KINDS: Final = ("tags", "tag", "size")


@dataclass(frozen=True, slots=True)
class Token:
    """One primitive.

    ``length`` and ``count`` are the prefixes of strings, bytes, records and of arrays; ``marker``
    says whether a nullable struct is there; ``tags`` is the number of tagged fields of a struct,
    ``tag`` and ``size`` go before each, and ``content`` is what a length or an unknown tag's size
    announces. ``number`` is what a prefix says (-1 is null), ``until`` the index of the token after
    all that it is about. ``path`` is that of the field, or of the struct for its tags.
    """

    kind: Kind
    path: str
    raw: bytes
    wire: str = ""
    nullable: bool = False
    number: int = 0
    until: int = 0
    field: str = ""  # Of a size: the path of the field, where this version knows the tag.

    @property
    def is_uvarint(self) -> bool:
        """Whether the primitive is an unsigned varint."""
        return self.kind in UVARINT_KINDS or self.wire.startswith("compact_") or (
            self.kind == "marker" and self.wire == "uvarint"
        )  # fmt: skip


def uvarint(number: int) -> bytes:
    """Write an unsigned varint in as few bytes as it takes."""
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte is the definition
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def length_prefix(wire: str, length: int) -> bytes:
    """Write the prefix of something of that wire type; -1 is null."""
    if wire.startswith("compact_"):
        return uvarint(length + 1)
    return length.to_bytes(2 if wire == "string" else 4, "big", signed=True)


def annotate(plan: StructPlan, value: Mapping[str, Any], *, is_sorted: bool = True) -> list[Token]:
    """Write a value; with ``is_sorted`` false, its unknown tags as listed, after the known ones."""
    writer = _Writer(is_sorted)
    writer.struct(plan, value, "")
    return writer.tokens


def joined(tokens: Sequence[Token]) -> bytes:
    """Return the bytes of a message."""
    return b"".join(token.raw for token in tokens)


def start_of(tokens: Sequence[Token], at: int) -> int:
    """Return the offset of the token ``at``."""
    return sum(len(token.raw) for token in tokens[:at])


def edited(tokens: Sequence[Token], edits: Mapping[int, bytes]) -> list[Token]:
    """Replace the bytes of some tokens; the sizes of the tags around them are made to fit.

    A size that is itself replaced stays as given.
    """
    out = [
        replace(token, raw=edits[at]) if at in edits else token for at, token in enumerate(tokens)
    ]
    for at in range(len(out) - 1, -1, -1):
        token = out[at]
        inside = range(at + 1, token.until)
        if token.kind == "size" and at not in edits and any(edit in inside for edit in edits):
            size = sum(len(part.raw) for part in out[at + 1 : token.until])
            out[at] = replace(token, raw=uvarint(size), number=size)
    return out


class _Writer:
    def __init__(self, is_sorted: bool) -> None:
        self.tokens: list[Token] = []
        self.is_sorted = is_sorted

    def add(self, kind: Kind, path: str, raw: bytes, **more: Any) -> int:
        self.tokens.append(Token(kind, path, raw, **more))
        return len(self.tokens) - 1

    def close(self, at: int, **more: Any) -> None:
        """Note that what the token ``at`` is about has been written."""
        self.tokens[at] = replace(self.tokens[at], until=len(self.tokens), **more)

    def struct(self, plan: StructPlan, value: Mapping[str, Any], path: str) -> None:
        for entry in plan.fields:
            self.field(entry, value[entry.name], _below(path, entry.name), is_tagged=False)
        if plan.flexible:
            self.tags(plan, value, path)

    def tags(self, plan: StructPlan, value: Mapping[str, Any], path: str) -> None:
        entries: list[tuple[int, FieldPlan | bytes]] = [
            (entry.tag or 0, entry) for entry in plan.tagged if entry.name in value
        ]
        entries += [
            (unknown["tag"], bytes.fromhex(unknown["hex"]))
            for unknown in value.get(UNKNOWN_TAGS, ())
        ]
        if self.is_sorted:
            entries.sort(key=lambda entry: entry[0])
        self.add("tags", path, uvarint(len(entries)), number=len(entries))
        for tag, entry in entries:
            self.add("tag", path, uvarint(tag), number=tag)
            at = self.add("size", path, b"")
            if isinstance(entry, bytes):
                where = ""
                self.add("content", path, entry)
            else:
                where = _below(path, entry.name)
                self.field(entry, value[entry.name], where, is_tagged=True)
            size = len(joined(self.tokens[at + 1 :]))
            self.close(at, raw=uvarint(size), number=size, field=where)

    def field(self, entry: FieldPlan, value: Any, path: str, *, is_tagged: bool) -> None:
        if entry.wire in ("array", "compact_array"):
            self.array(entry, value, path)
        elif isinstance(entry.element, StructPlan):
            if not entry.nullable:
                self.struct(entry.element, value, path)
                return
            if is_tagged:  # Kafka writes the two kinds of nullable structs differently.
                raw, wire = uvarint(0 if value is None else 1), "uvarint"
            else:
                raw, wire = b"\xff" if value is None else b"\x01", "int8"
            at = self.add("marker", path, raw, wire=wire, nullable=True)
            if value is not None:
                self.struct(entry.element, value, path)
            self.close(at)
        else:
            self.scalar(entry.wire, entry.nullable, value, path)

    def array(self, entry: FieldPlan, value: list[Any] | None, path: str) -> None:
        number = -1 if value is None else len(value)
        at = self.add(
            "count", path, length_prefix(entry.wire, number), wire=entry.wire,
            nullable=entry.nullable, number=number,
        )  # fmt: skip
        for index, item in enumerate(value or ()):
            if isinstance(entry.element, StructPlan):
                self.struct(entry.element, item, f"{path}[{index}]")
            else:
                self.scalar(str(entry.element), False, item, f"{path}[{index}]")
        self.close(at)

    def scalar(self, wire: str, nullable: bool, value: Any, path: str) -> None:
        if wire in FIXED:
            self.add("fixed", path, _fixed(wire, value), wire=wire)
            return
        kind = wire.removeprefix("compact_")
        raw = b"" if value is None else value.encode() if kind == "string" else _binary(value)
        number = -1 if value is None else len(raw)
        at = self.add(
            "length", path, length_prefix(wire, number), wire=wire, nullable=nullable, number=number
        )
        self.add("content", path, raw, wire=kind)
        self.close(at)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _binary(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _fixed(wire: str, value: Any) -> bytes:
    if wire == "uuid":
        return base64.urlsafe_b64decode(f"{value}==")
    if wire == "float64" and isinstance(value, str):
        return bytes.fromhex(value[2:])
    return struct.pack(f">{FIXED[wire]}", value)
