"""``kraftspec spec``: schemas, their plans and history, and what is written from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
    alike,
    complete_messages,
    console,
    counted,
    emit_json,
    find_spec,
    json_option,
    message_argument,
    refusals,
    set_option,
    spec_paths,
    specs_named,
)
from kraftspec.cli.spec_dissector import dissector
from kraftspec.cli.spec_explorer import explorer
from kraftspec.cli.spec_history import history
from kraftspec.cli.spec_reference import reference

if TYPE_CHECKING:
    from kraftspec.codegen.headers import ApiHeaders
    from kraftspec.codegen.model import Message
    from kraftspec.codegen.plan import MessagePlan

_PATHS = click.Path(exists=True, path_type=Path)
_version_option = click.option(
    "--version", type=int, help="The version of the message.  [default: the newest]"
)


@click.group()
def spec() -> None:
    """Work with message schemas."""


spec.add_command(history)
spec.add_command(dissector)
spec.add_command(explorer)
spec.add_command(reference)


@spec.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…", type=click.Path(path_type=Path))
@json_option
def check(paths: tuple[Path, ...], as_json: bool) -> None:
    """Find all mistakes in specs, each with its position.

    PATH is a spec, a directory of specs or a release of Kafka (kafka-3.9.1); without one, all specs
    of this package are checked.
    Mistakes are printed one a line, path:line:col: first. Exit code 1 when there is one.
    """
    from kraftspec.codegen.check import check_paths

    report = check_paths([specs_named(path, "PATH") for path in paths])
    if as_json:
        emit_json(report.to_json())
    else:
        for line in report.lines:
            click.echo(line)
        parts = [counted(report.files, "file"), counted(len(report.diagnostics), "mistake")]
        parts += [counted(len(report.notes), "note")] if report.notes else []
        click.echo(", ".join(parts), err=True)
    if not report.ok:
        raise click.exceptions.Exit(EXIT_FINDINGS)


@spec.command("import")
@click.argument("jars", nargs=-1, required=True, metavar="JAR…", type=_PATHS)
@click.option(
    "--out",
    default=Path("specs/kafka"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The set to write into.",
)
@json_option
def import_(jars: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Import the schemas from Kafka's published jars."""
    from kraftspec.codegen.importer import import_jars

    with refusals():
        report = import_jars(jars, out)
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged", "removed")}
    if as_json:
        emit_json(counts)
        return
    for name in ("added", "changed", "removed"):
        for path in counts[name]:
            click.echo(f"{name} {path}")
    click.echo(", ".join(f"{len(paths)} {name}" for name, paths in counts.items()))
    if report.removed:
        click.echo("Removed means that the jar no longer has it; the file was left.", err=True)


@spec.command("list")
@click.argument("part", required=False, default="")
@set_option
@json_option
def list_(part: str, set_name: str, as_json: bool) -> None:
    """List the messages of a set: type, API key, versions.

    With PART, only messages that have it in their names, in upper or lower case.
    """
    with refusals():
        messages = [one for one in _read_set(set_name) if part.lower() in one.name.lower()]
    if not messages:
        names = [path.stem for path in spec_paths(set_name)]
        raise click.BadParameter(f"no message of {set_name} has {part!r}{alike(part, names)}")
    if as_json:
        emit_json([_listed(one) for one in messages])
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("key", justify="right")
    for column in ("message", "type", "versions", "flexible"):
        table.add_column(column)
    for one in messages:
        row = _listed(one)
        key = "" if row["apiKey"] is None else str(row["apiKey"])
        table.add_row(key, one.name, one.type, row["versions"], row["flexible"])
    console().print(table)


def _listed(message: Message) -> dict[str, Any]:
    flexible = message.flexible_versions
    return {
        "message": message.name,
        "type": message.type,
        "apiKey": message.api_key,
        "versions": str(message.valid_versions),
        "flexible": "none" if flexible.lowest > message.valid_versions.highest else str(flexible),
    }


def _read_set(set_name: str) -> list[Message]:
    """Read all messages of a set, by type, API key and name."""
    from kraftspec.codegen.reader import read_message

    messages = [read_message(path) for path in spec_paths(set_name)]
    return sorted(messages, key=lambda one: (one.type, one.api_key or 0, one.name))


def _planned(message: str, set_name: str, version: int | None) -> tuple[Message, MessagePlan]:
    """Read and plan a message, at its newest version if none is given.

    A version that it does not have is wrong usage.
    """
    from kraftspec.codegen.plan import plan_message
    from kraftspec.codegen.reader import read_message

    with refusals():
        read = read_message(find_spec(message, set_name))
    if read.valid_versions.empty:
        raise click.BadParameter(f"{read.name} has no version left: Apache Kafka removed the API")
    try:
        newest = read.valid_versions.highest
        return read, plan_message(read, newest if version is None else version)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--version") from error


@spec.command()
@click.argument("message", required=False, shell_complete=complete_messages)
@_version_option
@click.option("--all", "plan_all", is_flag=True, help="Every version, of MESSAGE or of the set.")
@set_option
@json_option
def plan(
    message: str | None, version: int | None, plan_all: bool, set_name: str, as_json: bool
) -> None:
    """Print the plan of a message at one version.

    MESSAGE is the name of a message, or the path of a spec. --all --json prints a list of plans.
    """
    if plan_all and version is not None:
        raise click.UsageError("--all is every version: leave --version out")
    if not plan_all and message is None:
        raise click.UsageError("name a message, or use --all for every message of the set")
    if plan_all:
        plans = _all_plans(message, set_name)
    else:
        plans = [_planned(str(message), set_name, version)[1]]
    if as_json:
        documents = [one.to_json() for one in plans]
        emit_json(documents if plan_all else documents[0])
        return
    from kraftspec.cli.tree import layout_tree

    for one in plans:
        click.echo("\n".join(layout_tree(one)))


def _all_plans(message: str | None, set_name: str) -> list[MessagePlan]:
    """Plan every version of a message, or of every message of a set."""
    from kraftspec.codegen.plan import plan_message
    from kraftspec.codegen.reader import read_message

    with refusals():
        if message is None:
            messages = _read_set(set_name)
        else:
            messages = [read_message(find_spec(message, set_name))]
    return [plan_message(one, version) for one in messages for version in one.valid_versions]


@spec.command()
@message_argument
@_version_option
@click.option("--hex", "digits", help="Bytes to explain; - reads them from stdin.")
@click.option("--lenient", is_flag=True, help="Accept what Kafka's own decoder accepts.")
@set_option
@json_option
def show(
    message: str,
    version: int | None,
    digits: str | None,
    lenient: bool,
    set_name: str,
    as_json: bool,
) -> None:
    """Print a message's byte layout, or explain bytes by it.

    MESSAGE is the name of a message, or the path of a spec. With --hex, each field is shown with
    its offset and bytes; invalid bytes end with the error and exit code 1.
    """
    from kraftspec.cli.tree import dump_tree, layout_tree
    from kraftspec.codegen.show import dump, parse_hex

    read, message_plan = _planned(message, set_name, version)
    if digits is None:
        if as_json:
            emit_json(message_plan.to_json())
        else:
            click.echo("\n".join(layout_tree(message_plan)))
        return
    try:
        data = parse_hex(sys.stdin.read() if digits == "-" else digits)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--hex") from error
    result = dump(read, message_plan.version, data, lenient=lenient)
    if as_json:
        emit_json(result.to_json())
    else:
        click.echo("\n".join(dump_tree(result)))
    if result.error is not None:
        raise click.exceptions.Exit(EXIT_FINDINGS)


@spec.command()
@click.argument("api", required=False)
@set_option
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Put the table into this page (docs/headers.md), between its marks.",
)
@json_option
def headers(api: str | None, set_name: str, write: Path | None, as_json: bool) -> None:
    """Print which versions of each API have which header.

    API is a name (Vote) or a key (52); without it, all APIs of the set are printed. A header's
    version is not on the wire: both sides must know it.
    """
    from kraftspec.codegen.headers import write_page

    apis = _headers(set_name)
    if write is not None:
        with refusals():
            write_page(write, apis)
    if api is not None:
        apis = [one for one in apis if api in (one.name, str(one.key))]
        if not apis:
            raise click.BadParameter(f"there is no API {api!r} in {set_name}")
    if as_json:
        emit_json({"set": set_name, "apis": [one.to_json() for one in apis]})
    elif write is None:
        _print_headers(apis)


def _headers(set_name: str) -> list[ApiHeaders]:
    from kraftspec.codegen.headers import api_headers
    from kraftspec.codegen.reader import read_message

    with refusals():
        return api_headers(read_message(path) for path in spec_paths(set_name))


def _print_headers(apis: list[ApiHeaders]) -> None:
    from rich.table import Table

    from kraftspec.codegen.headers import columns, without_versions

    shown = columns(apis)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("\nkey", justify="right")
    table.add_column("\nAPI")
    for kind, number in shown:
        table.add_column(f"{kind}\nheader {number}")
    for one in apis:
        if one.versions:
            cells = [one.with_header(kind, number) for kind, number in shown]
            table.add_row(str(one.key), one.name, *cells)
    if table.row_count:
        console().print(table)
    gone = without_versions(apis)
    if gone:
        click.echo(gone)


@spec.command()
@click.argument("old")
@click.argument("new")
@json_option
def diff(old: str, new: str, as_json: bool) -> None:
    """Report what changed from OLD to NEW, and what breaks.

    Each side is a directory of specs, a jar, a release of Kafka (3.9.1 or kafka-3.9.1), or a git
    revision. Exit code 1: a released version changes.
    """
    from kraftspec.codegen.diff import SideError, render, run_diff

    try:
        report = run_diff(old, new)
    except SideError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        emit_json(report.to_json())
    else:
        render(report, console())
    raise click.exceptions.Exit(report.exit_code)
