"""Differential fuzz: two adapters, the same random questions, spread by pairs of message, version.

What is asked about a pair follows from the seed, the number of the visit and the pair; so any
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

from kraftspec.conformance.fuzz.campaign import TIMEOUT_S, Campaign
from kraftspec.conformance.fuzz.findings import Finding as Difference
from kraftspec.conformance.fuzz.run import Fuzz, Pair
from kraftspec.conformance.harness import AdapterError
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

INPUTS_PER_VISIT = 20  # Of a pair that both write alike: 4 values, their bytes, 3 changes of each.
PAIRS_PER_UNIT = 128
DETAIL_CHARS_MAX = 500


class DifferentialFuzz(msgspec.Struct, frozen=True, kw_only=True):
    """Random values and changed bytes for two adapters, the one to trust last.

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
        """Return the options, and what the adapters say of themselves."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return {**made, "asked": _served(self)[1]}

    def sources(self) -> list[Path]:
        """Return what makes the questions and judges the answers, and the adapters."""
        rooms = ("fastpath", "generated", "specs", "codegen", "conformance")
        return [*map(room, rooms), *programs(self.commands), Path(__file__)]

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
        """Ask both adapters about some pairs."""
        asked = kept(self, lambda: _Asked(self))
        work, who = unit.work, " and ".join(asked.fuzz.names)
        if len(asked.pairs) != work["of"]:
            raise AdapterError(
                "start", f"{who} serve {len(asked.pairs)} pairs here, and {work['of']} where "
                "the campaign was planned: they are other releases",
            )  # fmt: skip
        fuzz = asked.fuzz
        fuzz.begin()
        fuzz.visit(asked.pairs[work["first"] : work["last"]], self.seed, work["visit"])
        fuzz.settle()
        report = fuzz.report
        tallies = [
            Tally(who, *kin[:3], kin[3], outcome, count)
            for (kin, outcome), count in sorted(fuzz.outcomes.items())
        ]
        if report.omitted:
            tallies.append(Tally(who, "", "", 0, "", "omitted", report.omitted))
        findings = [
            self._finding(who, report.findings[signature], version, count)
            for (signature, version), count in sorted(fuzz.met.items())
        ]
        if report.loose_ends:
            findings.append(self._loose(who, report.loose_ends))
        return Result(tallies, findings)

    def _finding(self, who: str, found: Difference, version: int, count: int) -> Finding:
        signature = found.signature
        options = [f"--exec {quote(command)}" for command in self.commands]
        options += [f"--adapter {name}" for name in self.names]
        return Finding(
            adapter=who, set=signature.spec, message=signature.message, version=version,
            entry=signature.direction, class_=signature.kind, count=count,
            signature=signature.id, title=str(signature),
            detail=json.dumps(found.answers, default=str)[:DETAIL_CHARS_MAX],
            example=json.dumps(found.to_json()),
            reproduce=f"kraftspec conform fuzz {' '.join(options)} "
            f"--replay findings/{found.file_name}",
        )  # fmt: skip

    @staticmethod
    def _loose(who: str, count: int) -> Finding:
        return Finding(
            adapter=who, set="", message="", version=0, entry="", class_="loose end",
            count=count, signature="loose-end", example="", reproduce="", detail="",
            title="an adapter ended, or answers parted, and it did not happen again",
        )  # fmt: skip


class _Asked:
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
    asked = _Asked(kind)
    try:
        return asked.pairs, {side.name: side.version for side in asked.fuzz.sides}
    finally:
        asked.close()
