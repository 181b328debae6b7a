"""What commands and pages say alike; importing it loads nothing."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
