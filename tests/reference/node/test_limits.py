"""Limits that let a peer wait: queued requests, connections a second, attempts to connect."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.reference.node.quorum import Quorum, run, seen
from tests.reference.node.test_server import request_bytes

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.generated import kafka
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.node.client import Peer
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.server import Pace, Server, ServerConnection
from kraftspec.reference.node.settings import Limits, Listener
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import types as raft
from kraftspec.reference.wire.frames import sized


def test_no_more_requests_are_queued_than_may_be() -> None:
    """Of ten that ask at once three are handled; the others wait their turn, and none is lost."""

    async def main() -> None:
        queued: list[tuple[ServerConnection, bytes]] = []

        def take(connection: ServerConnection, frame: bytes) -> None:
            queued.append((connection, frame))

        server = Server(Limits(queued_requests_max=3), take, lambda: len(queued))
        where = Listener(name="X", host=HOST, port=0, advertised_host=HOST, advertised_port=0)
        host, port = await server.listen(where, None)
        opened = [await asyncio.open_connection(host, port) for _ in range(10)]
        for number, (_, writer) in enumerate(opened):
            writer.write(sized(bytes([number]) * 12) * 2)
        await seen(lambda: len(server.waiting) == 7)
        assert len(queued) == 3
        answered = 0
        while answered < 20:
            await seen(lambda: bool(queued))
            connection, frame = queued.pop(0)
            connection.reply(sized(frame))
            answered += 1
            server.go_on()
            assert len(queued) <= 3
        for number, (reader, _) in enumerate(opened):
            assert await reader.readexactly(32) == sized(bytes([number]) * 12) * 2
        assert not server.waiting
        for _, writer in opened:
            writer.transport.abort()
        await server.close()

    run(main())


def test_a_node_queues_no_more_requests_than_it_may(tmp_path: Path) -> None:
    """Its queue is full while the disk is slow; all that was asked is answered afterwards."""

    async def main() -> None:
        async with Quorum(tmp_path, count=1, limits=Limits(queued_requests_max=4)) as quorum:
            leader = await quorum.leader()
            free = asyncio.Event()

            async def slow_disk() -> None:
                await free.wait()

            leader.take_turn(slow_disk)
            opened = [await asyncio.open_connection(HOST, quorum.ports[1]) for _ in range(12)]
            for _, writer in opened:
                writer.write(sized(request_bytes(quorum_request(kafka), 2)))
            await seen(lambda: len(leader.server.waiting) == 8)
            free.set()
            for reader, writer in opened:
                size = int.from_bytes(await reader.readexactly(4), "big")
                assert len(await reader.readexactly(size)) == size
                writer.transport.abort()

    run(main())


def test_a_client_that_pipelines_requests_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer lets the next request in: other tasks run between them all the same."""
    frame = sized(request_bytes(quorum_request(kafka), 2))
    count = 500

    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            node = await quorum.leader()
            handled: list[int] = []  # How often others had run when a request was answered.
            turns = 0

            def counted(effect: fx.Answer) -> None:
                handled.append(turns)
                Node.answer(node, effect)

            monkeypatch.setattr(node, "answer", counted)
            _, writer = await asyncio.open_connection(HOST, quorum.ports[1])
            writer.write(frame * count)
            while len(handled) < count:
                turns += 1
                await asyncio.sleep(0)
            writer.close()
            assert handled[-1] - handled[0] > count // 32 // 2

    run(main())


def test_connections_are_accepted_no_faster_than_they_may() -> None:
    async def main() -> None:
        server = Server(Limits(connections_per_second_max=20), lambda connection, frame: None)
        where = Listener(name="X", host=HOST, port=0, advertised_host=HOST, advertised_port=0)
        host, port = await server.listen(where, None)
        began_s = time.monotonic()
        opened = [await asyncio.open_connection(host, port) for _ in range(45)]
        await seen(lambda: len(server.connections) == 45)
        # The first twenty at once; of the rest one each twentieth of a second.
        assert time.monotonic() - began_s >= 25 / 20
        assert server.refused == 0
        for _, writer in opened:
            writer.transport.abort()
        await server.close()

    run(main())


def test_the_pace_of_connections() -> None:
    now_s = [0.0]
    pace = Pace(10, lambda: now_s[0])
    assert [pace.delay_s() for _ in range(10)] == [0] * 10
    assert pace.delay_s() == pytest.approx(0.1)
    now_s[0] = 0.05
    assert pace.delay_s() == pytest.approx(0.05)
    now_s[0] = 0.1001
    assert pace.delay_s() == 0
    assert pace.delay_s() > 0
    now_s[0] = 100.0
    assert [pace.delay_s() for _ in range(11)].count(0) == 10


def test_an_attempt_to_connect_gets_more_time_after_each_that_failed(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(connect_ms=1000, connect_ms_max=5000)
        async with Quorum(tmp_path, count=1, limits=limits) as quorum:
            peers = (await quorum.leader()).peers
            nobody = raft.Node(9, HOST, free_port(set(quorum.ports.values())))
            assert 0.8 <= peers.connect_timeout_s(nobody) <= 1.2
            for least_s, most_s in ((1.6, 2.4), (3.2, 4.8), (5, 5), (5, 5)):
                with pytest.raises(ConnectionError):
                    await Peer(peers, nobody).connected()
                assert least_s <= peers.connect_timeout_s(nobody) <= most_s
            itself = raft.Node(1, HOST, quorum.ports[1])
            peers.failed_attempts[itself] = 2
            peer = Peer(peers, itself)
            await peer.connected()
            peer.close()
            assert 0.8 <= peers.connect_timeout_s(itself) <= 1.2

    run(main())
