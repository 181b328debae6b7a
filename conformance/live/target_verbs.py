"""What the built-in targets share: the four verbs of `target`, of which two differ."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path


def format_arguments(directory: Path) -> list[str]:
    """Return the arguments of `kafka-storage format`, which ours takes as well."""
    # The other verbs start sooner without it.
    from kraftspec.reference.log.properties import parse_properties  # noqa: PLC0415

    given = parse_properties((directory / "format.properties").read_text())
    arguments = ["format", "-t", given["cluster.id"], "-c", str(directory / "node.properties")]
    if "initial.controllers" in given:
        arguments += ["--initial-controllers", given["initial.controllers"]]
    elif "controller.quorum.voters" not in parse_properties(
        (directory / "node.properties").read_text()
    ):
        arguments += ["--no-initial-controllers"]
    return arguments


def main(storage: Callable[[list[str]], object], server: Callable[[Path], object]) -> None:
    """Carry out the verb of the command line.

    ``storage`` runs the storage tool with its arguments, ``server`` the node until it ends.
    """
    verb, directory, *rest = sys.argv[1:]
    home = Path(directory)
    if verb == "format":
        storage(format_arguments(home))
    elif verb == "start":
        server(home / "node.properties")
    elif verb == "stop":
        number = signal.SIGKILL if rest == ["kill"] else signal.SIGTERM
        os.kill(int(os.environ["NODE_PID"]), number)
    elif verb == "wipe":
        shutil.rmtree(home / "data", ignore_errors=True)
    else:
        sys.exit(f"there is no verb {verb!r}")


def become(command: list[str]) -> None:
    """Run a command in the place of this process, so that its pid is the node's."""
    os.execvp(command[0], command)
