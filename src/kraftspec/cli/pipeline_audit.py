"""``kraftspec pipeline audit``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import NO_VERDICT, unread
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
    from rich.console import Console

    from kraftspec.pipeline.audit.model import Report
    from kraftspec.pipeline.audit.page import Kind

FINDINGS_SHOWN_MAX = 5  # Of a kind; --json has a hundred of each, and all are counted.
TOPICS_SHOWN_MAX = 30


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@json_option
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page of the audit, with charts, to this file.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Distribute the files over Spark executors: local[*], spark://…  [default: no Spark]",
)
def audit(paths: tuple[str, ...], as_json: bool, html: Path | None, master: str | None) -> None:
    """Check that logs are what Kafka would have written.

    PATH is a log directory, a partition's directory, a segment or a snapshot of the metadata log;
    s3://… and other stores work too. Each batch is decoded, encoded again, and compared with those
    before it and with the indexes and checkpoints of the log.

    Exit code: 0 no errors (notes do not count), 1 errors were found, 2 wrong usage, 3 something
    could not be read, or the page not be written.
    """
    from kraftspec.pipeline.audit import audit as examine

    with unread(), _session(master) as spark, progress("Auditing") as advance:
        report = examine(paths, spark=spark, advance=advance)
    if as_json:
        emit_json(report.to_json())
    else:
        _show(report)
    if html is not None:
        with unread():  # The report is out, whatever becomes of the page.
            _write(html, report)
        click.echo(f"wrote {html}", err=as_json)
    if report.unread:
        raise click.exceptions.Exit(NO_VERDICT)
    raise click.exceptions.Exit(EXIT_FINDINGS if report.errors else 0)


@contextmanager
def _session(master: str | None) -> Iterator[Any]:
    """Give a session of this master, none without one; ValueError where Spark gives none."""
    if master is None:
        yield None
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kraftspec.pipeline.session import session

    try:
        spark = session("kraftspec audit", master=master)
        try:
            yield spark
        finally:
            spark.stop()
    except (PySparkException, Py4JError, ConnectionError) as error:
        reason = (
            str(error).split("\n\tat ")[0].strip() or type(error).__name__
        )  # Without Java's trace.
        raise ValueError(f"Spark at {master} did not finish: {reason}") from error


def _write(path: Path, report: Report) -> None:
    from kraftspec.pipeline.audit.page import page

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report), encoding="utf-8")


def _show(report: Report) -> None:
    """Print the report for people."""
    from kraftspec.pipeline.audit.page import kinds, round_trip

    out = console()
    _show_topics(report, out)
    trips = ", ".join(f"{bar.text} {bar.label}" for bar in round_trip(report.totals) if bar.width)
    if trips:
        out.print(f"encoded again: {trips}")
    if report.totals.same_values:
        out.print(f"typed values encoded again: {report.totals.same_values:,} the same")
    for title, counts in (
        ("metadata records", report.totals.record_types),
        ("control records", report.totals.control),
        ("explained by the log cleaner", report.explained),
    ):
        if counts:
            listed = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            out.print(f"{title}: " + ", ".join(f"{count:,} {name}" for name, count in listed))
    for kind in kinds(report):
        _show_kind(kind, out)
    for path, reason in report.ignored.items():
        out.print(f"skipped: {printable(_from_here(path))}: {reason}")
    for path, reason in report.unread.items():
        out.print(f"not read: {printable(_from_here(path))}: {printable(reason)}")
    verdict = [counted(report.errors, "error"), counted(report.notes, "note")]
    if report.unread:
        verdict.append(f"{counted(len(report.unread), 'file')} not read")
    out.print(", ".join(verdict))


def _show_topics(report: Report, out: Console) -> None:
    from rich.table import Table

    from kraftspec.pipeline.audit.page import bytes_text

    table = Table(box=None, pad_edge=False)
    table.add_column("Topic", overflow="fold")
    for head in ("Parts", "Records", "Bytes", "Codecs", "Errors", "Notes"):
        is_text = head == "Codecs"
        table.add_column(head, justify="left" if is_text else "right", no_wrap=not is_text)
    partitions: dict[str, list[int]] = {}
    # A checkpoint of the metadata log is a part of the report, and no partition of its own.
    for topic, _ in {(one.topic, one.partition) for one in report.partitions}:
        partitions.setdefault(topic, [0, 0, 0])[0] += 1
    for one in report.partitions:
        row = partitions[one.topic]
        row[1] += one.errors
        row[2] += one.notes
    # What has errors comes first, then what is large.
    names = sorted(
        report.topics, key=lambda name: (-partitions[name][1], -report.topics[name].bytes)
    )
    for name in names[:TOPICS_SHOWN_MAX]:
        counts, (parts, errors, notes) = report.topics[name], partitions[name]
        table.add_row(
            printable(name) or "(no topic)", f"{parts:,}", f"{counts.records:,}",
            bytes_text(counts.bytes), " ".join(sorted(counts.codecs)) or "-",
            f"{errors:,}", f"{notes:,}",
        )  # fmt: skip
    out.print(table)
    if len(names) > TOPICS_SHOWN_MAX:
        out.print(f"and {len(names) - TOPICS_SHOWN_MAX:,} topics more; --json has them all")
    totals = report.totals
    out.print(
        f"{counted(totals.files, 'file')}, {bytes_text(totals.bytes)}: "
        f"{totals.batches:,} {'batch' if totals.batches == 1 else 'batches'}, "
        f"{counted(totals.records, 'record')}, {bytes_text(totals.damaged_bytes)} damaged"
    )


def _show_kind(kind: Kind, out: Console) -> None:
    """Print the findings of one kind, the first few with their places."""
    from rich.padding import Padding

    out.print(f"{kind.severity} {kind.name} ({kind.total:,}): {kind.meaning}")
    for one in kind.shown[:FINDINGS_SHOWN_MAX]:
        where = f"{_from_here(one.file)}, byte {one.position}"
        if one.offset >= 0:
            where += f", offset {one.offset}"
        text = f"{printable(where)}: {printable(one.detail)}"
        out.print(Padding(text, (0, 0, 0, 4), expand=False))
    if kind.total > FINDINGS_SHOWN_MAX:
        out.print(
            Padding(f"and {kind.total - FINDINGS_SHOWN_MAX:,} more", (0, 0, 0, 4), expand=False)
        )


def _from_here(path: str) -> str:
    """Return a path below the current directory without it."""
    return path.removeprefix(f"{Path.cwd()}/")
