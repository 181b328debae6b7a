"""The asking side: a connection to each node that the core asks, made when it is first asked.

A new connection learns first which versions the other side speaks (ApiVersions, KIP-511); then
requests go out as they come, and answers come back in the same order. A Fetch may wait at the other
side for a while, so where one is under way that the core has given up, a connection of its own is
made for what it asks next.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import ApiVersionsRequest, ApiVersionsResponse
from kraftspec.reference.node.frames import (
    API_VERSIONS_KEY,
    RESPONSE_BYTES_MIN,
    FrameError,
    FrameReader,
    read_correlation_id,
    request_frame,
    response_body,
)
from kraftspec.reference.node.security.sasl import AuthenticationError, Exchange
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.raft.messages import Api, Fetch, Reply, Request

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.reference.raft.types import Node

SOFTWARE_NAME: Final = "kraftspec"
SOFTWARE_VERSION: Final = "1"
DOUBLINGS_MAX: Final = 16  # Of a time-out; each has an upper bound, too.
JITTER: Final = 0.2
LOGIN_LIFE_SHARE: Final = 0.85  # Of how long a login lasts, as Kafka's clients have it.
_API_VERSIONS_VERSIONS = ApiVersionsRequest.VALID_VERSIONS

log = logging.getLogger("kraftspec.node.client")

Versions = Mapping[int, tuple[int, int]]  # API key → lowest and highest version, both included.


class PeerError(ConnectionError):
    """The other side answered what is no answer."""


class _Asked(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    request_id: int
    request: Request | None  # None: a call of the connection's own.
    future: asyncio.Future[bytes] | None
    at: float


class Asker(NamedTuple):
    """What all connections of a node have in common.

    ``replied`` and ``failed`` are told how each request ended: (request id, reply, whose), and
    (request id, whether the other side does not speak the version that it needs). ``login`` is run
    on a new connection before anything else, with a function to exchange a request for its
    response; it says for how many milliseconds that will do, 0 for ever. ``connect_timeout_s`` is
    for a first attempt to connect; each that fails doubles it, up to ``connect_timeout_max_s``.
    """

    profile: Profile
    client_id: str
    request_timeout_s: float
    connect_timeout_s: float
    connect_timeout_max_s: float
    response_bytes_max: int
    tls: ssl.SSLContext | None
    login: Callable[[Exchange], Awaitable[int]] | None
    replied: Callable[[int, Reply, Node], None]
    failed: Callable[[int, bool], None]


class Peer(asyncio.Protocol):
    """One connection to one node. ``versions`` are what it speaks, once that is known."""

    def __init__(self, peers: Peers, node: Node) -> None:
        self.peers = peers
        self.asker = peers.asker
        self.node = node
        self.versions: Versions | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(RESPONSE_BYTES_MIN, self.asker.response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._waiting: list[tuple[int, Request]] = []
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._connecting = self._loop.create_task(self._connect())

    # ---- for the node --------------------------------------------------------------------------

    def is_stuck(self) -> bool:
        """Whether a request would wait behind one that nobody waits for any more."""
        if self._is_closed:
            return True
        for asked in self._asked:
            if isinstance(asked.request, Fetch):
                return True
            if self._loop.time() - asked.at > self.asker.request_timeout_s:
                return True
        return False

    def ask(self, request_id: int, request: Request) -> None:
        """Send a request, now or once the connection stands."""
        if self.versions is None:
            self._waiting.append((request_id, request))
        else:
            self._send(request_id, request)

    async def connected(self) -> Versions:
        """Return what the other side speaks, once the connection stands; PeerError if never."""
        await asyncio.wait({self._connecting})  # It is cancelled where the other side hangs up.
        if self.versions is None:
            raise PeerError(f"no connection to {host_port(self.node.host, self.node.port)}")
        return self.versions

    def close(self, reason: object = "closed") -> None:
        """Let the connection go; what was asked on it fails."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.versions is None:
            self.peers.failed_attempts[self.node] += 1
        self.peers.forget(self)
        if asyncio.current_task() is not self._connecting:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self._asked or self._waiting:
            log.debug(
                "a node was not asked",
                extra={"peer": host_port(self.node.host, self.node.port), "reason": str(reason)},
            )
        for asked in self._asked:
            if asked.future is not None and not asked.future.done():
                asked.future.set_exception(PeerError(str(reason)))
            elif asked.request is not None:
                self.asker.failed(asked.request_id, False)
        for request_id, _ in self._waiting:
            self.asker.failed(request_id, False)
        self._asked.clear()
        self._waiting.clear()

    # ---- called by asyncio ---------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Take the connection."""
        self._transport = transport
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._is_closed:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and hand on the answers that they complete."""
        self._reader.feed(data)
        try:
            while not self._is_closed and (frame := self._reader.take()) is not None:
                self._received(frame)
        except (FrameError, PeerError, CodecError) as error:
            log.warning(
                "a node's answer is none",
                extra={"peer": host_port(self.node.host, self.node.port), "reason": str(error)},
            )
            self.close(error)

    def connection_lost(self, error: Exception | None) -> None:
        """The other side is gone."""
        self.close(error or "the other side closed the connection")

    # ---- inside --------------------------------------------------------------------------------

    async def _connect(self) -> None:
        asker = self.asker
        try:
            async with asyncio.timeout(self.peers.connect_timeout_s(self.node)):
                await self._loop.create_connection(
                    lambda: self,
                    self.node.host,
                    self.node.port,
                    ssl=asker.tls,
                    server_hostname=self.node.host if asker.tls else None,
                )
                if asker.login is not None:
                    life_ms = await asker.login(self.exchange)
                    if life_ms:  # The next request makes a connection, and logs in anew.
                        life_s = life_ms / 1000 * LOGIN_LIFE_SHARE
                        self._loop.call_later(life_s, self.close, "its login would end")
                self.versions = await self._negotiate()
        except (OSError, CodecError, ValueError) as error:
            if isinstance(error, AuthenticationError | ssl.SSLError):
                level = logging.DEBUG if self.node in self.peers.distrusted else logging.WARNING
                self.peers.distrusted.add(self.node)  # It is said once, and tried again and again.
                log.log(
                    level,
                    "a node and this one do not trust each other",
                    extra={"peer": host_port(self.node.host, self.node.port), "reason": str(error)},
                )
            self.close(error or type(error).__name__)
            return
        self.peers.distrusted.discard(self.node)
        del self.peers.failed_attempts[self.node]
        waiting, self._waiting = self._waiting, []
        for request_id, request in waiting:
            self._send(request_id, request)

    async def _negotiate(self) -> Versions:
        """Ask what the other side speaks; in its own words where it does not know ours."""
        version = _API_VERSIONS_VERSIONS.stop - 1
        while True:
            said = await self.exchange(
                ApiVersionsRequest, ApiVersionsResponse, version, who_asks(version)
            )
            if said.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                known = {entry.api_key: entry.max_version for entry in said.api_keys}
                version = min(known.get(API_VERSIONS_KEY, 0), version - 1)
                continue
            if said.error_code:
                raise PeerError(f"ApiVersions was answered with error {said.error_code}")
            return {
                entry.api_key: (entry.min_version, entry.max_version) for entry in said.api_keys
            }

    async def exchange(self, asks: Any, answers: Any, version: int, message: Any) -> Any:
        """Send a generated request, and return the generated response."""
        flexible = asks.FLEXIBLE_VERSIONS
        versions = asks.VALID_VERSIONS
        api = Api(
            asks.API_KEY,
            asks.__name__,
            versions.start,
            versions.stop - 1,
            flexible.start if flexible else versions.stop,
        )
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._write(api, version, message.encode(version), 0, None, future)
        frame = await future
        body = response_body(frame, api, version)
        if api.key == API_VERSIONS_KEY and _error_of(body) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0  # Whoever does not know a version answers in the first (KIP-511).
        return answers.decode(body, version, copy=True)

    def _send(self, request_id: int, request: Request) -> None:
        asker = self.asker
        api = asker.profile.api_of(request)
        assert self.versions is not None
        low, high = self.versions.get(api.key, (0, -1))
        version = min(api.max_version, high)
        if version < max(api.min_version, low, asker.profile.min_version(request)):
            asker.failed(request_id, True)
            return
        body = asker.profile.encode_request(request, version)
        self._write(api, version, body, request_id, request, None)

    def _write(
        self,
        api: Api,
        version: int,
        body: bytes,
        request_id: int,
        request: Request | None,
        future: asyncio.Future[bytes] | None,
    ) -> None:
        if self._transport is None or self._is_closed:
            raise PeerError("the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._asked.append(
            _Asked(
                self._correlation_id, api, version, request_id, request, future, self._loop.time()
            )
        )
        client_id = self.asker.client_id
        self._transport.write(request_frame(api, version, self._correlation_id, client_id, body))

    def _received(self, frame: bytes) -> None:
        correlation_id = read_correlation_id(frame)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            raise PeerError(f"an answer to the request {correlation_id}, which is not due")
        asked = self._asked.popleft()
        if asked.future is not None:
            if not asked.future.done():
                asked.future.set_result(frame)
            return
        assert asked.request is not None
        try:
            body = response_body(frame, asked.api, asked.version)
            reply = self.asker.profile.decode_reply(asked.request, asked.version, body)
        except CodecError:
            self.asker.failed(asked.request_id, False)
            raise
        self.asker.replied(asked.request_id, reply, self.node)


class Peers:
    """The connections to all nodes that were asked."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.by_node: dict[Node, Peer] = {}
        self.distrusted: set[Node] = set()  # Those of whom that was said already.
        self.failed_attempts: Counter[Node] = Counter()  # To connect, since the last that did not.

    def ask(self, request_id: int, node: Node, request: Request) -> None:
        """Send a request to a node."""
        peer = self.by_node.get(node)
        if peer is not None and peer.is_stuck():
            peer.close("what was asked before was given up")
            peer = None
        if peer is None:
            peer = self.by_node[node] = Peer(self, node)
        peer.ask(request_id, request)

    def drop(self, node: Node) -> None:
        """Close the connection to a node that did not answer in time."""
        peer = self.by_node.get(node)
        if peer is not None:
            peer.close("it did not answer in time")

    def connect_timeout_s(self, node: Node) -> float:
        """Return how long an attempt to connect may take: longer after each that failed.

        As Kafka's clients have it (``ClusterConnectionStates``), a fifth more or less at random.
        """
        asker = self.asker
        doubled = asker.connect_timeout_s * 2.0 ** min(self.failed_attempts[node], DOUBLINGS_MAX)
        drawn = doubled * random.uniform(1 - JITTER, 1 + JITTER)
        return min(drawn, max(asker.connect_timeout_max_s, asker.connect_timeout_s))

    def versions_of(self, node_id: int) -> Versions | None:
        """Return what the node of that id said that it speaks; None where it was not asked yet."""
        for node, peer in self.by_node.items():
            if node.id == node_id and peer.versions is not None:
                return peer.versions
        return None

    def forget(self, peer: Peer) -> None:
        """Take a closed connection off the books."""
        if self.by_node.get(peer.node) is peer:
            del self.by_node[peer.node]

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self.by_node.values()):
            peer.close()


def who_asks(version: int) -> ApiVersionsRequest:
    """Return the ApiVersions request of this software."""
    if version < 3:  # noqa: PLR2004 - KIP-511 added the software's name in version 3.
        return ApiVersionsRequest()
    return ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )


def _error_of(body: memoryview) -> int:
    return int.from_bytes(body[:2], "big", signed=True)
