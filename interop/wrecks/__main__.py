"""``python -m kraftspec.interop.wrecks KIND --seeds 0..9``: make wrecks, and keep them."""

from __future__ import annotations

import time

import click

from kraftspec.conformance.cluster import RELEASE, RELEASES
from kraftspec.interop.wrecks.kept import make
from kraftspec.interop.wrecks.kinds import KINDS


def seeds_of(context: click.Context, parameter: click.Parameter, text: str) -> range:
    """Return the seeds of ``FIRST..LAST``, or of one."""
    first, _, last = text.partition("..")
    if not first.isdecimal() or not (last or "0").isdecimal():
        raise click.BadParameter(f"{text!r} is neither a seed nor FIRST..LAST")
    return range(int(first), int(last or first) + 1)


def kinds_of(
    context: click.Context, parameter: click.Parameter, kinds: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the kinds, if all of them are known."""
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise click.BadParameter(f"no such kinds: {unknown}; there are {sorted(KINDS)}")
    return kinds


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...", callback=kinds_of)
@click.option(
    "--seeds", default="0..9", show_default=True, metavar="FIRST..LAST", callback=seeds_of
)
@click.option("--release", default=RELEASE, show_default=True, type=click.Choice(RELEASES))
def main(kinds: tuple[str, ...], seeds: range, release: str) -> None:
    """Make wrecks of these kinds, or of all; those that are there already stay."""
    for seed in seeds:
        for kind in kinds or KINDS:
            begun = time.monotonic()
            path = make(kind, seed, release)
            click.echo(f"{path} ({time.monotonic() - begun:.0f} s)")


if __name__ == "__main__":
    main()
