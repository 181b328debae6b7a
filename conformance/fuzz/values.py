"""Random values of a plan, its plain value, and random changes of bytes.

All randomness comes from one ``random.Random``, so a seed reproduces a failure.
"""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from kraftspec.codegen.plan import FieldPlan, StructPlan
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.values import UNKNOWN_TAGS, default_json

Value = dict[str, Any]

ARRAYS = ("array", "compact_array")
ALPHABET = ("a", "é", "漢", "🐙", "\x00", '"', "\\", "x", "\n", "\u2028")
LENGTHS_LONG = (20, 126, 127, 128, 130)  # Around the lengths whose prefix takes two bytes.
FLOATS = ("0x7ff8000000000000", "0xfff0000000000000", "0x7ff0000000000000", -0.0, 5e-324, 0.1)
TAG_MAX = 0x7FFFFFFE  # Kafka reserves 2^31-1 as the end of a list of tags.
DEPTH_MANY = 3  # Below it arrays have at most one element; else values would grow without limit.


class Values:
    """Random values in the shape of Kafka's JSON converters."""

    def __init__(self, random: Random, *, unknown_tags: bool = True) -> None:
        self.random = random
        self.unknown_tags = unknown_tags

    def maybe(self, probability: float) -> bool:
        """Return true with a probability."""
        return self.random.random() < probability

    def struct(self, plan: StructPlan, depth: int = 0) -> Value:
        """Make a struct, with or without its tagged fields (also defaults) and unknown tags."""
        out = {entry.name: self.field(entry, depth) for entry in plan.fields}
        for entry in plan.tagged:
            if self.maybe(0.5):
                out[entry.name] = self.field(entry, depth)
        if plan.flexible and self.unknown_tags and self.maybe(0.25):
            taken = {entry.tag for entry in plan.tagged} | set(plan.later_tags)
            if unknown := self.unknown(taken):
                out[UNKNOWN_TAGS] = unknown
        return out

    def unknown(self, taken: set[int | None]) -> list[Value]:
        """Make unknown tagged fields whose tags are not in ``taken``."""
        pick = self.random
        tags = {
            pick.choice((pick.randint(0, 8), pick.randint(0, 200), pick.randint(0, TAG_MAX)))
            for _ in range(pick.randint(1, 4))
        }
        return [
            {"tag": tag, "hex": pick.randbytes(pick.choice((0, 1, 5, 127, 130))).hex()}
            for tag in sorted(tags - taken)
        ]

    def field(self, entry: FieldPlan, depth: int) -> Any:
        """Make the value of a field, sometimes its default."""
        if entry.nullable and self.maybe(0.25):
            return None
        scalar = entry.element is None and entry.default is not None
        if scalar and self.maybe(0.1) and entry.default == entry.default:
            return default_json(entry.default)
        if entry.wire in ARRAYS:
            count = self.random.choice((0, 1, 1, 2, 3) if depth < DEPTH_MANY else (0, 1))
            return [self.element(entry.element, depth) for _ in range(count)]
        return self.element(entry.wire if entry.element is None else entry.element, depth)

    def element(self, element: str | StructPlan | None, depth: int) -> Any:
        """Make an element of an array, or the value of a field that is not an array."""
        if isinstance(element, StructPlan):
            return self.struct(element, depth + 1)
        return self.scalar(str(element).removeprefix("compact_"))

    def scalar(self, kind: str) -> Any:
        """Make a primitive; the limits of its range are more frequent than by chance."""
        pick = self.random
        if kind in INTEGER_RANGE:
            low, high = INTEGER_RANGE[kind]
            return pick.choice((0, 1, low, high, -1 if low else 5, pick.randint(low, high)))
        match kind:
            case "bool":
                return self.maybe(0.5)
            case "float64":
                return pick.choice((*FLOATS, 0.0, 1.0, pick.random() * 1e9, pick.gauss(0, 1)))
            case "uuid":
                return str(Uuid(pick.choice((bytes(16), pick.randbytes(16)))))
            case "string":
                return "".join(pick.choices(ALPHABET, k=self.length()))
        return base64.b64encode(pick.randbytes(self.length())).decode()

    def length(self) -> int:
        """Choose a length: mostly short, sometimes around the change to a prefix of two bytes."""
        return self.random.choice(LENGTHS_LONG if self.maybe(0.1) else (0, 1, 2, 5))


def plain(plan: StructPlan) -> Value:
    """Return the value of a struct in which every field has its default."""
    return {entry.name: plain_field(entry) for entry in plan.fields}


def plain_field(entry: FieldPlan) -> Any:
    """Return a field's default; an empty value if the default is null and null is not allowed."""
    if entry.default is None and not entry.nullable:
        return [] if entry.wire in ARRAYS else ""
    if entry.default is ... and isinstance(entry.element, StructPlan):
        return plain(entry.element)
    if isinstance(entry.default, float) and entry.default != entry.default:
        return FLOATS[0]
    return default_json(entry.default)


def mutated(
    random: Random, data: bytes, other: bytes = b"", *, keep: int = 0, size_max: int | None = None
) -> bytes:
    """Change bytes at random: set, drop, insert, truncate, flip a bit, or continue as ``other``.

    The first ``keep`` bytes do not change. The result has at most ``size_max`` bytes.
    """
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(keep, len(out) + 1)
        match random.randint(0, 6) if at < len(out) else 1:
            case 0:
                out[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randint(0, 255)))
            case 1:
                out.insert(at, random.randint(0, 255))
            case 2:
                del out[at]
            case 3:
                del out[at:]
            case 4:
                out[at:] = other[random.randrange(len(other) + 1) :]
            case 5:
                # A length prefix of old versions: the four bytes of an int32.
                out[at : at + 4] = random.choice((-1, -2, 1 << 30, 2**31 - 1)).to_bytes(
                    4, "big", signed=True
                )
            case _:
                out[at] ^= 1 << random.randint(0, 7)
    return bytes(out[:size_max])
