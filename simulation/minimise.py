"""A failure made small: fewer nodes, fewer decisions, and the same property broken.

Delta debugging (Zeller, 2002) over the recorded decisions: parts are left out, larger ones first,
for as long as what is left still breaks the property. A property of liveness is broken by a row if
nothing fails after it, and the property does not come true all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.run import settle, swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.world import DELIVER, Decision

SECONDS_MAX = 120.0  # Of processor time.
REPEATED_MAX = 4  # Parts this small are tried until none can be left out.

Progress = Callable[[int], None]  # How many decisions are left.


class Minimal(msgspec.Struct, kw_only=True):
    """A failure that nothing can be left out of, as far as was tried.

    ``is_liveness``: after its decisions nothing fails, and a property does not come true.
    """

    seed: int
    swarm: Swarm
    decisions: list[Decision]
    violation: tuple[str, str]
    recorded: int  # How many decisions there were at first.
    trials: int
    is_liveness: bool = False


class Stage:
    """Where a seed is played: its conditions, and the nodes that a run and its replays have."""

    def __init__(
        self,
        seed: int,
        profile: Profile,
        *,
        voters: int | None = None,
        cores: Sequence[Core] = (),
    ) -> None:
        self.seed, self.profile, self.cores = seed, profile, cores
        self.swarm: Swarm = swarm_of(seed, profile, voters=voters, cores=cores)

    def schedule(self) -> Schedule:
        """Return a run that notes its decisions."""
        return Schedule(self.seed, self.swarm, self.profile, record=True, cores=self.cores)

    def play(self, schedule: Schedule, events: int) -> None:
        """Let a run go on to its end."""
        schedule.run(events)
        settle(schedule)

    def replay(self) -> Replay:
        """Return a world that does what decisions say."""
        return Replay(self.seed, self.swarm, self.profile, cores=self.cores)

    def is_it(self, violation: Violation, name: str) -> bool:
        """Whether a breach is the one that is made small: one of the same property."""
        return violation.name == name


def record(
    seed: int,
    profile: Profile,
    *,
    events: int,
    voters: int | None = None,
    cores: Sequence[Core] = (),
) -> tuple[Schedule, Violation | None]:
    """Run a seed again, noting its decisions."""
    return _record(Stage(seed, profile, voters=voters, cores=cores), events)


def _record(stage: Stage, events: int) -> tuple[Schedule, Violation | None]:
    schedule = stage.schedule()
    try:
        stage.play(schedule, events)
    except Violation as violation:
        return schedule, violation
    return schedule, None


def minimise(
    seed: int,
    profile: Profile,
    *,
    events: int,
    voters: int | None = None,
    cores: Sequence[Core] = (),
    seconds_max: float = SECONDS_MAX,
    progress: Progress | None = None,
) -> Minimal | None:
    """Minimise the failure of a seed: see `minimise_on`."""
    stage = Stage(seed, profile, voters=voters, cores=cores)
    return minimise_on(stage, events, seconds_max=seconds_max, progress=progress)


def minimise_on(
    stage: Stage,
    events: int,
    *,
    seconds_max: float = SECONDS_MAX,
    progress: Progress | None = None,
) -> Minimal | None:
    """Return the smallest row of decisions found that breaks the property that the seed broke.

    None where the seed breaks none, and where one of liveness comes true when the run goes on: the
    messages under way are lost then.
    """
    schedule, violation = _record(stage, events)
    if violation is None:
        return None
    decisions = schedule.world.decisions or []
    name = violation.name
    is_liveness = name in schedule.world.protocol.liveness
    best: tuple[list[Decision], Violation] | None = None
    trials = 0
    deadline = time.process_time() + seconds_max

    def attempt(candidate: list[Decision]) -> bool:
        nonlocal best, trials
        trials += 1
        replay = stage.replay()
        violation = replay.run(candidate)
        if violation is None and is_liveness:
            violation = _go_on(replay, stage, name)
        # At its end a run is judged, and not its nodes.
        breaches = [violation] if violation else replay.world.breaches_at_end([])
        violation = next((one for one in breaches if stage.is_it(one, name)), None)
        if violation is None:
            return False
        if best is None or len(replay.applied) < len(best[0]):
            best = (replay.applied, violation)
        return True

    # What was decided after the faults is often not needed.
    rows = [decisions[: schedule.quiet_from], decisions] if is_liveness else [decisions]
    if not any(attempt(row) for row in rows) or best is None:
        return None
    for without in _kinds(best[0]):
        if time.process_time() < deadline:
            attempt([decision for decision in best[0] if not without(decision)])
    size = len(best[0]) // 2
    while size and time.process_time() < deadline:
        size = _pass(best[0], size, attempt, lambda: best[0], deadline, progress)
    for belongs in _groups(best[0]):
        _thin(belongs, attempt, lambda: best[0], deadline)
    size = 1
    while size and time.process_time() < deadline:
        size = _pass(best[0], size, attempt, lambda: best[0], deadline, progress)
    return Minimal(
        seed=stage.seed, swarm=stage.swarm, decisions=best[0],
        violation=(best[1].name, best[1].text), recorded=len(decisions), trials=trials,
        is_liveness=is_liveness,
    )  # fmt: skip


def _go_on(replay: Replay, stage: Stage, name: str) -> Violation | None:
    """Let nothing fail from here on; return what does not come true, if not later than ``name``."""
    schedule = Schedule(stage.seed, msgspec.structs.replace(replay.swarm), stage.profile)
    schedule.take_over(replay.world, replay.finishing)
    try:
        settle(schedule, name)
    except Violation as violation:
        return violation
    return None


def _kinds(decisions: list[Decision]) -> list[Callable[[Decision], bool]]:
    """Return what may be left out as a whole: a node with all it sends, a link, a kind of event."""
    nodes = sorted({decision.node for decision in decisions})
    kinds = sorted({decision.kind for decision in decisions})
    apis = sorted({(d.detail[2], d.detail[3]) for d in decisions if d.kind == DELIVER})
    return [
        *(partial(_is_of_node, node) for node in nodes),
        *(partial(_is_of_kind, kind) for kind in kinds),
        *(partial(_is_of_api, *api) for api in apis),
    ]


def _groups(decisions: list[Decision]) -> list[Callable[[Decision], bool]]:
    """Return what hangs together though it does not stand together: a link, a node."""
    nodes = sorted({decision.node for decision in decisions})
    links = [(a, b) for a in nodes for b in nodes if a < b]
    return [
        *(partial(_is_of_link, a, b) for a, b in links),
        *(partial(_is_of_node, node) for node in nodes),
    ]


def _is_of_link(a: int, b: int, decision: Decision) -> bool:
    return decision.kind == DELIVER and decision.detail[:2] in ((a, b), (b, a))


def _thin(
    belongs: Callable[[Decision], bool],
    attempt: Callable[[list[Decision]], bool],
    current: Callable[[], list[Decision]],
    deadline: float,
) -> None:
    """Try to leave out each part of a group, from its end on, the larger parts first."""
    size = sum(map(belongs, current())) // 2
    while size:
        end = sum(map(belongs, current()))
        while end > 0 and time.process_time() < deadline:
            row = current()
            members = [index for index, decision in enumerate(row) if belongs(decision)]
            part = frozenset(members[max(0, end - size) : end])
            attempt([decision for index, decision in enumerate(row) if index not in part])
            end -= size
        size //= 2


def _is_of_node(node: int, decision: Decision) -> bool:
    is_from = decision.kind == DELIVER and decision.detail[0] == node
    return decision.node == node or is_from


def _is_of_kind(kind: int, decision: Decision) -> bool:
    return decision.kind == kind


def _is_of_api(is_reply: bool, api_key: int, decision: Decision) -> bool:
    return decision.kind == DELIVER and decision.detail[2:4] == (is_reply, api_key)


def _pass(
    decisions: list[Decision],
    size: int,
    attempt: Callable[[list[Decision]], bool],
    current: Callable[[], list[Decision]],
    deadline: float,
    progress: Progress | None,
) -> int:
    """Try to leave out each part of ``size``, from the end on; return the size to try next."""
    end, left_any = len(decisions), False
    while end > 0 and time.process_time() < deadline:
        start = max(0, end - size)
        before = current()
        if attempt(before[:start] + before[end:]):
            left_any = True
            if progress is not None:
                progress(len(current()))
        end = min(start, len(current()))
    if left_any and size <= REPEATED_MAX:
        return size  # Once more: what was needed may no longer be.
    return size // 2
