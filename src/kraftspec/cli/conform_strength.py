"""``kraftspec conform strength``: the vectors, measured by wrong plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
    console,
    counted,
    emit_json,
    json_option,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.conformance.strength import Strength

SURVIVORS_SHOWN_MAX = 20


@click.command()
@click.option(
    "--filter", "name", default="", metavar="MESSAGE", help="Only messages of these: SET/MESSAGE."
)
@click.option("--one-in", default=1, type=click.IntRange(1), help="A sample: one mutant in N.")
@click.option("--seed", default=0, help="Which sample.")
@click.option("--jobs", default=1, type=click.IntRange(1), help="Processes.  [default: 1]")
@click.option(
    "--vectors",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the vectors of this directory.  [default: those of this package]",
)
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Put the tables into this page (docs/strength.md), between its marks.",
)
@json_option
def strength(
    name: str,
    one_in: int,
    seed: int,
    jobs: int,
    vectors: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Measure the vectors: how many wrong plans do they detect?

    Changes the plan of every message and version in every place (widths, signs, nulls, order, tags,
    defaults, versions, lengths), runs each wrong codec against the vectors, and lists those that no
    vector fails.

    Exit code 0: all are detected. 1: some are not.
    """
    from kraftspec.conformance.strength import strength as measure
    from kraftspec.conformance.strength.page import write_page

    with progress("Running mutants") as advance:
        result = measure(
            name=name, root=vectors, one_in=one_in, seed=seed, jobs=jobs, progress=advance
        )
    if result.total.mutants == 0:
        raise click.BadParameter(f"no message name contains {name!r}", param_hint="--filter")
    if write is not None:
        try:
            write_page(write, result)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
    if as_json:
        emit_json(result.to_json())
    else:
        _print(result)
    raise click.exceptions.Exit(EXIT_FINDINGS if result.survivors else 0)


def _print(result: Strength) -> None:
    from rich.table import Table

    table = Table("operator", box=None, pad_edge=False)
    for title in ("mutants", "killed", "by encode", "by decode"):
        table.add_column(title, justify="right")
    for operator, tally in sorted(result.operators.items()):
        counts = (tally.mutants, tally.killed, tally.by_encode, tally.by_decode)
        table.add_row(operator, *(f"{count:,}" for count in counts))
    console().print(table)
    for survivor in sorted(result.survivors)[:SURVIVORS_SHOWN_MAX]:
        click.echo(f"survived the {survivor.codec}: {survivor}")
    hidden = len(result.survivors) - SURVIVORS_SHOWN_MAX
    if hidden > 0:
        click.echo(f"and {hidden:,} more; --json has them all")
    total = result.total
    runs = ", ".join(f"{count:,} {codec}" for codec, count in result.runs.items())
    click.echo(
        f"{counted(result.pairs, 'pair')}, {counted(total.mutants, 'mutant')} ({runs}): "
        f"{total.killed:,} killed, {result.percent:.2f} %, {result.seconds:.1f} s"
    )
