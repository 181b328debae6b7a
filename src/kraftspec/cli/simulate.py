"""``kraftspec simulate``: a quorum in one process, owned by a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import EXIT_FINDINGS, console, counted, emit_json, json_option, progress
from kraftspec.cli.profiles import profile_option, without_option

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.simulation.minimise import Minimal
    from kraftspec.simulation.run import Result

EVENTS = 10_000
VOTERS_MAX = 7


class _Seeds(click.ParamType):  # type: ignore[type-arg] # Generic for checkers alone.
    """``A..B``, both included."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        """Read the option."""
        if isinstance(value, range):
            return value
        first, dots, last = str(value).partition("..")
        if not dots or not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            self.fail(
                f"{value!r} is not A..B, two numbers of which B is not the smaller", param, ctx
            )
        return range(int(first), int(last) + 1)


@click.command()
@click.option("--seed", type=click.IntRange(0), help="Run this seed.")
@click.option("--seeds", type=_Seeds(), metavar="A..B", help="Run these seeds, both included.")
@profile_option()
@without_option()
@click.option(
    "--nodes",
    type=click.IntRange(1, VOTERS_MAX),
    metavar="N",
    help="Voters at the start.  [default: as the seed says]",
)
@click.option(
    "--events",
    default=EVENTS,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Events with faults; then the faults end and liveness is checked.",
)
@click.option(
    "--bug", "bugs", multiple=True, metavar="NAME", help="Plant a seeded bug; repeatable."
)
@click.option("--minimise", is_flag=True, help="Minimise the trace of a failure.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    help="Draw the failure's trace.  [default with --minimise: simulation-SEED.svg]",
)
@json_option
def simulate(
    seed: int | None,
    seeds: range | None,
    profile: str,
    without: tuple[str, ...],
    nodes: int | None,
    events: int,
    bugs: tuple[str, ...],
    minimise: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Run quorums of the reference node over a virtual network, disks and clocks.

    The same seed is the same run, event by event. Exit code 1: a property does not hold. The seed
    is printed; --minimise explains the failure as text and as an SVG.
    """
    from kraftspec.reference.profiles import profile_named
    from kraftspec.simulation.catalogue import all_bugs, planted

    if (seed is None) == (seeds is None):
        raise click.UsageError("give one of --seed N and --seeds A..B")
    unknown = [name for name in bugs if name not in all_bugs()]
    if unknown:
        raise click.BadParameter(
            f"there is no bug {unknown[0]!r}; docs/simulation.md lists them", param_hint="--bug"
        )
    chosen = range(seed, seed + 1) if seed is not None else seeds
    assert chosen is not None
    protocol = profile_named(profile, without=without)
    with planted(*bugs):
        results = _run(chosen, protocol, events, nodes)
        failed = [result for result in results if result.violation is not None]
        minimal = None
        if failed and (minimise or svg is not None):
            minimal = _minimise(failed[0], protocol, events, nodes)
        trace = _tell(minimal, protocol, svg) if minimal is not None else []
    if as_json:
        values = [result.to_json() for result in results]
        if trace:
            next(v for v in values if v["violation"])["trace"] = trace
        emit_json(values[0] if seed is not None else values)
    else:
        _print(results, trace)
    if failed:
        if (minimise or svg is not None) and minimal is None:
            click.echo(
                "A liveness failure is something that does not happen: no trace is smaller.",
                err=True,
            )
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _run(seeds: range, profile: Profile, events: int, nodes: int | None) -> list[Result]:
    """Run seeds, up to the first that fails."""
    from kraftspec.simulation.run import simulate as run

    results = []
    with progress("Simulating") as advance:
        for number, seed in enumerate(seeds):
            advance(f"seed {seed}", number, len(seeds))
            results.append(run(seed, profile, events=events, voters=nodes))
            if results[-1].violation is not None:
                break
    return results


def _minimise(failed: Result, profile: Profile, events: int, nodes: int | None) -> Minimal | None:
    from kraftspec.simulation.minimise import minimise

    with progress("Minimising") as advance:
        return minimise(
            failed.seed, profile, events=events, voters=nodes,
            progress=lambda left: advance(counted(left, "event"), 0, 1),
        )  # fmt: skip


def _tell(minimal: Minimal, profile: Profile, svg: Path | None) -> list[str]:
    """Return a minimised trace in words, and draw it."""
    from kraftspec.simulation.diagram import draw
    from kraftspec.simulation.trace_text import event_text, trace_events

    events, _ = trace_events(minimal.seed, minimal.swarm, profile, minimal.decisions)
    name, text = minimal.violation
    path = svg or Path(f"simulation-{minimal.seed}.svg")
    title = f"Seed {minimal.seed}: {counted(len(events), 'event')} of {minimal.recorded:,}"
    path.write_text(draw(events, title, f"{name}: {text}"), encoding="utf-8")
    click.echo(f"The diagram: {path}", err=True)
    return [event_text(event) for event in events]


def _print(results: list[Result], trace: list[str]) -> None:
    events = sum(result.events for result in results)
    seconds = sum(result.seconds for result in results)
    faults: dict[str, int] = {}
    for result in results:
        for name, count in result.faults.items():
            faults[name] = faults.get(name, 0) + count
    out = console()
    rate = round(events / seconds) if seconds else 0
    out.print(
        f"{counted(len(results), 'seed')}, {counted(events, 'event')}, {rate:,} a second of CPU; "
        f"{counted(sum(r.acknowledged for r in results), 'append')} acknowledged, "
        f"{counted(sum(r.epochs for r in results), 'epoch')} with a leader."
    )
    if faults:
        out.print("Met: " + ", ".join(f"{name} {faults[name]:,}" for name in sorted(faults)))
    if len(results) == 1:
        out.print(f"Trace: {results[0].trace_hash}")
    for result in results:
        if result.violation is not None:
            name, text = result.violation
            out.print(f"\nSeed {result.seed} breaks {name}: {text}", style="bold red")
            for line in trace:
                out.print(line)
