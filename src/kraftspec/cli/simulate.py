"""``kraftspec simulate``: a quorum in one process, owned by a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kraftspec.cli.exits import no_verdict
from kraftspec.cli.lock_step import lock_step
from kraftspec.cli.model_check import model_check
from kraftspec.cli.output import EXIT_FINDINGS, console, counted, emit_json, json_option, progress
from kraftspec.cli.profiles import profile_option, without_option

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.simulation.harness.cores import Core
    from kraftspec.simulation.minimise import Minimal
    from kraftspec.simulation.run import Result

EVENTS = 10_000
VOTERS_MAX = 7
SEEDS_SHOWN_MAX = 10
_ALONE = (
    "--lock-step CORE and --model-check exclude each other and most other options. Each takes "
    "--seed or --seeds, --nodes, --events, --bug and --json; --model-check also takes --core, "
    "--profile and --without"
)


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


class _Cores(click.ParamType):  # type: ignore[type-arg] # Generic for checkers alone.
    """Implementations, with commas between them."""

    name = "cores"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the option."""
        from kraftspec.simulation.harness.cores import parse_cores

        if not isinstance(value, str):
            return value
        try:
            return parse_cores(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--seed", type=click.IntRange(0), help="Run this seed.")
@click.option("--seeds", type=_Seeds(), metavar="A..B", help="Run these seeds, both included.")
@profile_option()
@without_option()
@click.option(
    "--core",
    "cores",
    type=_Cores(),
    metavar="CORE[,CORE…]",
    help="Which implementations the nodes run: kraftspec, kafka:4.3.1, the path of a harness; in "
    "turns, or by shares (kafka:4.3.1=60%,kraftspec=40%).  [default: kraftspec]",
)
@click.option(
    "--lock-step",
    "lock_step_with",
    type=_Cores(),
    metavar="CORE",
    help="Let each node be two, ours and this one (kafka:4.3.1), and compare every step.",
)
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
@click.option(
    "--ignore", "ignored", multiple=True, metavar="INVARIANT",
    help="Do not check this invariant, to see what follows where it breaks; repeatable.",
)  # fmt: skip
@click.option("--minimise", is_flag=True, help="Minimise the trace of a failure.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    help="Draw the failure's trace.  [default with --minimise: simulation-SEED.svg]",
)
@click.option(
    "--java",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --core kafka: write the minimised failure as a Java file over Kafka's own classes, "
    "and its pom.",
)
@click.option(
    "--model-check", "is_model_check", is_flag=True,
    help="Let TLC say whether a behaviour of the TLA+ model explains each run. It needs Java.",
)  # fmt: skip
@click.option(
    "--readable", is_flag=True, envvar="KRAFTSPEC_READABLE",
    help="Run the readable sources, where compiled ones were built, too.",
)  # fmt: skip
@json_option
def simulate(
    seed: int | None,
    seeds: range | None,
    profile: str,
    without: tuple[str, ...],
    cores: tuple[Core, ...] | None,
    lock_step_with: tuple[Core, ...] | None,
    nodes: int | None,
    events: int,
    bugs: tuple[str, ...],
    ignored: tuple[str, ...],
    minimise: bool,
    svg: Path | None,
    java: Path | None,
    is_model_check: bool,
    readable: bool,
    as_json: bool,
) -> None:
    """Run quorums of the reference node over a virtual network, disks and clocks.

    The same seed is the same run, event by event. Exit code 1: a property does not hold. The seed
    is printed; --minimise explains the failure as text and as an SVG. Where all that was met is
    known, it explains the first of that. With --model-check exit code 1 says that the model does
    not explain a run.
    """
    alone = (without, cores, lock_step_with, bugs, ignored, minimise, svg, java, is_model_check)
    is_compiled = _use_compiled(profile, readable or any(alone))
    if (seed is None) == (seeds is None):
        raise click.UsageError("give one of --seed N and --seeds A..B")
    _check_bugs(bugs, cores)
    chosen = range(seed, seed + 1) if seed is not None else seeds
    assert chosen is not None
    if lock_step_with is not None or is_model_check:
        if any((ignored, minimise, svg, java)) or ((cores or without) and not is_model_check):
            raise click.UsageError(_ALONE)
        spoken = _profile_for(cores or lock_step_with or (), profile, without)
        run = _Run(spoken, events, nodes, cores or (), (), bugs)
        with _conditions(bugs):
            _compare(chosen, lock_step_with, is_model_check, run, as_json)
        return
    if java is not None and not any(core.name.startswith("kafka") for core in cores or ()):
        raise click.UsageError("--java is for nodes of Kafka: --core kafka:4.4.0")
    spoken = _profile_for(cores or (), profile, without)
    run = _Run(spoken, events, nodes, cores or (), ignored, bugs)
    _check_ignored(run)
    with _conditions(bugs, ignored):
        results = _run(chosen, run)
        failed = [result for result in results if result.is_failure]
        broken = failed or [result for result in results if result.violation is not None]
        is_explained = minimise or svg is not None or java is not None
        minimal = _minimise(broken[0], run) if broken and is_explained else None
        trace = _tell(minimal, run, svg) if minimal is not None else []
        if minimal is not None and java is not None:
            _write_java(minimal, run, java)
    if as_json:
        values = [result.to_json() | {"compiled": is_compiled} for result in results]
        if trace:
            values[results.index(broken[0])]["trace"] = trace
        emit_json(values[0] if seed is not None else values)
    else:
        _print(results, broken[0] if trace else None, trace)
    if broken and is_explained and minimal is None:
        click.echo(
            "There is no smaller trace: with the messages lost that were under way when the faults "
            "ended, the property comes true.",
            err=True,
        )
    if failed:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _check_bugs(bugs: Sequence[str], cores: Sequence[Core] | None) -> None:
    """Refuse a bug that there is not, and bugs where no node has our core."""
    from kraftspec.simulation.catalogue import all_bugs

    unknown = [name for name in bugs if name not in all_bugs()]
    if unknown:
        raise click.BadParameter(
            f"there is no bug {unknown[0]!r}; docs/simulation.md lists them", param_hint="--bug"
        )
    if bugs and cores and not any(core.is_own for core in cores):
        raise click.UsageError(
            "--bug plants bugs in our nodes, and no node is ours: add kraftspec to --core"
        )


def _use_compiled(profile: str, needs_readable: bool) -> bool:
    """Use the compiled simulator, if it was built and may be used; return whether it is."""
    from kraftspec.simulation.compiled.loading import use

    return not needs_readable and use(profile)


def _compare(
    seeds: range,
    lock_step_with: tuple[Core, ...] | None,
    is_model_check: bool,
    run: _Run,
    as_json: bool,
) -> None:
    """Run seeds in lock-step with another core, or hold them against the model."""
    if lock_step_with is None:
        model_check(seeds, run.profile, run.events, run.nodes, run.cores, as_json)
    elif is_model_check or len(lock_step_with) > 1:
        raise click.UsageError(_ALONE)
    else:
        lock_step(seeds, lock_step_with[0], run.events, run.nodes, as_json)


def _profile_for(cores: Sequence[Core], name: str, without: tuple[str, ...]) -> Profile:
    """Return the profile, which the cores must be able to speak."""
    from kraftspec.reference.profiles import profile_named
    from kraftspec.simulation.protocols import check_cores

    profile = profile_named(name, without=without)
    try:
        check_cores(profile, cores)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return profile


class _Run(NamedTuple):
    """What every seed is run with."""

    profile: Profile
    events: int
    nodes: int | None
    cores: tuple[Core, ...]
    ignored: tuple[str, ...]
    bugs: tuple[str, ...]


def _check_ignored(run: _Run) -> None:
    """Refuse to ignore what is no invariant, or what the others need."""
    from kraftspec.simulation.invariants import NOTES_COMMITS
    from kraftspec.simulation.protocols import protocol_of

    possible = sorted({*protocol_of(run.profile).invariants} - {NOTES_COMMITS})
    for name in run.ignored:
        if name not in possible:
            raise click.BadParameter(
                f"{name!r} cannot be ignored; these can: {', '.join(possible)}",
                param_hint="--ignore",
            )


@contextmanager
def _conditions(bugs: Sequence[str], ignored: Sequence[str] = ()) -> Iterator[None]:
    """Plant bugs, and ignore invariants. A harness that fails says nothing about its nodes."""
    from kraftspec.simulation.catalogue import planted
    from kraftspec.simulation.harness.protocol import HarnessError
    from kraftspec.simulation.invariants import ignoring

    try:
        with planted(*bugs), ignoring(*ignored):
            yield
    except HarnessError as error:
        raise no_verdict(error) from error


def _run(seeds: range, run: _Run) -> list[Result]:
    """Run seeds, up to the first that fails; the first twice, where a program is a core."""
    from kraftspec.simulation.run import require_repeat
    from kraftspec.simulation.run import simulate as run_seed

    def one_run(seed: int) -> Result:
        return run_seed(seed, run.profile, events=run.events, voters=run.nodes, cores=run.cores)

    results: list[Result] = []
    with progress("Simulating") as advance:
        for number, seed in enumerate(seeds):
            advance(f"seed {seed}", number, len(seeds))
            results.append(one_run(seed))
            if number == 0 and any(core.is_program for core in run.cores):
                require_repeat(results[0], one_run(seed))
            if results[-1].is_failure:
                break
    return results


def _minimise(failed: Result, run: _Run) -> Minimal | None:
    from kraftspec.simulation.minimise import minimise

    with progress("Minimising") as advance:
        return minimise(
            failed.seed, run.profile, events=run.events, voters=run.nodes, cores=run.cores,
            progress=lambda left: advance(counted(left, "event"), 0, 1),
        )  # fmt: skip


def _tell(minimal: Minimal, run: _Run, svg: Path | None) -> list[str]:
    """Return a minimised trace in words, and draw it."""
    from kraftspec.simulation.diagram import draw
    from kraftspec.simulation.harness.cores import RunCores
    from kraftspec.simulation.trace_text import event_text, trace_events

    cores = RunCores(run.cores, minimal.seed) if run.cores else ()
    events, _ = trace_events(minimal.seed, minimal.swarm, run.profile, minimal.decisions, cores)
    name, text = minimal.violation
    path = svg or Path(f"simulation-{minimal.seed}.svg")
    title = f"Seed {minimal.seed}: {counted(len(events), 'event')} of {minimal.recorded:,}"
    path.write_text(draw(events, title, f"{name}: {text}"), encoding="utf-8")
    click.echo(f"The diagram: {path}", err=True)
    lines = [event_text(event) for event in events]
    if len(run.cores) > 1:
        assert isinstance(cores, RunCores)
        nodes = sorted({event.node for event in events})
        lines.insert(0, ", ".join(f"node {node}: {cores.core_of(node).name}" for node in nodes))
    after = "After this nothing fails." if minimal.is_liveness else "This breaks it:"
    return [*lines, f"      {after} {text}"]


def _write_java(minimal: Minimal, run: _Run, folder: Path) -> None:
    """Write a minimised run of Kafka's nodes as a Java file."""
    from kraftspec.simulation.java_example.smallest import STEPS_MAX, write_example

    cores = ",".join(map(str, run.cores))
    options = [f"--nodes {run.nodes}"] if run.nodes else []
    options += [f"--without {name}" for name in sorted(run.profile.without)]
    options += [f"--bug {name}" for name in run.bugs]
    options += [f"--ignore {name}" for name in run.ignored]
    command = " ".join([
        f"kraftspec simulate --core {cores} --seed {minimal.seed} --events {run.events}",
        *options, "--java DIR",
    ])  # fmt: skip
    with progress("Leaving calls out") as advance:
        path, steps = write_example(
            minimal, run.profile, run.cores, folder, command=command,
            progress=lambda left: advance(counted(left, "call"), 0, 1),
        )  # fmt: skip
    click.echo(f"The Java file: {path}", err=True)
    if steps > STEPS_MAX:
        click.echo(
            f"It has {steps} steps. A person follows {STEPS_MAX}: try another seed with it, "
            "or fewer --events.",
            err=True,
        )


def _print(results: list[Result], explained: Result | None, trace: list[str]) -> None:
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
    met = [f"{name} {count:,}" for name, count in sorted(faults.items()) if count]
    if met:
        out.print(f"Met: {', '.join(met)}")
    unseen = sorted({name for result in results for name in result.unseen})
    if unseen:
        out.print(
            f"Not judged, for a node does not show it, or has its own rule: {', '.join(unseen)}"
        )
    if len(results) == 1:
        out.print(f"Trace: {results[0].trace_hash}")
    known: dict[tuple[str, str], list[int]] = {}  # Finding, reason → seeds.
    for result in results:
        for one in (result.known, *(known for _, known in result.others)):
            if one is not None:
                known.setdefault((one.finding, one.reason), []).append(result.seed)
    for (finding, reason), of_it in known.items():
        seeds = ", ".join(map(str, of_it[:SEEDS_SHOWN_MAX]))
        out.print(
            f"Known, {finding}: {reason}; {counted(len(of_it), 'seed')}, {seeds}"
            f"{'' if len(of_it) <= SEEDS_SHOWN_MAX else ', …'}"
        )
    if explained is not None and not explained.is_failure:
        assert explained.violation is not None
        name, text = explained.violation
        out.print(f"\nSeed {explained.seed} breaks {name}: {text}")
        for line in trace:
            out.print(line)
    for result in results:
        if result.violation is not None and result.is_failure:
            name, text = result.violation
            whose = f" (seen at {', '.join(result.cores)})" if result.cores else ""
            out.print(f"\nSeed {result.seed} breaks {name}{whose}: {text}", style="bold red")
            for line in trace:
                out.print(line)
