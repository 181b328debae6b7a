"""One blocking connection to one node: TLS and login, versions, requests and their answers."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kraftspec.reference.admin.errors import AdminError, AnswerError, address, error_text
from kraftspec.reference.wire.apis import api_name, common_version
from kraftspec.reference.wire.blocking import BlockingClient, left_s, run_blocking
from kraftspec.reference.wire.client import VersionsError, negotiate
from kraftspec.reference.wire.frames import WireError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from types import TracebackType

    from kraftspec.fastpath.message import Message
    from kraftspec.reference.admin.config import ClientConfig
    from kraftspec.reference.node.settings import SaslConfig
    from kraftspec.reference.wire.apis import Versions
    from kraftspec.reference.wire.client import Exchange

_Response = TypeVar("_Response", bound="Message")


class Connection:
    """A connection that is open, with the versions that its node speaks: ``versions``.

    Every failure of the network is an OSError (``TimeoutError`` among them), and a frame that is no
    answer, too: the connection is of no more use then.
    """

    def __init__(self, host: str, port: int, config: ClientConfig, deadline_s: float) -> None:
        """Connect and ask for the versions, until ``deadline_s`` of ``time.monotonic``."""
        self.host, self.port = host, port
        self.versions: Versions = {}
        self._config = config
        self._is_let_in = False  # A question of ours was answered.
        tls, sasl = _security(config)
        wants = {"TLS": tls, "a login": sasl}
        self._lacks = " or ".join(word for word, given in wants.items() if given is None)
        connected = socket.create_connection(
            (host, port), left_s(deadline_s, config.connect_timeout_ms)
        )
        self._client = BlockingClient(connected, config.client_id)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                with self._advised():
                    self._begin(sasl, deadline_s)
            else:
                self._begin_tls(tls, sasl, deadline_s)
        except BaseException:
            self.close()
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
        self._client.socket.close()

    def ask(self, request: Message, response: type[_Response], deadline_s: float) -> _Response:
        """Send a request at the newest version that both sides have, and return the answer.

        Raises:
            AdminError: the node does not know this request.
            CodecError: the request cannot be said at that version, or the answer is none.
        """
        offered = self.versions.get(request.API_KEY or 0)
        version = common_version(request.VALID_VERSIONS, offered)
        if version is None:
            known = f"only {offered.start} to {offered.stop - 1}" if offered else "at no version"
            raise AdminError(f"{self} does not answer {api_name(type(request))}: {known}")
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
                f"{error_text(error)}; it may want {self._lacks}: set security.protocol in "
                f"the file of --command-config"
            ) from error

    def _exchange(
        self, request: Message, version: int, response: type[_Response], deadline_s: float
    ) -> _Response:
        until_s = min(deadline_s, time.monotonic() + self._config.request_timeout_ms / 1000)
        try:
            return self._client.exchange(request, version, response, until_s)
        except WireError as error:
            raise WireError(f"{self} {error}") from error

    def _exchanging(self, deadline_s: float) -> Exchange:
        """Return the exchange that the negotiation of versions and a login are given."""

        async def exchange(request: Message, version: int, response: type[_Response]) -> _Response:
            return self._exchange(request, version, response, deadline_s)

        return exchange

    def _ask_versions(self, deadline_s: float) -> None:
        try:
            self.versions = run_blocking(negotiate(self._exchanging(deadline_s)))
        except VersionsError as error:
            raise AnswerError(error.code, f"{self} does not say what it speaks: {error}") from error

    def _begin_tls(self, tls: ssl.SSLContext, sasl: SaslConfig | None, deadline_s: float) -> None:
        """Begin below TLS; another try would not change whom the two sides trust."""
        import ssl  # noqa: PLC0415 - only where there is TLS

        try:
            client = self._client
            client.socket = tls.wrap_socket(client.socket, server_hostname=self.host)
            self._begin(sasl, deadline_s)
        except ssl.SSLError as error:
            raise AdminError(f"{self}: TLS failed: {error}") from error
        except ConnectionError as error:
            # Who asks for a certificate says so after the handshake, and hangs up at once.
            raise ConnectionError(
                f"{error_text(error)}; it may want a certificate: set ssl.keystore.location"
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

        try:
            asyncio.run(authenticate_client(sasl, self._exchanging(deadline_s)))
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
