"""Controllers as processes, ours and Apache Kafka's: of the same properties, asked the same.

Directories are formatted by ours for both: Kafka starts on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kraftspec.conformance.cluster import class_path, java_command
from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.admin import AdminError, ClientConfig, QuorumInfo
from kraftspec.reference.admin.client import ask_quorum
from kraftspec.reference.admin.connection import Connection
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.node.local import LocalQuorum

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

    Where this Python is told not to write any, each start would compile click anew.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(ROOT / ".benchmarks" / "compiled")}


def server_command(who: str, properties: Path) -> list[str]:
    """Return the command that runs a controller."""
    if who == OURS:
        return [sys.executable, "-m", "kraftspec", "node", "--config", str(properties)]
    return java(who, "kafka.Kafka", SERVER_HEAP, str(properties))


def tool_command(who: str, *arguments: str) -> list[str]:
    """Return the command that runs the quorum tool."""
    if who == OURS:
        return [sys.executable, "-m", "kraftspec", "quorum", *arguments]
    return java(who, "org.apache.kafka.tools.MetadataQuorumCommand", TOOL_HEAP, *arguments)


def java(who: str, main_class: str, heap: tuple[str, ...], *arguments: str) -> list[str]:
    """Return the command of one of Kafka's programs."""
    if who == LEAN:
        make_class_archive()
        return java_command(main_class, *arguments, options=[QUIET])
    paths = os.pathsep.join(map(str, class_path()))
    return ["java", *heap, *SCRIPT_OPTIONS, QUIET, "-cp", paths, main_class, *arguments]


class Controllers:
    """Some controllers of one contestant, formatted and not started; ``with`` ends them all."""

    def __init__(self, who: str, directory: Path, count: int) -> None:
        self.who = who
        made = LocalQuorum(directory, voters=count, first_port=free_port(set()))
        self.properties = made.properties
        self.addresses = {
            node_id: parse_properties(path.read_text("latin-1"))["listeners"].partition("//")[2]
            for node_id, path in made.properties.items()
        }
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._said = (directory / "said").open("ab")

    def __enter__(self) -> Controllers:
        return self

    def __exit__(self, *_: object) -> None:
        for node_id in list(self.processes):
            self.kill(node_id)
        self._said.close()

    def start(self, node_id: int) -> None:
        """Start one."""
        path = self.properties[node_id]
        self.processes[node_id] = subprocess.Popen(
            server_command(self.who, path),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=path.parent,  # Kafka's logs would go where it is started.
        )

    def kill(self, node_id: int) -> None:
        """End one as a crash does."""
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def wait(self, condition: Callable[[QuorumInfo], bool]) -> QuorumInfo:
        """Ask those that run, again and again, until somebody's answer is as it should be.

        Each is asked for itself: whoever does not lead says so, and the next is asked.
        """
        deadline = time.monotonic() + PATIENCE_S
        everyone = [Asked(self.addresses[node_id]) for node_id in self.processes]
        try:
            while time.monotonic() < deadline:
                for asked in everyone:
                    found = asked.look()
                    if found is not None and condition(found):
                        return found
                for node_id, process in self.processes.items():
                    assert process.poll() is None, f"{self.who}, node {node_id}: {self._tail()}"
                time.sleep(POLL_S)
        finally:
            for asked in everyone:
                asked.close()
        raise TimeoutError(f"{self.who}: not as it should be within {PATIENCE_S:.0f} s")

    def _tail(self) -> str:
        """Return the end of what the processes printed."""
        return Path(self._said.name).read_text("utf-8", errors="replace")[-2000:]

    def resident_bytes(self, node_id: int) -> int:
        """Return how much memory a node has (VmRSS)."""
        status = Path(f"/proc/{self.processes[node_id].pid}/status").read_text("utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10


class Asked:
    """A node that is asked again and again, on one connection as long as that holds."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self.connection: Connection | None = None

    def look(self) -> QuorumInfo | None:
        """Return what the node says if it leads; None where it does not, or is not there."""
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
        """Hang up."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def is_serving(found: QuorumInfo) -> bool:
    """Whether a leader is there that has committed a record of its epoch."""
    return found.leader_id >= 0 and found.high_watermark >= 0
