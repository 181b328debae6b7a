"""What must hold after every event, a property a file.

An invariant overrides the hooks it needs; `Hooks` calls only those, so that one which looks at
leaders costs nothing while records are appended. A breach raises `Violation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Final

from kraftspec.simulation.invariants.base import Hooks, Invariant

# Looked at where they happen: the core says that it cannot go on; a node cannot open its own disk;
# a snapshot is not what was sent; a log is opened whose bytes changed; anything else is raised.
OTHERS: Final = (
    "no_fatal_error", "opens_its_disk", "fetched_whole", "corruption_is_detected", "no_exception",
)  # fmt: skip


NOTES_COMMITS: Final = "committed_bytes"  # Other invariants and the scheduler read its notes.
_ignored: Final[set[str]] = set()


@contextmanager
def ignoring(*names: str) -> Iterator[None]:
    """Do not check these in this process until the block ends: runs go on where they break."""
    before = set(_ignored)
    _ignored.update(names)
    try:
        yield
    finally:
        _ignored.clear()
        _ignored.update(before)


def is_ignored(name: str) -> bool:
    """Whether this one is not checked."""
    return name in _ignored


def all_invariants(names: Sequence[str]) -> list[Invariant]:
    """Make one of each that is not ignored, for one run."""
    return [
        import_module(f"{__name__}.{name}").INVARIANT() for name in names if name not in _ignored
    ]


__all__ = ["OTHERS", "Hooks", "Invariant", "all_invariants", "ignoring", "is_ignored"]
