"""`make bench`: measure ours, the Python peers and those in Java, Go, Rust and JavaScript.

``python -m benchmarks.run`` writes ``benchmarks/results.json`` and, from that, the performance
page. With ``--quick`` or ``-k`` nothing that is committed changes: the ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine, report, results
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kraftspec.fastpath import native

LAPS = 3
ROUND_S = 0.001  # The peers' rounds are as long (peers.programs.Times).
MAX_TIME_S = {"full": 0.3, "quick": 0.1}
WIDTH = 140
_OUTPUT_LINE_COUNT_MAX = 60
_COLLECTED = re.compile(r"collected (\d+) items(?: / (\d+) deselected)?")
_ENDED = re.compile(r"^(\S+::.+) (PASSED|FAILED|SKIPPED|ERROR)\b")


class RunError(Exception):
    """A benchmark failed; the text is the end of pytest's output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 where a benchmark failed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short lap, nothing is written")
    parser.add_argument("--laps", type=int, help=f"how many passes (default: {LAPS})")
    parser.add_argument("-k", dest="chosen", help="only the benchmarks that pytest's -k chooses")
    parser.add_argument("--no-peers", action="store_true", help="no Java, Go, Rust and JavaScript")
    parser.add_argument("--out", type=Path, help="write the run to this file, and no page")
    options = parser.parse_args(arguments)
    console = wide_console()
    quick = bool(options.quick)
    laps = options.laps or (1 if quick else LAPS)
    try:
        run = measure(console, laps, quick=quick, chosen=options.chosen, peers=not options.no_peers)
    except RunError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        return 1
    console.print(ratio_table(run, partly=options.chosen is not None))
    for text in warnings(run):
        console.print(text, style="yellow", markup=False, highlight=False)
    if options.out:
        options.out.write_text(results.dump(run), "utf-8")
    elif not quick and not options.chosen and not options.no_peers:
        results.COMMITTED.write_text(results.dump(run), "utf-8")
        report.write(report.texts(run))
        console.print(f"Written: {', '.join(report.names())}")
    return 0


def wide_console(*, stderr: bool = False) -> Console:
    """A console; without a terminal it is wide enough for the tables."""
    return Console(stderr=stderr, width=None if sys.stdout.isatty() else WIDTH)


def measure(
    console: Console, laps: int, *, quick: bool, chosen: str | None = None, peers: bool = True
) -> dict[str, Any]:
    """Run the benchmarks ``laps`` times; the form of the result is that of ``results.json``.

    Raises:
        RunError: a benchmark failed.
    """
    quiet = machine.Quiet()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    laps_: list[dict[str, Any]] = []
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for lap in range(laps):
            task = progress.add_task(f"lap {lap + 1} of {laps}", total=None)
            laps_.append(_lap(progress, task, quick=quick, chosen=chosen, peers=peers))
    peers_ = laps_[-1].get("peers", {})
    return {
        "format": results.FORMAT,
        "date": machine.now(),
        "commit": machine.commit(),
        "machine": machine.facts(),
        "quiet": quiet.read(),
        "laps": laps,
        "codec": native.describe(),
        "packages": machine.packages(),
        "programs": peers_.get("versions", {}),
        "missing": peers_.get("missing", {}),
        "rows": results.join(map(results.lap_rows, laps_)),
    }


def _lap(
    progress: Progress, task: Any, *, quick: bool, chosen: str | None, peers: bool
) -> dict[str, Any]:
    pace = "quick" if quick else "full"
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "lap.json"
        command = [sys.executable, "-m", "pytest", "benchmarks", "-v", "--no-header"]
        command += ["-p", "no:cacheprovider", "--benchmark-enable", "--benchmark-columns=median"]
        command += [f"--benchmark-json={output}", f"--benchmark-min-time={ROUND_S}"]
        command += [f"--benchmark-max-time={MAX_TIME_S[pace]}"]
        command += [f"--peers={pace if peers else 'off'}"]
        command += ["-W", "ignore:Not saving anything"]  # The count of tests says it as well.
        command += ["-k", chosen] if chosen else []
        last: deque[str] = deque(maxlen=_OUTPUT_LINE_COUNT_MAX)
        # A worker of xdist may have started this; the new process must not see that.
        environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
        with subprocess.Popen(
            command,
            cwd=machine.ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                last.append(line.rstrip())
                _show(progress, task, line)
        if process.returncode != 0:
            raise RunError("\n".join(last))
        lap: dict[str, Any] = json.loads(output.read_text("utf-8"))
    return lap


def _show(progress: Progress, task: Any, line: str) -> None:
    if collected := _COLLECTED.search(line):
        total = int(collected[1]) - int(collected[2] or 0)
        progress.update(task, total=total)
    elif _ENDED.match(line):
        progress.advance(task)


def ratio_table(run: dict[str, Any], *, partly: bool) -> Table:
    """The ratios to reach, for a terminal; ``partly``: those that were measured."""
    heads = ("group", "ours", "against", "target", "measured", "met", "laps", "undisturbed")
    table = Table(*heads, box=None)
    for target in results.targets():
        ratio = results.ratio(run, target)
        row = [target.group, target.ours, target.against, f"{target.at_least:g}"]
        if ratio.value is None and partly:
            continue
        if ratio.value is None:
            row += ["-", ratio.lacks or ""]
        else:
            row += [report.figure(ratio.value), "yes" if ratio.met else "NO"]
            row += [report.laps(ratio), report.steady(run, target)]
        table.add_row(*row, style="red" if ratio.met is False else None)
    return table


def warnings(run: dict[str, Any]) -> list[str]:
    """Warnings for the reader of a run: missing peers, and noise."""
    lines = [f"{name} was not measured: {why}" for name, why in run["missing"].items()]
    noise = results.noise(run)
    if noise:
        lines.append("The machine was not quiet: " + "; ".join(noise) + ".")
    return lines


if __name__ == "__main__":
    sys.exit(main())
