"""Two neighbouring fields that a codec reads or writes in the wrong order: the usual slip."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kraftspec.fastpath.interpret import Span
from kraftspec.fastpath.plan import FIXED

_NUMBERS = frozenset(wire for wire in FIXED if "int" in wire)
_STEP = re.compile(r"[^.\[\]]+")


def swapped_when_written(spans: Sequence[Span], expected: bytes, given: bytes) -> str:
    """Name the two fields whose exchange makes the given bytes of the expected ones, or nothing.

    ``spans`` are the primitives of ``expected``, in their order.
    """
    if len(expected) != len(given):
        return ""
    for first, second in _neighbours(spans):
        start, middle, end = first.start, first.end, second.end
        turned = expected[middle:end] + expected[start:middle]
        exchanged = expected[:start] + turned + expected[end:]
        if exchanged == given != expected:
            return _sentence(first, second)
    return ""


def swapped_when_read(spans: Sequence[Span], data: bytes, value: Any) -> str:
    """Name the two fields that hold what the bytes say if one is read before the other."""
    for first, second in _neighbours(spans):
        middle = first.start + second.end - second.start
        turned = data[middle : second.end], data[first.start : middle]
        right = data[first.start : first.end], data[second.start : second.end]
        if turned == right:
            continue
        read = (_at(value, first.path), _at(value, second.path))
        if read == (_number(first.wire, turned[0]), _number(second.wire, turned[1])):
            return _sentence(first, second)
    return ""


def _neighbours(spans: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the pairs of numbers that follow each other in one struct."""
    for first, second in pairwise(spans):
        if first.wire in _NUMBERS and second.wire in _NUMBERS and first.end == second.start:
            owners = {span.path.rpartition(".")[0] for span in (first, second)}
            if len(owners) == 1 and "]" not in first.path.rpartition(".")[2]:
                yield first, second


def _number(wire: str, data: bytes) -> int:
    return int.from_bytes(data, "big", signed=not wire.startswith("u"))


def _at(value: Any, path: str) -> Any:
    for step in _STEP.findall(path):
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (LookupError, TypeError, ValueError):
            return None
    return None if isinstance(value, bool) else value


def _sentence(first: Span, second: Span) -> str:
    names = [span.path.rpartition(".")[2] for span in (first, second)]
    return f"; {names[0]} and {names[1]} look swapped"
