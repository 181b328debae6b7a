"""``kraftspec pipeline metadata``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import force_option, refuse_existing, unread
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    console,
    counted,
    emit_json,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kraftspec.pipeline.report import Report

ROWS_SHOWN = 100
DAMAGE_SHOWN_MAX = 5  # --json has them all.
GAP = "  "
LAST_WIDTH_MIN = 12  # Of the last column of a table, on however narrow a terminal.
# The columns that a line has room for; the other forms have them all.
SHOWN = {
    "quorum": ("endOffset", "epoch", "leaderId", "kraftVersion", "timestamp", "transaction"),
    "voters": ("voterId", "voterDirectoryId", "endpoints"),
    "partitions": (
        "topicName", "partitionId", "leader", "leaderEpoch", "replicas", "isr",
        "eligibleLeaderReplicas",
    ),
    "brokers": ("brokerId", "brokerEpoch", "fenced", "rack", "endPoints"),
    "controllers": ("controllerId", "incarnationId", "endPoints"),
    "acls": ("principal", "operation", "permissionType", "resourceType", "resourceName", "host"),
    "delegation_tokens": ("tokenId", "owner", "expirationTimestamp"),
}  # fmt: skip


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--to",
    "form",
    type=click.Choice(["table", "json", "parquet"]),
    help="Output format.  [default: parquet with --out, else table]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write: a directory of Parquet files, or a file of JSON.",
)
@click.option("--record-type", metavar="NAME", help="Only this record, typed: TopicRecord.")
@click.option(
    "--mode",
    type=click.Choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], case_sensitive=False),
    default="PERMISSIVE",
    show_default=True,
    help="Damage becomes rows with _error, is dropped and counted, or ends it.",
)
@click.option("--image", "is_image", is_flag=True, help="The state of the cluster, as tables.")
@click.option(
    "--as-of",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --image: the state after the offsets below N.  [default: all]",
)
@click.option("--table", "names", multiple=True, metavar="NAME", help="With --image; repeatable.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=ROWS_SHOWN,
    show_default=True,
    help="Rows of a table to show; 0 shows all.",
)
@force_option
@json_option
def metadata(
    paths: tuple[str, ...],
    form: str | None,
    out: Path | None,
    record_type: str | None,
    mode: str,
    is_image: bool,
    as_of: int | None,
    names: tuple[str, ...],
    limit: int,
    force: bool,
    as_json: bool,
) -> None:
    """Read metadata logs: their records, or the cluster's state.

    PATH is a directory of segments and checkpoints, one of them, or a log directory; s3://… and
    other stores work too. --json reports what was read as JSON; rows go only to --out.

    Exit code: 0 all was read, 1 there was damage, 2 wrong usage, 3 it could not be read or written.
    """
    form = form or ("parquet" if out is not None else "table")
    _check_usage(form, out, is_image, as_of, names, record_type)
    if force and out is None:
        raise click.UsageError("--force goes with --out")
    with unread():
        if out is not None:
            refuse_existing(out, force=force)  # Before hours of reading.
        if is_image:
            _image(paths, form, out, as_of, names, limit, as_json)
            return
        report = _records(paths, form, out, record_type, mode, limit, as_json)
    if report.damaged_regions:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _check_usage(
    form: str,
    out: Path | None,
    is_image: bool,
    as_of: int | None,
    names: tuple[str, ...],
    record_type: str | None,
) -> None:
    """Refuse options that do not go together, and names that there are not, as wrong usage."""
    from kraftspec.pipeline.metadata.records import record_class
    from kraftspec.pipeline.metadata.tables import TABLES

    if form == "parquet" and out is None:
        raise click.UsageError("--to parquet needs --out, a directory that is not there yet")
    if form == "table" and out is not None:
        raise click.UsageError("--to table prints: --out goes with parquet and json")
    if not is_image and (as_of is not None or names):
        raise click.UsageError("--as-of and --table go with --image")
    if is_image and record_type is not None:
        raise click.UsageError("--record-type is of records: with --image name a --table")
    for name in names:
        if name not in TABLES:
            known = ", ".join(TABLES)
            raise click.BadParameter(f"there is no table {name!r}: {known}", param_hint="--table")
    if record_type is not None:
        try:
            record_class(record_type)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--record-type") from error


def _image(
    paths: tuple[str, ...],
    form: str,
    out: Path | None,
    as_of: int | None,
    names: tuple[str, ...],
    limit: int,
    as_json: bool,
) -> None:
    """Print or write the tables of the image."""
    from kraftspec.pipeline.metadata import TABLES, image_tables, read_image
    from kraftspec.pipeline.metadata.output import tables_json, write_tables

    with progress("Reading") as advance:
        image = read_image(paths, as_of, advance=advance)
    tables = image_tables(image, names or TABLES)
    if form == "parquet" and out is not None:
        write_tables(tables, out, replace=True)
    elif form == "json" and out is not None:
        _write_json(tables_json(tables), out)
    elif form == "json" and not as_json:
        emit_json(tables_json(tables))
    rows = {name: table.num_rows for name, table in tables.items()}
    if as_json:
        emit_json({"endOffset": image.end_offset, "epoch": image.epoch, "tables": rows})
        return
    if form == "table":
        for name, table in tables.items():
            if table.num_rows:
                shown = list(SHOWN.get(name, table.column_names))
                _show(table.select(shown), f"{name}, {counted(table.num_rows, 'row')}", limit)
    click.echo(
        f"{counted(sum(rows.values()), 'row')} in {counted(len(rows), 'table')}, "
        f"of the offsets below {image.end_offset:,}",
        err=form == "json" and out is None,
    )


def _write_json(value: Any, path: Path) -> None:
    import json

    with _made(path) as file:
        file.write(json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")


def _opened(path: Path | None) -> AbstractContextManager[IO[bytes]]:
    """Give a file for ``path``, or what goes to stdout."""
    if path is not None:
        return _made(path)
    return nullcontext(sys.stdout.buffer)


@contextmanager
def _made(path: Path) -> Iterator[IO[bytes]]:
    """Give a file that becomes ``path`` at the end: nobody sees a half of it."""
    half = path.with_name(f".{path.name}.half")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with half.open("wb") as file:
            yield file
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def _records(
    paths: tuple[str, ...],
    form: str,
    out: Path | None,
    record_type: str | None,
    mode: str,
    limit: int,
    as_json: bool,
) -> Report:
    """Print or write the records, and report what was read."""
    from kraftspec.pipeline.metadata import records
    from kraftspec.pipeline.metadata.log import metadata_files
    from kraftspec.pipeline.metadata.output import json_lines, write_dataset
    from kraftspec.pipeline.report import Report

    report = Report()
    size = sum(file.size for file in metadata_files(paths))
    reader = records(paths, mode=mode, record_type=record_type, report=report)
    types: Counter[str] = Counter()
    kept: list[pa.RecordBatch] = []
    with progress("Reading") as advance:

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                types.update(name or "(none)" for name in batch["type"].to_pylist())
                advance(counted(sum(types.values()), "record"), report.bytes_read, size)
                yield batch

        if form == "parquet" and out is not None:
            write_dataset(batches(), reader.schema, out, replace=True)
        elif form == "json" and not (as_json and out is None):
            with _opened(out) as file:
                for batch in batches():
                    file.writelines(json_lines(batch))
        else:
            shown = 0
            for batch in batches():
                if not as_json and (not limit or shown <= limit):
                    kept.append(batch)
                    shown += batch.num_rows
    if as_json:
        emit_json({**report.to_json(), "types": dict(types.most_common())})
        return report
    if form == "table":
        _show_records(kept, reader.schema, sum(types.values()), limit)
    _say(report, err=form == "json" and out is None)
    return report


def _say(report: Report, *, err: bool) -> None:
    """Print what was read, and what of it was damaged."""
    parts = [counted(report.rows, "record")]
    if report.filtered_rows:
        parts.append(f"{report.filtered_rows:,} of other types")
    if report.damaged_regions:
        parts.append(f"{report.damaged_regions:,} damaged ({report.damaged_bytes:,} bytes)")
    if report.dropped_regions:
        parts.append(f"{report.dropped_regions:,} of them dropped")
    click.echo(", ".join(parts), err=err)
    for damage in report.damaged[:DAMAGE_SHOWN_MAX]:
        text = f"{damage.file}, byte {damage.position}: {damage.detail}"
        name = f" [{damage.error_class}]"
        text += "" if text.endswith(name) else name  # What a batch is refused for ends in it.
        click.echo(f"  {printable(text)}", err=err)
    if len(report.damaged) > DAMAGE_SHOWN_MAX:
        click.echo(f"  and {len(report.damaged) - DAMAGE_SHOWN_MAX:,} more", err=err)


def _show_records(batches: list[pa.RecordBatch], schema: pa.Schema, count: int, limit: int) -> None:
    """Print records, without the columns that are for programs."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema)
    if not count:
        return
    columns = ["offset", "epoch", "type", "version", "record"]
    if "_error" in table.column_names and table["_error"].null_count < table.num_rows:
        columns.append("_error")
    _show(table.select(columns), None, limit, count)


def _show(table: pa.Table, title: str | None, limit: int, count: int | None = None) -> None:
    """Print the first rows of a table, a line each; the last column is cut where the line ends."""
    from rich.table import Table

    out = console()
    total = table.num_rows if count is None else count
    rows = [
        [_cell(value) for value in row.values()]
        for row in table.slice(0, limit or table.num_rows).to_pylist()
    ]
    before = [
        max(map(len, cells)) + len(GAP)
        for cells in zip(table.column_names[:-1], *(row[:-1] for row in rows), strict=True)
    ]
    room = max(out.width - sum(before), LAST_WIDTH_MIN)
    if title is not None:
        out.print(title)
    drawn = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0))
    for name in table.column_names:
        drawn.add_column(name, no_wrap=True, overflow="ellipsis")
    for row in rows:
        drawn.add_row(*row[:-1], row[-1] if len(row[-1]) <= room else f"{row[-1][: room - 1]}…")
    out.print(drawn)
    if limit and total > limit:
        out.print(f"and {total - limit:,} more; --limit 0 shows all")
    out.print()


def _cell(value: Any) -> str:
    """Return a value as text on one line: null as nothing, an endpoint as an address."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, dict):
        if "host" in value:
            return f"{value['name']}://{value['host']}:{value['port']}"
        if "entityType" in value:
            return f"{value['entityType']}={_cell(value['entityName']) or '<default>'}"
        return " ".join(f"{name}={_cell(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")
