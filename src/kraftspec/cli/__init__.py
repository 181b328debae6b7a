"""The ``kraftspec`` command.

Sub-commands are named here and imported only when one is used; each imports the package that it
calls inside its function. So ``kraftspec --help`` imports click and nothing else.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import click

from kraftspec import __version__
from kraftspec.extras import EXTRAS, extras_named

# Name → where the command stands.
_COMMANDS = {
    "adapter": "kraftspec.cli.conform:adapter",
    "completion": "kraftspec.cli.completion:completion",
    "conform": "kraftspec.cli.conform:conform",
    "demo": "kraftspec.cli.demo:demo",
    "dump-log": "kraftspec.cli.dump_log:dump_log",
    "generate": "kraftspec.cli.generate:generate",
    "node": "kraftspec.cli.node:node",
    "pipeline": "kraftspec.cli.pipeline:pipeline",
    "proxy": "kraftspec.cli.proxy:proxy",
    "quorum": "kraftspec.cli.quorum:quorum",
    "shell": "kraftspec.cli.shell:shell",
    "simulate": "kraftspec.cli.simulate:simulate",
    "spec": "kraftspec.cli.spec:spec",
    "storage": "kraftspec.cli.storage:storage",
}


class ExtrasGroup(click.Group):
    """A group whose commands say which extra they lack; ``extras`` are those of its own."""

    def __init__(self, *args: Any, extras: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.extras = EXTRAS | (extras or {})

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; one that needs an extra which is not installed says which."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            with extras_named(self.extras):
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in self.extras:
                raise
            from kraftspec.cli.exits import no_verdict

            raise no_verdict(error) from error


class LazyGroup(ExtrasGroup):
    """A group whose commands (name → "module:function") are imported when they are asked for."""

    def __init__(self, *args: Any, homes: dict[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.homes = homes

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, without importing any."""
        return sorted(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None when there is none of that name."""
        if cmd_name not in self.homes:
            return None
        module, _, name = self.homes[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


def _show_version(context: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if not is_requested or context.resilient_parsing:
        return
    from kraftspec.fastpath.native import describe

    click.echo(f"kraftspec {__version__}, codec: {describe()}")
    context.exit()


@click.command(
    cls=LazyGroup, homes=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and which codec runs, and exit.",
)
def main() -> None:
    """The Kafka / KRaft protocol, specification first."""
