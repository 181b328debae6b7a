"""Waiting for what becomes so by itself, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 300
POLL_S = 0.05

_Value = TypeVar("_Value")


def until(condition: Callable[[], _Value]) -> _Value:
    """Return what a condition is once that is true, by looking again and again; fail if never."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(POLL_S)
    return value
