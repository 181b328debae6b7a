"""Seeded bugs: mistakes that an implementer of KRaft could make, one function each.

A bug replaces a method or a function of the core, the log or the storage for as long as it is
``planted``. What the simulator is worth is how many of them it finds, and how soon; a bug that it
does not find shows an invariant that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from kraftspec.simulation.catalogue.bug import Bug, Planter, bugs_of
from kraftspec.simulation.compiled.loading import require_readable

_ROOMS = ("elections", "replication", "membership", "snapshots", "disks")


def all_bugs() -> dict[str, Bug]:
    """Return the catalogue, by name."""
    bugs = {}
    for room in _ROOMS:
        for bug in bugs_of(import_module(f"{__name__}.{room}")):
            bugs[bug.name] = bug
    return bugs


def later_bugs() -> dict[str, Bug]:
    """Return those that are of no catalogue: they were made when the model was done."""
    return {bug.name: bug for bug in bugs_of(import_module(f"{__name__}.later"))}


@contextmanager
def planted(*names: str) -> Iterator[None]:
    """Let these bugs be there, in this process, until the block ends.

    Raises:
        KeyError: there is no such bug.
        RuntimeError: this process runs the compiled simulator, where a bug would have no effect.
    """
    if names:
        require_readable("a seeded bug")
    bugs = all_bugs() | later_bugs()
    planter = Planter()
    try:
        for name in names:
            bugs[name].plant(planter)
        yield
    finally:
        planter.undo()


__all__ = ["Bug", "all_bugs", "later_bugs", "planted"]
