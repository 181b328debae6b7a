"""What must come true once the faults are over, a property a file.

Each is given so much simulated time, in the order of ``NAMES``; the next begins when it came true.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kraftspec.conformance.simulation.liveness.base import Liveness

NAMES: Final = (
    "leader_elected",
    "appends_acknowledged",
    "replicas_catch_up",
    "reconfiguration_finishes",
    "leadership_stays",
)


def all_liveness(names: Sequence[str] = NAMES) -> list[Liveness]:
    """Make one of each, for one run."""
    return [import_module(f"{__name__}.{name}").LIVENESS() for name in names]


__all__ = ["NAMES", "Liveness", "all_liveness"]
