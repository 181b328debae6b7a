"""A plugin of pytest for authors of Kafka clients: a proxy with faults, and what to put behind it.

pytest finds it by itself where kraftspec is installed. Docs: docs/proxy.md.
"""

from __future__ import annotations

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


@pytest.fixture
def kafka_proxy() -> Iterator[BackgroundProxy]:
    """A proxy without rules: ``kafka_proxy.listen("127.0.0.1:9092")`` is where to connect."""
    from kraftspec.proxy.background import BackgroundProxy  # noqa: PLC0415 - see above

    with BackgroundProxy() as proxy:
        yield proxy


@pytest.fixture
def kraft_quorum(tmp_path: Path) -> Iterator[Quorum]:
    """A quorum of three reference nodes on loopback, with a leader."""
    from kraftspec.reference.local.quorum import LocalQuorum  # noqa: PLC0415 - see above

    with Quorum(LocalQuorum(tmp_path / "kraft-quorum", voters=3)) as quorum:
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
