"""Looks for the bugs, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.cache import cache_directory
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import cpu_seconds
from kraftspec.simulation.minimise import Minimal, minimise_on
from kraftspec.simulation.recall.searches import Search
from kraftspec.simulation.recall.stages import ReleaseStage, stage_of
from kraftspec.simulation.trace_text import event_text, trace_events

MINIMISE_SECONDS_MAX: Final = 20.0
TEXT_MAX: Final = 10_000

Progress = Callable[[str, int, int], None]


class Run(msgspec.Struct, frozen=True):
    """A seed with a release: what it broke, and whether that is the bug."""

    seed: int
    release: str
    is_it: bool
    events: int
    cpu_seconds: float
    violation: tuple[str, str] | None


class Found(msgspec.Struct, kw_only=True):
    """What a search came to. ``seed`` is None where no seed shows the bug.

    ``had`` and ``had_without`` are how many of ``runs`` seeds show it with either release;
    ``cpu_seconds`` went by until the first of them did. ``minimised`` is how many events the small
    trace has; None: there is none.
    """

    bug: str
    key: str
    has: str
    without: str
    runs: int
    had: int = 0
    had_without: int = 0
    cpu_seconds: float = 0.0
    seed: int | None = None
    events: int = 0
    minimised: int | None = None
    broken: str = ""
    text: str = ""

    @property
    def is_rediscovered(self) -> bool:
        """Whether the release shows it, and the later one does not."""
        return self.seed is not None and self.had_without == 0


def folder() -> Path:
    """Return where runs and traces are kept."""
    path = cache_directory() / "recall"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(search: Search, release: str, seed: int) -> Run:
    """Run a seed with a release."""
    stage = stage_of(search, release, seed)
    cores = [stage.core]
    started = cpu_seconds(cores)
    schedule = stage.schedule()
    schedule.world.decisions = None  # Nobody minimises this.
    broken: Violation | None = None
    try:
        stage.play(schedule, search.events)
    except Violation as violation:
        broken = violation
    return Run(
        seed, release, broken is not None and search.is_it(broken.name, broken.text),
        schedule.world.events, round(cpu_seconds(cores) - started, 2),
        None if broken is None else (broken.name, broken.text[:TEXT_MAX]),
    )  # fmt: skip


def runs(search: Search, release: str, progress: Progress) -> Iterator[Run]:
    """Yield the runs of a search with a release; those that were made before are read."""
    path = folder() / f"{search.key}-{release}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = {one.seed: one for one in (msgspec.json.decode(line, type=Run) for line in lines)}
    for number, seed in enumerate(search.seeds()):
        progress(f"{search.bug}, {release}", number, search.runs)
        one = done.get(seed)
        if one is None:
            one = run(search, release, seed)
            with path.open("ab") as file:
                file.write(msgspec.json.encode(one) + b"\n")
        yield one


def look(search: Search, progress: Progress) -> Found:
    """Look for a bug with both releases."""
    result = Found(bug=search.bug, key=search.key, has=search.has, without=search.without, runs=0)
    shortest: Run | None = None
    for one in runs(search, search.has, progress):
        result.runs += 1
        if not result.had:
            result.cpu_seconds += one.cpu_seconds
        if one.is_it:
            result.had += 1
            if shortest is None or one.events < shortest.events:
                shortest = one
    if shortest is None or shortest.violation is None:
        return result
    result.had_without = sum(one.is_it for one in runs(search, search.without, progress))
    result.seed, result.events = shortest.seed, shortest.events
    result.broken, result.text = shortest.violation
    return result


def trace_path(result: Found) -> Path:
    """Return where the small trace is."""
    return folder() / f"{result.key}-{result.seed}.trace"


def make_small(search: Search, result: Found, progress: Progress) -> None:
    """Make the shortest run that shows the bug small, and write its trace down."""
    path = trace_path(result)
    if result.seed is None:
        return
    if not path.exists():
        stage = stage_of(search, search.has, result.seed)
        minimal = minimise_on(
            stage, search.events, seconds_max=MINIMISE_SECONDS_MAX,
            progress=lambda left: progress(f"{search.bug}, {left} events", 0, 1),
        )  # fmt: skip
        words = [] if minimal is None else [*_told(stage, minimal), ": ".join(minimal.violation)]
        path.write_text("\n".join(words), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    result.minimised = sum(map(_is_event, lines)) if lines else None


def _is_event(line: str) -> bool:
    return line[:4].strip().isdecimal()


def _told(stage: ReleaseStage, minimal: Minimal) -> Iterator[str]:
    """Yield a trace in words."""
    events, _ = trace_events(
        stage.seed, stage.swarm, stage.profile, minimal.decisions, stage.nodes()
    )
    yield from map(event_text, events)
