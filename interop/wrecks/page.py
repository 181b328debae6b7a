"""Writes what the matrix has shown into docs/quorum-recover.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kraftspec.interop.wrecks.cells import PASSED, Cell
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.words import between_marks

PAGE: Final = Path("docs/quorum-recover.md")
BEGIN: Final = "<!-- cells: made by interop/wrecks/page.py -->"
END: Final = "<!-- end -->"
HEAD: Final = (
    "| wreck | what is left | must be | so for the seeds | not so for | seconds |",
    "| --- | --- | --- | --- | --- | ---: |",
)


def with_cells(page: str, cells: Sequence[Cell]) -> str:
    """Return the page with what came of these cells."""
    return between_marks(page, BEGIN, END, _text(cells))


def _text(cells: Sequence[Cell]) -> str:
    passed = sum(cell.outcome == PASSED for cell in cells)
    days = sorted({cell.begun for cell in cells if cell.begun})
    releases = ", ".join(sorted({cell.release for cell in cells}))
    when = " to ".join(sorted({days[0], days[-1]})) if days else ""
    lines = [f"{passed} of {len(cells)} wrecks are as they must be: Kafka {releases}, {when}.", ""]
    return "\n".join([*lines, *HEAD, *(_row(kind, cells) for kind in KINDS)])


def _row(kind: str, cells: Iterable[Cell]) -> str:
    of = [cell for cell in cells if cell.kind == kind]
    about = (KINDS[kind].__doc__ or "").partition("\n")[0]
    expected = next((cell.expected for cell in of if cell.expected), "")
    must = expected if expected in ("", "recovered") else f"refused: `{expected}`"
    good = ranges(cell.seed for cell in of if cell.outcome == PASSED)
    bad = ranges(cell.seed for cell in of if cell.outcome != PASSED)
    mean = f"{sum(cell.seconds for cell in of) / len(of):.0f}" if of else ""
    return f"| `{kind}` | {about} | {must} | {good} | {bad} | {mean} |"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ``0-3, 5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
