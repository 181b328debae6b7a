"""Writes the table of rules: ``python -m kraftspec.simulation.lockstep.table docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from kraftspec.simulation.lockstep.rules import RULES
from kraftspec.words import between_marks

PAGE: Final = "lock-step.md"
BEGIN: Final = "<!-- rules: made by simulation/lockstep/table.py -->"
END: Final = "<!-- end -->"


def table() -> str:
    """Return the rules as a table."""
    lines = ["| rule | separates | what differs |", "| --- | --- | --- |"]
    for rule in RULES:
        separates = "yes" if rule.separates else ""
        link = f" ([more]({rule.page}))" if rule.page and not rule.is_embargoed else ""
        lines.append(f"| {rule.name} | {separates} | {rule.reason}{link} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """Return the page with the table of today."""
    return between_marks(page, BEGIN, END, table())


if __name__ == "__main__":
    path = Path(sys.argv[1]) / PAGE
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
