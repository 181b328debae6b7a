"""A plugin of pytest for authors of Kafka clients: a proxy with faults, and what to put behind it.

pytest finds it by itself where kraftspec is installed. Docs: docs/proxy.md.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import pytest

from kraftspec.loop_thread import LoopThread

# Each fixture imports what it needs: pytest loads this module in every run.
if TYPE_CHECKING:
    from kraftspec.conformance.cluster import Cluster
    from kraftspec.proxy.background import BackgroundProxy
    from kraftspec.reference.local.quorum import LocalQuorum

TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.05

_Result = TypeVar("_Result")


class Quorum:
    """A quorum of three reference nodes in a thread. ``quorum`` is for coroutines in ``run``."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self.quorum = quorum
        self._thread = LoopThread("kraftspec quorum", 2 * TIMEOUT_S)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self.quorum.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.quorum.stop())
        finally:
            self._thread.stop()

    @property
    def bootstrap(self) -> str:
        """The addresses of the voters: ``HOST:PORT,…``."""
        return self.quorum.bootstrap

    def leader_id(self) -> int:
        """Return the id of the leader, once there is one."""
        return self.run(self.quorum.wait_leader(TIMEOUT_S)).config.node_id

    def address(self, node_id: int) -> str:
        """Return ``HOST:PORT`` of a node that runs."""
        ((host, port), *_) = self.quorum.nodes[node_id].listeners.values()
        return f"{host}:{port}"

    def kill(self, node_id: int) -> None:
        """End a node: its connections are gone."""
        self.run(self.quorum.kill(node_id))

    def start(self, node_id: int) -> None:
        """Start a node that was ended."""
        self.run(self.quorum.start(node_id))

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine in the thread of the nodes."""
        return self._thread.run(work)


def _laid_out(directory: Path, voters: int) -> LocalQuorum:
    """Return a quorum whose ports begin at a random one: tests may run beside each other."""
    from kraftspec.conformance.cluster.node import free_port  # noqa: PLC0415 - see above
    from kraftspec.reference.local.quorum import LocalQuorum  # noqa: PLC0415 - see above

    return LocalQuorum(directory, voters=voters, first_port=free_port(set()))


class ProcessQuorum:
    """The same with each node in a process of its own: ``kill`` is a SIGKILL.

    ``processes`` are those that run, by node id. What a node prints is in its directory.
    """

    def __init__(self, directory: Path, voters: int = 3) -> None:
        """Lay the nodes out and format them."""
        from kraftspec.conformance.cluster.guard import Guard  # noqa: PLC0415 - see above

        self._quorum = _laid_out(directory, voters)
        self._guard = Guard()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for node_id in self._quorum.properties:
            self.start(node_id)
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.close()
        for process in self.processes.values():
            process.wait()

    @property
    def bootstrap(self) -> str:
        """The addresses of the voters: ``HOST:PORT,…``."""
        return self._quorum.bootstrap

    def leader_id(self) -> int:
        """Return the id of the leader, once there is one; TimeoutError where none is in time."""
        from kraftspec.conformance.cluster.cluster import quorum_at  # noqa: PLC0415 - see above

        until_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until_s:
            for node_id in self.processes:
                if quorum_at(int(self.address(node_id).rpartition(":")[2])) is not None:
                    return node_id
            time.sleep(POLL_S)
        raise TimeoutError(f"no node led within {TIMEOUT_S:g} s; {self._quorum.directory}/*/*.log")

    def address(self, node_id: int) -> str:
        """Return ``HOST:PORT`` of a node."""
        from kraftspec.reference.node.config import load_config  # noqa: PLC0415 - see above

        listener = load_config(self._quorum.properties[node_id]).listeners[0]
        return f"{listener.host}:{listener.port}"

    def kill(self, node_id: int) -> None:
        """End a node by SIGKILL."""
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def start(self, node_id: int) -> None:
        """Start a node that does not run."""
        path = self._quorum.properties[node_id]
        command = [sys.executable, "-m", "kraftspec", "node", "--config", str(path)]
        with (path.parent / "node.log").open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._guard.process_group,
            )


@pytest.fixture
def kafka_proxy() -> Iterator[BackgroundProxy]:
    """A proxy without rules: ``kafka_proxy.listen("127.0.0.1:9092")`` is where to connect."""
    from kraftspec.proxy.background import BackgroundProxy  # noqa: PLC0415 - see above

    with BackgroundProxy() as proxy:
        yield proxy


@pytest.fixture
def kraft_quorum(tmp_path: Path) -> Iterator[Quorum]:
    """A quorum of three reference nodes on loopback, with a leader."""
    with Quorum(_laid_out(tmp_path / "kraft-quorum", voters=3)) as quorum:
        quorum.leader_id()
        yield quorum


@pytest.fixture
def kraft_quorum_processes(tmp_path: Path) -> Iterator[ProcessQuorum]:
    """The same with a process for each node: ``kill`` is a SIGKILL."""
    with ProcessQuorum(tmp_path / "kraft-quorum") as quorum:
        quorum.leader_id()
        yield quorum


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and a broker of Apache Kafka from Maven, for all tests of a run.

    Where there is no JDK or no Maven, tests with this fixture are skipped.
    """
    from kraftspec.conformance.adapters.registry import java_missing  # noqa: PLC0415 - see above
    from kraftspec.conformance.cluster import Cluster  # noqa: PLC0415 - see above

    missing = java_missing()
    if missing is not None:
        pytest.skip(missing)
    with Cluster(tmp_path_factory.mktemp("kafka"), controllers=1, brokers=1) as cluster:
        yield cluster
