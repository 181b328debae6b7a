"""What stands before a client: the scripted broker or Kafka, and the fault proxy before it."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftspec.conformance.clients.broker import TOPIC, ScriptedCluster
from kraftspec.conformance.clients.exchange_files import Exchange
from kraftspec.conformance.clients.tape import ProxyTape, transcript_of_client
from kraftspec.fastpath import iterate_records
from kraftspec.generated.kafka import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from kraftspec.loop_thread import LoopThread
from kraftspec.proxy.recorder import Recorder
from kraftspec.proxy.server import FaultProxy
from kraftspec.reference.wire.blocking import ask

if TYPE_CHECKING:
    from kraftspec.conformance.report.transcript import Transcript
    from kraftspec.proxy.frame import Frame

_READY_S = 60.0


class _Counter(Recorder):
    """Notes the requests that pass, in the place of the proxy's recorder."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []

    def write(self, frame: Frame, node: str) -> None:
        if frame.direction == "request":
            self.requests.append((frame.exchange.name, frame.exchange.version))


class Stage:
    """``with Stage(thread, exchange, …) as stage``; ``bootstrap`` is for the client.

    With ``kafka_port`` that broker is behind the proxy, in the place of the scripted one.
    """

    def __init__(
        self,
        thread: LoopThread,
        exchange: Exchange,
        *,
        kafka_port: int | None = None,
        certificates: Path | None = None,
        client_s: float = 0.0,
    ) -> None:
        self.exchange = exchange
        self._client_s = client_s
        self.bootstrap = ""
        self._thread = thread
        self._kafka_port = kafka_port
        self._certificates = certificates
        self._cluster: ScriptedCluster | None = None
        self._proxy: FaultProxy | None = None
        self._counter = _Counter()
        self._at_proxy = transcript_of_client()
        self.topic = TOPIC if kafka_port is None else f"{exchange.name}-{time.time_ns()}"

    def __enter__(self) -> Stage:
        if self._kafka_port is not None:
            self._make_topic(self._kafka_port)
        self._thread.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._close())

    def check(self) -> None:
        """Raise what went wrong in the scripted broker itself."""
        if self._cluster is not None and self._cluster.failure is not None:
            raise self._cluster.failure

    def unmet(self) -> list[str]:
        """Return what the client has not met of what is wrong here: the APIs."""
        rules = [] if self._proxy is None else self._proxy.engine.rules
        scripted = [] if self._cluster is None else self._cluster.script.unmet()
        return [str(one.rule.api) for one in rules if not one.acted] + scripted

    def requests(self) -> list[tuple[str, int]]:
        """Return API and version of what the client has sent, in order."""
        if self._proxy is not None:
            return self._counter.requests
        return [] if self._cluster is None else self._cluster.requests

    @property
    def transcript(self) -> Transcript:
        """What the client has sent and got."""
        if self._proxy is not None or self._cluster is None:
            return self._at_proxy
        return self._cluster.transcript

    def values(self) -> list[str]:
        """Return the values in the log that the client has produced."""
        if self._cluster is not None:
            return self._cluster.values()
        assert self._kafka_port is not None
        return _values_of(self._kafka_port, self.topic)

    def authority(self) -> Path:
        """Return the file of the authority that the client trusts."""
        assert self._certificates is not None
        return self._certificates / "authority.pem"

    async def _open(self) -> None:
        port = self._kafka_port
        if port is None:
            tls = None
            if self.exchange.given.tls not in (None, "not-tls"):
                assert self._certificates is not None
                tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                tls.load_cert_chain(self._certificates / f"{self.exchange.given.tls}.pem")
            self._cluster = await ScriptedCluster(self.exchange, tls, self._client_s).__aenter__()
            port = self._cluster.ports[1]
        if self.exchange.rules or self._kafka_port is not None:
            self._proxy = FaultProxy(self.exchange.rules, must_rewrite=True)
            self._proxy.engine.record_to(self._counter)
            self._proxy.capture_by(ProxyTape(self._at_proxy, self._broker_at))
            port = (await self._proxy.listen(("127.0.0.1", port))).address[1]
        self.bootstrap = f"127.0.0.1:{port}"

    def _broker_at(self, port: int) -> int:
        """Return the id of the broker behind a port of the proxy; Kafka's is 1."""
        assert self._proxy is not None
        behind = {link.address[1]: link.target.address[1] for link in self._proxy.links}
        ports = {} if self._cluster is None else self._cluster.ports
        return next((node for node, one in ports.items() if one == behind[port]), 1)

    async def _close(self) -> None:
        if self._proxy is not None:
            for connection in list(self._proxy.connections):
                connection.close("reset")
            await self._proxy.close()
        if self._cluster is not None:
            await self._cluster.__aexit__()
        await asyncio.sleep(0)

    def _make_topic(self, port: int) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=self.topic, num_partitions=1, replication_factor=1
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        ask(port, request, 7, CreateTopicsResponse, timeout_s=_READY_S)
        until = time.monotonic() + _READY_S
        wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=self.topic)])
        while time.monotonic() < until:
            state = ask(port, wanted, 9, MetadataResponse).topics[0]
            if not state.error_code and state.partitions and state.partitions[0].leader_id >= 0:
                return
            time.sleep(0.02)
        raise TimeoutError(f"Kafka has no leader for {self.topic}")


def _values_of(port: int, topic: str) -> list[str]:
    values: list[str] = []
    offset = 0
    while True:
        part = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])])
        partition: Any = ask(port, request, 12, FetchResponse).responses[0].partitions[0]
        if not partition.records:
            if offset >= partition.high_watermark:
                return values
            continue
        for record in iterate_records(bytes(partition.records)):
            values.append(bytes(record.value or b"").decode(errors="replace"))
            offset = record.offset + 1
