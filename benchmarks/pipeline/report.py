"""The page of the pipeline: from ``pipeline-results.json`` to Markdown and a picture.

``python -m benchmarks.pipeline.report`` writes both again; ``--check`` fails where they are not
what the committed run says. The same file gives the same text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pipeline import petabyte, picture, results
from benchmarks.report import write_or_check
from benchmarks.results import disturbances

DOCS = results.HERE.parents[1] / "docs"
PAGE = DOCS / "pipeline-performance.md"
PICTURE = DOCS / "pipeline-performance.svg"
MIB = 1 << 20

INTRODUCTION = """\
# Performance of the pipeline

<!-- Written by `make bench-pipeline` from benchmarks/pipeline-results.json. -->

After this page you know how fast Kafka logs become tables, compared with Spark's own source.

Read the ratios: absolute figures belong to one machine on one day. All programs read the same bytes
within the same run: what a real Apache Kafka broker wrote for Apache Kafka's own producer, at its
defaults. Totals are compared with what was sent; other totals are an error and not a row. MB are
10^6 bytes of log on the disk, compressed or not.
"""

WHO = """\
* **scan**: `kraftspec.pipeline.scan` in one Python process, without Spark.
* **kafkalog**: `spark.read.format("kafkalog")`, all columns into a sink that drops them.
* **ceiling**: a Python data source that yields one batch, built beforehand, as often as there are
  rows: no source in Python can be faster. **ceiling with libzstd** also decompresses the frames of
  those rows, and drops what comes out: what a source of compressed data can reach.
* **spark-sql-kafka**: Spark's own source (4.0.0, the available release), from the broker on
  the same machine, which is idle while files are read.
* **aggregate**: records, bytes and the last timestamp of each partition, by `groupBy`;
  **aggregate in Arrow** does that in the workers, split by split, and only totals come to Spark.
* **DumpLogSegments**: Kafka's tool with `--print-data-log`, its output thrown away, with the
  options of the JVM that its script sets. The time that the JVM takes to start is taken off.
"""

REPEAT = """\
## How to repeat it

```console
$ make bench-pipeline                 # some twenty minutes and 6 GB of disk; writes this page
$ make bench-pipeline ARGS=--quick    # all of it on a few megabytes, writes nothing
$ make bench-pipeline ARGS='--laps 1' # one lap instead of three
```

A lap lets each contestant read each topic once, but kafkalog and its ceilings five times, in turns:
they are close to one another. A lap before the first warms up the JVM that Spark runs in, and does
not count. A ratio is taken within a turn, or within a lap, and the median of all is told, with the
least and the most; DumpLogSegments runs once. The files lie in the page cache: they are read
to their ends before each reading that counts. What each does stands in `benchmarks/pipeline`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, or check; the exit code is 1 where the page or the picture is stale."""
    run = results.load(results.COMMITTED)
    return write_or_check(texts(run), "python -m benchmarks.pipeline.report", arguments, None)


def texts(run: results.Run) -> dict[Path, str]:
    """Return the page and the picture of a run."""
    return {PAGE: page(run), PICTURE: drawn(run)}


def names() -> list[str]:
    """The files that a whole run writes, as one names them in the checkout."""
    root = DOCS.parent
    return [_within(path, root) for path in (results.COMMITTED, PAGE, PICTURE)]


def _within(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def page(run: results.Run) -> str:
    """The page as Markdown."""
    parts = [
        INTRODUCTION, _warning(run), _ratios(run), _figures(run), _scale(run), _memory(run),
        petabyte.page(run), _made_on(run), REPEAT,
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _warning(run: results.Run) -> str:
    reasons = disturbances(run)
    if not reasons:
        return ""
    lines = [f"    {why[0].upper()}{why[1:]}." for why in reasons]
    return "\n".join(['!!! warning "This run was not made on a quiet machine"', *lines, ""])


def _ratios(run: results.Run) -> str:
    ratios = [results.ratio(run, target) for target in results.targets(_shapes(run))]
    met = sum(ratio.met for ratio in ratios)
    lines = [
        "## Ratios",
        "",
        f"How many times less time ours takes; {met} of {len(ratios)} targets met.",
        "",
        "| what | data | ours | peer | time | target | measured | met | readings |",
        "| --- | --- | --- | --- | --- | ---: | ---: | --- | ---: |",
    ]
    for ratio in ratios:
        target = ratio.target
        title = results.topic(run, target.shape)["title"]
        time = "CPU" if target.by == "cpu" else "clock"
        verdict = "yes" if ratio.met else "**no**"
        lines.append(
            f"| {target.what} | {title} | {target.ours} | {target.against} | {time} "
            f"| {target.at_least:g} | **{figure(ratio.value)}** | {verdict} "
            f"| {figure(ratio.low)} to {figure(ratio.high)} |"
        )
    return "\n".join([*lines, ""])


def _shapes(run: results.Run) -> list[str]:
    return [topic["shape"] for topic in run["topics"]]


def _figures(run: results.Run) -> str:
    parts = ["## Figures", "", WHO]
    for topic in run["topics"]:
        parts += [
            f"### {topic['title'][0].upper()}{topic['title'][1:]}",
            "",
            f"{topic['records']:,} records of 8 bytes of key and 100 of value; "
            f"{topic['bytes'] / 1e6:,.0f} MB of log in {topic['segments']} segments.",
            "",
            "| who | s | MB/s | MB/s for a CPU second | million records/s |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        rows = [row for row in run["rows"] if row["shape"] == topic["shape"]]
        for row in sorted(rows, key=lambda row: float(median(row["wall_s"]))):
            wall, cpu = median(row["wall_s"]), median(row["cpu_s"])
            # The broker works for the peer that asks it, and is not counted.
            known = figure(topic["bytes"] / 1e6 / cpu) if "sql-kafka" not in row["who"] else ""
            parts.append(
                f"| {row['who']} | {figure(wall)} | {figure(topic['bytes'] / 1e6 / wall)} "
                f"| {known} | {figure(topic['records'] / 1e6 / wall)} |"
            )
        parts.append("")
    return "\n".join(parts)


def _series(run: results.Run) -> dict[str, list[dict[str, Any]]]:
    series: dict[str, list[dict[str, Any]]] = {}
    for point in run["scale"]:
        series.setdefault(point["who"], []).append(point)
    return dict(sorted(series.items(), key=lambda one: -median(one[1][-1]["wall_s"])))


def drawn(run: results.Run) -> str:
    """The picture as SVG."""
    series = []
    for who, points in _series(run).items():
        line = results.line(points)
        places = [(point["bytes"] / 1e9, float(median(point["wall_s"]))) for point in points]
        series.append(picture.Series(who, places, line.fixed_s, line.s_per_byte * 1e9))
    return picture.draw(series)


def _scale(run: results.Run) -> str:
    lines = [
        "## Time over bytes",
        "",
        "The uncompressed topic, and two, four, eight times its bytes (hard links to it, so that "
        "memory holds all of them). The line is that of least squares; a residual says how far a "
        "point lies from it, as a part of what the line says there.",
        "",
        "![Seconds over gigabytes, with the lines of least squares](pipeline-performance.svg)",
        "",
        "| who | GB | s | residual | line |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for who, points in _series(run).items():
        line = results.line(points)
        for at, (point, residual) in enumerate(zip(points, line.residuals, strict=True)):
            formula = (
                f"{line.fixed_s:.2f} s + {line.s_per_byte * 1e9:.3g} s/GB, R² {line.r_squared:.5f}"
            )
            lines.append(
                f"| {who} | {point['bytes'] / 1e9:.2f} | {figure(median(point['wall_s']))} "
                f"| {residual:+.1%} | {formula if at == 0 else ''} |"
            )
    return "\n".join([*lines, ""])


def _memory(run: results.Run) -> str:
    limit = run["memory"][0]["limit_bytes"] // MIB
    lines = [
        "## Memory of a worker",
        "",
        f"A Python process whose address space is limited to {limit} MiB (`RLIMIT_AS`, as "
        "`spark.executor.pyspark.memory` sets it) plans the splits of one segment and reads them "
        "all, seven columns, as a task does.",
        "",
        "| segment, bytes | records | resident before, MiB | at most, MiB |",
        "| ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['segment_bytes']:,} | {row['rows']:,} | {row['begin_bytes'] / MIB:.0f} "
        f"| {row['peak_bytes'] / MIB:.0f} |"
        for row in run["memory"]
    ]
    return "\n".join([*lines, ""])


def _made_on(run: results.Run) -> str:
    facts, commit = run["machine"], run["commit"]
    packages = ", ".join(f"{name} {version}" for name, version in run["packages"].items())
    changed = " with changes" if commit["changed"] else ""
    return "\n".join(
        [
            "## What it ran on",
            "",
            f"* {run['date']}, commit {commit['id'][:12]}{changed}, {run['laps']} laps",
            f"* {facts['cpu']}, {facts['cpu_count']} processors, {facts['memory_gib']} GiB; "
            f"{facts['system']}; Spark on `local[{run['cores']}]`",
            f"* {facts['python']}; {packages}; {run['java']}",
            "",
        ]
    )


def figure(value: float) -> str:
    """A number of three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
