"""What a seeded bug is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgspec


class Planter:
    """Replaces attributes and entries of dicts, and can undo all of it."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __call__(self, owner: Any, name: Any, value: Any) -> None:
        """Put a value in the place of a class's or module's attribute, or of a dict's entry."""
        if isinstance(owner, dict):
            old = owner[name]
            self._undo.append(lambda: owner.__setitem__(name, old))
            owner[name] = value
            return
        old = owner.__dict__[name]
        self._undo.append(lambda: setattr(owner, name, old))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Bring everything back, the last change first."""
        while self._undo:
            self._undo.pop()()


class Bug(msgspec.Struct, frozen=True):
    """A mistake: its name, what it is in a sentence, and how it gets in."""

    name: str
    sentence: str
    plant: Callable[[Planter], None]


def bugs_of(module: ModuleType) -> Iterator[Bug]:
    """Yield the bugs of a module: its public functions, with their docstrings."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
            yield Bug(name, value.__doc__, value)
