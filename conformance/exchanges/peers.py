"""Other nodes as a script has them: they listen, and answer when and what they are told."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.message import API_VERSIONS_KEY, Message
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    ResponseHeader,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kraftspec.reference.node.frames import SIZE_BYTES

KRAFT_REQUESTS: tuple[type[Message], ...] = (
    ApiVersionsRequest,
    FetchRequest,
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    DescribeQuorumRequest,
    FetchSnapshotRequest,
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
_FRAME_BYTES_MAX = 1 << 20  # A controller asks little.


@dataclass(eq=False)
class Asked:
    """A request that came in and is not answered yet."""

    port: int
    api_key: int
    version: int
    correlation_id: int
    connection: socket.socket


class Peers:
    """Listeners on fixed ports. The first ApiVersions of a connection is answered at once.

    Everything else waits for ``answer``; what is never answered, the node waits for.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        """Listen on all ports; ``OSError`` where one is taken."""
        self.asked: list[Asked] = []
        self.count = 0  # Of requests that ever came in.
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._closing = False
        try:
            for port in ports:
                listener = socket.create_server((HOST, port))
                self._sockets.append(listener)
                self._start(self._accept, listener, port)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End every connection and listener."""
        self._closing = True
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def wait(self, port: int, request: type[Message], timeout_s: float) -> Asked:
        """Return the newest request of that kind that waits there; ``TimeoutError`` for none."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for one in reversed(self.asked):
                    if (one.port, one.api_key) == (port, request.API_KEY):
                        return one
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    have = [(one.port, one.api_key) for one in self.asked]
                    raise TimeoutError(
                        f"no {request.__name__} came in on {port} within {timeout_s:g} s; "
                        f"waiting are (port, API) {have}"
                    )

    def answer(self, asked: Asked, response: type[Message], body: bytes) -> None:
        """Send the body of an answer, in the version that was asked in."""
        with self._changed:
            self.asked = [
                one for one in self.asked if (one.port, one.api_key) != (asked.port, asked.api_key)
            ]
        header = ResponseHeader(correlation_id=asked.correlation_id)
        frame = header.encode(response.header_version(asked.version)) + body
        asked.connection.sendall(struct.pack(">i", len(frame)) + frame)

    @staticmethod
    def _start(target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self, listener: socket.socket, port: int) -> None:
        while not self._closing:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._start(self._serve, connection, port)

    def _serve(self, connection: socket.socket, port: int) -> None:
        greeted = False
        with suppress(OSError), connection.makefile("rb") as stream:
            while len(head := stream.read(SIZE_BYTES)) == SIZE_BYTES:
                size = int.from_bytes(head, "big")
                if size > _FRAME_BYTES_MAX:
                    return
                frame = stream.read(size)
                if len(frame) < size:
                    return
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if key == API_VERSIONS_KEY and not greeted:
                    greeted = True
                    self._greet(connection, version, correlation_id)
                    continue
                self._take(Asked(port, key, version, correlation_id, connection))

    def _take(self, asked: Asked) -> None:
        with self._changed:
            self.asked.append(asked)
            self.count += 1
            self._changed.notify_all()

    def _greet(self, connection: socket.socket, version: int, correlation_id: int) -> None:
        body = versions_answer().encode(version)
        frame = ResponseHeader(correlation_id=correlation_id).encode(0) + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)


def versions_answer() -> ApiVersionsResponse:
    """Return what a node that speaks all of KRaft, and kraft.version 0 and 1, says it speaks."""
    kind = ApiVersionsResponse
    apis = []
    for request in KRAFT_REQUESTS:
        assert request.API_KEY is not None
        versions = request.VALID_VERSIONS
        apis.append(
            kind.ApiVersion(
                api_key=request.API_KEY, min_version=versions.start, max_version=versions.stop - 1
            )
        )
    feature = kind.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return kind(api_keys=apis, supported_features=[feature])
