"""How each bug is looked for: ``bugs.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from itertools import count, islice
from typing import Final

import msgspec

from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.simulation.lockstep.run import conditions
from kraftspec.simulation.run import swarm_of

LOCK_STEP: Final = "lock_step"  # In place of a property: a step of Kafka's core differs from ours.


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A search for a bug.

    Attributes:
        number: of the bug, in the list of docs/recall.md.
        bug: its name there.
        has: the release that has it.
        without: the release that has it no longer, as near as there is one.
        broken: the property that breaks, or `LOCK_STEP`.
        text: a pattern of what is said then, by which the bug is told from others.
        conditions: field of `Swarm` → the least and the most. Seeds that draw others are passed
            over.
        fetch_bytes: what ours asks for in lock-step, where the release has no setting; 0: what the
            seed draws.
        events: of a run with faults.
        first: the first seed to try.
        runs: how many seeds are run with each release.
        read: what the trace shows, by somebody who read it.
    """

    number: int
    bug: str
    has: str
    without: str
    broken: str
    text: str
    read: str
    conditions: dict[str, tuple[int, int]] = {}
    fetch_bytes: int = 0
    events: int = 2_000
    first: int = 0
    runs: int = 40

    @property
    def key(self) -> str:
        """What runs depend on: those of another key are of no use."""
        parts = (self.broken, self.text, self.conditions, self.fetch_bytes, self.events)
        return f"{self.bug}-{sha256(repr(parts).encode()).hexdigest()[:8]}"

    @property
    def is_lock_step(self) -> bool:
        """Whether nodes are pairs of Kafka's core and ours."""
        return self.broken == LOCK_STEP

    def seeds(self) -> Iterator[int]:
        """Yield the seeds whose conditions fit, from the first on."""
        return islice(filter(self._fits, count(self.first)), self.runs)

    def _fits(self, seed: int) -> bool:
        if not self.conditions:
            return True
        swarm = conditions(seed) if self.is_lock_step else swarm_of(seed, profile_named(KAFKA))
        return all(
            least <= getattr(swarm, name) <= most for name, (least, most) in self.conditions.items()
        )

    def is_it(self, name: str, text: str) -> bool:
        """Whether a breach is this bug's."""
        return name == self.broken and re.search(self.text, text, re.DOTALL) is not None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    search: tuple[Search, ...]


def all_searches() -> tuple[Search, ...]:
    """Return the searches, in the order of the list."""
    data = (files("kraftspec.simulation.recall") / "bugs.toml").read_bytes()
    return msgspec.toml.decode(data, type=_File).search
