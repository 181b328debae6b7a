"""Draws the table of transitions: ``python -m kraftspec.reference.raft.diagram docs`` writes it.

An edge is labelled with the numbers of its causes, and the table beside it says what they are. A
test holds the committed files to what this module makes, so neither can fall behind the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from kraftspec.reference.raft.transitions import TRANSITIONS, Cause, Transitions
from kraftspec.reference.raft.types import RoleName
from kraftspec.words import between_marks

DRAWING = "raft-roles.svg"
PAGE = "raft.md"
BEGIN, END = "<!-- transitions: made by reference/raft/diagram.py -->", "<!-- end -->"

WIDTH, HEIGHT = 900, 470
BOX_WIDTH, BOX_HEIGHT = 132, 44
PLACES = {
    RoleName.UNATTACHED: (140, 120),
    RoleName.PROSPECTIVE: (450, 120),
    RoleName.CANDIDATE: (760, 120),
    RoleName.RESIGNED: (140, 350),
    RoleName.FOLLOWER: (450, 350),
    RoleName.LEADER: (760, 350),
}
BEND = 22  # How far an edge bends to its side, so that two in opposite directions part.
LOOP = 34
NEIGHBOURS = 400  # No farther apart; between others there is a box.

STYLE = """
  .edge { fill: none; stroke: #607d8b; stroke-width: 1.5; marker-end: url(#arrow); }
  .box { fill: #e8eaf6; stroke: #3949ab; stroke-width: 1.5; }
  .role { font: 600 15px sans-serif; fill: #1a237e; text-anchor: middle; }
  .note { fill: #fff; fill-opacity: 0.85; }
  .cause { font: 12px sans-serif; fill: #b71c1c; text-anchor: middle; }
"""


def numbers() -> dict[Cause, int]:
    """Return the number that stands for each cause; one that only drafts know has none."""
    known = {cause for causes in TRANSITIONS.values() for cause in causes}
    return {cause: number for number, cause in enumerate(filter(known.__contains__, Cause), 1)}


def edges(table: Transitions = TRANSITIONS) -> Iterator[tuple[RoleName, RoleName, list[Cause]]]:
    """Yield each pair of roles that is connected, with the causes."""
    for source, causes in table.items():
        for target in RoleName:
            matches = [cause for cause in Cause if causes.get(cause) is target]
            if matches:
                yield source, target, matches


def drawing(table: Transitions = TRANSITIONS) -> str:
    """Return the SVG of a table."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>The six roles of a replica, and what makes it change them</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#607d8b"/></marker></defs>',
    ]
    labels = []
    for source, target, causes in edges(table):
        path, x, y = _loop(source) if source is target else _curve(source, target)
        text = ", ".join(str(numbers()[cause]) for cause in causes)
        tip = escape("; ".join(causes))
        parts.append(f'<path class="edge" d="{path}"><title>{tip}</title></path>')
        half = 5 + 4 * len(text)
        labels.append(
            f'<rect class="note" x="{x - half}" y="{y - 9}" width="{2 * half}" height="16"/>'
            f'<text class="cause" x="{x}" y="{y + 4}"><title>{tip}</title>{text}</text>'
        )
    for role, (x, y) in PLACES.items():
        parts.append(
            f'<rect class="box" rx="8" x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
            f'<text class="role" x="{x}" y="{y + 5}">{role.capitalize()}</text>'
        )
    return "\n".join([*parts, *labels, "</svg>", ""])


def _curve(source: RoleName, target: RoleName) -> tuple[str, int, int]:
    """Return a curve from box to box, and where its label goes."""
    (x1, y1), (x2, y2) = PLACES[source], PLACES[target]
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    side_x, side_y = -dy * BEND, dx * BEND
    start_x = x1 + dx * BOX_WIDTH // 2 + (side_x if not dx else 0)
    start_y = y1 + (dy * BOX_HEIGHT // 2 if dy else side_y // 2)
    end_x = x2 - dx * BOX_WIDTH // 2 + (side_x if not dx else 0)
    end_y = y2 - (dy * BOX_HEIGHT // 2 if dy else -side_y // 2)
    factor = 5 if abs(x2 - x1) > NEIGHBOURS and not dy else 1  # Clear of the box between them.
    middle_x = (start_x + end_x) // 2 + side_x * factor
    middle_y = (start_y + end_y) // 2 + side_y * factor
    # Halfway along the curve; a quarter of the way on diagonals, which cross each other halfway.
    near, bend, away = (9, 6, 1) if dx and dy else (4, 8, 4)
    label_x = (near * start_x + bend * middle_x + away * end_x) // 16
    label_y = (near * start_y + bend * middle_y + away * end_y) // 16
    return f"M{start_x} {start_y}Q{middle_x} {middle_y} {end_x} {end_y}", label_x, label_y


def _loop(role: RoleName) -> tuple[str, int, int]:
    x, y = PLACES[role]
    sign = -1 if y < HEIGHT // 2 else 1
    edge_y = y + sign * BOX_HEIGHT // 2
    top_y = edge_y + sign * LOOP
    path = f"M{x - 24} {edge_y}C{x - 30} {top_y} {x + 30} {top_y} {x + 24} {edge_y}"
    return path, x, edge_y + sign * (LOOP * 3 // 4)


def listing(table: Transitions = TRANSITIONS) -> str:
    """Return the table as Markdown: a row a cause, a column a role."""
    roles = list(table)
    head = ["", "why", *(role.capitalize() for role in roles)]
    rows = [head, ["---"] * len(head)]
    for cause, number in numbers().items():
        targets = [table[role].get(cause) for role in roles]
        if any(targets):
            cells = [f"→ {target.capitalize()}" if target else "" for target in targets]
            rows.append([str(number), str(cause), *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def with_listing(page: str) -> str:
    """Return a page with the table between its marks renewed; ValueError if it has none."""
    return between_marks(page, BEGIN, END, listing())


def main(docs: Path) -> None:
    """Write the drawing, and the table into its page."""
    (docs / DRAWING).write_text(drawing(), "utf-8")
    page = docs / PAGE
    page.write_text(with_listing(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
