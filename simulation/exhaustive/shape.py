"""What the behaviour of a core depends on, as a value that can be compared.

Two cores of the same shape do the same for ever, at whatever time each of them is: a time counts by
how far it is from now, and one that has come like any other that has.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from kraftspec.reference.raft import Core
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.raft.voters import VoterSet

# What is not compared: what never changes, what only the drafts look at, and numbers that go on for
# ever and do no more than tell requests, or logs before and after a cut, from each other.
_LEFT_OUT = frozenset(
    {
        "config", "policy", "random", "core", "_request_handlers", "_reply_handlers",
        "control_handlers", "effects", "now_us", "started_us", "campaigns", "failures", "request",
        "_next_request_id", "_pending", "log_generation", "check_quorum_us", "request_timeout_us",
        "retry_us",
    }
)  # fmt: skip
_HOW_LONG_AGO = ("fetched_us", "caught_up_us")  # Of these, that they have come is not all.


def shape(core: Core) -> tuple[Hashable, int]:
    """Return the shape of a core, and the last time to come at which a timer of it expires."""
    look = _Look(core.now_us, core.config.fetch_timeout_us)
    return look.at(core, ""), look.last_us


class _Look:
    """One look at all that hangs on a core. ``long_ago_us``: it asks for no time longer ago."""

    def __init__(self, now_us: int, long_ago_us: int) -> None:
        self.now_us = now_us
        self.long_ago_us = long_ago_us
        self.last_us = now_us
        self._path: list[int] = []

    def at(self, value: Any, name: str) -> Hashable:
        """Return the shape of a value, which has that name."""
        if isinstance(value, bool | str | bytes) or value is None:
            return value
        if isinstance(value, int):
            if name == "request_id":
                return value > 0  # Whether an answer is awaited.
            return self._time(value, name) if name.endswith("_us") else value
        if isinstance(value, VoterSet):
            return value.ids
        if id(value) in self._path:
            return None  # A way back.
        self._path.append(id(value))
        parts = self._parts(value)
        self._path.pop()
        return parts

    def _parts(self, value: Any) -> Hashable:
        if isinstance(value, tuple | list):
            return tuple([self.at(one, "") for one in value])
        if isinstance(value, set | frozenset):
            return frozenset([self.at(one, "") for one in value])
        if isinstance(value, dict):
            return frozenset([(self.at(key, ""), self.at(one, "")) for key, one in value.items()])
        if isinstance(value, msgspec.Struct):
            names = value.__struct_fields__
        else:
            kinds = value.__class__.__mro__
            names = (*(n for kind in kinds for n in getattr(kind, "__slots__", ())),)
        return (
            value.__class__.__name__,
            *[self.at(getattr(value, n), n) for n in names if n not in _LEFT_OUT],
        )

    def _time(self, value: int, name: str) -> Hashable:
        if value == NEVER_US:
            return None
        left_us = value - self.now_us
        if left_us > 0:
            self.last_us = max(self.last_us, value)
            return left_us
        return max(left_us, -self.long_ago_us) if name in _HOW_LONG_AGO else 0
