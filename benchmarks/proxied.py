"""A node of Kafka's frames, and what stands before it: the proxy, and a plain asyncio forwarder.

``python -m benchmarks.proxied ROLE [PORT]`` is one of them in a process of its own: it prints its
port, answers each line of its input with the seconds of processor time that it has used, and ends
with its input.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Self

from kraftspec.generated.kafka import FetchResponse, ProduceResponse
from kraftspec.proxy.server import FaultProxy
from kraftspec.reference.wire.frames import response_header, sized

from .turns import ROOT

NODE = "node"
FORWARDER = "asyncio forwarder"
PROXY = "kraftspec"
REWRITING = "kraftspec, rewriting"
PATIENCE_S = 600.0
FETCH_BYTES = 1 << 20  # Of records in each answer.
PRODUCE_VERSION = 9
FETCH_VERSION = 16  # Its answers may have addresses of nodes.
FETCH = 1

# ---- what a program starts ---------------------------------------------------------------------


class Program:
    """``with Program(PROXY, port) as proxy``: a process that listens at ``proxy.port``."""

    def __init__(self, role: str, to: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.proxied", role, str(to)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.port = int(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def used_s(self) -> float:
        """How much processor time it has used."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait(PATIENCE_S)}"
        return line


class Caller:
    """A client that blocks, through one connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(FETCH_BYTES + 1024)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, frame: bytes) -> None:
        """Send a request."""
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """Return the next answer, its size left out."""
        view = memoryview(self._buffer)
        _fill(self._socket, view[:4])
        size = int.from_bytes(view[:4], "big")
        _fill(self._socket, view[:size])
        return view[:size]


def _fill(sock: socket.socket, view: memoryview) -> None:
    while view:
        count = sock.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]


# ---- what runs in the process ------------------------------------------------------------------


def serve_node(listening: socket.socket) -> None:
    """Answer Produce and Fetch, a thread for each connection."""

    def serve(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = answers_of_node()
        view = memoryview(bytearray(1 << 20))
        with sock, suppress(EOFError, ConnectionError):
            while True:
                _fill(sock, view[:4])
                size = int.from_bytes(view[:4], "big")
                _fill(sock, view[:size])
                answer = answers[int.from_bytes(view[:2], "big")]
                answer[4:8] = view[4:8]  # The correlation id.
                sock.sendall(answer)

    while True:
        sock, _ = listening.accept()
        threading.Thread(target=serve, args=[sock], daemon=True).start()


def answers_of_node() -> dict[int, bytearray]:
    """Return the frames of the answers, by API."""
    partition = ProduceResponse.PartitionProduceResponse(index=0, base_offset=7)
    topic = ProduceResponse.TopicProduceResponse(name="orders", partition_responses=[partition])
    produced = ProduceResponse(responses=[topic])
    data = FetchResponse.PartitionData(high_watermark=1, records=bytes(FETCH_BYTES))
    fetched = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[data])])
    return {
        key: bytearray(sized(response_header(type(message), version, 0), message.encode(version)))
        for key, version, message in (
            (0, PRODUCE_VERSION, produced),
            (FETCH, FETCH_VERSION, fetched),
        )
    }


class _Forward(asyncio.Protocol):
    """One side of the plain forwarder: what comes goes to the other side."""

    def __init__(self, to: int | None = None) -> None:
        self._to = to
        self._early: list[bytes] = []
        self.transport: Any = None
        self.other: _Forward | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._to is not None:
            self._task = asyncio.get_running_loop().create_task(self._connect(self._to))

    async def _connect(self, to: int) -> None:
        other = _Forward()
        other.other = self
        await asyncio.get_running_loop().create_connection(lambda: other, "127.0.0.1", to)
        for data in self._early:
            other.transport.write(data)
        self.other = other

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        assert self.other is not None
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self.other is not None
        self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


async def forward(role: str, to: int) -> None:
    """Stand before a node."""
    if role == FORWARDER:
        server = await asyncio.get_running_loop().create_server(
            lambda: _Forward(to), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Event().wait()
    async with FaultProxy(must_rewrite=role == REWRITING) as proxy:
        link = await proxy.listen(("127.0.0.1", to))
        print(link.address[1], flush=True)
        await asyncio.Event().wait()


def main(role: str, to: int) -> None:
    """Run a role until the input ends."""
    if role == NODE:
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        work = threading.Thread(target=serve_node, args=[listening], daemon=True)
    else:
        work = threading.Thread(target=lambda: asyncio.run(forward(role, to)), daemon=True)
    work.start()
    for _ in sys.stdin:
        print(time.process_time(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
