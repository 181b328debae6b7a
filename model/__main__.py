"""``python -m kraftspec.model``: let TLC check the model; what ``make model`` runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kraftspec.model import Group, Result, TlcError, groups, run, story
from kraftspec.model.groups import SAFETY, defaults
from kraftspec.model.rows import put_row

MARKS = ("<!-- groups -->\n", "<!-- end of groups -->")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1))
@click.option("--heap-mib", default=3072, show_default=True, type=click.IntRange(256))
@click.option("--simulate", "simulate_s", default=0.0, metavar="SECONDS",
              help="Random behaviours instead of all states.")  # fmt: skip
@click.option("--depth", default=100, show_default=True, help="Steps of a random behaviour.")
@click.option("--seed", default=0, show_default=True)
@click.option("--set", "changed", multiple=True, metavar="NAME=VALUE", help="Another constant.")
@click.option("--list", "is_list", is_flag=True, help="List what can be checked.")
@click.option(
    "--write", "page", metavar="PAGE", type=click.Path(path_type=Path, exists=True),
    help="Put the number of states of each group into the table of this page.",
)  # fmt: skip
def main(
    names: tuple[str, ...],
    changed: tuple[str, ...],
    is_list: bool,
    page: Path | None,
    **options: Any,
) -> None:
    """Check groups of the model with TLC; all of them where none is named.

    A fault has to break its property, and its counterexample is printed in words; of all others,
    every property has to hold.
    """
    known = groups()
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no group {name}; there are: {', '.join(known)}")
    constants = _constants(changed)
    if page is not None and (constants or options["simulate_s"]):
        raise click.UsageError("--write is of whole groups in their own scope")
    failed = 0
    for name in names or known:
        if is_list:
            breaks = f"; breaks {known[name].breaks}" if known[name].breaks else ""
            click.echo(f"{name}: {known[name].about}{breaks}")
        else:
            group = known[name].with_constants(constants)
            result = _checked(name, group, options)
            if result.broken != group.breaks:
                failed += 1
                wanted = f"break {group.breaks}" if group.breaks else "hold"
                click.echo(f"{name} has to {wanted}", err=True)
            if page is not None and result.is_complete and group.specification == SAFETY:
                _write(page, name, group, result)
    sys.exit(failed > 0)


def _constants(changed: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=VALUE`` of constants that the model has."""
    constants = dict(one.partition("=")[::2] for one in changed)
    for name, value in constants.items():
        if name not in defaults().constants or not value:
            raise click.UsageError(
                f"--set {name}: it is NAME=VALUE of a constant of KRaft.tla, such as MaxEpoch=3; "
                f"there are: {', '.join(defaults().constants)}"
            )
    return constants


def _checked(name: str, group: Group, options: dict[str, Any]) -> Result:
    """Check one, and print what came of it."""
    options = options | {"simulate_s": options["simulate_s"] or group.simulate_s}
    try:
        result = run(group, progress=lambda line: click.echo(line, err=True), **options)
    except TlcError as error:
        raise click.ClickException(str(error)) from error
    states = f"{result.generated:,} states"
    if result.is_complete:
        states += f", {result.distinct:,} distinct, depth {result.depth}"
    held = "all properties hold" if result.is_complete else "nothing broke at random"
    verdict = f"breaks {result.broken}" if result.broken else held
    click.echo(f"{name}: {verdict}; {states}, {result.seconds:.0f} s")
    for line in story(result.trace):
        click.echo(line)
    return result


def _write(page: Path, name: str, group: Group, result: Result) -> None:
    """Put a group's row into the table of a page."""
    states = f"{result.generated:,} | {result.distinct:,} | {result.depth}"
    try:
        put_row(page, MARKS, f"| `{name}` | {group.about} | {states} |")
    except ValueError as error:
        raise click.UsageError(str(error)) from error


if __name__ == "__main__":
    main()
