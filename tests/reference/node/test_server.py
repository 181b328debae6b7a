"""Peers that send malformed frames, nothing or too much lose their connections."""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.reference.node.quorum import WAIT_S, Quorum, committed_bytes, run, seen

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.generated.kafka import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteRequest,
)
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.node.server import Server
from kraftspec.reference.node.settings import Limits, Listener
from kraftspec.reference.wire.frames import (
    read_correlation_id,
    read_request_head,
    read_response,
    request_header,
    sized,
)

# The long form is what `make interop` runs.
MALFORMED = int(os.environ.get("KRAFTSPEC_MALFORMED_FRAMES", "2000"))
DISCONNECTS = MALFORMED // 10
AT_ONCE = 32
OTHER_CLUSTER = "YW5vdGhlci1jbHVzdGVyLQ"
TOPIC_ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")


def request_bytes(message: Any, version: int, correlation_id: int = 7) -> bytes:
    body: bytes = message.encode(version)
    return request_header(type(message), version, correlation_id, "test") + body


def fetch(offset: int = 0, epoch: int = 0, **changes: Any) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=0
    )
    topic = FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(topics=[topic], max_bytes=1 << 20, **changes)


def samples() -> list[tuple[Any, int]]:
    """Requests to be spoilt, of every kind; what could move an epoch is another cluster's."""
    vote = VoteRequest.PartitionData(
        replica_epoch=1000, replica_id=1, last_offset_epoch=900, last_offset=1 << 40
    )
    begin = BeginQuorumEpochRequest.PartitionData(leader_id=2, leader_epoch=1000)
    snapshot = FetchSnapshotRequest.PartitionSnapshot(partition=0, current_leader_epoch=1)
    return [
        (ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4),
        (quorum_request(kafka), 2),
        (DescribeClusterRequest(endpoint_type=2), 2),
        (fetch(cluster_id=OTHER_CLUSTER), 17),
        (
            FetchSnapshotRequest(
                cluster_id=OTHER_CLUSTER,
                topics=[
                    FetchSnapshotRequest.TopicSnapshot(
                        name="__cluster_metadata", partitions=[snapshot]
                    )
                ],
            ),
            1,
        ),
        (
            VoteRequest(
                cluster_id=OTHER_CLUSTER,
                topics=[VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[vote])],
            ),
            2,
        ),
        (
            BeginQuorumEpochRequest(
                cluster_id=OTHER_CLUSTER,
                topics=[
                    BeginQuorumEpochRequest.TopicData(
                        topic_name="__cluster_metadata", partitions=[begin]
                    )
                ],
            ),
            1,
        ),
    ]


def is_refused(data: bytes, kind: Any, version: int) -> bool:
    """Whether bytes are no request of that kind, header or body."""
    try:
        kind.decode(data[read_request_head(data, kind).body_at :], version)
    except CodecError:
        return True
    return False


def malformed(draw: random.Random) -> Iterator[bytes]:
    """Yield frames that are no requests, without end."""
    known = [
        (request_bytes(message, version), type(message), version) for message, version in samples()
    ]
    while True:
        data, kind, version = draw.choice(known)
        how = draw.randrange(6)
        if how == 0:
            yield struct.pack(">i", draw.choice([-1, 0, 7, 101 << 20, -(1 << 31), (1 << 31) - 1]))
        elif how == 1:
            yield sized(struct.pack(">hh", draw.randrange(90, 32_000), 0) + draw.randbytes(20))
        elif how == 2:
            yield (
                sized(struct.pack(">hhi", kind.API_KEY, draw.randrange(40, 32_000), 1))
                if (kind is not ApiVersionsRequest)
                else sized(struct.pack(">hhi", -3, 0, 1))
            )
        elif how == 3:
            yield sized(data[: draw.randrange(8, len(data))])
        elif how == 4:
            yield sized(data + draw.randbytes(draw.randrange(1, 30)))
        else:
            spoilt = bytearray(data)
            for _ in range(draw.randrange(1, 6)):
                spoilt[draw.randrange(8, len(spoilt))] = draw.randrange(256)
            if is_refused(bytes(spoilt), kind, version):
                yield sized(bytes(spoilt))


async def answer_of(port: int, data: bytes) -> bytes:
    """Send bytes and return what comes back before the connection is closed."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


async def exchange(port: int, message: Any, version: int, response: Any) -> Any:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(sized(request_bytes(message, version)))
        return await answer_to(reader, response, version)
    finally:
        writer.transport.abort()


async def answer_to(reader: asyncio.StreamReader, response: Any, version: int) -> Any:
    size = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), 30))[0]
    data = await asyncio.wait_for(reader.readexactly(size), 30)
    assert read_correlation_id(data) == 7
    return read_response(data, response, version)


def test_malformed_frames_close_a_connection_and_disturb_no_quorum(tmp_path: Path) -> None:
    async def main() -> None:
        draw = random.Random(20_261_121)
        async with Quorum(
            tmp_path,
            election_timeout_us=1_000_000,
            fetch_timeout_us=20_000_000,  # All these frames are sent by the same process.
            request_timeout_us=20_000_000,
        ) as quorum:
            leader = await quorum.leader()
            epoch = leader.core.epoch
            taken = await leader.append([b"before"])
            acknowledged: dict[bytes, int] = {}  # And where it is.
            is_over = asyncio.Event()

            async def append() -> None:
                while not is_over.is_set():
                    value = b"meanwhile-%08d" % len(acknowledged)
                    acknowledged[value] = (await leader.append([value])).base_offset
                    await asyncio.sleep(0.01)

            appending = asyncio.create_task(append())
            ports = list(quorum.ports.values())
            frames = malformed(draw)
            gate = asyncio.Semaphore(AT_ONCE)

            async def send(data: bytes) -> bytes:
                async with gate:
                    return await answer_of(draw.choice(ports), data)

            answers = await asyncio.gather(*(send(next(frames)) for _ in range(MALFORMED)))
            assert set(answers) == {b""}

            async def disconnect() -> None:
                async with gate:
                    data, _ = draw.choice(wholes)
                    _, writer = await asyncio.open_connection(HOST, draw.choice(ports))
                    writer.write(data[: draw.randrange(len(data) + 1)])
                    if draw.random() < 0.5:
                        await asyncio.sleep(0)
                    writer.transport.abort()

            wholes = [(sized(request_bytes(message, v)), v) for message, v in samples()]
            await asyncio.gather(*(disconnect() for _ in range(DISCONNECTS)))

            is_over.set()
            await appending  # Every append was acknowledged, or this raises.
            assert len(acknowledged) > 10
            assert (await quorum.leader()) is leader
            assert leader.core.epoch == epoch
            after = await leader.append([b"after"])
            await quorum.all_have(after.last_offset + 1)
            count = len(acknowledged)
            offsets = list(range(taken.last_offset + 1, taken.last_offset + 1 + count))
            assert list(acknowledged.values()) == offsets
            assert after.base_offset == offsets[-1] + 1
            (log_bytes,) = {committed_bytes(node) for node in quorum.nodes.values()}
            assert re.findall(rb"meanwhile-\d{8}", log_bytes) == list(acknowledged)
            nodes = quorum.nodes.values()
            await seen(
                lambda: (
                    sum(len(node.server.connections) for node in nodes)
                    == sum(len(node.peers.by_node) for node in nodes)
                )
            )

    run(main())


def test_a_frame_too_large_and_one_that_does_not_come_are_not_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(request_bytes_max=1000, stall_ms_max=300)
        async with Quorum(tmp_path, count=1, limits=limits) as quorum:
            await quorum.leader()
            port = quorum.ports[1]
            assert await answer_of(port, struct.pack(">i", 1001)) == b""
            started = time.monotonic()
            assert await answer_of(port, struct.pack(">i", 1000) + b"x" * 10) == b""
            assert time.monotonic() - started >= 0.3
            response = await exchange(port, quorum_request(kafka), 2, DescribeQuorumResponse)
            assert response.topics[0].partitions[0].error_code == 0

    run(main())


def test_a_peer_that_drips_bytes_does_not_gain_time_by_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1, limits=Limits(stall_ms_max=300)) as quorum:
            reader, writer = await asyncio.open_connection(HOST, quorum.ports[1])
            writer.write(struct.pack(">i", 1000))

            async def drip() -> None:
                while True:
                    writer.write(b"x")
                    await asyncio.sleep(0.05)

            dripping = asyncio.ensure_future(drip())
            try:
                assert await asyncio.wait_for(reader.read(), 30) == b""
            except ConnectionResetError:
                pass
            finally:
                dripping.cancel()
                writer.transport.abort()

    run(main())


def test_a_peer_that_does_not_read_is_let_go(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(stall_ms_max=500, send_buffer_bytes=8192)
        async with Quorum(tmp_path, count=1, limits=limits) as quorum:
            leader = await quorum.leader()
            for _ in range(4):
                await leader.append([b"x" * 1_000_000])
            _, writer = await asyncio.open_connection(HOST, quorum.ports[1], limit=1024)
            request = sized(request_bytes(fetch(epoch=leader.core.epoch), 17))
            for _ in range(50):
                writer.write(request)
            await seen(lambda: any(c.unread_since for c in leader.server.connections))
            await seen(lambda: not leader.server.connections)
            writer.transport.abort()
            response = await exchange(
                quorum.ports[1], fetch(epoch=leader.core.epoch), 17, FetchResponse
            )
            assert response.responses[0].partitions[0].error_code == 0

    run(main())


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1, limits=Limits(idle_ms_max=200)) as quorum:
            started = time.monotonic()
            assert await answer_of(quorum.ports[1], b"") == b""
            assert time.monotonic() - started >= 0.2

    run(main())


@pytest.mark.parametrize(
    "limits", [Limits(connections_max=3), Limits(connections_per_ip_max=3)], ids=["all", "per ip"]
)
def test_one_connection_too_many_is_closed_and_the_others_stay(
    tmp_path: Path, limits: Limits
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1, limits=limits) as quorum:
            port = quorum.ports[1]
            opened = [await asyncio.open_connection(HOST, port) for _ in range(3)]
            await seen(lambda: len(quorum.nodes[1].server.connections) == 3)
            assert await answer_of(port, sized(request_bytes(quorum_request(kafka), 2))) == b""
            for reader, writer in opened:
                writer.write(sized(request_bytes(quorum_request(kafka), 2)))
                response = await answer_to(reader, DescribeQuorumResponse, 2)
                assert response.error_code == 0
            opened.pop()[1].transport.abort()
            await seen(lambda: len(quorum.nodes[1].server.connections) == 2)
            await exchange(port, quorum_request(kafka), 2, DescribeQuorumResponse)
            for _, writer in opened:
                writer.transport.abort()

    run(main())


def test_of_too_many_bytes_the_one_that_sends_the_last_of_them_is_let_go() -> None:
    async def main() -> None:
        server = Server(Limits(queued_bytes_max=100_000), lambda connection, frame: None)
        where = Listener(name="X", host=HOST, port=0, advertised_host=HOST, advertised_port=0)
        host, port = await server.listen(where, None)
        opened = [await asyncio.open_connection(host, port) for _ in range(3)]

        def held_bytes() -> list[int]:
            return sorted(len(connection.reader) for connection in server.connections)

        for _, writer in opened:
            writer.write(struct.pack(">i", 50_000) + b"x" * 29_996)
        await seen(lambda: held_bytes() == [30_000] * 3)
        for _, writer in opened:  # The second of them is too much, and makes room for the third.
            writer.write(b"x" * 8_000)
        await seen(lambda: len(server.connections) < 3 and set(held_bytes()) == {38_000})
        assert held_bytes() == [38_000] * 2
        for _, writer in opened:
            writer.transport.abort()
        await server.close()

    run(main())


def test_a_connection_that_comes_at_the_very_end_is_closed_too() -> None:
    async def main() -> None:
        server = Server(Limits(), lambda connection, frame: None)
        listener = Listener(name="A", host=HOST, port=0, advertised_host=HOST, advertised_port=0)
        _, port = await server.listen(listener, None)
        with socket.create_connection((HOST, port), WAIT_S) as late:
            server._accept(server._listening[0], listener, None)
            assert len(server.connections) == 1
            await server.close()  # Before its task has run for the first time.
            late.settimeout(WAIT_S)
            assert late.recv(1) == b""
        assert not server.connections

    run(main())


def test_an_address_of_ipv6_is_in_brackets() -> None:
    async def main() -> None:
        server = Server(Limits(), lambda connection, frame: None)
        where = Listener(name="X", host="::1", port=0, advertised_host="::1", advertised_port=0)
        host, port = await server.listen(where, None)
        _, writer = await asyncio.open_connection(host, port)
        await seen(lambda: bool(server.connections))
        (connection,) = server.connections
        assert connection.peer == "[::1]:{}".format(writer.get_extra_info("sockname")[1])
        with pytest.raises(OSError, match=rf"no listener at X://\[::1\]:{port}: another process"):
            await server.listen(msgspec.structs.replace(where, port=port), None)
        writer.transport.abort()
        await server.close()

    run(main())


def test_requests_sent_ahead_are_answered_in_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            epoch, end = leader.core.epoch, leader.core.log.end_offset
            reader, writer = await asyncio.open_connection(HOST, quorum.ports[1])
            # The first waits for half a second, as it is at the end of the log.
            waits = fetch(end, epoch, max_wait_ms=500)
            waits.topics[0].partitions[0].last_fetched_epoch = epoch
            writer.write(sized(request_bytes(waits, 17)))
            for _ in range(20):
                writer.write(sized(request_bytes(quorum_request(kafka), 2)))
            first = await answer_to(reader, FetchResponse, 17)
            assert first.responses[0].partitions[0].records in (None, b"")
            for _ in range(20):
                response = await answer_to(reader, DescribeQuorumResponse, 2)
                assert response.topics[0].partitions[0].leader_id == 1
            writer.transport.abort()

    run(main())


@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_what_is_served(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            await quorum.leader()
            who = ApiVersionsRequest()
            if version >= 3:
                who = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            response = await exchange(quorum.ports[1], who, version, ApiVersionsResponse)
            assert response.error_code == 0
            served = {
                entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
            }
            assert served[1] == (4, 18)
            assert served[52] == (0, 2)
            assert served[18] == (0, 5)
            features = {
                entry.name: (entry.min_version, entry.max_version)
                for entry in response.supported_features
            }
            # KIP-1022: before version 4 a feature that may be 0 is left out.
            assert features.get("kraft.version") == ((0, 1) if version >= 4 else None)

    run(main())


def test_an_api_versions_of_the_future_is_answered_in_the_first_version(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            reader, writer = await asyncio.open_connection(HOST, quorum.ports[1])
            who = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            data = bytearray(request_bytes(who, 4))
            data[2:4] = struct.pack(">h", 9)
            writer.write(sized(bytes(data)))
            response = await answer_to(reader, ApiVersionsResponse, 0)
            assert response.error_code == 35
            assert [(e.api_key, e.min_version, e.max_version) for e in response.api_keys] == [
                (18, 0, 5)
            ]
            writer.write(sized(request_bytes(who, 4)))  # The connection is as good as before.
            assert (await answer_to(reader, ApiVersionsResponse, 4)).error_code == 0
            writer.transport.abort()

    run(main())


def test_describe_cluster_names_the_voters_and_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            for node in quorum.nodes.values():
                await node.until(lambda it: it.core.leader_id == leader.config.node_id, 60)
            for port in quorum.ports.values():
                request = DescribeClusterRequest(endpoint_type=2)
                response = await exchange(port, request, 1, DescribeClusterResponse)
                assert response.controller_id == leader.config.node_id
                assert {b.broker_id: b.port for b in response.brokers} == quorum.ports
            wrong = await exchange(
                port, DescribeClusterRequest(endpoint_type=1), 1, DescribeClusterResponse
            )
            assert wrong.error_code == 114

    run(main())


@pytest.mark.parametrize(
    ("request_class", "response_class"),
    [
        (AllocateProducerIdsRequest, AllocateProducerIdsResponse),
        (AlterPartitionRequest, AlterPartitionResponse),
        (AssignReplicasToDirsRequest, AssignReplicasToDirsResponse),
        (BrokerHeartbeatRequest, BrokerHeartbeatResponse),
        (BrokerRegistrationRequest, BrokerRegistrationResponse),
        (ControllerRegistrationRequest, ControllerRegistrationResponse),
        (EnvelopeRequest, EnvelopeResponse),
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_broker_that_takes_it_for_the_controller_is_told(
    tmp_path: Path, request_class: Any, response_class: Any
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            await quorum.leader()
            for version in request_class.VALID_VERSIONS:
                response = await exchange(quorum.ports[1], request_class(), version, response_class)
                assert response.error_code == 41

    run(main())
