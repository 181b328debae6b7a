"""What becomes of records that a node appends as the leader."""

from __future__ import annotations

from typing import NamedTuple


class NotAppendedError(Exception):
    """Records were not appended, or it is unknown whether they were; ``error`` is Kafka's code."""

    def __init__(self, error: int, message: str) -> None:
        super().__init__(message)
        self.error = error


class Appended(NamedTuple):
    """Where records are, now that they are committed."""

    epoch: int
    base_offset: int
    last_offset: int
