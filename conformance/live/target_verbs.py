"""What the built-in targets share: the four verbs of `target`, of which two differ."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from kraftspec.reference.log.properties import parse_properties


def format_arguments(directory: Path) -> list[str]:
    """Return the arguments of `kafka-storage format`, which ours takes as well."""
    given = parse_properties((directory / "format.properties").read_text())
    arguments = ["format", "-t", given["cluster.id"], "-c", str(directory / "node.properties")]
    if "initial.controllers" in given:
        arguments += ["--initial-controllers", given["initial.controllers"]]
    return arguments


def main(storage: Callable[[list[str]], list[str]], server: Callable[[Path], list[str]]) -> None:
    """Carry out the verb of the command line.

    ``storage`` is the command of the storage tool with its arguments, ``server`` that of the node.
    """
    verb, directory, *rest = sys.argv[1:]
    home = Path(directory)
    if verb == "format":
        _become(storage(format_arguments(home)))
    elif verb == "start":
        _become(server(home / "node.properties"))
    elif verb == "stop":
        number = signal.SIGKILL if rest == ["kill"] else signal.SIGTERM
        os.kill(int(os.environ["NODE_PID"]), number)
    elif verb == "wipe":
        shutil.rmtree(home / "data", ignore_errors=True)
    else:
        sys.exit(f"there is no verb {verb!r}")


def _become(command: list[str]) -> None:
    """Run a command in the place of this process, so that its pid is the node's."""
    os.execvp(command[0], command)
