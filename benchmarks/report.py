"""The performance page: from ``results.json`` to ``docs/performance.md`` and its chart.

``python -m benchmarks.report`` writes both again; ``--check`` fails where they are not what the
committed run says. The same file gives the same text.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from typing import Any

from benchmarks import chart, results

DOCS = results.HERE.parent / "docs"
PAGE = DOCS / "performance.md"
CHART = DOCS / "performance.svg"
OURS = "kraftspec"

INTRODUCTION = """\
# Performance

<!-- Written by `make bench` from benchmarks/results.json. -->

Read the ratios. Absolute figures belong to one machine on one day; a ratio compares two programs
that did the same work, on the same bytes, within the same minutes. Each contestant proves first
that its bytes are ours: who gives others is an error, not a row.
"""

CONTEXT = """\
### What others publish of theirs

No ratios: other machines, other years, networks between the machines, and more work behind each
write (a store of keys; a controller's metadata). It says how much a quorum is asked for.

* etcd 3.2 writes 44,341 keys a second at the leader, 22 ms each, 50,104 at all members, 20 ms, and
  583 from one client, 1.6 ms: keys of 8 bytes, values of 256, else 1,000 clients, three machines
  of 8 vCPUs with an SSD ([Performance](https://etcd.io/docs/v3.4/op-guide/performance/)).
* An etcd has a store of 2 GiB by default, 8 GiB are the most that is suggested, and a request has
  1.5 MiB ([System limits](https://etcd.io/docs/v3.6/dev-guide/limit/)).
* The metadata log of Kafka is sized by an example of a million partitions (100,000 topics) on 100
  brokers: one that goes offline is 30,000 changes of 40 bytes, if each were a record
  ([KIP-630](https://cwiki.apache.org/confluence/display/KAFKA/KIP-630%3A+Kafka+Raft+Snapshot)).
* Kafka 4.3.1, by its defaults, makes a snapshot after 20 MiB of records
  (`metadata.log.max.record.bytes.between.snapshots`) or an hour
  (`metadata.log.max.snapshot.interval.ms`), keeps 100 MiB of log and snapshots
  (`metadata.max.retention.bytes`), and appends a NoOpRecord when nothing was, each 500 ms
  (`metadata.max.idle.interval.ms`).
"""

REPEAT = """\
## How to repeat it

```console
$ make bench                  # three laps, some minutes; writes this page
$ make bench ARGS=--quick     # one short lap, prints the ratios, writes nothing
$ make bench ARGS='-k crc'    # only what pytest's -k chooses
$ make bench-check            # compares a short run with the committed one, by ratio
```

A lap is one pass over all groups in a process of its own. Each figure is the median of a lap's
rounds (a millisecond each, or one call where that takes longer), a ratio is taken within a lap,
and the tables tell the median of the laps. The programs in Java, Go and Rust stay up through a
lap and measure each group right after the first of ours; they are warmed up before (the JVM has
compiled by then). What each does stands in `benchmarks/peers`.

`make bench-check` fails when a ratio has lost more than a quarter of its committed value (a row
may say otherwise in `benchmarks/targets.toml`). It compares the fastest tenth of the rounds, on
both sides and in both runs: a slow machine slows both, and a busy one disturbs the others.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, or check; the exit code is 1 where the page or the chart is stale."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where stale")
    given = parser.parse_args(arguments)
    run = results.load(results.COMMITTED)
    if not given.check:
        write(run)
        return 0
    texts = {PAGE: page(run), CHART: picture(run)}
    stale = [
        path.name
        for path, text in texts.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"stale: {', '.join(stale)}; write again with: make bench-report", file=sys.stderr)
    return 1 if stale else 0


def write(run: dict[str, Any]) -> None:
    """Write the page and the chart of a run."""
    PAGE.write_text(page(run), "utf-8")
    CHART.write_text(picture(run), "utf-8")


def names() -> list[str]:
    """The files that a whole run writes, as one names them in the checkout."""
    root = results.HERE.parent
    return [path.relative_to(root).as_posix() for path in (results.COMMITTED, PAGE, CHART)]


def page(run: dict[str, Any]) -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, _warning(run), _ratios(run), _picture(), _figures(run), _context(run)]
    parts.append(_made_on(run))
    return "\n".join(part for part in [*parts, REPEAT] if part)


def _warning(run: dict[str, Any]) -> str:
    told = results.noise(run)
    lines = [f"    {why[0].upper()}{why[1:]}." for why in told]
    lines += [
        f"    {name} was not measured: {why.splitlines()[0]}."
        for name, why in sorted(run["missing"].items())
    ]
    if not lines:
        return ""
    title = "This run was not made on a quiet machine" if told else "Not every peer was measured"
    return "\n".join([f'!!! warning "{title}"', *lines, ""])


def _ratios(run: dict[str, Any]) -> str:
    """The table of targets."""
    found = [results.ratio(run, target) for target in results.targets()]
    met = sum(ratio.met is True for ratio in found)
    blank = sum(ratio.met is None for ratio in found)
    unknown = f", {blank} not measured" if blank else ""
    lines = [
        "## Ratios",
        "",
        f"Times faster than a peer, or times less of memory; {met} of {len(found)} targets "
        f"met{unknown}. The last figure is that of the fastest tenth of all rounds, which a busy "
        "machine disturbs least.",
        "",
        "| what | group | ours | peer | target | measured | met | laps | undisturbed |",
        "| --- | --- | --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for ratio in found:
        target = ratio.target
        cells = [target.what, target.group, target.ours, target.against, f"{target.at_least:g}"]
        if ratio.value is None:
            cells += ["", f"not measured ({ratio.lacks})", "", ""]
        else:
            verdict = "yes" if ratio.met else "**no**"
            cells += [f"**{figure(ratio.value)}**", verdict, laps(ratio), steady(run, target)]
        lines.append(_line(cells))
    return "\n".join([*lines, ""])


def _picture() -> str:
    return "![What each does in a second, as bars; the figures stand below](performance.svg)\n"


def picture(run: dict[str, Any]) -> str:
    """The chart as SVG."""
    panels = []
    for wanted in tomllib.loads(results.TARGETS.read_text("utf-8"))["chart"]:
        rows = [row for row in run["rows"] if row["group"] == wanted["group"]]
        bars = [(row["who"], rate(row, wanted["unit"])) for row in rows]
        bars.sort(key=lambda bar: -bar[1])
        if bars:
            panels.append(chart.Panel(wanted["title"], wanted["unit"], bars))
    return chart.draw(panels, OURS)


def rate(row: dict[str, Any], unit: str) -> float:
    """What a row is worth in a unit of speed, or of time."""
    call_ns = results.middle(row)
    if unit == "GB/s":
        return float(row["bytes"] / call_ns)
    if unit == "M records/s":
        return float(row["records"] * 1e3 / call_ns)
    if unit == "thousand records/s":
        return float(row["records"] * 1e6 / call_ns)
    # A measurement of memory has bytes where others have nanoseconds.
    parts = {"µs": 1e3, "ms": 1e6, "MiB": 1 << 20}
    return 1e9 / call_ns if unit == "calls/s" else call_ns / parts[unit]


# What begins so is one table: heading, prefix of its groups, unit.
FAMILIES = (
    ("CRC-32C, GB/s", "crc ", "GB/s"),
    ("Record batches: encode, million records a second", "batch encode ", "M records/s"),
    ("Record batches: decode, million records a second", "batch decode ", "M records/s"),
    ("Append and sync by several threads, µs for 64 batches of 100", "append 100, ", "µs"),
    ("Append and sync, µs", "append ", "µs"),
    ("Quorum: thousand records a second, by records a batch", "quorum ", "thousand records/s"),
    ("Quorum: from giving a batch to its acknowledgement, ms", "acknowledged ", "ms"),
    (
        "Quorum over TCP, a process a node: thousand records a second, by records a batch",
        "TCP quorum ",
        "thousand records/s",
    ),
    ("Quorum over TCP: from giving a batch to its acknowledgement, ms", "TCP acknowledged ", "ms"),
    ("A controller: from its start to the first answer as leader, ms", "node start", "ms"),
    ("A controller: resident memory then, MiB", "node memory", "MiB"),
    ("Three controllers: from SIGKILL of the leader to another, ms", "node fail-over", "ms"),
    ("The command quorum describe --status, whole, ms", "command quorum describe", "ms"),
    ("The command dump-log of a metadata log of 256 MiB, whole, ms", "command dump-log", "ms"),
    ("Messages: encode, µs", "encode ", "µs"),
    ("Messages: decode, µs", "decode ", "µs"),
    ("Compress, µs", "compress ", "µs"),
    ("Decompress, µs", "decompress ", "µs"),
    ("A whole process: start Python, import, end, ms", "import", "ms"),
    ("Everything else, µs", "", "µs"),
)


def _figures(run: dict[str, Any]) -> str:
    groups = list(dict.fromkeys(row["group"] for row in run["rows"]))
    parts = ["## Figures", ""]
    if any(group.startswith("batch ") for group in groups):
        parts += [
            "A: null key, 100 bytes of value. B: 16 bytes of key, 100 of value, one header. "
            "C: 1 KiB of value. Behind the stroke: records a batch.",
            "",
        ]
    if any(group.startswith("quorum ") for group in groups):
        parts += [
            "The quorum: three nodes in one process, each with its log on the disk, and a client "
            "that keeps 8 batches of records of 100 bytes on their way. Beside it loops that have "
            "the bytes already and write them to three files, with a sync wherever a log had one: "
            "one file after another, a thread a file, and that over zeros which were there before.",
            "",
        ]
    if any(group.startswith("TCP ") for group in groups):
        parts += [
            "Over TCP: the same with a process a node, over loopback, the client in the leader's.",
            "",
        ]
    for heading, prefix, unit in FAMILIES:
        mine = [group for group in groups if group.startswith(prefix)]
        groups = [group for group in groups if group not in mine]
        if mine:
            rows = [row for row in run["rows"] if row["group"] in mine]
            parts += [f"### {heading}", "", *_table(rows, mine, prefix, unit), ""]
    return "\n".join(parts)


def _context(run: dict[str, Any]) -> str:
    """What others say of theirs, where the run has a quorum; the same whatever was measured."""
    has_quorum = any("quorum" in row["group"].split()[:2] for row in run["rows"])
    return CONTEXT if has_quorum else ""


def _table(rows: list[dict[str, Any]], groups: list[str], prefix: str, unit: str) -> list[str]:
    cells = {(row["group"], row["who"]): row for row in rows}
    everyone = sorted({row["who"] for row in rows}, key=lambda who: (OURS not in who, who.lower()))
    lines = [
        _line(["", *(group.removeprefix(prefix) or unit for group in groups)]),
        _line(["---", *("---:" for _ in groups)]),
    ]
    for who in everyone:
        found = (cells.get((group, who)) for group in groups)
        told = ["" if row is None else figure(rate(row, unit)) for row in found]
        lines.append(_line([f"**{who}**" if OURS in who else who, *told]))
    return lines


def _made_on(run: dict[str, Any]) -> str:
    made, quiet = run["machine"], run["quiet"]
    others = quiet["others_cpus"]
    busy = "" if others is None else f", others used {others:g} processors on average"
    commit = run["commit"]["id"][:12] + (" with changes" if run["commit"]["changed"] else "")
    memory = f", {made['memory_gib']} GiB" if made["memory_gib"] else ""
    lines = [
        "## Made on",
        "",
        "| | |",
        "| --- | --- |",
        f"| processor | {made['cpu_count']} of {made['cpu']} ({', '.join(made['cpu_flags'])}) |",
        f"| system | {made['system']}{memory} |",
        f"| Python | {made['python']} |",
        f"| kraftspec | commit {commit}; codec: {run['codec']} |",
        f"| date | {run['date']} |",
        f"| run | {run['laps']} laps; load average {quiet['load_before']:g} before{busy} |",
        f"| Python packages | {_versions(run['packages'])} |",
    ]
    lines += [f"| {name} | {_versions(run['programs'][name])} |" for name in run["programs"]]
    return "\n".join([*lines, ""])


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def laps(ratio: results.Ratio) -> str:
    """The lowest and the highest ratio of the laps."""
    assert ratio.low is not None
    assert ratio.high is not None
    low, high = figure(ratio.low), figure(ratio.high)
    return low if low == high else f"{low} to {high}"


def steady(run: dict[str, Any], target: results.Target) -> str:
    """The ratio of the fastest rounds."""
    value = results.steady_ratio(run, target).value
    return "" if value is None else figure(value)


def figure(value: float) -> str:
    """Three digits that mean something, and thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except results.ResultsError as error:
        sys.exit(str(error))
