"""A node of this project as a target."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from kraftspec.conformance.live.target_verbs import main


def command(arguments: list[str]) -> None:
    """Run the command line in this process, which saves the start of another."""
    sys.argv[1:] = arguments
    runpy.run_module("kraftspec", run_name="__main__", alter_sys=True)


def storage(arguments: list[str]) -> None:
    """Run the storage tool."""
    command(["storage", *arguments])


def node(path: Path) -> None:
    """Run the node until it ends."""
    command(["node", "-c", str(path), "--transfer-leadership", "never"])


if __name__ == "__main__":
    main(storage, node)
