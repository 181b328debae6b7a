"""Time over bytes as SVG: the points that were measured, and the line through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
HEIGHT = 400
LEFT, RIGHT, TOP, BOTTOM = 64, 176, 48, 56
TICK_COUNT = 4
RADIUS = 5

STYLE = """\
  svg { font: 13px system-ui, sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .faint { fill: #59636e; }
  .axis { stroke: #9aa4b0; } .title { font-weight: 600; }
  .s0 { fill: #d1482b; stroke: #d1482b; } .s1 { fill: #2b6cb0; stroke: #2b6cb0; }
  .s2 { fill: #2f855a; stroke: #2f855a; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1c2128; } .text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .axis { stroke: #5c6773; } .s0 { fill: #f0703f; stroke: #f0703f; }
    .s1 { fill: #63b3ed; stroke: #63b3ed; } .s2 { fill: #68d391; stroke: #68d391; }
  }
"""


@dataclass(frozen=True)
class Series:
    """Points (gigabytes, seconds), and the line through them: where it begins, and its slope."""

    name: str
    points: Sequence[tuple[float, float]]
    fixed_s: float
    s_per_gb: float


def draw(series: Sequence[Series]) -> str:
    """Return the picture."""
    most_gb = max(x for one in series for x, _ in one.points)
    most_s = max(y for one in series for _, y in one.points)

    def place(gb: float, seconds: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * gb / most_gb
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / most_s
        return x, y

    zero, end = place(0, 0), place(most_gb, most_s)
    body = [
        _text("text title", LEFT, 24, "Seconds by the clock, over gigabytes read"),
        _line("axis", *zero, end[0], zero[1]),
        _line("axis", *zero, zero[0], end[1]),
    ]
    for tick in range(TICK_COUNT + 1):
        gb, seconds = most_gb * tick / TICK_COUNT, most_s * tick / TICK_COUNT
        body.append(_text("faint", place(gb, 0)[0], zero[1] + 20, f"{gb:.3g} GB", "middle"))
        body.append(_text("faint", LEFT - 8, place(0, seconds)[1] + 4, f"{seconds:.3g} s", "end"))
    for at, one in enumerate(series):
        last = one.fixed_s + one.s_per_gb * most_gb
        kind = f"s{at}"
        body.append(_line(kind, *place(0, max(one.fixed_s, 0.0)), *place(most_gb, last)))
        for x, y in (place(*point) for point in one.points):
            body.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>')
        body.append(_text("text", end[0] + 12, place(most_gb, last)[1] + 4, one.name))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = "<title>Time grows in proportion to bytes</title>"
    page = f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
    return "\n".join([head, title, f"<style>\n{STYLE}</style>", page, *body, "</svg>", ""])


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{side}>{escape(text)}</text>'
