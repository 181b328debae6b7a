"""The two sides of a proxy: a node that keeps what it is sent, and a client, both byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.proxy.samples import filled

from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.loop_thread import end_listening
from kraftspec.proxy.frame import apis_of
from kraftspec.proxy.rules import Rule
from kraftspec.proxy.server import FaultProxy, Link
from kraftspec.reference.wire.frames import (
    FrameReader,
    WireError,
    read_request_head,
    read_response,
    request_header,
    response_header,
    sized,
)

TIMEOUT_S = 60.0  # For what takes milliseconds: a busy machine must not fail a test.
APIS = {api.name: api for api in apis_of(kafka).values()}

Answer = Callable[[bytes], bytes | None]


def request_frame(
    message: Message, version: int, correlation_id: int, client_id: str = "me"
) -> bytes:
    """Return a request as it is sent."""
    header = request_header(type(message), version, correlation_id, client_id)
    return sized(header, message.encode(version))


def answer_filled(frame: bytes) -> bytes:
    """Return an answer in which every field has a value."""
    key = int.from_bytes(frame[:2], "big")
    version = int.from_bytes(frame[2:4], "big")
    correlation_id = int.from_bytes(frame[4:8], "big")
    response = apis_of(kafka)[key].response
    header = response_header(response, version, correlation_id)
    return sized(header, filled(response, version).encode(version))


class Node:
    """Listens, keeps every frame that it gets, and answers each."""

    def __init__(self, answer: Answer = answer_filled) -> None:
        self.answer = answer
        self.frames: list[bytes] = []
        self.received = b""
        self.ends: list[str] = []  # How connections ended: eof or reset.
        self.serving = 0
        self.changed = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.serving += 1
        frames = FrameReader(bytes_min=0)
        try:
            while data := await reader.read(1 << 16):
                self.received += data
                with suppress(WireError):  # Then no more frames come.
                    frames.feed(data)
                    while (frame := frames.take()) is not None:
                        self.frames.append(frame)
                        answer = self.answer(frame)
                        writer.write(answer or b"")
                self.changed.set()
                await writer.drain()
            self.ends.append("eof")
        except ConnectionError:
            self.ends.append("reset")
        finally:
            self.changed.set()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.serving -= 1

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Wait until something is so of what this node has seen."""
        async with asyncio.timeout(TIMEOUT_S):
            while not is_so():
                self.changed.clear()
                if is_so():
                    return
                await self.changed.wait()

    def requests(self) -> list[tuple[str, int, Any]]:
        """Return API, version and message of each frame."""
        return [self._request(frame) for frame in self.frames]

    def _request(self, frame: bytes) -> tuple[str, int, Any]:
        api = apis_of(kafka)[int.from_bytes(frame[:2], "big")]
        head = read_request_head(frame, api.request)
        return api.name, head.version, api.request.decode(frame[head.body_at :], head.version)


class Client:
    """A connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.count = 0

    def send(self, message: Message, version: int, client_id: str = "me") -> int:
        """Send a request, and return its correlation id."""
        self.count += 1
        self.writer.write(request_frame(message, version, self.count, client_id))
        return self.count

    async def frame(self) -> bytes:
        """Return the next frame, its size left out; IncompleteReadError at the end."""
        async with asyncio.timeout(TIMEOUT_S):
            head = await self.reader.readexactly(4)
            return await self.reader.readexactly(int.from_bytes(head, "big"))

    async def answer(self, message: Message, version: int, client_id: str = "me") -> Any:
        """Send a request and return the answer, which must be to this request."""
        number = self.send(message, version, client_id)
        frame = await self.frame()
        assert int.from_bytes(frame[:4], "big") == number
        api = apis_of(kafka)[message.API_KEY or 0]
        return read_response(frame, api.response, version)

    async def rest(self) -> bytes:
        """Return all that comes until the connection ends."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.reader.read()

    async def end(self) -> str:
        """Return how the connection ends: eof or reset."""
        try:
            assert await self.rest() == b""
        except ConnectionError:
            return "reset"
        return "eof"


class Stage:
    """A node, a proxy before it, and as many clients as one likes."""

    def __init__(self, node: Node, proxy: FaultProxy, link: Link) -> None:
        self.node = node
        self.proxy = proxy
        self.link = link
        self.clients: list[Client] = []

    async def client(self) -> Client:
        """Connect to the proxy."""
        client = Client(*await asyncio.open_connection(*self.link.address))
        self.clients.append(client)
        return client


async def end_nodes(servers: Sequence[asyncio.Server], nodes: Sequence[Node]) -> None:
    """Close the servers of nodes and all their connections, and wait until no node serves one."""
    await end_listening(servers)
    async with asyncio.timeout(TIMEOUT_S):
        while any(node.serving for node in nodes):
            for node in nodes:
                for writer in node.writers:  # Each time: one may have been accepted at the end.
                    writer.transport.abort()
            await asyncio.sleep(0.001)


@asynccontextmanager
async def stage(rules: Sequence[Rule] = (), answer: Answer = answer_filled) -> AsyncIterator[Stage]:
    """A node behind a proxy with rules."""
    node = Node(answer)
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    async with FaultProxy(rules) as proxy:
        link = await proxy.listen(server.sockets[0].getsockname()[:2], node_id=1)
        scene = Stage(node, proxy, link)
        try:
            yield scene
        finally:
            for client in scene.clients:
                client.writer.transport.abort()
            await end_nodes([server], [node])
