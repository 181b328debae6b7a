"""``kraftspec simulate --model-check``: runs, held against the TLA+ model by TLC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kraftspec.cli.exits import no_verdict
from kraftspec.cli.output import EXIT_FINDINGS, console, counted, emit_json, progress

if TYPE_CHECKING:
    from kraftspec.model.traces import Verdict
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.simulation.harness.cores import Core
    from kraftspec.simulation.harness.known import KnownBreach
    from kraftspec.simulation.model_trace import Recorded

RUNS_PER_TLC = 30  # TLC reads all of them before it begins.


class _Told(NamedTuple):
    """A run with a step that nothing explains: in words, and which known fault it is."""

    seed: int
    verdict: Verdict
    lines: Sequence[str]
    known: KnownBreach | None


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
    from kraftspec.simulation.model_trace import (
        check_modelled,
        known_fault,
        record,
        unexplained,
    )

    try:
        check_modelled(cores)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
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
    told = []
    for one, verdict in stuck:
        lines = unexplained(one, verdict, profile)
        told.append(_Told(one.seed, verdict, lines, known_fault(one, verdict, profile, lines)))
    if as_json:
        emit_json(_to_json(seeds, steps, told))
    else:
        out = console()
        out.print(
            f"The model explains {len(seeds) - len(stuck):,} of {counted(len(seeds), 'run')} "
            f"({counted(steps, 'step')})."
        )
        for each in told:
            step = f"\nSeed {each.seed}: nothing explains step {each.verdict.stuck_at}"
            if each.known is None:
                out.print(step, style="bold red")
            else:
                out.print(f"{step}. Known, {each.known.finding}: {each.known.reason}")
            for line in each.lines:
                out.print(line, markup=False)
    if any(each.known is None for each in told):
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _to_json(seeds: range, steps: int, told: Sequence[_Told]) -> dict[str, Any]:
    return {
        "seeds": len(seeds),
        "steps": steps,
        "explained": len(seeds) - len(told),
        "unexplained": [
            {
                "seed": each.seed,
                "step": each.verdict.stuck_at,
                "known": each.known.finding if each.known else None,
                "trace": [*each.lines],
            }
            for each in told
        ],
    }
