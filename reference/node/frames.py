"""Frames and headers: what comes before every request and response on a connection.

::

    int32 size | header | body          size counts what follows it

    request header  int16 key, int16 version, int32 correlation id, client id, tags if flexible
    response header int32 correlation id, tags if flexible; ApiVersions never has tags (KIP-511)

Nothing here knows a socket.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.generated.kafka import RequestHeader, ResponseHeader
from kraftspec.reference.raft.messages import Api

API_VERSIONS_KEY: Final = 18
SIZE_BYTES: Final = 4
REQUEST_BYTES_MIN: Final = 8  # Key, version and correlation id: less is no request.
RESPONSE_BYTES_MIN: Final = 4  # A correlation id.
_KEY_AND_VERSION = struct.Struct(">hh")


class FrameError(ValueError):
    """The bytes are no frames: where the next would begin, nobody can tell."""


class FrameReader:
    """Cuts a stream of bytes into frames; holds one frame at the most beside what was just fed."""

    __slots__ = ("_buffer", "bytes_max", "bytes_min")

    def __init__(self, bytes_min: int, bytes_max: int) -> None:
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

        Raises FrameError, before the frame is waited for, where its size is below ``bytes_min`` or
        above ``bytes_max``.
        """
        buffer = self._buffer
        if len(buffer) < SIZE_BYTES:
            return None
        size = int.from_bytes(buffer[:SIZE_BYTES], "big", signed=True)
        if not self.bytes_min <= size <= self.bytes_max:
            raise FrameError(
                f"a frame of {size} bytes; {self.bytes_min} to {self.bytes_max} are taken"
            )
        end = SIZE_BYTES + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            frame = bytes(view[SIZE_BYTES:end])
        del buffer[:end]
        return frame


class RequestHead(NamedTuple):
    """The header of a request, and where its body begins."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def peek_api(frame: bytes) -> tuple[int, int]:
    """Return the API key and the version of a request, which its header's layout depends on."""
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    return key, version


def correlation_id_of(frame: bytes) -> int:
    """Return the correlation id of a request, which stands at the same place in every version."""
    return int.from_bytes(frame[4:8], "big", signed=True)


def read_request_head(frame: bytes, is_flexible: bool) -> RequestHead:
    """Return the header of a request; CodecError where it is none."""
    header, body_at = RequestHeader.decode_from(frame, 0, 2 if is_flexible else 1)
    return RequestHead(
        header.request_api_key,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        body_at,
    )


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str, body: bytes
) -> bytes:
    """Return a request as it is sent."""
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    ).encode(2 if version >= api.first_flexible_version else 1)
    return (len(header) + len(body)).to_bytes(SIZE_BYTES, "big") + header + body


def response_frame(api: Api, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a response as it is sent."""
    header = ResponseHeader(correlation_id=correlation_id).encode(_response_header(api, version))
    return (len(header) + len(body)).to_bytes(SIZE_BYTES, "big") + header + body


def read_correlation_id(frame: bytes) -> int:
    """Return which request a response answers."""
    return int.from_bytes(frame[:RESPONSE_BYTES_MIN], "big", signed=True)


def response_body(frame: bytes, api: Api, version: int) -> memoryview:
    """Return the body of a response; CodecError where its header is none."""
    if len(frame) < RESPONSE_BYTES_MIN:
        raise CodecError(ErrorClass.TRUNCATED, "a response without a correlation id", offset=0)
    _, body_at = ResponseHeader.decode_from(frame, 0, _response_header(api, version))
    return memoryview(frame)[body_at:]


def _response_header(api: Api, version: int) -> int:
    is_flexible = version >= api.first_flexible_version and api.key != API_VERSIONS_KEY
    return 1 if is_flexible else 0
