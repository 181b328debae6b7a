"""The page of an audit: one file that fetches nothing, runs no script, and is light or dark."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kraftspec.conformance.report.matrix import asset, csp_hash
from kraftspec.pipeline.audit.model import Counts, Finding, PartitionReport, Report
from kraftspec.pipeline.audit.rules import EXPLAINED, RULES
from kraftspec.words import counted

# What a page shows at most; the JSON has the rest, and the page says how much that is.
BARS_MAX: Final = 24
PARTITIONS_MAX: Final = 500
STRIPS_MAX: Final = 24
FINDINGS_OF_A_KIND_MAX: Final = 25
_STRIP_WIDTH: Final = 1000  # Units of a strip's picture, whatever its width on the screen.
_STRIP_GAP: Final = 2
_INT64_MAX: Final = (1 << 63) - 1


class Bar(NamedTuple):
    """A row of a chart: ``width`` is a percentage of the longest."""

    label: str
    width: float
    text: str


class Tick(NamedTuple):
    """A finding on a strip: where it starts and how wide it is, in units of the picture."""

    x: float
    width: float
    severity: str
    text: str


class Strip(NamedTuple):
    """A partition by its bytes: a rectangle a segment, a tick a finding."""

    name: str
    segments: list[tuple[float, float, str]]
    ticks: list[Tick]
    text: str


class Kind(NamedTuple):
    """The findings of one kind; ``shown`` are the first of them."""

    name: str
    severity: str
    meaning: str
    total: int
    shown: list[Finding]


def page(report: Report) -> str:
    """Return the HTML of the page."""
    beside = files("kraftspec.pipeline") / "audit"
    css = asset("matrix.css") + (beside / "page.css").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"bytes": bytes_text, "time": time_text, "number": "{:,}".format}
    environment.filters["counted"] = counted
    template = environment.from_string((beside / "page.html.jinja").read_text("utf-8"))
    totals = report.totals
    rendered = template.render(
        report=report,
        totals=totals,
        css=Markup(css),
        css_hash=csp_hash(css),
        roundtrip=round_trip(totals),
        charts=_charts(report),
        strips=strips(report.partitions, report.findings.kept),
        kinds=kinds(report),
        explained=[(kind, EXPLAINED[kind], count) for kind, count in report.explained.items()],
        partitions=report.partitions[:PARTITIONS_MAX],
        partitions_left=max(0, len(report.partitions) - PARTITIONS_MAX),
        name_of=partition_name,
    )
    return rendered + "\n"


def bytes_text(size: float) -> str:
    """Return ``1.5 MB``: powers of ten."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":  # noqa: PLR2004 - powers of ten
            break
        size /= 1000
    is_whole = unit == "B" or size >= 100  # noqa: PLR2004 - three digits are enough
    return f"{size:,.0f} {unit}" if is_whole else f"{size:.3g} {unit}"


def time_text(milliseconds: int) -> str:
    """Return a time in UTC, to the second; the number where no calendar has it."""
    if milliseconds in (-1, _INT64_MAX):
        return "\u2013"
    try:
        when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return when.strftime("%Y-%m-%d %H:%M:%S")


def partition_name(one: PartitionReport) -> str:
    """Return ``topic-0``, or the file's name for a snapshot or where the directory has none."""
    if one.directory.endswith(".checkpoint") or not one.topic:
        return posixpath.basename(one.directory)
    return f"{one.topic}-{one.partition}"


def bars(rows: Iterable[tuple[str, int]], text: Any = "{:,}".format) -> list[Bar]:
    """Return the bars of a chart; what is too much for one becomes a last bar of its own."""
    listed = list(rows)
    if len(listed) > BARS_MAX:
        rest = listed[BARS_MAX - 1 :]
        listed = [*listed[: BARS_MAX - 1], (f"{len(rest)} more", sum(count for _, count in rest))]
    longest = max((count for _, count in listed), default=0) or 1
    return [Bar(label, 100 * count / longest, text(count)) for label, count in listed]


def _largest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _buckets(counts: Mapping[int, int]) -> list[tuple[str, int]]:
    """Return buckets of powers of two by their range, empty ones between others too."""
    if not counts:
        return []
    return [
        (_bucket_name(bits), counts.get(bits, 0)) for bits in range(min(counts), max(counts) + 1)
    ]


def _bucket_name(bits: int) -> str:
    """Return ``64 to 127 B``, ``2 to 4 KiB``: the lengths of so many bits."""
    low = 1 << bits >> 1
    if bits <= 1:
        return f"{low} B"
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if low >> shift:
            return f"{low >> shift} to {low >> shift << 1} {unit}"
    return f"{low} to {2 * low - 1} B"


def _charts(report: Report) -> list[tuple[str, str, list[Bar]]]:
    """Return (title, what is counted, bars) of each chart that has something to show."""
    totals = report.totals
    topics = {topic or "(no topic)": one for topic, one in report.topics.items()}
    by_bytes = _largest_first({topic: one.bytes for topic, one in topics.items()})
    charts = [
        ("Topics", "bytes on disk", bars(by_bytes, bytes_text)),
        (
            "Topics, records",
            "records, control records among them",
            bars(_largest_first({topic: one.records for topic, one in topics.items()})),
        ),
        (
            "Codecs",
            "bytes of batches",
            bars(_largest_first({n: one.bytes for n, one in totals.codecs.items()}), bytes_text),
        ),
        ("Batch sizes", "batches, by bytes on disk", bars(_buckets(totals.batch_sizes))),
        ("Keys", "records, by length", bars(_with_nulls(totals.keys.buckets, totals.keys.nulls))),
        (
            "Values",
            "records, by length",
            bars(_with_nulls(totals.values.buckets, totals.values.nulls)),
        ),
        ("Metadata records", "records, by type", bars(_largest_first(totals.record_types))),
        ("Control records", "records, by type", bars(_largest_first(totals.control))),
    ]
    return [chart for chart in charts if chart[2]]


def _with_nulls(buckets: Mapping[int, int], nulls: int) -> list[tuple[str, int]]:
    return [*([("null", nulls)] if nulls else []), *_buckets(buckets)]


def round_trip(totals: Counts) -> list[Bar]:
    """Return how the batches came out of our encoder, as shares of all."""
    whole = totals.batches or 1
    parts = (
        ("the same bytes", totals.same_batches),
        ("the same once inflated", totals.same_inflated),
        ("the same record by record", totals.same_by_record),
        ("not the same", totals.differing_batches),
    )
    return [Bar(label, 100 * count / whole, f"{count:,}") for label, count in parts]


def strips(partitions: Sequence[PartitionReport], findings: Sequence[Finding]) -> list[Strip]:
    """Return the pictures of the partitions that have findings, the most of them first."""
    troubled = [one for one in partitions if one.errors or one.notes]
    troubled.sort(key=lambda one: -one.errors)
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    return [_strip(one, by_file) for one in troubled[:STRIPS_MAX]]


def _strip(one: PartitionReport, by_file: Mapping[str, list[Finding]]) -> Strip:
    gaps = _STRIP_GAP * max(len(one.files) - 1, 0)
    scale = max(_STRIP_WIDTH - gaps, 1) / (sum(size for _, size in one.files) or 1)
    x, segments, ticks = 0.0, [], []
    for path, size in one.files:
        segments.append((x, size * scale, f"{posixpath.basename(path)}, {bytes_text(size)}"))
        for found in by_file.get(path, ()):
            ticks.append(
                Tick(
                    min(x + found.position * scale, _STRIP_WIDTH - 4),
                    max(found.size * scale, 4),
                    found.severity,
                    f"{found.kind} at byte {found.position}",
                )
            )
        x += size * scale + _STRIP_GAP
    errors, notes = counted(one.errors, "error"), counted(one.notes, "note")
    text = f"{errors}, {notes} in {bytes_text(one.counts.bytes)}"
    return Strip(partition_name(one), segments, ticks, text)


def kinds(report: Report) -> list[Kind]:
    """Return the findings by kind, errors first, then by number."""
    found = [
        Kind(
            name, RULES[name].severity, RULES[name].meaning, count,
            [one for one in report.findings.kept if one.kind == name][:FINDINGS_OF_A_KIND_MAX],
        )
        for name, count in report.findings.counts.items()
    ]  # fmt: skip
    return sorted(found, key=lambda kind: (kind.severity != "error", -kind.total, kind.name))
