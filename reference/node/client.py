"""The client side: a connection to each node that the core sends requests to, made at the first.

A new connection learns first which versions the other side speaks (ApiVersions, KIP-511); then
requests go out as they come, and answers come back in the same order. A Fetch may wait at the other
side for a while, so where one is under way that the core has given up, a connection of its own is
made for the next request.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.reference.node.security.sasl import AuthenticationError
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.raft.messages import Fetch, Reply, Request
from kraftspec.reference.wire.apis import Versions, common_version
from kraftspec.reference.wire.client import Exchange, Requests, Waiting, negotiate
from kraftspec.reference.wire.frames import WireError, read_response, response_body

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.raft.profile import Profile
    from kraftspec.reference.raft.types import Node

DOUBLINGS_MAX: Final = 16  # Of a time-out; each has an upper bound, too.
JITTER: Final = 0.2
LOGIN_LIFETIME_SHARE: Final = 0.85  # Of how long a login lasts, as Kafka's clients have it.

log = logging.getLogger("kraftspec.node.client")


class _Pending(NamedTuple):
    """What waits for a response: the core with its request, or else ``future``."""

    at: float
    future: asyncio.Future[bytes] | None = None
    request_id: int = 0
    request: Request | None = None


class Asker(NamedTuple):
    """What all connections of a node have in common.

    ``replied`` and ``failed`` are called as each request ends: (request id, reply, node), and
    (request id, whether the other side does not speak the version that it needs). ``login`` is run
    on a new connection before anything else, with a function to exchange a request for its
    response; it returns for how many milliseconds it is valid, 0 for ever. ``connect_timeout_s`` is
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
        self._requests = Requests(self.asker.client_id, self.asker.response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._waiting: list[tuple[int, Request]] = []
        self._connecting = self._loop.create_task(self._connect())

    # ---- for the node --------------------------------------------------------------------------

    def is_stuck(self) -> bool:
        """Whether a request would wait behind one that has no waiter any more."""
        if self._is_closed:
            return True
        return any(
            isinstance(pending.request, Fetch)
            or self._loop.time() - pending.at > self.asker.request_timeout_s
            for pending in self._pending()
        )

    def ask(self, request_id: int, request: Request) -> None:
        """Send a request, now or once the connection stands."""
        if self.versions is None:
            self._waiting.append((request_id, request))
        else:
            self._send(request_id, request)

    async def connected(self) -> Versions:
        """Return what the other side speaks, once the connection stands; or ConnectionError."""
        await asyncio.wait({self._connecting})  # It is cancelled where the other side hangs up.
        if self.versions is None:
            raise ConnectionError(f"no connection to {host_port(self.node.host, self.node.port)}")
        return self.versions

    def close(self, reason: object = "closed") -> None:
        """Close the connection; the requests on it fail."""
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
        unanswered = self._pending()
        if unanswered or self._waiting:
            log.debug(
                "requests to a node were not answered",
                extra={"peer": host_port(self.node.host, self.node.port), "reason": str(reason)},
            )
        for pending in unanswered:
            if pending.future is not None and not pending.future.done():
                pending.future.set_exception(ConnectionError(str(reason)))
            elif pending.request is not None:
                self.asker.failed(pending.request_id, False)
        for request_id, _ in self._waiting:
            self.asker.failed(request_id, False)
        self._requests.waiting.clear()
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
        self._requests.feed(data)
        try:
            while not self._is_closed and (answered := self._requests.take()) is not None:
                self._received(*answered)
        except (WireError, CodecError) as error:
            log.warning(
                "a response is invalid",
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
                    lifetime_ms = await asker.login(self.exchange)
                    if lifetime_ms:  # The next request makes a connection, and logs in anew.
                        lifetime_s = lifetime_ms / 1000 * LOGIN_LIFETIME_SHARE
                        self._loop.call_later(lifetime_s, self.close, "its login would end")
                newest = asker.profile.apis[API_VERSIONS_KEY].max_version
                self.versions = await negotiate(self.exchange, newest)
        except (OSError, CodecError, ValueError) as error:
            if isinstance(error, AuthenticationError | ssl.SSLError):
                level = logging.DEBUG if self.node in self.peers.distrusted else logging.WARNING
                self.peers.distrusted.add(
                    self.node
                )  # Logged once, though the node tries again and again.
                log.log(
                    level,
                    "authentication between a node and this one failed",
                    extra={"peer": host_port(self.node.host, self.node.port), "reason": str(error)},
                )
            self.close(error or type(error).__name__)
            return
        self.peers.distrusted.discard(self.node)
        del self.peers.failed_attempts[self.node]
        waiting, self._waiting = self._waiting, []
        for request_id, request in waiting:
            self._send(request_id, request)

    async def exchange(self, request: Message, version: int, response: Any) -> Any:
        """Send a generated request, and return the generated response."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._write(
            type(request), version, request.encode(version), _Pending(self._loop.time(), future)
        )
        return read_response(await future, response, version)

    def _pending(self) -> list[_Pending]:
        return [waiting.note for waiting in self._requests.waiting]

    def _send(self, request_id: int, request: Request) -> None:
        profile = self.asker.profile
        api = profile.api_of(request)
        assert self.versions is not None
        ours = range(max(api.min_version, profile.min_version(request)), api.max_version + 1)
        version = common_version(ours, self.versions.get(api.key))
        if version is None:
            self.asker.failed(request_id, True)
            return
        body = profile.encode_request(request, version)
        pending = _Pending(self._loop.time(), None, request_id, request)
        self._write(api.request, version, body, pending)

    def _write(self, request: type[Message], version: int, body: bytes, pending: _Pending) -> None:
        if self._transport is None or self._is_closed:
            raise ConnectionError("the connection is closed")
        self._transport.write(self._requests.ask(request, version, body, pending))

    def _received(self, waiting: Waiting, frame: bytes) -> None:
        pending: _Pending = waiting.note
        if pending.future is not None:
            if not pending.future.done():
                pending.future.set_result(frame)
            return
        assert pending.request is not None
        profile = self.asker.profile
        try:
            response = profile.api_of(pending.request).response
            body = response_body(frame, response, waiting.version)
            reply = profile.decode_reply(pending.request, waiting.version, body)
        except CodecError:
            self.asker.failed(pending.request_id, False)
            raise
        self.asker.replied(pending.request_id, reply, self.node)


class Peers:
    """The connections to all nodes that requests were sent to."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.by_node: dict[Node, Peer] = {}
        self.distrusted: set[Node] = set()  # Those for which that was logged already.
        self.failed_attempts: Counter[Node] = Counter()  # To connect, since the last that did not.

    def ask(self, request_id: int, node: Node, request: Request) -> None:
        """Send a request to a node."""
        peer = self.by_node.get(node)
        if peer is not None and peer.is_stuck():
            peer.close("an earlier request was given up")
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
        """Return the versions that the node of that id serves; None before it has answered."""
        for node, peer in self.by_node.items():
            if node.id == node_id and peer.versions is not None:
                return peer.versions
        return None

    def forget(self, peer: Peer) -> None:
        """Forget a closed connection."""
        if self.by_node.get(peer.node) is peer:
            del self.by_node[peer.node]

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self.by_node.values()):
            peer.close()
