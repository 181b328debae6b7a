"""Controllers as processes, ours and Apache Kafka's: the same properties and requests.

Directories are formatted by ours for both: Kafka starts on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kraftspec.conformance.cluster import (
    QUORUM_COMMAND,
    RELEASE,
    TOOLS_RELEASE,
    class_path,
    java_command,
)
from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.admin import AdminError, ClientConfig, QuorumInfo
from kraftspec.reference.admin.client import ask_quorum
from kraftspec.reference.admin.connection import Connection
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.log.properties import parse_properties

from .turns import ROOT

OURS = "kraftspec"
KAFKA = "Kafka, as its script starts it"
LEAN = "Kafka, small heap and class archive"
EVERYONE = (OURS, KAFKA, LEAN)

PATIENCE_S = 120.0
POLL_S = 0.005
ANSWER_S = 0.5  # A node that starts may take a connection and not answer yet.
# Where each contestant's ports are looked for: below those of outgoing connections.
# What kafka-run-class.sh gives every program, and the heaps of kafka-server-start.sh and of tools.
SCRIPT_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
TOOL_HEAP = ("-Xmx256M",)
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


def environment() -> dict[str, str]:
    """Return the environment of all programs: compiled modules are kept, as pip leaves them.

    Where this Python may not write any, each start would compile click anew.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(ROOT / ".benchmarks" / "compiled")}


def server_command(who: str, properties: Path) -> list[str]:
    """Return the command that runs a controller."""
    if who == OURS:
        return [sys.executable, "-m", "kraftspec", "node", "--config", str(properties)]
    return java(who, RELEASE, "kafka.Kafka", SERVER_HEAP, str(properties))


def tool_command(who: str, *arguments: str) -> list[str]:
    """Return the command that runs the quorum tool."""
    if who == OURS:
        return [sys.executable, "-m", "kraftspec", "quorum", *arguments]
    return java(who, TOOLS_RELEASE, QUORUM_COMMAND, TOOL_HEAP, *arguments)


def java(
    who: str, release: str, main_class: str, heap: tuple[str, ...], *arguments: str
) -> list[str]:
    """Return the command of one of a release's programs."""
    if who == LEAN:
        make_class_archive(release)
        return java_command(main_class, *arguments, release=release, options=[QUIET])
    paths = os.pathsep.join(map(str, class_path(release)))
    return ["java", *heap, *SCRIPT_OPTIONS, QUIET, "-cp", paths, main_class, *arguments]


class Controllers:
    """Some controllers of one contestant, formatted and not started; ``with`` ends them all."""

    def __init__(self, who: str, directory: Path, count: int) -> None:
        self.who = who
        quorum = LocalQuorum(directory, voters=count, first_port=free_port(set()))
        self.properties = quorum.properties
        self.addresses = {
            node_id: parse_properties(path.read_text("latin-1"))["listeners"].partition("//")[2]
            for node_id, path in quorum.properties.items()
        }
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._output = (directory / "output").open("ab")

    def __enter__(self) -> Controllers:
        return self

    def __exit__(self, *_: object) -> None:
        for node_id in list(self.processes):
            self.kill(node_id)
        self._output.close()

    def start(self, node_id: int) -> None:
        """Start one."""
        path = self.properties[node_id]
        self.processes[node_id] = subprocess.Popen(
            server_command(self.who, path),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=path.parent,  # Kafka writes its logs to its working directory.
        )

    def kill(self, node_id: int) -> None:
        """End one as a crash does."""
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def wait(self, condition: Callable[[QuorumInfo], bool]) -> QuorumInfo:
        """Poll the running controllers until an answer meets the condition.

        Each is polled alone: one that does not lead returns an error, and the next is polled.
        """
        deadline = time.monotonic() + PATIENCE_S
        monitors = [LeaderMonitor(self.addresses[node_id]) for node_id in self.processes]
        try:
            while time.monotonic() < deadline:
                for monitor in monitors:
                    quorum = monitor.look()
                    if quorum is not None and condition(quorum):
                        return quorum
                for node_id, process in self.processes.items():
                    assert process.poll() is None, f"{self.who}, node {node_id}: {self._tail()}"
                time.sleep(POLL_S)
        finally:
            for monitor in monitors:
                monitor.close()
        raise TimeoutError(f"{self.who}: the condition was not met within {PATIENCE_S:.0f} s")

    def _tail(self) -> str:
        """Return the end of what the processes printed."""
        return Path(self._output.name).read_text("utf-8", errors="replace")[-2000:]

    def resident_bytes(self, node_id: int) -> int:
        """Return how much memory a node has (VmRSS)."""
        status = Path(f"/proc/{self.processes[node_id].pid}/status").read_text("utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10


class LeaderMonitor:
    """A node that is polled on one connection, as long as that stays open."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self.connection: Connection | None = None

    def look(self) -> QuorumInfo | None:
        """Return the answer of the node if it leads; None if it does not, or cannot be reached."""
        deadline_s = time.monotonic() + ANSWER_S
        try:
            if self.connection is None:
                self.connection = Connection(self.host, self.port, ClientConfig(), deadline_s)
            return ask_quorum(self.connection, deadline_s)
        except AdminError:
            return None
        except (OSError, CodecError):
            self.close()
            return None

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def is_serving(quorum: QuorumInfo) -> bool:
    """Whether there is a leader that has committed a record of its epoch."""
    return quorum.leader_id >= 0 and quorum.high_watermark >= 0
