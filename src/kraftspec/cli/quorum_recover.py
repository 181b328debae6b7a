"""``kraftspec quorum recover``: lets nodes of a quorum that lost its majority elect again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.exits import verdicts
from kraftspec.cli.output import EXIT_FINDINGS, console, emit_json, json_option, printable
from kraftspec.cli.quorum_verify import log_directories

if TYPE_CHECKING:
    from rich.console import Console

    from kraftspec.reference.raft.types import Endpoints
    from kraftspec.reference.recovery.plan import Plan

_BUMP_MIN = 1_000  # With fewer, voters that were taken for lost have come back and led.


def _ids(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise click.BadParameter(f"{text!r}: node ids with commas between them are wanted")
    return tuple(sorted(map(int, parts)))


def _endpoints(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[int, Endpoints]:
    from kraftspec.reference.admin.added_controller import parse_endpoint
    from kraftspec.reference.raft.types import Endpoint

    by_node: dict[int, tuple[Endpoint, ...]] = {}
    for text in texts:
        id_, equals, address = text.partition("=")
        if not id_.isdecimal() or not equals:
            raise click.BadParameter(f"{text!r} is not ID=LISTENER://HOST:PORT")
        try:
            at = parse_endpoint("--endpoint", address)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        if not at.port:
            raise click.BadParameter(f"{text!r}: port 0 is none that a node can be reached at")
        known = by_node.get(int(id_), ())
        by_node[int(id_)] = (*known, Endpoint(at.name, at.host, at.port))
    return dict(by_node)


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option("--keep", required=True, callback=_ids, metavar="ID[,ID...]", help="Who will vote.")
@click.option("--write", is_flag=True, help="Do it. Without this nothing is changed.")
@click.option("--backup", default="", metavar="DIR", help="Where copies of what is changed go.")
@click.option("--source", default="", metavar="DIR", help="Whose log is kept: the longest.")
@click.option(
    "--endpoint", "endpoints", multiple=True, callback=_endpoints,
    metavar="ID=LISTENER://HOST:PORT", help="Where a node to keep listens now.",
)  # fmt: skip
@click.option(
    "--epoch-bump", default=_BUMP_MIN, show_default=True, type=click.IntRange(_BUMP_MIN),
    help="How far above all epochs the new one is.",
)  # fmt: skip
@click.option(
    "--to-dynamic", is_flag=True, help="Let static voters be voters of the log (kraft.version 1)."
)
@click.option(
    "--withdraw-voters",
    is_flag=True,
    help="Cut the last change of voters off, if it is certainly not committed.",
)
@click.option(
    "--pad-to", default=0, type=click.IntRange(0), metavar="OFFSET",
    help="The end of a longer log that cannot be given: the voters are written behind it.",
)  # fmt: skip
@click.option("--accept-loss", is_flag=True, help="Let go what is printed as lost.")
@json_option
def recover(
    directories: tuple[str, ...],
    keep: tuple[int, ...],
    write: bool,
    backup: str,
    source: str,
    endpoints: dict[int, Endpoints],
    epoch_bump: int,
    to_dynamic: bool,
    withdraw_voters: bool,
    pad_to: int,
    accept_loss: bool,
    as_json: bool,
) -> None:
    """Let the nodes to keep elect a leader, when the majority of the controllers is lost.

    DIR are log directories, as for verify, of all controllers and brokers that are left. Prints
    what would be written, what is lost and what to do afterwards; --write does it.

    Exit code: 0 planned or done, 1 refused, 2 wrong usage, 3 a file could not be read or written.
    """
    from kraftspec.reference.log.files import ReadOnlyFiles
    from kraftspec.reference.recovery.cure import recover as cure
    from kraftspec.reference.recovery.instructions import to_json
    from kraftspec.reference.recovery.plan import Request

    if write != bool(backup):
        raise click.UsageError("--write and --backup DIR go together.")
    if set(endpoints) - set(keep):
        raise click.UsageError("--endpoint is of nodes to keep.")
    if withdraw_voters and (to_dynamic or pad_to):
        raise click.UsageError("--withdraw-voters forces nothing: no --to-dynamic, no --pad-to.")
    with verdicts("Interrupted: nothing was changed.", (OSError,)):
        paths = log_directories(directories)
        kept_log = _as_given(log_directories([source])[0], paths) if source else ""
    request = Request(
        keep=keep,
        source=kept_log,
        endpoints=endpoints,
        epoch_bump=epoch_bump,
        accepts_loss=accept_loss,
        to_dynamic=to_dynamic,
        withdraws_voters=withdraw_voters,
        pad_to=pad_to,
    )
    if write:
        _check_backup(backup, paths)
        _check_user(paths)
    shown: dict[str, Any] = {}

    def show(plan: Plan) -> None:
        if as_json:
            shown.update(to_json(plan, ReadOnlyFiles()))
        else:
            _show(plan, write, console())

    with verdicts("Interrupted. What was begun, the same command goes on with.", (OSError,)):
        try:
            plan = cure(paths, request, backup=backup, show=show)
        except OSError as error:
            if not write:
                raise
            end = "When that is mended, the same command goes on, with another --backup."
            raise OSError(f"{error}. {end}") from error
        is_written = write and bool(plan.changes) and not plan.refusals
        if as_json:
            emit_json({"written": is_written} | shown)
        elif is_written:
            click.echo(f"Done. What was there before is in {printable(backup)}.")
    raise click.exceptions.Exit(EXIT_FINDINGS if plan.refusals else 0)


def _as_given(source: str, paths: Sequence[str]) -> str:
    """Return a directory as it is written among the others: ``./a`` is ``a``."""
    return next((path for path in paths if os.path.samefile(path, source)), source)


def _check_backup(backup: str, paths: Sequence[str]) -> None:
    target = Path(backup).resolve()
    if target.exists():
        raise click.UsageError(f"--backup {backup} is there already: name one that is not.")
    for path in paths:
        if target.is_relative_to(Path(path).resolve()):
            raise click.UsageError(f"--backup {backup} is within {path}: a node would find it.")


def _check_user(paths: Sequence[str]) -> None:
    """Let files be written by the user that the nodes run as, or they cannot be started."""
    for path in paths:
        meta = Path(path, "meta.properties")
        if meta.exists() and meta.stat().st_uid != os.geteuid():
            try:
                owner = meta.owner()
            except KeyError:  # In a container the host's users have no names.
                owner = f"user {meta.stat().st_uid}"
            raise click.UsageError(
                f"{path} belongs to {owner}: run this as that user, or the node could not "
                f"write to its own files."
            )


def _show(plan: Plan, is_writing: bool, out: Console) -> None:
    from kraftspec.reference.log.files import ReadOnlyFiles
    from kraftspec.reference.recovery.instructions import afterwards, headline, lost, written

    files = ReadOnlyFiles()
    if plan.losses:
        out.print("Lost:", style="bold red")
        for loss in plan.losses:
            _show_lines(*lost(plan, loss, files), out)
    if plan.refusals:
        for one in plan.refusals:
            out.print(f"refused: {one.code}: {printable(one.text)}", style="bold red")
            out.print(f"    {one.way_on}")
        out.print("Nothing was changed.")
        return
    out.print(printable(headline(plan)))
    if plan.changes:
        out.print("What is written:")
        for text, lines in written(plan, files):
            _show_lines(text, lines, out)
    out.print("Afterwards:")
    for number, text in enumerate(afterwards(plan), 1):
        out.print(f"{number:2}. {printable(text)}")
    if plan.changes and not is_writing:
        out.print("Nothing was changed: --write --backup DIR does it.")


def _show_lines(text: str, lines: Sequence[str], out: Console) -> None:
    out.print(f"  {printable(text)}")
    for line in lines:
        out.print(f"    {printable(line)}")
