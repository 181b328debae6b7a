"""`make bench-pipeline`: the pipeline beside what else reads Kafka's logs, on the same bytes.

A real broker is filled by Apache Kafka's own producer: a topic of uncompressed records, one of
zstd, one of records with headers. Then, lap by lap, each contestant reads the same topics; what is
read is held against what was written. ``--quick`` does all of it on a few megabytes and changes no
file that is committed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pipeline import report, results
from benchmarks.pipeline.bench import FULL, QUICK, Bench
from benchmarks.pipeline.measure import MeasureError
from benchmarks.report import write
from benchmarks.results import disturbances
from benchmarks.run import wide_console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kraftspec.cache import cache_directory
from kraftspec.conformance.cluster import ClusterError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 where something failed or was read otherwise than written."""
    parser = argparse.ArgumentParser(prog="make bench-pipeline", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few megabytes, nothing is written")
    parser.add_argument("--laps", type=int, help=f"how many passes (default: {FULL.laps})")
    parser.add_argument("--out", type=Path, help="write the run to this file, and no page")
    parser.add_argument("--directory", type=Path, help="where the data goes, 6 GB (default: cache)")
    options = parser.parse_args(arguments)
    console = wide_console()
    extent = QUICK if options.quick else FULL
    directory = (options.directory or cache_directory() / "bench-pipeline").resolve()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            run = Bench(extent, options.laps or extent.laps, directory, progress).run()
    except (MeasureError, ClusterError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        return 1
    console.print(ratio_table(run))
    for text in disturbances(run):
        console.print(f"The machine was not quiet: {text}.", style="yellow", highlight=False)
    if options.out:
        options.out.write_text(results.dump(run), "utf-8")
    elif not options.quick:
        results.COMMITTED.write_text(results.dump(run), "utf-8")
        write(report.texts(run))
        console.print(f"Written: {', '.join(report.names())}")
    return 0


def ratio_table(run: results.Run) -> Table:
    """The ratios to reach, for a terminal."""
    table = Table(
        "shape", "ours", "against", "by", "target", "measured", "met", "readings", box=None
    )
    for target in results.targets([topic["shape"] for topic in run["topics"]]):
        ratio = results.ratio(run, target)
        table.add_row(
            target.shape, target.ours, target.against, target.by, f"{target.at_least:g}",
            f"{ratio.value:.2f}", "yes" if ratio.met else "NO",
            f"{ratio.low:.2f} to {ratio.high:.2f}",
            style=None if ratio.met else "red",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
