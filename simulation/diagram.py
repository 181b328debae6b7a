"""A trace as a picture: Lamport's diagram, time downwards, a line for each node.

Each event is a point on its node's line; a message is an arrow from the event that sent it to the
one that it is. The colour of a line is the node's role.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from kraftspec.simulation.trace_text import Event

_COLOURS = {
    "leader": "#1a7f37", "follower": "#57606a", "candidate": "#bc4c00", "prospective": "#9a6700",
    "unattached": "#8c959f", "resigned": "#8250df", "down": "#d0d7de", "None": "#d0d7de",
}  # fmt: skip
_LANE = 90  # Pixels between two lines.
_LEFT = 110
_ROW = 14  # A line of text.
_GAP = 12
_TEXT_CHARACTERS = 105
_TEXT_WIDTH = 760
_HEAD = 74


def draw(events: Sequence[Event], title: str, verdict: str) -> str:
    """Return an SVG of the events; ``verdict`` stands beneath the last."""
    nodes = sorted({event.node for event in events})
    lanes = {node: _LEFT + index * _LANE for index, node in enumerate(nodes)}
    text_x = _LEFT + len(nodes) * _LANE
    texts = [_lines(event) for event in events]
    tops, y = [], _HEAD
    for lines in texts:
        tops.append(y)
        y += len(lines) * _ROW + _GAP
    last = wrap(verdict, _TEXT_CHARACTERS)
    height = y + len(last) * _ROW + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{text_x + _TEXT_WIDTH}" height="{height}" '
        f'viewBox="0 0 {text_x + _TEXT_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#0969da"/></marker>'
        "</defs>",
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend(),
    ]
    bottom = tops[-1] if tops else _HEAD
    for node, x in lanes.items():
        parts += _line(node, x, events, tops, bottom)
    index_of = {event.index: at for at, event in enumerate(events)}
    for at, event in enumerate(events):
        sender = index_of.get(event.sent_by)
        if sender is not None:
            parts.append(_arrow(lanes, events, tops, sender, at))
    for at, event in enumerate(events):
        parts += _point(event, lanes[event.node], tops[at], text_x, texts[at])
    y = bottom + (len(texts[-1]) * _ROW if texts else 0) + _GAP + 10
    for line in last:
        parts.append(
            f'<text x="{text_x}" y="{y}" fill="#cf222e" font-weight="bold">{escape(line)}</text>'
        )
        y += _ROW
    return "\n".join([*parts, "</svg>", ""])


def _lines(event: Event) -> list[str]:
    lines = wrap(f"{event.index}. node {event.node} {event.what}", _TEXT_CHARACTERS)
    changes = "; ".join(event.changes)
    return lines + [f"→ {line}" for line in wrap(changes, _TEXT_CHARACTERS)]


def _legend() -> list[str]:
    parts, x = [], 12
    for role, colour in _COLOURS.items():
        if role != "None":
            parts.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>')
            parts.append(f'<text x="{x + 14}" y="41" fill="#57606a">{role}</text>')
            x += 30 + 7 * len(role)
    return parts


def _line(node: int, x: int, events: Sequence[Event], tops: list[int], bottom: int) -> list[str]:
    """Return a node's name and its line, in pieces by role."""
    parts = [
        f'<text x="{x}" y="{_HEAD - 14}" text-anchor="middle" font-weight="bold">node {node}</text>'
    ]
    colour, start = _COLOURS["None"], _HEAD - 8
    for event, top in zip(events, tops, strict=True):
        if event.node == node:
            parts.append(_piece(x, start, top, colour))
            colour, start = _COLOURS.get(event.role, "#000000"), top
    return [*parts, _piece(x, start, bottom + 10, colour)]


def _piece(x: int, start: int, end: int, colour: str) -> str:
    return f'<line x1="{x}" y1="{start}" x2="{x}" y2="{end}" stroke="{colour}" stroke-width="4"/>'


def _arrow(
    lanes: dict[int, int], events: Sequence[Event], tops: list[int], sender: int, at: int
) -> str:
    x1, y1 = lanes[events[sender].node], tops[sender]
    x2, y2 = lanes[events[at].node], tops[at]
    if x1 == x2:  # To itself: a bow beside its line.
        path = f"M{x1},{y1} C{x1 + 34},{y1} {x1 + 34},{y2} {x2 + 6},{y2}"
    else:
        path = f"M{x1},{y1} L{x2 + (6 if x1 > x2 else -6)},{y2}"
    return f'<path d="{path}" fill="none" stroke="#0969da" marker-end="url(#head)"/>'


def _point(event: Event, x: int, y: int, text_x: int, lines: list[str]) -> list[str]:
    colour = _COLOURS.get(event.role, "#000000")
    parts = [
        f'<text x="{_LEFT - 24}" y="{y + 4}" text-anchor="end" fill="#8c959f" font-size="10">'
        f"{event.at_us / 1e6:.3f} s</text>",
        f'<line x1="{x}" y1="{y}" x2="{text_x - 8}" y2="{y}" stroke="#eaeef2"/>',
        f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}" stroke="#ffffff"/>',
        f'<text x="{x + 8}" y="{y - 4}" font-size="9" fill="{colour}">{event.epoch}</text>',
    ]
    for line in lines:
        parts.append(f'<text x="{text_x}" y="{y + 4}">{escape(line)}</text>')
        y += _ROW
    return parts
