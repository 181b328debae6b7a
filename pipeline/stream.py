"""Logs as one stream of Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import Paths, discover
from kraftspec.pipeline.reader import read_split
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.rows import ReadOptions, read_options, schema_of
from kraftspec.pipeline.splits import Split, plan_splits

_UNDIVIDED_BYTES: Final = 1 << 62


def scan(
    path: Paths,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    mode: str = "PERMISSIVE",
    *,
    filesystem: Filesystem = None,
    isolation: str = "read_uncommitted",
    report: Report | None = None,
    use_indexes: bool = True,
    use_txn_indexes: bool = False,
    **more: Any,
) -> Any:
    """Return a ``pyarrow.RecordBatchReader`` of all records below a path or several paths.

    A path is a segment, a checkpoint, a partition's directory or a log directory, local or in
    ``filesystem`` (pyarrow.fs or fsspec), or a URI. Rows come by topic, partition and offset.

    ``columns`` are names of ``rows.ALL_COLUMNS`` in the order wanted, ``filters`` are as
    ``filters.parse_filters`` takes them, ``mode`` is what to do about damage (see ``read_split``),
    ``isolation`` whether data of aborted and of open transactions is left out, and
    ``use_txn_indexes`` whether a damaged marker may be known from the ``.txnindex``. ``more`` are
    further options of ``rows.ReadOptions``: ``values``, ``timestamps``, limits.

    Raises FileNotFoundError and ValueError for paths that hold no log, ValueError for unknown
    options; the reader raises ``DamagedLogError`` in mode FAILFAST. Damage that no row shows is
    counted in ``report`` and logged once, at the end, as a warning of ``kraftspec.pipeline``.
    """
    options = read_options(columns, filters, mode, isolation=isolation, **more)
    schema = schema_of(
        options.columns, options.mode, values=options.values, timestamps=options.timestamps
    )
    # One reader needs no places to divide at.
    splits = plan_splits(
        discover(path, filesystem), _UNDIVIDED_BYTES, options.filter,
        isolation=isolation, use_indexes=use_indexes, use_txn_indexes=use_txn_indexes,
    )  # fmt: skip
    report = report if report is not None else Report()
    return pa.RecordBatchReader.from_batches(schema, _batches(splits, options, report))


def _batches(splits: Iterable[Split], options: ReadOptions, report: Report) -> Iterator[Any]:
    for split in splits:
        yield from read_split(split, options=options, report=report)
    report.warn()
