"""One of our nodes as a process in a real Kafka quorum, and its state at the leader."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kraftspec.conformance.cluster import QUORUM_COMMAND, Cluster
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import DescribeQuorumResponse
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.properties import parse_properties

WAIT_S = 90.0  # For a loaded machine. A wait ends as soon as its condition holds.
POLL_S = 0.05
STOP_S = 30.0
METADATA = "__cluster_metadata-0"
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"

Replica = DescribeQuorumResponse.ReplicaState
Described = DescribeQuorumResponse.PartitionData


class CheckFailedError(AssertionError):
    """A condition did not become true in time."""


def wait_until(
    what: str, condition: Callable[[], bool], poll_s: float = POLL_S, timeout_s: float = WAIT_S
) -> None:
    """Wait until a condition holds; CheckFailedError with ``what`` if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise CheckFailedError(f"{what}: not so after {timeout_s:g} s")
        time.sleep(poll_s)


class Ours:
    """One of our nodes: properties, directory, process. It ends with the cluster's processes."""

    def __init__(
        self,
        cluster: Cluster,
        home: Path,
        node_id: int,
        *,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        advertised_port: int | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.cluster = cluster
        self.id = node_id
        self.home = home
        self.port = port or free_port(set())
        self.advertised_port = advertised_port or self.port
        self.options = options
        self.log_dir = home / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self._output_start = 0  # Bytes of output from earlier starts.
        self.properties: dict[str, str] = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(self.log_dir),
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "advertised.listeners": f"CONTROLLER://{HOST}:{self.advertised_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": cluster.controller_bootstrap(),
            **(properties or {}),
        }
        home.mkdir(parents=True)
        self.write_properties()

    def write_properties(self, **changes: str) -> None:
        """Write its properties; in names of ``changes``, ``__`` stands for a dot."""
        self.properties |= {key.replace("__", "."): value for key, value in changes.items()}
        lines = [f"{key}={value}\n" for key, value in self.properties.items()]
        self.properties_path.write_text("".join(lines))

    @property
    def properties_path(self) -> Path:
        """Its properties, as Kafka's own tools read them."""
        return self.home / "node.properties"

    @property
    def output_path(self) -> Path:
        """What its process printed, of all its starts."""
        return self.home / "node.log"

    @property
    def metadata_log(self) -> Path:
        """The directory of its replica of the metadata log."""
        return self.log_dir / METADATA

    @property
    def directory_id(self) -> str:
        """The id of its log directory, in base64."""
        text = (self.log_dir / "meta.properties").read_text()
        return parse_properties(text)["directory.id"]

    def format(self) -> None:
        """Format the directory under a new directory id, as an added controller."""
        meta = MetaProperties(
            cluster_id=self.cluster.cluster_id,
            node_id=self.id,
            directory_id=Uuid.random(),  # Kafka's tools accept no id that starts with "-".
        )
        LogDirectory.format(str(self.log_dir), meta)

    def start(self) -> None:
        """Start its process."""
        assert not self.running()
        command = [sys.executable, "-m", "kraftspec", "node", "-c", str(self.properties_path)]
        with self.output_path.open("ab") as output:
            self._output_start = output.tell()
            self.process = subprocess.Popen(
                [*command, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=next(iter(self.cluster.nodes.values())).process_group,
            )

    def running(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Stop it by SIGTERM: it must shut down cleanly."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(STOP_S)
        if code == -signal.SIGTERM and self.output_path.stat().st_size == self._output_start:
            return  # Python was still loading it: no open file and no signal handler yet.
        if code != 0:
            raise CheckFailedError(f"node {self.id} left with exit code {code}:\n{self.output()}")

    def pause(self) -> None:
        """Pause its process (SIGSTOP) until ``resume``."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_S)

    def wipe(self) -> None:
        """Delete its directory."""
        assert not self.running()
        shutil.rmtree(self.log_dir)

    def output(self) -> str:
        """Return the end of its output."""
        return self.output_path.read_text(errors="replace")[-4000:]

    def quorum_state(self) -> dict[str, int | str]:
        """The content of its quorum-state file; empty before there is one."""
        path = self.metadata_log / "quorum-state"
        fields: dict[str, int | str] = json.loads(path.read_text()) if path.exists() else {}
        return fields

    def add(self) -> None:
        """Make it a voter by Kafka's own tool."""
        self.cluster.add_voter(self.properties_path, self.is_voter)

    def remove(self, directory_id: str | None = None) -> None:
        """Remove it from the voters by Kafka's own tool."""
        self.cluster.tool(
            QUORUM_COMMAND, "--bootstrap-controller", self.cluster.controller_bootstrap(),
            "remove-controller", "-i", str(self.id), "-d", directory_id or self.directory_id,
        )  # fmt: skip

    # ---- its state at the leader ---------------------------------------------------------------

    def replica(self) -> Replica | None:
        """The state of this directory at the leader, a Kafka controller; None if unknown."""
        quorum = describe(self.cluster)
        if quorum is None:
            return None
        for replica in [*quorum.current_voters, *quorum.observers]:
            if replica.replica_id == self.id and str(replica.replica_directory_id) in (
                self.directory_id,
                ZERO,  # A static voter: the leader does not know its directory.
            ):
                return replica
        return None

    def is_voter(self) -> bool:
        """Whether it is a voter at the leader, with this directory."""
        quorum = describe(self.cluster)
        return quorum is not None and (self.id, self.directory_id) in {
            (voter.replica_id, str(voter.replica_directory_id)) for voter in quorum.current_voters
        }

    def wait_caught_up(self) -> None:
        """Wait until the leader knows that it has all records that existed at the call."""
        end_offset = -1

        def is_caught_up() -> bool:
            nonlocal end_offset
            assert self.running(), self.output()
            quorum, replica = describe(self.cluster), self.replica()
            if quorum is None or replica is None:
                return False
            if end_offset < 0:
                end_offset = quorum.high_watermark
            return 0 <= end_offset <= replica.log_end_offset

        wait_until(f"node {self.id} has caught up", is_caught_up)

    def wait_voter(self) -> None:
        """Wait until it is a voter."""
        wait_until(f"node {self.id} is a voter", self.is_voter)


def describe(cluster: Cluster) -> Described | None:
    """Return the leader's view of the quorum, if a live Kafka controller is the leader."""
    for node in cluster.controllers:
        if node.running():
            quorum = cluster.quorum_of(node)
            if quorum is not None:
                return quorum
    return None
