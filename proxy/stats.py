"""What has passed a proxy: frames and bytes, by direction and API."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftspec.proxy.frame import Direction, Exchange


class Stats:
    """Counts, from the start of the proxy on."""

    def __init__(self) -> None:
        self.connections = 0
        self.frames: Counter[tuple[Direction, str]] = Counter()
        self.bytes: Counter[tuple[Direction, str]] = Counter()

    def count(self, direction: Direction, exchange: Exchange, size: int) -> None:
        """Count a frame."""
        key = (direction, exchange.name)
        self.frames[key] += 1
        self.bytes[key] += size
