"""Frames and headers: what comes before every request and response on a connection.

::

    int32 size | header | body          size counts what follows it

    request header  int16 key, int16 version, int32 correlation id, client id, tags if flexible
    response header int32 correlation id, tags if flexible; ApiVersions never has tags (KIP-511)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.generated import kafka
from kraftspec.generated.kafka import RequestHeader, ResponseHeader
from kraftspec.reference.wire.apis import message_of

if TYPE_CHECKING:
    from types import ModuleType

    from kraftspec.fastpath.message import Message

SIZE_BYTES: Final = 4
REQUEST_BYTES_MIN: Final = 8  # Key, version and correlation id: less is no request.
RESPONSE_BYTES_MIN: Final = 4  # A correlation id.
UNSUPPORTED_VERSION: Final = 35  # Of the error codes, whose import a short command would feel.
FRAME_BYTES_MAX: Final = 100 << 20  # Kafka's socket.request.max.bytes default.
_REQUEST_START = struct.Struct(">hhi")
_PLAIN_HEADER: Final = 1  # Of requests: the fields that every version of the header begins with.

_Response = TypeVar("_Response", bound="Message")


class WireError(ConnectionError):
    """The bytes are no frame, or answer no request: the connection cannot be used any more."""


class FrameReader:
    """Cuts a stream of bytes into frames; holds one frame at the most beside what was just fed."""

    __slots__ = ("_buffer", "bytes_max", "bytes_min")

    def __init__(
        self, bytes_min: int = RESPONSE_BYTES_MIN, bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self.bytes_min = bytes_min
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    def __len__(self) -> int:
        """How many bytes were fed and not taken."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add what was received."""
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next frame, its size left out; None before it is whole.

        Raises WireError, before the frame is waited for, where its size is below ``bytes_min`` or
        above ``bytes_max``.
        """
        buffer = self._buffer
        if len(buffer) < SIZE_BYTES:
            return None
        size = self._size()
        if not self.bytes_min <= size <= self.bytes_max:
            raise WireError(
                f"a frame of {size} bytes; {self.bytes_min} to {self.bytes_max} are taken"
            )
        end = SIZE_BYTES + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            frame = bytes(view[SIZE_BYTES:end])
        del buffer[:end]
        return frame

    def progress(self) -> str:
        """Return how much of the next frame has come: ``12 of 100 bytes``, the size left out."""
        length = len(self._buffer)
        if length < SIZE_BYTES:
            return f"{length} of {SIZE_BYTES} bytes"
        return f"{length - SIZE_BYTES} of {self._size()} bytes"

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)


class RequestHead(NamedTuple):
    """The header of a request, and where its body begins."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


# ---- requests ----------------------------------------------------------------------------------


def peek_request(frame: bytes) -> tuple[int, int, int]:
    """Return API key, version and correlation id, which every version of the header begins with."""
    key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    return key, version, correlation_id


def read_request_head(frame: bytes, request: type[Message] | None = None) -> RequestHead:
    """Return the header of a request; CodecError where the bytes are no header.

    A proxy may not know the request's class. Without it, tags count as part of the body.
    """
    header_version = _PLAIN_HEADER
    if request is not None:
        header_version = request.header_version(int.from_bytes(frame[2:4], "big", signed=True))
    header, body_at = RequestHeader.decode_from(frame, 0, header_version)
    return RequestHead(
        header.request_api_key,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        body_at,
    )


def read_request(frame: bytes, package: ModuleType = kafka) -> tuple[RequestHead, Message]:
    """Return the header and the message of a request, its size left out.

    ``package`` has the messages. CodecError where it has not this API, or they cannot be read.
    """
    key = int.from_bytes(frame[:2], "big", signed=True)
    request = message_of(package, "request", key)
    if request is None:
        raise CodecError(ErrorClass.UNSUPPORTED_VERSION, f"there is no API with key {key}")
    head = read_request_head(frame, request)
    return head, request.decode(memoryview(frame)[head.body_at :], head.version, copy=True)


def request_header(
    request: type[Message], version: int, correlation_id: int, client_id: str
) -> bytes:
    """Return what is sent before the body of a request."""
    assert request.API_KEY is not None
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return header.encode(request.header_version(version))


# ---- responses ---------------------------------------------------------------------------------


def response_header(response: type[Message], version: int, correlation_id: int) -> bytes:
    """Return what is sent before the body of a response."""
    return ResponseHeader(correlation_id=correlation_id).encode(response.header_version(version))


def read_correlation_id(frame: bytes) -> int:
    """Return which request a response answers."""
    return int.from_bytes(frame[:RESPONSE_BYTES_MIN], "big", signed=True)


def answer_version(frame: bytes, response: type[Message], version: int) -> int:
    """Return the version that a response is in: that of its request, with one exception.

    A node that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
    """
    is_refused = frame[4:6] == UNSUPPORTED_VERSION.to_bytes(2, "big")
    return 0 if is_refused and response.API_KEY == API_VERSIONS_KEY else version


def response_body(frame: bytes, response: type[Message], version: int) -> memoryview:
    """Return the body of a response; CodecError where its header cannot be read."""
    if len(frame) < RESPONSE_BYTES_MIN:
        raise CodecError(ErrorClass.TRUNCATED, "a response without a correlation id", offset=0)
    _, body_at = ResponseHeader.decode_from(frame, 0, response.header_version(version))
    return memoryview(frame)[body_at:]


def read_response(frame: bytes, response: type[_Response], version: int) -> _Response:
    """Return the response to a request of that version; CodecError where it cannot be read."""
    version = answer_version(frame, response, version)
    return response.decode(response_body(frame, response, version), version, copy=True)


def sized(*parts: bytes | memoryview) -> bytes:
    """Return a frame, given in pieces, with its size before it."""
    return b"".join((sum(map(len, parts)).to_bytes(SIZE_BYTES, "big"), *parts))
