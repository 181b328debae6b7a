"""``kraftspec shell``: the metadata image of a log as a tree, with the words of Kafka's shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kraftspec import __version__
from kraftspec.cli.exits import unread
from kraftspec.cli.output import console, emit_json, json_option, printable, progress
from kraftspec.cli.profiles import PROFILES

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

    from kraftspec.reference.tools.shell.commands import Shell

PROMPT = ">> "


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-s",
    "--snapshot",
    metavar="FILE",
    help="The checkpoint to read, or the segment.",
)
@click.option(
    "-d",
    "--directory",
    metavar="DIR",
    help="The log directory to read, or the __cluster_metadata-0 in it: log and checkpoint.",
)
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="The image after the offsets below N.  [default: all]",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="The profile of the control records.  [default: what meta.properties says, or kafka]",
)
@json_option
@click.argument("command", nargs=-1, metavar="[COMMAND...]")
def shell(
    snapshot: str | None,
    directory: str | None,
    offset: int | None,
    profile: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Show the image of a metadata log as a tree, like kafka-metadata-shell.

    COMMAND is ls, cat, find, tree or man. Without it, commands are read from standard input; a
    terminal has completion and history. A running node may use the directory: nothing is locked.

    Exit code: 0 success, 1 damage or a path that matches nothing, 2 wrong usage, 3 nothing could be
    read.
    """
    from kraftspec.reference.tools.shell.commands import Shell, Status
    from kraftspec.reference.tools.shell.load import Source

    if (snapshot is None) == (directory is None):
        raise click.UsageError("give either --snapshot FILE or --directory DIR")
    if directory is not None and os.path.isfile(directory):
        raise click.UsageError(f"--directory {directory} is a file: name it with --snapshot")
    on_terminal = not command and sys.stdin.isatty() and sys.stdout.isatty()
    session = Shell(
        Source(snapshot=snapshot, directory=directory, offset=offset, profile=profile),
        __version__,
        out=lambda line: click.echo(_line(line)),
        err=lambda line: click.echo(_line(line), err=True),
        out_json=emit_json,
        width=lambda: console().width if on_terminal else None,
        as_json=as_json,
    )
    with unread(), progress("Reading") as advance:
        session.load(advance)
    status: int = Status.FAILED if session.loaded.problems else Status.DONE
    if command:
        status = max(session.run(command, in_shell=False), status)
    else:
        status = max(_run_lines(session, _typed(session) if on_terminal else sys.stdin), status)
    if status and not on_terminal:
        raise click.exceptions.Exit(status)


def _line(text: str) -> str:
    """Return a line without what a terminal would obey: names and values may hold anything."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _run_lines(session: Shell, lines: Iterable[str]) -> int:
    """Run lines until they end, or one is ``exit``; return the worst status."""
    worst = 0
    for line in lines:
        worst = max(worst, session.run_line(line.rstrip("\n")))
        if session.is_over:
            break
    return worst


def _typed(session: Shell) -> Iterable[str]:
    """Yield what is typed at a terminal, until Ctrl-D; Ctrl-C gives a line up."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion

    class Names(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            line = document.text_before_cursor
            start, offered = session.complete(line)
            for word, name in offered:
                yield Completion(word, start - len(line), display=_line(name))

    prompt: PromptSession[str] = PromptSession(completer=Names(), complete_while_typing=False)
    while True:
        try:
            yield prompt.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
