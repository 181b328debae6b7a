"""The report of a reader: counts of rows, and of everything that did not become one."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from kraftspec.pipeline.transactions import Transaction, Transactions
from kraftspec.pipeline.txn_index import IndexFault

LOG: Final = logging.getLogger("kraftspec.pipeline")

# What is listed; all are counted. A file made to be bad could fill the memory with its damage.
DAMAGED_LISTED_MAX: Final = 10_000


class Damaged(msgspec.Struct, frozen=True):
    """Bytes of a file that are no good batch.

    ``byte`` is the first byte refused, ``records`` how many the batch's header claims (-1 where
    there is none to believe), ``verdict`` that of ``fastpath.scan`` ("torn", "corrupt") or "gone".
    """

    file: str
    position: int
    size: int
    error_class: str
    detail: str
    byte: int
    records: int
    verdict: str


class Tail(msgspec.Struct, frozen=True):
    """Bytes at the end of a file that are no records and no damage: zeros, written ahead."""

    file: str
    position: int
    size: int


class DamagedLogError(ValueError):
    """Damage that was not to be read around: ``damaged`` is what was met, ``advice`` what helps."""

    def __init__(
        self,
        damaged: Damaged,
        advice: str = "mode PERMISSIVE or DROPMALFORMED reads around it",
    ) -> None:
        super().__init__(damaged, advice)
        self.damaged = damaged
        self.advice = advice

    def __str__(self) -> str:
        damage = self.damaged
        return f"{damage.file}, byte {damage.position}: {damage.detail}; {self.advice}"


class Report(msgspec.Struct):
    """What was read, what was left out, and why: bytes and counts. Reports can be added.

    ``rows`` counts rows of records, not those of damage. Left out are ``filtered_rows``
    (filters), ``aborted_rows``, ``undecided_rows`` and ``control_rows`` (isolation), all of them
    counted by the headers of their batches where these are not decoded.

    ``txn_index_faults`` are transaction indexes that were requested and are not trusted,
    ``indexed`` aborted transactions that such an index alone told of, its marker being damaged.
    """

    rows: int = 0
    batches: int = 0
    filtered_rows: int = 0
    skipped_batches: int = 0
    aborted_rows: int = 0
    undecided_rows: int = 0
    control_rows: int = 0
    reads: int = 0
    bytes_read: int = 0
    damaged_regions: int = 0
    damaged_bytes: int = 0
    dropped_regions: int = 0
    damaged: list[Damaged] = msgspec.field(default_factory=list)
    tails: list[Tail] = msgspec.field(default_factory=list)
    txn_index_faults: list[IndexFault] = msgspec.field(default_factory=list)
    indexed: list[Transaction] = msgspec.field(default_factory=list)

    def note(self, damage: Damaged, *, is_dropped: bool) -> None:
        """Count damage; ``is_dropped``: no row shows it."""
        self.damaged_regions += 1
        self.damaged_bytes += damage.size
        self.dropped_regions += is_dropped
        if len(self.damaged) < DAMAGED_LISTED_MAX:
            self.damaged.append(damage)

    def note_transactions(self, transactions: Transactions) -> None:
        """Log what the transaction indexes of a partition gave, once for all its parts."""
        self.txn_index_faults = list(dict.fromkeys([*self.txn_index_faults, *transactions.faults]))
        self.indexed = list(dict.fromkeys([*self.indexed, *transactions.indexed]))

    def add(self, other: Report) -> None:
        """Add the counts of another reader."""
        for name in self.__struct_fields__:
            mine, its = getattr(self, name), getattr(other, name)
            setattr(self, name, mine + its)
        self.note_transactions(Transactions())  # Several parts may report one partition.
        del self.damaged[DAMAGED_LISTED_MAX:]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def warn(self) -> None:
        """Log once what no row shows: damage, and faults of indexes."""
        if self.txn_index_faults:
            first = self.txn_index_faults[0]
            LOG.warning(
                "%d transaction indexes are not believed; the first is %s, byte %d: %s",
                len(self.txn_index_faults), first.file, first.position, first.detail,
            )  # fmt: skip
        if self.indexed:
            one = self.indexed[0]
            LOG.warning(
                "%d transactions were aborted by their index alone, their markers being damaged; "
                "the first is of producer %d, offsets %d to %d",
                len(self.indexed), one.producer_id, one.first_offset, one.last_offset,
            )  # fmt: skip
        if self.dropped_regions:
            damaged = self.damaged[0]
            LOG.warning(
                "%d damaged region%s (%d bytes in all) gave no rows; the first is %s, byte %d: %s",
                self.dropped_regions, "" if self.dropped_regions == 1 else "s",
                self.damaged_bytes, damaged.file, damaged.position, damaged.detail,
            )  # fmt: skip
