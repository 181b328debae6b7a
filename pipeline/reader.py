"""A split as Arrow record batches: decoded window by window, without the damaged parts.

Memory is bounded by the window and by the largest batch, not by the file. Without filters on
offset or time, and with uncommitted data read, nothing here runs once a record or once a batch of
Kafka's: the native decoder takes a window's batches in a few calls. Else the headers of the batches
are looked at first, checksums included, and those that cannot hold a wanted row are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kraftspec.fastpath.columns import Columns, decode_columns
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import LENGTH_AT, RECORDS_AT, BatchHeader
from kraftspec.fastpath.scan import TORN_ZEROS_MIN, Verdict
from kraftspec.fastpath.walk import Resync, header_at, is_framed
from kraftspec.pipeline.files import LOCAL_WINDOW_BYTES, REMOTE_WINDOW_BYTES, Source
from kraftspec.pipeline.report import Damaged, DamagedLogError, Report, Tail
from kraftspec.pipeline.rows import INFLATED_BYTES_MAX, ReadOptions, Rows, read_options
from kraftspec.pipeline.selection import Selection
from kraftspec.pipeline.splits import Part, Split
from kraftspec.pipeline.transactions import Transactions

BAD_TXN_INDEX: Final = "txn_index"  # The class of a transaction index that is not believed.
GONE: Final = "gone"  # The class of a file that was deleted between planning and reading.


def read_split(
    split: Split,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    mode: str = "PERMISSIVE",
    *,
    report: Report | None = None,
    options: ReadOptions | None = None,
    **more: Any,
) -> Iterator[Any]:
    """Yield a split as ``pyarrow.RecordBatch`` of about 10,000 rows (``rows_max``) each.

    ``more`` are the options of ``rows.ReadOptions`` by name; or ``options`` has them all. What is
    read and what is left out is counted in ``report``.

    Damage is, in mode PERMISSIVE, a row in its place, if a column that shows it (``_error``,
    ``_corrupt_record``) is selected; no filter removes it. Otherwise, and in DROPMALFORMED, it
    is counted. In FAILFAST it raises ``DamagedLogError``, which names file, byte and class.
    """
    options = options or read_options(columns, filters, mode, **more)
    report = report if report is not None else Report()
    for part in split.parts:
        yield from _PartReader(part, options, report).read()


class _PartReader:
    """Reads one part of a file, from the byte ``position`` to the byte ``end``."""

    def __init__(self, part: Part, options: ReadOptions, report: Report) -> None:
        self.part = part
        self.options = options
        self.report = report
        self.rows = Rows(options, part.file)
        self.selection = Selection.of(options, part.transactions)
        self.position = part.start
        self.end = part.end
        self._needed = 0  # What the next window must hold, for the batch that starts it.
        self._decoding: dict[str, Any] = {
            "columns": self.rows.decoded, "values": options.values, "errors": "stop",
            "timestamps": options.timestamps, "size_max": options.size_max,
            "ratio_max": options.ratio_max, "inflated_bytes_max": INFLATED_BYTES_MAX,
        }  # fmt: skip

    def read(self) -> Iterator[Any]:
        """Yield the part's rows."""
        if self.part.transactions is not None:
            self._note_transactions(self.part.transactions)
        try:
            # An object store may report a deleted object only when it is read.
            with self.part.file.open() as source:
                try:
                    yield from self._windows(source)
                finally:
                    self.report.reads += source.reads
                    self.report.bytes_read += source.bytes_read
        except FileNotFoundError:
            detail = "the file is gone: it was deleted after the read was planned"
            at, path = self.position, self.part.file.path
            damage = Damaged(path, at, self.part.end - at, GONE, detail, at, -1, GONE)
            yield from self._report_damage(damage, b"")

    def _note_transactions(self, transactions: Transactions) -> None:
        self.report.note_transactions(transactions)
        if transactions.faults and self.options.mode == "FAILFAST":
            fault = transactions.faults[0]
            damaged = Damaged(
                fault.file, fault.position, 0, BAD_TXN_INDEX, fault.detail,
                fault.position, -1, Verdict.CORRUPT,
            )  # fmt: skip
            advice = "without use_txn_indexes (useTxnIndexes) the markers of the log decide"
            raise DamagedLogError(damaged, advice)

    def _windows(self, source: Source) -> Iterator[Any]:
        usual = self.options.window_bytes or (
            REMOTE_WINDOW_BYTES if source.is_remote else LOCAL_WINDOW_BYTES
        )
        resync = source.resync(self.end, self.options.batch_bytes_max)
        while self.position < self.end:
            window = min(max(usual, self._needed), self.end - self.position)
            self._needed = 0
            view = source.read(self.position, window)
            if len(view) < window:
                self.end = resync.end = self.position + len(view)
            yield from self._decode(view, source, resync)
        if self.end < self.part.end:
            size = self.part.end - self.end
            detail = f"the file has become {size} bytes shorter since the read was planned"
            damage = Damaged(
                self.part.file.path, self.end, size, ErrorClass.TRUNCATED, detail, self.end, -1,
                Verdict.TORN,
            )  # fmt: skip
            yield from self._report_damage(damage, b"")

    def _decode(self, view: memoryview, source: Source, resync: Resync) -> Iterator[Any]:
        """Yield the rows of a window, and move ``position`` behind them."""
        base, at = self.position, 0
        while at < len(view):
            columns, at, error = self._step(view, at)
            if columns is not None:
                yield from self._emit(columns, base)
            if error is None:
                continue
            self.position = base + at
            if self._reaches_beyond(view, at, error):
                return
            yield from self._around(view, at, error, source, resync)
            at = self.position - base
        self.position = base + at

    def _step(self, view: memoryview, at: int) -> tuple[Columns | None, int, CodecError | None]:
        """Decode some batches at ``at``; return them, the next position, and the error there."""
        if self.selection is None:
            columns = decode_columns(view, at, rows_max=self.options.rows_max, **self._decoding)
        else:
            run = self.selection.run(view, at, self.options.rows_max, self.report)
            if not run.batches:
                return None, run.start, run.error
            columns = decode_columns(
                view, run.start, batches_max=run.batches, check_crc=False, **self._decoding
            )
        return columns, columns.next_offset, columns.damage[0].error if columns.damage else None

    def _emit(self, columns: Columns, base: int) -> Iterator[Any]:
        """Yield decoded rows, those of a large batch in slices."""
        self.report.batches += columns.batches
        if not len(columns):
            return
        batch = self.rows.batch(columns, base)
        rows, step = batch.num_rows, self.options.rows_max or 1
        self.report.rows += rows
        self.report.filtered_rows += len(columns) - rows
        if rows <= step:
            if rows:
                yield batch
            return
        for start in range(0, rows, step):
            yield batch.slice(start, step)

    def _reaches_beyond(self, view: memoryview, at: int, error: CodecError) -> bool:
        """Whether the batch at ``at`` is only cut by the window; the next one will hold it."""
        header = header_at(view, at, self.position)
        if not _is_cut(error, header, len(view) - at):
            return False
        size = RECORDS_AT if header is None else header.size
        if self.position + size > self.end or size > self.options.batch_bytes_max:
            return False
        self._needed = size
        return True

    def _around(
        self, view: memoryview, at: int, error: CodecError, source: Source, resync: Resync
    ) -> Iterator[Any]:
        """Report the damage at ``position``, and move to the next batch."""
        start, file = self.position, self.part.file
        header = header_at(view, at, start)
        is_cut = _is_cut(error, header, len(view) - at)
        if is_cut and header is not None and header.end <= self.end:
            limit = self.options.batch_bytes_max
            detail = f"a batch of {header.size} bytes; the largest that is read has {limit}"
            error = CodecError(
                ErrorClass.LENGTH_TOO_LONG, detail, path="batchLength", offset=at + LENGTH_AT
            )
        is_at_end = self.end == file.size
        if is_at_end and not any(view[at : at + RECORDS_AT]) and not resync.is_written(start):
            self.report.tails.append(Tail(file.path, start, self.end - start))
            self.position = self.end
            return
        is_believed = header is not None and header.end <= self.end and is_framed(error)
        self.position = resync.after(start, header.end if header and is_believed else 0)
        is_last = is_at_end and self.position == self.end
        if is_last and is_cut and source.size_now() > file.size:
            # The log grows: a batch that was incomplete when the read was planned is no damage.
            self.report.tails.append(Tail(file.path, start, self.end - start))
            return
        byte = start - at + (error.offset if error.offset is not None else at)
        placed = CodecError(error.error_class, error.detail, path=error.path, offset=byte)
        is_torn = is_last and (is_cut or _ends_in_zeros(source, self.end))
        damage = Damaged(
            file.path, start, self.position - start, error.error_class, str(placed), byte,
            header.record_count if header is not None and is_believed else -1,
            Verdict.TORN if is_torn else Verdict.CORRUPT,
        )  # fmt: skip
        size = min(damage.size, self.options.corrupt_bytes_max)
        data = bytes(source.read(start, size)) if self.options.shows_damage else b""
        yield from self._report_damage(damage, data)

    def _report_damage(self, damage: Damaged, data: bytes) -> Iterator[Any]:
        """Handle damage as the mode requires."""
        is_shown = self.rows.shows(damage)
        self.report.note(damage, is_dropped=not is_shown)
        if self.options.mode == "FAILFAST":
            raise DamagedLogError(damage)
        if is_shown:
            yield self.rows.damage(damage, data)


def _is_cut(error: CodecError, header: BatchHeader | None, left: int) -> bool:
    """Whether the ``left`` bytes end before the batch does; its records may be cut as well."""
    is_short = left < RECORDS_AT if header is None else left < header.size
    return is_short and error.error_class is ErrorClass.TRUNCATED


def _ends_in_zeros(source: Source, end: int) -> bool:
    return not any(source.read(max(0, end - TORN_ZEROS_MIN), min(end, TORN_ZEROS_MIN)))
