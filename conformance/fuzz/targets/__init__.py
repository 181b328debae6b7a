"""What is fuzzed within one process: all that reads bytes, native code against its Python twins.

A target is a module: ``messages`` (decode of every message and version) or ``records`` (batches,
columns, scanner, compression, CRC, recovery). ``seeds`` gives golden vectors as inputs, ``mutated``
changes one, ``check`` says whether it is taken and raises ``BrokenError`` where something is wrong,
and ``label`` says what an input is about. A slow check is made of one input in so many
(``by_twins``), a quick one of all. Everything follows from a seed.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Generator, Iterator
from random import Random
from typing import NamedTuple, Protocol, cast

TARGETS = ("messages", "records")
SELECTOR_BYTES = 2  # An input begins with what chooses who reads the rest, and how.
TWINS_ONE_IN = 16
TAKEN_KEPT = 0.1  # Of what is taken, as much is a start for others: inputs walk away from vectors.


class BrokenError(AssertionError):
    """An input for which something does not do what it must."""


class Label(NamedTuple):
    """What an input is about: a message of a set at a version, and what reads it."""

    spec: str
    message: str
    version: int
    entry: str


class Target(Protocol):
    """What the module of a target has."""

    INPUT_BYTES_MAX: int

    def seeds(self) -> Iterator[bytes]:
        """Yield inputs that are well formed."""

    def mutated(self, random: Random, data: bytes, other: bytes) -> bytes:
        """Change an input."""

    def check(self, data: bytes, one_in: int) -> bool:
        """Return whether an input is taken. Raises ``BrokenError``."""

    def label(self, selector: bytes) -> Label:
        """Return what inputs that begin with these ``SELECTOR_BYTES`` are about."""

    def modules(self) -> list[str]:
        """Name the modules whose coverage guides."""


def target(name: str) -> Target:
    """Return a target by its name, or a module of one's own. ``ValueError`` where there is none."""
    path = f"{__name__}.{name}" if name in TARGETS else name
    try:
        return cast(Target, importlib.import_module(path))
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise  # The module is there, and lacks something.
        raise ValueError(
            f"there is no target {name!r}: {', '.join(TARGETS)}, or a module that can be imported"
        ) from error


def by_twins(data: bytes, one_in: int) -> bool:
    """Return whether an input is one of those that the slow check is made of."""
    return zlib.crc32(data) % one_in == 0


def inputs(target: Target, random: Random, corpus: list[bytes]) -> Generator[bytes, bool, None]:
    """Yield changed inputs without end; be sent of each whether it was taken.

    ``corpus`` is what they are made of. It is added to in place.
    """
    while True:
        data = target.mutated(random, random.choice(corpus), random.choice(corpus))
        taken = yield data
        if taken and random.random() < TAKEN_KEPT:
            corpus[random.randrange(len(corpus))] = data
