"""One node of a cluster: its properties, its directory, its process."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kraftspec.conformance.cluster.artifacts import RELEASE, ClusterError, java_command
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request

HOST = "127.0.0.1"
HEALTHY_TIMEOUT_S = 180.0  # A start takes ten seconds, and much longer on a busy machine.
STOP_TIMEOUT_S = 30.0  # A controlled shutdown waits for its leaders to move.
POLL_S = 0.1
REQUEST_TIMEOUT_S = 2.0
LOG_LINE_COUNT_MAX = 25
# Below the range from which Linux takes the ports of outgoing connections: a node that is started
# again must find its own port free. Who runs several programs side by side gives each its own part.
_FIRST, _, _LAST = os.environ.get("KRAFTSPEC_PORTS", "15000-31999").partition("-")
PORTS = range(int(_FIRST), int(_LAST) + 1)
_LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"


def free_port(taken: set[int], ports: range | None = None) -> int:
    """Return a free port of loopback, from ``PORTS`` or others, and add it to ``taken``."""
    ports = PORTS if ports is None else ports
    for port in random.sample(ports, len(ports)):
        if port in taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        taken.add(port)
        return port
    raise ClusterError(f"every port from {ports.start} to {ports.stop - 1} is in use")


@dataclass(frozen=True, slots=True)
class Listener:
    """The port on which a node listens, and the advertised port (the same, or a proxy's)."""

    name: str
    port: int
    advertised_port: int


@dataclass(slots=True)
class Node:
    """A controller or a broker. ``start`` and ``wait_healthy`` are two steps: nodes start at once.

    Attributes:
        roles: ``controller``, ``broker``, or both with a comma.
        directory: holds ``node.properties``, ``data`` (its log directories) and ``node.log``.
        directory_id: the directory id (base64) that it is formatted with as a first voter.
        process_group: what its process joins, so that a guard can end it.
        release: of Kafka; a node that is stopped and started again may have another one.
        command: what starts it, followed by the path of its properties; empty is Kafka's server.
    """

    id: int
    roles: str
    directory: Path
    listeners: tuple[Listener, ...]
    properties: dict[str, str]
    heap_mib: int
    process_group: int
    release: str = RELEASE
    directory_id: str | None = None
    extra_class_path: tuple[Path, ...] = ()
    java_options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def listener(self, name: str | None = None) -> Listener:
        """Return its listener of that name, or its first."""
        return next(one for one in self.listeners if name in (None, one.name))

    @property
    def log_path(self) -> Path:
        """The file with the output of its process, from all starts."""
        return self.directory / "node.log"

    @property
    def properties_path(self) -> Path:
        """The file of its properties, in the format of Kafka's tools."""
        return self.directory / "node.properties"

    @property
    def metadata_log(self) -> Path:
        """The directory of its replica of the metadata log."""
        first = self.properties["log.dirs"].split(",")[0]
        return Path(first) / "__cluster_metadata-0"

    def write_properties(self, changes: Mapping[str, str] | None = None) -> None:
        """Write its properties with ``changes``. A running node does not read them."""
        self.properties.update(changes or {})
        lines = [f"{key}={value}" for key, value in self.properties.items()]
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties_path.write_text("\n".join([*lines, ""]), encoding="utf-8")

    def running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start its process. ``ClusterError`` if it is running."""
        if self.running():
            raise ClusterError(f"node {self.id} runs already")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                process_group=self.process_group,
            )

    def _command(self) -> list[str]:
        if self.command:
            return [*self.command, str(self.properties_path)]
        return java_command(
            "kafka.Kafka",
            str(self.properties_path),
            release=self.release,
            heap_mib=self.heap_mib,
            options=[_LOG_LEVEL, *self.java_options],
            extra_class_path=self.extra_class_path,
        )

    def wait_healthy(self, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
        """Wait until it serves: metadata is loaded, and a broker is registered and unfenced.

        Raises:
            ClusterError: its process ended, or it is not healthy after ``timeout_s``.
        """
        self.wait(self._healthy, "healthy", timeout_s)

    def wait(
        self, condition: Callable[[], bool], what: str, timeout_s: float = HEALTHY_TIMEOUT_S
    ) -> None:
        """Wait until ``condition`` holds. In it, an unreachable node has not started yet."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.running():
                code = None if self.process is None else self.process.returncode
                raise ClusterError(f"node {self.id} ended (exit code {code}):\n{self.log_tail()}")
            try:
                if condition():
                    return
            except (OSError, CodecError):
                pass
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"node {self.id} is not {what} after {timeout_s:g} s:\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def _healthy(self) -> bool:
        port = self.listener().port
        request = api_versions_request(3)
        versions = ask(port, request, 3, ApiVersionsResponse, timeout_s=REQUEST_TIMEOUT_S)
        # Only an active controller and its followers of Kafka have features to tell.
        if versions.error_code != 0 or (versions.finalized_features_epoch < 0 and not self.command):
            return False
        if "broker" not in self.roles:
            return True
        known = ask(
            port, MetadataRequest(topics=[]), 12, MetadataResponse, timeout_s=REQUEST_TIMEOUT_S
        )
        return self.id in {broker.node_id for broker in known.brokers}

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """Stop it by SIGTERM, and by SIGKILL if that has no effect.

        Returns its exit code, None if it was not running.
        """
        if self.process is None or not self.running():
            return None
        self.process.send_signal(signal.SIGCONT)  # A paused process handles no other signal.
        self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int | None:
        """Kill it by SIGKILL; return its exit code, None if it was not running."""
        if self.process is None:
            return None
        self.process.kill()
        return self.process.wait()

    def pause(self) -> None:
        """Pause its process (SIGSTOP) until ``resume``; return when all threads have stopped."""
        self._signal(signal.SIGSTOP)
        assert self.process is not None
        # Its threads stop one by one, and running ones would still answer.
        if hasattr(os, "waitid"):  # Python 3.13 is the first that has it on macOS.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue a paused process."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or not self.running():
            raise ClusterError(f"node {self.id} does not run")
        self.process.send_signal(number)

    def log_tail(self) -> str:
        """Return the last lines of its output."""
        if not self.log_path.exists():
            return "(it printed nothing)"
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINE_COUNT_MAX:])
