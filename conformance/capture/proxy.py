"""A recording proxy on loopback: what passes is forwarded at once, and kept frame by frame.

Kafka's frames are a size (int32) and as many bytes. A request says what it is in its header; a
response only repeats the correlation id, so requests and responses are paired by connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kraftspec.conformance.capture.relay import CHUNK_BYTES, Relay

FRAME_BYTES_MAX = 8 << 20  # What is larger is forwarded and not kept: no workload needs it.
RECORDED_BYTES_MAX = 1 << 30  # A capture of minutes stays far below; memory is not endless.
SASL_HANDSHAKE_KEY = 17
CORRELATION_ID_BYTES = 4
_REQUEST_START = struct.Struct(">hhih")  # API key, version, correlation id, length of client id

Direction = Literal["request", "response"]


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


class Proxy(Relay[str]):
    """Any number of listeners: ``with Proxy() as proxy``; who is connected to is a listener.

    ``proxy.open`` is what ``Cluster(front=...)`` takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()

    async def serve(
        self, who: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection, until either side ends it."""
        self.recorder.connections += 1
        connection = _Connection(self.recorder, who)
        forth = partial(self._carry, connection.request)
        await self.relay(port, reader, writer, forth, partial(self._carry, connection.response))

    async def _carry(
        self,
        record: Callable[[bytes], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
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
