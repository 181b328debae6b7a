"""Seeds in lock-step: quorums whose nodes are pairs, and the counts of what was compared."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.profiles.kafka.profile import AS_KAFKA
from kraftspec.reference.raft import Config
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import OWN, Core, RunCores, cpu_seconds, process_of
from kraftspec.simulation.harness.hosted import OwnProcess
from kraftspec.simulation.harness.known import known_breach
from kraftspec.simulation.lockstep.replica import APART, PairReplica, Place
from kraftspec.simulation.lockstep.rules import RULES, explain
from kraftspec.simulation.lockstep.step import Step
from kraftspec.simulation.lockstep.words import told_in_words
from kraftspec.simulation.replica import Replica, Surroundings
from kraftspec.simulation.run import swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import MS, Swarm

EVENTS = 10_000
EARLIER_MAX = 8
UNEXPLAINED_MAX = 10  # So many are kept, with their words.
# A pair that is apart for so long is stopped and started, on one disk.
APART_MIN_US, APART_SPAN_US = 500 * MS, 1_000 * MS
# Disks that fail do so at an operation, and the two do not have the same ones.
_OFF: Final = ("failing_disk_period_us", "full_disk_period_us", "corruption_period_us")
OWN_PROCESS: Final = OwnProcess()


class Unexplained(msgspec.Struct, frozen=True):
    """A step that is not equal, and that no rule explains."""

    seed: int
    names: tuple[str, ...]
    words: tuple[str, ...]


class Counts(msgspec.Struct):
    """What was compared.

    ``by_input`` has (driver, role before, command) → steps; ``rules`` how often each was used.
    ``empty`` are ticks in which neither did anything: they are no steps. In ``apart`` the two were
    in different states, or one was down: they were not compared.
    """

    steps: int = 0
    equal: int = 0
    explained: int = 0
    empty: int = 0
    apart: int = 0
    by_input: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    rules: Counter[str] = msgspec.field(default_factory=Counter)
    differing: Counter[str] = msgspec.field(default_factory=Counter)
    unexplained: list[Unexplained] = msgspec.field(default_factory=list)
    ended: Counter[str] = msgspec.field(default_factory=Counter)
    broken: list[str] = msgspec.field(default_factory=list)
    seeds: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def unexplained_steps(self) -> int:
        """How many steps no rule explains."""
        return self.steps - self.equal - self.explained

    @property
    def unused(self) -> list[str]:
        """The rules that explained nothing."""
        return [rule.name for rule in RULES if not self.rules[rule.name]]

    @property
    def has_failed(self) -> bool:
        """Whether there is something to look at."""
        return self.unexplained_steps > 0 or bool(self.broken)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        inputs: dict[str, dict[str, dict[str, int]]] = {}
        for (driver, role, command), count in sorted(self.by_input.items()):
            inputs.setdefault(driver, {}).setdefault(role, {})[command] = count
        return {
            "seeds": self.seeds,
            "steps": self.steps,
            "equal": self.equal,
            "explained": self.explained,
            "unexplained": self.unexplained_steps,
            "emptyTicks": self.empty,
            "apart": self.apart,
            "inputs": inputs,
            "rules": {rule.name: self.rules[rule.name] for rule in RULES},
            "differences": dict(self.differing.most_common()),
            "shown": msgspec.to_builtins(self.unexplained),
            "endedBy": dict(self.ended),
            "broken": self.broken,
            "seconds": round(self.seconds, 1),
            "stepsPerSecond": round(self.steps / self.seconds) if self.seconds else 0,
            "stepsPerCpuSecond": round(self.steps / self.cpu_seconds) if self.cpu_seconds else 0,
        }


class PairCores(RunCores):
    """Pairs of our core and another; which of them drives, the number of the node and the seed say.

    ``driver`` lets one of them drive everywhere.
    """

    def __init__(self, core: Core, seed: int, driver: str | None, counts: Counts) -> None:
        super().__init__([core], seed)
        self.core, self.seed, self.counts = core, seed, counts
        self._driver = driver
        self._earlier: dict[int, deque[Step]] = {}
        other = process_of(core)
        self.ours = Place(OWN_PROCESS, OWN_PROCESS.new_run())
        self.other = Place(other, other.new_run())

    def drives(self, node_id: int) -> str:
        """Return who drives at a node."""
        if self._driver is not None:
            return self._driver
        return OWN if (node_id + self.seed) % 2 else self.core.name

    def core_of(self, node_id: int) -> Core:
        """Return the core that drives at a node."""
        return Core(self.drives(node_id))

    def replica(
        self, world: Surroundings, config: Config, first_files: Mapping[str, bytes] | None
    ) -> Replica:
        """Return a pair with new disks."""
        places = (self.ours, self.other)
        if self.drives(config.node_id) != OWN:
            places = (self.other, self.ours)
        scheduler: Any = world.scheduler
        return PairReplica(world, config, first_files, *places, self._judge, scheduler.apart)

    def _judge(self, step: Step, is_ours: bool) -> bool:
        counts = self.counts
        if step.is_empty:
            counts.empty += 1
            return True
        counts.steps += 1
        earlier = self._earlier.setdefault(step.node, deque(maxlen=EARLIER_MAX))
        earlier.append(step)
        role = step.role_before
        counts.by_input[OWN if is_ours else self.core.name, role, step.command] += 1
        differences = step.differences()
        if not differences:
            counts.equal += 1
            return True
        rules, left = explain(step, differences)
        counts.rules.update(rule.name for rule in rules)
        if not left:
            counts.explained += 1
            return not any(rule.separates for rule in rules)
        names = tuple(left)
        counts.differing[f"{step.command} as {role or 'none'}: {', '.join(names)}"] += 1
        if len(counts.unexplained) < UNEXPLAINED_MAX:
            words = told_in_words(
                step, left, OWN if is_ours else self.core.name, list(earlier)[:-1]
            )
            counts.unexplained.append(Unexplained(self.seed, names, tuple(words)))
        return False

    def forget(self) -> None:
        """Let both drop their nodes."""
        for process, run in (self.ours, self.other):
            process.forget(run)


class PairSchedule(Schedule):
    """A run of one seed whose nodes are pairs."""

    def apart(self, pair: PairReplica) -> None:
        """Join a pair by a restart, unless it is joined by then."""
        delay_us = APART_MIN_US + self.rng.below(APART_SPAN_US)
        self.after(delay_us, self._join, pair, pair.incarnation)

    def _join(self, pair: PairReplica, incarnation: int) -> None:
        is_there = self.world.replicas.get(pair.id) is pair and pair.is_up
        if is_there and pair.incarnation == incarnation and not pair.is_joined:
            self.met["joined by a restart"] += 1
            self.world.crash(pair, None)
            self.restart(pair)


def conditions(seed: int, voters: int | None = None) -> Swarm:
    """Return what a seed stands for, as in the simulator, without the faults of disks."""
    swarm = swarm_of(seed, profile_named(KAFKA, without=AS_KAFKA), voters=voters)
    for name in _OFF:
        setattr(swarm, name, 0)
    swarm.listeners = 1  # Kafka writes the endpoints of a voter as its hash map iterates.
    return swarm


def run_seed(
    seed: int,
    core: Core,
    counts: Counts,
    *,
    events: int = EVENTS,
    voters: int | None = None,
    driver: str | None = None,
) -> None:
    """Run a seed, and add to the counts. A property that breaks ends it: what follows is no run."""
    started, cpu_started = time.monotonic(), cpu_seconds([core])
    cores = PairCores(core, seed, driver, counts)
    profile = profile_named(KAFKA, without=AS_KAFKA)
    schedule = PairSchedule(seed, conditions(seed, voters), profile, cores=cores)
    try:
        schedule.run(events)
    except Violation as error:
        breach = (error.name, error.text)
        known = known_breach(cores.cores_of(error.text), breach)
        if known is None:
            counts.broken.append(f"seed {seed} breaks {error.name}: {error.text}")
        else:
            counts.ended[known.finding] += 1
    finally:
        cores.forget()
    counts.apart += schedule.met[APART]
    counts.seeds += 1
    counts.seconds += time.monotonic() - started
    counts.cpu_seconds += cpu_seconds([core]) - cpu_started
