"""The page of a campaign, in the look of the page of results: one file that fetches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from itertools import groupby
from typing import Any

from kraftspec.conformance.report.page import render
from kraftspec.pipeline.campaign.summary import Summary
from kraftspec.words import counted

TITLES = {
    "conform": "Conformance campaign",
    "fuzz-codec": "Fuzz campaign: codecs and their twins",
    "fuzz-differential": "Fuzz campaign: two adapters",
}
# The outcomes of cases without a finding; the page marks all others.
GOOD = {
    "passed", "skipped", "known", "taken", "refused", "agreed", "policy", "clean", "explained",
}  # fmt: skip
FINDINGS_MAX = 200  # On the page.
DETAIL_CHARS_MAX = 1200


def page(summary: Summary) -> str:
    """Return the HTML of the page."""
    here = files("kraftspec.pipeline") / "campaign"
    classes = _order({row["class"] for row in summary.by_class})
    return render(
        here / "page.html.jinja",
        css=(here / "page.css").read_text("utf-8"),
        title=TITLES.get(summary.kind, f"Campaign: {summary.kind}"),
        subtitle=f"{counted(summary.cases, 'case')}, {summary.done:,} of "
        f"{counted(summary.units, 'unit')}, {summary.seconds:,.0f} s of executors, "
        f"{counted(len(summary.findings), 'finding')}",
        summary=summary,
        classes=classes,
        bad=set(classes) - GOOD,
        sets=_rows(summary.by_class, ("adapter", "set")),
        findings=summary.findings[:FINDINGS_MAX],
        left_out=max(0, len(summary.findings) - FINDINGS_MAX),
        groups=list(_groups(summary.by_message)),
        options=json.dumps(summary.options, indent=2),
        cut=lambda text: text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}…",
    )


def _order(classes: Iterable[str]) -> list[str]:
    """Put what is well first."""
    return sorted(classes, key=lambda name: (name not in GOOD, name))


def _rows(counts: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Make one row of all classes of the same ``names``."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for count in counts:
        key = tuple(count[name] for name in names)
        row = rows.setdefault(key, {**dict(zip(names, key, strict=True)), "classes": {}})
        row["classes"][count["class"]] = count["cases"]
    return [{**row, "cases": sum(row["classes"].values())} for row in rows.values()]


def _groups(counts: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for (adapter, name), group in groupby(counts, key=lambda row: (row["adapter"], row["set"])):
        findings = list(group)
        yield {
            "adapter": adapter,
            "set": name,
            "classes": _order({row["class"] for row in findings}),
            "entries": any(row["entry"] for row in findings),
            "rows": _rows(findings, ("message", "version", "entry")),
        }
