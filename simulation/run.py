"""One seed from its first event to its verdict."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from kraftspec.reference.raft.messages import AddVoter, UpdateVoter
from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core, cpu_seconds, lacking_capabilities
from kraftspec.simulation.harness.known import KnownBreach, known_breach
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.invariants import OTHERS, is_ignored
from kraftspec.simulation.liveness import all_liveness
from kraftspec.simulation.protocols import protocol_of
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import (
    Swarm,
    draw_careless_operator,
    draw_diverged_tails,
    draw_edge_snapshots,
    draw_late_replies,
    draw_moves,
    draw_removed_leaders,
    draw_restless_operator,
    draw_silent_leaders,
    draw_slow_snapshots,
    draw_swarm,
    draw_targeted_power,
    draw_zeros,
    forgo,
)

EVENTS = 10_000
QUIET_APPENDS_US = 200_000  # How often the clients append once the faults are over, at the most.
ROUND_TRIP_LATENCIES = 3  # A request and its answer take two at the most.
# A run that does not end by itself: as if a clock struck again and again at one moment.
LIVENESS_EVENTS_MAX = 200_000


class Result(msgspec.Struct, kw_only=True):
    """What became of a seed. ``violation`` is (property, text), or None."""

    seed: int
    events: int
    seconds: float  # Of processor time, that of harnesses included: a run is one thread.
    trace_hash: str
    simulated_seconds: float
    faults: dict[str, int]
    acknowledged: int
    epochs: int
    properties: tuple[str, ...]
    unseen: tuple[str, ...] = ()  # Of these: what some node does not show, so it is not judged.
    violation: tuple[str, str] | None = None
    # Which implementation's node broke it, where the simulator can tell; the known fault it is.
    cores: tuple[str, ...] = ()
    known: KnownBreach | None = None
    # What else was broken at the end of the run, and the known faults: all, if ``known`` is one.
    others: tuple[tuple[str, KnownBreach | None], ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether a property broke, and nobody knew that it would."""
        return self.violation is not None and self.known is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "seed": self.seed,
            "events": self.events,
            "eventsPerSecond": round(self.events / self.seconds) if self.seconds else 0,
            "traceHash": self.trace_hash,
            "simulatedSeconds": round(self.simulated_seconds, 3),
            "acknowledged": self.acknowledged,
            "epochs": self.epochs,
            "faults": dict(sorted(self.faults.items())),
            "invariants": {name: self._verdict(name) for name in self.properties},
            "violation": list(self.violation) if self.violation else None,
            "cores": list(self.cores),
            "known": self.known.finding if self.known else None,
        }

    def _verdict(self, name: str) -> str:
        is_told = self.violation is not None and self.violation[0] == name
        if is_told or any(other == name for other, _ in self.others):
            return "broken"
        return "not shown" if name in self.unseen else "held"


def swarm_of(
    seed: int, profile: Profile, *, voters: int | None = None, cores: Sequence[Core] = ()
) -> Swarm:
    """Return the conditions that a seed stands for, where nodes of these cores can meet them."""
    lacking = lacking_capabilities(cores)
    rng = Rng(seed ^ 0x5EED)
    swarm = draw_swarm(rng, voters=voters)
    forgo(swarm, lacking)
    draw_targeted_power(swarm, Rng(seed ^ 0xD15C))
    draw_zeros(swarm, Rng(seed ^ 0x430C1))  # None for the seeds that docs/kip-595.md names.
    protocol = protocol_of(profile)
    if AddVoter in protocol.changes:
        draw_restless_operator(swarm, Rng(seed ^ 0x0BE5))
        draw_removed_leaders(swarm, Rng(seed ^ 0x1EE6))
    if protocol.has_snapshots and "snapshots" not in lacking:
        draw_slow_snapshots(swarm, Rng(seed ^ 0x5709))
        draw_diverged_tails(swarm, Rng(seed ^ 0xD1FE))
    if UpdateVoter in protocol.changes:
        draw_moves(swarm, Rng(seed ^ 0x30FE))
        if protocol.has_snapshots and "snapshots" not in lacking:
            draw_late_replies(swarm, Rng(seed ^ 0x1A83))
            draw_edge_snapshots(swarm, Rng(seed ^ 0xEDC1))
            draw_silent_leaders(swarm, Rng(seed ^ 0x550E))
    if any(core.folder_and_release[0] == "kafka" for core in cores):
        draw_careless_operator(swarm, Rng(seed ^ 0xCA2E))
    protocol.restrict(swarm, rng)
    forgo(swarm, lacking)
    return swarm


def simulate(
    seed: int,
    profile: Profile,
    *,
    events: int = EVENTS,
    voters: int | None = None,
    cores: Sequence[Core] = (),
) -> Result:
    """Run a seed: faults for so many events, then none, until what must come true did.

    ``cores`` are the implementations of the nodes; none: all are this project's.
    """
    with _uncollected():
        return _simulate(seed, profile, events, voters, cores)


def _simulate(
    seed: int, profile: Profile, events: int, voters: int | None, cores: Sequence[Core]
) -> Result:
    started = cpu_seconds(cores)
    schedule = Schedule(
        seed, swarm_of(seed, profile, voters=voters, cores=cores), profile, cores=cores
    )
    violation = None
    try:
        schedule.run(events)
        settle(schedule)
    except Violation as error:
        violation = error
    world = schedule.world
    protocol = world.protocol
    return Result(
        seed=seed,
        events=world.events,
        seconds=cpu_seconds(cores) - started,
        trace_hash=world.trace_hash,
        simulated_seconds=world.now_us / 1e6,
        faults=dict(schedule.met),
        acknowledged=world.appends.acknowledged,
        epochs=len(world.leaders),
        properties=tuple(
            name
            for name in (*protocol.invariants, *OTHERS, *protocol.liveness)
            if not is_ignored(name)
        ),
        unseen=tuple(sorted({name for one in world.replicas.values() for name in one.unseen})),
        violation=None if violation is None else (violation.name, violation.text),
        cores=tuple(core.name for core in _blamed(schedule, violation)),
        known=_known(schedule, violation),
        others=tuple((one.name, _known(schedule, one)) for one in violation.others)
        if violation
        else (),
    )


def _blamed(schedule: Schedule, violation: Violation | None) -> list[Core]:
    """Return whose node broke a property."""
    if violation is None or schedule.cores is None:
        return []
    return schedule.cores.cores_of(violation.text)


def _known(schedule: Schedule, violation: Violation | None) -> KnownBreach | None:
    if violation is None:
        return None
    return known_breach(_blamed(schedule, violation), (violation.name, violation.text))


def require_repeat(first: Result, again: Result) -> None:
    """Require that a seed's second run was the first, event by event.

    Raises:
        HarnessError: it was not: what a node of a core says depends on more than its inputs.
    """
    if first.trace_hash != again.trace_hash:
        raise HarnessError(
            f"seed {first.seed} was run twice, and the runs differ (traces {first.trace_hash} and "
            f"{again.trace_hash}): a core is not deterministic. What it says may depend on a "
            "clock, on random numbers of its own, on a thread or on the order of a hash map"
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let nobody look for cycles meanwhile: a run has few, and it takes a twentieth of its time.

    The run itself is one. Afterwards nobody needs it, so who looks then sees it for once.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settle(schedule: Schedule, last: str | None = None) -> None:
    """End the faults, and see each liveness property come true in its time, up to ``last``."""
    world = schedule.world
    schedule.quiet_from = len(world.decisions or ())
    schedule.faults.stop()
    schedule.operator.period_us = 0
    # A Fetch reads one segment, which may have no more than a batch: they must not come faster.
    slowest_us = ROUND_TRIP_LATENCIES * schedule.swarm.latency_max_us
    schedule.swarm.append_period_us = max(
        schedule.swarm.append_period_us, QUIET_APPENDS_US, slowest_us
    )
    limit = world.events + LIVENESS_EVENTS_MAX
    names = world.protocol.liveness
    for liveness in all_liveness(names[: names.index(last) + 1] if last else names):
        liveness.begin(schedule)
        until_us = world.now_us + liveness.within_us
        progress = liveness.progress(schedule)
        while not liveness.is_so(schedule):
            now = liveness.progress(schedule)
            if now > progress:
                progress, until_us = now, world.now_us + liveness.within_us
            if world.now_us >= until_us or world.events >= limit:
                raise Violation(liveness.name, liveness.why_not(schedule))
            schedule.run(limit, world.now_us + liveness.step_us)
    breaches = world.breaches_at_end(list(world.running()))
    if breaches:  # One that nobody knows, if there is one.
        told = min(breaches, key=lambda one: _known(schedule, one) is not None)
        told.others = [one for one in breaches if one is not told]
        raise told
