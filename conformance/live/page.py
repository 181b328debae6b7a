"""Results of the live suite as a page in one file, in the frame of all pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from kraftspec.conformance.live.run import Result
from kraftspec.conformance.report.page import render
from kraftspec.words import counted

CSS = """
main table { border-collapse: collapse; width: 100%; }
main th, main td { text-align: left; vertical-align: top; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); }
main pre { overflow-x: auto; background: var(--raised); padding: .6rem; max-width: 60rem; }
td.passed { color: var(--passed); }
td.failed, td.unexpected-pass { color: var(--failed-text); }
td.known-failure { color: var(--known); }
"""


def page(target: str, repeat: str, results: Sequence[Result]) -> str:
    """Return the HTML of the page. ``repeat`` is the command that plays a scenario again."""
    number = Counter(result.verdict for result in results)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in number.items())
    return render(
        files("kraftspec.conformance") / "live" / "page.html.jinja",
        css=CSS,
        title=f"Live suite: {target}",
        subtitle=f"{counted(len(results), 'scenario')}: {verdicts}",
        results=results,
        repeat=repeat,
    )
