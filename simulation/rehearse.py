"""Run one seed with the nodes of a harness, and let its process end by itself.

A build of a harness does this: a JVM archives at its end the classes that it has loaded.

    python -m kraftspec.simulation.rehearse COMMAND…
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.harness.cores import Core, use_process
from kraftspec.simulation.harness.process import HarnessProcess
from kraftspec.simulation.run import simulate

SEED = 7  # Voters in the log, snapshots, disks that fail: most of what a node does.
EVENTS = 1_500


def rehearse(command: Sequence[str]) -> None:
    """Start a harness, run the seed, and wait for the end of the process."""
    process = HarnessProcess(command)
    core = Core("/rehearsed")
    use_process(core, process)
    simulate(SEED, profile_named("kafka"), events=EVENTS, cores=[core])
    process.finish()


if __name__ == "__main__":
    rehearse(sys.argv[1:])
