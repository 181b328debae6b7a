"""How a run of vectors ends, and how much of it is shown."""

from __future__ import annotations

import click

from kraftspec.cli.output import printable

# Among the exit codes of a run: 0 as expected, 1 a regression.
UNEXPECTED_PASS = 2
HARNESS_FAILED = 3
INTERRUPTED = 130  # As a shell has it of what Ctrl-C has ended.
FAILURES_SHOWN_MAX = 20  # A codec that is wrong once is often wrong ten thousand times.


def harness_failed(why: object) -> click.exceptions.Exit:
    """Say why there is no verdict, and return the exit that says it too."""
    click.echo(f"Error: {printable(str(why))}", err=True)
    return click.exceptions.Exit(HARNESS_FAILED)
