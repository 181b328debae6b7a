"""The quick twin of ``values``: a reader and a writer of JSON objects for each layout, made once.

Optimistic: they take and give what is right, and raise anything at all where something is not.
``values`` then says what it was, or does by the rules what this module does not know.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from kraftspec.fastpath.plan import INTEGER_RANGE, Element, Layouts, is_default
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.values import UNKNOWN_TAGS, float_to_json, in_order

_Convert = Callable[[Any], Any]
_base64 = binascii.b2a_base64
_from_base64 = binascii.a2b_base64


class Tables:
    """The readers and writers of one message's layouts, by index; each made at its first use."""

    __slots__ = ("_layouts", "_readers", "_structs", "_writers")

    def __init__(self, layouts: Layouts, structs: Sequence[type]) -> None:
        self._layouts = layouts
        self._structs = structs
        self._readers: dict[int, _Convert] = {}
        self._writers: dict[int, _Convert] = {}

    def reader(self, index: int) -> _Convert:
        """Return what makes a struct of a JSON object; any exception: ask ``from_json``."""
        if index not in self._readers:
            self._readers[index] = self._make_reader(index)
        return self._readers[index]

    def writer(self, index: int) -> _Convert:
        """Return what makes a JSON object of a struct that encodes; not checked again."""
        if index not in self._writers:
            self._writers[index] = self._make_writer(index)
        return self._writers[index]

    def _make_reader(self, index: int) -> _Convert:
        struct, flexible, fields, tagged, _, _ = self._layouts[index]
        cls = self._structs[struct]
        plain = [
            (name, attr, self._read(wire, nullable, element))
            for name, attr, wire, nullable, element in fields
        ]
        tags = [
            (name, attr, self._read(wire, nullable, element))
            for _, name, attr, wire, nullable, element, _ in tagged
        ]
        count = len(plain)

        def read(value: Any) -> Any:
            values = {attr: item(value[name]) for name, attr, item in plain}
            left = len(value) - count
            if left:
                for name, attr, item in tags:
                    if name in value:
                        values[attr] = item(value[name])
                        left -= 1
                if flexible and value.get(UNKNOWN_TAGS).__class__ is list:
                    values["unknown_tagged_fields"] = tuple(
                        [(tag["tag"], bytes.fromhex(tag["hex"])) for tag in value[UNKNOWN_TAGS]]
                    )
                    left -= 1
            if left or value.__class__ is not dict:
                raise ValueError
            return cls(**values)

        return read

    def _read(self, wire: str, nullable: bool, element: Element) -> _Convert:
        read = self._read_value(wire, element)
        return (lambda value: None if value is None else read(value)) if nullable else read

    def _read_value(self, wire: str, element: Element) -> _Convert:
        kind = wire.removeprefix("compact_")
        if isinstance(element, int):
            struct = self.reader(element)
            return struct if kind == "struct" else _list_reader(struct, list)
        if kind == "array":
            return _list_reader(self._read_value(str(element), None), tuple)
        if kind in INTEGER_RANGE:
            return _integer_reader(*INTEGER_RANGE[kind])
        return _READERS[kind]

    def _make_writer(self, index: int) -> _Convert:
        struct, flexible, fields, tagged, _, _ = self._layouts[index]
        plain = [
            (name, attr, self._write(wire, nullable, element))
            for name, attr, wire, nullable, element in fields
        ]
        tags = [
            (name, attr, self._write(wire, nullable, element), default)
            for _, name, attr, wire, nullable, element, default in tagged
        ]

        order = [name for _, name in in_order(self._structs[struct], fields, tagged)]

        def write(value: Any) -> dict[str, Any]:
            out = {name: item(getattr(value, attr)) for name, attr, item in plain}
            if flexible:
                for name, attr, item, default in tags:
                    field = getattr(value, attr)
                    if not is_default(field, default):
                        out[name] = item(field)
                if len(out) > len(plain):
                    out = {name: out[name] for name in order if name in out}
                if value.unknown_tagged_fields:
                    out[UNKNOWN_TAGS] = [
                        {"tag": tag, "hex": payload.hex()}
                        for tag, payload in value.unknown_tagged_fields
                    ]
            return out

        return write

    def _write(self, wire: str, nullable: bool, element: Element) -> _Convert:
        kind = wire.removeprefix("compact_")
        if kind in ("bool", "string"):
            return _same
        write = self._write_value(kind, element)
        return (lambda value: None if value is None else write(value)) if nullable else write

    def _write_value(self, kind: str, element: Element) -> _Convert:
        if isinstance(element, int):
            struct = self.writer(element)
            return struct if kind == "struct" else lambda items: [struct(item) for item in items]
        if kind == "array":
            write = self._write(str(element), False, None)
            return lambda items: [write(item) for item in items]
        return int if kind in INTEGER_RANGE else _WRITERS[kind]


def _list_reader(read: _Convert, make: Callable[[Any], Any]) -> _Convert:
    def read_list(value: Any) -> Any:
        if value.__class__ is not list:
            raise TypeError
        items = [read(item) for item in value]
        return items if make is list else make(items)

    return read_list


def _integer_reader(low: int, high: int) -> _Convert:
    def read(value: Any) -> Any:
        if value.__class__ is int and low <= value <= high:
            return value
        raise TypeError

    return read


def _read_string(value: Any) -> Any:
    if value.__class__ is str:
        return value
    raise TypeError


def _read_bool(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    raise TypeError


def _read_bytes(value: Any) -> bytes:
    if value.__class__ is str:
        return _from_base64(value, strict_mode=True)
    raise TypeError


def _read_float(value: Any) -> Any:
    if value.__class__ is float:
        return value
    raise TypeError  # An integer, or the hex digits of NaN or an infinity: the slow way.


def _same(value: Any) -> Any:
    return value


@lru_cache(maxsize=1024)
def _read_uuid(value: str) -> Uuid:
    return Uuid.parse(value)


@lru_cache(maxsize=1024)
def _write_uuid(value: bytes) -> str:
    return str(Uuid(value))


_READERS: dict[str, _Convert] = {
    "bool": _read_bool,
    "string": _read_string,
    "bytes": _read_bytes,
    "records": _read_bytes,
    "uuid": _read_uuid,  # A message often has the same one again: zero, or a topic's.
    "float64": _read_float,
}
_WRITERS: dict[str, _Convert] = {
    "uuid": _write_uuid,
    "bytes": lambda value: _base64(value, newline=False).decode(),
    "records": lambda value: _base64(value, newline=False).decode(),
    "float64": float_to_json,
}
