"""What a node asks about security: contexts for TLS, who a peer is, and whether it may call."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any, Final

from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.node.security.authorizer import Acl, Authorizer, needs_of
from kraftspec.reference.node.security.principal import (
    ANONYMOUS,
    parse_rules,
    principal_of,
)
from kraftspec.reference.node.security.sasl import (
    Answer,
    Authenticator,
    authenticate_client,
)
from kraftspec.reference.node.security.tls import client_context, server_context
from kraftspec.reference.node.settings import Protocol
from kraftspec.reference.wire.apis import message_of

if TYPE_CHECKING:
    import ssl

    from kraftspec.fastpath.message import Message
    from kraftspec.reference.node.security.records import SecurityRecords
    from kraftspec.reference.node.security.scram import ScramCredential
    from kraftspec.reference.node.settings import Listener, Mechanism, NodeConfig
    from kraftspec.reference.wire.client import Exchange

FETCH_BY_IDS_FROM: Final = 13  # KIP-516


class Session:
    """A connection's peer. Its principal is known at once, or after SASL."""

    def __init__(self, principal: str | None, authenticator: Authenticator | None = None) -> None:
        self._principal = principal
        self._authenticator = authenticator

    @property
    def principal(self) -> str | None:
        """Who the peer is; None where that is not known yet, or not any more."""
        if self._authenticator is None:
            return self._principal
        return self._authenticator.principal if self._authenticator.allows() else None

    def handle(self, request: Message) -> Answer | None:
        """Answer SaslHandshake or SaslAuthenticate; None: close the connection without a word."""
        if self._authenticator is not None:
            return self._authenticator.handle(request)
        if isinstance(request, kafka.SaslHandshakeRequest):
            return Answer(kafka.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return Answer(
            kafka.SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="There is no SASL here"
            )
        )


class Gate:
    """One a node. Making it reads the key stores: raises TlsError where one is of no use.

    ``records`` is set once the log is open; without it nobody has SCRAM credentials or ACLs.
    ``messages`` is the package of the messages that are spoken.
    """

    def __init__(self, config: NodeConfig, messages: Any = kafka) -> None:
        self.records: SecurityRecords | None = None
        if any(listener.protocol is Protocol.SSL for listener in config.listeners):
            importlib.import_module("cryptography.x509")  # Missing, it is to be missed now.
        self._security = config.security
        self._server_tls = {
            listener.name: server_context(listener.tls)
            for listener in config.listeners
            if listener.tls is not None
        }
        tls = config.security.tls
        self._client_tls = None if tls is None else client_context(tls)
        self._rules = {
            listener.name: parse_rules(listener.ssl_rules) for listener in config.listeners
        }
        needs = needs_of(messages)
        self._authorizer = Authorizer(config.security, self._acls, needs)
        self._responses: dict[int, Any] = {
            key: message_of(messages, "response", key) for key in needs
        }
        sasls = [listener.sasl for listener in config.listeners]
        self.needs_records = config.security.is_on and (
            config.security.has_authorizer or any(sasl is not None for sasl in sasls)
        )

    # ---- the server side -----------------------------------------------------------------------

    def server_tls(self, listener: Listener) -> ssl.SSLContext | None:
        """Return a listener's context for TLS."""
        return self._server_tls.get(listener.name)

    def session(self, listener: Listener, ssl_object: Any) -> Session:
        """Return who has just connected. Raises MappingError where no rule fits a certificate.

        ``ssl_object`` is asyncio's, of a transport that has TLS.
        """
        if listener.sasl is not None:
            return Session(None, Authenticator(listener.sasl, self._credential, time.monotonic))
        if ssl_object is None:
            return Session(ANONYMOUS)
        certificate = ssl_object.getpeercert(binary_form=True)
        return Session(principal_of(certificate, self._rules[listener.name]))

    def allowed(self, principal: str, api_key: int, host: str) -> bool:
        """Whether a principal may call an API."""
        return self._authorizer.allowed(principal, api_key, host)

    def refusal(self, api_key: int, version: int, body: memoryview) -> Any:
        """Return the response that says that the caller may not call this API.

        ``body`` is that of the request; CodecError where it is none.
        """
        response = self._responses[api_key](error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if isinstance(response, kafka.FetchResponse) and version < FETCH_BY_IDS_FROM:
            response.responses = _refused_partitions(kafka.FetchRequest.decode(body, version))
        if hasattr(response, "error_message"):
            response.error_message = "Cluster authorization failed."
        return response

    def _credential(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        return None if self.records is None else self.records.credential(mechanism, name)

    def _acls(self) -> list[Acl]:
        return [] if self.records is None else self.records.acls()

    # ---- the client side -----------------------------------------------------------------------

    @property
    def client_tls(self) -> ssl.SSLContext | None:
        """The context by which this node connects to others."""
        return self._client_tls

    @property
    def has_login(self) -> bool:
        """Whether a new connection to another node begins with ``login``."""
        return self._security.sasl is not None

    async def login(self, exchange: Exchange) -> int:
        """Show another node who this one is; returns how many ms that lasts, 0 for ever.

        Raises AuthenticationError.
        """
        if self._security.sasl is None:
            return 0
        return await authenticate_client(self._security.sasl, exchange)


def _refused_partitions(
    request: kafka.FetchRequest,
) -> list[kafka.FetchResponse.FetchableTopicResponse]:
    """Return what a Fetch that knows topics by names is told of each partition, beside the error.

    Later versions have none (``FetchRequest.getErrorResponse``).
    """
    kind = kafka.FetchResponse.FetchableTopicResponse
    return [
        kind(
            topic=topic.topic,
            partitions=[
                kafka.FetchResponse.PartitionData(
                    partition_index=one.partition,
                    error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
