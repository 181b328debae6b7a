"""A badge of a run: a small picture with one figure, for a README."""

from __future__ import annotations

from xml.sax.saxutils import escape

from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.report import answered, regressions, share_text

LABEL = "kafka conformance"
# White text on each has a contrast of at least 4.5 to 1.
_COLOURS = {"good": "#0f6b45", "some": "#7a4f00", "bad": "#b3261e", "none": "#545d68"}
SOME_SHARE = 0.95  # Below this share a codec is not recommended.
_CHAR_PX = 6.6  # Of an average character at 11 px; textLength holds the text to it.
_PADDING_PX = 7


def badge(results: Results) -> str:
    """Return an SVG with the share of passed cases and the number of failures."""
    text, colour = _text_and_colour(results)
    title = f"{results.adapter.name} {results.adapter.version}, {LABEL}: {text}"
    left, right = (round(len(part) * _CHAR_PX) + 2 * _PADDING_PX for part in (LABEL, text))
    width = left + right
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-labelledby="title">
  <title id="title">{escape(title)}</title>
  <clipPath id="round"><rect width="{width}" height="20" rx="4"/></clipPath>
  <g clip-path="url(#round)">
    <rect width="{left}" height="20" fill="#3a414b"/>
    <rect x="{left}" width="{right}" height="20" fill="{_COLOURS[colour]}"/>
  </g>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" aria-hidden="true">
    <text x="{_PADDING_PX}" y="14" textLength="{left - 2 * _PADDING_PX}">{LABEL}</text>
    <text x="{left + _PADDING_PX}" y="14" textLength="{right - 2 * _PADDING_PX}">{text}</text>
  </g>
</svg>
"""


def _text_and_colour(results: Results) -> tuple[str, str]:
    counts = results.counts
    whole = answered(counts)
    if results.harness_failure:
        return "run broke off", "bad"
    if not whole:
        return "nothing answered", "none"
    share = share_text(counts.passed, whole)
    if counts.passed == whole:
        return share, "good"
    colour = "some" if counts.passed >= SOME_SHARE * whole else "bad"
    if not regressions(counts):
        return f"{share}, rest known", colour
    return f"{share}, {regressions(counts):,} failing", colour
