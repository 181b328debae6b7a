"""``python -m kraftspec.interop.wrecks.matrix``: `quorum recover` on wrecks, seeds times kinds.

Each cell takes a copy of a wreck, types the command, and judges what it left on real processes.
Its result is a file, and a cell that has one is not run again: the same command goes on. Several
processes may share the work: each takes a cell that no other one has.
"""

from __future__ import annotations

import datetime
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from kraftspec.cache import locked
from kraftspec.conformance.cluster import RELEASE, RELEASES, ClusterError
from kraftspec.interop.ours import CheckFailedError
from kraftspec.interop.wrecks.__main__ import kinds_of, seeds_of
from kraftspec.interop.wrecks.cells import (
    FAILED,
    NOT_MADE,
    PASSED,
    Cell,
    keep_cell,
    read_cells,
)
from kraftspec.interop.wrecks.cures import Cured, CureError, cure, is_refused
from kraftspec.interop.wrecks.judge import Changes, judge
from kraftspec.interop.wrecks.kept import make
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.making import copy_wreck
from kraftspec.interop.wrecks.manifest import Manifest, read_manifest
from kraftspec.interop.wrecks.page import PAGE, with_cells
from kraftspec.interop.wrecks.standing import FIRST_ADDED_ID
from kraftspec.reference.recovery import Severity, verify

INTERRUPTED: Final = 130
EXITS: Final = {PASSED: 0, FAILED: 1, NOT_MADE: 3}


def run_cell(kind: str, seed: int, release: str) -> Cell:
    """Make the wreck if it is not there, recover a copy of it, and judge that."""
    begun = time.monotonic()
    cell = Cell(kind=kind, seed=seed, release=release, outcome=NOT_MADE)
    cell.begun = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
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
        return _refused(home, manifest, story)
    cured = Cured({}, {})
    problems = judge(home, manifest, lambda home, of: cure(home, of, cured), story.append)
    if problems:
        return problems
    lost = set(manifest.truth.records) - set(manifest.truth.kept)
    if lost and "--pad-to" not in manifest.options:  # What that is for is in no directory.
        printed = "\n".join(line for loss in cured.written["losses"] for line in loss["records"])
        problems += [f"{name} is lost, and was not printed" for name in lost if name not in printed]
    return problems + _verified(home, manifest)


def _refused(home: Path, manifest: Manifest, story: list[str]) -> list[str]:
    """Return what is wrong with a refusal; where controllers run, with all of them afterwards."""
    running = [facts.id for facts in manifest.nodes if facts.state == "live"]
    controllers = [facts.id for facts in manifest.given() if facts.roles == "controller"]
    if not set(running) & set(controllers):
        return is_refused(home, manifest)

    def refuse(home: Path, of: Manifest) -> Changes:
        problems = is_refused(home, manifest, running)
        if problems:
            raise CureError("; ".join(problems))
        return {}

    whole = msgspec.structs.replace(manifest, keep=controllers)
    return judge(home, whole, refuse, story.append) or _verified(home, whole)


def _verified(home: Path, manifest: Manifest) -> list[str]:
    """Return what `quorum verify` finds wrong afterwards, in the logs of who goes on."""
    added = [path.name for path in home.glob("controller-*")]
    names = [name for name in added if int(name.rpartition("-")[2]) >= FIRST_ADDED_ID]
    names += [manifest.node(id).name for id in manifest.keep]
    names += [node.name for node in manifest.nodes if node.roles == "broker"]
    judgement = verify([str(home / name / "data-0") for name in sorted(names)])
    return [
        f"verify: {one.code}: {one.text}"
        for one in judgement.verdicts
        if one.severity is not Severity.NOTE
    ]


# ---- the command -------------------------------------------------------------------------------


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
@click.option("--page", is_flag=True, help=f"Write what is there into {PAGE}.")
def main(
    kinds: tuple[str, ...],
    seeds: range,
    release: str,
    out: Path,
    again: bool,
    show: bool,
    page: bool,
) -> None:
    """Recover wrecked quorums of real Kafka; go on where the last run ended.

    Exit code: 0 all passed, 1 one failed, 3 not all were made or run, 130 interrupted.
    """
    out.mkdir(parents=True, exist_ok=True)
    names = kinds or tuple(KINDS)
    wanted = [
        Cell(kind=kind, seed=seed, release=release, outcome="") for seed in seeds for kind in names
    ]
    before = read_cells(out)
    for number, cell in enumerate([] if show else wanted, 1):
        try:
            with locked(out / f"{cell.name}.lock", wait=False):
                known = read_cells(out).get(cell.name)
                failed_before = again and known == before.get(cell.name)
                if known is not None and (known.outcome == PASSED or not failed_before):
                    continue
                result = run_cell(cell.kind, cell.seed, release)
                keep_cell(out, result)
        except BlockingIOError:
            continue  # Another process runs it.
        except KeyboardInterrupt:
            click.echo("Interrupted: the same command goes on.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        click.echo(
            f"{number}/{len(wanted)} {cell.kind} {cell.seed}: {result.outcome}, "
            f"{result.seconds:.0f} s" + "".join(f"\n    {text}" for text in result.problems),
            err=True,
        )
    cells = read_cells(out)
    if page:
        PAGE.write_text(with_cells(PAGE.read_text("utf-8"), list(cells.values())), "utf-8")
    of = [cells[cell.name] for cell in wanted if cell.name in cells]
    Console().print(table(of, names, seeds))
    codes = {EXITS[cell.outcome] for cell in of} | ({0} if len(of) == len(wanted) else {3})
    raise click.exceptions.Exit(1 if 1 in codes else max(codes))


if __name__ == "__main__":
    main()
