"""A recording proxy on loopback: what passes is forwarded at once, and kept frame by frame.

Kafka's frames are a size (int32) and as many bytes. A request says what it is in its header; a
response only repeats the correlation id, so requests and responses are paired by connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kraftspec.conformance.cluster.relay import CHUNK_BYTES, Relay
from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.wire.frames import (
    RESPONSE_BYTES_MIN,
    SIZE_BYTES,
    read_correlation_id,
    read_request_head,
)

FRAME_BYTES_MAX = 8 << 20  # What is larger is forwarded and not kept: no workload needs it.
RECORDED_BYTES_MAX = 1 << 30  # A capture of minutes stays far below; memory is not endless.
SASL_HANDSHAKE_KEY = 17

Direction = Literal["request", "response"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it passed, without its size.

    Attributes:
        api_version: of the request; its response has the same version.
        phase: which part of the workload ran.
        client_id: of the request, also for its response.
        listener: the receiver of the request, such as ``broker 1 PLAINTEXT``.
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
        """Keep a frame, unless the recording is full."""
        if self.bytes_total + len(frame.payload) > RECORDED_BYTES_MAX:
            self.leave_out(f"more than {RECORDED_BYTES_MAX >> 20} MiB in all")
            return
        self.bytes_total += len(frame.payload)
        self.frames.append(frame)

    def leave_out(self, reason: str) -> None:
        """Count a frame that was forwarded and is not kept."""
        self.unrecorded[reason] = self.unrecorded.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class _Request:
    api_key: int
    api_version: int
    client_id: str | None
    phase: str


class _Connection:
    """The state of one connection: its unanswered requests, and whether frames have headers."""

    def __init__(self, recorder: Recorder, listener: str) -> None:
        self._recorder = recorder
        self._listener = listener
        self._requests: dict[int, _Request] = {}
        self._raw = False

    def request(self, payload: bytes) -> None:
        if self._raw:
            self._recorder.leave_out("SASL tokens without a header")
            return
        try:
            head = read_request_head(payload)
        except CodecError:
            self._recorder.leave_out("no header of a request")
            return
        request = _Request(head.api_key, head.version, head.client_id, self._recorder.phase)
        self._requests[head.correlation_id] = request
        self._keep("request", request, payload)
        # Tokens without headers follow the first version of this request.
        self._raw = head.api_key == SASL_HANDSHAKE_KEY and head.version == 0

    def response(self, payload: bytes) -> None:
        request = self._requests.pop(read_correlation_id(payload), None)
        if request is None or len(payload) < RESPONSE_BYTES_MIN:
            self._recorder.leave_out("answers nothing that was asked")
            return
        self._keep("response", request, payload)

    def _keep(self, direction: Direction, request: _Request, payload: bytes) -> None:
        self._recorder.keep(
            Frame(
                direction=direction,
                api_key=request.api_key,
                api_version=request.api_version,
                client_id=request.client_id,
                phase=request.phase,
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
        self, listener: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward one connection, until either side ends it."""
        self.recorder.connections += 1
        connection = _Connection(self.recorder, listener)
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
                head = await reader.readexactly(SIZE_BYTES)
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
