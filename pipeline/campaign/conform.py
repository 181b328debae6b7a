"""Adapters compared with the golden vectors: every adapter runs every case."""

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

from kraftspec.conformance.adapters.harness import Adapter
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.fuzz.compare import normal
from kraftspec.conformance.raw.results import Failure, Results
from kraftspec.conformance.report import set_and_message
from kraftspec.conformance.runner.cases import Case, Filters, read_cases
from kraftspec.conformance.runner.known import KnownFailures, known_failures
from kraftspec.conformance.runner.pool import begin
from kraftspec.conformance.runner.run import adapter_exec, run
from kraftspec.conformance.vectors import vectors_root
from kraftspec.pipeline.campaign.kind import (
    RESULTS,
    Finding,
    Result,
    Tally,
    Unit,
    kept,
    programs,
)
from kraftspec.sources import package_directory

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
        """Return the options and the versions of the adapters."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return {**options, "asked": _versions(self)}

    def sources(self) -> list[Path]:
        """Return vectors, judge and adapters."""
        packages = ("fastpath", "generated", "specs", "codegen", "conformance")
        return [*map(package_directory, packages), *programs(self.commands), Path(__file__)]

    def plan(self) -> list[Unit]:
        """Give each adapter all cases, in units of ``unit_cases``."""
        count = len(_cases(self.filters))
        if not count:
            raise ValueError(f"no vectors match {' '.join(self.filters)!r}")
        _versions(self)  # An adapter that does not build or start fails here, before any unit.
        units: list[Unit] = []
        for adapter in _sources(self):
            for first in range(0, count, self.unit_cases):
                last = min(first + self.unit_cases, count)
                units.append(
                    Unit(len(units), last - first, {"who": adapter, "first": first, "last": last})
                )
        return units

    def run(self, unit: Unit) -> Result:
        """Run some cases on an adapter; it keeps running for the next unit."""
        name = unit.work["who"]
        running = kept((self, name), lambda: _RunningAdapter(self, name))
        results = run(
            running.adapter,
            filters=Filters(self.filters),
            cases=_cases(self.filters)[unit.work["first"] : unit.work["last"]],
            known=_known(self, name),
            name=name,
            source=_sources(self)[name],
            keep=True,
        )
        findings = list(_findings(name, results))
        return Result(list(_tallies(name, results)), findings)


class _RunningAdapter:
    """An adapter; it starts at the first request."""

    def __init__(self, kind: Conform, name: str) -> None:
        self.adapter = _adapter(kind, name)

    def close(self) -> None:
        self.adapter.stop()


def _sources(kind: Conform) -> dict[str, str]:
    """Return the options that name each adapter to ``conform run``, by what it is called."""
    by_command = {
        f"exec-{number}" if number else "exec": f"--exec {quote(command)}"
        for number, command in enumerate(kind.commands)
    }
    return by_command | {name: f"--adapter {name}" for name in kind.names}


def _adapter(kind: Conform, name: str) -> Adapter:
    if name in kind.names:
        return find(name).adapter(timeout_s=kind.timeout_s)
    adapter = adapter_exec(kind.commands[list(_sources(kind)).index(name)])
    adapter.timeout_s = kind.timeout_s
    return adapter


def _known(kind: Conform, name: str) -> KnownFailures:
    return known_failures(name) if name in kind.names else KnownFailures()


@cache
def _cases(filters: tuple[str, ...]) -> list[Case]:
    return read_cases(vectors_root(), Filters(filters))


@cache
def _versions(kind: Conform) -> dict[str, str]:
    """Start each adapter and return its version."""
    versions = {}
    for name in _sources(kind):
        with _adapter(kind, name) as adapter:
            versions[name] = begin(adapter, set()).version
    return versions


def _tallies(adapter: str, results: Results) -> Iterator[Tally]:
    for key, versions in results.messages.items():
        spec, message = set_and_message(key)
        for version, counts in versions.items():
            for field, class_ in CLASSES.items():
                if count := getattr(counts, field):
                    yield Tally(adapter, spec, message, int(version), "", class_, count)


def _findings(adapter: str, results: Results) -> Iterator[Finding]:
    """Yield the new failures: a row for each signature and version, with the smallest example."""
    alike: dict[tuple[str, int], list[Failure]] = {}
    for failure in results.failures:
        if not failure.known:
            alike.setdefault((_signature(adapter, failure), failure.version), []).append(failure)
    for (signature, version), failures in sorted(alike.items(), key=lambda item: item[0]):
        least = min(failures, key=lambda one: (len(msgspec.json.encode(one)), one.id))
        path = f" at {normal(least.path)}" if least.path else ""
        yield Finding(
            adapter=adapter, set=least.spec, message=least.message, version=version,
            entry=least.direction, class_=least.kind, count=len(failures), signature=signature,
            title=f"{least.spec}/{least.message} {least.direction}: {least.kind}{path}",
            detail=least.detail, reproduce=least.reproduce,
            example=msgspec.json.encode(least).decode(),
        )  # fmt: skip
    if results.harness_failure:
        broke = results.harness_failure
        yield Finding(
            adapter=adapter, set="", message="", version=0, entry="", class_="harness", count=1,
            signature=_named(adapter, "harness", broke.kind), detail=broke.detail, example="",
            title=f"the harness gave up on {adapter} ({broke.kind}): cases were not run",
            reproduce="",
        )  # fmt: skip


def _signature(adapter: str, failure: Failure) -> str:
    where = normal(failure.path) if failure.path else ""
    return _named(adapter, failure.spec, failure.message, failure.direction, failure.kind, where)


def _named(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
