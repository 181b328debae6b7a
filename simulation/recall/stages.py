"""Where a search plays its seeds: quorums of a release, alone or beside our core in lock-step."""

from __future__ import annotations

import weakref
from typing import Final

from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.profiles.kafka.profile import AS_KAFKA
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core, RunCores
from kraftspec.simulation.lockstep.run import Counts, PairCores, PairSchedule, conditions
from kraftspec.simulation.lockstep.step import Step
from kraftspec.simulation.minimise import Stage
from kraftspec.simulation.recall.searches import LOCK_STEP, Search
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.schedule import Schedule

PROFILE: Final = profile_named(KAFKA, without=AS_KAFKA)


class ReleaseStage(Stage):
    """Quorums of one release of Kafka."""

    def __init__(self, search: Search, release: str, seed: int) -> None:
        self.search = search
        self.core = Core(f"kafka:{release}")
        super().__init__(seed, PROFILE, cores=(self.core,))

    def nodes(self) -> RunCores:
        """Return the nodes of a run."""
        return RunCores((self.core,), self.seed)

    def is_it(self, violation: Violation, name: str) -> bool:
        """Whether a breach is of the bug that is looked for."""
        return self.search.is_it(violation.name, violation.text)


class _SearchedPairs(PairCores):
    """Pairs in which a difference that is looked for is a breach."""

    def __init__(self, core: Core, seed: int, search: Search) -> None:
        super().__init__(core, seed, None, Counts())
        self.search = search
        for process, run in (self.ours, self.other):
            weakref.finalize(self, process.forget, run).atexit = False

    def _judge(self, step: Step, is_ours: bool) -> bool:
        self.counts.unexplained.clear()
        agrees = super()._judge(step, is_ours)
        for mismatch in self.counts.unexplained:
            first = next(at for at, word in enumerate(mismatch.words) if word.startswith("At "))
            text = "\n".join(mismatch.words[first:])
            if self.search.is_it(LOCK_STEP, text):
                raise Violation(LOCK_STEP, text)
        return agrees


class PairStage(ReleaseStage):
    """Quorums whose nodes are pairs of our core and a release of Kafka."""

    def __init__(self, search: Search, release: str, seed: int) -> None:
        super().__init__(search, release, seed)
        self.swarm = conditions(seed)
        if search.fetch_bytes:
            self.swarm.fetch_max_bytes = search.fetch_bytes
            self.swarm.fetch_snapshot_max_bytes = search.fetch_bytes

    def nodes(self) -> RunCores:
        """Return the pairs of a run."""
        return _SearchedPairs(self.core, self.seed, self.search)

    def schedule(self) -> Schedule:
        """Return a run that notes its decisions."""
        return PairSchedule(self.seed, self.swarm, PROFILE, record=True, cores=self.nodes())

    def play(self, schedule: Schedule, events: int) -> None:
        """Let a run go on to its end. Lock-step has no liveness."""
        schedule.run(events)

    def replay(self) -> Replay:
        """Return a world that does what decisions say."""
        return Replay(self.seed, self.swarm, PROFILE, cores=self.nodes())


def stage_of(search: Search, release: str, seed: int) -> ReleaseStage:
    """Return where a seed is played."""
    kind = PairStage if search.is_lock_step else ReleaseStage
    return kind(search, release, seed)
