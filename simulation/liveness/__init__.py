"""What must come true once the faults are over, a property a file.

Each is given so much simulated time, in the order of ``rules.LIVENESS``; the next begins when it
came true.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from kraftspec.simulation.liveness.base import Liveness


def all_liveness(names: Sequence[str]) -> list[Liveness]:
    """Make one of each, for one run."""
    return [import_module(f"{__name__}.{name}").LIVENESS() for name in names]


__all__ = ["Liveness", "all_liveness"]
