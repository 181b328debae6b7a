"""Fuzz within a process: our codecs and readers against their twins, over changed golden vectors.

A hundred times as fast as asking an adapter: so many millions of inputs are a matter of minutes.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from kraftspec.conformance.fuzz.subprocess_target import Broken, SubprocessTarget
from kraftspec.conformance.fuzz.targets import TARGETS, TWINS_ONE_IN, target
from kraftspec.fastpath import native
from kraftspec.pipeline.campaign.kind import (
    RESULTS,
    Finding,
    Result,
    Tally,
    Unit,
    kept,
)
from kraftspec.sources import package_directory

CASES_PER_UNIT = 50_000  # A second or two.


class CodecFuzz(msgspec.Struct, frozen=True, kw_only=True):
    """Changed vectors for the targets of ``conformance.fuzz.targets``.

    Attributes:
        cases: inputs, of all targets together.
        one_in: one input in so many goes through the twins too, which are slow.
    """

    name: ClassVar[str] = "fuzz-codec"
    schema: ClassVar[pa.Schema] = RESULTS

    cases: int
    seed: int = 0
    targets: tuple[str, ...] = TARGETS
    one_in: int = TWINS_ONE_IN
    unit_cases: int = CASES_PER_UNIT

    def options(self) -> dict[str, Any]:
        """Return the options, and which codec it is."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return {**options, "codec": native.describe()}

    def sources(self) -> list[Path]:
        """Return codecs, targets, vectors."""
        own = [path for name in self.targets if name not in TARGETS and (path := _module(name))]
        packages = ("fastpath", "generated", "specs", "conformance/fuzz", "conformance/vectors")
        return [*map(package_directory, packages), *own, Path(__file__)]

    def plan(self) -> list[Unit]:
        """Give each target the same share, in units of ``unit_cases``."""
        for name in self.targets:
            target(name)
        units: list[Unit] = []
        for number, name in enumerate(self.targets):
            share, more = divmod(self.cases, len(self.targets))
            left = share + (number < more)
            part = 0
            while left:
                cases = min(left, self.unit_cases)
                units.append(Unit(len(units), cases, {"target": name, "part": part}))
                left -= cases
                part += 1
        return units

    def run(self, unit: Unit) -> Result:
        """Throw the inputs of a unit at its target."""
        name, part = unit.work["target"], unit.work["part"]
        process = kept(("target", name), lambda: SubprocessTarget(name))
        tally, broken = process.throw(f"{self.seed}/{name}/{part}", unit.cases, self.one_in)
        return Result(
            [Tally(name, *label, what, count) for (label, what), count in sorted(tally.items())],
            [finding(failure) for failure in broken],
        )


def finding(failure: Broken) -> Finding:
    """Return what a target found as a campaign keeps it."""
    label = failure.label
    shown = failure.data.hex()
    return Finding(
        adapter=failure.target,
        set=label.spec,
        message=label.message,
        version=label.version,
        entry=label.entry,
        class_=failure.outcome,
        count=failure.count,
        signature=failure.signature,
        title=f"{label.spec}/{label.message} {label.entry}: {failure.kind}",
        detail=failure.text,
        example=shown,
        reproduce="kraftspec pipeline campaign fuzz "
        f"--target {quote(failure.target)} --input {shown}",
    )


def _module(name: str) -> Path | None:
    file = getattr(target(name), "__file__", None)
    return Path(file) if file else None
