"""Measure the catalogue and write its table into docs/simulation.md (make simulate-catalogue)."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import median

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import all_bugs
from kraftspec.simulation.catalogue.measure import SECONDS_MAX, SearchResult, search, shrink
from kraftspec.words import between_marks

BEGIN = "<!-- catalogue -->"
END = "<!-- /catalogue -->"


def measure(name: str, seconds_max: float) -> SearchResult:
    """Look for one bug, and make its trace small."""
    profile = KafkaProfile()
    result = search(name, profile, seconds_max=seconds_max)
    shrink(result, profile)
    return result


def render(results: list[SearchResult]) -> str:
    """Return the table, and the sentence above it."""
    sizes = [result.minimised for result in results if result.minimised is not None]
    times = [result.seconds for result in results if result.seed is not None]
    lines = [
        f"{len(times)} of {len(results)} are found, in {median(times):.1f} s of processor time "
        f"(the median; {max(times):.0f} s at the most), and their traces have "
        f"{median(sizes):.0f} events (the median of {len(sizes)}).",
        "",
        "| bug | what it is | broken | runs | s | events |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    bugs = all_bugs()
    for result in results:
        broken = result.violation[0] if result.violation else "**not found**"
        size = "" if result.minimised is None else str(result.minimised)
        lines.append(
            f"| `{result.bug}` | {bugs[result.bug].sentence} | {broken} | {result.seeds} | "
            f"{result.seconds:.1f} | {size} |"
        )
    return "\n".join(lines)


def write(page: Path, table: str) -> None:
    """Put the table between its two marks in a page."""
    page.write_text(between_marks(page.read_text("utf-8"), BEGIN, END, table), "utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="of processor time")
    parser.add_argument("--only", nargs="*", help="these bugs, and nothing is written")
    parser.add_argument("--page", type=Path, default=Path("docs/simulation.md"))
    options = parser.parse_args()
    names = options.only or list(all_bugs())
    results: dict[str, SearchResult] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(measure, name, options.seconds): name for name in names}
        for done in as_completed(waiting):
            result = results[waiting[done]] = done.result()
            broken = result.violation[0] if result.violation else "NOT FOUND"
            sys.stdout.write(
                f"{result.bug}: {broken}, seed {result.seed}, {result.seconds:.1f} s, "
                f"{result.minimised} events\n"
            )
            sys.stdout.flush()
    ordered = [results[name] for name in names]
    if not options.only:
        write(options.page, render(ordered))
    sys.exit(any(result.seed is None for result in ordered))


if __name__ == "__main__":
    main()
