"""``kraftspec conform clients``: exchanges between a client and brokers that misbehave."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from kraftspec.cli.exits import NO_VERDICT, no_verdict, verdicts
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    alike,
    console,
    counted,
    emit_json,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.conformance.clients.exchange_files import Exchange
    from kraftspec.conformance.clients.run import Result
    from kraftspec.conformance.runner.known import KnownFailures

LINES_AT_ENDS = 150  # Of the diagram of a failure.


@click.command()
@click.option(
    "--client", metavar="NAME|exec:CMD", help="The client: one of --list, or a driver of your own."
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="TEXT",
    help="Only exchanges with this in their name; repeatable: with any of these.",
)
@click.option(
    "--exchanges",
    "paths",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of exchanges, in the place of the project's own; repeatable.",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="Where an exchange allows it, Kafka itself is behind the rules; it needs a JDK and Maven.",
)
@click.option(
    "--timeout-s",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    help="The client's own time-out.",
)
@click.option(
    "--patience-s",
    type=click.FloatRange(0.1),
    default=30.0,
    show_default=True,
    help="How much later than that it hangs.",
)
@click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML: what the client is known to fail, as EXCHANGE/VERDICT, in the place of its own.",
)
@click.option(
    "--junit",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write JUnit XML to this file as well.",
)
@click.option("--list", "must_list", is_flag=True, help="List clients and exchanges, and end.")
@click.option("--check", is_flag=True, help="Check the exchanges and end.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of exchange files and end.")
@click.option(
    "--protocol-schema", is_flag=True, help="Print the JSON Schema of the driver protocol and end."
)
@json_option
def clients(
    client: str | None,
    filters: tuple[str, ...],
    paths: tuple[Path, ...],
    kafka: bool,
    timeout_s: float,
    patience_s: float,
    known: Path | None,
    junit: TextIO | None,
    must_list: bool,
    check: bool,
    schema: bool,
    protocol_schema: bool,
    as_json: bool,
) -> None:
    """Drive a client against brokers that misbehave, and judge what it does.

    Exit codes: 0 all is as it must be, or fails as it is known to, 1 an exchange failed, 2 wrong
    usage, 3 no verdict.
    """
    from kraftspec.conformance.clients import driver as protocol
    from kraftspec.conformance.clients import exchange_files
    from kraftspec.yaml_files import YamlFileError

    if schema or protocol_schema:
        text = exchange_files.schema_text() if schema else protocol.schema_text()
        click.echo(text, nl=False)
        return
    try:
        exchanges = exchange_files.read_exchanges(list(paths) or exchange_files.own_files())
    except (YamlFileError, OSError) as error:
        raise no_verdict(error) from error
    chosen = _chosen(exchanges, filters)
    if check:
        click.echo(counted(len(chosen), "exchange"))
        return
    if must_list:
        _list(chosen)
        return
    if client is None:
        raise click.UsageError("name a client: --client NAME, or --client exec:CMD")
    from kraftspec.conformance.clients.clients import checked

    try:
        checked(client)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    from kraftspec.conformance.clients.run import excuse

    excuses = _excuses(client, known)
    name, results = _play(client, chosen, kafka, (timeout_s, patience_s))
    mended = excuse(results, excuses)
    if junit is not None:
        from kraftspec.conformance.clients.junit import junit as as_junit

        junit.write(as_junit(client, results))
    if as_json:
        import msgspec

        rows = [msgspec.to_builtins(result) for result in results]
        emit_json({"client": client, "named": name, "exchanges": rows})
    else:
        _print(name, _repeat(client, paths, kafka, (timeout_s, patience_s), known), results)
    for line in [f"{test} does not fail any more: take it out" for test in mended] + [
        *excuses.warnings(whole=False)
    ]:
        click.echo(f"Warning: {printable(line)}", err=True)
    raise click.exceptions.Exit(_exit_code(results))


def _list(exchanges: list[Exchange]) -> None:
    from kraftspec.conformance.clients.clients import names

    click.echo(f"clients: {', '.join(names())}")
    for exchange in exchanges:
        click.echo(f"{exchange.name}: {exchange.about}")


def _exit_code(results: list[Result]) -> int:
    if any(result.verdict == "no verdict" for result in results):
        return NO_VERDICT
    return EXIT_FINDINGS if any(not one.passed and one.known is None for one in results) else 0


def _excuses(client: str, path: Path | None) -> KnownFailures:
    """Return what a client is known to fail: of the file, else of its own."""
    from kraftspec.conformance.clients.clients import known_file
    from kraftspec.conformance.runner.known import KnownFailures

    path = path or known_file(client)
    try:
        return KnownFailures.read(path) if path.exists() else KnownFailures()
    except (OSError, ValueError) as error:
        raise no_verdict(error) from error


def _play(
    client: str, exchanges: list[Exchange], kafka: bool, timing: tuple[float, float]
) -> tuple[str, list[Result]]:
    """Play exchanges; return how the client calls itself, and how it did."""
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.clients.clients import command_of
    from kraftspec.conformance.clients.driver import Driver, DriverError
    from kraftspec.conformance.clients.run import Player, Timing, play_all
    from kraftspec.conformance.cluster import Cluster, ClusterError

    expected = (AdapterError, ClusterError, DriverError, OSError, ValueError)
    with verdicts("interrupted: there is no verdict", expected), ExitStack() as stack:
        driver = stack.enter_context(Driver(command_of(client)))
        port = None
        directory = Path(stack.enter_context(TemporaryDirectory()))
        if any(exchange.given.tls for exchange in exchanges):
            from kraftspec.conformance.clients.certificates import make

            make(directory / "certificates")
        if kafka and any(exchange.given.broker == "either" for exchange in exchanges):
            cluster = stack.enter_context(Cluster(directory / "kafka", controllers=1, brokers=1))
            port = int(cluster.bootstrap().rpartition(":")[2])
        player = stack.enter_context(
            Player(
                driver, Timing(*timing), kafka_port=port, certificates=directory / "certificates"
            )
        )
        advance = stack.enter_context(progress("Playing"))
        results = play_all(player, exchanges, advance)
        return f"{driver.greeting.client} {driver.greeting.version}", results


def _chosen(exchanges: list[Exchange], filters: tuple[str, ...]) -> list[Exchange]:
    chosen = [one for one in exchanges if not filters or any(text in one.name for text in filters)]
    if not chosen:
        near = alike(filters[0], [one.name for one in exchanges]) if filters else ""
        raise no_verdict(f"no exchange has {' or '.join(filters)!r} in its name{near}")
    return chosen


def _beginning_and_end(lines: list[str]) -> list[str]:
    """Return lines; of many, those at both ends: a client may ask for the same without end."""
    if len(lines) <= 2 * LINES_AT_ENDS:
        return lines
    between = f"… {len(lines) - 2 * LINES_AT_ENDS:,} lines more; --json has all …"
    return [*lines[:LINES_AT_ENDS], between, *lines[-LINES_AT_ENDS:]]


def _repeat(
    client: str,
    paths: tuple[Path, ...],
    kafka: bool,
    timing: tuple[float, float],
    known: Path | None,
) -> str:
    """Return the command that plays exchanges in the same way again."""
    words = ["kraftspec", "conform", "clients", "--client", client]
    words += [word for path in paths for word in ("--exchanges", str(path))]
    words += ["--kafka"] if kafka else []
    words += ["--timeout-s", f"{timing[0]:g}", "--patience-s", f"{timing[1]:g}"]
    words += [] if known is None else ["--known", str(known)]
    return shlex.join(words)


def _print(name: str, repeat: str, results: list[Result]) -> None:
    shown = console()
    for result in results:
        if result.passed:
            continue
        verdict = "FAILED" if result.known is None else "known"
        detail = result.detail if result.known is None else result.known
        shown.print(
            f"{verdict} {result.exchange}: {result.verdict}: {printable(detail)}", soft_wrap=True
        )
        if result.known is not None:
            continue
        for line in _beginning_and_end(result.diagram):
            shown.print(f"  {printable(line)}", soft_wrap=True)
        if result.output:
            shown.print("  the driver's own output ends so:")
            for line in result.output:
                shown.print(f"    {printable(line)}", soft_wrap=True)
        shown.print(f"  repeat: {repeat} --filter {result.exchange}", soft_wrap=True)
    number: Counter[str] = Counter(result.verdict for result in results)
    failed = sum(not result.passed and result.known is None for result in results)
    known = sum(result.known is not None for result in results)
    shown.print(
        f"{printable(name)}: {counted(len(results), 'exchange')}, {failed} failed, "
        f"{known} known to fail: "
        + ", ".join(f"{count} {verdict}" for verdict, count in number.most_common())
        + f"; {sum(result.seconds for result in results):.0f} s",
        soft_wrap=True,
    )
