"""Plays a scenario: sets the node up, lets happen what happens, and judges what follows."""

from __future__ import annotations

import errno
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.conformance.live.player import Player, Unmet
from kraftspec.conformance.live.scenario_files import NEVER_MS, VOTERS, RoleSetup, Scenario, Step
from kraftspec.conformance.live.target import Target, TargetError
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.report.transcript import Transcript
from kraftspec.conformance.runner.known import KnownFailures

CONTROLLER = "CONTROLLER"
PORT_TRIES = 5
BROKEN = 3  # So many scenarios without a verdict, before there is one, and the target has none.
SETUP = 0  # The step of what goes wrong while the node is brought into its role.
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


Verdict = Literal["passed", "failed", "known failure", "unexpected pass", "no verdict"]


@dataclass
class Problem:
    """What did not follow, and in which step of the scenario; the first is 1."""

    step: int
    level: Literal["must", "should"]
    cites: str
    detail: str
    where: str = ""  # ``path:line`` of the step, where the user has named the file.

    @property
    def place(self) -> str:
        """The step, for people."""
        return f"{place_of(self.step)}, {self.where}" if self.where else place_of(self.step)


@dataclass
class Result:
    """The verdict on one scenario, and what was exchanged."""

    scenario: str
    about: str
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    transcript: Transcript = field(default_factory=lambda: Transcript(rq.ME, "node"))
    ports: Mapping[int, int] = field(default_factory=dict)
    output: str = ""  # The end of the node's, where something failed.
    known: str | None = None  # Why it is known to fail.
    error: str = ""  # Why there is no verdict.

    @property
    def failed(self) -> bool:
        """Whether a `must` was not met."""
        return any(problem.level == "must" for problem in self.problems)

    @property
    def verdict(self) -> Verdict:
        """What came of it, known failures considered."""
        if self.error:
            return "no verdict"
        if self.failed:
            return "failed" if self.known is None else "known failure"
        return "passed" if self.known is None else "unexpected pass"

    def to_json(self) -> dict[str, Any]:
        """Return it for reports; the exchange only where something was not met."""
        return {
            "scenario": self.scenario,
            "about": self.about,
            "verdict": self.verdict,
            **({"error": self.error} if self.error else {}),
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
) -> Iterator[Result]:
    """Play scenarios, each with a new node, ``jobs`` at a time; yield the results as they come.

    A scenario that cannot be played has no verdict. Raises TargetError where none of the first has
    one. When the caller ends it early, what is played then ends too.
    """
    shared = _Shared()
    last_error: TargetError | None = None

    def play(scenario: Scenario) -> Result:
        nonlocal last_error
        try:
            return run_scenario(scenario, command, roles[scenario.given.role], shared)
        except TargetError as error:
            last_error = error
            return Result(scenario.name, scenario.about, error=str(error))

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(play, scenario) for scenario in scenarios]
        has_verdict = False
        try:
            for number, future in enumerate(as_completed(futures), 1):
                result = future.result()
                has_verdict = has_verdict or not result.error
                progress(result.scenario, number, len(scenarios))
                yield result
                if number >= min(BROKEN, len(scenarios)) and not has_verdict:
                    assert last_error is not None
                    raise last_error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            shared.abort()


def place_of(step: int) -> str:
    """Return the name of a step, for people."""
    return f"step {step}" if step else "what brings the node into its role"


def excuse(results: Sequence[Result], known: KnownFailures) -> None:
    """Note which scenarios are known to fail: entries for ``live/SCENARIO``."""
    for result in results:
        entry = None if result.error else known.named(f"live/{result.scenario}")
        if entry is not None:
            result.known = entry.reason
            entry.failed += result.failed
            entry.passed += not result.failed


def locate(results: Sequence[Result], places: Mapping[tuple[str, int], str]) -> None:
    """Note where the steps stand whose outcome is a problem."""
    for result in results:
        for problem in result.problems:
            problem.where = places.get((result.scenario, problem.step), "")


class _Shared:
    """What the scenarios of a run share: ports, of which no two get the same, and an end."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._players: set[Player] = set()
        self._is_aborted = False
        self._lock = threading.Lock()

    def take_port(self) -> int:
        with self._lock:
            return free_port(self._taken)

    @contextmanager
    def playing(self, player: Player) -> Iterator[None]:
        with self._lock:
            self._players.add(player)
            is_aborted = self._is_aborted
        if is_aborted:
            player.abort()
        try:
            yield
        finally:
            with self._lock:
                self._players.remove(player)

    def abort(self) -> None:
        with self._lock:
            self._is_aborted = True
            players = list(self._players)
        for player in players:
            player.abort()


def run_scenario(
    scenario: Scenario, command: Sequence[str], setup: RoleSetup, shared: _Shared | None = None
) -> Result:
    """Play a scenario with a new node. Raises TargetError where a verb of the target fails."""
    shared = shared or _Shared()
    result = Result(scenario.name, scenario.about)
    start_s = time.monotonic()
    with ExitStack() as life:
        home = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="kraftspec-live-")))
        guard = life.enter_context(Guard())
        target = Target(command, home, guard)
        given = setup.properties | scenario.given.properties
        player = _listening(target, shared, scenario.given.quorum, given, result)
        life.enter_context(player)
        life.enter_context(shared.playing(player))
        target.write("format.properties", _format_properties(player.ports, scenario.given.quorum))
        target.write("node.properties", player.properties)
        life.callback(target.wipe)
        target.format()
        life.callback(target.stop, "kill")
        # Before it asks: what nobody answers stays open.
        player.peers.adopt(setup.habits if setup.steps else scenario.given.habits)
        player.start()
        for step in setup.steps:
            if not _play(player, step, SETUP, result):
                break
        else:
            player.peers.adopt(scenario.given.habits)
            for number, step in enumerate(scenario.steps, 1):
                if not _play(player, step, number, result):
                    break
            else:
                _must(result, len(scenario.steps) + 1, "Kafka protocol, Network", player.serves)
        if result.problems:
            result.output = target.output()
    result.seconds = time.monotonic() - start_s
    return result


def _listening(
    target: Target, shared: _Shared, quorum: str, given: Mapping[str, str | int], result: Result
) -> Player:
    """Return peers that listen; where another program was faster, on other ports."""
    tries_left = PORT_TRIES
    while True:
        ports = {node: shared.take_port() for node in (*VOTERS, 4)}
        properties = {**_properties(target.directory, ports, quorum), **given}
        as_text = {key: str(value) for key, value in properties.items()}
        tries_left -= 1
        try:
            player = Player(target, ports, as_text, result.transcript)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries_left:
                raise
        else:
            result.ports = ports
            return player


def _play(player: Player, step: Step, number: int, result: Result) -> bool:
    """Play a step; return whether the scenario can go on."""
    if not _must(result, number, "the step itself", lambda: player.act(step.when)):
        return False
    for then in step.then:
        try:
            player.judge(then.outcomes)
        except TargetError as error:
            raise TargetError(f"{place_of(number)}: {error}") from error
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
    except TargetError as error:
        raise TargetError(f"{place_of(number)}: {error}") from error
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
