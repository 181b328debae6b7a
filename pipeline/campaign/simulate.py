"""Simulations of the quorum, seed after seed: each a run with faults, all invariants checked.

A case is an event of a run. A property that breaks is a finding, and its trace is made small on
the executor that met it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pyarrow as pa

from kraftspec.fastpath import native
from kraftspec.pipeline.campaign.kind import (
    RESULTS,
    Finding,
    Result,
    Tally,
    Unit,
)
from kraftspec.reference.profiles import parts_of, profile_named
from kraftspec.simulation.catalogue import all_bugs, planted
from kraftspec.simulation.compiled.loading import is_built
from kraftspec.simulation.harness.cores import OWN, parse_cores
from kraftspec.simulation.minimise import minimise
from kraftspec.simulation.protocols import check_cores
from kraftspec.simulation.run import Result as Run
from kraftspec.simulation.run import simulate, swarm_of
from kraftspec.simulation.trace_text import event_text, trace_events
from kraftspec.sources import package_directory

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile

SEEDS_PER_UNIT = 20  # Some seconds.
SIMULATOR = "simulator"  # The class of runs that it did not get through.
MINIMISE_SECONDS_MAX = 30.0  # Of each property that a unit sees broken, once.


class Simulations(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds for ``kraftspec simulate``.

    Attributes:
        seeds: how many, from ``first_seed`` on.
        events: of a run, before its faults end; liveness takes some more.
        bugs: of the catalogue, planted in every run: a campaign that must find something.
        profile: the protocol that the nodes speak.
        without: fixes of that profile to do without: such a campaign must find something, too.
        core: which implementations the nodes run, as ``--core`` of ``kraftspec simulate`` has it.
    """

    name: ClassVar[str] = "simulate"
    schema: ClassVar[pa.Schema] = RESULTS

    seeds: int
    first_seed: int = 0
    events: int = 10_000
    bugs: tuple[str, ...] = ()
    profile: str = "kafka"
    without: tuple[str, ...] = ()
    core: str = OWN
    unit_seeds: int = SEEDS_PER_UNIT

    def options(self) -> dict[str, Any]:
        """Return the options, and which codec it is."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return {**options, "codec": native.describe()}

    def sources(self) -> list[Path]:
        """Return the core, its log and profiles, the codecs, and the simulator."""
        packages = ("fastpath", "generated", "reference", "simulation")
        return [*map(package_directory, packages), Path(__file__)]

    def plan(self) -> list[Unit]:
        """Divide the seeds. Raises ``ValueError`` for a bug, a fix or a core that there is not."""
        check_cores(profile_named(self.profile, without=self.without), parse_cores(self.core))
        for bug in self.bugs:
            if bug not in all_bugs():
                raise ValueError(f"there is no bug {bug!r} in the catalogue of docs/simulation.md")
        units: list[Unit] = []
        end = self.first_seed + self.seeds
        for first in range(self.first_seed, end, self.unit_seeds):
            count = min(self.unit_seeds, end - first)
            work = {"first": first, "count": count}
            units.append(Unit(len(units), count * self.events, work))
        return units

    def run(self, unit: Unit) -> Result:
        """Run the seeds of a unit."""
        profile = profile_named(self.profile, without=self.without)
        cores = parse_cores(self.core)
        tally: Counter[tuple[str, int, str]] = Counter()
        findings: dict[str, Finding] = {}
        shortest: dict[str, tuple[Run, tuple[str, int]]] = {}
        seeds = range(unit.work["first"], unit.work["first"] + unit.work["count"])
        clean = self._clean(seeds)
        with planted(*self.bugs):
            for seed in seeds:
                swarm = swarm_of(seed, profile)
                shape = f"{swarm.voters} voters", swarm.kraft_version
                if seed in clean:
                    tally[(*shape, "clean")] += clean[seed]
                    continue
                try:
                    result = simulate(seed, profile, events=self.events, cores=cores)
                except Exception as error:  # Of the simulator: the other seeds can still be run.
                    findings.setdefault(SIMULATOR, self._crash(seed, error, *shape, profile))
                    tally[(*shape, SIMULATOR)] += 1
                    continue
                broken = result.violation[0] if result.violation else "clean"
                broken = "known" if result.known is not None else broken
                tally[(*shape, broken)] += result.events
                if broken in ("clean", "known"):
                    continue
                if broken not in shortest or result.events < shortest[broken][0].events:
                    shortest[broken] = result, shape  # It is made small the soonest.
            for broken, (run, shape) in shortest.items():
                findings[broken] = self._finding(run, *shape, profile)
        return Result(
            [
                Tally("simulation", profile.name, size, version, "", outcome, count)
                for (size, version, outcome), count in sorted(tally.items())
            ],
            list(findings.values()),
        )

    def _clean(self, seeds: range) -> dict[int, int]:
        """Return the events of the seeds in which the compiled simulator breaks nothing.

        Empty if it is not built, or does not run such nodes. All other seeds are run here by the
        readable sources, which can explain what they meet.
        """
        if self.core != OWN or self.bugs or self.without or not is_built():
            return {}
        command = [sys.executable, "-m", "kraftspec", "simulate", "--json"]
        command += ["--seeds", f"{seeds[0]}..{seeds[-1]}", "--events", str(self.events)]
        command += parts_of(self.profile).admin.option.split()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        runs = json.loads(done.stdout) if done.stdout.startswith("[") else []
        return {run["seed"]: run["events"] for run in runs if run["violation"] is None}

    def _finding(self, run: Run, size: str, version: int, profile: Profile) -> Finding:
        assert run.violation is not None
        name, text = run.violation
        cores = parse_cores(self.core)
        minimal = minimise(
            run.seed, profile, events=self.events, cores=cores, seconds_max=MINIMISE_SECONDS_MAX
        )
        trace = [f"seed {run.seed}: {text}"]
        if minimal is not None:
            events, _ = trace_events(minimal.seed, minimal.swarm, profile, minimal.decisions, cores)
            trace += [event_text(event) for event in events]
        return Finding(
            adapter="simulation",
            set=profile.name,
            message=size,
            version=version,
            entry="",
            class_=name,
            count=run.events,
            signature=name,
            title=f"{name}: {text}",
            detail=text,
            example="\n".join(trace),
            reproduce=f"{self._command(run.seed)} --minimise",
        )

    def _crash(
        self, seed: int, error: Exception, size: str, version: int, profile: Profile
    ) -> Finding:
        """A run in which the simulator itself failed: one case without a verdict."""
        return Finding(
            adapter="simulation",
            set=profile.name,
            message=size,
            version=version,
            entry="",
            class_=SIMULATOR,
            count=1,
            signature=f"{SIMULATOR}: {type(error).__name__}",
            title=f"the simulator failed: {error!r}",
            detail=repr(error),
            example=f"seed {seed}: " + "".join(traceback.format_exception(error)),
            reproduce=self._command(seed),
        )

    def _command(self, seed: int) -> str:
        option = parts_of(self.profile).admin.option
        options = f" {option}" if option else ""
        options += "".join(f" --without {fix}" for fix in self.without)
        options += f" --core {self.core}" if self.core != OWN else ""
        options += "".join(f" --bug {bug}" for bug in self.bugs)
        return f"kraftspec simulate --seed {seed} --events {self.events}{options}"
