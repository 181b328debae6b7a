"""One request to one node, and its answer: how a cluster is asked whether it is well."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import RequestHeader, ResponseHeader

CLIENT_ID = "kraftspec"
TIMEOUT_S = 5.0
CORRELATION_ID = 1  # One request a connection.

_Response = TypeVar("_Response", bound=Message)


def ask(
    port: int,
    request: Message,
    version: int,
    response: type[_Response],
    *,
    timeout_s: float = TIMEOUT_S,
) -> _Response:
    """Send ``request`` at ``version`` to a port of loopback and return what was answered.

    Raises:
        OSError: nobody listens there, or no answer came within ``timeout_s``.
        CodecError: the answer is no ``response`` of that version.
    """
    assert request.API_KEY is not None
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=CORRELATION_ID,
        client_id=CLIENT_ID,
    )
    frame = header.encode(request.header_version(version)) + request.encode(version)
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as stream:
            size = struct.unpack(">i", _exactly(stream.read(4), 4))[0]
            answer = _exactly(stream.read(size), size)
    _, offset = ResponseHeader.decode_from(answer, 0, response.header_version(version))
    return response.decode(answer[offset:], version, copy=True)


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ConnectionError(f"the node hung up after {len(data)} of {size} bytes")
    return data
