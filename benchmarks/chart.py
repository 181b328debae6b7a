"""Bars as SVG: small panels, readable on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 440  # Of a panel; two stand side by side.
LABEL = 150
BAR = 190  # The longest.
ROW = 22
HEAD = 44
GAP = 16

STYLE = """\
  svg { font: 13px system-ui, sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .faint { fill: #59636e; }
  .peer { fill: #9aa4b0; } .ours { fill: #d1482b; } .title { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1c2128; } .text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .peer { fill: #5c6773; } .ours { fill: #f0703f; }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One group: the rate of each contestant, the highest first."""

    title: str
    unit: str
    bars: Sequence[tuple[str, float]]


def draw(panels: Sequence[Panel], ours: str) -> str:
    """Return the chart; bars whose name holds ``ours`` stand out."""
    body: list[str] = []
    top = GAP
    for at in range(0, len(panels), 2):
        pair = panels[at : at + 2]
        for column, panel in enumerate(pair):
            body += _panel(panel, GAP + column * (WIDTH + GAP), top, ours)
        top += HEAD + ROW * max(len(panel.bars) for panel in pair) + GAP
    width = 2 * WIDTH + 3 * GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" role="img">'
    title = "<title>What each contestant does in a second; more is better</title>"
    page = f'<rect class="page" width="{width}" height="{top}" rx="8"/>'
    return "\n".join([head, title, f"<style>\n{STYLE}</style>", page, *body, "</svg>", ""])


def _panel(panel: Panel, left: int, top: int, ours: str) -> list[str]:
    parts = [
        _text("text title", left, top + 14, panel.title),
        _text("faint", left, top + 32, f"{panel.unit}, more is better"),
    ]
    most = max(value for _, value in panel.bars)
    for at, (who, value) in enumerate(panel.bars):
        base = top + HEAD + at * ROW
        length = max(1.0, BAR * value / most)
        kind = "ours" if ours in who else "peer"
        start = left + LABEL
        parts += [
            _text("text", start - 8, base + 13, who, "end"),
            f'<rect class="{kind}" x="{start}" y="{base + 2}" width="{length:.1f}" height="14"/>',
            _text("faint", round(start + length + 6), base + 13, _short(value)),
        ]
    return parts


def _text(kind: str, x: int, y: int, text: str, anchor: str = "start") -> str:
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x}" y="{y}"{side}>{escape(text)}</text>'


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
