"""Plays a scenario: sets the node up, lets happen what happens, and judges what follows."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from kraftspec.conformance.runner.known import KnownFailures

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


Verdict = Literal["passed", "failed", "known failure", "unexpected pass"]


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
    ports: Mapping[int, int] = field(default_factory=dict)
    output: str = ""  # The end of the node's, where something failed.
    known: str | None = None  # Why it is known to fail.

    @property
    def failed(self) -> bool:
        """Whether a `must` was not met."""
        return any(problem.level == "must" for problem in self.problems)

    @property
    def verdict(self) -> Verdict:
        """What came of it, known failures considered."""
        if self.failed:
            return "failed" if self.known is None else "known failure"
        return "passed" if self.known is None else "unexpected pass"

    def to_json(self) -> dict[str, Any]:
        """Return it for reports; the exchange only where something was not met."""
        return {
            "scenario": self.scenario,
            "about": self.about,
            "verdict": self.verdict,
            **({} if self.known is None else {"known": self.known}),
            "seconds": round(self.seconds, 2),
            "problems": [vars(problem) for problem in self.problems],
            "exchange": [entry.to_json() for entry in self.transcript.entries if self.problems],
        }


def run_all(
    scenarios: Sequence[Scenario],
    command: Sequence[str],
    roles: Mapping[str, RoleSetup],
    progress: Callable[[str, int, int], None] = lambda *_: None,
    *,
    jobs: int = 1,
) -> list[Result]:
    """Play scenarios, each with a new node, ``jobs`` at a time. Raises TargetError."""
    ports = _Ports()

    def play(scenario: Scenario) -> Result:
        return run_scenario(scenario, command, roles[scenario.given.role], ports)

    results = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(play, scenario) for scenario in scenarios]
        try:
            for number, (scenario, future) in enumerate(zip(scenarios, futures, strict=True)):
                progress(scenario.name, number, len(scenarios))
                results.append(future.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return results


def excuse(results: Sequence[Result], known: KnownFailures) -> None:
    """Note which scenarios are known to fail: entries for ``live/SCENARIO``."""
    for result in results:
        entry = known.named(f"live/{result.scenario}")
        if entry is not None:
            result.known = entry.reason
            entry.failed += result.failed
            entry.passed += not result.failed


class _Ports:
    """Free ports of loopback; no two scenarios of a run get the same."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self) -> int:
        with self._lock:
            return free_port(self._taken)


def run_scenario(
    scenario: Scenario, command: Sequence[str], setup: RoleSetup, free: _Ports | None = None
) -> Result:
    """Play a scenario with a new node. Raises TargetError where a verb of the target fails."""
    free = free or _Ports()
    result = Result(scenario.name, scenario.about)
    start_s = time.monotonic()
    with ExitStack() as life:
        home = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="kraftspec-live-")))
        guard = life.enter_context(Guard())
        ports = {node: free.take() for node in (*VOTERS, 4)}
        result.ports = ports
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
        # Before it asks: what nobody answers stays open.
        player.peers.adopt(setup.habits if setup.steps else scenario.given.habits)
        player.start()
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
    others = ",".join(
        address for node, address in addresses.items() if (node == rq.ME) == (quorum == "alone")
    )
    return properties | {"controller.quorum.bootstrap.servers": others}


def _format_properties(ports: Mapping[int, int], quorum: str) -> dict[str, str]:
    properties = {"cluster.id": rq.CLUSTER_ID}
    if quorum in ("dynamic", "alone"):
        properties["initial.controllers"] = ",".join(
            f"{node}@{HOST}:{ports[node]}:{rq.directory_id(node)}"
            for node in (VOTERS if quorum == "dynamic" else (rq.ME,))
        )
    return properties
