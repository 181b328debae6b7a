"""Real clients and a real broker of Apache Kafka, with the proxy between them."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterator
from itertools import islice

import pytest
from tests.proxy.asked import BROKERS

from kraftspec.conformance.cluster import Cluster
from kraftspec.proxy.background import BackgroundProxy

with warnings.catch_warnings():  # Of kafka-python's imports.
    warnings.simplefilter("ignore")
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic

pytestmark = [pytest.mark.kafka, pytest.mark.filterwarnings("ignore:::kafka")]

TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("proxied")
    with Cluster(directory, controllers=1, brokers=2, release=BROKERS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    """A failure shows all that kafka-python did."""
    caplog.set_level(logging.DEBUG, "kafka")


@pytest.fixture
def proxy() -> Iterator[BackgroundProxy]:
    with BackgroundProxy() as proxy:
        yield proxy


@pytest.fixture
def bootstrap(cluster: Cluster, proxy: BackgroundProxy) -> str:
    """One address of the proxy: the other broker is found through it."""
    return proxy.listen(cluster.bootstrap().split(",")[0])


def make_topic(bootstrap: str, name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, 4, 1)])
    admin.close()


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=1000 * TIMEOUT_S,
    )
    try:
        return sorted(record.value for record in islice(consumer, count))
    finally:
        consumer.close()


def test_kafka_python_retries_what_the_proxy_refuses(
    cluster: Cluster, proxy: BackgroundProxy, bootstrap: str
) -> None:
    make_topic(bootstrap, "retried")
    producer = KafkaProducer(bootstrap_servers=bootstrap, retries=10, acks="all")
    with proxy.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=3) as rule:
        for number in range(20):
            producer.send("retried", b"%02d" % number).get(TIMEOUT_S)
        assert rule.acted == 3
    producer.close()
    with (
        proxy.rule(api="Fetch", direction="response", delay_ms=20) as slow,
        proxy.rule(api="Fetch", direction="response", close="before", nth=1) as closed,
    ):
        assert read(bootstrap, "retried", 20) == [b"%02d" % number for number in range(20)]
        assert slow.acted > 0
        assert closed.acted == 1
    brokers = {int(address.rpartition(":")[2]) for address in cluster.bootstrap().split(",")}
    assert {link.target.address[1] for link in proxy.proxy.links} >= brokers
    assert proxy.reports == []


def test_an_idempotent_producer_whose_acknowledgements_are_lost(
    proxy: BackgroundProxy, bootstrap: str
) -> None:
    """Nothing is lost and nothing is doubled."""
    make_topic(bootstrap, "once")

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            for number in range(20):
                await producer.send_and_wait("once", b"%02d" % number)
        finally:
            await producer.stop()

    async def consume() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            "once", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            values = [(await consumer.getone()).value for _ in range(20)]
            # Nothing more: what was sent last is in the log already.
            more = await consumer.getmany(timeout_ms=500)
        finally:
            await consumer.stop()
        assert not more
        return sorted(value for value in values if value is not None)

    with (
        proxy.rule(api="Produce", direction="response", close="before", every=5, times=3) as lost,
        proxy.rule(api="Produce", duplicate=1, nth=2) as doubled,
    ):
        asyncio.run(asyncio.wait_for(produce(), TIMEOUT_S))
        assert (lost.acted, doubled.acted) == (3, 1)
    values = asyncio.run(asyncio.wait_for(consume(), TIMEOUT_S))
    assert values == [b"%02d" % number for number in range(20)]
    assert proxy.reports == []
