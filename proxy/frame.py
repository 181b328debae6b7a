"""Frames that are looked at: their API, their header and their message, decoded when needed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.generated.kafka import RequestHeader, ResponseHeader
from kraftspec.reference.wire.apis import api_name, message_of
from kraftspec.reference.wire.frames import SIZE_BYTES, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.proxy.watch import WaitingRequest

Direction = Literal["request", "response"]
Part = bytes | memoryview

PRODUCE: Final = 0
METADATA: Final = 3
API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
CLIENT_ID_AT: Final = SIZE_BYTES + 8
_SHORT = struct.Struct(">h")
_UVARINT_MORE: Final = 0x80


class Api(NamedTuple):
    """An API and its two messages."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]

    def message(self, direction: Direction) -> type[Message]:
        """Return the class of its requests or of its responses."""
        return self.request if direction == "request" else self.response


@cache
def apis_of(package: ModuleType) -> dict[int, Api]:
    """Return the APIs of a package of generated messages that have versions, by key."""
    apis = {}
    for key in sorted({row[2] for row in package.CATALOGUE.values() if row[1] == "request"}):
        request, response = (message_of(package, kind, key) for kind in ("request", "response"))
        if request is not None and response is not None and request.VALID_VERSIONS:
            apis[key] = Api(key, api_name(request), request, response)
    return apis


class Exchange:
    """A request on a connection, and what is known of its answer.

    ``request`` is kept where a rule for responses asks about it. ``answer`` is what the proxy
    answers by itself; it waits until all requests before this one are answered.
    """

    __slots__ = ("answer", "api", "api_key", "correlation_id", "request", "version", "waiting")

    def __init__(self, api_key: int, version: int, correlation_id: int, api: Api | None) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.api = api
        self.request: Frame | None = None
        self.answer: Fate | None = None
        self.waiting: WaitingRequest | None = None  # For somebody who looks.

    @property
    def name(self) -> str:
        """The name of its API; the key of one that nobody knows."""
        return self.api.name if self.api else f"API {self.api_key}"


class Fate:
    """What becomes of a frame. ``parts`` are what is delivered, its size included.

    With ``is_answer`` the frame is a request, and they are the answer that its sender gets.
    """

    __slots__ = (
        "bytes_per_second", "close", "copies", "cut_bytes", "delay_s", "hold", "is_answer",
        "is_dropped", "parts", "reorder_s",
    )  # fmt: skip

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.is_answer = False
        self.delay_s = 0.0
        self.hold: Callable[[Callable[[], None]], None] | None = None  # Gets what releases it.
        self.reorder_s: float | None = None
        self.bytes_per_second: int | None = None
        self.copies = 0
        self.cut_bytes: int | None = None
        self.close: str | None = None
        self.is_dropped = False

    @property
    def is_delivered(self) -> bool:
        """Whether anything of the frame goes on."""
        return not self.is_dropped and self.close not in ("before", "reset")

    def body(self) -> bytearray:
        """Return a copy of what is delivered, without its size."""
        return bytearray(b"".join(self.parts))[SIZE_BYTES:]

    def replace(self, body: bytearray) -> None:
        """Deliver these bytes instead, with their size before them."""
        self.parts = [len(body).to_bytes(SIZE_BYTES, "big") + body]


class Frame:
    """A whole frame, its size included. ``changed`` says that ``header`` or ``message`` did.

    ``header`` and ``message`` are decoded when they are first asked for, and raise CodecError where
    they cannot be. ``records`` are views of the frame.
    """

    __slots__ = ("_header", "_message", "_message_at", "changed", "data", "direction", "exchange")

    def __init__(self, direction: Direction, exchange: Exchange, data: bytes) -> None:
        self.direction = direction
        self.exchange = exchange
        self.data = data
        self.changed = False
        self._header: Any = None
        self._message: Any = None
        self._message_at = 0

    @property
    def message_class(self) -> type[Message]:
        """The class of its message; CodecError for an API that nobody knows."""
        exchange = self.exchange
        if exchange.api is None:
            raise CodecError(
                ErrorClass.UNSUPPORTED_VERSION, f"there is no API with the key {exchange.api_key}"
            )
        return exchange.api.message(self.direction)

    @property
    def version(self) -> int:
        """The version of its message; of a refused ApiVersions request's answer it is 0."""
        at = SIZE_BYTES + 4
        is_refusal = (
            self.direction == "response"
            and self.exchange.api_key == API_VERSIONS
            and self.data[at : at + 2] == UNSUPPORTED_VERSION.to_bytes(2, "big")
        )
        return 0 if is_refusal else self.exchange.version

    @property
    def header(self) -> Any:
        """Its header."""
        if self._header is None:
            cls = RequestHeader if self.direction == "request" else ResponseHeader
            self._header, self._message_at = cls.decode_from(
                self.data, SIZE_BYTES, self.header_version
            )
        return self._header

    @property
    def header_version(self) -> int:
        """The version of its header."""
        return self.message_class.header_version(self.version)

    @property
    def message(self) -> Any:
        """Its message."""
        if self._message is None:
            cls = self.message_class
            assert self.header is not None  # It says where the message begins.
            message, end = cls.decode_from(self.data, self._message_at, self.version)
            if end != len(self.data):
                raise CodecError(
                    ErrorClass.TRAILING,
                    f"{len(self.data) - end} bytes follow the message",
                    offset=end - self._message_at,
                )
            self._message = message
        return self._message

    @property
    def client_id(self) -> str | None:
        """The client id of a request, also of one whose API or version nobody knows."""
        return client_id_at(self.data, 0)

    def parts(self) -> list[Part]:
        """Return what is to be sent: the frame as it came, or encoded anew where it changed."""
        if not self.changed:
            return [self.data]
        return encoded(self.header, self.header_version, self.message, self.version)


def encoded(header: Message, header_version: int, message: Message, version: int) -> list[Part]:
    """Return the parts of a frame; large records are not copied."""
    head = header.encode(header_version)
    parts = message.encode_parts(version)
    size = len(head) + sum(map(len, parts))
    start = size.to_bytes(SIZE_BYTES, "big") + head
    if parts and isinstance(parts[0], bytes):
        return [start + parts[0], *parts[1:]]
    return [start, *parts]


def client_id_at(data: bytes | memoryview, at: int) -> str | None:
    """Return the client id of the request whose size stands at ``at``; None without a whole one."""
    at += CLIENT_ID_AT
    if len(data) < at + 2:
        return None
    (length,) = _SHORT.unpack_from(data, at)
    text = bytes(data[at + 2 : at + 2 + max(length, 0)])
    return text.decode("utf-8", "replace") if len(text) == length else None


def expects_answer(data: bytes | memoryview, at: int, end: int, version: int) -> bool | None:
    """Whether a Produce request is answered: acks are not 0. None where more bytes are needed.

    ``at`` is where its size stands, ``end`` where the frame ends.
    """
    try:
        (length,) = _SHORT.unpack_from(data, at + CLIENT_ID_AT)
        at += CLIENT_ID_AT + 2 + max(length, 0)
        if version < 9:  # noqa: PLR2004 - the first flexible one
            (length,) = _SHORT.unpack_from(data, at)
            at += 2 + max(length, 0)
        else:
            if data[at]:  # No release has a tag in a header.
                return True
            length, at = _uvarint(data, at + 1)
            at += max(length - 1, 0)
        (acks,) = _SHORT.unpack_from(data, at)
    except (struct.error, IndexError):
        return None if len(data) < end else True
    return bool(acks) or at + 2 > end


def _uvarint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & ~_UVARINT_MORE) << shift
        if not byte & _UVARINT_MORE:
            return value, at
        shift += 7
