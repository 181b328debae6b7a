"""The performance page: from ``results.json`` to ``docs/performance.md``, its chart and README.

``python -m benchmarks.report`` writes all of them again; ``--check`` fails where one differs from
what the committed run contains. The same file gives the same text.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import chart, results

README = results.HERE.parent / "README.md"
DOCS = results.HERE.parent / "docs"
PAGE = DOCS / "performance.md"
CHART = DOCS / "performance.svg"
OURS = "kraftspec"

INTRODUCTION = """\
# Performance

<!-- Written by `make bench` from benchmarks/results.json. -->

After this page you know how fast each part is, compared with which peer, and how to measure it.

Read the ratios. Absolute figures belong to one machine on one day; a ratio compares two programs
that did the same work, on the same bytes, within the same minutes. Each program must first produce
the same bytes as ours; otherwise it is an error and not a row.
"""

CONTEXT = """\
### What others publish

No ratios: other machines, other years, networks between the machines, and more work for each
write (a store of keys; a controller's metadata). The figures show how much a quorum has to do.

* etcd 3.2 writes 44,341 keys a second at the leader, 22 ms each, 50,104 at all members, 20 ms, and
  583 from one client, 1.6 ms: keys of 8 bytes, values of 256, else 1,000 clients, three machines
  of 8 vCPUs with an SSD ([Performance](https://etcd.io/docs/v3.4/op-guide/performance/)).
* An etcd has a store of 2 GiB by default, 8 GiB are the suggested maximum, and a request has
  1.5 MiB ([System limits](https://etcd.io/docs/v3.6/dev-guide/limit/)).
* The metadata log of Kafka is sized by an example of a million partitions (100,000 topics) on 100
  brokers: one that goes offline is 30,000 changes of 40 bytes, if each were a record
  ([KIP-630](https://cwiki.apache.org/confluence/display/KAFKA/KIP-630%3A+Kafka+Raft+Snapshot)).
* Kafka 4.4.0, by its defaults, makes a snapshot after 20 MiB of records
  (`metadata.log.max.record.bytes.between.snapshots`) or an hour
  (`metadata.log.max.snapshot.interval.ms`), keeps 100 MiB of log and snapshots
  (`metadata.max.retention.bytes`), and appends a NoOpRecord each 500 ms without an append
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
and the tables have the median of the laps. The programs in Java, Go, Rust and
JavaScript run through a lap and measure each group right after the first of ours; they are warmed
up before (the JVM has compiled by then). Their sources are in `benchmarks/peers`.

`make bench-check` fails when a ratio has lost more than a quarter of its committed value (a row
in `benchmarks/targets.toml` may set another limit). It compares the fastest tenth of the rounds, on
both sides and in both runs: a slow machine slows both, and a busy one disturbs the others.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, or check; the exit code is 1 where the page or the chart is stale."""
    run = results.load(results.COMMITTED)
    return write_or_check(texts(run), "make bench-report", arguments, __doc__)


def write_or_check(
    texts: Mapping[Path, str], again: str, arguments: Sequence[str] | None, description: str | None
) -> int:
    """Write the files, or with ``--check`` return 1 where one is stale; ``again`` writes them."""
    parser = argparse.ArgumentParser(prog=again, description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where stale")
    options = parser.parse_args(arguments)
    if not options.check:
        write(texts)
        return 0
    stale = [
        path.name
        for path, text in texts.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"stale: {', '.join(stale)}; write again with: {again}", file=sys.stderr)
    return 1 if stale else 0


def write(texts: Mapping[Path, str]) -> None:
    """Write each file."""
    for path, text in texts.items():
        path.write_text(text, "utf-8")


def texts(run: dict[str, Any]) -> dict[Path, str]:
    """Return the page, the chart and README of a run."""
    return {PAGE: page(run), CHART: picture(run), README: front(run)}


def names() -> list[str]:
    """The files that a whole run writes, as one names them in the checkout."""
    root = results.HERE.parent
    return [path.relative_to(root).as_posix() for path in (results.COMMITTED, PAGE, CHART, README)]


def page(run: dict[str, Any]) -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, _warning(run), _ratios(run), _picture(), _figures(run), _context(run)]
    parts.append(_measured_on(run))
    return "\n".join(part for part in [*parts, REPEAT] if part)


def _warning(run: dict[str, Any]) -> str:
    reasons = results.noise(run)
    lines = [f"    {why[0].upper()}{why[1:]}." for why in reasons]
    lines += [
        f"    {name} was not measured: {why.splitlines()[0]}."
        for name, why in sorted(run["missing"].items())
    ]
    if not lines:
        return ""
    title = "This run was not made on a quiet machine" if reasons else "Not every peer was measured"
    return "\n".join([f'!!! warning "{title}"', *lines, ""])


def _ratios(run: dict[str, Any]) -> str:
    """The table of targets."""
    ratios = [results.ratio(run, target) for target in results.targets()]
    met = sum(ratio.met is True for ratio in ratios)
    blank = sum(ratio.met is None for ratio in ratios)
    unknown = f", {blank} not measured" if blank else ""
    lines = [
        "## Ratios",
        "",
        f"Times faster than a peer, or times less of memory; {met} of {len(ratios)} targets "
        f"met{unknown}. The last figure is of the fastest tenth of all rounds, which a busy "
        "machine disturbs least.",
        "",
        "| what | group | ours | peer | target | measured | met | laps | undisturbed |",
        "| --- | --- | --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for ratio in ratios:
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
    return "![Rates as bars; the figures are below](performance.svg)\n"


def picture(run: dict[str, Any]) -> str:
    """The chart as SVG."""
    panels = []
    for panel in tomllib.loads(results.TARGETS.read_text("utf-8"))["chart"]:
        rows = [row for row in run["rows"] if row["group"] == panel["group"]]
        bars = [(row["who"], rate(row, panel["unit"])) for row in rows]
        bars.sort(key=lambda bar: -bar[1])
        if bars:
            panels.append(chart.Panel(panel["title"], panel["unit"], bars))
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
        "Quorum over TCP, a process a node: thousand records a second, by records an append",
        "TCP quorum ",
        "thousand records/s",
    ),
    (
        "Quorum over TCP, 64 appends in flight: thousand records a second, by records an append",
        "TCP quorum, 64 in flight, ",
        "thousand records/s",
    ),
    ("Quorum over TCP: from an append to its acknowledgement, ms", "TCP acknowledged ", "ms"),
    (
        "Quorum over TCP, 64 appends in flight: to the acknowledgement, ms",
        "TCP acknowledged, 64 in flight, ",
        "ms",
    ),
    ("A controller: from its start to the first answer as leader, ms", "node start", "ms"),
    ("A controller: resident memory then, MiB", "node memory", "MiB"),
    ("Three controllers: from SIGKILL of the leader to another, ms", "node fail-over", "ms"),
    ("The command quorum describe --status, whole, ms", "command quorum describe", "ms"),
    ("The command dump-log of a metadata log of 256 MiB, whole, ms", "command dump-log", "ms"),
    ("Proxy: an exchange of 1 KiB, µs", "proxy exchange ", "µs"),
    ("Proxy: answers to Fetch of 1 MiB, GB/s of its processor time", "proxy fetch ", "GB/s"),
    ("Messages: encode, µs", "encode ", "µs"),
    ("Messages: decode, µs", "decode ", "µs"),
    ("Clients in JavaScript, µs", "javascript ", "µs"),
    ("Compress, µs", "compress ", "µs"),
    ("Decompress, µs", "decompress ", "µs"),
    ("A whole process: start Python, import, end, ms", "import", "ms"),
    ("Everything else, µs", "", "µs"),
)


# The table in README: what, group, unit, ours, and the peers that are named beside it.
FRONT = (
    ("Encode a MetadataResponse of 1,000 partitions, µs", "encode metadata-v12-100x10", "µs",
     "kraftspec", ("Rust kafka-protocol", "Go franz-go", "Java kafka-clients", "kafka-python",
                   "kio")),
    ("Decode it, µs", "decode metadata-v12-100x10", "µs",
     "kraftspec", ("Java kafka-clients", "Go franz-go", "Rust kafka-protocol", "kio",
                   "kafka-python")),
    ("Encode record batches (100 records of 100 B), million records/s", "batch encode A/100",
     "M records/s", "kraftspec bulk", ("Rust kafka-protocol", "Go franz-go", "Java kafka-clients",
                                       "aiokafka", "kafka-python")),
    ("Decode record batches into columns, million records/s", "batch decode A/10k", "M records/s",
     "kraftspec columns", ("Java kafka-clients", "Rust kafka-protocol", "Go franz-go", "aiokafka",
                           "kafka-python")),
    ("CRC-32C of 1 MiB, GB/s", "crc 1 MiB", "GB/s",
     "kraftspec", ("crc32c-rs", "fastcrc", "Java CRC32C", "crc32c", "aiokafka")),
    ("Append one batch of 100 records and sync, µs", "append 100", "µs",
     "kraftspec", ("write + fsync",)),
    ("A quorum of three nodes appends, thousand records/s", "quorum 100", "thousand records/s",
     "kraftspec", ("write + fdatasync",)),
    ("A controller from start to leader, ms", "node start", "ms",
     "kraftspec", ("Kafka, small heap and class archive", "Kafka, as its script starts it")),
    ("Fail-over after SIGKILL of the leader, ms", "node fail-over", "ms",
     "kraftspec", ("Kafka, small heap and class archive",)),
)  # fmt: skip
FRONT_TABLE = re.compile(
    r"(?<=<!-- figures: written by `make bench` -->\n\n).*?(?=\n\n)", re.DOTALL
)


def front(run: dict[str, Any]) -> str:
    """README with the figures of a run: the text as it is, and the table written anew."""
    rows = {(row["group"], row["who"]): row for row in run["rows"]}
    lines = [_line(["", OURS, "others"]), _line(["---", "---:", "---"])]
    for what, group, unit, ours, peers in FRONT:
        value = {
            who: figure(rate(rows[group, who], unit))
            for who in (ours, *peers)
            if (group, who) in rows
        }
        others = ", ".join(f"{who} {value[who]}" for who in peers if who in value)
        lines.append(_line([what, f"**{value[ours]}**" if ours in value else "", others]))
    return FRONT_TABLE.sub("\n".join(lines).replace("\\", r"\\"), README.read_text("utf-8"))


def _figures(run: dict[str, Any]) -> str:
    groups = list(dict.fromkeys(row["group"] for row in run["rows"]))
    parts = ["## Figures", ""]
    if any(group.startswith("batch ") for group in groups):
        parts += [
            "A: null key, 100 bytes of value. B: 16 bytes of key, 100 of value, one header. "
            "C: 1 KiB of value. The number after the slash: records a batch.",
            "",
        ]
    if any(group.startswith("quorum ") for group in groups):
        parts += [
            "The quorum: three nodes in one process, each with its log on the disk, and a client "
            "that keeps 8 batches of records of 100 bytes in flight. The loops beside it have "
            "the bytes already and write them to three files, with a sync wherever a log had one: "
            "one file after another, a thread a file, and that into preallocated zeros.",
            "",
        ]
    if any(group.startswith("TCP ") for group in groups):
        parts += [
            "Over TCP: the same with a process a node, over loopback, the client in the leader's. "
            "No node writes a snapshot.",
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
        row_cells = (cells.get((group, who)) for group in groups)
        texts = ["" if row is None else figure(rate(row, unit)) for row in row_cells]
        lines.append(_line([f"**{who}**" if OURS in who else who, *texts]))
    return lines


def _measured_on(run: dict[str, Any]) -> str:
    facts, quiet = run["machine"], run["quiet"]
    others = quiet["others_cpus"]
    busy = "" if others is None else f", others used {others:g} processors on average"
    commit = run["commit"]["id"][:12] + (" with changes" if run["commit"]["changed"] else "")
    memory = f", {facts['memory_gib']} GiB" if facts["memory_gib"] else ""
    lines = [
        "## Made on",
        "",
        "| | |",
        "| --- | --- |",
        f"| processor | {facts['cpu_count']} of {facts['cpu']} ({', '.join(facts['cpu_flags'])}) |",
        f"| system | {facts['system']}{memory} |",
        f"| Python | {facts['python']} |",
        f"| kraftspec | commit {commit}; codec: {run['codec']} |",
        f"| date | {run['date']} |",
        f"| run | {run['laps']} laps; load average {quiet['load_before']:g} before{busy} |",
        f"| Python packages | {_versions(run['packages'])} |",
    ]
    lines += [f"| {name} | {_versions(run['programs'][name])} |" for name in run["programs"]]
    return "\n".join([*lines, ""])


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


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
