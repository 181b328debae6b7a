"""Requests from peers and clients: which are served, and their way to the core and back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.reference.node.apis import unsupported_api_versions
from kraftspec.reference.node.controllers import Unregistration, supported_features
from kraftspec.reference.node.features import end_update
from kraftspec.reference.node.security.principal import MappingError
from kraftspec.reference.node.security.sasl import SASL_APIS
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import (
    ApiVersionsReply,
    FetchReply,
    FetchSnapshotReply,
)
from kraftspec.reference.wire.apis import Api
from kraftspec.reference.wire.frames import (
    RequestHead,
    peek_request,
    read_request_head,
    response_header,
    sized,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.node.anomalies import Anomalies
    from kraftspec.reference.node.controllers import ControllerRecords
    from kraftspec.reference.node.security.gate import Gate, Session
    from kraftspec.reference.node.server import ServerConnection
    from kraftspec.reference.node.settings import NodeConfig
    from kraftspec.reference.raft import Core
    from kraftspec.reference.raft import effects as fx
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.reference.storage import Storage

BEFORE_LOGIN: Final = frozenset({API_VERSIONS_KEY, *SASL_APIS})
REPLY_BYTES_MAX: Final = 8 << 20  # Whatever a fetch requests; one batch is sent all the same.

log = logging.getLogger("kraftspec.node.service")


class _Pending(NamedTuple):
    connection: ServerConnection
    api: Api
    version: int
    correlation_id: int
    request: Any


class Served(Protocol):
    """What a service needs of its node."""

    config: NodeConfig
    core: Core
    gate: Gate
    anomalies: Anomalies
    profile: Profile
    storage: Storage
    records: ControllerRecords | None

    def post(self, event: ev.Event) -> None:
        """Let the core take an event."""

    async def unregister(self, controller_id: int) -> Any:
        """Return the answer to UnregisterController once its record is committed."""


class Service:
    """What a node serves. A frame that is no request, or of no such API, closes its connection."""

    def __init__(self, node: Served) -> None:
        self.node = node
        self._node_apis = parts_of(node.profile.name).node.shell_apis
        node_apis = {key: served.api for key, served in self._node_apis.items()}
        self.apis = node.profile.served({**node.profile.apis, **node_apis, **SASL_APIS})
        self._pending: dict[int, _Pending] = {}  # By token.
        self._token = 0
        self._appending: set[asyncio.Task[None]] = set()

    def received(self, connection: ServerConnection, frame: bytes) -> None:
        """Take a request."""
        key, version, correlation_id = peek_request(frame)
        api = self.apis.get(key)
        session = connection.session or self._greet(connection)
        if session is None:
            return
        if session.principal is None and key not in BEFORE_LOGIN:
            connection.drop(f"API {key} was requested before authentication, or too long after it")
            return
        if api is None:
            connection.drop(f"API {key} is not served here")
            return
        if not api.min_version <= version <= api.max_version:
            if key == API_VERSIONS_KEY:
                unsupported = unsupported_api_versions(api)
                connection.reply(_frame_of(unsupported, 0, correlation_id))
            else:
                connection.drop(f"{api.name} version {version} is not served here")
            return
        try:
            head = read_request_head(frame, api.request)
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
                refused = self.node.gate.refusal(key, version, content)
                connection.reply(_frame_of(refused, version, correlation_id))
        except CodecError as error:
            connection.drop(f"{api.name} version {version}: {error}")

    def _greet(self, connection: ServerConnection) -> Session | None:
        """Return the session of the peer, which TLS may identify; None where it must not go on."""
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
        request = api.request.decode(body, head.version)
        answer = session.handle(request)
        if answer is None:
            connection.drop("it goes on after its authentication failed")
            return
        frame = _frame_of(answer.response, head.version, head.correlation_id)
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
        served = self._node_apis.get(api.key)
        if served is not None:
            message = api.request.decode(body, head.version)
            answer = served.answer(node.core, message, head.version, connection.listener.name)
            if isinstance(answer, ev.UpgradeRequested):
                answer.upgrade_id = self._wait(connection, api, head, message)
                node.post(answer)
                return
            if isinstance(answer, Unregistration):
                assert node.records is not None
                answer = node.records.refusal(node.core, answer.controller_id)
                if answer is None:
                    task = asyncio.create_task(self._unregister(connection, head, message))
                    self._appending.add(task)
                    task.add_done_callback(self._appending.discard)
                    return
            connection.reply(_frame_of(answer, head.version, head.correlation_id))
            return
        request = node.profile.decode_request(api.key, head.version, body)
        node.anomalies.check_request(node.core, request, connection.peer)
        node.post(ev.RequestReceived(self._wait(connection, api, head, request), request))

    async def _unregister(
        self, connection: ServerConnection, head: RequestHead, request: Any
    ) -> None:
        answer = await self.node.unregister(request.controller_id)
        connection.reply(_frame_of(answer, head.version, head.correlation_id))

    def _wait(self, connection: ServerConnection, api: Api, head: RequestHead, request: Any) -> int:
        """Keep the request until the core answers; return the token of that answer."""
        self._token += 1
        self._pending[self._token] = _Pending(
            connection, api, head.version, head.correlation_id, request
        )
        return self._token

    def answer(self, effect: fx.Answer) -> None:
        """Send the core's answer to the sender of the request, if it is still connected."""
        connection, api, version, correlation_id, request = self._pending.pop(effect.token)
        if not connection.is_open:
            return
        node = self.node
        reply = effect.reply
        if isinstance(reply, FetchReply | FetchSnapshotReply):
            reply.read_max_bytes = min(reply.read_max_bytes, REPLY_BYTES_MAX)
            node.storage.fill(reply)
        elif isinstance(reply, ApiVersionsReply) and not reply.error:
            reply.apis = tuple(self.apis[key] for key in sorted(self.apis))
            if node.records is not None:
                kraft_versions = node.core.config.kraft_versions
                supported = supported_features(kraft_versions, node.profile.release)
                reply.supported_features = tuple(supported.items())
                reply.finalized_features = tuple(node.records.levels().items())
                reply.finalized_epoch = max(reply.finalized_epoch, node.records.features_offset)
        parts = node.profile.reply_parts(request, reply, version, connection.listener.name)
        header = response_header(api.response, version, correlation_id)
        connection.reply(sized(header, *parts))

    def upgraded(self, effect: fx.UpgradeAnswered) -> None:
        """Answer UpdateFeatures, now that the core has."""
        connection, _, version, correlation_id, request = self._pending.pop(effect.upgrade_id)
        if connection.is_open:
            response = end_update(request, version, effect.error, effect.message)
            connection.reply(_frame_of(response, version, correlation_id))


def _frame_of(response: Message, version: int, correlation_id: int) -> bytes:
    header = response_header(type(response), version, correlation_id)
    return sized(header, response.encode(version))
