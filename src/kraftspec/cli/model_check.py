"""``kraftspec simulate --model-check``: runs, held against the TLA+ model by TLC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import no_verdict
from kraftspec.cli.output import EXIT_FINDINGS, console, counted, emit_json, progress

if TYPE_CHECKING:
    from kraftspec.model.traces import Verdict
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.simulation.harness.cores import Core
    from kraftspec.simulation.model_trace import Recorded

RUNS_PER_TLC = 30  # TLC reads all of them before it begins.


def model_check(
    seeds: range,
    profile: Profile,
    events: int,
    nodes: int | None,
    cores: Sequence[Core],
    as_json: bool,
) -> None:
    """Run seeds, let TLC explain them by behaviours of the model, and print what it cannot."""
    from kraftspec.model import TlcError
    from kraftspec.model.traces import check
    from kraftspec.simulation.model_trace import record, unexplained

    steps = 0
    stuck: list[tuple[Recorded, Verdict]] = []
    with progress("Against the model") as advance:
        for first in range(0, len(seeds), RUNS_PER_TLC):
            some = seeds[first : first + RUNS_PER_TLC]
            advance(f"seed {some[0]}", first, len(seeds))
            recorded = [
                record(seed, profile, events=events, voters=nodes, cores=cores) for seed in some
            ]
            steps += sum(len(one.trace.steps) for one in recorded)
            try:
                verdicts = check([one.trace for one in recorded])
            except TlcError as error:
                raise no_verdict(error) from error
            pairs = zip(recorded, verdicts, strict=True)
            stuck += [pair for pair in pairs if pair[1].stuck_at is not None]
    told = [(one.seed, verdict, unexplained(one, verdict, profile)) for one, verdict in stuck]
    if as_json:
        emit_json(_to_json(seeds, steps, told))
    else:
        out = console()
        out.print(
            f"The model explains {len(seeds) - len(stuck):,} of {counted(len(seeds), 'run')} "
            f"({counted(steps, 'step')})."
        )
        for seed, verdict, lines in told:
            assert verdict.stuck_at is not None
            out.print(f"\nSeed {seed}: nothing explains step {verdict.stuck_at}", style="bold red")
            for line in lines:
                out.print(line, markup=False)
    if stuck:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _to_json(
    seeds: range, steps: int, told: Sequence[tuple[int, Verdict, Sequence[str]]]
) -> dict[str, Any]:
    return {
        "seeds": len(seeds),
        "steps": steps,
        "explained": len(seeds) - len(told),
        "unexplained": [
            {"seed": seed, "step": verdict.stuck_at, "trace": [*lines]}
            for seed, verdict, lines in told
        ],
    }
