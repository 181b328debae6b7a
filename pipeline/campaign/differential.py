"""Differential fuzzing of two adapters, divided by message-version pairs.

The inputs of a pair follow from the seed, the number of the visit and the pair; so any
executor may make any visit.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from kraftspec.conformance.adapters.harness import AdapterError
from kraftspec.conformance.fuzz.campaign import TIMEOUT_S, Campaign
from kraftspec.conformance.fuzz.findings import Disagreement
from kraftspec.conformance.fuzz.run import Fuzz, Pair
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

INPUTS_PER_VISIT = (
    20  # Of a pair that both encode to the same bytes: 4 values, their bytes, 3 changes of each.
)
PAIRS_PER_UNIT = 128
DETAIL_CHARS_MAX = 500


class DifferentialFuzz(msgspec.Struct, frozen=True, kw_only=True):
    """Random values and changed bytes for two adapters; the trusted one is last.

    Attributes:
        names: of the registry. Together with ``commands`` they are two.
        cases: about so many inputs: how many a visit makes depends on what the adapters answer.
        filter: only messages of which this is a part of ``SET/MESSAGE``.
        policies: count what is a matter of policy too.
    """

    name: ClassVar[str] = "fuzz-differential"
    schema: ClassVar[pa.Schema] = RESULTS

    names: tuple[str, ...]
    commands: tuple[str, ...] = ()
    cases: int
    seed: int = 0
    filter: str = ""
    policies: bool = False
    timeout_s: float = TIMEOUT_S
    unit_pairs: int = PAIRS_PER_UNIT

    def options(self) -> dict[str, Any]:
        """Return the options and the versions of the adapters."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return {**options, "asked": _served(self)[1]}

    def sources(self) -> list[Path]:
        """Return the code that makes inputs and compares results, and the adapters."""
        packages = ("fastpath", "generated", "specs", "codegen", "conformance")
        return [*map(package_directory, packages), *programs(self.commands), Path(__file__)]

    def plan(self) -> list[Unit]:
        """Visit all pairs in turn until there are cases enough."""
        count = len(_served(self)[0])
        if not count:
            raise ValueError(f"there is no pair of {self.filter!r} that both adapters serve")
        units: list[Unit] = []
        left = -(-self.cases // INPUTS_PER_VISIT)  # Visits of a pair.
        visit = first = 0
        while left > 0:
            last = min(first + self.unit_pairs, count, first + left)
            work = {"visit": visit, "first": first, "last": last, "of": count}
            units.append(Unit(len(units), (last - first) * INPUTS_PER_VISIT, work))
            left -= last - first
            visit, first = (visit + 1, 0) if last == count else (visit, last)
        return units

    def run(self, unit: Unit) -> Result:
        """Run some pairs on both adapters."""
        running = kept(self, lambda: _RunningPair(self))
        work, names = unit.work, " and ".join(running.fuzz.names)
        if len(running.pairs) != work["of"]:
            raise AdapterError(
                "start", f"{names} serve {len(running.pairs)} pairs here, and {work['of']} where "
                "the campaign was planned: they are other releases",
            )  # fmt: skip
        fuzz = running.fuzz
        fuzz.reset()
        fuzz.visit(running.pairs[work["first"] : work["last"]], self.seed, work["visit"])
        fuzz.settle()
        report = fuzz.report
        tallies = [
            Tally(names, *kin[:3], kin[3], outcome, count)
            for (kin, outcome), count in sorted(fuzz.outcomes.items())
        ]
        if report.omitted:
            tallies.append(Tally(names, "", "", 0, "", "omitted", report.omitted))
        findings = [
            self._finding(names, report.findings[signature], version, count)
            for (signature, version), count in sorted(fuzz.met.items())
        ]
        if report.loose_ends:
            findings.append(self._loose(names, report.loose_ends))
        return Result(tallies, findings)

    def _finding(
        self, adapters: str, disagreement: Disagreement, version: int, count: int
    ) -> Finding:
        signature = disagreement.signature
        options = [f"--exec {quote(command)}" for command in self.commands]
        options += [f"--adapter {name}" for name in self.names]
        return Finding(
            adapter=adapters, set=signature.spec, message=signature.message, version=version,
            entry=signature.direction, class_=signature.kind, count=count,
            signature=signature.id, title=str(signature),
            detail=json.dumps(disagreement.answers, default=str)[:DETAIL_CHARS_MAX],
            example=json.dumps(disagreement.to_json()),
            reproduce=f"kraftspec conform fuzz {' '.join(options)} "
            f"--replay findings/{disagreement.file_name}",
        )  # fmt: skip

    @staticmethod
    def _loose(adapters: str, count: int) -> Finding:
        return Finding(
            adapter=adapters, set="", message="", version=0, entry="", class_="loose end",
            count=count, signature="loose-end", example="", reproduce="", detail="",
            title="an adapter ended, or answers differed, and it did not happen again",
        )  # fmt: skip


class _RunningPair:
    """Both adapters, started."""

    def __init__(self, kind: DifferentialFuzz) -> None:
        self.fuzz = Fuzz(*_campaign(kind).sides(), name=kind.filter, policies=kind.policies)
        try:
            self.pairs: list[Pair] = self.fuzz.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.fuzz.stop()


def _campaign(kind: DifferentialFuzz) -> Campaign:
    return Campaign(kind.names, kind.commands, kind.filter, timeout_s=kind.timeout_s)


@cache
def _served(kind: DifferentialFuzz) -> tuple[list[Pair], dict[str, str]]:
    """Return the pairs that both adapters serve, and their versions by name."""
    running = _RunningPair(kind)
    try:
        return running.pairs, {side.name: side.version for side in running.fuzz.sides}
    finally:
        running.close()
