"""``kraftspec conform run``, ``adapters`` and ``doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kraftspec.cli.exits import UNEXPECTED_PASS, no_verdict, verdicts
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    SECONDS,
    alike,
    console,
    counted,
    emit_json,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.conformance.adapters.harness import Adapter
    from kraftspec.conformance.raw.results import Results

SKIPS_SHOWN_MAX = 5
TIMEOUT_S, TIMEOUT_AGAIN_S = 30.0, 10.0
JOBS_MAX = 4  # One process judges what all of them answer.
_FILE = click.Path(dir_okay=False, path_type=Path)


def _complete_adapters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from kraftspec.conformance.adapters.registry import adapters as known

    return [spec.name for spec in known() if spec.name.startswith(incomplete)]


class _FilterHelp(click.Option):
    """An option whose help is where the filters are, and is read only when it is asked for."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from kraftspec.conformance.runner.cases import FILTER_HELP

        self.help = FILTER_HELP
        return super().get_help_record(ctx)


@click.command()
@click.option(
    "--adapter",
    "adapter_name",
    metavar="NAME",
    shell_complete=_complete_adapters,
    help="One of the project's adapters; NAME@VERSION takes another release. See "
    "`conform adapters`.",
)
@click.option("--exec", "command", metavar="CMD", help="The command that starts an adapter.")
@click.option(
    "--node",
    metavar="NAME",
    help="Run the node vectors against a node instead of a codec: reference, or "
    "kafka (needs Java). --filter is then a part of a vector's id.",
)
@click.option("--filter", "filters", multiple=True, metavar="FILTER", cls=_FilterHelp)
@click.option("--shard", metavar="I/N", help="Only part I of N parts.")
@click.option("--seed", type=int, help="Shuffle the tests; the same seed gives the same order.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help=f"Number of adapter processes.  [default: one a processor, at most {JOBS_MAX}]",
)
@click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of known failures.  [default: the adapter's own, if it has one]",
)
@click.option(
    "--vectors",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of the vectors.  [default: those of this package]",
)
@click.option(
    "--release",
    default="",
    help="The release of Kafka that the codec is of: vectors that do not concern it are skipped.",
)
@click.option("--strict", is_flag=True, help="Warnings, such as an expired known failure, fail.")
@click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    help=f"How long to wait for one reply.  [default: {TIMEOUT_S:g}, {TIMEOUT_AGAIN_S:g} after "
    "the first that did not come]",
)
@click.option("--junit", type=_FILE, help="Write JUnit XML to this file as well.")
@click.option("--stats", is_flag=True, help="Print the speed.")
@json_option
@verdicts("Interrupted: no verdict.")
def run(
    adapter_name: str | None,
    command: str | None,
    node: str | None,
    filters: tuple[str, ...],
    shard: str | None,
    seed: int | None,
    jobs: int | None,
    known: Path | None,
    vectors: Path | None,
    release: str,
    strict: bool,
    timeout_s: float | None,
    junit: Path | None,
    stats: bool,
    as_json: bool,
) -> None:
    """Run a codec against the golden vectors, or a node against the node vectors.

    Exit code 0: all as expected. 1: a regression. 2: a known failure passed. 3: the harness failed.
    130: interrupted.
    """
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.runner.cases import Filters, Shard
    from kraftspec.conformance.runner.known import known_failures
    from kraftspec.conformance.runner.run import run as run_vectors

    if [adapter_name, command, node].count(None) != 2:  # noqa: PLR2004 # All but one.
        raise click.UsageError("give one of --adapter NAME, --exec CMD and --node NAME")
    if node is not None:
        _run_node(node, filters, known, strict, as_json)
    if junit is not None:
        _make_room(junit)
    jobs = jobs or min(JOBS_MAX, os.cpu_count() or 1)
    try:
        chosen = Filters(filters)
        part = None if shard is None else Shard.parse(shard)
        excuses = known_failures(adapter_name or "", known)
        adapters = _adapters(adapter_name, command, jobs, timeout_s)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except AdapterError as error:
        raise no_verdict(error) from error
    source = f"--adapter {adapter_name}" if adapter_name else f"--exec {quote(command or '')}"
    if vectors is not None:
        source += f" --vectors {quote(str(vectors))}"
    if release:
        source += f" --release {quote(release)}"
    try:
        with progress("Running") as advance:
            results = run_vectors(
                adapters,
                filters=chosen,
                shard=part,
                known=excuses,
                seed=seed,
                name=(adapter_name or "").partition("@")[0],
                source=source,
                root=vectors,
                release=release,
                progress=advance,
            )
    except AdapterError as error:
        raise no_verdict(error) from error
    if results.tests == 0:
        raise no_verdict("\n".join(_no_vectors(filters, vectors)))
    _print(results, stats, as_json)
    if junit is not None:  # Last: what cannot be written must not cost what was learnt.
        _write_junit(results, junit)
    raise click.exceptions.Exit(_exit_code(results, strict))


def _no_vectors(filters: tuple[str, ...], root: Path | None) -> Iterator[str]:
    """Say that filters match nothing, and of each that names what no vector has, what there is."""
    from kraftspec.conformance.vectors import read_vectors, vectors_root

    yield f"no vectors match {' '.join(filters)!r}: nothing was tested"
    known: dict[str, set[str]] = {"set": set(), "message": set(), "family": set(), "flag": set()}
    for set_name, file in read_vectors(root or vectors_root()):
        known["set"].add(set_name)
        known["message"].add(file.message)
        for test in file.tests:
            known["family"].add(test.family)
            known["flag"].update(test.flags or ())
    for text in filters:
        key, colon, pattern = text.rpartition(":")
        names = known.get(key if colon else "message", set())
        if not names or any(fnmatchcase(name, pattern) for name in names):
            continue
        if key in ("set", "family", "flag"):
            yield f"{text}: {key} is one of {', '.join(sorted(names))}{alike(pattern, names)}"
        elif meant := alike(pattern, names):
            yield f"{text}{meant}"


def _run_node(
    name: str, filters: tuple[str, ...], known: Path | None, strict: bool, as_json: bool
) -> None:
    """Put node vectors to a node; never returns."""
    from kraftspec.cli.conform_node import run_node
    from kraftspec.conformance.runner.known import known_failures

    context = click.get_current_context()
    for option in ("shard", "seed", "jobs", "timeout_s", "vectors", "release", "junit", "stats"):
        if context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            flag = "--" + option.removesuffix("_s")
            raise click.UsageError(f"{flag} is for codecs, not for --node")
    try:
        excuses = known_failures(name, known)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    run_node(name, filters, excuses, strict=strict, as_json=as_json)


def _adapters(
    name: str | None, command: str | None, jobs: int, timeout_s: float | None
) -> list[Adapter]:
    from kraftspec.conformance.adapters.registry import find
    from kraftspec.conformance.runner.run import adapter_exec

    if command is not None:
        pool = [adapter_exec(command) for _ in range(jobs)]
    else:
        spec = find(name or "")
        with progress(f"Building {spec.name}, where it has changed") as advance:
            advance("", 0, 1)
            pool = [spec.adapter() for _ in range(jobs)]
    for adapter in pool:
        adapter.timeout_s = timeout_s or TIMEOUT_S
        adapter.timeout_again_s = None if timeout_s else TIMEOUT_AGAIN_S
    return pool


def _make_room(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"{path.parent}: {error.strerror}", param_hint="--junit"
        ) from error


def _write_junit(results: Results, path: Path) -> None:
    from kraftspec.conformance.report.junit import junit

    try:
        path.write_text(junit(results), encoding="utf-8")
    except OSError as error:
        raise no_verdict(f"--junit {path} was not written: {error.strerror}") from error


def _exit_code(results: Results, strict: bool) -> int:
    """Say it all on standard error that is no test's, and return the exit code."""
    counts = results.counts
    for warning in results.warnings or ():
        click.echo(f"Warning: {printable(warning)}", err=True)
    answered = counts.passed + counts.failed + counts.known_failures + counts.unexpected_passes
    if results.harness_failure:
        return no_verdict(results.harness_failure.detail).exit_code
    if not answered:
        return no_verdict("every case was skipped: nothing was tested").exit_code
    if counts.failed or (strict and results.warnings):
        return EXIT_FINDINGS
    return UNEXPECTED_PASS if counts.unexpected_passes else 0


def _print(results: Results, with_stats: bool, as_json: bool) -> None:
    from msgspec import to_builtins

    from kraftspec.cli.conform_failures import FAILURES_SHOWN_MAX, show_all

    if as_json:
        emit_json(to_builtins(results))
        return
    shown = console()
    new = [failure for failure in results.failures if not failure.known]
    show_all(new, shown)
    for passed in results.unexpected_passes[:FAILURES_SHOWN_MAX]:
        name = f"{passed.spec}/{passed.message} v{passed.version} {passed.direction} {passed.id}"
        shown.print(f"passes, though it is known to fail: {name}: {passed.known}", soft_wrap=True)
    hidden = len(results.unexpected_passes) - FAILURES_SHOWN_MAX
    if hidden > 0:
        shown.print(f"and {hidden:,} more such; --json has them all")
    for skip in results.skips[:SKIPS_SHOWN_MAX]:
        shown.print(f"skipped {skip.count:,}: {printable(skip.reason)}", soft_wrap=True)
    more = results.skips[SKIPS_SHOWN_MAX:]
    if more:
        rest = sum(skip.count for skip in more)
        shown.print(f"skipped {rest:,}: {counted(len(more), 'other reason')}; --json has them all")
    counts = results.counts
    parts = [f"{counts.passed:,} passed", f"{counts.failed:,} failed"]
    if counts.known_failures:
        parts.append(f"{counts.known_failures:,} known to fail")
    if counts.unexpected_passes:
        parts.append(f"{counts.unexpected_passes:,} passed unexpectedly")
    parts.append(f"{counts.skipped:,} skipped")
    if results.restarts:
        parts.append(f"started again {counted(results.restarts, 'time')}")
    if results.selection.seed is not None and isinstance(results.selection.seed, int):
        parts.append(f"seed {results.selection.seed}")
    adapter = results.adapter
    shown.print(
        f"{printable(f'{adapter.name} {adapter.version}')}: "
        f"{counted(len(results.messages), 'message')}, {counted(results.pairs, 'pair')}, "
        f"{counted(results.tests, 'vector')}: {', '.join(parts)}, {results.seconds:.1f} s",
        soft_wrap=True,
    )
    stats = results.stats
    if with_stats and stats:
        computed_s = stats.runner_cpu_seconds + stats.adapter_cpu_seconds
        shown.print(
            f"{stats.answered:,} cases in {stats.seconds:.2f} s by {counted(stats.jobs, 'adapter')}"
            f": {stats.answered / max(stats.seconds, 1e-9):,.0f} a second; the processors took "
            f"{stats.runner_cpu_seconds:.2f} s for the runner and "
            f"{stats.adapter_cpu_seconds:.2f} s for the adapter, together "
            f"{stats.answered / max(computed_s, 1e-9):,.0f} a second of one core",
            soft_wrap=True,
        )


def _adapter_rows() -> list[dict[str, Any]]:
    from kraftspec.conformance.adapters.registry import adapters as known

    rows = []
    for spec in known():
        missing = spec.missing()
        rows.append(
            {
                "name": spec.name,
                "language": spec.language,
                "implements": spec.implements,
                "version": spec.version,
                "installed": not missing,
                "missing": missing,
            }
        )
    return rows


@click.command()
@json_option
def adapters(as_json: bool) -> None:
    """List the project's adapters, and whether this machine has what they need."""
    rows = _adapter_rows()
    if as_json:
        emit_json(rows)
        return
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, safe_box=True, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for title in ("name", "language", "implements", "version", "installed"):
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = [row[name] for name in ("name", "language", "implements", "version")]
        table.add_row(*cells, "yes" if row["installed"] else "no; see conform doctor")
    console().print(table)


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """List what the adapters need and this machine lacks, and how to install it.

    Exit code 1: something is missing.
    """
    lacking = [row for row in _adapter_rows() if row["missing"]]
    if as_json:
        emit_json(lacking)
    elif not lacking:
        click.echo("Nothing is missing.")
    for row in [] if as_json else lacking:
        click.echo(f"{row['name']} ({row['language']}, {row['implements']}):")
        for missing in row["missing"]:
            click.echo(f"    {missing}")
    raise click.exceptions.Exit(EXIT_FINDINGS if lacking else 0)
