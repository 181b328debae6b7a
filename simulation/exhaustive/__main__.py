"""``python -m kraftspec.simulation.exhaustive``: explore the core; what ``make explore`` runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click

from kraftspec.model import TlcError
from kraftspec.model.rows import put_row
from kraftspec.simulation.catalogue import all_bugs, planted
from kraftspec.simulation.exhaustive import SCOPES, Compared, compare
from kraftspec.simulation.exhaustive.observed import AllSeen, Seen

MARKS = ("<!-- explored -->\n", "<!-- end of explored -->")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "is_list", is_flag=True, help="List what can be explored.")
@click.option("--bug", metavar="NAME", help="Plant a bug of the catalogue.")
@click.option(
    "--write", "page", metavar="PAGE", type=click.Path(path_type=Path, exists=True),
    help="Put the numbers of states into the table of this page.",
)  # fmt: skip
def main(names: tuple[str, ...], is_list: bool, bug: str | None, page: Path | None) -> None:
    """Try every event in every state of a few real nodes; all scopes where none is named.

    What the nodes come to is held against all states of the TLA+ model within the same bounds.
    """
    for name in names:
        if name not in SCOPES:
            raise click.UsageError(f"there is no {name}; there are: {', '.join(SCOPES)}")
    if bug is not None and (bug not in all_bugs() or page is not None):
        raise click.UsageError("--bug takes a name of the catalogue, and does not go with --write")
    unknown = 0
    for name in names or SCOPES:
        if is_list:
            click.echo(f"{name}: {SCOPES[name].about}")
            continue
        try:
            with planted(*([bug] if bug else [])):
                compared = compare(SCOPES[name])
        except TlcError as error:
            raise click.ClickException(str(error)) from error
        for line in told(name, compared):
            click.echo(line)
        unknown += bool(compared.unknown)
        if page is not None:
            _write(page, name, compared)
    sys.exit(unknown > 0)


def told(name: str, compared: Compared) -> Iterator[str]:
    """Yield what came of a scope, as lines."""
    yield (
        f"{name}: {compared.states:,} states of our nodes, {compared.transitions:,} events, "
        f"depth {compared.depth}, {compared.core_steps:,} steps of the core, "
        f"{compared.seconds:.0f} s; {compared.model_states:,} states of the model, "
        f"{compared.model_seconds:.0f} s"
    )
    if not compared.unknown:
        yield (
            f"    as the model sees them, {compared.ours:,} states, all of them among the "
            f"{compared.models:,} of the model"
        )
        return
    what = "the core refuses to go on" if compared.error else "the model has no such state"
    yield f"    after these steps, {what}:"
    for number, (before, after) in enumerate(pairwise(compared.unknown), 1):
        yield f"{number:4}  {'; '.join(_changes(before, after))}"
    if compared.error:
        yield f"      {compared.error}"


def _changes(before: AllSeen, after: AllSeen) -> Iterator[str]:
    pairs = zip(before, after, strict=True)
    return (f"node {at} {_standing(now)}" for at, (old, now) in enumerate(pairs, 1) if old != now)


def _standing(seen: Seen) -> str:
    facts = [f"is {seen.role} of epoch {seen.epoch}", _log(seen)]
    if seen.leader:
        facts.append(f"leader {seen.leader}")
    if seen.vote:
        facts.append(f"vote for {seen.vote}")
    if any(seen.votes):
        facts.append(f"votes of {_numbers(seen.votes)}")
    if any(seen.acknowledged):
        facts.append(f"others have {', '.join(map(str, seen.acknowledged))}")
    if not all(seen.voters):
        facts.append(f"voters {_numbers(seen.voters) or 'unknown'}")
    return ", ".join(facts)


def _log(seen: Seen) -> str:
    epochs = " ".join(map(str, seen.log)) or "nothing"
    return f"log {epochs} (durable {seen.synced}, committed {seen.high_watermark})"


def _numbers(flags: Sequence[int]) -> str:
    return ", ".join(str(at) for at, flag in enumerate(flags, 1) if flag)


def _write(page: Path, name: str, compared: Compared) -> None:
    numbers = (
        compared.states, compared.transitions, compared.core_steps, compared.depth, compared.ours,
        compared.models,
    )  # fmt: skip
    row = f"| `{name}` | {SCOPES[name].about} | " + " | ".join(f"{one:,}" for one in numbers)
    try:
        put_row(page, MARKS, f"{row} |")
    except ValueError as error:
        raise click.UsageError(str(error)) from error


if __name__ == "__main__":
    main()
