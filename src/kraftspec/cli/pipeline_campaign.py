"""``kraftspec pipeline campaign``: much work over Spark's executors, which can be interrupted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kraftspec.cli.exits import no_verdict, verdicts
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    SECONDS,
    console,
    counted,
    emit_json,
    json_option,
    printable,
)
from kraftspec.cli.profiles import profile_option, without_option

if TYPE_CHECKING:
    from kraftspec.pipeline.campaign.kind import Kind, Unit
    from kraftspec.pipeline.campaign.store import Store
    from kraftspec.pipeline.campaign.summary import Summary

CASES = 100_000
FINDINGS_SHOWN_MAX = 20
TOLD_EVERY_S = 30.0  # Where there is no terminal: a line.
TRIES = 4  # Of a task, as on a cluster; Spark's local mode gives up at once unless it is told.
# What is summed up is a few files: two hundred tasks for it, as Spark has it, are a waste.
_SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def campaign() -> None:
    """Run large jobs on Spark, and resume them.

    The same command again resumes an interrupted campaign; results are Parquet files in --out.
    """


def _common(command: _Command) -> _Command:
    for option in (
        click.option("--new", is_flag=True, help="Delete the results in --out."),
        click.option(
            "--master", default="local[*]", show_default=True, metavar="URL",
            help="Spark's master; --out must be a directory that its executors share.",
        ),
        click.option(
            "--conf", "settings", multiple=True, metavar="KEY=VALUE",
            help="A Spark setting; repeatable.",
        ),
        click.option(
            "--out", "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
            help="The campaign's directory.",
        ),
        json_option,
    ):  # fmt: skip
        command = option(command)
    return command


_ADAPTERS = click.option(
    "--adapter", "names", multiple=True, metavar="NAME", help="An adapter; see conform adapters."
)
_EXECS = click.option(
    "--exec", "commands", multiple=True, metavar="CMD", help="A command in place of an adapter."
)
_TIMEOUT = click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, show_default=True, metavar="SECONDS",
    help="How long to wait for one reply.",
)  # fmt: skip


@campaign.command()
@_ADAPTERS
@_EXECS
@click.option("--filter", "filters", multiple=True, metavar="FILTER", help="As for conform run.")
@_TIMEOUT
@click.option("--unit-cases", type=click.IntRange(1), help="Cases of a unit of work.")
@_common
def conform(
    names: tuple[str, ...],
    commands: tuple[str, ...],
    filters: tuple[str, ...],
    timeout_s: float,
    unit_cases: int | None,
    **where: Any,
) -> None:
    """Run adapters against the golden vectors.

    Exit code 0: all as expected. 1: findings. 3: it could not run. 130: interrupted.
    """
    from kraftspec.pipeline.campaign.conform import Conform

    if not names and not commands:
        raise click.UsageError("give at least one of --adapter NAME and --exec CMD")
    sizes = {} if unit_cases is None else {"unit_cases": unit_cases}
    kind = Conform(names=names, commands=commands, filters=filters, timeout_s=timeout_s, **sizes)
    _run(kind, **where)


@campaign.command()
@click.option("--cases", default=CASES, show_default=True, type=click.IntRange(1), help="Inputs.")
@click.option("--seed", default=0, show_default=True, help="The same seed makes the same inputs.")
@click.option(
    "--target", "targets", multiple=True, metavar="NAME",
    help="messages or records, or a module of yours; repeatable.  [default: both]",
)  # fmt: skip
@click.option(
    "--twins-one-in", "one_in", type=click.IntRange(1), metavar="N",
    help="One input in N also goes through the Python twins.",
)  # fmt: skip
@_ADAPTERS
@_EXECS
@click.option("--filter", "name", default="", metavar="MESSAGE", help="Only these: SET/MESSAGE.")
@click.option("--policies", is_flag=True, help="Also report differences of policy.")
@_TIMEOUT
@click.option(
    "--unit-cases", type=click.IntRange(1), help="Inputs of a unit of work; of adapters, pairs."
)
@click.option("--input", "shown", metavar="HEX", help="Check this one input, and nothing else.")
@_common
def fuzz(
    cases: int,
    seed: int,
    targets: tuple[str, ...],
    one_in: int | None,
    names: tuple[str, ...],
    commands: tuple[str, ...],
    name: str,
    policies: bool,
    timeout_s: float,
    unit_cases: int | None,
    shown: str | None,
    **where: Any,
) -> None:
    """Fuzz our codecs with changed vectors, or two adapters with random requests.

    Without --adapter and --exec every input goes through native code, and some through its Python
    twins. Two of them are compared as by conform fuzz, the trusted one last.

    Exit code 0: nothing found. 1: findings. 3: it could not run. 130: interrupted.
    """
    if shown is not None:
        _check_input(targets, shown, where["as_json"])
        return
    if names or commands:
        from kraftspec.pipeline.campaign.differential import DifferentialFuzz

        if len(names) + len(commands) != 2:  # noqa: PLR2004 - sides
            raise click.UsageError("give two of --adapter NAME and --exec CMD")
        if targets or one_in is not None:
            raise click.UsageError("--target and --twins-one-in are not for adapters")
        pairs = {} if unit_cases is None else {"unit_pairs": unit_cases}
        _run(
            DifferentialFuzz(
                names=names, commands=commands, cases=cases, seed=seed, filter=name,
                policies=policies, timeout_s=timeout_s, **pairs,
            ),
            **where,
        )  # fmt: skip
        return
    from kraftspec.conformance.fuzz.targets import TARGETS, TWINS_ONE_IN
    from kraftspec.pipeline.campaign.codec import CodecFuzz

    if name or policies:
        raise click.UsageError("--filter and --policies are for two adapters")
    sizes = {} if unit_cases is None else {"unit_cases": unit_cases}
    _run(
        CodecFuzz(
            cases=cases, seed=seed, targets=targets or TARGETS, one_in=one_in or TWINS_ONE_IN,
            **sizes,
        ),
        **where,
    )  # fmt: skip


@campaign.command()
@click.option(
    "--seeds", default=1_000, show_default=True, type=click.IntRange(1), help="How many runs."
)
@click.option(
    "--first-seed", default=0, show_default=True, type=click.IntRange(0), help="The first."
)
@click.option(
    "--events",
    default=10_000,
    show_default=True,
    type=click.IntRange(1),
    help="Events of a run before its faults end.",
)
@click.option(
    "--bug", "bugs", multiple=True, metavar="NAME", help="Plant a seeded bug; repeatable."
)
@profile_option()
@without_option()
@click.option(
    "--core",
    metavar="CORE[,CORE…]",
    default="kraftspec",
    show_default=True,
    help="Which implementations the nodes run, as in kraftspec simulate.",
)
@click.option("--unit-seeds", type=click.IntRange(1), help="Runs of a unit of work.")
@_common
def simulate(
    seeds: int,
    first_seed: int,
    events: int,
    bugs: tuple[str, ...],
    profile: str,
    without: tuple[str, ...],
    core: str,
    unit_seeds: int | None,
    **where: Any,
) -> None:
    """Run quorums in the simulator, seed after seed, as kraftspec simulate does.

    Exit code 0: every property held. 1: findings. 3: it could not run. 130: interrupted.
    """
    from kraftspec.pipeline.campaign.simulate import Simulations

    sizes = {} if unit_seeds is None else {"unit_seeds": unit_seeds}
    kind = Simulations(
        seeds=seeds,
        first_seed=first_seed,
        events=events,
        bugs=bugs,
        profile=profile,
        without=without,
        core=core,
        **sizes,
    )
    _run(kind, **where)


@campaign.command("model-check")
@click.option(
    "--seeds", default=1_000, show_default=True, type=click.IntRange(1), help="How many runs."
)
@click.option(
    "--first-seed", default=0, show_default=True, type=click.IntRange(0), help="The first."
)
@click.option(
    "--events", default=1_000, show_default=True, type=click.IntRange(1), help="Events of a run."
)
@click.option(
    "--bug", "bugs", multiple=True, metavar="NAME", help="Plant a seeded bug; repeatable."
)
@profile_option()
@click.option(
    "--core",
    metavar="CORE[,CORE…]",
    default="kraftspec",
    show_default=True,
    help="Which implementations the nodes run, as in kraftspec simulate.",
)
@click.option("--unit-seeds", type=click.IntRange(1), help="Runs of a unit of work.")
@_common
def model_check(
    seeds: int,
    first_seed: int,
    events: int,
    bugs: tuple[str, ...],
    profile: str,
    core: str,
    unit_seeds: int | None,
    **where: Any,
) -> None:
    """Hold runs against the TLA+ model, as kraftspec simulate --model-check does.

    Each executor has a TLC of its own: it needs a Java and Maven. Exit code 0: the model explains
    all runs. 1: findings. 3: it could not run. 130: interrupted.
    """
    from kraftspec.pipeline.campaign.model_check import ModelChecks

    sizes = {} if unit_seeds is None else {"unit_seeds": unit_seeds}
    kind = ModelChecks(
        seeds=seeds,
        first_seed=first_seed,
        events=events,
        bugs=bugs,
        profile=profile,
        core=core,
        **sizes,
    )
    _run(kind, **where)


def _check_input(targets: tuple[str, ...], shown: str, as_json: bool) -> None:
    """Give one input to a target."""
    from kraftspec.conformance.fuzz.subprocess_target import SubprocessTarget

    if len(targets) != 1:
        raise click.UsageError("--input needs the --target that it is for")
    try:
        data = bytes.fromhex(shown)
    except ValueError as error:
        raise click.BadParameter("it is not two hex digits a byte", param_hint="--input") from error
    with _exits(), SubprocessTarget(targets[0]) as process:
        kind, text = process.check(data)
    if as_json:
        emit_json({"target": targets[0], "kind": kind, "detail": text})
    else:
        click.echo(printable(text) if kind else "No error.")
    raise click.exceptions.Exit(EXIT_FINDINGS if kind else 0)


def _exits() -> AbstractContextManager[None]:
    """Give what ends a campaign its line and its exit code."""
    from kraftspec.conformance.adapters.harness import AdapterError

    again = "Interrupted. Run the same command again to continue."
    return verdicts(again, (ValueError, OSError, AdapterError))


def _run(
    kind: Kind,
    *,
    directory: Path | None,
    new: bool,
    master: str,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    from kraftspec.pipeline.campaign.store import alone, open_store
    from kraftspec.pipeline.session import check_master

    if directory is None:
        raise click.UsageError("give --out DIR, where the results go")
    given = dict(_setting(text) for text in settings)
    with _exits():
        check_master(master)
    with _exits(), alone(directory):
        units = kind.plan()
        store = open_store(directory, kind, units, new=new)
        todo = [unit for unit in units if not store.is_done(unit)]
        summary = _on_spark(kind, store, units, todo, master, given)
        _write(summary, directory)
    if as_json:
        import msgspec

        emit_json({**msgspec.to_builtins(summary), "resumed": len(units) - len(todo)})
    else:
        _print(summary, directory, len(units) - len(todo))
    raise click.exceptions.Exit(EXIT_FINDINGS if summary.findings else 0)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return key, value


def _on_spark(
    kind: Kind,
    store: Store,
    units: Sequence[Unit],
    todo: Sequence[Unit],
    master: str,
    settings: dict[str, str],
) -> Summary:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kraftspec.pipeline.campaign.drive import run_units
    from kraftspec.pipeline.campaign.summary import CountError, summarise
    from kraftspec.pipeline.session import session

    if re.fullmatch(r"local(\[[^,\]]+\])?", master):
        master = f"{master.removesuffix(']') if '[' in master else 'local[1'},{TRIES}]"
    try:
        spark = session(
            f"kraftspec {kind.name}",
            master=master,
            settings={**_SETTINGS, **settings},
        )
        try:
            if todo:
                with _meter(len(todo), sum(unit.cases for unit in todo)) as advance:
                    run_units(spark, kind, store, todo, advance)
            return summarise(spark, kind, store, units)
        finally:
            _stop(spark)
    except (PySparkException, Py4JError, ConnectionError) as error:
        names = {store.name(unit): unit.cases for unit in units}
        done = store.count_done(names)[0]
        lines = printable(str(error)).strip().splitlines() or [type(error).__name__]
        click.echo("\n".join(lines[:20]), err=True)
        raise no_verdict(
            f"Spark did not finish: {done:,} of {counted(len(units), 'unit')} are done and kept. "
            "Run the same command again to continue"
        ) from error
    except CountError as error:
        raise no_verdict(str(error)) from error


def _stop(spark: Any) -> None:
    from contextlib import suppress

    with suppress(Exception):  # It may have been killed; what it did is in the files.
        spark.stop()


def _write(summary: Summary, directory: Path) -> None:
    from kraftspec.pipeline.campaign.page import page
    from kraftspec.pipeline.campaign.summary import write

    write(summary, directory)
    (directory / "report.html").write_text(page(summary), encoding="utf-8")


@contextmanager
def _meter(units: int, cases: int) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (units done, cases done) that shows how far it is, how fast, how long."""
    from rich.progress import BarColumn, Progress, TextColumn

    started = told = time.monotonic()
    shown = console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("starting", total=cases)

        def advance(units_done: int, cases_done: int) -> None:
            nonlocal told
            now = time.monotonic()
            text = progress_text(units_done, units, cases_done, cases, now - started)
            bar.update(task, completed=cases_done, description=text)
            if not shown.is_terminal and now - told >= TOLD_EVERY_S:
                told = now
                click.echo(text, err=True)

        yield advance


def progress_text(units_done: int, units: int, cases_done: int, cases: int, seconds: float) -> str:
    """Say how far a campaign is: cases, units, cases a second, time to go."""
    rate = cases_done / seconds if seconds > 0 else 0.0
    text = f"{cases_done:,} of {cases:,} cases, {units_done:,} of {counted(units, 'unit')}"
    if not rate:
        return text
    left = int((cases - cases_done) / rate)
    hours, minutes, seconds_left = left // 3600, left // 60 % 60, left % 60
    return f"{text}, {rate:,.0f} a second, {hours}:{minutes:02}:{seconds_left:02} to go"


def _print(summary: Summary, directory: Path, resumed: int) -> None:
    shown = console()
    for row in summary.by_class:
        who = f"{row['adapter']} {row['set']}".strip()
        shown.print(f"{who}: {row['cases']:,} {row['class']}", soft_wrap=True)
    for finding in summary.findings[:FINDINGS_SHOWN_MAX]:
        shown.print(
            f"finding {finding.signature}, {counted(finding.cases, 'case')}: "
            f"{printable(finding.title)}",
            soft_wrap=True,
        )
        if finding.reproduce:
            shown.print(f"    {printable(finding.reproduce)}", soft_wrap=True)
    hidden = len(summary.findings) - FINDINGS_SHOWN_MAX
    if hidden > 0:
        shown.print(f"and {counted(hidden, 'finding')} more; --json has them all")
    shown.print(
        f"{counted(summary.cases, 'case')}, {summary.done:,} of {counted(summary.units, 'unit')} "
        f"({resumed:,} done before), {counted(len(summary.findings), 'finding')}; "
        f"{directory / 'report.html'}",
        soft_wrap=True,
    )
