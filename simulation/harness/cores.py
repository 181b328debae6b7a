"""Which implementation runs which node: what ``--core`` says."""

from __future__ import annotations

import atexit
import re
import time
import weakref
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.conformance.adapters.harness import AdapterError
from kraftspec.conformance.adapters.registry import find
from kraftspec.reference.raft import Config
from kraftspec.simulation.harness.process import HarnessProcess
from kraftspec.simulation.harness.protocol import PROTOCOL, HarnessError
from kraftspec.simulation.harness.replica import HarnessReplica
from kraftspec.simulation.own import OwnReplica
from kraftspec.simulation.replica import Replica, Surroundings
from kraftspec.simulation.rng import Rng

OWN: Final = "kraftspec"
FOLDER: Final = Path(str(files("kraftspec.simulation.harness")))
_NODE = re.compile(r"(?:node|leader) (\d+)\b(?!:)")
_SHARE = re.compile(r"(?P<core>.+?)(?:=(?P<percent>[0-9]{1,3})%)?")


class Core(msgspec.Struct, frozen=True):
    """An implementation: ours, ``NAME:RELEASE`` of a folder here, or the path of a program."""

    name: str
    percent: int | None = None  # Of the nodes; None: in turns.

    def __str__(self) -> str:
        return self.name if self.percent is None else f"{self.name}={self.percent}%"

    @property
    def is_own(self) -> bool:
        """Whether it is ours."""
        return self.name == OWN

    @property
    def is_program(self) -> bool:
        """Whether it is a program of the user's."""
        return "/" in self.name

    @property
    def folder_and_release(self) -> tuple[str, str]:
        """The folder of its harness, and the release; none of a program of the user's."""
        if self.is_program or self.is_own:
            return "", ""
        name, _, release = self.name.partition(":")
        return name, release or find(name, FOLDER).version

    @property
    def command(self) -> list[str]:
        """The command that starts its harness, which is built where it has changed.

        Raises:
            HarnessError: there is none of that name, or it cannot be built here.
        """
        if self.is_program:
            return [self.name]
        name, _, release = self.name.partition(":")
        try:
            return find(f"{name}@{release}" if release else name, FOLDER).command()
        except (ValueError, AdapterError) as error:
            raise HarnessError(str(error)) from error


def parse_cores(text: str) -> tuple[Core, ...]:
    """Read ``kafka:4.3.1``, ``kafka:4.3.1,kraftspec`` or ``kafka:4.3.1=60%,kraftspec=40%``.

    Raises:
        ValueError: it is none of these.
    """
    cores = []
    for part in text.split(","):
        matched = _SHARE.fullmatch(part.strip())
        if matched is None:
            raise ValueError(f"{part!r} is not a core, such as kafka:4.3.1, or a core with =40%")
        percent = matched["percent"]
        cores.append(Core(matched["core"], None if percent is None else int(percent)))
    shares = [core.percent for core in cores if core.percent is not None]
    if shares and (len(shares) < len(cores) or sum(shares) != 100):  # noqa: PLR2004 - per cent.
        raise ValueError(f"{text!r}: give each core its share, 100 % in all, or none of them")
    return tuple(cores)


_PROCESSES: Final[dict[Core, HarnessProcess]] = {}


def process_of(core: Core) -> HarnessProcess:
    """Return the process of a core, which all runs share; one that has failed gives way."""
    process = _PROCESSES.get(core)
    if process is None or process.is_closed:
        process = _PROCESSES[core] = HarnessProcess(core.command)
    return process


def use_process(core: Core, process: HarnessProcess) -> None:
    """Let a core have a process that was started otherwise."""
    _PROCESSES[core] = process


@atexit.register
def close_processes() -> None:
    """End all processes; the next run begins with new ones."""
    while _PROCESSES:
        _PROCESSES.popitem()[1].close()


def lacking_capabilities(cores: Sequence[Core]) -> frozenset[str]:
    """Return what some of these cores cannot, of what a run may ask of its nodes."""
    others = (core for core in dict.fromkeys(cores) if not core.is_own)
    return frozenset(
        name
        for core in others
        for name in PROTOCOL.capabilities.keys() - process_of(core).capabilities
    )


def cpu_seconds(cores: Sequence[Core]) -> float:
    """Return the processor time that this process and those of cores have used so far."""
    others = (process_of(core).cpu_seconds() for core in dict.fromkeys(cores) if not core.is_own)
    return time.process_time() + sum(others)


class RunCores:
    """The cores of one run: ``replica`` makes each node.

    Node by node in turns, or by shares that the seed draws. A node that gets a new disk keeps its
    core.
    """

    def __init__(self, cores: Sequence[Core], seed: int) -> None:
        self._cores = cores
        self._rng = Rng(seed ^ 0xC04E)
        self._of_node: dict[int, Core] = {}
        self._runs: dict[Core, int] = {}

    def core_of(self, node_id: int) -> Core:
        """Return the core of a node."""
        core = self._of_node.get(node_id)
        if core is None:
            core = self._of_node[node_id] = self._draw(node_id)
        return core

    def _draw(self, node_id: int) -> Core:
        if self._cores[0].percent is None:
            return self._cores[node_id % len(self._cores)]
        drawn = self._rng.below(100)
        for core in self._cores:
            drawn -= core.percent or 0
            if drawn < 0:
                return core
        raise AssertionError("the shares are 100 % in all")

    def cores_of(self, text: str) -> list[Core]:
        """Return the core of the node that a breach begins with; all cores if it names none."""
        named = _NODE.match(text)
        return [self.core_of(int(named[1]))] if named else list(dict.fromkeys(self._cores))

    def replica(
        self, world: Surroundings, config: Config, first_files: Mapping[str, bytes] | None
    ) -> Replica:
        """Return a node with a new disk."""
        core = self.core_of(config.node_id)
        if core.is_own:
            return OwnReplica(world, config, first_files)
        process = process_of(core)
        run = self._runs.get(core)
        if run is None:
            run = self._runs[core] = process.new_run()
            weakref.finalize(self, process.forget, run).atexit = False
        return HarnessReplica(world, config, first_files, process, run)
