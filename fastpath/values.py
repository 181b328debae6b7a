"""Messages as JSON values, in the shape of Kafka's own ``*JsonConverter`` classes.

camelCase names; bytes and records as base64, uuids as 22 characters of URL-safe base64, null as
null; a tagged field that holds its default is left out, any other field of the version is there.
Two additions: records are carried, and unknown tags are ``"_unknownTaggedFields"``. A float64 that
JSON cannot say is the string of its 16 hex digits.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import (
    INTEGER_RANGE,
    Element,
    FieldLayout,
    Layout,
    Layouts,
    TaggedLayout,
    WireDefault,
    is_default,
)
from kraftspec.fastpath.types import UUID_BYTES, Uuid

UNKNOWN_TAGS = "_unknownTaggedFields"


def to_json(layouts: Layouts, layout: Layout, value: Any, path: str = "") -> dict[str, Any]:
    """Return one struct as a JSON object; refuses what the version lacks, as encode does.

    ``path`` is the path of the struct in its message, with a dot at its end.
    """
    _, _, fields, tagged, absent, _ = layout
    for name, attr, ignorable, default in absent:
        if not ignorable and not is_default(getattr(value, attr), default):
            raise CodecError(
                ErrorClass.FIELD_NOT_IN_VERSION, "this version has no such field", path=path + name
            )
    out = {
        name: _to_json(layouts, wire, element, getattr(value, attr), path + name)
        for name, attr, wire, _, element in fields
    }
    for _, name, attr, wire, _, element, default in tagged:
        item = getattr(value, attr)
        if not is_default(item, default):
            out[name] = _to_json(layouts, wire, element, item, path + name)
    if len(out) > len(fields):
        order = in_order(type(value), fields, tagged)
        out = {name: out[name] for _, name in order if name in out}
    unknown = getattr(value, "unknown_tagged_fields", ())
    if unknown:
        out[UNKNOWN_TAGS] = [{"tag": tag, "hex": payload.hex()} for tag, payload in unknown]
    return out


def in_order(
    struct: type, fields: tuple[FieldLayout, ...], tagged: tuple[TaggedLayout, ...]
) -> list[tuple[int, str]]:
    """Return the names of a struct's fields as its spec has them: the tagged ones among the rest.

    That is the order of Kafka's converters, and of the attributes of a generated class.
    """
    names = getattr(struct, "__struct_fields__", ())
    at = {attr: number for number, attr in enumerate(names)}
    positions = [(at.get(attr, len(at)), name) for name, attr, *_ in fields]
    return sorted(positions + [(at.get(attr, len(at)), name) for _, name, attr, *_ in tagged])


def _to_json(layouts: Layouts, wire: str, element: Element, value: Any, path: str) -> Any:
    if value is None:
        return None
    match wire.removeprefix("compact_"):
        case "uuid":
            return str(Uuid(value))
        case "bytes" | "records":
            return binascii.b2a_base64(value, newline=False).decode()
        case "float64":
            return float_to_json(value)
        case "struct" if isinstance(element, int):
            return to_json(layouts, layouts[element], value, f"{path}.")
        case "array" if isinstance(element, int):
            return [
                to_json(layouts, layouts[element], item, f"{path}[{at}].")
                for at, item in enumerate(value)
            ]
        case "array":
            return [_to_json(layouts, str(element), None, item, path) for item in value]
        case "bool" | "string":
            return value
    return int(value)


def float_to_json(value: Any) -> float | str:
    """Return a float64 in JSON: one that is not finite as its hex digits."""
    value = float(value)
    return value if math.isfinite(value) else f"0x{struct.pack('>d', value).hex()}"


def from_json(
    layouts: Layouts,
    layout: Layout,
    value: object,
    make: Callable[[int, dict[str, Any]], Any],
    *,
    lenient: bool = False,
) -> Any:
    """Read one struct from its JSON object and make it; ``lenient`` passes over unknown names."""
    return _Reader(layouts, make, lenient).struct(layout, value)


def default_json(wire_default: WireDefault) -> Any:
    """Return a default in JSON; a struct of defaults has no such form (``...``)."""
    if isinstance(wire_default, bytes):
        return str(Uuid(wire_default)) if len(wire_default) == UUID_BYTES else ""
    return [] if wire_default == () and isinstance(wire_default, tuple) else wire_default


class _Reader:
    """Reads JSON values, keeping the path for the error."""

    def __init__(
        self, layouts: Layouts, make: Callable[[int, dict[str, Any]], Any], lenient: bool
    ) -> None:
        self.layouts = layouts
        self.make = make
        self.lenient = lenient
        self.path: list[str] = []

    def refuse(self, error_class: ErrorClass, detail: str, *more: str) -> NoReturn:
        """Raise the error for the value at hand."""
        path = ".".join([*self.path, *more]).replace(".[", "[")
        raise CodecError(error_class, detail, path=path)

    def struct(self, layout: Layout, value: object) -> Any:
        """Read one struct."""
        index, _, fields, tagged, absent, _ = layout
        if not isinstance(value, dict):
            self.refuse(ErrorClass.WRONG_TYPE, f"an object wanted, not {_kind(value)}")
        left = dict(value)
        out: dict[str, Any] = {}
        for name, attr, wire, nullable, element in fields:
            if name not in left:
                self.refuse(ErrorClass.MISSING_FIELD, "the value lacks this field", name)
            out[attr] = self.at(name, wire, nullable, element, left.pop(name))
        for _, name, attr, wire, nullable, element, _ in tagged:
            if name in left:
                out[attr] = self.at(name, wire, nullable, element, left.pop(name))
        for name, _, ignorable, default in absent:
            if name in left:
                item = left.pop(name)
                if not ignorable and (default is ... or item != default_json(default)):
                    self.refuse(
                        ErrorClass.FIELD_NOT_IN_VERSION, "this version has no such field", name
                    )
        if UNKNOWN_TAGS in left:
            unknown = self.unknown(layout, left.pop(UNKNOWN_TAGS))
            if unknown:  # A class without a flexible version has no such attribute.
                out["unknown_tagged_fields"] = unknown
        if left and not self.lenient:
            self.refuse(
                ErrorClass.FIELD_NOT_IN_VERSION, "no version has such a field", min(map(str, left))
            )
        return self.make(index, out)

    def unknown(self, layout: Layout, value: Any) -> tuple[tuple[int, bytes], ...]:
        """Read the unknown tagged fields of a struct."""
        try:
            tags = tuple((entry["tag"], bytes.fromhex(entry["hex"])) for entry in value)
            if not isinstance(value, list):
                raise TypeError
        except (TypeError, KeyError, ValueError):
            self.refuse(ErrorClass.WRONG_TYPE, 'a list of {"tag":…,"hex":…} wanted', UNKNOWN_TAGS)
        if tags and not layout[1]:
            self.refuse(
                ErrorClass.FIELD_NOT_IN_VERSION, "this version has no tagged fields", UNKNOWN_TAGS
            )
        return tags

    def at(self, name: str, wire: str, nullable: bool, element: Element, value: Any) -> Any:
        """Read the value of the field ``name``."""
        self.path.append(name)
        result = self.value(wire, nullable, element, value)
        self.path.pop()
        return result

    def value(self, wire: str, nullable: bool, element: Element, value: Any) -> Any:
        """Read one value by its wire type."""
        kind = wire.removeprefix("compact_")
        if value is None:
            if not nullable:
                self.refuse(ErrorClass.NULL_FOR_NON_NULLABLE, "null, but not nullable")
            return None
        if kind == "struct":
            assert isinstance(element, int)
            return self.struct(self.layouts[element], value)
        if kind == "array":
            if not isinstance(value, list):
                self.refuse(ErrorClass.WRONG_TYPE, f"an array wanted, not {_kind(value)}")
            if isinstance(element, int):
                return [
                    self.at(f"[{at}]", "struct", False, element, item)
                    for at, item in enumerate(value)
                ]
            return tuple(
                self.at(f"[{at}]", str(element), False, None, item) for at, item in enumerate(value)
            )
        return self.scalar(kind, value)

    def scalar(self, kind: str, value: Any) -> Any:
        """Read a primitive."""
        match kind:
            case "bool" | "string":
                if type(value) is (bool if kind == "bool" else str):
                    return value
            case "uuid" if isinstance(value, str):
                try:
                    return Uuid.parse(value)
                except ValueError as error:
                    self.refuse(ErrorClass.WRONG_TYPE, str(error))
            case "bytes" | "records" if isinstance(value, str):
                try:
                    return binascii.a2b_base64(value, strict_mode=True)
                except ValueError as error:
                    self.refuse(ErrorClass.WRONG_TYPE, f"not base64: {error}")
            case "float64" if isinstance(value, str):
                try:
                    if not value.startswith("0x"):
                        raise ValueError
                    return struct.unpack(">d", bytes.fromhex(value[2:]))[0]
                except (ValueError, struct.error):
                    self.refuse(ErrorClass.WRONG_TYPE, '"0x" and 16 hex digits wanted')
            case "float64" if isinstance(value, (int, float)) and type(value) is not bool:
                try:
                    return float(value)
                except OverflowError as error:
                    self.refuse(ErrorClass.WRONG_TYPE, str(error))
            case _ if kind in INTEGER_RANGE and type(value) is int:
                low, high = INTEGER_RANGE[kind]
                if low <= value <= high:
                    return value
                self.refuse(
                    ErrorClass.INTEGER_OUT_OF_RANGE, f"{kind} holds {low} to {high}, not {value}"
                )
        self.refuse(ErrorClass.WRONG_TYPE, f"{kind} wanted, not {_kind(value)}")


def _kind(value: object) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a bool"}.get(
        type(value), type(value).__name__
    )
