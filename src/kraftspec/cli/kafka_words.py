"""What commands share that stand in for Kafka's own tools: how wrong usage ends, bare errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kraftspec.cli.output import RefusedError, printable


class KafkaUsageError(click.UsageError):
    """Wrong usage: Kafka's tools end with 1, whatever was wrong."""

    exit_code = 1


class KafkaError(click.ClickException):
    """What Kafka's tools say bare, on stderr."""

    def show(self, file: Any = None) -> None:
        """Print it."""
        click.echo(printable(self.format_message()), err=True)


@contextmanager
def refusals() -> Iterator[None]:
    """Say what cannot be done: in Kafka's words bare, of a file or a property line by line."""
    from kraftspec.reference.node.settings import ConfigError

    try:
        yield
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (ConfigError, OSError) as error:
        raise RefusedError(error) from error
    except ValueError as error:
        raise KafkaError(str(error)) from error


@contextmanager
def _as_kafka() -> Iterator[None]:
    try:
        yield
    except KafkaUsageError:
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise click.exceptions.Exit(KafkaUsageError.exit_code) from error
    except click.UsageError as error:
        raise KafkaUsageError(error.format_message(), error.ctx) from error


class KafkaCommand(click.Command):
    """A command whose wrong usage ends with Kafka's exit code."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Read the arguments."""
        with _as_kafka():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with _as_kafka():
            return super().invoke(ctx)


class KafkaGroup(click.Group):
    """A group whose wrong usage ends with Kafka's exit code, and that of its commands."""

    command_class = KafkaCommand

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Read the arguments."""
        with _as_kafka():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Find the command that is asked for, and run it."""
        with _as_kafka():
            return super().invoke(ctx)
