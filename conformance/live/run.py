"""Plays a scenario: sets the node up, lets happen what happens, and judges what follows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.conformance.live.player import Player, Unmet
from kraftspec.conformance.live.scenario_files import RoleSetup, Scenario, Step
from kraftspec.conformance.live.target import Target
from kraftspec.conformance.live.transcript import Transcript
from kraftspec.conformance.making.exchanges import requests as rq

CONTROLLER = "CONTROLLER"
VOTERS = (1, 2, 3)
NEVER_MS = 3_600_000
# Nothing happens by itself, unless a role or a scenario shortens a time-out.
PROPERTIES = {
    "process.roles": "controller",
    "node.id": str(rq.ME),
    "controller.listener.names": CONTROLLER,
    "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT",
    "controller.quorum.election.timeout.ms": str(NEVER_MS),
    "controller.quorum.fetch.timeout.ms": str(NEVER_MS),
    "controller.quorum.request.timeout.ms": str(NEVER_MS),
    "metadata.max.idle.interval.ms": "0",
}


@dataclass
class Problem:
    """What did not follow, and in which step of the scenario."""

    step: int
    level: Literal["must", "should"]
    cites: str
    detail: str


@dataclass
class Result:
    """The verdict on one scenario, and what was exchanged."""

    scenario: str
    about: str
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    transcript: Transcript = field(default_factory=Transcript)
    output: str = ""  # The end of the node's, where something failed.

    @property
    def failed(self) -> bool:
        """Whether a `must` was not met."""
        return any(problem.level == "must" for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """Return it for reports; the exchange only where something was not met."""
        return {
            "scenario": self.scenario,
            "about": self.about,
            "verdict": "failed" if self.failed else "passed",
            "seconds": round(self.seconds, 2),
            "problems": [vars(problem) for problem in self.problems],
            "exchange": [entry.to_json() for entry in self.transcript.entries if self.problems],
        }


def run_all(
    scenarios: Sequence[Scenario],
    command: Sequence[str],
    roles: Mapping[str, RoleSetup],
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Result]:
    """Play scenarios one after another, each with a new node. Raises TargetError."""
    results = []
    for number, scenario in enumerate(scenarios):
        progress(scenario.name, number, len(scenarios))
        results.append(run_scenario(scenario, command, roles[scenario.given.role]))
    return results


def run_scenario(scenario: Scenario, command: Sequence[str], setup: RoleSetup) -> Result:
    """Play a scenario with a new node. Raises TargetError where a verb of the target fails."""
    result = Result(scenario.name, scenario.about)
    start_s = time.monotonic()
    with ExitStack() as life:
        home = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="kraftspec-live-")))
        guard = life.enter_context(Guard())
        taken: set[int] = set()
        ports = {node: free_port(taken) for node in (*VOTERS, 4)}
        target = Target(command, home, guard)
        properties = {
            key: str(value)
            for key, value in {
                **_properties(home, ports, scenario.given.quorum),
                **setup.properties,
                **scenario.given.properties,
            }.items()
        }
        target.write("format.properties", _format_properties(ports, scenario.given.quorum))
        target.write("node.properties", properties)
        life.callback(target.wipe)
        target.format()
        player = life.enter_context(Player(target, ports, properties, result.transcript))
        life.callback(target.stop, "kill")
        player.start()
        player.peers.adopt(setup.habits)
        for step in setup.steps:
            if not _play(player, step, -1, result):
                break
        else:
            player.peers.adopt(scenario.given.habits)
            for number, step in enumerate(scenario.steps):
                if not _play(player, step, number, result):
                    break
            else:
                _must(result, len(scenario.steps), "Kafka protocol, Network", player.serves)
        if result.problems:
            result.output = target.output()
    result.seconds = time.monotonic() - start_s
    return result


def _play(player: Player, step: Step, number: int, result: Result) -> bool:
    """Play a step; return whether the scenario can go on."""
    if not _must(result, number, "the step itself", lambda: player.act(step.when)):
        return False
    for then in step.then:
        try:
            player.judge(then.outcomes)
        except Unmet as unmet:
            level: Literal["must", "should"] = "should" if then.must is None else "must"
            result.problems.append(Problem(number, level, then.cites, str(unmet)))
            result.transcript.note(f"not met ({then.cites}): {unmet}")
            if level == "must":
                return False
    return True


def _must(result: Result, number: int, cites: str, act: Callable[[], None]) -> bool:
    try:
        act()
    except Unmet as unmet:
        result.problems.append(Problem(number, "must", cites, str(unmet)))
        result.transcript.note(f"not met: {unmet}")
        return False
    return True


def _properties(home: Path, ports: Mapping[int, int], quorum: str) -> dict[str, str]:
    addresses = {node: f"{HOST}:{ports[node]}" for node in VOTERS}
    listener = f"{CONTROLLER}://{addresses[rq.ME]}"
    properties = PROPERTIES | {
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": str(home / "data"),
    }
    if quorum == "static":
        listed = ",".join(f"{node}@{address}" for node, address in addresses.items())
        return properties | {"controller.quorum.voters": listed}
    others = ",".join(address for node, address in addresses.items() if node != rq.ME)
    return properties | {"controller.quorum.bootstrap.servers": others}


def _format_properties(ports: Mapping[int, int], quorum: str) -> dict[str, str]:
    properties = {"cluster.id": rq.CLUSTER_ID}
    if quorum == "dynamic":
        properties["initial.controllers"] = ",".join(
            f"{node}@{HOST}:{ports[node]}:{rq.directory_id(node)}" for node in VOTERS
        )
    return properties
