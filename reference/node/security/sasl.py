"""SASL over Kafka's frames, on both sides: SaslHandshake v1, then SaslAuthenticate (KIP-152).

A server has one ``Authenticator`` a connection. It is fed requests and gives the answers; any other
request before it is done ends the connection. Nothing that a peer
sends makes it wait or compute for long: the work of SCRAM is the client's.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kraftspec.reference.node.security import scram
from kraftspec.reference.node.security.principal import USER
from kraftspec.reference.node.security.scram import ScramCredential, ScramError
from kraftspec.reference.node.settings import Mechanism
from kraftspec.reference.wire.apis import Api

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.node.settings import Login, SaslConfig
    from kraftspec.reference.wire.client import Exchange

HANDSHAKE_VERSION: Final = 1  # At version 0 tokens follow without Kafka's headers.
AUTHENTICATE_VERSION: Final = 2
SASL_APIS: Final = {
    api.key: api
    for api in (
        Api.of(SaslHandshakeRequest, SaslHandshakeResponse, HANDSHAKE_VERSION),
        Api.of(SaslAuthenticateRequest, SaslAuthenticateResponse),
    )
}
NAME_CHARS_MAX: Final = 1_024
_USER_OPTION: Final = "user_"
_BAD_PASSWORD: Final = "Authentication failed: Invalid username or password"
_PLAIN_PARTS: Final = 3

log = logging.getLogger("kraftspec.node.security")

Lookup = Callable[[Mechanism, str], ScramCredential | None]


class AuthenticationError(ConnectionError):
    """The other side rejects us, or fails to prove its identity; the message has no secret."""


class Answer(NamedTuple):
    """What to answer; where ``is_failure``, the connection is closed after it, and after a delay.

    The delay (``connection.failed.authentication.delay.ms``) slows guessing.
    """

    response: Message
    is_failure: bool = False


class _RefusedError(Exception):
    """An exchange failed; ``response`` is for the peer, the message for the log."""

    def __init__(self, reason: str, response: str) -> None:
        super().__init__(reason)
        self.response = response


# ---- the server side ---------------------------------------------------------------------------


class Authenticator:
    """Authenticates the peer of a connection.

    ``principal`` is None until it is known. A peer may authenticate again on the same connection
    where logins do not last for ever (KIP-368), as the same one and by the same mechanism.
    """

    def __init__(self, sasl: SaslConfig, lookup: Lookup, now_s: Callable[[], float]) -> None:
        self.principal: str | None = None
        self.receive_bytes_max = sasl.receive_bytes_max
        self._sasl = sasl
        self._lookup = lookup
        self._now_s = now_s
        self._expires_at_s: float | None = None
        self._mechanism: Mechanism | None = None
        self._exchange: _PlainServer | _ScramServer | None = None
        self._has_failed = False

    def allows(self) -> bool:
        """Whether the peer may send any request but authentication now."""
        if self.principal is None or self._has_failed or self._exchange is not None:
            return False
        return self._expires_at_s is None or self._now_s() < self._expires_at_s

    def handle(self, request: Message) -> Answer | None:
        """Answer SaslHandshake or SaslAuthenticate; None: close without a response."""
        if self._has_failed:
            return None
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(request.mechanism)
        if isinstance(request, SaslAuthenticateRequest):
            return self._authenticate(bytes(request.auth_bytes))
        return None

    def _handshake(self, name: str) -> Answer:
        known = [mechanism.value for mechanism in self._sasl.mechanisms]
        is_again = self.principal is not None
        if self._exchange is not None or (is_again and not self._sasl.reauthentication_ms):
            return self._failed_handshake(ErrorCode.ILLEGAL_SASL_STATE, known)
        if name not in known or (is_again and name != self._mechanism):
            return self._failed_handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, known)
        self._mechanism = Mechanism(name)
        if self._mechanism is Mechanism.PLAIN:
            self._exchange = _PlainServer(self._sasl.logins[Mechanism.PLAIN])
        else:
            self._exchange = _ScramServer(self._mechanism, self._lookup)
        return Answer(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=tuple(known)))

    def _failed_handshake(self, error: ErrorCode, known: list[str]) -> Answer:
        self._has_failed = True
        return Answer(SaslHandshakeResponse(error_code=error, mechanisms=tuple(known)), True)

    def _authenticate(self, token: bytes) -> Answer:
        exchange = self._exchange
        if exchange is None:
            return self._failed(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate came without SaslHandshake"
            )
        try:
            if len(token) > self.receive_bytes_max:
                raise _RefusedError(f"a token of {len(token)} bytes", "The token is too large")
            token = exchange.receive(token)
            if exchange.name is None:
                return Answer(SaslAuthenticateResponse(auth_bytes=token))
            principal = USER + exchange.name
            if self.principal not in (None, principal):
                raise _RefusedError(
                    f"{self.principal} came back as {principal}", "Cannot change principals"
                )
        except _RefusedError as refused:
            log.warning(
                "authentication failed",
                extra={"mechanism": str(self._mechanism), "reason": str(refused)},
            )
            return self._failed(ErrorCode.SASL_AUTHENTICATION_FAILED, refused.response)
        self.principal = principal
        self._exchange = None
        lifetime_ms = self._sasl.reauthentication_ms
        self._expires_at_s = self._now_s() + lifetime_ms / 1000 if lifetime_ms else None
        return Answer(SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms))

    def _failed(self, error: ErrorCode, message: str) -> Answer:
        self._has_failed = True
        return Answer(SaslAuthenticateResponse(error_code=error, error_message=message), True)


class _PlainServer:
    """PLAIN (RFC 4616): authorization id, name and password, separated by zero bytes."""

    def __init__(self, login: Login) -> None:
        self.name: str | None = None
        self._passwords = {
            option.removeprefix(_USER_OPTION): password
            for option, password in login.options.items()
            if option.startswith(_USER_OPTION)
        }

    def receive(self, token: bytes) -> bytes:
        parts = token.split(b"\0")
        if len(parts) != _PLAIN_PARTS or not parts[1] or not parts[2]:
            raise _RefusedError("it is no message of PLAIN", _BAD_PASSWORD)
        try:
            authorization_id, name = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError as error:
            raise _RefusedError("it is no UTF-8", _BAD_PASSWORD) from error
        known = self._passwords.get(name)
        # Compared in any case, so that the time does not show which names there are.
        is_right = hmac.compare_digest((known or "").encode(), parts[2])
        if known is None or not is_right:
            raise _RefusedError(
                f"wrong name or password, of {name[:NAME_CHARS_MAX]!r}", _BAD_PASSWORD
            )
        if authorization_id not in ("", name):
            raise _RefusedError(
                "it asks to be somebody else than it authenticates",
                "Authentication failed: Client requested an authorization id that is different "
                "from username",
            )
        self.name = name
        return b""


class _ScramServer:
    """SCRAM as its server: challenge, then proof."""

    # Makes the challenge of an unknown name, the same each time, like that of a known one.
    _pepper: Final = secrets.token_bytes(32)

    def __init__(self, mechanism: Mechanism, lookup: Lookup) -> None:
        self.name: str | None = None
        self._mechanism = mechanism
        self._lookup = lookup
        self._first: scram.ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._credential = ScramCredential(b"", b"", b"", 0)
        self._is_known = False

    def receive(self, token: bytes) -> bytes:
        message = (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )
        try:
            answer = self._challenge(token) if self._first is None else self._judge(token)
        except ScramError as error:
            raise _RefusedError(str(error), message) from error
        return answer.encode()

    def _challenge(self, token: bytes) -> str:
        first = self._first = scram.read_client_first(token)
        if first.extensions.get("tokenauth", "").lower() == "true":
            raise ScramError("delegation tokens are not taken")
        if len(first.name) > NAME_CHARS_MAX:
            raise ScramError("its name is too long")
        credential = self._lookup(self._mechanism, first.name)
        self._is_known = credential is not None and credential.iterations >= scram.ITERATIONS_MIN
        if credential is None or not self._is_known:
            credential = self._decoy(first.name)
        self._credential = credential
        self._nonce = first.nonce + secrets.token_urlsafe(scram.NONCE_BYTES)
        salt = scram.encode(credential.salt)
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _decoy(self, name: str) -> ScramCredential:
        salt = hmac.digest(self._pepper, name.encode(), "sha256")[: scram.NONCE_BYTES]
        key = hmac.digest(self._pepper, salt, scram.HASHES[self._mechanism])
        return ScramCredential(salt, key, key, scram.ITERATIONS_MIN)

    def _judge(self, token: bytes) -> str:
        first = self._first
        assert first is not None
        final = scram.read_client_final(token)
        messages = f"{first.bare},{self._server_first},{final.unproven}".encode()
        is_proven = scram.is_proven(self._mechanism, self._credential, messages, final.proof)
        if final.channel != first.header.encode():
            raise ScramError(
                f"its channel binding is not that of its first message, {first.name!r}"
            )
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise ScramError(f"its nonce is not ours: an answer to somebody else, {first.name!r}")
        if not self._is_known or not is_proven:
            raise ScramError(f"wrong name or password, of {first.name!r}")
        self.name = first.name
        signature = scram.signature_of(self._mechanism, self._credential.server_key, messages)
        return f"v={scram.encode(signature)}"


# ---- the client side ---------------------------------------------------------------------------


async def authenticate_client(sasl: SaslConfig, exchange: Exchange) -> int:
    """Authenticate to a server; with SCRAM the server proves that it knows the password, too.

    ``exchange`` sends a request and returns its response: (request class, response class, version,
    request). Returns how many milliseconds the login lasts, 0 for ever. Raises AuthenticationError.
    """
    mechanism = sasl.mechanisms[0]
    request = SaslHandshakeRequest(mechanism=mechanism.value)
    hello = await exchange(request, HANDSHAKE_VERSION, SaslHandshakeResponse)
    if hello.error_code:
        known = ", ".join(hello.mechanisms)[:200]
        raise AuthenticationError(
            f"it does not take {mechanism} (error {hello.error_code}), but {known or 'nothing'}"
        )
    if mechanism not in hello.mechanisms:
        raise AuthenticationError(f"it says yes to {mechanism}, and does not list it")
    options = sasl.logins[mechanism].options
    name, password = options["username"], options["password"]

    async def step(token: str) -> tuple[bytes, int]:
        request = SaslAuthenticateRequest(auth_bytes=token.encode())
        response = await exchange(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse)
        if response.error_code:
            raise AuthenticationError(
                f"it does not take {name!r}: {(response.error_message or '')[:200]} "
                f"(error {response.error_code})"
            )
        return bytes(response.auth_bytes), response.session_lifetime_ms

    if mechanism is Mechanism.PLAIN:
        _, lifetime_ms = await step(f"\0{name}\0{password}")
        return lifetime_ms
    try:
        return await _scram_client(mechanism, name, password, step)
    except ScramError as error:
        raise AuthenticationError(f"its answer to {mechanism} is none: {error}") from error


async def _scram_client(
    mechanism: Mechanism,
    name: str,
    password: str,
    step: Callable[[str], Awaitable[tuple[bytes, int]]],
) -> int:
    own_nonce = secrets.token_urlsafe(scram.NONCE_BYTES)
    header = "n,,"
    bare = f"n={scram.escape_name(name)},r={own_nonce}"
    challenge, _ = await step(header + bare)
    nonce, salt, iterations = scram.read_server_first(challenge, own_nonce)
    # Thousands of rounds: meanwhile the node goes on.
    salted = await asyncio.to_thread(scram.salted_password, mechanism, password, salt, iterations)
    unproven = f"c={scram.encode(header.encode())},r={nonce}"
    messages = f"{bare},{challenge.decode()},{unproven}".encode()
    proof, signature = scram.proof_of(mechanism, salted, messages)
    verdict, lifetime_ms = await step(f"{unproven},p={scram.encode(proof)}")
    if not hmac.compare_digest(scram.read_server_final(verdict), signature):
        raise ScramError("it does not know our password: it is not the server it seems")
    return lifetime_ms
