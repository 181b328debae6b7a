"""Fuzz targets: the code that reads bytes, where native code is compared with its Python twins.

A target is a module: ``messages`` (decode of every message and version) or ``records`` (batches,
columns, scanner, compression, CRC, recovery). ``seeds`` gives golden vectors as inputs, ``mutated``
changes one, ``check`` returns whether it is accepted and raises ``BrokenError`` for a failure,
``label`` names what an input tests. Every input gets the fast check, and one in ``one_in`` also the
slow one (``by_twins``). A seed determines everything.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Generator, Iterator
from random import Random
from typing import NamedTuple, Protocol, cast

TARGETS = ("messages", "records")
SELECTOR_BYTES = 2  # The first bytes of an input select the reader of the rest, and its options.
TWINS_ONE_IN = 16
# The share of accepted inputs that join the corpus, so that inputs move away from the vectors.
ACCEPTED_SHARE = 0.1


class BrokenError(AssertionError):
    """An input for which a property does not hold."""


class Label(NamedTuple):
    """What an input tests: a message of a set at a version, and the reader."""

    spec: str
    message: str
    version: int
    entry: str


class Target(Protocol):
    """The interface of a target's module."""

    INPUT_BYTES_MAX: int

    def seeds(self) -> Iterator[bytes]:
        """Yield inputs that are well formed."""

    def mutated(self, random: Random, data: bytes, other: bytes) -> bytes:
        """Change an input."""

    def check(self, data: bytes, one_in: int) -> bool:
        """Return whether an input is accepted. Raises ``BrokenError``."""

    def label(self, selector: bytes) -> Label:
        """Return the label of inputs that begin with these ``SELECTOR_BYTES``."""

    def modules(self) -> list[str]:
        """Name the modules whose coverage guides the fuzzer."""


def target(name: str) -> Target:
    """Return a target by its name, or import a user's module. Else ``ValueError``."""
    path = f"{__name__}.{name}" if name in TARGETS else name
    try:
        return cast(Target, importlib.import_module(path))
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise  # The module exists, and an import in it fails.
        raise ValueError(
            f"there is no target {name!r}: {', '.join(TARGETS)}, or a module that can be imported"
        ) from error


def by_twins(data: bytes, one_in: int) -> bool:
    """Return whether an input gets the slow check."""
    return zlib.crc32(data) % one_in == 0


def inputs(target: Target, random: Random, corpus: list[bytes]) -> Generator[bytes, bool, None]:
    """Yield changed inputs without end; the caller sends whether each one was accepted.

    Inputs are changed elements of ``corpus``. Accepted inputs are added to it in place.
    """
    while True:
        data = target.mutated(random, random.choice(corpus), random.choice(corpus))
        taken = yield data
        if taken and random.random() < ACCEPTED_SHARE:
            corpus[random.randrange(len(corpus))] = data
