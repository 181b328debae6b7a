"""Other nodes as a script has them: they listen, and answer when and what they are told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.message import API_VERSIONS_KEY, Message
from kraftspec.generated.kafka import ApiVersionsResponse
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.wire.blocking import receive_frames
from kraftspec.reference.wire.frames import (
    REQUEST_BYTES_MIN,
    FrameReader,
    peek_request,
    response_header,
    sized,
)

KRAFT_APIS = KafkaProfile().apis.values()
_FRAME_BYTES_MAX = 1 << 20  # A controller asks little.


@dataclass(eq=False)
class PendingRequest:
    """A request that came in and is not answered yet."""

    port: int
    api_key: int
    version: int
    correlation_id: int
    connection: socket.socket
    frame: bytes


class Peers:
    """Listeners on fixed ports. The first ApiVersions of a connection is answered at once.

    Everything else waits for ``answer``; what is never answered, the node waits for.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        """Listen on all ports; ``OSError`` where one is taken."""
        self.pending: list[PendingRequest] = []
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

    def wait(self, port: int, request: type[Message], timeout_s: float) -> PendingRequest:
        """Return the newest request of that kind that waits there; ``TimeoutError`` for none."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for one in reversed(self.pending):
                    if (one.port, one.api_key) == (port, request.API_KEY):
                        return one
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    have = [(one.port, one.api_key) for one in self.pending]
                    raise TimeoutError(
                        f"no {request.__name__} came in on {port} within {timeout_s:g} s; "
                        f"waiting are (port, API) {have}"
                    )

    def answer(self, request: PendingRequest, response: type[Message], body: bytes) -> None:
        """Send the body of an answer, in the version that was asked in."""
        with self._changed:
            self.pending = [
                one
                for one in self.pending
                if (one.port, one.api_key) != (request.port, request.api_key)
            ]
        header = response_header(response, request.version, request.correlation_id)
        request.connection.sendall(sized(header + body))

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
        with suppress(OSError):
            for frame in receive_frames(
                connection, FrameReader(REQUEST_BYTES_MIN, _FRAME_BYTES_MAX)
            ):
                key, version, correlation_id = peek_request(frame)
                if key == API_VERSIONS_KEY and not greeted:
                    greeted = True
                    self._greet(connection, version, correlation_id)
                    continue
                self._take(PendingRequest(port, key, version, correlation_id, connection, frame))

    def _take(self, request: PendingRequest) -> None:
        with self._changed:
            self.pending.append(request)
            self.count += 1
            self._changed.notify_all()

    def _greet(self, connection: socket.socket, version: int, correlation_id: int) -> None:
        header = response_header(ApiVersionsResponse, version, correlation_id)
        connection.sendall(sized(header + versions_answer().encode(version)))


def versions_answer() -> ApiVersionsResponse:
    """Return what a node that speaks all of KRaft, and kraft.version 0 and 1, says it speaks."""
    kind = ApiVersionsResponse
    apis = [
        kind.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in KRAFT_APIS
    ]
    feature = kind.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return kind(api_keys=apis, supported_features=[feature])
