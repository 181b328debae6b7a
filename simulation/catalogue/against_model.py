"""Let the model alone look for the seeded bugs (make model-bugs): no property is judged.

Each line of the file is one run: a bug, a seed, and the first step that nothing explains. A command
that is repeated goes on from there. Of each bug the first run is of the seed whose run breaks a
property of the simulator (docs/simulation.md); the next are of the seeds from 0 on. A run that is
told as the one without the bug is not judged: the bug did nothing in it. Of a rejected run the
model also has to explain the same seed without the bug, or the rejection proves nothing. Lines
that other sources made, of the model or of what runs, count for nothing.

Exit code 1: fewer bugs are rejected than have to be.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from kraftspec.model.traces import Trace, check
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import all_bugs, later_bugs, planted
from kraftspec.simulation.model_trace import record
from kraftspec.sources import MODEL_CHECK, digest, package_directory
from kraftspec.words import between_marks, counted

BEGIN, END = "<!-- bugs -->", "<!-- end of bugs -->"
EVENTS = 2_000  # Many runs have no leader before 500.
RUNS_PER_TLC = 12
IDLE_MAX = 20  # Seeds in which a bug does nothing, before the other bugs have their turn.
# How many have to be rejected of the bugs that the catalogue had at first, and of ``later_bugs``.
OF_FIRST_MIN = 80
OF_LATER_MIN = 15
# The bugs that came into the catalogue after its first 89.
NOT_OF_FIRST = frozenset(
    {
        "a_part_of_a_snapshot_is_silence", "answers_a_change_too_early", "asks_again_at_once",
        "asks_at_the_first_listener", "asks_for_a_deleted_snapshot_again",
        "begins_anew_where_it_was", "begins_no_new_period", "commits_while_it_truncates",
        "counts_bytes_that_came_during_the_sync", "counts_what_came_during_the_sync",
        "does_not_let_its_leader_wait", "does_not_tell_that_it_moved",
        "fetches_snapshots_without_a_directory", "removed_leader_waits_for_a_call",
        "removed_voter_goes_on", "removes_whoever_has_the_id", "resigned_waits_for_all",
        "resigns_in_silence", "seals_with_zeros", "stays_removed_when_cut",
        "takes_a_flush_for_all_it_has", "takes_a_longer_log_for_a_later_one",
        "takes_appends_of_earlier_epochs", "takes_no_snapshot_that_is_shorter",
        "tells_of_its_leadership_at_once", "tells_old_tools_less",
        "waits_though_its_leader_resigned",
    }
)  # fmt: skip
# What the model cannot see, by what it leaves out. These bugs are run only where they are named.
_TIME = "there is no clock: a timer may expire now, later or never"
_PARTS = "a snapshot has no parts"
_ADDRESSES = "each node can reach every other"
OUTSIDE = {
    "never_campaigns": _TIME,
    "leads_without_a_majority": _TIME,
    "waits_though_its_leader_resigned": _TIME,
    "resigns_in_silence": _TIME,
    "resigned_waits_for_all": _TIME,
    "stands_still_without_answers": _TIME,
    "asks_again_at_once": _TIME,
    "does_not_let_its_leader_wait": _TIME,
    "begins_no_new_period": _TIME,
    "removed_leader_waits_for_a_call": _TIME,
    "a_part_of_a_snapshot_is_silence": _TIME,
    "asks_for_a_deleted_snapshot_again": _PARTS,
    "upgrade_leaves_one_out": "a quorum is static or dynamic from the beginning",
    "tells_old_tools_less": "there is no DescribeQuorum",
    "does_not_tell_that_it_moved": _ADDRESSES,
    "asks_at_the_first_listener": _ADDRESSES,
}
_ROW = re.compile(r"^\| `(\w+)` \|.*\| (\d+) \| [^|]*\|[^|]*\|$", re.MULTILINE)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was judged. ``bug`` is "" where none was planted; ``sources`` made the line."""

    bug: str
    seed: int
    events: int
    stuck_at: int | None  # The number of the first step that nothing explains.
    acts: bool = True  # False: it is told as without the bug, and TLC has not seen it.
    sources: str = ""


def first_seeds(page: str) -> dict[str, int]:
    """Return by bug the seed whose run was the first to break a property of the simulator."""
    return {name: int(runs) - 1 for name, runs in _ROW.findall(page)}


def first_bugs() -> set[str]:
    """Return the names of the bugs that the catalogue had at first."""
    return all_bugs().keys() - NOT_OF_FIRST


def run(bug: str, seed: int, events: int) -> Trace:
    """Run a seed with a bug."""
    with planted(*([bug] if bug else [])):
        return record(seed, KafkaProfile(), events=events).trace


@lru_cache(maxsize=100)
def control(seed: int, events: int) -> Trace:
    """Run a seed without a bug."""
    return run("", seed, events)


def rejections(judged: list[Judged]) -> list[Judged]:
    """Return the runs with a bug that are rejected, and those without one are not, or not yet."""
    doubtful = {one.seed for one in judged if not one.bug and one.stuck_at is not None}
    return [
        one for one in judged if one.bug and one.stuck_at is not None and one.seed not in doubtful
    ]


def proven(judged: list[Judged]) -> dict[str, Judged]:
    """Return the rejections by bug: those whose run without the bug is explained."""
    explained = {one.seed for one in judged if not one.bug and one.stuck_at is None}
    return {one.bug: one for one in rejections(judged) if one.seed in explained}


def too_few(judged: list[Judged]) -> str:
    """Return in words of which bugs fewer are rejected than have to be; nothing if there are none.

    Those named in ``OUTSIDE`` count as not rejected.
    """
    rejected = proven(judged).keys()
    first, later = first_bugs(), later_bugs().keys()
    parts = [
        f"{len(rejected & bugs)} of {what} are rejected, and {least} have to be"
        for bugs, what, least in (
            (first, f"the catalogue's first {counted(len(first), 'bug')}", OF_FIRST_MIN),
            (later, f"the {len(later)} made after the model", OF_LATER_MIN),
        )
        if len(rejected & bugs) < least
    ]
    return "; ".join(parts)


class Search:
    """What was judged so far, and which runs are next."""

    def __init__(
        self,
        judged: list[Judged],
        first: dict[str, int],
        seeds: int,
        events: int,
        bugs: Iterable[str] = (),
    ) -> None:
        self.judged = judged
        self._events = events
        done = {(one.bug, one.seed) for one in judged if one.events == events}
        self._seeds = {
            bug: iter([s for s in dict.fromkeys((first.get(bug, 0), *range(seeds)))
                       if (bug, s) not in done])
            for bug in bugs or [bug for bug in all_bugs() | later_bugs() if bug not in OUTSIDE]
        }  # fmt: skip

    def rounds(self) -> Iterator[list[tuple[str, int, Trace]]]:
        """Yield runs that one TLC is to judge: of all bugs in turn, and what they need beside."""
        todo: list[tuple[str, int, Trace]] = []
        while self._seeds:
            for bug in [*self._seeds]:
                if one := self._next(bug):
                    todo.append((bug, *one))
                if len(todo) == RUNS_PER_TLC:
                    yield [*todo, *self._controls()]
                    todo = []
        if todo:
            yield todo
        while controls := self._controls():
            yield controls

    def _next(self, bug: str) -> tuple[int, Trace] | None:
        """Return the next run in which a bug does something; a bug that is done has none."""
        if bug in {one.bug for one in rejections(self.judged)}:
            del self._seeds[bug]
            return None
        for _ in range(IDLE_MAX):
            seed = next(self._seeds[bug], None)
            if seed is None:
                del self._seeds[bug]
                return None
            trace = run(bug, seed, self._events)
            if trace != control(seed, self._events):
                return seed, trace
            idle = Judged(bug=bug, seed=seed, events=self._events, stuck_at=None, acts=False)
            self.judged.append(idle)
        return None

    def _controls(self) -> list[tuple[str, int, Trace]]:
        """Return the runs without a bug that rejections need, and have not."""
        known = {one.seed for one in self.judged if not one.bug}
        wanted = {one.seed for one in self.judged if one.stuck_at is not None} - known
        chosen = sorted(wanted)[:RUNS_PER_TLC]
        return [("", seed, control(seed, self._events)) for seed in chosen]


def judge(todo: list[tuple[str, int, Trace]], events: int) -> list[Judged]:
    """Let TLC judge runs."""
    return [
        Judged(bug=bug, seed=seed, events=events, stuck_at=verdict.stuck_at)
        for (bug, seed, _), verdict in zip(todo, check([one[2] for one in todo]), strict=True)
    ]


def table(judged: list[Judged]) -> str:
    """Return what became of each bug, as rows of a page, and the sentence above them."""
    controls = {one.seed: one.stuck_at is None for one in judged if not one.bug}
    rejected = proven(judged)
    rows: dict[str, str] = {}
    outside = []
    for name, bug in (all_bugs() | later_bugs()).items():
        of_it = [one for one in judged if one.bug == name]
        if name in OUTSIDE and name not in rejected:
            outside.append(f"| `{name}` | {bug.sentence} | {OUTSIDE[name]} |")
        elif of_it:
            first = rejected.get(name)
            which = "**no** |" if first is None else f"{first.seed} | {first.stuck_at}"
            acts = sum(one.acts for one in of_it)
            rows[name] = f"| `{name}` | {bug.sentence} | {len(of_it)} | {acts} | {which} |"
    head = (
        "| bug | what it is | runs | it acts | seed | step |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |"
    )
    late = rows.keys() & later_bugs().keys()
    at_first = first_bugs()
    return "\n".join([
        f"{len(rejected.keys() - late)} of {len(rows) - len(late)} bugs of the catalogue are "
        f"rejected; {len(outside)} more are in what the model leaves out. Of the catalogue's first "
        f"{len(at_first)} bugs, {len(rejected.keys() & at_first)} are among the rejected. Of those "
        f"made after the model was done, {len(rejected.keys() & late)} of {len(late)} are "
        f"rejected. Of the runs without a bug, {sum(controls.values())} of {len(controls)} are "
        "explained.",
        "", head, *(row for name, row in rows.items() if name not in late),
        "", "Bugs that were made after the model was done:",
        "", head, *(row for name, row in rows.items() if name in late),
        "", "| bug that is not run | what it is | because |", "| --- | --- | --- |", *outside,
    ])  # fmt: skip


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/model-bugs.jsonl"))
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seeds", type=int, default=100, help="of each bug, at the most")
    parser.add_argument("--bug", action="append", default=[], help="this one alone; several times")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no more after these")
    parser.add_argument("--page", type=Path, help="write the table there")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_bytes().splitlines() if options.out.exists() else []
    sources = digest(map(package_directory, MODEL_CHECK))
    kept = [msgspec.json.decode(line, type=Judged) for line in lines]
    judged = [one for one in kept if one.sources == sources]
    end = time.monotonic() + options.seconds
    first = first_seeds(Path("docs/simulation.md").read_text("utf-8"))
    search = Search(judged, first, options.seeds, options.events, options.bug)
    written = len(judged)
    rounds = search.rounds()
    while time.monotonic() < end and (todo := next(rounds, None)) is not None:
        judged += judge(todo, options.events) if todo else []
        with options.out.open("ab") as out:
            for one in judged[written:]:
                line = msgspec.structs.replace(one, sources=sources)
                out.write(msgspec.json.encode(line) + b"\n")
        written = len(judged)
        sys.stdout.write(f"{table(judged).partition(chr(10))[0]}\n")
        sys.stdout.flush()
    if options.page is None:
        sys.stdout.write(table(judged) + "\n")
    else:
        page = options.page.read_text("utf-8")
        options.page.write_text(between_marks(page, BEGIN, END, table(judged)), "utf-8")
    if not options.bug and (why := too_few(judged)):
        raise SystemExit(why)


if __name__ == "__main__":
    main()
