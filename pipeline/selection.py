"""Decides from their headers which batches are decoded.

A header says between which offsets its records lie and that none is later than its max timestamp;
who wrote it, in which epoch, and whether it is data. A batch that cannot hold a wanted row is not
decompressed. Its checksum is looked at all the same: damage is found whatever is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import COMPRESSION_MASK, BatchHeader, TimestampType
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.pipeline.filters import Filter
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.rows import ReadOptions
from kraftspec.pipeline.transactions import Transaction, Transactions

_TIME_MIN: Final = -(1 << 63)
# What a header knows of each of its records.
_TOLD: Final = frozenset(
    {
        "offset", "timestamp", "timestamp_type", "leader_epoch", "is_control", "is_transactional",
        "producer_id", "producer_epoch", "compression",
    }
)  # fmt: skip


class Run(msgspec.Struct, frozen=True):
    """Wanted batches, one after another from byte ``start`` of a view; ``error`` when they end so.

    Without batches, ``start`` is where to go on, or where the error is.
    """

    start: int
    batches: int
    error: CodecError | None


class Selection:
    """Decides for each batch whether it is decoded, and counts those that are not."""

    def __init__(self, filter_: Filter | None, transactions: Transactions | None) -> None:
        self.filter = filter_
        self.is_committed = transactions is not None
        self.last_stable_offset = transactions.last_stable_offset if transactions else 0
        self.aborted = _by_producer(transactions.aborted if transactions else ())
        self.undecided = _by_producer(transactions.undecided if transactions else ())

    @classmethod
    def of(cls, options: ReadOptions, transactions: Transactions | None) -> Self | None:
        """Return what selects, None when every batch is wanted.

        Raises ValueError for committed data if the splits were planned without transactions.
        """
        filter_ = options.filter
        if filter_ is not None and _TOLD.isdisjoint(filter_.columns):
            filter_ = None
        if options.isolation == "read_uncommitted":
            transactions = None
        elif transactions is None:
            raise ValueError('plan_splits(…, isolation="read_committed") knows what was aborted')
        return None if filter_ is None and transactions is None else cls(filter_, transactions)

    def reason_against(self, header: BatchHeader) -> str:
        """Return which count of the report a batch falls under, "" when it may hold wanted rows."""
        if self.is_committed:
            if header.base_offset >= self.last_stable_offset:
                return "undecided_rows"
            if header.is_control:
                return "control_rows"
            if header.is_transactional and _is_of(self.undecided, header):
                return "undecided_rows"
            if header.is_transactional and _is_of(self.aborted, header):
                return "aborted_rows"
        if self.filter is not None and not self.filter.may_match(_ranges(header)):
            return "filtered_rows"
        return ""

    def run(self, view: memoryview, at: int, rows_max: int, report: Report) -> Run:
        """Return the next wanted batches from byte ``at`` on, of ``rows_max`` rows or one batch."""
        start, batches, rows = at, 0, 0
        try:
            for header in iterate_headers(view, at):
                if batches and rows + header.record_count > rows_max:
                    break
                reason = self.reason_against(header)
                if not reason:
                    batches += 1
                    rows += max(0, header.record_count)
                elif batches:
                    break  # It is checked again, and counted then.
                else:
                    report.skipped_batches += 1
                    counted = getattr(report, reason) + max(0, header.record_count)
                    setattr(report, reason, counted)
                    start = header.end
        except CodecError as error:
            return Run(start, batches, None if batches else error.with_traceback(None))
        return Run(start, batches, None)


_Spans = dict[int, list[tuple[int, int]]]


def _by_producer(transactions: Iterable[Transaction]) -> _Spans:
    """Return the offsets of transactions, from and to and sorted, of each producer."""
    by_producer: _Spans = {}
    for each in transactions:
        by_producer.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
    return {producer: sorted(spans) for producer, spans in by_producer.items()}


def _is_of(transactions: _Spans, header: BatchHeader) -> bool:
    spans = transactions.get(header.producer_id)
    if not spans:
        return False
    at = bisect_right(spans, (header.base_offset, (1 << 63) - 1)) - 1
    return at >= 0 and header.base_offset <= spans[at][1]


def _ranges(header: BatchHeader) -> dict[str, tuple[Any, Any]]:
    latest = header.max_timestamp
    is_appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    codec = header.attributes & COMPRESSION_MASK
    return {
        "offset": (header.base_offset, max(header.base_offset, header.last_offset)),
        "timestamp": (latest if is_appended else _TIME_MIN, latest),
        "timestamp_type": (int(is_appended), int(is_appended)),
        "leader_epoch": (header.partition_leader_epoch, header.partition_leader_epoch),
        "is_control": (header.is_control, header.is_control),
        "is_transactional": (header.is_transactional, header.is_transactional),
        "producer_id": (header.producer_id, header.producer_id),
        "producer_epoch": (header.producer_epoch, header.producer_epoch),
        "compression": (codec, codec),
    }
