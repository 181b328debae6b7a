"""How soon the simulator finds a seeded bug, and how small the trace becomes that shows it."""

from __future__ import annotations

import time

import msgspec

from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.minimise import Minimal, minimise
from kraftspec.simulation.run import simulate

EVENTS = 2_000  # A run is short: most bugs show early, and other seeds have other faults.
SECONDS_MAX = 600.0  # Of processor time.
MINIMISE_SECONDS_MAX = 60.0


class SearchResult(msgspec.Struct, kw_only=True):
    """The result of a search. ``seed`` is None if no run failed."""

    bug: str
    seeds: int
    events: int
    seconds: float  # Of processor time, until the failure.
    seed: int | None = None
    events_of_run: int = 0  # Of the one that broke.
    violation: tuple[str, str] | None = None
    minimised: int | None = None  # Events that are left; None: no trace was made.


def search(
    bug: str,
    profile: Profile,
    *,
    first_seed: int = 0,
    events: int = EVENTS,
    seconds_max: float = SECONDS_MAX,
) -> SearchResult:
    """Try seed after seed with a bug planted until one breaks a property."""
    outcome = SearchResult(bug=bug, seeds=0, events=0, seconds=0.0)
    started = time.process_time()
    with planted(bug):
        seed = first_seed
        while time.process_time() - started < seconds_max:
            result = simulate(seed, profile, events=events)
            outcome.seeds += 1
            outcome.events += result.events
            if result.violation is not None:
                outcome.seed, outcome.violation = seed, result.violation
                outcome.events_of_run = result.events
                break
            seed += 1
    outcome.seconds = time.process_time() - started
    return outcome


SHORT_EVENTS = 500  # A run that fails sooner is made small well enough.
SEEDS_MORE = 10


def shorter(outcome: SearchResult, profile: Profile, *, events: int = EVENTS) -> int:
    """Return the seed of those tried next whose run fails soonest in the same way."""
    assert outcome.seed is not None
    assert outcome.violation is not None
    best, shortest = outcome.seed, outcome.events_of_run
    for seed in range(outcome.seed + 1, outcome.seed + 1 + SEEDS_MORE):
        if shortest <= SHORT_EVENTS:
            break
        result = simulate(seed, profile, events=events)
        is_same = result.violation is not None and result.violation[0] == outcome.violation[0]
        if is_same and result.events < shortest:
            best, shortest = seed, result.events
    return best


def shrink(outcome: SearchResult, profile: Profile, *, events: int = EVENTS) -> Minimal | None:
    """Minimise the failure of a search, and set its size."""
    if outcome.seed is None:
        return None
    with planted(outcome.bug):
        seed = shorter(outcome, profile, events=events)
        minimal = minimise(seed, profile, events=events, seconds_max=MINIMISE_SECONDS_MAX)
    if minimal is not None:
        outcome.minimised = len(minimal.decisions)
    return minimal
