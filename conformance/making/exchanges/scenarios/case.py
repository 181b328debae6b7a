"""A scenario: the log that it begins with, the state that is made of it, and the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.raw.node import NodeState


class Case(NamedTuple):
    """A scenario that a node vector is recorded from. ``base`` is a key of ``bases.BASES``."""

    id: str
    base: str
    state: Callable[[NodeState], NodeState]
    script: Callable[[Recording], None]
