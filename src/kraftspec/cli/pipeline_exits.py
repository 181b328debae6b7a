"""How the commands of ``kraftspec pipeline`` end where there is no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kraftspec.cli.output import explained, printable

EXIT_UNREAD = 3  # There is no verdict on the whole: something could not be read, or not be written.


def refuse_existing(path: Path) -> None:
    """Raise FileExistsError where there is something already: data is never written over."""
    if path.exists():
        raise FileExistsError(f"{path} is there already: name a file that is not")


@contextmanager
def unread() -> Iterator[None]:
    """Turn what cannot be read into a line on stderr and an exit code of its own."""
    try:
        yield
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (ValueError, OSError) as error:
        click.echo(f"Error: {printable(explained(error))}", err=True)
        raise click.exceptions.Exit(EXIT_UNREAD) from error
