"""``kraftspec simulate --lock-step``: our core and another, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import EXIT_FINDINGS, console, counted, emit_json, progress

if TYPE_CHECKING:
    from kraftspec.simulation.harness.cores import Core
    from kraftspec.simulation.lockstep.run import Counts


def lock_step(seeds: range, core: Core, events: int, nodes: int | None, as_json: bool) -> None:
    """Run seeds in lock-step, and print what was compared."""
    from kraftspec.simulation.lockstep.run import Counts, run_seed

    counts = Counts()
    with progress("In lock-step") as advance:
        for number, seed in enumerate(seeds):
            advance(f"seed {seed}, {counted(counts.steps, 'step')}", number, len(seeds))
            run_seed(seed, core, counts, events=events, voters=nodes)
    if as_json:
        emit_json(counts.to_json())
    else:
        _print(counts, core)
    if counts.has_failed:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _print(counts: Counts, core: Core) -> None:
    from kraftspec.simulation.lockstep.rules import RULES

    out = console()
    rate = round(counts.steps / counts.seconds) if counts.seconds else 0
    out.print(
        f"{counted(counts.seeds, 'seed')}, {counted(counts.steps, 'step')} compared with "
        f"{core.name}, {rate:,} a second: {counts.equal:,} equal, {counts.explained:,} explained, "
        f"{counts.unexplained_steps:,} unexplained. {counts.apart:,} more were not compared: "
        "the two were apart."
    )
    for rule in RULES:
        if counts.rules[rule.name]:
            out.print(f"{rule.name} {counts.rules[rule.name]:,}: {rule.reason}")
    if counts.unused:
        out.print(f"Rules that explained nothing here: {', '.join(counts.unused)}")
    for finding, count in sorted(counts.ended.items()):
        out.print(f"Known, {finding}: ended {counted(count, 'run')}")
    for name, count in counts.differing.most_common():
        out.print(f"Unexplained, {name}: {counted(count, 'step')}", style="bold red")
    for shown in counts.unexplained:
        out.print(f"\nSeed {shown.seed}", style="bold red")
        for line in shown.words:
            out.print(line, markup=False)
    for text in counts.broken:
        out.print(text, style="bold red")
