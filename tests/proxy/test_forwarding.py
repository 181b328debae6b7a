"""What no rule concerns passes as it came, whatever it is and however it is cut."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest
from tests.proxy.peers import APIS, TIMEOUT_S, Stage, answer_filled, request_frame, stage
from tests.proxy.samples import filled

from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    FetchResponse,
    MetadataRequest,
    ProduceRequest,
    SaslHandshakeRequest,
)
from kraftspec.proxy.background import BackgroundProxy
from kraftspec.proxy.rules import Rule
from kraftspec.reference.wire.frames import response_header, sized

# Every frame is put together, and none is harmed.
LOOKS_AT_ALL = [
    Rule(probability=0.0, drop=True),
    Rule(direction="response", probability=0.0, drop=True),
]
RULES: dict[str, list[Rule]] = {"nobody looks": [], "all is looked at": LOOKS_AT_ALL}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_pipelined_frames_pass_in_any_pieces(rules: list[Rule], size: int) -> None:
    async def run() -> None:
        async with stage(rules) as scene:
            client = await scene.client()
            sent = b"".join(
                request_frame(filled(api.request, version), version, number)
                for number, (api, version) in enumerate(
                    ((api, api.request.VALID_VERSIONS[-1]) for api in APIS.values()), 1
                )
                if api.name not in ("Produce", "SaslHandshake")
            )
            for at in range(0, len(sent), size):
                client.writer.write(sent[at : at + size])
                if size == 1 and at % 100 == 0:
                    await asyncio.sleep(0)  # Else the loop would see one write.
            frames = [await client.frame() for _ in range(len(APIS) - 2)]
            assert b"".join(map(sized, scene.node.frames)) == sent
            assert [sized(frame) for frame in frames] == [
                answer_filled(frame) for frame in scene.node.frames
            ]
            assert not scene.proxy.engine.reports

    asyncio.run(run())


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_large_records_pass(rules: list[Rule]) -> None:
    records = bytes(range(256)) * 40_000

    def answer(frame: bytes) -> bytes:
        partition = FetchResponse.PartitionData(partition_index=0, records=records)
        topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
        response = FetchResponse(responses=[topic])
        return sized(response_header(FetchResponse, 12, 1), response.encode(12))

    async def run() -> None:
        async with stage(rules, answer) as scene:
            client = await scene.client()
            answered = await client.answer(filled(APIS["Fetch"].request, 12), 12)
            assert answered.responses[0].partitions[0].records == records

    asyncio.run(run())


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_produce_request_without_acks_has_no_answer(rules: list[Rule], version: int) -> None:
    def answer(frame: bytes) -> bytes | None:
        return None if frame[:2] == b"\0\0" else answer_filled(frame)

    async def run() -> None:
        async with stage(rules, answer) as scene:
            client = await scene.client()
            for transactional_id in (None, "", "x" * 200):
                message = ProduceRequest(transactional_id=transactional_id, acks=0)
                client.send(message, version, client_id="c" * 300)
            await client.answer(MetadataRequest(topics=[]), 5)
            assert len(scene.node.frames) == 4
            (connection,) = scene.proxy.connections
            assert not connection.pending
            client.send(ProduceRequest(acks=1), version)
            await scene.node.until(lambda: len(scene.node.frames) == 5)
            assert len(connection.pending) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00 the beginning of TLS",
        b"\xff\xff\xff\xff negative",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["tls", "negative", "http"],
)
def test_what_are_no_frames_passes_and_is_reported(data: bytes) -> None:
    async def run() -> None:
        async with stage(LOOKS_AT_ALL) as scene:
            client = await scene.client()
            client.writer.write(data)
            client.writer.write_eof()
            await scene.node.until(lambda: scene.node.ends)
            assert scene.node.received == data
            (report,) = scene.proxy.engine.reports
            assert "the rest passes as it is" in report

    asyncio.run(run())


def test_an_unknown_api_passes_and_so_does_its_answer() -> None:
    frame = sized(b"\x7f\x00\x00\x07\x00\x00\x00\x09\x00\x02me", b"whatever")

    async def run() -> None:
        async with stage(LOOKS_AT_ALL, lambda _: sized(b"\0\0\0\x09", b"done")) as scene:
            client = await scene.client()
            client.writer.write(frame)
            assert await client.frame() == b"\0\0\0\x09done"
            assert sized(scene.node.frames[0]) == frame

    asyncio.run(run())


def test_what_cannot_be_decoded_passes_and_is_reported() -> None:
    frame = request_frame(MetadataRequest(topics=[]), 5, 1) + b""
    spoilt = sized(frame[4:], b"\0\0\0")  # Three bytes too many.
    rule = Rule(api="Metadata", where={"allowAutoTopicCreation": True}, drop=True)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            client.writer.write(spoilt)
            await client.frame()
            assert sized(scene.node.frames[0]) == spoilt
            (report,) = scene.proxy.engine.reports
            assert "Metadata request 5" in report
            assert "3 bytes follow the message" in report

    asyncio.run(run())


def test_tokens_without_headers_pass() -> None:
    async def run() -> None:
        async with stage(LOOKS_AT_ALL) as scene:
            scene.node.answer = lambda frame: (
                answer_filled(frame) if frame[:2] == b"\0\x11" else sized(b"ok")
            )
            client = await scene.client()
            await client.answer(SaslHandshakeRequest(mechanism="PLAIN"), 0)
            client.writer.write(sized(b"\0user\0password"))
            assert await client.frame() == b"ok"

    asyncio.run(run())


def test_each_side_may_end_first() -> None:
    async def run() -> None:
        async with stage() as scene:
            client = await scene.client()
            client.send(ApiVersionsRequest(), 0)
            client.writer.write_eof()  # It still reads.
            await client.frame()
            assert await client.end() == "eof"
            assert scene.node.ends == ["eof"]
            other = await scene.client()
            await other.answer(ApiVersionsRequest(), 0)
            scene.node.writers[-1].close()
            assert await other.end() == "eof"

    asyncio.run(run())


def test_a_part_of_a_frame_passes_at_the_end() -> None:
    async def run() -> None:
        async with stage(LOOKS_AT_ALL) as scene:
            client = await scene.client()
            frame = request_frame(MetadataRequest(topics=[]), 5, 1)
            client.writer.write(frame[:-3])
            client.writer.write_eof()
            await scene.node.until(lambda: scene.node.ends)
            assert scene.node.received == frame[:-3]

    asyncio.run(run())


def test_a_node_that_is_not_there(dead_port: int) -> None:
    async def run() -> None:
        async with stage() as scene:
            link = await scene.proxy.listen(("127.0.0.1", dead_port))
            reader, writer = await asyncio.open_connection(*link.address)
            with suppress(ConnectionError):  # The end may come before the reset is seen.
                assert await reader.read() == b""
            writer.close()
            (report,) = scene.proxy.engine.reports
            assert report.startswith(f"no connection to 127.0.0.1:{dead_port}")

    asyncio.run(run())


async def until_closed(scene: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while scene.proxy.connections:
            await asyncio.sleep(0.001)


def test_a_client_that_does_not_wait_for_its_answer() -> None:
    """It is gone when the answer comes, and the node is done, too: nothing is left of them."""

    async def run() -> None:
        async with stage([Rule(direction="response", delay_ms=50)]) as scene:
            client = await scene.client()
            client.send(ApiVersionsRequest(), 0)
            client.writer.close()
            await scene.node.until(lambda: scene.node.ends)
            assert len(scene.node.frames) == 1
            await until_closed(scene)

    asyncio.run(run())


def test_memory_is_bounded_where_nobody_reads() -> None:
    """The node does not read: the proxy soon reads no more from the client."""

    async def run() -> None:
        async with stage() as scene:
            stuck = asyncio.Event()

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await stuck.wait()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 10)
            link = await scene.proxy.listen(server.sockets[0].getsockname()[:2])
            _, writer = await asyncio.open_connection(*link.address)
            frame = request_frame(filled(APIS["Metadata"].request, 5), 5, 1)
            block = frame * (1 + (1 << 20) // len(frame))
            sent = 0
            while writer.transport.get_write_buffer_size() < (1 << 23):
                writer.write(block)
                sent += len(block)
                await asyncio.sleep(0.001)
            (connection,) = scene.proxy.connections
            assert connection.to_node.sent_bytes + connection.to_node.queued_bytes < sent
            assert not connection.client.is_reading
            assert connection.node.transport.get_write_buffer_size() < (1 << 20)
            stuck.set()
            writer.transport.abort()
            await until_closed(scene)
            server.close()

    asyncio.run(run())


def test_the_proxy_stops_with_connections_open() -> None:
    async def run() -> None:
        async with stage() as scene:
            client = await scene.client()
            await client.answer(ApiVersionsRequest(), 0)
            await scene.proxy.close()
            assert await client.end() == "eof"
            assert not scene.proxy.connections
            with pytest.raises(OSError):  # noqa: PT011 - nobody listens, by whatever name
                await scene.client()

    asyncio.run(run())


def test_the_proxy_closes_connections_that_it_has_just_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as opened:
        node = f"127.0.0.1:{listening.getsockname()[1]}"
        for _ in range(20):
            with BackgroundProxy() as proxy:
                host, _, port = proxy.listen(node).rpartition(":")
                clients = [
                    opened.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
                    for _ in range(5)
                ]
            for client in clients:
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""
