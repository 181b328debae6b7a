"""A recording proxy on loopback: what passes is forwarded at once, and kept frame by frame.

Kafka's frames are a size (int32) and as many bytes. A request says what it is in its header; a
response only repeats the correlation id, so requests and responses are paired by connection.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

HOST = "127.0.0.1"
FRAME_BYTES_MAX = 8 << 20  # What is larger is forwarded and not kept: no workload needs it.
RECORDED_BYTES_MAX = 1 << 30  # A capture of minutes stays far below; memory is not endless.
CHUNK_BYTES = 1 << 16
START_TIMEOUT_S = 10.0
SASL_HANDSHAKE_KEY = 17
CORRELATION_ID_BYTES = 4
_REQUEST_START = struct.Struct(">hhih")  # API key, version, correlation id, length of client id

Direction = Literal["request", "response"]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it passed, without its size.

    Attributes:
        api_version: of the request; a response is of the version it was asked in.
        phase: which part of the workload ran.
        client_id: of the request, also for its response.
        listener: who was asked, such as ``broker 1 PLAINTEXT``.
    """

    direction: Direction
    api_key: int
    api_version: int
    client_id: str | None
    phase: str
    listener: str
    payload: bytes


@dataclass(slots=True)
class Recorder:
    """Frames in the order in which they passed. ``phase`` is given to all that come."""

    phase: str = ""
    frames: list[Frame] = field(default_factory=list)
    bytes_total: int = 0
    connections: int = 0
    unrecorded: dict[str, int] = field(default_factory=dict)

    def keep(self, frame: Frame) -> None:
        """Keep a frame, unless there is no room for it."""
        if self.bytes_total + len(frame.payload) > RECORDED_BYTES_MAX:
            self.leave_out(f"more than {RECORDED_BYTES_MAX >> 20} MiB in all")
            return
        self.bytes_total += len(frame.payload)
        self.frames.append(frame)

    def leave_out(self, reason: str) -> None:
        """Count a frame that was forwarded and is not kept."""
        self.unrecorded[reason] = self.unrecorded.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class _Asked:
    api_key: int
    api_version: int
    client_id: str | None
    phase: str


class _Connection:
    """What is known of one connection: which requests are unanswered, and whether to listen on."""

    def __init__(self, recorder: Recorder, listener: str) -> None:
        self._recorder = recorder
        self._listener = listener
        self._asked: dict[int, _Asked] = {}
        self._raw = False

    def request(self, payload: bytes) -> None:
        if self._raw:
            self._recorder.leave_out("SASL tokens without a header")
            return
        try:
            key, version, correlation_id, size = _REQUEST_START.unpack_from(payload)
        except struct.error:
            self._recorder.leave_out("too short for a request")
            return
        end = _REQUEST_START.size + max(size, 0)
        client_id = payload[_REQUEST_START.size : end].decode("utf-8", "replace")
        asked = _Asked(key, version, None if size < 0 else client_id, self._recorder.phase)
        self._asked[correlation_id] = asked
        self._keep("request", asked, payload)
        # After the first version of this request come tokens without headers, for good or ill.
        self._raw = key == SASL_HANDSHAKE_KEY and version == 0

    def response(self, payload: bytes) -> None:
        correlation_id = int.from_bytes(payload[:CORRELATION_ID_BYTES], "big", signed=True)
        asked = self._asked.pop(correlation_id, None)
        if asked is None or len(payload) < CORRELATION_ID_BYTES:
            self._recorder.leave_out("answers nothing that was asked")
            return
        self._keep("response", asked, payload)

    def _keep(self, direction: Direction, asked: _Asked, payload: bytes) -> None:
        self._recorder.keep(
            Frame(
                direction=direction,
                api_key=asked.api_key,
                api_version=asked.api_version,
                client_id=asked.client_id,
                phase=asked.phase,
                listener=self._listener,
                payload=payload,
            )
        )


class Proxy:
    """Any number of listeners, in a thread of their own: ``with Proxy() as proxy``.

    ``proxy.open`` is what ``Cluster(front=...)`` takes.
    """

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, listener: str, port: int) -> int:
        """Listen for those who want ``port`` of loopback; return the port to give them."""
        return self._do(self._open(listener, port))

    def _do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)

    async def _open(self, listener: str, port: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(listener, port, reader, writer)
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(serve, HOST, 0)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self,
        listener: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Carry one connection, until either side ends it."""
        self.recorder.connections += 1
        upstream: asyncio.StreamWriter | None = None
        with suppress(OSError, asyncio.CancelledError):
            answers, upstream = await asyncio.open_connection(HOST, port)
            connection = _Connection(self.recorder, listener)
            ways = [
                asyncio.create_task(self._carry(reader, upstream, connection.request)),
                asyncio.create_task(self._carry(answers, writer, connection.response)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, upstream):
            if end is not None:
                end.close()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        record: Callable[[bytes], None],
    ) -> None:
        """Forward frame by frame; a frame is recorded before its receiver can answer it."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                size = int.from_bytes(head, "big", signed=True)
                if 0 <= size <= FRAME_BYTES_MAX:
                    payload = await reader.readexactly(size)
                    record(payload)
                    writer.write(head + payload)
                    await writer.drain()
                    continue
                self.recorder.leave_out(f"larger than {FRAME_BYTES_MAX >> 20} MiB")
                writer.write(head)
                while size > 0:
                    chunk = await reader.read(min(size, CHUNK_BYTES))
                    if not chunk:
                        return
                    size -= len(chunk)
                    writer.write(chunk)
                    await writer.drain()
