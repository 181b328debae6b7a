"""The Java file of a minimised run, without the calls that it breaks the property without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.java_example.java_file import (
    Origin,
    bare,
    class_of,
    java_text,
    properties,
    write_whole,
)
from kraftspec.simulation.java_example.steps import Step, steps_of
from kraftspec.simulation.java_example.trial import BROKEN, Outcome, Trials, run
from kraftspec.simulation.minimise import Minimal

STEPS_MAX: Final = 40  # That a person follows.
PROCESSES: Final = 3  # That must find the fault before a file is written.
KAFKA: Final = "kafka"
# It compares nodes. Without some calls the others give answers that no quorum gives, and correct
# nodes break it, too.
BY_HAND: Final = "single_leader"

Progress = Callable[[int], None]  # How many calls are left.


def write_example(
    minimal: Minimal,
    profile: Profile,
    cores: Sequence[Core],
    folder: Path,
    *,
    name: str = "",
    command: str = "",
    progress: Progress | None = None,
) -> tuple[Path, int]:
    """Write the Java file of a run and its pom; return the file, and how many steps it has.

    Raises:
        HarnessError: the run has no node of Kafka, its property cannot be judged in Java or
            compares several nodes, or the file does not show the fault.
    """
    kafka = next((core for core in cores if core.folder_and_release[0] == KAFKA), None)
    if kafka is None:
        raise HarnessError("a Java file is of nodes of Kafka: --core kafka:4.4.0")
    broken, _ = minimal.violation
    possible = [name for name in properties() if name != BY_HAND]
    if broken not in possible:
        raise HarnessError(f"--java does not judge {broken}, but {', '.join(possible)}")
    release = kafka.folder_and_release[1]
    name = name or f"{class_of(broken)}Seed{minimal.seed}"
    origin = Origin(release, broken, command or f"seed {minimal.seed} of the simulator")
    steps = steps_of(minimal, profile, cores, kafka)
    shown, told = _smallest(origin, name, steps, progress)
    text = java_text(origin, name, shown, told.told)
    return write_whole(text, name, release, folder), bare(text).count("    step(")


def _smallest(
    origin: Origin, name: str, steps: Sequence[Step], progress: Progress | None
) -> tuple[list[Step], Outcome]:
    """Leave out calls, larger parts first, for as long as the property breaks."""
    places = [(at, call) for at, step in enumerate(steps) for call in step.calls]
    trials = Trials(origin, [call for _, call in places])
    kept = list(range(len(places)))

    def leave_out(part: set[int]) -> None:
        nonlocal kept
        fewer = [place for place in kept if place not in part]
        if fewer and len(fewer) < len(kept) and trials.breaks(fewer):
            kept = fewer
            if progress is not None:
                progress(len(kept))

    try:
        if not trials.breaks(kept):
            raise HarnessError(f"the calls alone do not break {origin.property}")
        for node in sorted({call.node for _, call in places}):
            leave_out({place for place in kept if places[place][1].node == node})
        size = len(kept) // 2
        while size:
            before = len(kept)
            for part in [kept[max(0, end - size) : end] for end in range(before, 0, -size)]:
                leave_out(set(part))
            size = size if len(kept) < before else size // 2
    finally:
        trials.close()
    left = [
        Step(step.words, tuple(places[place][1] for place in kept if places[place][0] == at))
        for at, step in enumerate(steps)
    ]
    small = [step for step in left if step.calls]
    # Java iterates over its sets in another order in each process: that must not matter.
    outcomes = run([java_text(origin, name, small)] * PROCESSES, origin.release)
    for outcome in outcomes:
        if outcome.code != BROKEN:
            raise HarnessError(f"not each process breaks {origin.property}:\n{outcome.text}")
    return small, outcomes[0]
