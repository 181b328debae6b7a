"""Let the model alone look for the seeded bugs (make model-bugs): no property is judged.

Each line of the file is one run: a bug, a seed, and the first step that nothing explains. A command
that is repeated goes on from there. Of each bug the first run is of the seed whose run breaks a
property of the simulator (docs/simulation.md); the next are of the seeds from 0 on. Each seed is
also run without a bug: the model has to explain that, or what it rejects proves nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kraftspec.model.traces import check
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import all_bugs, planted
from kraftspec.simulation.model_trace import record

BEGIN, END = "<!-- bugs -->\n", "<!-- end of bugs -->"
EVENTS = 1500  # Many runs have no leader before.
RUNS_PER_TLC = 20
_ROW = re.compile(r"^\| `(\w+)` \|.*\| (\d+) \| [^|]*\|[^|]*\|$", re.MULTILINE)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the model has judged. ``bug`` is "" where none was planted."""

    bug: str
    seed: int
    events: int
    stuck_at: int | None  # The number of the first step that nothing explains.


def first_seeds(page: str) -> dict[str, int]:
    """Return by bug the seed whose run was the first to break a property of the simulator."""
    return {name: int(runs) - 1 for name, runs in _ROW.findall(page)}


def runs(first: dict[str, int], seeds: int) -> Iterator[tuple[str, int]]:
    """Yield which bug is to be run with which seed, each once, the likeliest first."""
    seen = set()
    for seed in range(-1, seeds):
        for bug in all_bugs():
            of_it = first.get(bug, 0) if seed < 0 else seed
            for one in ((bug, of_it), ("", of_it)):
                if one not in seen:
                    seen.add(one)
                    yield one


def judge(todo: list[tuple[str, int]], events: int) -> list[Judged]:
    """Run them, and let one TLC judge all."""
    traces = []
    for bug, seed in todo:
        with planted(*([bug] if bug else [])):
            traces.append(record(seed, KafkaProfile(), events=events).trace)
    return [
        Judged(bug=bug, seed=seed, events=events, stuck_at=verdict.stuck_at)
        for (bug, seed), verdict in zip(todo, check(traces), strict=True)
    ]


def table(judged: list[Judged]) -> str:
    """Return what became of each bug, as rows of a page, and the sentence above them."""
    doubtful = {one.seed for one in judged if not one.bug and one.stuck_at is not None}
    explained = {one.seed for one in judged if not one.bug} - doubtful
    rows, rejected = [], 0
    for name, bug in all_bugs().items():
        of_it = [one for one in judged if one.bug == name]
        found = [one for one in of_it if one.stuck_at is not None and one.seed in explained]
        rejected += bool(found)
        which = f"{found[0].seed} | {found[0].stuck_at}" if found else "**explained** |"
        if of_it:
            rows.append(f"| `{name}` | {bug.sentence} | {len(of_it)} | {which} |")
    return (
        f"{rejected} of {len(rows)} bugs are rejected, of {len(all_bugs())} in the catalogue; "
        f"{len(explained)} of {len(explained) + len(doubtful)} runs without a bug are explained."
        "\n\n"
        "| bug | what it is | runs | seed | step |\n| --- | --- | ---: | ---: | ---: |\n"
        + "\n".join(rows)
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/model-bugs.jsonl"))
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seeds", type=int, default=10, help="of each bug, at the most")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no more after these")
    parser.add_argument("--page", type=Path, help="write the table there")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_bytes().splitlines() if options.out.exists() else []
    judged = [msgspec.json.decode(line, type=Judged) for line in lines]
    end = time.monotonic() + options.seconds
    first = first_seeds(Path("docs/simulation.md").read_text("utf-8"))
    done = {(one.bug, one.seed) for one in judged if one.events == options.events}
    left = [one for one in runs(first, options.seeds) if one not in done]
    while time.monotonic() < end:
        rejected = {one.bug for one in judged if one.bug and one.stuck_at is not None}
        left = [one for one in left if one[0] not in rejected]
        todo, left = left[:RUNS_PER_TLC], left[RUNS_PER_TLC:]
        if not todo:
            break
        new = judge(todo, options.events)
        judged += new
        with options.out.open("ab") as out:
            out.writelines(msgspec.json.encode(one) + b"\n" for one in new)
        sys.stdout.write(f"{table(judged).partition(chr(10))[0]}\n")
        sys.stdout.flush()
    if options.page is None:
        sys.stdout.write(table(judged) + "\n")
    else:
        before, _, rest = options.page.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        text = f"{before}{BEGIN}\n{table(judged)}\n\n{END}{after}"
        options.page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
