"""Chance, by whole numbers alone: the same on any machine and in any version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Rng:
    """What is drawn from a seed; each draw takes 32 bits."""

    __slots__ = ("bits",)

    def __init__(self, seed: int) -> None:
        self.bits = Random(seed).getrandbits

    def below(self, bound: int) -> int:
        """Return one of 0 .. bound - 1."""
        return self.bits(32) * bound >> 32

    def between(self, low: int, high: int) -> int:
        """Return one of low .. high, both included."""
        return low + (self.bits(32) * (high - low + 1) >> 32)

    def in_ten_thousand(self, chance: int) -> bool:
        """Return True ``chance`` times of 10,000."""
        return self.bits(32) * 10_000 >> 32 < chance

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.bits(32) * len(values) >> 32]

    def seed(self) -> int:
        """Return a seed for somebody else."""
        return self.bits(48)
