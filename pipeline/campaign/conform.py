"""Adapters held against the golden vectors: each adapter by each run of cases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from kraftspec.conformance.cases import Case, Filters, read_cases
from kraftspec.conformance.fuzz.compare import normal
from kraftspec.conformance.harness import Adapter
from kraftspec.conformance.known import KnownFailures, known_file
from kraftspec.conformance.pool import begin
from kraftspec.conformance.raw.results import Failure, Results
from kraftspec.conformance.registry import find
from kraftspec.conformance.report import set_and_message
from kraftspec.conformance.run import adapter_exec, run
from kraftspec.conformance.vectors import vectors_root
from kraftspec.pipeline.campaign.kind import (
    RESULTS,
    Finding,
    Result,
    Tally,
    Unit,
    kept,
    programs,
    room,
)

CASES_PER_UNIT = 2000
TIMEOUT_S = 30.0
# The counts of a run, and what they are called here.
CLASSES = {
    "passed": "passed", "failed": "failed", "skipped": "skipped", "known_failures": "known",
    "unexpected_passes": "unexpected",
}  # fmt: skip


class Conform(msgspec.Struct, frozen=True, kw_only=True):
    """Adapters by name or command, and filters of the vectors as ``conform run`` has them."""

    name: ClassVar[str] = "conform"
    schema: ClassVar[pa.Schema] = RESULTS

    names: tuple[str, ...]
    commands: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    unit_cases: int = CASES_PER_UNIT

    def options(self) -> dict[str, Any]:
        """Return the options, and what the adapters say of themselves."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return {**made, "asked": _versions(self)}

    def sources(self) -> list[Path]:
        """Return vectors, judge and adapters."""
        rooms = ("fastpath", "generated", "specs", "codegen", "conformance")
        return [*map(room, rooms), *programs(self.commands), Path(__file__)]

    def plan(self) -> list[Unit]:
        """Give each adapter all cases, in units of ``unit_cases``."""
        count = len(_cases(self.filters))
        if not count:
            raise ValueError(f"no vectors match {' '.join(self.filters)!r}")
        _versions(self)  # One that does not build, or does not start, is told of before all else.
        units: list[Unit] = []
        for who in _sources(self):
            for first in range(0, count, self.unit_cases):
                last = min(first + self.unit_cases, count)
                units.append(
                    Unit(len(units), last - first, {"who": who, "first": first, "last": last})
                )
        return units

    def run(self, unit: Unit) -> Result:
        """Put some cases to an adapter, which runs on for the next unit."""
        who = unit.work["who"]
        asked = kept((self, who), lambda: _Asked(self, who))
        results = run(
            asked.adapter,
            filters=Filters(self.filters),
            cases=_cases(self.filters)[unit.work["first"] : unit.work["last"]],
            known=_known(self, who),
            name=who,
            source=_sources(self)[who],
            keep=True,
        )
        findings = list(_findings(who, results))
        return Result(list(_tallies(who, results)), findings)


class _Asked:
    """An adapter; it starts when it is asked."""

    def __init__(self, kind: Conform, who: str) -> None:
        self.adapter = _adapter(kind, who)

    def close(self) -> None:
        self.adapter.stop()


def _sources(kind: Conform) -> dict[str, str]:
    """Return the options that name each adapter to ``conform run``, by what it is called."""
    by_command = {
        f"exec-{number}" if number else "exec": f"--exec {quote(command)}"
        for number, command in enumerate(kind.commands)
    }
    return by_command | {name: f"--adapter {name}" for name in kind.names}


def _adapter(kind: Conform, who: str) -> Adapter:
    if who in kind.names:
        return find(who).adapter(timeout_s=kind.timeout_s)
    adapter = adapter_exec(kind.commands[list(_sources(kind)).index(who)])
    adapter.timeout_s = kind.timeout_s
    return adapter


def _known(kind: Conform, who: str) -> KnownFailures:
    path = known_file(who)
    return KnownFailures.read(path) if who in kind.names and path.exists() else KnownFailures()


@cache
def _cases(filters: tuple[str, ...]) -> list[Case]:
    return read_cases(vectors_root(), Filters(filters))


@cache
def _versions(kind: Conform) -> dict[str, str]:
    """Start each adapter and return its version."""
    found = {}
    for who in _sources(kind):
        with _adapter(kind, who) as adapter:
            found[who] = begin(adapter, set()).version
    return found


def _tallies(who: str, results: Results) -> Iterator[Tally]:
    for key, versions in results.messages.items():
        spec, message = set_and_message(key)
        for version, counts in versions.items():
            for field, class_ in CLASSES.items():
                if count := getattr(counts, field):
                    yield Tally(who, spec, message, int(version), "", class_, count)


def _findings(who: str, results: Results) -> Iterator[Finding]:
    """Yield what is wrong and not known to be, a row for each version, the least of its like."""
    alike: dict[tuple[str, int], list[Failure]] = {}
    for failure in results.failures:
        if not failure.known:
            alike.setdefault((_signature(who, failure), failure.version), []).append(failure)
    for (signature, version), failures in sorted(alike.items(), key=lambda item: item[0]):
        least = min(failures, key=lambda one: (len(msgspec.json.encode(one)), one.id))
        path = f" at {normal(least.path)}" if least.path else ""
        yield Finding(
            adapter=who, set=least.spec, message=least.message, version=version,
            entry=least.direction, class_=least.kind, count=len(failures), signature=signature,
            title=f"{least.spec}/{least.message} {least.direction}: {least.kind}{path}",
            detail=least.detail, reproduce=least.reproduce,
            example=msgspec.json.encode(least).decode(),
        )  # fmt: skip
    if results.harness_failure:
        broke = results.harness_failure
        yield Finding(
            adapter=who, set="", message="", version=0, entry="", class_="harness", count=1,
            signature=_named(who, "harness", broke.kind), detail=broke.detail, example="",
            title=f"the harness gave {who} up ({broke.kind}): cases were not run",
            reproduce="",
        )  # fmt: skip


def _signature(who: str, failure: Failure) -> str:
    where = normal(failure.path) if failure.path else ""
    return _named(who, failure.spec, failure.message, failure.direction, failure.kind, where)


def _named(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
