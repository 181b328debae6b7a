"""``kraftspec conform capture``: frames of real clients and nodes, recorded as vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.exits import no_verdict
from kraftspec.cli.output import EXIT_FINDINGS, counted, emit_json, json_option, progress

if TYPE_CHECKING:
    from kraftspec.conformance.making.capture.capture import CaptureReport

SHOWN_MAX = 20


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The files go into DIR/captured; those that are there are replaced.",
    metavar="DIR",
)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    metavar="NAME",
    help="java, go, python, nodes, plain, or short (in seconds); repeatable.  [default: all]",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The cluster's directory; brokers send its name to clients.  [default: one "
    "without a user]",
    metavar="DIR",
)
@json_option
def capture(out: Path, workloads: tuple[str, ...], directory: Path | None, as_json: bool) -> None:
    """Record frames of clients and nodes of a real Kafka cluster.

    Starts three controllers and two brokers on loopback behind a recording proxy, runs clients in
    Java, Go and Python, and checks every frame with our codecs and Kafka's.

    Exit code 0: all codecs agreed and all work was done. 1: otherwise. 3: the cluster failed. Needs
    a JDK, Maven and Go.
    """
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.cluster import ClusterError
    from kraftspec.conformance.making.capture.capture import capture as run_capture
    from kraftspec.conformance.making.capture.session import NEUTRAL_DIRECTORY

    try:
        with progress("Capturing") as advance:
            report = run_capture(
                out.resolve(),
                workloads,
                directory=(directory or NEUTRAL_DIRECTORY).absolute(),
                on_phase=lambda phase: advance(phase, 0, 1),
                progress=advance,
            )
    except (ClusterError, AdapterError) as error:
        raise no_verdict(error) from error
    if as_json:
        from msgspec import to_builtins

        emit_json(to_builtins(report))
    else:
        _print(report)
    has_findings = report.disagreements or report.failures
    raise click.exceptions.Exit(EXIT_FINDINGS if has_findings else 0)


def _print(report: CaptureReport) -> None:
    for title, lines in (("disagreement", report.disagreements), ("failure", report.failures)):
        for line in lines[:SHOWN_MAX]:
            click.echo(f"{title}: {line}", err=True)
        if len(lines) > SHOWN_MAX:
            click.echo(f"and {len(lines) - SHOWN_MAX} more; --json has them all", err=True)
    left_out = {**report.unknown, **report.unrecorded}
    for reason, count in left_out.items():
        click.echo(f"not checked: {counted(count, 'frame')}: {reason}", err=True)
    click.echo(f"recorded  {counted(report.frames, 'frame')}, {report.distinct:,} parts of them")
    click.echo(
        f"kept      {report.kept:,} bodies of {report.pairs:,} pairs, "
        f"{counted(report.headers, 'header')}, {report.bytes / 1e6:.1f} MB; "
        f"{report.withheld:,} withheld"
    )
    click.echo(f"API keys  {len(report.api_keys)}: {', '.join(report.api_keys)}")
    click.echo(f"of nodes  {len(report.kraft)}: {', '.join(report.kraft)}")
    click.echo(f"judged    {counted(len(report.disagreements), 'disagreement')}")
    click.echo(f"took      {report.seconds:.0f} s")
