"""On paper: what a petabyte on a thousand cores takes, from the constants that a run measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.pipeline import results

BYTES = 1e15
CORES = 1000
SEGMENT_BYTES = 1 << 30  # Kafka's default for segment.bytes.
SPLIT_BYTES = 64 << 20  # Our default.
LARGE_SPLIT_BYTES = 8 << 30
RANGE_BYTES = 16 << 20  # The size of one request to an object store.
# Not measured here. What an object store takes to answer, what it lists at once, and how many GETs
# a second Amazon says a prefix of S3 answers.
REQUEST_S = 0.03
LIST_ENTRIES = 1000
PREFIX_GETS_PER_S = 5_500
FILES_PER_SEGMENT = 3  # The log and its two indexes.
# Neither are these: the processors of a node, and its network.
NODE_CORES = 16
NODE_GBIT_PER_S = 25


@dataclass(frozen=True)
class Paper:
    """Seconds, counts and rates; each is one line of arithmetic."""

    scan_s: float
    aggregate_s: float
    seven_s: float
    segments: float
    tasks: float
    large_tasks: float
    task_s: float
    large_task_s: float
    discover_s: float
    divide_s: float
    plan_bytes: float
    large_plan_bytes: float
    list_s: float
    index_s: float
    ranges: float
    ranges_per_s: float
    node_gbit_per_s: float


def paper(run: results.Run, shape: str = "plain") -> Paper:
    """Work it out for the data of a shape."""
    per_core = {
        who: results.rate(run, shape, who) / run["cores"] * 1e6
        for who in ("kafkalog", "aggregate in Arrow")
    }
    # One process on one core, where the others have a core for the JVM and one for Python.
    scan = results.rate(run, shape, "scan", "cpu") * 1e6
    planning = run["planning"]
    segments = BYTES / SEGMENT_BYTES
    rate = per_core["aggregate in Arrow"] * CORES
    return Paper(
        scan_s=BYTES / (scan * CORES),
        aggregate_s=BYTES / rate,
        seven_s=BYTES / (per_core["kafkalog"] * CORES),
        segments=segments,
        tasks=BYTES / SPLIT_BYTES,
        large_tasks=BYTES / LARGE_SPLIT_BYTES,
        task_s=SPLIT_BYTES / per_core["aggregate in Arrow"],
        large_task_s=LARGE_SPLIT_BYTES / per_core["aggregate in Arrow"],
        discover_s=segments * planning["discover_s"] / planning["files"],
        divide_s=segments * planning["plan_s"] / planning["large_files"],
        plan_bytes=BYTES / SPLIT_BYTES * planning["split_bytes"],
        large_plan_bytes=segments * planning["split_bytes"],
        list_s=segments * FILES_PER_SEGMENT / LIST_ENTRIES * REQUEST_S,
        index_s=segments * REQUEST_S,
        ranges=BYTES / RANGE_BYTES,
        ranges_per_s=rate / RANGE_BYTES,
        node_gbit_per_s=per_core["aggregate in Arrow"] * NODE_CORES * 8 / 1e9,
    )


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _count(number: float) -> str:
    for unit, size in (("million", 1e6), ("thousand", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def page(run: results.Run) -> str:
    """The chapter of the page."""
    paper_ = paper(run)
    rows = [
        ("decode to Arrow, without Spark", f"{_time(paper_.scan_s)}", "of CPU on each core"),
        ("an aggregate, on Arrow in the workers", f"{_time(paper_.aggregate_s)}", "by the clock"),
        ("all seven columns into Spark", f"{_time(paper_.seven_s)}", "by the clock"),
    ]
    lines = [f"| {what} | {time} | {note} |" for what, time, note in rows]
    return "\n".join([_HEAD, *lines, "", _breaks(paper_)])


_HEAD = """\
## A petabyte on a thousand cores, on paper

10^15 bytes of the uncompressed records above, at the rates above for each core. Nobody has run
this. What is assumed and not measured is said.

| what | takes | |
| --- | ---: | --- |"""


def _breaks(paper: Paper) -> str:
    """What would give way, in the order in which it would."""
    is_network = paper.node_gbit_per_s > NODE_GBIT_PER_S
    prefixes = math.ceil(paper.ranges_per_s / PREFIX_GETS_PER_S)
    return f"""\
What would break, first things first:

1. **Tasks, and the driver's memory.** A petabyte in segments of 1 GiB is {_count(paper.segments)}
   files. At the default `splitBytes` of 64 MiB that is {_count(paper.tasks)} tasks of
   {_time(paper.task_s)} each, whose descriptions alone are {paper.plan_bytes / 1e9:.3g} GB pickled,
   before Spark has made objects of its own of them: the driver ends there. With `splitBytes` of
   8 GiB it is {_count(paper.large_tasks)} tasks of {_time(paper.large_task_s)}, described in
   {paper.large_plan_bytes / 1e9:.2g} GB. A worker's memory does not grow with the split (above);
   only the work that is lost with a task does.
2. **Planning one by one.** The driver finds the files in {_time(paper.discover_s)} on a local disk,
   and divides them by their indexes in {_time(paper.divide_s)}. From an object store that takes
   30 ms to answer (assumed), listing takes {_time(paper.list_s)} at 1,000 names a request, and
   reading each index {_time(paper.index_s)}, beside {_time(paper.aggregate_s)} for the whole
   aggregate. With `splitBytes` above the size of a segment no index is read. Beyond that, a job for
   each group of topics plans in parallel.
3. **The network.** A node of 16 cores reads {paper.node_gbit_per_s:.3g} Gbit/s for the aggregate on
   Arrow, and is taken to have 25: {"the network" if is_network else "its processors"} would be the
   limit. Compressed logs need less of it.
4. **Requests to the object store.** {_count(paper.ranges)} range reads of 16 MiB, together
   {_count(paper.ranges_per_s)} a second. S3 is said to answer 5,500 a second for each prefix, and
   a partition's directory is one: the reads must be spread over {prefixes} or more, and are.
5. **Shuffle.** None, as long as filters, projections and partial aggregates run on Arrow in the
   workers: a task gives a row a partition. A query that moves whole records between nodes moves the
   petabyte once more.
"""
