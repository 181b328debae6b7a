"""``kraftspec pipeline scan``: the records of logs as a table, JSON lines, CSV or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import force_option, refuse_existing, unread
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    console,
    counted,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.pipeline import Report

SHOWN_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
SHOWN_ROWS = 20  # Of a table for people, unless --limit says more.
SHOWN_DAMAGE = 20  # Of the lines on stderr; `_error` of --json has all.
CELL_CHARS_MAX = 60
LONG_COLUMNS = ("key", "value", "headers", "file", "_error", "_corrupt_record")
CUT_CHARS_MIN = 8  # What is left of a column that is cut.
GAP_CHARS = 2
INT64_BITS = 64

_TERM = re.compile(r"\s*(\w+)\s*(>=|<=|!=|==?|<|>|\bnot in\b|\bin\b)\s*(.+?)\s*")


def _literal(column: str, text: str) -> Any:
    """Read a value as the column has it: text, a bool, a number, a name of it, or a time."""
    from datetime import datetime

    from kraftspec.fastpath.records import Compression, TimestampType
    from kraftspec.pipeline.filters import FILTER_COLUMNS

    if column in ("topic", "file") or column not in FILTER_COLUMNS:
        return text  # The filter refuses what is no column of its own.
    if column.startswith("is_"):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{column} takes true and false, not {text!r}")
        return text.lower() == "true"
    names = {"compression": Compression, "timestamp_type": TimestampType}.get(column)
    if names is not None and text.upper() in names.__members__:
        return int(names[text.upper()])
    with suppress(ValueError):
        number = int(text)
        if number.bit_length() >= INT64_BITS:
            raise click.BadParameter(f"{number} is beyond 64 bits", param_hint="--where")
        return number
    if column == "timestamp":
        with suppress(ValueError):
            return datetime.fromisoformat(text)
        raise ValueError(
            f"{column} takes milliseconds, or a time as 2026-01-31T12:00:00+00:00, not {text!r}"
        )
    known = "" if names is None else f" or one of {', '.join(names.__members__).lower()}"
    raise ValueError(f"{column} takes an integer{known}, not {text!r}")


def _filter(text: str) -> tuple[str, str, Any]:
    """Read ``offset>=5`` or ``topic in a,b``."""
    match = _TERM.fullmatch(text)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is no COLUMN OPERATOR VALUE, as in 'offset>=5'", param_hint="--where"
        )
    column, comparison, value = match.groups()
    try:
        if comparison in ("in", "not in"):
            return column, comparison, [_literal(column, each) for each in value.split(",")]
        return column, comparison, _literal(column, value)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--where") from error


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option("--where", "conditions", multiple=True, metavar="'offset>=5'",
              help="Only rows that match; repeatable, all must match.")  # fmt: skip
@click.option("--mode", default="PERMISSIVE", show_default=True,
              type=click.Choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], case_sensitive=False),
              help="Damage becomes rows, is counted, or ends the read.")  # fmt: skip
@click.option("--isolation", default="read_uncommitted", show_default=True,
              type=click.Choice(["read_uncommitted", "read_committed"]),
              help="read_committed leaves out aborted and undecided data.")  # fmt: skip
@click.option("--use-txn-indexes", is_flag=True,
              help="With read_committed: use .txnindex where a marker is damaged.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1),
              help="Stop after N rows.  "
                   f"[default: {SHOWN_ROWS} for a table; all with --json and --to]")  # fmt: skip
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path),
              metavar="OUT",
              help="Write the rows to a file: .parquet, .csv or .jsonl.")  # fmt: skip
@force_option
@json_option
def scan(
    paths: tuple[str, ...],
    columns: str | None,
    conditions: tuple[str, ...],
    mode: str,
    isolation: str,
    use_txn_indexes: bool,
    limit: int | None,
    target: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Read the records of Kafka logs.

    PATH is a segment, a checkpoint, a partition's directory, a log directory, or a URI of an object
    store (s3://bucket/logs). --json prints a row a line; bytes that are not UTF-8 are {"base64":
    ...}, in CSV too. What was read, left out and damaged is reported on stderr.

    Exit code: 0 no damage in what was read (up to --limit), 1 damage, 2 wrong usage, 3 something
    could not be read or written.
    """
    from kraftspec.pipeline import DamagedLogError, Report
    from kraftspec.pipeline.rows import read_options

    if target is not None and (as_json or target.suffix not in _WRITERS):
        raise click.UsageError(
            f"--to takes a name that ends in {', '.join(_WRITERS)}, and no --json beside it"
        )
    if use_txn_indexes and isolation != "read_committed":
        raise click.UsageError("--use-txn-indexes goes with --isolation read_committed")
    is_table = target is None and not as_json
    names = _listed(columns) or (list(SHOWN_COLUMNS) if is_table else None)
    report = Report()
    try:
        filters = [_filter(each) for each in conditions] or None
        options = read_options(names, filters, mode.upper(), isolation=isolation)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(str(error)) from error
    if force and target is None:
        raise click.UsageError("--force goes with --to")
    taken = _Taken(limit or (SHOWN_ROWS if is_table else None))
    with unread(), progress("Reading") as advance:
        if target is not None:
            refuse_existing(target, force=force)
        batches = taken.of(_batches(paths, options, use_txn_indexes, report, advance))
        try:
            if target is not None:
                _write(target, batches, options)
            elif as_json:
                for line in _lines(batches):
                    click.echo(line)
            else:
                _print_table(batches, options.columns)
        except DamagedLogError as error:  # In mode FAILFAST.
            raise click.ClickException(printable(str(error))) from error
    _say(report, taken, "shown" if target is None else f"written to {target}")
    raise click.exceptions.Exit(EXIT_FINDINGS if report.damaged_regions else 0)


class _Taken:
    """Takes rows up to a limit, and knows how many it took and whether the limit ended it.

    ``damage_rows`` of its ``rows`` stand for damage and not for a record.
    """

    def __init__(self, rows_max: int | None) -> None:
        self.rows_max = rows_max
        self.rows = 0
        self.damage_rows = 0
        self.is_cut = False

    def of(self, batches: Iterable[Any]) -> Iterator[Any]:
        from kraftspec.pipeline.rows import ERROR_COLUMNS

        for batch in batches:
            wanted = batch if self.rows_max is None else batch.slice(0, self.rows_max - self.rows)
            self.rows += wanted.num_rows
            shown = [name for name in wanted.schema.names if name in ERROR_COLUMNS]
            if shown:
                self.damage_rows += wanted.num_rows - wanted.column(shown[0]).null_count
            self.is_cut = self.rows == self.rows_max
            yield wanted
            if self.is_cut:
                return


def _batches(
    paths: tuple[str, ...],
    options: Any,
    use_txn_indexes: bool,
    report: Report,
    advance: Callable[[str, int, int], None],
) -> Iterator[Any]:
    from kraftspec.pipeline import plan_splits, read_split
    from kraftspec.pipeline.layout import survey

    files = survey(paths)
    for one in files.ignored:
        click.echo(printable(f"skipped {one.path}: {one.reason}"), err=True)
    splits = plan_splits(
        files.files, filters=options.filter, isolation=options.isolation,
        use_txn_indexes=use_txn_indexes,
    )  # fmt: skip
    for number, split in enumerate(splits):
        advance(Path(split.parts[0].file.path).name, number, len(splits))
        yield from read_split(split, options=options, report=report)


def _write(target: Path, batches: Iterable[Any], options: Any) -> None:
    """Write a file; a half one never has its name."""
    half = target.with_name(target.name + ".part")
    try:
        _WRITERS[target.suffix](half, batches, options)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)


def _write_parquet(target: Path, batches: Iterable[Any], options: Any) -> None:
    import pyarrow.parquet

    from kraftspec.pipeline import schema_of

    schema = schema_of(options.columns, options.mode)
    with pyarrow.parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(target: Path, batches: Iterable[Any], options: Any) -> None:
    """Write a line a row; null is an empty cell, and what CSV has no form for is JSON."""
    import csv

    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(options.columns)
        for batch in batches:
            for row in batch.to_pylist():
                writer.writerow(map(_csv_cell, row.values()))


def _csv_cell(value: Any) -> str:
    import json

    plain = _plain(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _write_lines(target: Path, batches: Iterable[Any], _: Any) -> None:
    with target.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _lines(batches))


_WRITERS: dict[str, Callable[[Path, Iterable[Any], Any], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_lines,
}


def _plain(value: Any) -> Any:
    """Turn a cell into what JSON has."""
    import base64

    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _lines(batches: Iterable[Any]) -> Iterator[str]:
    import json

    for batch in batches:
        for row in batch.to_pylist():
            yield json.dumps(_plain(row), ensure_ascii=False)


def _cell(name: str, value: Any) -> str:
    from datetime import UTC, datetime, timedelta

    if value is None:
        return "-"
    if name == "timestamp":
        try:
            stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        except OverflowError:
            return str(value)
        return stamp.isoformat(" ", "milliseconds").removesuffix("+00:00")
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    text = printable(text).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def _print_table(batches: Iterable[Any], names: Sequence[str]) -> None:
    """Print rows; where the terminal is narrow, what is long is cut, and numbers never are."""
    from rich.cells import cell_len
    from rich.table import Table

    rows = [
        [_cell(name, value) for name, value in row.items()]
        for batch in batches
        for row in batch.to_pylist()
    ]
    out = console()
    widths = [max(map(cell_len, cells)) for cells in zip(names, *rows, strict=True)]
    _narrow(names, widths, out.width - GAP_CHARS * (len(names) - 1))
    # What does not fit even so goes on in the next line: a table would lose columns.
    out.width = max(out.width, sum(widths) + GAP_CHARS * len(names))
    table = Table(box=None, pad_edge=False, padding=(0, GAP_CHARS, 0, 0))
    for name, width in zip(names, widths, strict=True):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _narrow(names: Sequence[str], widths: list[int], room: int) -> None:
    """Take from the widest of the columns that may be cut, of topics last, until all fit."""
    for cut in (LONG_COLUMNS, ("topic",)):
        while sum(widths) > room:
            able = [
                at for at, name in enumerate(names) if name in cut and widths[at] > CUT_CHARS_MIN
            ]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1


def _say(report: Report, taken: _Taken, how: str) -> None:
    """Say on stderr what was read, what became of it, and what was left out."""
    batches = f"{report.batches:,} {'batch' if report.batches == 1 else 'batches'}"
    records = taken.rows - taken.damage_rows
    summary = f"read {counted(report.rows, 'row')} of {batches}, {records:,} {how}"
    if taken.damage_rows:
        summary += f", and {counted(taken.damage_rows, 'row')} of damage"
    click.echo(printable(summary), err=True)
    if taken.is_cut:
        click.echo(
            f"stopped at the limit of {counted(taken.rows, 'row')}: the rest was not read "
            "(see --limit)",
            err=True,
        )
    left_out = [
        f"{getattr(report, f'{name}_rows'):,} {name}"
        for name in ("filtered", "aborted", "undecided", "control")
        if getattr(report, f"{name}_rows")
    ]
    if left_out:
        click.echo(f"left out: {', '.join(left_out)}", err=True)
    for fault in report.txn_index_faults:
        where = f"{fault.file}, byte {fault.position}"
        click.echo(printable(f"index not used: {where}: {fault.detail}"), err=True)
    if report.indexed:
        told = counted(len(report.indexed), "aborted transaction")
        click.echo(f"{told} known from an index alone", err=True)
    for tail in report.tails:
        click.echo(f"{tail.file}, byte {tail.position}: {tail.size:,} bytes not written yet",
                   err=True)  # fmt: skip
    if not report.damaged_regions:
        return
    regions = counted(report.damaged_regions, "damaged region")
    click.echo(f"{regions}, {counted(report.damaged_bytes, 'byte')}:", err=True)
    for damage in report.damaged[:SHOWN_DAMAGE]:
        click.echo(printable(f"  {damage.file}, byte {damage.position}, {damage.size:,} bytes: "
                             f"{damage.detail}"), err=True)  # fmt: skip
    if report.damaged_regions > SHOWN_DAMAGE:
        click.echo(f"  and {report.damaged_regions - SHOWN_DAMAGE:,} more", err=True)
