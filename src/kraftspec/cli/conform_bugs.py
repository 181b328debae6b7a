"""``kraftspec conform bugs``: the bugs of others, their vectors, and releases that fail them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.conform_exits import harness_failed
from kraftspec.cli.output import EXIT_FINDINGS, counted, emit_json, json_option, progress

if TYPE_CHECKING:
    from kraftspec.conformance.raw.bug_evidence import Verdict


@click.command()
@click.option("--filter", "name", default="", metavar="FLAG", help="Only bugs with this in it.")
@click.option("--verify", is_flag=True, help="Fetch, build and try the releases again.")
@click.option("--record", is_flag=True, help="Keep what --verify finds (all bugs only).")
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write the tables into this page (docs/bugs.md), below its mark.",
)
@json_option
def bugs(name: str, verify: bool, record: bool, write: Path | None, as_json: bool) -> None:
    """List known bugs of implementations, and what releases did with their vectors.

    With --verify, releases with the bug and without it are fetched from their registries (Go, Java,
    Maven and Python are needed) and put to the vectors.

    Exit code 0: each release did as it should: with the bug fails, without it passes. 1: one did
    otherwise. 3: a release could not be built.
    """
    from kraftspec.conformance import bug_trials
    from kraftspec.conformance.bugs import bugs as known
    from kraftspec.conformance.bugs_page import write_page
    from kraftspec.conformance.harness import AdapterError

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
            verdicts = [found for found in bug_trials.recorded() if found.flag in flags]
        if record:
            bug_trials.record(verdicts)
        if write is not None:
            write_page(write, bug_trials.recorded())
    except AdapterError as error:
        raise harness_failed(error) from error
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
            "verdicts": [to_builtins(found) for found in verdicts if found.flag == bug.flag],
        }
        for bug in known()
        if bug.flag in flags
    ]


def _print(flags: set[str], verdicts: list[Verdict], wrong: list[Verdict]) -> None:
    for flag in sorted(flags):
        click.echo(flag)
        for found in verdicts:
            if found.flag != flag:
                continue
            kind = "bug" if found.is_buggy else "fixed"
            click.echo(
                f"    {found.test} {found.direction} {found.adapter} {found.release} "
                f"({kind}): {found.verdict}"
            )
    tried = {verdict.flag for verdict in verdicts}
    for found in wrong:
        click.echo(
            f"{found.flag}: {found.adapter} {found.release} {found.verdict} {found.message} "
            f"v{found.version} {found.test}: {found.detail}",
            err=True,
        )
    click.echo(
        f"{counted(len(flags), 'bug')}, {len(tried)} tried on releases: "
        f"{counted(len(verdicts), 'verdict')}, {len(wrong)} otherwise than they should be"
    )
