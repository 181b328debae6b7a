"""The ``kraftspec`` command.

Sub-commands are named here and imported only when one is asked for; each in turn imports the room
it drives inside its function. So ``kraftspec --version`` costs click and nothing else.
"""

from __future__ import annotations

import importlib

import click

from kraftspec import __version__

# Name → where the command stands, and its line of help (so that help imports nothing).
_COMMANDS = {
    "adapter": "kraftspec.cli.conform:adapter",
    "completion": "kraftspec.cli.completion:completion",
    "conform": "kraftspec.cli.conform:conform",
    "demo": "kraftspec.cli.demo:demo",
    "generate": "kraftspec.cli.generate:generate",
    "spec": "kraftspec.cli.spec:spec",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, without importing any."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None when there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kraftspec", message="%(prog)s %(version)s")
def main() -> None:
    """The Kafka / KRaft protocol, specification first."""
