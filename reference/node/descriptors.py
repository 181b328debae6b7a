"""How many connections a process may hold before it has no descriptor left for its own files."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

try:
    import resource
except ImportError:  # Where there is no such limit.
    resource = None  # type: ignore[assignment]  # A module, or nothing.

SPARE: Final = 64  # Segments, indexes, snapshots, quorum-state, metrics, and what comes unforeseen.
LEAST_SHARE: Final = 8  # Of a limit that is lower than all that: one in so many is for connections.


def raise_soft_limit() -> None:
    """Let this process have as many descriptors as it may (RLIMIT_NOFILE), where that is known."""
    if resource is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        # Some systems take no "unlimited" for this one; then it stays as it is.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_max(peers_count: int) -> int | None:
    """Return how many connections fit beside what is open now; None where there is no limit.

    A peer may cost two of this node's own: the one in use, and one that is being closed.
    """
    if resource is None:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return None
    try:
        open_now = len(os.listdir("/dev/fd"))
    except OSError:
        open_now = SPARE
    return max(soft - open_now - SPARE - 2 * peers_count, soft // LEAST_SHARE)
