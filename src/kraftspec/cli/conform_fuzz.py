"""``kraftspec conform fuzz``: two adapters, the same random questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
    SECONDS,
    console,
    counted,
    emit_json,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.conformance.fuzz.findings import Finding
    from kraftspec.conformance.fuzz.run import Report

SIDES = 2
GROUPS_SHOWN_MAX = 40
HARNESS_FAILED = 3  # As of a run: an adapter did not start.
RUNS = 20_000


@click.command()
@click.option(
    "--adapter",
    "names",
    multiple=True,
    metavar="NAME",
    help="An adapter (see conform adapters); two of them, the one to trust last.",
)
@click.option(
    "--exec", "commands", multiple=True, metavar="CMD", help="A command in place of an adapter."
)
@click.option("--runs", type=click.IntRange(1), help=f"Inputs to ask about.  [default: {RUNS}]")
@click.option("--seconds", type=SECONDS, help="How long, instead of --runs.")
@click.option("--seed", default=0, help="The same seed asks the same questions.")
@click.option("--filter", "name", default="", metavar="MESSAGE", help="Only these: SET/MESSAGE.")
@click.option("--jobs", default=1, type=click.IntRange(1), help="Pairs of processes.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, help="How long to wait for one reply."
)
@click.option("--policies", is_flag=True, help="Count what is a matter of policy, too.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep each finding in a file of this directory.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, path_type=Path),
    help="Ask the findings of a file or directory again, and nothing else.",
)
@click.option(
    "--write-vector",
    "vectors",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Add the findings to the vectors of this directory, with Kafka's answers (needs Java).",
)
@json_option
def fuzz(
    names: tuple[str, ...],
    commands: tuple[str, ...],
    runs: int | None,
    seconds: float | None,
    seed: int,
    name: str,
    jobs: int,
    timeout_s: float,
    policies: bool,
    out: Path | None,
    replay: Path | None,
    vectors: Path | None,
    as_json: bool,
) -> None:
    """Ask two adapters the same random questions, and keep where they part.

    Values and changed bytes are made from the plans. What parts is made small, and named so that
    the next run finds the same finding, not another one.

    Exit code 0: nothing new. 1: findings that --out did not have yet. 3: an adapter failed.
    """
    from kraftspec.conformance.fuzz.campaign import Campaign, campaign, replayed
    from kraftspec.conformance.fuzz.findings import keep
    from kraftspec.conformance.harness import AdapterError

    if len(names) + len(commands) != SIDES:
        raise click.UsageError("give two of --adapter NAME and --exec CMD")
    if runs is not None and seconds is not None:
        raise click.UsageError("give one of --runs and --seconds")
    if runs is None and seconds is None:
        runs = RUNS
    plan = Campaign(names, commands, name, policies, seed, runs, seconds, timeout_s)
    try:
        if replay is not None:
            report = replayed(plan, replay)
        else:
            with progress("Fuzzing") as advance:
                report = campaign(plan, jobs, advance)
        fresh = list(report.findings.values())
        if out is not None:
            fresh = keep(out, fresh)
        written = _written(list(report.findings.values()), vectors)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except AdapterError as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        raise click.exceptions.Exit(HARNESS_FAILED) from error
    if report.pairs == 0:
        raise click.BadParameter(
            f"there is no pair of {name!r} that both serve", param_hint="--filter"
        )
    if as_json:
        emit_json({**report.to_json(), "new": [finding.signature.id for finding in fresh]})
    else:
        _print(report, len(fresh))
        for line in written:
            click.echo(line)
    raise click.exceptions.Exit(EXIT_FINDINGS if fresh else 0)


def _written(findings: list[Finding], vectors: Path | None) -> list[str]:
    """Write findings as vectors; return a line about each that was, or could not be."""
    if vectors is None or not findings:
        return []
    from kraftspec.conformance.fuzz.campaign import started
    from kraftspec.conformance.fuzz.vector import write_vector

    lines = []
    kafka = started("kafka", sorted({finding.signature.spec for finding in findings}))
    try:
        for finding in findings:
            try:
                path = write_vector(finding, kafka, vectors)
            except ValueError as error:
                lines.append(f"no vector of {finding.signature}: {error}")
            else:
                lines += [f"wrote {path.name}: {finding.signature}"] if path else []
    finally:
        kafka.adapter.stop()
    return lines


def _print(report: Report, fresh: int) -> None:
    from rich.table import Table

    from kraftspec.conformance.fuzz.findings import grouped

    groups = grouped(report.findings.values())
    if groups:
        table = Table("findings", "messages", "for example", box=None, pad_edge=False)
        for group in groups[:GROUPS_SHOWN_MAX]:
            shown = printable(f"{group.first.signature} ({group.first.signature.id})")
            table.add_row(str(group.findings), str(len(group.messages)), shown)
        console().print(table)
    if len(groups) > GROUPS_SHOWN_MAX:
        click.echo(f"and {len(groups) - GROUPS_SHOWN_MAX} more kinds; --json has them all")
    policies = ", ".join(f"{count:,} {name}" for name, count in sorted(report.policies.items()))
    click.echo(
        f"{counted(report.pairs, 'pair')}, {counted(report.inputs, 'input')}: "
        f"{report.agreed:,} alike, {report.refused:,} refused by both, {report.skipped:,} skipped, "
        f"{report.differed:,} parted; policies: {policies or 'none'}"
    )
    if report.loose_ends:
        click.echo(
            f"{report.loose_ends} times an adapter ended, or parted, and did not do it again"
        )
    click.echo(f"{counted(len(report.findings), 'finding')}, {fresh} new, {report.seconds:.1f} s")
