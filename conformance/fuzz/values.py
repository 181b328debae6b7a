"""Random values of a plan, and the plainest one.

Everything comes from one ``random.Random``, so a failure is repeated by its seed.
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
LENGTHS_LONG = (20, 126, 127, 128, 130)  # About a prefix of two bytes.
FLOATS = ("0x7ff8000000000000", "0xfff0000000000000", "0x7ff0000000000000", -0.0, 5e-324, 0.1)
TAG_MAX = 0x7FFFFFFE  # Kafka keeps 2^31-1 for itself, as the end of a list of tags.
DEPTH_MANY = 3  # Below it arrays have one element at most, or values grow without end.


class Values:
    """Random values in the shape of Kafka's JSON converters."""

    def __init__(self, random: Random, *, unknown_tags: bool = True) -> None:
        self.random = random
        self.unknown_tags = unknown_tags

    def maybe(self, probability: float) -> bool:
        """Decide."""
        return self.random.random() < probability

    def struct(self, plan: StructPlan, depth: int = 0) -> Value:
        """Fill a struct: tagged fields given or not (a default may be given too), unknown tags."""
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
        """Make tagged fields of numbers that are not taken."""
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
        """Make the value of a field; now and then its default."""
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
        """Make one element of an array, or the value of a field that is none."""
        if isinstance(element, StructPlan):
            return self.struct(element, depth + 1)
        return self.scalar(str(element).removeprefix("compact_"))

    def scalar(self, kind: str) -> Any:
        """Make a primitive, the edges of its range more often than chance would."""
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
        """Choose a length: mostly short, sometimes at the edge of a prefix of two bytes."""
        return self.random.choice(LENGTHS_LONG if self.maybe(0.1) else (0, 1, 2, 5))


def plain(plan: StructPlan) -> Value:
    """Return the value of a struct with nothing in it: every field holds its default."""
    return {entry.name: plain_field(entry) for entry in plan.fields}


def plain_field(entry: FieldPlan) -> Any:
    """Return a field's default; what is empty where the default is null and that is not allowed."""
    if entry.default is None and not entry.nullable:
        return [] if entry.wire in ARRAYS else ""
    if entry.default is ... and isinstance(entry.element, StructPlan):
        return plain(entry.element)
    if isinstance(entry.default, float) and entry.default != entry.default:
        return FLOATS[0]
    return default_json(entry.default)
