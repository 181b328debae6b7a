"""``kraftspec conform run --node`` and ``conform record-node``: node vectors, held and made."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.exits import UNEXPECTED_PASS, no_verdict
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
    from kraftspec.conformance.runner.known import KnownFailures
    from kraftspec.conformance.runner.node import NodeReport


def run_node(
    name: str, filters: tuple[str, ...], known: KnownFailures, *, strict: bool, as_json: bool
) -> None:
    """Put node vectors to a node, say what came of it, and exit as a run of vectors does."""
    from kraftspec.conformance.cluster import ClusterError
    from kraftspec.conformance.making.exchanges.nodes import NODES, node_maker
    from kraftspec.conformance.runner.node import run_node as replay_all

    if name not in NODES:
        raise click.BadParameter(
            f"{name!r} is no node; there are {', '.join(NODES)}", param_hint="--node"
        )
    try:
        with progress("Replaying") as advance:
            report = replay_all(
                node_maker(name),
                known=known,
                chosen=lambda vector: all(part in vector.id for part in filters),
                progress=advance,
            )
    except (ClusterError, ValueError) as error:
        raise no_verdict(error) from error
    for warning in report.warnings:
        click.echo(f"Warning: {printable(warning)}", err=True)
    if not report.vectors:
        raise no_verdict(f"no node vector has {' and '.join(filters)!r} in its id")
    if as_json:
        emit_json({"node": name, **asdict(report)})
    else:
        _print(name, report)
    if report.failures or (strict and report.warnings):
        raise click.exceptions.Exit(EXIT_FINDINGS)
    raise click.exceptions.Exit(UNEXPECTED_PASS if report.unexpected_passes else 0)


def _print(name: str, report: NodeReport) -> None:
    from rich import box
    from rich.table import Table

    from kraftspec.cli.conform_failures import FAILURES_SHOWN_MAX

    shown = console()
    for failure in report.failures[:FAILURES_SHOWN_MAX]:
        shown.print(printable(str(failure)), soft_wrap=True, markup=False)
        shown.print(
            f"  repeat: kraftspec conform run --node {name} --filter {failure.vector}",
            soft_wrap=True,
        )
    hidden = len(report.failures) - FAILURES_SHOWN_MAX
    if hidden > 0:
        shown.print(f"and {counted(hidden, 'failure')} more; --json has all")
    for unexpected in report.unexpected_passes[:FAILURES_SHOWN_MAX]:
        shown.print(f"passes, though it is known to fail: {unexpected}", soft_wrap=True)
    table = Table(
        box=box.SIMPLE_HEAD, safe_box=True, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    table.add_column("API", overflow="fold")
    for title in ("as recorded", "different", "known", "passes now"):
        table.add_column(title, justify="right")
    for api, counts in report.apis.items():
        numbers = (
            counts.passed,
            counts.failed,
            counts.known_failures,
            counts.unexpected_passes,
        )
        table.add_row(api, *(f"{number:,}" for number in numbers))
    shown.print(table)
    passed = sum(counts.passed for counts in report.apis.values())
    known = sum(counts.known_failures for counts in report.apis.values())
    shown.print(
        f"{name}: {counted(report.vectors, 'vector')}, {counted(report.steps, 'step')}: "
        f"{counted(passed, 'answer')} as recorded, {len(report.failures):,} different, "
        f"{known:,} known to differ",
        soft_wrap=True,
    )


@click.command("record-node")
@click.option(
    "--filter", "name", default="", metavar="TEXT", help="Only vectors with this in their id."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the vectors go.  [default: those of this package]",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How many more processes must give the same answers.",
)
@json_option
def record_node(name: str, out: Path | None, repeats: int, as_json: bool) -> None:
    """Record the answers of a real Kafka controller as node vectors.

    Needs a JDK and Maven. Recorded bytes hold times, so recording again changes every file. Exit
    code 1: a second process answered differently, and that vector is not written. 3: no recording.
    """
    from kraftspec.conformance.cluster import ClusterError
    from kraftspec.conformance.making.exchanges.make import make_node_vectors
    from kraftspec.conformance.vectors import vectors_root

    try:
        with progress("Recording") as advance:
            recording = make_node_vectors(out or vectors_root(), name, advance, repeats=repeats)
    except (ClusterError, OSError, ValueError) as error:
        notes = "\n".join([str(error), *getattr(error, "__notes__", ())])
        raise no_verdict(notes) from error
    if not recording.vectors:
        raise click.BadParameter(f"no scenario has {name!r} in its id", param_hint="--filter")
    if as_json:
        emit_json(asdict(recording))
    else:
        for failure in recording.unrepeated:
            click.echo(f"not repeated: {printable(str(failure))}", err=True)
        for variant, why in recording.unasked.items():
            click.echo(f"not asked: {variant}: {printable(why)}", err=True)
        click.echo(
            f"{counted(recording.vectors, 'vector')}, {counted(recording.requests, 'request')}: "
            f"{counted(len(recording.changed), 'file')} changed"
        )
    raise click.exceptions.Exit(EXIT_FINDINGS if recording.unrepeated else 0)
