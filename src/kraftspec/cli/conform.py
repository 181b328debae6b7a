"""``kraftspec conform`` and ``kraftspec adapter``: golden vectors, made and held against codecs."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from kraftspec.cli.conform_report import badge, compare, export, report
from kraftspec.cli.conform_strength import strength
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    check_set,
    counted,
    emit_json,
    json_option,
    progress,
    refusals,
    sets_option,
)

if TYPE_CHECKING:
    from kraftspec.conformance.raw.results import Results

FAILURES_SHOWN_MAX = 20  # A codec that is wrong once is often wrong ten thousand times.
HARNESS_FAILED = 3  # Among the exit codes of a run: 0 as expected, 1 regression.


def _harness_failed(why: object) -> click.exceptions.Exit:
    click.echo(f"Error: {why}", err=True)
    return click.exceptions.Exit(HARNESS_FAILED)


@click.command()
@click.option(
    "--codec",
    type=click.Choice(["native", "python"]),
    help="Which of our codecs answers.  [default: native where it is built, else python]",
)
def adapter(codec: str | None) -> None:
    """Answer harness requests with our own codec.

    Reads JSON objects from standard input, one a line, and writes one reply line for each.
    """
    from kraftspec.fastpath import native

    if codec == "python":
        native.PURE = True  # Before any module asks for its compiled half.
    elif codec == "native" and native.load("_engine") is None:
        raise click.BadParameter(f"only {native.describe()}", param_hint="--codec")
    from kraftspec.conformance.adapter import serve

    name = "kraftspec-python" if codec == "python" else "kraftspec"
    runs = "pure Python (--codec python)" if codec == "python" else native.describe()
    raise click.exceptions.Exit(serve(name, f"codec: {runs}"))


@click.group()
def conform() -> None:
    """Make golden vectors, and judge codecs by them."""


@conform.command()
@sets_option
@click.option(
    "--filter", "name", default="", metavar="MESSAGE", help="Only messages with this in their name."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the vectors go.  [default: those of this package]",
)
@json_option
def make(set_names: tuple[str, ...], name: str, out: Path | None, as_json: bool) -> None:
    """Make the golden vectors with Kafka's own classes.

    Needs a JDK and Maven. Making them again changes no file.
    """
    from kraftspec.conformance.harness import AdapterError
    from kraftspec.conformance.java import JavaError, java_missing
    from kraftspec.conformance.java import RefusedError as KafkaRefused
    from kraftspec.conformance.make import make as make_vectors
    from kraftspec.conformance.vectors import vectors_root
    from kraftspec.specs import specs_root

    for set_name in set_names:
        check_set(set_name)
    try:
        with refusals(), progress("Making vectors") as advance:
            report = make_vectors(specs_root(), out or vectors_root(), set_names, name, advance)
    except (JavaError, AdapterError, KafkaRefused) as error:
        raise _harness_failed(java_missing() or error) from error
    if report.messages == 0:
        raise click.BadParameter(f"no message is called {name!r} or so", param_hint="--filter")
    if as_json:
        emit_json(report.to_json())
        return
    for changed in report.changed:
        click.echo(f"wrote {changed}")
    for refused in report.refused:
        click.echo(f"Kafka refused {refused}", err=True)
    click.echo(
        f"{counted(report.messages, 'message')}, {counted(report.pairs, 'pair')}, "
        f"{counted(report.tests, 'test')}: {counted(len(report.changed), 'file')} changed, "
        f"{report.seconds:.1f} s"
    )


@conform.command()
@click.option(
    "--adapter",
    "adapter_name",
    type=click.Choice(["kraftspec", "kraftspec-python", "kafka"]),
    help="One of the project's adapters; kafka is Apache Kafka's own classes and needs Java.",
)
@click.option("--exec", "command", metavar="CMD", help="The command that starts an adapter.")
@click.option(
    "--filter", "name", default="", metavar="MESSAGE", help="Only vectors of these: SET/MESSAGE."
)
@json_option
def run(adapter_name: str | None, command: str | None, name: str, as_json: bool) -> None:
    """Hold a codec against the golden vectors.

    Exit code 0: all as expected. 1: a regression. 3: the harness failed.
    """
    from msgspec import to_builtins

    from kraftspec.conformance.harness import AdapterError
    from kraftspec.conformance.java import JavaError, java_missing
    from kraftspec.conformance.java import RefusedError as KafkaRefused
    from kraftspec.conformance.run import adapter_exec, adapter_named
    from kraftspec.conformance.run import run as run_vectors

    if (adapter_name is None) == (command is None):
        raise click.UsageError("give one of --adapter NAME and --exec CMD")
    try:
        own = None if command is None else adapter_exec(command)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--exec") from error
    try:
        judged = own or adapter_named(adapter_name or "")
        with progress("Verifying") as advance:
            results = run_vectors(judged, name=name, progress=advance)
    except (JavaError, AdapterError, KafkaRefused) as error:
        missing = java_missing() if adapter_name == "kafka" else None
        raise _harness_failed(missing or error) from error
    if results.tests == 0:
        raise _harness_failed(f"no vectors match {name!r}, so nothing was proven")
    if as_json:
        emit_json(to_builtins(results))
    else:
        source = f"--adapter {adapter_name}" if adapter_name else f"--exec {quote(command or '')}"
        _print_results(results, source)
    raise click.exceptions.Exit(EXIT_FINDINGS if results.failures else 0)


def _print_results(results: Results, source: str) -> None:
    from kraftspec.conformance.run import describe

    for failure in results.failures[:FAILURES_SHOWN_MAX]:
        click.echo(describe(failure))
        click.echo(f"    kraftspec conform run {source} --filter {failure.spec}/{failure.message}")
    hidden = len(results.failures) - FAILURES_SHOWN_MAX
    if hidden > 0:
        click.echo(f"and {hidden} more; --json has them all")
    counts = results.counts
    click.echo(
        f"{results.adapter.name}: {counted(len(results.messages), 'message')}, "
        f"{counted(results.pairs, 'pair')}, {counted(results.tests, 'vector')}: "
        f"{counts.passed:,} passed, {counts.failed:,} failed, {counts.skipped:,} skipped, "
        f"{results.seconds:.1f} s"
    )


for command in (badge, compare, export, report, strength):
    conform.add_command(command)
