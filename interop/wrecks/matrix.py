"""``python -m kraftspec.interop.wrecks.matrix``: `quorum recover` on wrecks, seeds times kinds.

Each cell takes a copy of a wreck, types the command, and judges what it left on real processes.
Its result is a file, and a cell that has one is not run again: the same command goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from kraftspec.conformance.cluster import RELEASE, RELEASES, ClusterError
from kraftspec.interop.ours import CheckFailedError
from kraftspec.interop.wrecks.__main__ import kinds_of, seeds_of
from kraftspec.interop.wrecks.cures import Cured, CureError, cure, is_refused
from kraftspec.interop.wrecks.judge import judge
from kraftspec.interop.wrecks.kept import make
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.making import copy_wreck
from kraftspec.interop.wrecks.manifest import Manifest, read_manifest
from kraftspec.interop.wrecks.standing import FIRST_ADDED_ID
from kraftspec.reference.recovery import Severity, verify

INTERRUPTED: Final = 130
PASSED, FAILED, NOT_MADE = "passed", "FAILED", "not made"
EXITS: Final = {PASSED: 0, FAILED: 1, NOT_MADE: 3}


class Cell(msgspec.Struct, kw_only=True):
    """The result of a wreck. ``story`` is what happened, ``problems`` what should not have."""

    kind: str
    seed: int
    release: str
    outcome: str
    expected: str = ""
    problems: list[str] = []
    story: list[str] = []
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.kind}-{self.seed}-{self.release}.json"


def run_cell(kind: str, seed: int, release: str) -> Cell:
    """Make the wreck if it is not there, recover a copy of it, and judge that."""
    begun = time.monotonic()
    cell = Cell(kind=kind, seed=seed, release=release, outcome=NOT_MADE)
    try:
        wreck = make(kind, seed, release)
    except (CheckFailedError, ClusterError, OSError) as error:
        cell.problems = [str(error)]
        return cell
    with tempfile.TemporaryDirectory(prefix="kraftspec-wreck-") as directory:
        home = Path(directory, "copy").resolve()
        copy_wreck(wreck, home)
        manifest = read_manifest(home)
        cell.expected = manifest.expect
        try:
            cell.problems = _problems(home, manifest, cell.story)
        except (CureError, OSError) as error:
            cell.problems = [str(error)]
    cell.outcome = FAILED if cell.problems else PASSED
    cell.seconds = round(time.monotonic() - begun, 1)
    return cell


def _problems(home: Path, manifest: Manifest, story: list[str]) -> list[str]:
    if manifest.expect != "recovered":
        return is_refused(home, manifest)
    cured = Cured({}, {})
    problems = judge(home, manifest, lambda home, of: cure(home, of, cured), story.append)
    if problems:
        return problems
    if set(manifest.truth.records) - set(manifest.truth.kept) and not cured.written["losses"]:
        problems.append("topics are lost, and no loss was printed")
    return problems + _verified(home, manifest)


def _verified(home: Path, manifest: Manifest) -> list[str]:
    """Return what `quorum verify` finds wrong afterwards, in the logs of who goes on."""
    added = [path.name for path in home.glob("controller-*")]
    names = [name for name in added if int(name.rpartition("-")[2]) >= FIRST_ADDED_ID]
    names += [manifest.node(id).name for id in manifest.keep]
    names += [node.name for node in manifest.nodes if node.roles == "broker"]
    found = verify([str(home / name / "data-0") for name in sorted(names)])
    return [
        f"verify: {one.code}: {one.text}"
        for one in found.verdicts
        if one.severity is not Severity.NOTE
    ]


# ---- the command -------------------------------------------------------------------------------


def read_cells(out: Path) -> dict[str, Cell]:
    """Return the results that are there, by the names of their files."""
    paths = sorted(out.glob("*.json"))
    return {path.name: msgspec.json.decode(path.read_bytes(), type=Cell) for path in paths}


def keep_cell(out: Path, cell: Cell) -> None:
    """Write a result, whole or not at all."""
    part = out / f"{cell.name}.part"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(cell), indent=1) + b"\n")
    part.rename(out / cell.name)


def table(cells: Sequence[Cell], kinds: Iterable[str], seeds: Sequence[int]) -> Table:
    """Return what came of each kind."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("Kind")
    for name in ("Expected", PASSED, FAILED, NOT_MADE, "To do", "Seconds"):
        shown.add_column(name, justify="left" if name == "Expected" else "right")
    for kind in kinds:
        of = [cell for cell in cells if cell.kind == kind]
        counts = [sum(cell.outcome == outcome for cell in of) for outcome in EXITS]
        expected = next((cell.expected for cell in of if cell.expected), "")
        done = [cell.seconds for cell in of if cell.seconds]
        mean = f"{sum(done) / len(done):.0f}" if done else ""
        left = len(seeds) - len(of)
        shown.add_row(kind, expected, *map(str, counts), str(left), mean)
    return shown


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...", callback=kinds_of)
@click.option(
    "--seeds", default="0..9", show_default=True, metavar="FIRST..LAST", callback=seeds_of
)
@click.option("--release", default=RELEASE, show_default=True, type=click.Choice(RELEASES))
@click.option(
    "--out", default="build/recover-matrix", show_default=True, metavar="DIR",
    type=click.Path(path_type=Path), help="Where the results are, and stay.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Run those again that did not pass.")
@click.option("--show", is_flag=True, help="Run nothing: the table of what is there.")
def main(
    kinds: tuple[str, ...], seeds: range, release: str, out: Path, again: bool, show: bool
) -> None:
    """Recover wrecked quorums of real Kafka; go on where the last run ended.

    Exit code: 0 all passed, 1 one failed, 3 not all were made or run, 130 interrupted.
    """
    out.mkdir(parents=True, exist_ok=True)
    names = kinds or tuple(KINDS)
    wanted = [
        Cell(kind=kind, seed=seed, release=release, outcome="") for seed in seeds for kind in names
    ]
    cells = read_cells(out)
    for number, cell in enumerate([] if show else wanted, 1):
        known = cells.get(cell.name)
        if known is not None and (known.outcome == PASSED or not again):
            continue
        try:
            found = run_cell(cell.kind, cell.seed, release)
        except KeyboardInterrupt:
            click.echo("Interrupted: the same command goes on.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        keep_cell(out, found)
        cells[cell.name] = found
        click.echo(
            f"{number}/{len(wanted)} {cell.kind} {cell.seed}: {found.outcome}, "
            f"{found.seconds:.0f} s" + "".join(f"\n    {text}" for text in found.problems),
            err=True,
        )
    of = [cells[cell.name] for cell in wanted if cell.name in cells]
    Console().print(table(of, names, seeds))
    codes = {EXITS[cell.outcome] for cell in of} | ({0} if len(of) == len(wanted) else {3})
    raise click.exceptions.Exit(1 if 1 in codes else max(codes))


if __name__ == "__main__":
    main()
