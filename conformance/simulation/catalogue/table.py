"""Measure the catalogue and write its table into docs/simulation.md (make simulate-catalogue)."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import median

from kraftspec.conformance.simulation.catalogue import all_bugs
from kraftspec.conformance.simulation.catalogue.measure import SECONDS_MAX, Found, search, shrink
from kraftspec.reference.profiles.kafka import KafkaProfile

BEGIN = "<!-- catalogue -->"
END = "<!-- /catalogue -->"


def measure(name: str, seconds_max: float) -> Found:
    """Look for one bug, and make its trace small."""
    profile = KafkaProfile()
    found = search(name, profile, seconds_max=seconds_max)
    shrink(found, profile)
    return found


def render(founds: list[Found]) -> str:
    """Return the table, and the sentence above it."""
    sizes = [found.minimised for found in founds if found.minimised is not None]
    times = [found.seconds for found in founds if found.seed is not None]
    lines = [
        f"{len(times)} of {len(founds)} are found, in {median(times):.1f} s of processor time "
        f"(the median; {max(times):.0f} s at the most), and their traces have "
        f"{median(sizes):.0f} events (the median of {len(sizes)}; liveness has none).",
        "",
        "| bug | what it is | broken | runs | s | events |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    bugs = all_bugs()
    for found in founds:
        broken = found.violation[0] if found.violation else "**not found**"
        size = "" if found.minimised is None else str(found.minimised)
        lines.append(
            f"| `{found.bug}` | {bugs[found.bug].sentence} | {broken} | {found.seeds} | "
            f"{found.seconds:.1f} | {size} |"
        )
    return "\n".join(lines)


def write(page: Path, table: str) -> None:
    """Put the table between its two marks in a page."""
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}", "utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="of processor time")
    parser.add_argument("--only", nargs="*", help="these bugs, and nothing is written")
    parser.add_argument("--page", type=Path, default=Path("docs/simulation.md"))
    options = parser.parse_args()
    names = options.only or list(all_bugs())
    founds: dict[str, Found] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(measure, name, options.seconds): name for name in names}
        for done in as_completed(waiting):
            found = founds[waiting[done]] = done.result()
            broken = found.violation[0] if found.violation else "NOT FOUND"
            sys.stdout.write(
                f"{found.bug}: {broken}, seed {found.seed}, {found.seconds:.1f} s, "
                f"{found.minimised} events\n"
            )
            sys.stdout.flush()
    ordered = [founds[name] for name in names]
    if not options.only:
        write(options.page, render(ordered))
    sys.exit(any(found.seed is None for found in ordered))


if __name__ == "__main__":
    main()
