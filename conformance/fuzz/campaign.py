"""Run the fuzzer in one or several processes; replay findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.fuzz.compare import compare
from kraftspec.conformance.fuzz.findings import Disagreement, read
from kraftspec.conformance.fuzz.run import Fuzz, Progress, Report
from kraftspec.conformance.fuzz.side import Side
from kraftspec.conformance.runner.run import adapter_exec

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Campaign:
    """What to run: two adapters by name or command. Either ``runs`` or ``seconds`` is set."""

    names: tuple[str, ...]
    commands: tuple[str, ...] = ()
    name: str = ""
    policies: bool = False
    seed: int = 0
    runs: int | None = None
    seconds: float | None = None
    timeout_s: float = TIMEOUT_S

    def sides(self) -> tuple[Side, Side]:
        """Return both adapters, commands first. The last one is the reference.

        Raises ``AdapterError`` if one does not build, ``ValueError`` for an unknown name.
        """
        sides = [
            Side(f"exec-{number}" if number else "exec", adapter_exec(command))
            for number, command in enumerate(self.commands)
        ]
        for side in sides:
            side.adapter.timeout_s = self.timeout_s
        sides += [Side(name, find(name).adapter(timeout_s=self.timeout_s)) for name in self.names]
        first, second = sides
        if first.name == second.name:
            second.name += "-2"
        return first, second


def started(name: str, sets: Sequence[str] = ()) -> Side:
    """Start an adapter of the registry and load those of the sets that it can load."""
    side = Side(name, find(name).adapter(timeout_s=TIMEOUT_S))
    side.start(sets)
    return side


def campaign(plan: Campaign, jobs: int = 1, progress: Progress | None = None) -> Report:
    """Run a campaign; each of ``jobs`` processes has its own adapters and its own pairs.

    The findings do not depend on ``jobs``, unless ``seconds`` ends the run.
    """
    if jobs == 1:
        return _shard((0, 1), plan, progress)
    runs = None if plan.runs is None else -(-plan.runs // jobs)
    work: Callable[[tuple[int, int]], Report] = partial(_shard, plan=replace(plan, runs=runs))
    plan.sides()  # Builds them, once.
    whole = Report()
    with ProcessPoolExecutor(jobs) as pool:
        for number, part in enumerate(pool.map(work, [(at, jobs) for at in range(jobs)]), 1):
            whole.add(part)
            whole.seconds = max(whole.seconds, part.seconds)
            if progress is not None:
                progress("processes", number, jobs)
    return whole


def _shard(shard: tuple[int, int], plan: Campaign, progress: Progress | None = None) -> Report:
    fuzz = Fuzz(*plan.sides(), name=plan.name, policies=plan.policies)
    try:
        pairs = fuzz.start(shard)
        with suppress(KeyboardInterrupt):  # The findings so far are reported.
            fuzz.run(pairs, seed=plan.seed, runs=plan.runs, seconds=plan.seconds, progress=progress)
    finally:
        fuzz.stop()
    return fuzz.report


def replayed(plan: Campaign, path: Path) -> Report:
    """Replay the findings of ``path``; the report has those for which the answers still differ."""
    findings: list[Disagreement] = read(path)
    fuzz = Fuzz(*plan.sides(), name=plan.name)
    try:
        fuzz.start()
        questions = [finding.question for finding in findings]
        answers = fuzz.query(questions)
        fuzz.report.inputs = len(questions)
        for finding, both in zip(findings, answers, strict=True):
            if compare(finding.question, fuzz.names, both) is None:
                fuzz.report.agreed += 1
            else:
                fuzz.report.differed += 1
                fuzz.report.add_finding(finding)
    finally:
        fuzz.stop()
    return fuzz.report
