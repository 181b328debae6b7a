"""What must hold after every event, a property a file.

An invariant overrides the hooks it needs; `Hooks` calls only those, so that one which looks at
leaders costs nothing while records are appended. A breach raises `Violation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kraftspec.simulation.invariants.base import Hooks, Invariant

# Looked at where they happen: the core says that it cannot go on; a node cannot open its own disk;
# a snapshot is not what was sent; a log is opened whose bytes changed; anything else is raised.
OTHERS: Final = (
    "no_fatal_error", "opens_its_disk", "fetched_whole", "corruption_is_detected", "no_exception",
)  # fmt: skip


def all_invariants(names: Sequence[str]) -> list[Invariant]:
    """Make one of each, for one run."""
    return [import_module(f"{__name__}.{name}").INVARIANT() for name in names]


__all__ = ["OTHERS", "Hooks", "Invariant", "all_invariants"]
