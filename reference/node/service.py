"""Requests of others: which are served, their way to the core, and its answers' way back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.node.apis import api_of, unsupported_api_versions
from kraftspec.reference.node.features import end_update
from kraftspec.reference.node.frames import (
    API_VERSIONS_KEY,
    RequestHead,
    correlation_id_of,
    peek_api,
    read_request_head,
    response_frame,
)
from kraftspec.reference.node.kinds import kind_of
from kraftspec.reference.node.security.principal import MappingError
from kraftspec.reference.node.security.sasl import (
    HANDSHAKE_KEY,
    HANDSHAKE_VERSION,
    SASL_APIS,
)
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import (
    Api,
    ApiVersionsReply,
    FetchReply,
    FetchSnapshotReply,
)

if TYPE_CHECKING:
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.node.security.gate import Session
    from kraftspec.reference.node.server import ServerConnection
    from kraftspec.reference.raft import effects as fx

BEFORE_LOGIN: Final = frozenset({API_VERSIONS_KEY, *SASL_APIS})
REPLY_BYTES_MAX: Final = 8 << 20  # Whatever a fetch asks for; one batch is sent all the same.

log = logging.getLogger("kraftspec.node.service")


class _Asked(NamedTuple):
    connection: ServerConnection
    api: Api
    version: int
    correlation_id: int
    request: Any


class Service:
    """What a node serves. Who sends what is no request, or no such API, loses its connection."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.apis: dict[int, Api] = dict(node.profile.apis)
        self._shell_apis = kind_of(node.profile).shell_apis
        self.apis.update({key: shell.api for key, shell in self._shell_apis.items()})
        self.apis.update({key: api_of(request) for key, request in SASL_APIS.items()})
        handshake = self.apis[HANDSHAKE_KEY]
        self.apis[HANDSHAKE_KEY] = handshake._replace(min_version=HANDSHAKE_VERSION)
        self._asked: dict[int, _Asked] = {}  # By token.
        self._token = 0

    def received(self, connection: ServerConnection, frame: bytes) -> None:
        """Take a request."""
        key, version = peek_api(frame)
        api = self.apis.get(key)
        session = connection.session or self._greet(connection)
        if session is None:
            return
        if session.principal is None and key not in BEFORE_LOGIN:
            connection.drop(f"API {key} was asked for before authentication, or too long after it")
            return
        if api is None:
            connection.drop(f"API {key} is not served here")
            return
        if not api.min_version <= version <= api.max_version:
            if key == API_VERSIONS_KEY:
                body = unsupported_api_versions(api)
                connection.reply(response_frame(api, 0, correlation_id_of(frame), body))
            else:
                connection.drop(f"{api.name} version {version} is not served here")
            return
        try:
            head = read_request_head(frame, version >= api.first_flexible_version)
            content = memoryview(frame)[head.body_at :]
            if key in SASL_APIS:
                self._authenticate(connection, session, api, head, content)
            elif self.node.gate.allowed(session.principal or "", key, connection.host):
                self._take(connection, api, head, content)
            else:
                log.info(
                    "not allowed",
                    extra={"peer": connection.peer, "who": session.principal, "api": api.name},
                )
                refused = self.node.gate.refusal(key, version, content).encode(version)
                connection.reply(response_frame(api, version, head.correlation_id, refused))
        except CodecError as error:
            connection.drop(f"{api.name} version {version}: {error}")

    def _greet(self, connection: ServerConnection) -> Session | None:
        """Find out who has connected, which TLS may tell; None where it must not go on."""
        tls = connection.transport.get_extra_info("ssl_object")
        try:
            connection.session = self.node.gate.session(connection.listener, tls)
        except MappingError as error:
            connection.drop(str(error))
        return connection.session

    def _authenticate(
        self,
        connection: ServerConnection,
        session: Session,
        api: Api,
        head: RequestHead,
        body: memoryview,
    ) -> None:
        request = SASL_APIS[api.key].decode(body, head.version)
        answer = session.handle(request)
        if answer is None:
            connection.drop("it goes on after its authentication failed")
            return
        encoded = answer.response.encode(head.version)
        frame = response_frame(api, head.version, head.correlation_id, encoded)
        if answer.is_failure:
            connection.turn_away(frame)
            return
        if session.principal is not None:
            connection.reader.bytes_max = self.node.config.limits.request_bytes_max
        connection.reply(frame)

    def _take(
        self, connection: ServerConnection, api: Api, head: RequestHead, body: memoryview
    ) -> None:
        node = self.node
        shell = self._shell_apis.get(api.key)
        if shell is not None:
            asked = shell.request_class.decode(body, head.version)
            answer = shell.answer(node.core, asked, head.version, connection.listener.name)
            if isinstance(answer, ev.UpgradeRequested):
                answer.upgrade_id = self._wait(connection, api, head, asked)
                node.post(answer)
                return
            encoded = answer.encode(head.version)
            connection.reply(response_frame(api, head.version, head.correlation_id, encoded))
            return
        request = node.profile.decode_request(api.key, head.version, body)
        node.oddities.look_at_request(node.core, request, connection.peer)
        node.post(ev.RequestReceived(self._wait(connection, api, head, request), request))

    def _wait(self, connection: ServerConnection, api: Api, head: RequestHead, request: Any) -> int:
        """Keep who asks until the core answers; return the token by which it will."""
        self._token += 1
        self._asked[self._token] = _Asked(
            connection, api, head.version, head.correlation_id, request
        )
        return self._token

    def answer(self, effect: fx.Answer) -> None:
        """Send the core's answer to whoever asked, if it is still there."""
        connection, api, version, correlation_id, request = self._asked.pop(effect.token)
        if not connection.is_open:
            return
        node = self.node
        reply = effect.reply
        if isinstance(reply, FetchReply | FetchSnapshotReply):
            reply.read_max_bytes = min(reply.read_max_bytes, REPLY_BYTES_MAX)
            node.storage.fill(reply)
        elif isinstance(reply, ApiVersionsReply) and not reply.error:
            reply.apis = tuple(self.apis[key] for key in sorted(self.apis))
        body = node.profile.encode_reply(request, reply, version, connection.listener.name)
        connection.reply(response_frame(api, version, correlation_id, body))

    def upgraded(self, effect: fx.UpgradeAnswered) -> None:
        """Answer UpdateFeatures, now that the core has."""
        connection, api, version, correlation_id, request = self._asked.pop(effect.upgrade_id)
        if connection.is_open:
            response = end_update(request, version, effect.error, effect.message)
            connection.reply(response_frame(api, version, correlation_id, response.encode(version)))
