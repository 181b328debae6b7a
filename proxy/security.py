"""TLS and logins that end at the proxy: those of the peers, and its own at the nodes.

Both sides are described by Kafka's properties. What peers need stands in a file like that of a
listener, what nodes need in one like a client's.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import ResponseHeader
from kraftspec.proxy.frame import API_VERSIONS, SASL_HANDSHAKE, Fate, Frame, encoded
from kraftspec.reference.admin.config import load_client_config
from kraftspec.reference.admin.security import JAAS, client_security, protocol_of, tls_of
from kraftspec.reference.node.security.jaas import JaasError, parse_login
from kraftspec.reference.node.security.sasl import SASL_APIS, Authenticator, authenticate_client
from kraftspec.reference.node.security.scram import (
    ITERATIONS_MIN,
    NONCE_BYTES,
    ScramCredential,
    credential_of,
)
from kraftspec.reference.node.security.tls import server_context
from kraftspec.reference.node.settings import ClientAuth, Mechanism, SaslConfig
from kraftspec.reference.wire.client import Requests
from kraftspec.reference.wire.frames import WireError, read_response

if TYPE_CHECKING:
    import ssl

LOGIN_S: Final = 30.0
CLIENT_AUTH: Final = "ssl.client.auth"
MECHANISMS: Final = "sasl.enabled.mechanisms"
_USER: Final = "user_"


class Security(NamedTuple):
    """What one side of the proxy needs; None where there is no TLS, or no login."""

    tls: ssl.SSLContext | None = None
    sasl: SaslConfig | None = None


def node_security(path: str) -> Security:
    """Read how the proxy shows itself to nodes: a client's properties.

    Raises OSError, and ValueError with the file and the property.
    """
    config = load_client_config(path)
    try:
        return Security(*client_security(config.properties))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def peer_security(path: str) -> Security:
    """Read how peers show themselves to the proxy: a listener's properties.

    ``security.protocol``, ``ssl.keystore.*``, ``ssl.client.auth``, ``ssl.truststore.*``,
    ``sasl.enabled.mechanisms`` and ``sasl.jaas.config`` with ``user_NAME="PASSWORD"`` for each who
    may log in, by whichever mechanism. Raises OSError, and ValueError with the file and
    the property.
    """
    properties = load_client_config(path).properties
    try:
        protocol = protocol_of(properties)
        return Security(
            server_context(_listener_tls(properties)) if protocol.has_tls else None,
            _listener_sasl(properties) if protocol.has_sasl else None,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _listener_tls(properties: Mapping[str, str]) -> Any:
    word = properties.get(CLIENT_AUTH, ClientAuth.NONE).strip()
    if word not in list(ClientAuth):
        raise ValueError(f"{CLIENT_AUTH}={word}: it is one of {', '.join(ClientAuth)}")
    tls = tls_of(properties)
    if tls.key_store is None:
        raise ValueError("ssl.keystore.location: it is missing; a listener with TLS needs a key")
    return msgspec.structs.replace(tls, client_auth=ClientAuth(word))


def _listener_sasl(properties: Mapping[str, str]) -> SaslConfig:
    words = [word.strip() for word in properties.get(MECHANISMS, "PLAIN").split(",")]
    wrong = [word for word in words if word not in list(Mechanism)]
    if wrong:
        raise ValueError(f"{MECHANISMS}={wrong[0]}: it is one of {', '.join(Mechanism)}")
    try:
        login = parse_login(properties.get(JAAS, ""))
    except JaasError as error:
        raise ValueError(f"{JAAS}: {error}") from error
    if not any(option.startswith(_USER) for option in login.options):
        raise ValueError(f'{JAAS}: nobody may log in; add user_NAME="PASSWORD"')
    mechanisms = tuple(map(Mechanism, words))
    return SaslConfig(mechanisms=mechanisms, logins=dict.fromkeys(mechanisms, login))


# ---- a peer logs in ----------------------------------------------------------------------------


class Gate:
    """The login of one peer at the proxy. The node behind it hears nothing of that."""

    def __init__(self, sasl: SaslConfig, report: Callable[[str], None]) -> None:
        self._authenticator = Authenticator(sasl, _credentials(sasl), time.monotonic)
        self._report = report

    def is_about(self, api_key: int) -> bool:
        """Whether it has to see requests of an API now."""
        return api_key in SASL_APIS or not self._authenticator.allows()

    def judge(self, frame: Frame, ruled: Fate | None) -> Fate | None:
        """Return the answer to a login, the end of a connection, or None: the request passes.

        ``ruled`` is what the rules say; an answer is as late as they want it.
        """
        exchange = frame.exchange
        if exchange.api_key not in SASL_APIS:
            if self._authenticator.allows() or exchange.api_key == API_VERSIONS:
                return None
            return self._hang_up(f"{exchange.name} came before a login")
        if exchange.api_key == SASL_HANDSHAKE and not exchange.version:
            return self._hang_up("SaslHandshake 0, after which tokens have no headers")
        try:
            answer = self._authenticator.handle(frame.message)
        except CodecError as error:
            return self._hang_up(f"{exchange.name}: {error}")
        if answer is None:
            return self._hang_up(f"{exchange.name} after a login that failed")
        response, version = answer.response, exchange.version
        header = ResponseHeader(correlation_id=exchange.correlation_id)
        fate = Fate(encoded(header, type(response).header_version(version), response, version))
        fate.is_answer = True
        fate.close = "after" if answer.is_failure else None
        if ruled is not None:
            fate.delay_s, fate.hold = ruled.delay_s, ruled.hold
        return fate

    def _hang_up(self, reason: str) -> Fate:
        self._report(f"a peer is hung up on: {reason}")
        fate = Fate([])
        fate.close = "before"
        return fate


def _credentials(sasl: SaslConfig) -> Any:
    passwords = {
        option.removeprefix(_USER): password
        for login in sasl.logins.values()
        for option, password in login.options.items()
        if option.startswith(_USER)
    }

    def lookup(mechanism: Mechanism, name: str) -> ScramCredential | None:
        password = passwords.get(name)
        return None if password is None else _credential(mechanism, password)

    return lookup


@cache
def _credential(mechanism: Mechanism, password: str) -> ScramCredential:
    return credential_of(mechanism, password, secrets.token_bytes(NONCE_BYTES), ITERATIONS_MIN)


# ---- the proxy logs in -------------------------------------------------------------------------


class Login:
    """The proxy's own login at a node, before anything of a peer is sent there."""

    def __init__(self, sasl: SaslConfig, transport: Any) -> None:
        self._sasl = sasl
        self._transport = transport
        self._requests = Requests("kraftspec-proxy")
        self._answer: asyncio.Future[bytes] | None = None

    async def run(self) -> None:
        """Log in. Raises OSError, CodecError."""
        async with asyncio.timeout(LOGIN_S):
            await authenticate_client(self._sasl, self._exchange)

    async def _exchange(self, request: Any, version: int, response: Any) -> Any:
        frame = self._requests.ask(type(request), version, request.encode(version))
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return read_response(await self._answer, response, version)

    def feed(self, data: bytes) -> None:
        """Take what the node sent; nothing means that it hung up."""
        if self._answer is None or self._answer.done():
            return
        try:
            self._requests.feed(data)
            taken = self._requests.take()
        except WireError as error:
            self._answer.set_exception(error)
            return
        if taken is not None:
            self._answer.set_result(taken[1])
