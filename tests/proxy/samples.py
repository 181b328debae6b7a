"""Messages in which every field has a value, made from their plans."""

from __future__ import annotations

from typing import Any

from kraftspec.fastpath.message import Codec, Message
from kraftspec.fastpath.plan import Layout
from kraftspec.fastpath.types import Uuid


def filled(cls: type[Message], version: int, items: int = 2) -> Any:
    """Return a message with so many elements in each array, all with values of their own."""
    return _Filler(cls.CODEC, items).struct(cls.CODEC.layout(version))


class _Filler:
    def __init__(self, codec: Codec, items: int) -> None:
        self.codec = codec
        self.items = items
        self.count = 0

    def struct(self, layout: Layout) -> Any:
        tagged = [row[1:6] for row in layout[3]]
        values = {
            attr: self.value(wire, element) for _, attr, wire, _, element in (*layout[2], *tagged)
        }
        return self.codec.structs[layout[0]](**values)

    def value(self, wire: str, element: Any) -> Any:
        if wire.endswith("array"):
            values = [self.one(element) for _ in range(self.items)]
            return values if isinstance(element, int) else tuple(values)
        return self.one(element if wire == "struct" else wire)

    def one(self, kind: Any) -> Any:
        if isinstance(kind, int):
            return self.struct(self.codec.layouts[kind])
        self.count += 1
        if kind.endswith("string"):
            return f"text-{self.count}"
        if kind == "uuid":
            return Uuid(self.count.to_bytes(16, "big"))
        if kind.endswith(("bytes", "records")):
            return b""
        if kind == "bool":
            return True
        return float(self.count) if kind == "float64" else self.count % 100
