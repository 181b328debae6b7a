"""``kraftspec conform fuzz``: two adapters, the same random questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.exits import no_verdict
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
    from kraftspec.conformance.fuzz.findings import Disagreement
    from kraftspec.conformance.fuzz.run import Report

SIDES = 2
GROUPS_SHOWN_MAX = 40
RUNS = 20_000


@click.command()
@click.option(
    "--adapter",
    "names",
    multiple=True,
    metavar="NAME",
    help="An adapter (see conform adapters). Give two, the trusted one last.",
)
@click.option(
    "--exec", "commands", multiple=True, metavar="CMD", help="A command in place of an adapter."
)
@click.option("--runs", type=click.IntRange(1), help=f"Number of inputs.  [default: {RUNS}]")
@click.option("--seconds", type=SECONDS, help="How long, instead of --runs.")
@click.option("--seed", default=0, help="The same seed sends the same requests.")
@click.option("--filter", "name", default="", metavar="MESSAGE", help="Only these: SET/MESSAGE.")
@click.option("--jobs", default=1, type=click.IntRange(1), help="Pairs of processes.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, help="How long to wait for one reply."
)
@click.option("--policies", is_flag=True, help="Also report differences of policy.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep each finding in a file of this directory.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, path_type=Path),
    help="Only repeat the findings of a file or directory.",
)
@click.option(
    "--write-vector",
    "vectors",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Add the findings as vectors to this directory, with Kafka's answers (needs Java).",
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
    """Send two adapters the same random requests, and keep the differences.

    Values and changed bytes are made from the plans. Each difference is minimised, and has a
    signature that is the same in the next run.

    Exit code 0: nothing new. 1: findings that --out did not have yet. 3: an adapter failed.
    """
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.fuzz.campaign import Campaign, campaign, replayed
    from kraftspec.conformance.fuzz.findings import keep

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
        raise no_verdict(error) from error
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


def _written(findings: list[Disagreement], vectors: Path | None) -> list[str]:
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
        f"{report.agreed:,} equal, {report.refused:,} refused by both, {report.skipped:,} skipped, "
        f"{report.differed:,} different; policies: {policies or 'none'}"
    )
    if report.loose_ends:
        click.echo(
            f"{report.loose_ends} times an adapter ended or differed and did not do so again"
        )
    click.echo(f"{counted(len(report.findings), 'finding')}, {fresh} new, {report.seconds:.1f} s")
