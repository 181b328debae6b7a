"""Rows of a table in a page, each put there by the command that found it out."""

from __future__ import annotations

from pathlib import Path


def put_row(page: Path, marks: tuple[str, str], row: str) -> None:
    """Replace the row that begins as this one does, or add it. ValueError: there is no table.

    The table is between the two marks.
    """
    text = page.read_text("utf-8")
    try:
        before, rest = text.split(marks[0])
        table, after = rest.split(marks[1])
    except ValueError:
        raise ValueError(f"{page} has no table between {' and '.join(marks)}") from None
    rows = {line.partition(" | ")[0]: line for line in table.splitlines() if line}
    rows[row.partition(" | ")[0]] = row
    table = "\n".join(rows.values())
    page.write_text(f"{before}{marks[0]}\n{table}\n\n{marks[1]}{after}", "utf-8")
