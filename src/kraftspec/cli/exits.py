"""How commands end that have a verdict to give, or had none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from kraftspec.cli.output import explained, printable

# Beside 0, all is as expected, and output.EXIT_FINDINGS.
UNEXPECTED_PASS = 2
NO_VERDICT = 3  # Something did not run, or could not be read or written.
_Command = TypeVar("_Command", bound=Callable[..., Any])
INTERRUPTED = 130  # As a shell has it of what Ctrl-C has ended.


def no_verdict(why: object) -> click.exceptions.Exit:
    """Say why there is no verdict, and return the exit that says it too."""
    click.echo(f"Error: {printable(str(why))}", err=True)
    return click.exceptions.Exit(NO_VERDICT)


@contextmanager
def verdicts(interrupted: str, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let nothing that ends a command too early have the exit code of a verdict.

    ``interrupted`` is said after Ctrl-C. ``expected`` errors are a line, all others a traceback.
    """
    try:
        yield
    # Those that click, or the group of all commands, makes a line and an exit code of.
    except (click.ClickException, click.exceptions.Exit, ModuleNotFoundError, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        click.echo(interrupted, err=True)
        raise click.exceptions.Exit(INTERRUPTED) from error
    except expected as error:
        raise no_verdict(error) from error
    except Exception as error:
        from traceback import print_exc

        print_exc()
        raise no_verdict("this is a bug in kraftspec: there is no verdict") from error


@contextmanager
def unread() -> Iterator[None]:
    """Turn what cannot be read into a line on stderr and an exit code of its own."""
    try:
        yield
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (ValueError, OSError) as error:
        raise no_verdict(explained(error)) from error


def force_option(command: _Command) -> _Command:
    """Give a command that makes files ``--force``."""
    return click.option("--force", is_flag=True, help="Replace what is there.")(command)


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise FileExistsError where there is something already, unless it is to be replaced."""
    if not force and (any(path.iterdir()) if path.is_dir() else path.exists()):
        raise FileExistsError(f"{path} is there already: name another, or give --force")
