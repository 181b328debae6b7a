"""A plan interpreter in plain Python: slow, obvious, and the one that names errors.

The rendered codecs and the native engine are optimistic; when they refuse an input they hand it
to this module, which walks the same plan and raises the ``CodecError`` with class, path and offset.
``spec show --hex`` uses its trace, and tests hold the faster codecs against it.
"""

from __future__ import annotations

import codecs
import operator
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import (
    FIXED,
    INTEGER_RANGE,
    LENGTH_MAX,
    STRING_BYTES_MAX,
    UVARINT_BYTES_MAX,
    UVARINT_MAX,
    Element,
    Layout,
    Layouts,
    WireDefault,
    is_default,
)
from kraftspec.fastpath.types import UUID_BYTES, UnknownTags, Uuid

Make = Callable[[int, dict[str, Any]], Any]
_STRUCTS = {wire: struct.Struct(">" + code) for wire, code in FIXED.items()}


JAVA_REPLACE = "kraftspec.java-replace"
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _java_replace(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed UTF-8 as Java's String does: a surrogate counts once, not per byte."""
    assert isinstance(error, UnicodeDecodeError)
    surrogate = SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error(JAVA_REPLACE, _java_replace)


@dataclass(frozen=True, slots=True)
class Span:
    """One primitive as it was read: ``data[start:end]`` of ``path`` holds ``value``."""

    path: str
    wire: str
    start: int
    end: int
    value: Any


class _Path:
    """The field path of the moment, as segments ``topics``, ``[0]``, ``name``."""

    __slots__ = ("segments",)

    def __init__(self) -> None:
        self.segments: list[str] = []

    def __str__(self) -> str:
        return "".join(
            segment if segment.startswith("[") or not at else f".{segment}"
            for at, segment in enumerate(self.segments)
        )


class Decoder:
    """Reads one message. ``lenient`` lets pass what Kafka's own decoder lets pass."""

    def __init__(
        self,
        data: bytes | memoryview,
        offset: int,
        layouts: Layouts,
        make: Make,
        *,
        lenient: bool = False,
        trace: list[Span] | None = None,
    ) -> None:
        self.data = data
        self.at = offset
        self.end = len(data)
        self.layouts = layouts
        self.make = make
        self.lenient = lenient
        self.trace = trace
        self.path = _Path()

    def refuse(self, error_class: ErrorClass, detail: str, offset: int) -> NoReturn:
        """Raise the error for the primitive that starts at ``offset``."""
        raise CodecError(error_class, detail, path=str(self.path), offset=offset)

    def _note(self, wire: str, start: int, value: Any) -> None:
        if self.trace is not None:
            self.trace.append(Span(str(self.path), wire, start, self.at, value))

    def uvarint(self) -> int:
        """Read an unsigned varint. Lenient reads wrap to a Java int, as Kafka's do."""
        start, value = self.at, 0
        for shift in range(0, 7 * UVARINT_BYTES_MAX, 7):
            if self.at >= self.end:
                cut = ErrorClass.TRUNCATED if self.at == start else ErrorClass.VARINT_TRUNCATED
                self.refuse(cut, "the input ends inside an unsigned varint", start)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                break
        else:
            self.refuse(ErrorClass.VARINT_OVERFLOW, "a varint takes at most 5 bytes", start)
        if self.lenient:
            value &= 0xFFFFFFFF
            return value - (1 << 32) if value > UVARINT_MAX else value
        if byte == 0 and self.at - start > 1:
            self.refuse(
                ErrorClass.NON_MINIMAL_VARINT,
                f"{value} is written in more bytes than needed",
                start,
            )
        if value > UVARINT_MAX:
            self.refuse(ErrorClass.VARINT_OVERFLOW, f"{value} is more than {UVARINT_MAX}", start)
        return value

    def fixed(self, wire: str) -> Any:
        """Read a fixed-width primitive."""
        layout, start = _STRUCTS[wire], self.at
        if self.end - start < layout.size:
            self.refuse(
                ErrorClass.TRUNCATED,
                f"{wire} takes {layout.size} bytes, {self.end - start} are left",
                start,
            )
        (value,) = layout.unpack_from(self.data, start)
        if wire == "bool":
            if value > 1 and not self.lenient:
                self.refuse(ErrorClass.INVALID_BOOLEAN, f"a bool is 0 or 1, not {value}", start)
            value = value != 0
        elif wire == "uuid":
            value = Uuid(value)
        self.at += layout.size
        self._note(wire, start, value)
        return value

    def length(self, compact: bool, short: bool, nullable: bool) -> int | None:
        """Read a length or count prefix; None is null."""
        start = self.at
        if compact:
            length = self.uvarint() - 1
            if length < INTEGER_RANGE["int32"][0]:  # lenient: the subtraction wraps too
                length += 1 << 32
        else:
            width = 2 if short else 4
            if self.end - start < width:
                self.refuse(ErrorClass.TRUNCATED, f"the length takes {width} bytes", start)
            length = int.from_bytes(self.data[start : start + width], "big", signed=True)
            self.at += width
        if length < -1 and not self.lenient:
            self.refuse(ErrorClass.NEGATIVE_LENGTH, f"length {length} is negative", start)
        if length < 0:
            if not nullable:
                self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, "null, but not nullable", start)
            return None
        return length

    def variable(self, wire: str, nullable: bool) -> Any:
        """Read a string, bytes or records."""
        start = self.at
        kind = wire.removeprefix("compact_")
        length = self.length(kind != wire, kind == "string", nullable)
        if length is None:
            self._note(wire, start, None)
            return None
        if kind == "string" and length > STRING_BYTES_MAX:
            self.refuse(
                ErrorClass.LENGTH_TOO_LONG,
                f"a string is at most {STRING_BYTES_MAX} bytes, not {length}",
                start,
            )
        if length > self.end - self.at:
            self.refuse(
                ErrorClass.LENGTH_EXCEEDS_INPUT,
                f"length {length}, but {self.end - self.at} bytes are left",
                start,
            )
        raw = self.data[self.at : self.at + length]
        self.at += length
        value: Any
        if kind == "string":
            value = self._text(raw, start)
        elif kind == "records":
            value = memoryview(self.data)[self.at - length : self.at]
        else:
            value = bytes(raw)
        self._note(wire, start, value)
        return value

    def _text(self, raw: bytes | memoryview, start: int) -> str:
        try:
            return str(raw, "utf-8", JAVA_REPLACE if self.lenient else "strict")
        except UnicodeDecodeError as error:
            self.refuse(
                ErrorClass.INVALID_UTF8, f"byte {error.start} of the text: {error.reason}", start
            )

    def array(self, compact: bool, nullable: bool, element: Element) -> Any:
        """Read an array: a list of structs or a tuple of primitives."""
        start = self.at
        count = self.length(compact, False, nullable)
        self._note("count", start, count)
        if count is None:
            return None
        if count > self.end - self.at:
            self.refuse(
                ErrorClass.LENGTH_EXCEEDS_INPUT,
                f"{count} elements, but {self.end - self.at} bytes are left",
                start,
            )
        out = []
        for index in range(count):
            self.path.segments.append(f"[{index}]")
            if isinstance(element, int):
                out.append(self.struct(self.layouts[element]))
            else:
                out.append(self.value(str(element), False, None))
            self.path.segments.pop()
        return out if isinstance(element, int) else tuple(out)

    def value(self, wire: str, nullable: bool, element: Element, *, in_tag: bool = False) -> Any:
        """Read one field's value by its wire type."""
        if wire in _STRUCTS:
            return self.fixed(wire)
        if wire in ("array", "compact_array"):
            return self.array(wire == "compact_array", nullable, element)
        if wire != "struct":
            return self.variable(wire, nullable)
        assert isinstance(element, int)
        if nullable and not self._present(in_tag):
            return None
        return self.struct(self.layouts[element])

    def _present(self, in_tag: bool) -> bool:
        """Read a nullable struct's marker: uvarint 0/1 inside a tag, int8 -1/1 elsewhere."""
        start = self.at
        marker = self.uvarint() if in_tag else self.fixed_marker()
        null, present = (0, 1) if in_tag else (-1, 1)
        if marker not in (null, present) and not self.lenient:
            self.refuse(
                ErrorClass.INVALID_STRUCT_MARKER,
                f"a struct marker is {null} (null) or {present} (present), not {marker}",
                start,
            )
        self._note("marker", start, marker)
        return marker > 0 if in_tag else marker >= 0

    def fixed_marker(self) -> int:
        """Read the int8 form of the marker, without a span of its own."""
        if self.at >= self.end:
            self.refuse(ErrorClass.TRUNCATED, "a struct marker takes 1 byte", self.at)
        byte = self.data[self.at]
        self.at += 1
        return byte - 256 if byte > 127 else byte  # noqa: PLR2004 - int8

    def struct(self, layout: Layout) -> Any:
        """Read one struct."""
        index, flexible, fields, tagged, _, later_tags = layout
        values: dict[str, Any] = {}
        for name, attr, wire, nullable, element in fields:
            self.path.segments.append(name)
            values[attr] = self.value(wire, nullable, element)
            self.path.segments.pop()
        if flexible:
            self._tags({entry[0]: entry for entry in tagged}, later_tags, values)
        return self.make(index, values)

    def _tags(self, known: dict[int, Any], later: tuple[int, ...], values: dict[str, Any]) -> None:
        start = self.at
        count = self.uvarint()
        self._note("tag count", start, count)
        if self.lenient:  # Kafka checks the count at once, from 4.4.0 on.
            if count < 0:
                self.refuse(ErrorClass.VARINT_OVERFLOW, f"{count} tagged fields", start)
            if count > self.end - self.at:
                left = f"{count} tagged fields, {self.end - self.at} bytes are left"
                self.refuse(ErrorClass.LENGTH_EXCEEDS_INPUT, left, start)
        unknown: list[tuple[int, bytes]] = []
        last = -1
        for _ in range(count):
            at = self.at
            tag = self.uvarint() & 0xFFFFFFFF  # lenient reads may have wrapped
            if not self.lenient and tag <= last:
                order = ErrorClass.TAG_DUPLICATE if tag == last else ErrorClass.TAG_OUT_OF_ORDER
                self.refuse(order, f"tag {tag} follows tag {last}", at)
            last = tag
            if tag in later:
                self.refuse(
                    ErrorClass.TAG_BELOW_VERSION, f"tag {tag} is of another version only", at
                )
            size_at = self.at
            size = self.uvarint()
            self._note(f"tag {tag}", at, size)
            # Kafka reads a tag it knows without a look at the size.
            if not 0 <= size <= self.end - self.at and not (self.lenient and tag in known):
                self.refuse(
                    ErrorClass.LENGTH_EXCEEDS_INPUT,
                    f"tag {tag} has {size} bytes, {self.end - self.at} are left",
                    size_at,
                )
            if tag in known:
                _, name, attr, wire, nullable, element, _ = known[tag]
                body = self.at
                self.path.segments.append(name)
                values[attr] = self.value(wire, nullable, element, in_tag=True)
                if self.at - body != size and not self.lenient:
                    self.refuse(
                        ErrorClass.TAGGED_SIZE_MISMATCH,
                        f"tag {tag} says {size} bytes and holds {self.at - body}",
                        size_at,
                    )
                self.path.segments.pop()
            else:
                unknown.append((tag, bytes(self.data[self.at : self.at + size])))
                self.at += size
                self._note("unknown", self.at - size, unknown[-1][1])
        if unknown:
            values["unknown_tagged_fields"] = tuple(unknown)


class Encoder:
    """Writes one message, checking everything."""

    def __init__(self, layouts: Layouts, structs: Sequence[type]) -> None:
        self.layouts = layouts
        self.structs = structs
        self.path = _Path()

    def refuse(self, error_class: ErrorClass, detail: str) -> NoReturn:
        """Raise the error for the field at hand."""
        raise CodecError(error_class, detail, path=str(self.path))

    def _wrong(self, value: object, expected: str) -> NoReturn:
        self.refuse(ErrorClass.WRONG_TYPE, f"{expected} wanted, not {type(value).__name__}")

    def fixed(self, wire: str, value: Any) -> bytes:
        """Write a fixed-width primitive."""
        if value is None:
            self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, f"None, but {wire} is never null")
        if wire == "bool":
            if not isinstance(value, bool):
                self._wrong(value, "a bool")
            return b"\x01" if value else b"\x00"
        if wire == "uuid":
            if isinstance(value, uuid.UUID):
                return value.bytes
            if not isinstance(value, bytes) or len(value) != UUID_BYTES:
                self._wrong(value, "a Uuid (16 bytes)")
            return value
        if wire == "float64":
            try:
                return _STRUCTS[wire].pack(value)
            except (struct.error, TypeError, ValueError, OverflowError):
                self._wrong(value, "a float")
        try:
            number = operator.index(value)
        except TypeError:
            self._wrong(value, "an integer")
        low, high = INTEGER_RANGE[wire]
        if not low <= number <= high:
            self.refuse(
                ErrorClass.INTEGER_OUT_OF_RANGE, f"{wire} holds {low} to {high}, not {number}"
            )
        return _STRUCTS[wire].pack(number)

    def length(self, length: int, compact: bool, short: bool = False) -> bytes:
        """Write a length or count; -1 is null."""
        limit = STRING_BYTES_MAX if short else LENGTH_MAX
        if length > limit or (compact and length >= UVARINT_MAX):
            self.refuse(ErrorClass.LENGTH_TOO_LONG, f"at most {limit}, not {length}")
        if compact:
            return self.uvarint(length + 1)
        return length.to_bytes(2 if short else 4, "big", signed=True)

    def uvarint(self, value: int) -> bytes:
        """Write an unsigned varint."""
        out = bytearray()
        while value > 0x7F:  # noqa: PLR2004 - seven bits a byte is the definition
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return bytes(out)

    def variable(self, wire: str, nullable: bool, value: Any) -> bytes:
        """Write a string, bytes or records."""
        kind = wire.removeprefix("compact_")
        compact, text = kind != wire, kind == "string"
        if value is None:
            if not nullable:
                self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, "None, but not nullable")
            return self.length(-1, compact, text)
        if text:
            if not isinstance(value, str):
                self._wrong(value, "a str")
            try:
                raw = value.encode()
            except UnicodeEncodeError as error:
                self.refuse(ErrorClass.INVALID_UTF8, f"character {error.start}: {error.reason}")
            if len(raw) > STRING_BYTES_MAX:
                self.refuse(
                    ErrorClass.LENGTH_TOO_LONG,
                    f"a string is at most {STRING_BYTES_MAX} bytes in UTF-8, not {len(raw)}",
                )
        elif isinstance(value, (bytes, bytearray, memoryview)):
            try:
                raw = bytes(memoryview(value).cast("B"))
            except (TypeError, ValueError):
                self._wrong(value, "a contiguous buffer")
        else:
            self._wrong(value, "bytes")
        return self.length(len(raw), compact, text) + raw

    def array(self, compact: bool, nullable: bool, element: Element, value: Any) -> bytes:
        """Write an array."""
        if value is None:
            if not nullable:
                self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, "None, but not nullable")
            return self.length(-1, compact)
        if not isinstance(value, (list, tuple)):
            self._wrong(value, "a list or tuple")
        parts = [self.length(len(value), compact)]
        for index, item in enumerate(value):
            self.path.segments.append(f"[{index}]")
            if isinstance(element, int):
                parts.append(self.struct(self.layouts[element], item))
            else:
                parts.append(self.value(str(element), False, None, item))
            self.path.segments.pop()
        return b"".join(parts)

    def value(
        self, wire: str, nullable: bool, element: Element, value: Any, *, in_tag: bool = False
    ) -> bytes:
        """Write one field's value by its wire type."""
        if wire in _STRUCTS:
            return self.fixed(wire, value)
        if wire in ("array", "compact_array"):
            return self.array(wire == "compact_array", nullable, element, value)
        if wire != "struct":
            return self.variable(wire, nullable, value)
        assert isinstance(element, int)
        if value is None:
            if not nullable:
                self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, "None, but not nullable")
            return b"\x00" if in_tag else b"\xff"
        marker = b"\x01" if nullable else b""
        return marker + self.struct(self.layouts[element], value)

    def struct(self, layout: Layout, value: Any) -> bytes:
        """Write one struct."""
        index, flexible, fields, tagged, absent, later_tags = layout
        expected = self.structs[index]
        if value is None:
            self.refuse(
                ErrorClass.NULL_FOR_NON_NULLABLE, f"None, but {expected.__qualname__} wanted"
            )
        if type(value) is not expected:
            self._wrong(value, expected.__qualname__)
        for name, attr, ignorable, default in absent:
            if not ignorable:
                self._absent(name, self._get(value, name, attr), default)
        parts = []
        for name, attr, wire, nullable, element in fields:
            item = self._get(value, name, attr)
            self.path.segments.append(name)
            parts.append(self.value(wire, nullable, element, item))
            self.path.segments.pop()
        unknown = getattr(value, "unknown_tagged_fields", ())
        if flexible:
            tags = []
            for tag, name, attr, wire, nullable, element, default in tagged:
                item = self._get(value, name, attr)
                self.path.segments.append(name)
                if not self._unset(item, default, element):
                    tags.append((tag, self.value(wire, nullable, element, item, in_tag=True)))
                self.path.segments.pop()
            self._tags(parts, tags, unknown, {entry[0] for entry in tagged} | set(later_tags))
        elif unknown:
            self._absent("_unknownTaggedFields", unknown, ())
        return b"".join(parts)

    def _get(self, value: Any, name: str, attr: str) -> Any:
        try:
            return getattr(value, attr)
        except AttributeError:
            self.path.segments.append(name)
            self.refuse(ErrorClass.MISSING_FIELD, f"{attr} is not set")

    def _unset(self, value: Any, default: WireDefault, element: Element) -> bool:
        """Whether a tagged field is left out; only the field's own class is a default struct."""
        if default is ... and isinstance(element, int):
            own = self.structs[self.layouts[element][0]]
            return type(value) is own and bool(value == own())
        return is_default(value, default)

    def _absent(self, name: str, value: Any, default: WireDefault) -> None:
        if not is_default(value, default):
            self.path.segments.append(name)
            self.refuse(
                ErrorClass.FIELD_NOT_IN_VERSION,
                f"this version has no such field, so it must keep its default, not {value!r:.80}",
            )

    def _tags(
        self,
        parts: list[bytes],
        tags: list[tuple[int, bytes]],
        unknown: UnknownTags,
        known: set[int],
    ) -> None:
        self.path.segments.append("_unknownTaggedFields")
        if unknown and not isinstance(unknown, tuple):
            self._wrong(unknown, "a tuple of (tag, bytes)")
        last = -1
        for entry in unknown or ():
            match entry:
                case (int(tag), bytes(payload)):
                    pass
                case _:
                    self._wrong(entry, "a pair (tag, bytes)")
            if not 0 <= tag <= UVARINT_MAX:
                self.refuse(ErrorClass.INTEGER_OUT_OF_RANGE, f"tag {tag} is not in 0..2^31-1")
            if tag in known or tag == last:
                self.refuse(ErrorClass.TAG_DUPLICATE, f"tag {tag} is taken")
            if tag < last:
                self.refuse(ErrorClass.TAG_OUT_OF_ORDER, f"tag {tag} follows tag {last}")
            last = tag
            tags.append((tag, payload))
        self.path.segments.pop()
        tags.sort()
        parts.append(self.uvarint(len(tags)))
        for tag, payload in tags:
            parts.extend((self.uvarint(tag), self.length(len(payload) - 1, True), payload))
