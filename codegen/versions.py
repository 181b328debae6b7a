"""Version ranges of the schema language: ``N``, ``A-B``, ``A+`` and ``none``.

Source: ``org.apache.kafka.message.Versions``. Versions are 16-bit and never negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

VERSION_MAX = 0x7FFF  # An int16 on the wire (request header, field RequestApiVersion).

_SHOWN_CHARS_MAX = 40
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\+))?")


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty when ``lowest > highest``; ``A+`` ends at 32767."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a range; the ``ValueError`` of a bad one describes the form."""
        text = text.strip()
        if text == "none":
            return cls(0, -1)
        match = _RANGE.fullmatch(text)
        if match is None:
            shown = text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
            raise ValueError(f'"{shown}" is not a version range: write "3", "0-3", "3+" or "none"')
        lowest = int(match[1])
        highest = int(match[2]) if match[2] else VERSION_MAX if match[3] else lowest
        if lowest > VERSION_MAX or highest > VERSION_MAX:
            raise ValueError(f'"{text}" is not 16 bits wide: a version is at most {VERSION_MAX}')
        if lowest > highest:
            raise ValueError(f'"{text}" runs backwards: write the lower version first')
        return cls(lowest, highest)

    @property
    def empty(self) -> bool:
        """True for ``none``."""
        return self.lowest > self.highest

    @property
    def open_ended(self) -> bool:
        """True for ``A+``."""
        return self.highest == VERSION_MAX

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __len__(self) -> int:
        return max(0, self.highest - self.lowest + 1)

    def __and__(self, other: Versions) -> Versions:
        common = Versions(max(self.lowest, other.lowest), min(self.highest, other.highest))
        return NONE if common.empty else common

    def covers(self, other: Versions) -> bool:
        """Return whether every version of ``other`` is in this range."""
        return other.empty or (self.lowest <= other.lowest and other.highest <= self.highest)

    def __str__(self) -> str:
        if self.empty:
            return "none"
        if self.open_ended:
            return f"{self.lowest}+"
        return str(self.lowest) if len(self) == 1 else f"{self.lowest}-{self.highest}"


NONE = Versions(0, -1)
