"""`make bench-check`: has a ratio fallen since the last committed run?

A short run is made and each ratio of ``targets.toml`` is compared with the committed one. Both
are ratios to a peer within one run, of the rounds that others disturbed least, so a slower or a
busier machine changes neither. What seems to have fallen is measured in another lap before it
counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, report, results
from benchmarks.run import RunError, measure, warnings, wide_console
from rich.console import Console
from rich.table import Table

TOLERANCE = 0.25  # The part of a ratio that may go before it counts: runs differ by some 10 %.
LAPS = 2
FELL, LOST, NEW, FINE, UNKNOWN = "fell", "lost", "new", "fine", "not measured"
FAILING = (FELL, LOST)


@dataclass(frozen=True)
class Verdict:
    """A row: its ratio then and now, and what that means."""

    target: results.Target
    then: results.Ratio
    now: results.Ratio
    lowest: float | None  # What ``now`` may not be below.
    kind: str

    def as_json(self) -> dict[str, Any]:
        """The row for ``--json``."""
        return {
            "row": self.target.name,
            "group": self.target.group,
            "ours": self.target.ours,
            "peer": self.target.against,
            "committed": self.then.value,
            "measured": self.now.value,
            "lowest": self.lowest,
            "verdict": self.kind,
            "reason": self.now.lacks or self.then.lacks,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; the exit code is 1 where a ratio fell or was lost, 2 where nothing compares."""
    parser = argparse.ArgumentParser(prog="make bench-check", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--tolerance", type=float, help=f"a part of 1 (default: {TOLERANCE})")
    parser.add_argument("--measured", type=Path, help="a run that was made already")
    parser.add_argument("--against", type=Path, help="a run instead of the last committed one")
    parser.add_argument("-k", dest="chosen", help="only the benchmarks that pytest's -k chooses")
    parser.add_argument("--laps", type=int, default=LAPS, help=f"passes (default: {LAPS})")
    parser.add_argument("--no-peers", action="store_true", help="no Java, Go, Rust and JavaScript")
    options = parser.parse_args(arguments)
    console = wide_console(stderr=options.json)
    try:
        then = results.load(options.against) if options.against else committed()
        now = results.load(options.measured) if options.measured else None
        if now is None:
            verdicts, run = settle(console, then, options)
        else:
            verdicts, run = compare(then, now, options.tolerance), now
    except (results.ResultsError, RunError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        return 2
    if options.json:
        print(json.dumps([verdict.as_json() for verdict in verdicts], indent=2))
    else:
        console.print(table(verdicts))
    for text in [*warnings(run), *_other_machine(then, run)]:
        console.print(text, style="yellow", markup=False, highlight=False)
    return conclude(console, verdicts)


def committed() -> dict[str, Any]:
    """The run of the last commit, or of the file where there is no git.

    Raises:
        ResultsError: there is none.
    """
    name = results.COMMITTED.relative_to(machine.ROOT).as_posix()
    command = ["git", "show", f"HEAD:{name}"]
    try:
        done = subprocess.run(
            command, cwd=machine.ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return results.load(results.COMMITTED)
    if done.returncode != 0:
        return results.load(results.COMMITTED)
    return results.parse(done.stdout, f"{name} of the last commit")


def settle(
    console: Console, then: dict[str, Any], options: argparse.Namespace
) -> tuple[list[Verdict], dict[str, Any]]:
    """Measure, and once more where something seems to have fallen: the verdicts and the run."""
    partly = options.no_peers or options.chosen is not None

    def lap(count: int) -> dict[str, Any]:
        return measure(
            console, count, quick=True, chosen=options.chosen, peers=not options.no_peers
        )

    run = lap(options.laps)
    verdicts = compare(then, run, options.tolerance, partly=partly)
    if any(verdict.kind == FELL for verdict in verdicts):
        console.print("Some ratios seem to have fallen: one more lap.")
        run["rows"] = results.join([run["rows"], lap(1)["rows"]])
        run["laps"] += 1
        verdicts = compare(then, run, options.tolerance, partly=partly)
    return verdicts, run


def compare(
    then: dict[str, Any], now: dict[str, Any], tolerance: float | None, *, partly: bool = False
) -> list[Verdict]:
    """Judge each row of the targets; ``partly``: a row that was not measured is not lost."""
    missing = set(now["missing"])
    verdicts = []
    for target in results.targets():
        before, after = results.steady_ratio(then, target), results.steady_ratio(now, target)
        if partly and after.value is None:
            continue
        allowed = tolerance if tolerance is not None else target.tolerance
        part = TOLERANCE if allowed is None else allowed
        lowest = None if before.value is None else before.value * (1 - part)
        if before.value is None:
            kind = UNKNOWN if after.value is None else NEW
        elif after.value is None:
            # A language that this machine lacks is no fault of the code; a row of ours is.
            kind = UNKNOWN if target.against.partition(" ")[0] in missing else LOST
        else:
            kind = FINE if lowest is None or after.value >= lowest else FELL
        verdicts.append(Verdict(target, before, after, lowest, kind))
    return verdicts


def table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts for a terminal."""
    output = Table("group", "ours", "peer", "committed", "measured", "lowest", "verdict", box=None)
    for verdict in verdicts:
        target = verdict.target
        figures = (verdict.then.value, verdict.now.value, verdict.lowest)
        texts = ("-" if value is None else report.figure(value) for value in figures)
        style = "red" if verdict.kind in FAILING else None
        cells = [target.group, target.ours, target.against, *texts, verdict.kind]
        output.add_row(*cells, style=style)
    return output


def _other_machine(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    if then["machine"]["cpu"] == now["machine"]["cpu"]:
        return []
    return [
        f"The committed run is of another processor ({then['machine']['cpu']}): "
        "where a peer uses other instructions there, a ratio moves by itself."
    ]


def conclude(console: Console, verdicts: Sequence[Verdict]) -> int:
    """Name the rows that fail and return the exit code."""
    compared = [verdict for verdict in verdicts if verdict.kind in (FINE, FELL)]
    failing = [verdict for verdict in verdicts if verdict.kind in FAILING]
    for verdict in failing:
        was = report.figure(verdict.then.value or 0)
        if verdict.now.value is None:
            text = f"lost: {verdict.target.name}: was {was}; {verdict.now.lacks}"
        else:
            text = f"fell: {verdict.target.name}: {was} to {report.figure(verdict.now.value)}"
        console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    unknown = sum(verdict.kind == UNKNOWN for verdict in verdicts)
    console.print(
        f"{len(compared)} ratios compared, {len(failing)} worse, {unknown} not measured",
        highlight=False,
    )
    if failing:
        return 1
    return 0 if compared else 2


if __name__ == "__main__":
    sys.exit(main())
