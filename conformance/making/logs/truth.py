"""What was sent to a broker, and what Apache Kafka's consumer read from it: files of JSON lines.

A line of ``sent*.jsonl``, ``read_uncommitted.jsonl`` and ``read_committed.jsonl`` is a record; one
of ``partitions.jsonl`` is a partition. None of it was written by the codecs of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

_Line = TypeVar("_Line")


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A record as a producer sent it and the broker acknowledged it, or as the consumer read it.

    Attributes:
        timestamp: in milliseconds; of LogAppendTime, the broker's.
        headers: pairs in the order of sending; a value may be None.
        transaction: of a record that was sent: how its transaction ended; None without one.
        timestamp_type: of a record that was read: ``createtime`` or ``logappendtime``.
        leader_epoch: of a record that was read: its batch's; -1 where that has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    transaction: Literal["committed", "aborted", "open"] | None = None
    timestamp_type: str | None = None
    leader_epoch: int | None = None


class Producer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a broker remembers of an idempotent producer in a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    transaction_start_offset: int | None


class Partition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a broker says of a partition: its bounds, and the producers that it knows."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    producers: list[Producer]


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a file of JSON lines. ``ValueError`` names a line that is none."""
    yield from _lines(path, Record)


def partitions(path: Path) -> Iterator[Partition]:
    """Yield the partitions of a file of JSON lines. ``ValueError`` names a line that is none."""
    yield from _lines(path, Partition)


def _lines(path: Path, kind: type[_Line]) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
