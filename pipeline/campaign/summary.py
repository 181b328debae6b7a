"""What a campaign found out, counted by Spark SQL over its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from kraftspec.pipeline.campaign.kind import Kind, Unit
from kraftspec.pipeline.campaign.store import Store

# The count of a unit must be the sum of its tallies.
_UNITS = """
SELECT count(*) AS units, sum(cases) AS cases, sum(seconds) AS seconds,
  sum(if(cases = tallied, 0, 1)) AS wrong
FROM (SELECT unit, sum(if(row = 'unit', count, 0)) AS cases, sum(seconds) AS seconds,
  sum(if(row = 'tally', count, 0)) AS tallied FROM results GROUP BY unit)
"""
_CLASSES = """
SELECT adapter, `set`, class, sum(count) AS cases FROM results
WHERE row = 'tally' GROUP BY ALL ORDER BY ALL
"""
_MESSAGES = """
SELECT adapter, `set`, message, version, entry, class, sum(count) AS cases FROM results
WHERE row = 'tally' GROUP BY ALL ORDER BY ALL
"""
# Of the examples the shortest, and of those the first: whatever the order of the files.
_FINDINGS = """
SELECT signature, first.title, first.adapter, first.`set`, first.message, first.entry,
  first.class, versions, cases, units, first.detail, first.example, first.reproduce
FROM (SELECT signature, min(struct(length(example) AS size, example, detail, title, adapter, `set`,
    message, entry, class, reproduce)) AS first,
  sort_array(collect_set(version)) AS versions, sum(count) AS cases,
  count(DISTINCT unit) AS units
  FROM results WHERE row = 'finding' GROUP BY signature)
ORDER BY cases DESC, signature
"""


class Found(msgspec.Struct, kw_only=True):
    """A finding, whichever units met it; the example is the shortest."""

    signature: str
    title: str
    adapter: str
    set: str
    message: str
    entry: str
    class_: str = msgspec.field(name="class")
    versions: list[int]
    cases: int
    units: int
    detail: str
    example: str
    reproduce: str


class Summary(msgspec.Struct, kw_only=True, rename="camel"):
    """The totals of a campaign.

    Attributes:
        units: how many there are, ``done``: how many of them have a result.
        cases: of the results. ``seconds``: the units' own, added up over the executors.
        by_class: rows of adapter, set, class, cases.
        by_message: rows of adapter, set, message, version, entry, class, cases.
    """

    kind: str
    options: dict[str, Any]
    units: int
    done: int
    cases: int
    seconds: float
    by_class: list[dict[str, Any]]
    by_message: list[dict[str, Any]]
    findings: list[Found]


class CountError(Exception):
    """The results contradict each other: a mistake in the campaign, not a finding."""


def summarise(spark: SparkSession, kind: Kind, store: Store, units: Sequence[Unit]) -> Summary:
    """Count what the results of the units hold. Raises ``CountError``."""
    paths = [str(path) for unit in units if (path := store.path(unit)).exists()]
    read = spark.read.parquet(*paths).cache()
    read.createOrReplaceTempView("results")

    def rows(query: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in spark.sql(query).collect()]

    try:
        [whole], by_class, by_message, findings = map(
            rows, (_UNITS, _CLASSES, _MESSAGES, _FINDINGS)
        )
    finally:
        read.unpersist()
    if whole["wrong"] or whole["units"] != len(paths):
        raise CountError(
            f"{len(paths)} results have {whole['units']} units, of {whole['wrong']} of which the "
            f"counts do not add up: see {store.units}"
        )
    return Summary(
        kind=kind.name,
        options=kind.options(),
        units=len(units),
        done=whole["units"],
        cases=whole["cases"],
        seconds=round(whole["seconds"], 1),
        by_class=by_class,
        by_message=by_message,
        findings=[msgspec.convert(row, Found) for row in findings],
    )


def write(summary: Summary, directory: Path) -> None:
    """Write ``summary.json``, and the inputs that a command can replay into ``findings/``."""
    text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    (directory / "summary.json").write_bytes(text + b"\n")
    for finding in summary.findings:
        place = finding.reproduce.partition("--replay ")[2]
        if place:
            path = directory / place
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(json.loads(finding.example), indent=2).encode()
            path.write_bytes(text + b"\n")
