"""A scenario: the log that it begins with, the state that is made of it, and the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kraftspec.conformance.cluster.artifacts import RELEASES
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.raw.node import NodeState


def since(release: str) -> tuple[str, ...]:
    """Return a release and those after it, of which a scenario can be recorded."""
    return RELEASES[RELEASES.index(release) :]


class Case(NamedTuple):
    """A scenario that a node vector is recorded from. ``base`` is a key of ``bases.BASES``.

    It is recorded of the last of ``releases``, and the others are asked the same.
    """

    id: str
    base: str
    state: Callable[[NodeState], NodeState]
    script: Callable[[Recording], None]
    releases: tuple[str, ...] = RELEASES
