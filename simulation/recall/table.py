"""Writes what was found into docs/recall.md."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.simulation.recall.search import Found
from kraftspec.simulation.recall.searches import Search
from kraftspec.words import between_marks

RESULTS: Final = "results.json"
BEGIN: Final = "<!-- found: made by simulation/recall/table.py -->"
END: Final = "<!-- end -->"
HEAD: Final = (
    "| | bug | has it | without | shown by | seed | seeds that show it | events | CPU s |",
    "| ---: | --- | --- | --- | --- | ---: | --- | ---: | ---: |",
)


def results_path() -> Path:
    """Return where the results are kept."""
    return Path(str(files("kraftspec.simulation.recall"))) / RESULTS


def read_results() -> dict[str, Found]:
    """Return what was found, by the key of the search."""
    path = results_path()
    if not path.exists():
        return {}
    return {one.key: one for one in msgspec.json.decode(path.read_bytes(), type=list[Found])}


def write_results(results: Sequence[Found]) -> None:
    """Keep what was found."""
    text = msgspec.json.format(msgspec.json.encode(list(results)), indent=2)
    results_path().write_bytes(text + b"\n")


def table(searches: Sequence[Search], results: dict[str, Found]) -> str:
    """Return what was found as a table, and what the traces show."""
    lines = list(HEAD)
    for search in searches:
        result = results.get(search.key)
        if result is None:
            continue
        lines.append(f"| {search.number} | {search.bug} | {' | '.join(_cells(search, result))} |")
    reads = [f"* {search.bug}: {search.read}" for search in searches if search.key in results]
    return "\n".join([*lines, "", "What the traces show:", "", *reads])


def _cells(search: Search, result: Found) -> tuple[str, ...]:
    shown = "a step that differs" if search.is_lock_step else f"`{search.broken}`"
    seeds = f"{result.had} of {result.runs}; {result.had_without} of {result.runs}"
    if result.seed is None:
        return search.has, search.without, shown, "", f"0 of {result.runs}", "", ""
    small = "" if result.minimised is None else str(result.minimised)
    seconds = f"{result.cpu_seconds:.0f}"
    return search.has, search.without, shown, str(result.seed), seeds, small, seconds


def with_table(page: str, text: str) -> str:
    """Return the page with this table."""
    return between_marks(page, BEGIN, END, text)
