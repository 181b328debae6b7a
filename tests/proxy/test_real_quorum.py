"""Controllers and a broker of Kafka's, who know each other by addresses of the proxy alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.proxy.asked import BROKERS

from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster.cluster import CONTROLLER
from kraftspec.proxy.background import BackgroundProxy

pytestmark = pytest.mark.kafka

WAIT_S = 180.0
VOTES = 6  # More than one election of two candidates has.


def wait_until(is_so: Callable[[], object]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)


@pytest.fixture
def proxy() -> Iterator[BackgroundProxy]:
    with BackgroundProxy() as proxy:
        yield proxy


def test_rules_between_controllers_and_a_broker(
    proxy: BackgroundProxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def front(name: str, port: int) -> int:
        address = proxy.listen(f"127.0.0.1:{port}", node_id=int(name.split()[1]))
        return int(address.rpartition(":")[2])

    directory = tmp_path_factory.mktemp("behind")
    with Cluster(directory, controllers=3, brokers=1, front=front, release=BROKERS) as cluster:
        with (
            proxy.error("BrokerHeartbeat", "NOT_CONTROLLER", times=2) as refused,
            proxy.rule(api="Fetch", client_id="raft-client-*", delay_ms=20, times=5) as delayed,
            proxy.rule(api="Fetch", direction="response", close="before", nth=3) as closed,
        ):
            wait_until(lambda: (refused.acted, delayed.acted, closed.acted) == (2, 5, 1))
        leader = cluster.leader()
        others = [node for node in cluster.controllers if node is not leader]
        with proxy.rule(api="Vote", drop=True) as dropped:
            leader.kill()
            # No candidate hears of a vote: each goes on asking, and none leads.
            wait_until(lambda: dropped.acted >= VOTES)
            assert all(cluster.quorum_of(node) is None for node in others)
        second = cluster.leader(WAIT_S)
        assert second in others
        # What nodes tell of each other are the proxy's addresses.
        answer = cluster.describe_quorum(second)
        told = {
            (listener.name, listener.port) for node in answer.nodes for listener in node.listeners
        }
        ours = {(CONTROLLER, node.listener().advertised_port) for node in cluster.controllers}
        assert told == ours
        assert {node.listener().port for node in cluster.controllers}.isdisjoint(
            port for _, port in told
        )
    assert not [text for text in proxy.reports if not text.startswith("no connection to")]
