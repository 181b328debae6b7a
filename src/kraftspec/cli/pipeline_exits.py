"""How the commands of ``kraftspec pipeline`` end where there is no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from kraftspec.cli.output import printable

EXIT_UNREAD = 3  # There is no verdict on the whole: something could not be read, or not be written.


@contextmanager
def unread() -> Iterator[None]:
    """Turn what cannot be read into a line on stderr and an exit code of its own."""
    try:
        yield
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (ValueError, OSError) as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        raise click.exceptions.Exit(EXIT_UNREAD) from error
