"""The asking side of a connection on a blocking socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraftspec.reference.wire.client import SOFTWARE_NAME, Requests
from kraftspec.reference.wire.frames import read_response

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.wire.frames import FrameReader

ASK_TIMEOUT_S: Final = 5.0
CHUNK_BYTES: Final = 1 << 16  # Memory grows with what came: a size that is a lie takes none.

_Response = TypeVar("_Response", bound="Message")
_Result = TypeVar("_Result")


class BlockingClient:
    """One request at a time, and its answer, on a connected socket.

    Every failure of the network is an OSError (``TimeoutError`` among them), and so is WireError:
    after it the connection cannot be used any more.
    """

    def __init__(self, connected: socket.socket, client_id: str) -> None:
        self.socket = connected
        self._requests = Requests(client_id)

    def exchange(
        self, request: Message, version: int, response: type[_Response], until_s: float
    ) -> _Response:
        """Send a request and return its answer, until ``until_s`` of ``time.monotonic``.

        Raises CodecError where that version cannot carry the request, or the answer cannot be read.
        """
        frame = self._requests.ask(type(request), version, request.encode(version))
        self.socket.settimeout(left_s(until_s))
        self.socket.sendall(frame)
        while (answered := self._requests.take()) is None:
            self.socket.settimeout(left_s(until_s))
            self._requests.feed(self.socket.recv(CHUNK_BYTES))
        return read_response(answered[1], response, version)


def receive_frames(connected: socket.socket, reader: FrameReader) -> Iterator[bytes]:
    """Yield what is received, frame by frame, until the other side hangs up.

    Raises OSError for failures of the network, and WireError for bytes that are no frame.
    """
    while data := connected.recv(CHUNK_BYTES):
        reader.feed(data)
        while (frame := reader.take()) is not None:
            yield frame


def ask(
    port: int,
    request: Message,
    version: int,
    response: type[_Response],
    *,
    timeout_s: float = ASK_TIMEOUT_S,
) -> _Response:
    """Put one request to a port of loopback, on a connection of its own; return the answer.

    Raises:
        OSError: nobody listens there, or no answer came within ``timeout_s``.
        CodecError: the answer cannot be read as a ``response`` of that version.
    """
    until_s = time.monotonic() + timeout_s
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connected:
        client = BlockingClient(connected, SOFTWARE_NAME)
        return client.exchange(request, version, response, until_s)


def run_blocking(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine whose exchange blocks, so that it needs no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: _Result = done.value
        return result
    raise RuntimeError("it waits for an event loop")


def left_s(deadline_s: float, at_most_ms: float = 1e12) -> float:
    """Return the seconds until a deadline; TimeoutError where none are left."""
    left = min(deadline_s - time.monotonic(), at_most_ms / 1000)
    if left <= 0:
        raise TimeoutError("the time is up")
    return left
