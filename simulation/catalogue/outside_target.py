"""A node of this project with a seeded bug as a target of the live suite: ``BUG`` comes first."""

from __future__ import annotations

import sys
from pathlib import Path

from kraftspec.conformance.live import target_kraftspec
from kraftspec.conformance.live.target_verbs import main
from kraftspec.simulation.catalogue import planted


def node(path: Path) -> None:
    """Run the node with the bug until it ends."""
    with planted(BUG):
        target_kraftspec.node(path)


if __name__ == "__main__":
    BUG = sys.argv.pop(1)
    main(target_kraftspec.storage, node)
