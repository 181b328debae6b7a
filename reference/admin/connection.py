"""One blocking connection to one node: frames, headers, versions.

::

    request   size int32 | header (api key, version, correlation id, client id) | body
    response  size int32 | header (correlation id)                              | body
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    RequestHeader,
    ResponseHeader,
)
from kraftspec.reference.admin.errors import AdminError, AnswerError, address, said

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from types import TracebackType

    from kraftspec.fastpath.message import Message
    from kraftspec.reference.admin.config import ClientConfig
    from kraftspec.reference.node.settings import SaslConfig

FRAME_BYTES_MAX: Final = 100 << 20  # Kafka's socket.request.max.bytes default.
API_VERSIONS_MAX: Final = 4  # The first at which features whose lowest level is 0 are listed.
UNSUPPORTED_VERSION: Final = 35
_SOFTWARE = "kraftspec"
_SIZE = struct.Struct(">i")

_Response = TypeVar("_Response", bound="Message")


class Connection:
    """A connection that is open, with the versions that its node speaks: ``versions``.

    Every failure of the network is an OSError (``TimeoutError`` among them), and a frame that is no
    answer, too: the connection is of no more use then.
    """

    def __init__(self, host: str, port: int, config: ClientConfig, deadline_s: float) -> None:
        """Connect and ask for the versions, until ``deadline_s`` of ``time.monotonic``."""
        self.host, self.port = host, port
        self.versions: dict[int, range] = {}
        self._config = config
        self._correlation_id = 0
        self._is_let_in = False  # A question of ours was answered.
        tls, sasl = _security(config)
        wants = {"TLS": tls, "a login": sasl}
        self._lacks = " or ".join(word for word, given in wants.items() if given is None)
        self._socket = socket.create_connection(
            (host, port), left_s(deadline_s, config.connect_timeout_ms)
        )
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                with self._advised():
                    self._begin(sasl, deadline_s)
            else:
                self._begin_tls(tls, sasl, deadline_s)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return address(self.host, self.port)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, request: Message, response: type[_Response], deadline_s: float) -> _Response:
        """Send a request at the newest version that both sides have, and return the answer.

        Raises:
            AdminError: the node does not know this request.
            CodecError: the request cannot be said at that version, or the answer is none.
        """
        offered = self.versions.get(request.API_KEY or 0, range(0))
        ours = request.VALID_VERSIONS
        version = min(offered.stop, ours.stop) - 1
        name = type(request).__name__.removesuffix("Request")
        if version < max(offered.start, ours.start) or not offered:
            known = f"only {offered.start} to {offered.stop - 1}" if offered else "at no version"
            raise AdminError(f"{self} does not answer {name}: {known}")
        with self._advised():
            answer = self._exchange(request, version, response, deadline_s)
        self._is_let_in = True
        return answer

    @contextmanager
    def _advised(self) -> Iterator[None]:
        """Say what a node may want that hangs up; one of Kafka's does so without a word.

        It answers ApiVersions before a login, too.
        """
        try:
            yield
        except ConnectionError as error:
            if self._is_let_in or not self._lacks:
                raise
            raise ConnectionError(
                f"{said(error)}; it may want {self._lacks}: set security.protocol in the file of "
                f"--command-config"
            ) from error

    def _exchange(
        self, request: Message, version: int, response: type[_Response], deadline_s: float
    ) -> _Response:
        answer = self._frames(request, version, deadline_s)
        _, offset = ResponseHeader.decode_from(answer, 0, response.header_version(version))
        return response.decode(answer[offset:], version, copy=True)

    def _frames(self, request: Message, version: int, deadline_s: float) -> bytes:
        """Send a request's frame; return the response's, which begins with the correlation id."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.API_KEY or 0,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._config.client_id,
        )
        frame = header.encode(request.header_version(version)) + request.encode(version)
        until_s = min(deadline_s, time.monotonic() + self._config.request_timeout_ms / 1000)
        self._socket.settimeout(left_s(until_s))
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        (size,) = _SIZE.unpack(self._read(_SIZE.size, until_s))
        if not _SIZE.size <= size <= FRAME_BYTES_MAX:
            raise ConnectionError(f"{self} answers with a frame of {size} bytes: is it Kafka's?")
        answer = self._read(size, until_s)
        (correlation_id,) = _SIZE.unpack_from(answer)
        if correlation_id != self._correlation_id:
            raise ConnectionError(
                f"{self} answers the request {correlation_id}, and {self._correlation_id} was asked"
            )
        return answer

    def _read(self, size: int, until_s: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(left_s(until_s))
            # What is read grows with what came: a size that is a lie takes no memory.
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError(f"{self} hung up after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def _ask_versions(self, deadline_s: float) -> None:
        from kraftspec import __version__  # noqa: PLC0415 - the package is being imported above

        request = ApiVersionsRequest(
            client_software_name=_SOFTWARE, client_software_version=__version__
        )
        version = API_VERSIONS_MAX
        while True:
            answer = self._frames(request, version, deadline_s)
            # The header is always version 0 here, and an error comes in a body of version 0, so
            # that whoever asked too high can read it (KIP-511).
            is_refused = answer[4:6] == UNSUPPORTED_VERSION.to_bytes(2)
            response = ApiVersionsResponse.decode(
                answer[4:], 0 if is_refused else version, copy=True
            )
            self.versions = {
                api.api_key: range(api.min_version, api.max_version + 1)
                for api in response.api_keys
            }
            if not is_refused:
                break
            offered = self.versions.get(ApiVersionsRequest.API_KEY, range(1))
            if offered.stop - 1 >= version:
                raise AnswerError(response.error_code, f"from {self}, which offers that version")
            version = max(offered.stop - 1, 0)
        if response.error_code:
            raise AnswerError(response.error_code, f"{self} does not say what it speaks")

    def _begin_tls(self, tls: ssl.SSLContext, sasl: SaslConfig | None, deadline_s: float) -> None:
        """Begin below TLS; another try would not change whom the two sides trust."""
        import ssl  # noqa: PLC0415 - only where there is TLS

        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=self.host)
            self._begin(sasl, deadline_s)
        except ssl.SSLError as error:
            raise AdminError(f"{self}: TLS failed: {error}") from error
        except ConnectionError as error:
            # Who asks for a certificate says so after the handshake, and hangs up at once.
            raise ConnectionError(
                f"{said(error)}; it may want a certificate: set ssl.keystore.location"
            ) from error

    def _begin(self, sasl: SaslConfig | None, deadline_s: float) -> None:
        if sasl is not None:
            self._authenticate(sasl, deadline_s)
        self._ask_versions(deadline_s)

    def _authenticate(self, sasl: SaslConfig, deadline_s: float) -> None:
        """Log in, before anything else, as a node does."""
        import asyncio  # noqa: PLC0415 - only where there is a login

        from kraftspec.reference.node.security.sasl import (  # noqa: PLC0415 - likewise
            AuthenticationError,
            authenticate_client,
        )

        async def exchange(
            asks: type[Message], answers: type[_Response], version: int, request: Message
        ) -> _Response:
            return self._exchange(request, version, answers, deadline_s)

        try:
            asyncio.run(authenticate_client(sasl, exchange))
        except AuthenticationError as error:
            raise AdminError(f"{self}: the login failed: {error}") from error


def _security(config: ClientConfig) -> tuple[ssl.SSLContext | None, SaslConfig | None]:
    if "security.protocol" not in config.properties:
        return None, None
    from kraftspec.reference.admin.security import (  # noqa: PLC0415 - most commands have none
        client_security,
    )

    try:
        return client_security(config.properties)
    except ValueError as error:
        raise AdminError(f"{config.path}: {error}") from error


def left_s(deadline_s: float, at_most_ms: float = 1e12) -> float:
    """Return the seconds until a deadline; TimeoutError where none are left."""
    left = min(deadline_s - time.monotonic(), at_most_ms / 1000)
    if left <= 0:
        raise TimeoutError("the time is up")
    return left
