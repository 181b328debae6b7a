"""The page of an audit: one file that fetches nothing, runs no script, and is light or dark."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple

from kraftspec.conformance.report.page import render
from kraftspec.pipeline.audit.model import Counts, Finding, PartitionReport, Report
from kraftspec.pipeline.audit.rules import EXPLAINED, RULES
from kraftspec.words import counted

# Limits of the page; the JSON has the rest, and the page shows how much is left out.
PARTITION_BARS_MAX: Final = 24
PARTITIONS_MAX: Final = 500
BARS_MAX: Final = 24
FINDINGS_OF_A_KIND_MAX: Final = 25
_BAR_WIDTH: Final = 1000  # Units of the drawing; the width on the screen differs.
_BAR_GAP: Final = 2
_INT64_MAX: Final = (1 << 63) - 1


class Bar(NamedTuple):
    """A row of a chart: ``width`` is a percentage of the longest."""

    label: str
    width: float
    text: str


class Tick(NamedTuple):
    """A finding on a bar: where it starts and how wide it is, in units of the picture."""

    x: float
    width: float
    severity: str
    text: str


class PartitionBar(NamedTuple):
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
    totals = report.totals
    return render(
        beside / "page.html.jinja",
        css=(beside / "page.css").read_text("utf-8"),
        filters={"bytes": bytes_text, "time": time_text},
        title="Log audit",
        subtitle=", ".join(report.paths),
        report=report,
        totals=totals,
        roundtrip=round_trip(totals),
        charts=_charts(report),
        partition_bars=partition_bars(report.partitions, report.findings.kept),
        kinds=kinds(report),
        explained=[(kind, EXPLAINED[kind], count) for kind, count in report.explained.items()],
        partitions=report.partitions[:PARTITIONS_MAX],
        partitions_left=max(0, len(report.partitions) - PARTITIONS_MAX),
        name_of=partition_name,
    )


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
    """Return ``64 to 127 B``, ``2 to 4 KiB``: the lengths with this number of bits."""
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


def partition_bars(
    partitions: Sequence[PartitionReport], findings: Sequence[Finding]
) -> list[PartitionBar]:
    """Return the pictures of the partitions that have findings, the most of them first."""
    troubled = [one for one in partitions if one.errors or one.notes]
    troubled.sort(key=lambda one: -one.errors)
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    return [_partition_bar(one, by_file) for one in troubled[:PARTITION_BARS_MAX]]


def _partition_bar(one: PartitionReport, by_file: Mapping[str, list[Finding]]) -> PartitionBar:
    gaps = _BAR_GAP * max(len(one.files) - 1, 0)
    scale = max(_BAR_WIDTH - gaps, 1) / (sum(size for _, size in one.files) or 1)
    x, segments, ticks = 0.0, [], []
    for path, size in one.files:
        segments.append((x, size * scale, f"{posixpath.basename(path)}, {bytes_text(size)}"))
        for finding in by_file.get(path, ()):
            ticks.append(
                Tick(
                    min(x + finding.position * scale, _BAR_WIDTH - 4),
                    max(finding.size * scale, 4),
                    finding.severity,
                    f"{finding.kind} at byte {finding.position}",
                )
            )
        x += size * scale + _BAR_GAP
    errors, notes = counted(one.errors, "error"), counted(one.notes, "note")
    text = f"{errors}, {notes} in {bytes_text(one.counts.bytes)}"
    return PartitionBar(partition_name(one), segments, ticks, text)


def kinds(report: Report) -> list[Kind]:
    """Return the findings by kind, errors first, then by number."""
    rows = [
        Kind(
            name, RULES[name].severity, RULES[name].meaning, count,
            [one for one in report.findings.kept if one.kind == name][:FINDINGS_OF_A_KIND_MAX],
        )
        for name, count in report.findings.counts.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda kind: (kind.severity != "error", -kind.total, kind.name))
