"""Runs of the simulator, held against the TLA+ model: TLC looks for behaviours on the executors.

A case is a step of a run. A run that the model does not explain is a finding, unless a known fault
of its core is why.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from kraftspec.fastpath import native
from kraftspec.model.traces import check
from kraftspec.pipeline.campaign.kind import (
    RESULTS,
    Finding,
    Result,
    Tally,
    Unit,
)
from kraftspec.reference.profiles import parts_of, profile_named
from kraftspec.simulation.catalogue import all_bugs, later_bugs, planted
from kraftspec.simulation.harness.cores import OWN, parse_cores
from kraftspec.simulation.model_trace import check_modelled, known_fault, record, unexplained
from kraftspec.simulation.protocols import check_cores
from kraftspec.sources import MODEL_CHECK, package_directory

SEEDS_PER_UNIT = 25  # One TLC has all of them; it takes about a second to start.


class ModelChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds for ``kraftspec simulate --model-check``.

    Attributes:
        seeds: how many, from ``first_seed`` on.
        events: of a run.
        bugs: of the catalogue, planted in every run: a campaign that must find something.
        profile: the protocol that the nodes speak.
        core: which implementations the nodes run, as ``--core`` of ``kraftspec simulate`` has it.
    """

    name: ClassVar[str] = "model-check"
    schema: ClassVar[pa.Schema] = RESULTS

    seeds: int
    first_seed: int = 0
    events: int = 1_000
    bugs: tuple[str, ...] = ()
    profile: str = "kafka"
    core: str = OWN
    unit_seeds: int = SEEDS_PER_UNIT

    def options(self) -> dict[str, Any]:
        """Return the options, and which codec it is."""
        return {**msgspec.to_builtins(self), "codec": native.describe()}

    def sources(self) -> list[Path]:
        """Return the model, the core, its log and profiles, the codecs, and the simulator."""
        return [*map(package_directory, MODEL_CHECK), Path(__file__)]

    def plan(self) -> list[Unit]:
        """Divide the seeds. Raises ``ValueError`` for a bug or a core that there is not."""
        check_cores(profile_named(self.profile, without=()), parse_cores(self.core))
        for bug in self.bugs:
            if bug not in all_bugs() | later_bugs():
                raise ValueError(f"there is no bug {bug!r} in the tables of docs/model.md")
        units: list[Unit] = []
        end = self.first_seed + self.seeds
        for first in range(self.first_seed, end, self.unit_seeds):
            count = min(self.unit_seeds, end - first)
            units.append(Unit(len(units), count * self.events, {"first": first, "count": count}))
        return units

    def run(self, unit: Unit) -> Result:
        """Run the seeds of a unit, and let one TLC judge them.

        Raises ``ValueError`` for a core that the model does not cover; only its harness says so.
        """
        profile, cores = profile_named(self.profile, without=()), parse_cores(self.core)
        check_modelled(cores)
        tally: Counter[tuple[str, int, str]] = Counter()
        findings = []
        first = unit.work["first"]
        with planted(*self.bugs):
            recorded = [
                record(seed, profile, events=self.events, cores=cores)
                for seed in range(first, first + unit.work["count"])
            ]
            for one, verdict in zip(recorded, check([one.trace for one in recorded]), strict=True):
                outcome, lines = "explained", list[str]()
                if verdict.stuck_at is not None:
                    lines = unexplained(one, verdict, profile)
                    is_known = known_fault(one, verdict, profile, lines) is not None
                    outcome = "known" if is_known else "unexplained"
                size, version = f"{one.swarm.voters} voters", one.swarm.kraft_version
                tally[size, version, outcome] += len(one.trace.steps)
                if outcome != "unexplained":
                    continue
                findings.append(
                    Finding(
                        adapter="simulation",
                        set=self.profile,
                        message=size,
                        version=version,
                        entry="",
                        class_=outcome,
                        count=len(one.trace.steps),
                        signature=f"seed {one.seed}",
                        title=f"seed {one.seed}: nothing explains step {verdict.stuck_at}",
                        detail=lines[0].strip(),
                        example="\n".join(lines),
                        reproduce=self._command(one.seed),
                    )
                )
        return Result(
            [
                Tally("simulation", self.profile, size, version, "", outcome, count)
                for (size, version, outcome), count in sorted(tally.items())
            ],
            findings,
        )

    def _command(self, seed: int) -> str:
        option = parts_of(self.profile).admin.option
        options = f" {option}" if option else ""
        options += f" --core {self.core}" if self.core != OWN else ""
        options += "".join(f" --bug {bug}" for bug in self.bugs)
        return f"kraftspec simulate --model-check --seed {seed} --events {self.events}{options}"
