"""Which seeded bugs the live suite catches from outside (make live-catalogue).

Each bug is planted in the process of a node, and scenarios are played with that node until a
`must` is not met. Then the same scenario is played with a node without the bug, which has to pass:
a machine that is too busy catches nothing. Results are kept as they come, so a run may be
interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

import msgspec

from kraftspec.conformance.live.recorded import own_scenarios
from kraftspec.conformance.live.run import Result, run_scenario
from kraftspec.conformance.live.scenario_files import Scenario, read_roles
from kraftspec.conformance.live.target import BUILT_IN, TargetError
from kraftspec.simulation.catalogue import all_bugs
from kraftspec.simulation.catalogue.table import write

RESULTS = Path("build/live-catalogue.ndjson")
PAGE = Path("docs/live-catalogue.md")


class Caught(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the suite found of a bug; ``scenario`` is empty if it found nothing."""

    bug: str
    scenario: str = ""
    cites: str = ""
    detail: str = ""
    played: int = 0
    seconds: float = 0.0


class Search:
    """Plays scenarios with seeded bugs. ``results`` are those of earlier runs."""

    def __init__(self, scenarios: Sequence[Scenario], results: Iterable[Caught]) -> None:
        self.scenarios = list(scenarios)
        self.catches = Counter(result.scenario for result in results if result.scenario)
        self._roles = read_roles()
        self._passes: dict[str, bool] = {}
        self._lock = Lock()

    def _play(self, scenario: Scenario, command: Sequence[str]) -> Result:
        return run_scenario(scenario, command, self._roles[scenario.given.role])

    def _passes_without(self, scenario: Scenario) -> bool:
        with self._lock:
            known = self._passes.get(scenario.name)
        if known is None:
            known = not self._play(scenario, BUILT_IN["kraftspec"]).failed
            with self._lock:
                self._passes[scenario.name] = known
        return known

    def catch(self, bug: str) -> Caught:
        """Play scenarios, those that have caught most bugs first, until one catches this."""
        start_s = time.monotonic()
        command = [sys.executable, "-m", "kraftspec.simulation.catalogue.outside_target", bug]
        outcome = Caught(bug=bug)
        for scenario in sorted(self.scenarios, key=lambda one: -self.catches[one.name]):
            outcome.played += 1
            try:
                result = self._play(scenario, command)
            except TargetError as error:
                detail = f"the node does not start: {str(error).splitlines()[0]}"
                cites = "the node itself"
            else:
                problem = next((one for one in result.problems if one.level == "must"), None)
                if problem is None:
                    continue
                detail, cites = problem.detail, problem.cites
            if self._passes_without(scenario):
                outcome.scenario, outcome.cites, outcome.detail = scenario.name, cites, detail
                with self._lock:
                    self.catches[scenario.name] += 1
                break
        outcome.seconds = round(time.monotonic() - start_s, 1)
        return outcome


def render(results: Sequence[Caught], bugs: Iterable[str]) -> str:
    """Return the table, and the sentence above it."""
    about = all_bugs()
    by_bug = {result.bug: result for result in results}
    caught = [one for one in by_bug.values() if one.scenario]
    missed = [one for one in by_bug.values() if not one.scenario]
    lines = [
        f"{len(caught)} of {len(list(bugs))} seeded bugs are caught; {len(missed)} pass every "
        "scenario, and the others are not measured yet.",
        "",
        "| bug | what it is | caught by | section |",
        "| --- | --- | --- | --- |",
    ]
    for name, result in sorted(by_bug.items()):
        caught_by = f"`{result.scenario}`" if result.scenario else "nothing"
        lines.append(f"| `{name}` | {about[name].sentence} | {caught_by} | {result.cites} |")
    return "\n".join(lines)


def read(path: Path) -> list[Caught]:
    """Return the results of earlier runs."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Caught) for line in path.read_bytes().splitlines()]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="these bugs")
    parser.add_argument("--filter", nargs="*", help="scenarios with this in their names")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    results = read(options.results)
    have = {result.bug for result in results}
    scenarios = [
        one
        for one in own_scenarios()
        if not options.filter or any(text in one.name for text in options.filter)
    ]
    names = [name for name in options.only or all_bugs() if name not in have]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock()

    def measure(search: Search, name: str) -> None:
        result = search.catch(name)
        with lock:
            sys.stdout.write(
                f"{name}: {result.scenario or 'NOT CAUGHT'}, {result.played} played, "
                f"{result.seconds:.0f} s\n"
            )
            sys.stdout.flush()
            # Part of the suite does not show that a bug passes all of it.
            if result.scenario or not options.filter:
                with options.results.open("ab") as file:
                    file.write(msgspec.json.encode(result) + b"\n")

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(partial(measure, Search(scenarios, results)), names))
    write(options.page, render(read(options.results), all_bugs()))


if __name__ == "__main__":
    main()
