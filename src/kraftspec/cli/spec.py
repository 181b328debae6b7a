"""``kraftspec spec``: check, import, show, plan, headers, diff and history."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
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
from kraftspec.cli.spec_history import history

if TYPE_CHECKING:
    from kraftspec.codegen.headers import ApiHeaders
    from kraftspec.codegen.model import Message
    from kraftspec.codegen.plan import MessagePlan

_PATHS = click.Path(exists=True, path_type=Path)


@click.group()
def spec() -> None:
    """Work with message schemas."""


spec.add_command(history)


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
        mistakes = counted(len(report.diagnostics), "mistake")
        click.echo(f"{counted(report.files, 'file')}, {mistakes}", err=True)
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


def _planned(message: str, set_name: str, version: int) -> tuple[Message, MessagePlan]:
    """Read and plan a message; a version that it does not have is wrong usage."""
    from kraftspec.codegen.plan import plan_message
    from kraftspec.codegen.reader import read_message

    with refusals():
        read = read_message(find_spec(message, set_name))
    try:
        return read, plan_message(read, version)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--version") from error


@spec.command()
@message_argument
@click.option("--version", type=int, required=True, help="The version of the message.")
@set_option
@json_option
def plan(message: str, version: int, set_name: str, as_json: bool) -> None:
    """Print the plan of a message at one version.

    MESSAGE is the name of a message, or the path of a spec.
    """
    _, message_plan = _planned(message, set_name, version)
    if as_json:
        emit_json(message_plan.to_json())
        return
    from kraftspec.cli.tree import layout_tree

    for line in layout_tree(message_plan):
        click.echo(line)


@spec.command()
@message_argument
@click.option("--version", type=int, required=True, help="The version of the message.")
@click.option("--hex", "digits", help="Bytes to explain; - reads them from stdin.")
@click.option("--lenient", is_flag=True, help="Accept what Kafka's own decoder accepts.")
@set_option
@json_option
def show(
    message: str, version: int, digits: str | None, lenient: bool, set_name: str, as_json: bool
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
    result = dump(read, version, data, lenient=lenient)
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
