"""``kraftspec conform bugs``: the bugs of others, their vectors, and releases that fail them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import no_verdict
from kraftspec.cli.output import EXIT_FINDINGS, counted, emit_json, json_option, progress

if TYPE_CHECKING:
    from kraftspec.conformance.raw.bug_evidence import Verdict


@click.command()
@click.option(
    "--filter", "name", default="", metavar="FLAG", help="Only bugs with this in their flag."
)
@click.option("--verify", is_flag=True, help="Fetch, build and try the releases again.")
@click.option("--record", is_flag=True, help="Record the results of --verify (only for all bugs).")
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write the tables into this page (docs/bugs.md), below its mark.",
)
@json_option
def bugs(name: str, verify: bool, record: bool, write: Path | None, as_json: bool) -> None:
    """List known bugs of implementations, and the results of releases.

    With --verify, releases with and without the bug are fetched from their registries and run
    against the vectors. Go, Java, Maven and Python are needed.

    Exit code 0: each release with the bug fails and each without it passes. 1: otherwise. 3: a
    release could not be built.
    """
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.bugs import bugs as known
    from kraftspec.conformance.bugs import trials as bug_trials
    from kraftspec.conformance.bugs.page import write_page

    if record and (name or not verify):
        raise click.UsageError("--record goes with --verify, and without --filter")
    chosen = [bug for bug in known() if name.lower() in bug.flag.lower()]
    if not chosen:
        raise click.BadParameter(f"no bug has {name!r} in its flag", param_hint="--filter")
    flags = {bug.flag for bug in chosen}
    try:
        if verify:
            with progress("Trying releases") as advance:
                verdicts = bug_trials.verify(name, progress=advance)
        else:
            verdicts = [trial for trial in bug_trials.recorded() if trial.flag in flags]
        if record:
            bug_trials.record(verdicts)
        if write is not None:
            write_page(write, bug_trials.recorded())
    except AdapterError as error:
        raise no_verdict(error) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    wrong = [verdict for verdict in verdicts if not bug_trials.as_expected(verdict)]
    if as_json:
        emit_json(_shown(flags, verdicts))
    else:
        _print(flags, verdicts, wrong)
    raise click.exceptions.Exit(EXIT_FINDINGS if wrong else 0)


def _shown(flags: set[str], verdicts: list[Verdict]) -> list[dict[str, Any]]:
    from msgspec import to_builtins

    from kraftspec.conformance.bugs import bugs as known

    return [
        {
            **to_builtins(bug),
            "verdicts": [to_builtins(trial) for trial in verdicts if trial.flag == bug.flag],
        }
        for bug in known()
        if bug.flag in flags
    ]


def _print(flags: set[str], verdicts: list[Verdict], wrong: list[Verdict]) -> None:
    for flag in sorted(flags):
        click.echo(flag)
        for trial in verdicts:
            if trial.flag != flag:
                continue
            kind = "bug" if trial.is_buggy else "fixed"
            click.echo(
                f"    {trial.test} {trial.direction} {trial.adapter} {trial.release} "
                f"({kind}): {trial.verdict}"
            )
    tried = {verdict.flag for verdict in verdicts}
    for trial in wrong:
        click.echo(
            f"{trial.flag}: {trial.adapter} {trial.release} {trial.verdict} {trial.message} "
            f"v{trial.version} {trial.test}: {trial.detail}",
            err=True,
        )
    click.echo(
        f"{counted(len(flags), 'bug')}, {len(tried)} tried on releases: "
        f"{counted(len(verdicts), 'verdict')}, {len(wrong)} unexpected"
    )
