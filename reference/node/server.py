"""The server side: connections and their limits, and requests one at a time from each.

As in Kafka, the next request of a connection is read once the one before it is answered; what
is sent ahead stays unread in the system's buffers. A connection that breaks a rule is closed, and
nothing else happens: a malformed or too large frame, bytes that do not come, responses not read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kraftspec.reference.node.settings import host_port
from kraftspec.reference.node.sockets import listening_sockets
from kraftspec.reference.wire.frames import REQUEST_BYTES_MIN, FrameReader, WireError

if TYPE_CHECKING:
    import ssl

    from kraftspec.reference.node.security.gate import Session
    from kraftspec.reference.node.settings import Limits, Listener

READ_AHEAD_BYTES: Final = 64 << 10  # Of requests that are not looked at yet.
BUFFERED_BYTES_MAX: Final = 512 << 20  # Of all connections, where queued.max.request.bytes is not.
SWEEP_S: Final = 1.0
ACCEPTED_AT_ONCE: Final = 50  # Then others get their turn.
ACCEPT_AGAIN_S: Final = 1.0  # After the system had none to give.

log = logging.getLogger("kraftspec.node.server")

Receive = Callable[["ServerConnection", bytes], None]


class Pace:
    """No more than so many a second: after a pause as many at once, and then one after another."""

    def __init__(self, per_second: int, now_s: Callable[[], float]) -> None:
        self._per_second = per_second
        self._now_s = now_s
        self._left = float(per_second)
        self._at_s = now_s()

    def delay_s(self) -> float:
        """Take one, and return 0; or return how long it takes until there is one to take."""
        now_s = self._now_s()
        grown = self._left + (now_s - self._at_s) * self._per_second
        self._left, self._at_s = min(grown, self._per_second), now_s
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0


class ServerConnection(asyncio.Protocol):
    """A peer's connection to one listener. Frames go to ``Server.receive``; ``reply`` answers.

    ``session`` is the peer's session, from its first request on; ``is_open`` is whether the peer
    can still read a response.
    """

    def __init__(self, server: Server, listener: Listener, host: str, port: int) -> None:
        self.server = server
        self.listener = listener
        self.host, self.peer = host, host_port(host, port)
        self.is_open = False
        self.session: Session | None = None
        bytes_max = server.limits.request_bytes_max
        if listener.sasl is not None:  # Until it has authenticated.
            bytes_max = min(bytes_max, listener.sasl.receive_bytes_max)
        self.reader = FrameReader(REQUEST_BYTES_MIN, bytes_max)
        self.transport: asyncio.Transport
        self._is_busy = False  # A request is being handled.
        self._is_going_on = False
        self._is_reading = True
        self._counted_bytes = 0
        now = server.loop.time()
        self.active_at = now
        self.incomplete_since: float | None = None  # Part of a frame is here.
        self.unread_since: float | None = None  # Answers wait for the peer.

    # ---- called by asyncio ---------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Take the connection, which was counted when it was accepted."""
        self.transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take bytes, and look at the requests that they complete."""
        if not self.is_open:
            return
        self.active_at = self.server.loop.time()
        self.reader.feed(data)
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; answers to it are dropped."""
        self.is_open = False
        self.server.forget(self, self._counted_bytes)
        self._counted_bytes = 0

    def pause_writing(self) -> None:
        """The peer does not read: take no more requests from it."""
        self.unread_since = self.server.loop.time()
        self.go_on()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.unread_since = None
        self.go_on()

    # ---- called by the node --------------------------------------------------------------------

    def reply(self, frame: bytes) -> None:
        """Answer the request that is being handled; the next may be looked at."""
        self._is_busy = False
        if self.is_open:
            self.active_at = self.server.loop.time()
            self.transport.write(frame)
            self.go_on()

    def turn_away(self, frame: bytes) -> None:
        """Send a last response and close the connection, after the delay against guessing."""

        def send() -> None:
            if self.is_open:
                self.is_open = False
                log.info("turned away", extra={"peer": self.peer})
                self.transport.write(frame)
                self.transport.close()

        delay_s = self.server.limits.failed_authentication_delay_ms / 1000
        self.server.loop.call_later(delay_s, send)

    def drop(self, reason: str) -> None:
        """Close the connection at once; what was not sent is not."""
        if self.is_open:
            self.is_open = False
            log.info("connection closed", extra={"peer": self.peer, "reason": reason})
            self.transport.abort()

    # ---- inside --------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Handle requests until one has to wait, and read on or not."""
        if self._is_going_on or not self.is_open:
            return
        self._is_going_on = True
        try:
            while self.is_open and not self._is_busy and self.unread_since is None:
                if not self.server.may_handle(self):
                    break
                frame = self.reader.take()
                if frame is None:
                    break
                self._is_busy = True
                self.server.receive(self, frame)
        except WireError as error:
            self.drop(str(error))
        finally:
            self._is_going_on = False
        if self.is_open:
            self._regulate()

    def _regulate(self) -> None:
        size = len(self.reader)
        waits = self._is_busy or self.unread_since is not None or self in self.server.waiting
        if not size or waits:
            self.incomplete_since = None
        elif self.incomplete_since is None:
            self.incomplete_since = self.server.loop.time()
        must_read = not waits or size < READ_AHEAD_BYTES
        if must_read is not self._is_reading:
            self._is_reading = must_read
            (self.transport.resume_reading if must_read else self.transport.pause_reading)()
        if size != self._counted_bytes:
            grown, self._counted_bytes = size - self._counted_bytes, size
            if not self.server.count_bytes(grown):
                # Its bytes are free again at once: the next connection is not to blame.
                self.reader = FrameReader(REQUEST_BYTES_MIN, self.reader.bytes_max)
                self.server.count_bytes(-size)
                self._counted_bytes = 0
                self.drop("all connections together have sent more than is handled")


class Server:
    """All listeners of a node, and all connections to them."""

    def __init__(
        self, limits: Limits, receive: Receive, queued: Callable[[], int] = lambda: 0
    ) -> None:
        self.limits = limits
        self.receive = receive
        self.waiting: dict[ServerConnection, None] = {}  # Until fewer requests are queued.
        self._queued = queued
        self.loop = asyncio.get_running_loop()
        self.connections: set[ServerConnection] = set()
        self.refused = 0
        self._listening: list[socket.socket] = []
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._accepted: dict[ServerConnection, socket.socket] = {}  # Until their task begins.
        self._attaching: set[asyncio.Task[None]] = set()
        self._emptied = asyncio.Event()
        self._by_host: Counter[str] = Counter()
        self._buffered_bytes = 0
        self._pace = Pace(limits.connections_per_second_max, self.loop.time)
        self._bytes_max = (
            limits.queued_bytes_max if limits.queued_bytes_max >= 0 else BUFFERED_BYTES_MAX
        )
        self._sweep_timer = self.loop.call_later(SWEEP_S, self._sweep)

    async def listen(self, listener: Listener, tls: ssl.SSLContext | None) -> tuple[str, int]:
        """Listen, and return the host and port that are bound.

        Raises OSError with the listener, what is wrong and what to do.
        """
        sockets = await listening_sockets(listener, self.limits)
        self._listening += sockets
        for one in sockets:
            self.loop.add_reader(one, self._accept, one, listener, tls)
        host, port = sockets[0].getsockname()[:2]
        return str(host), int(port)

    def _accept(
        self, listening: socket.socket, listener: Listener, tls: ssl.SSLContext | None
    ) -> None:
        """Take connections that wait; count each, and close what is too many, before TLS begins."""
        for _ in range(ACCEPTED_AT_ONCE):
            delay_s = self._pace.delay_s()
            if delay_s:  # They wait in the system's backlog, as in Kafka.
                self._pause(delay_s, listening, listener, tls)
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # No descriptor, no memory: waiting may help.
                log.warning(
                    "no connection can be accepted",
                    extra={"listener": listener.name, "reason": error.strerror or str(error)},
                )
                self._pause(ACCEPT_AGAIN_S, listening, listener, tls)
                return
            connection = ServerConnection(self, listener, str(address[0]), int(address[1]))
            refusal = self.admit(connection)
            if refusal:
                self.forget(connection, 0)
                accepted.close()
                log.info("connection closed", extra={"peer": connection.peer, "reason": refusal})
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted[connection] = accepted
            task = self.loop.create_task(self._attach(connection, tls))
            self._attaching.add(task)
            task.add_done_callback(self._attaching.discard)

    def _pause(
        self,
        delay_s: float,
        listening: socket.socket,
        listener: Listener,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Accept no connection there for a while."""
        self.loop.remove_reader(listening)
        self._paused[listening] = self.loop.call_later(
            delay_s, self.loop.add_reader, listening, self._accept, listening, listener, tls
        )

    async def _attach(self, connection: ServerConnection, tls: ssl.SSLContext | None) -> None:
        """Let asyncio have the connection, which with TLS shakes hands first."""
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection,
                self._accepted.pop(connection),
                ssl=tls,
                ssl_handshake_timeout=self.limits.stall_ms_max / 1000 if tls else None,
            )
        except BaseException as error:
            self.forget(connection, 0)
            if not isinstance(error, OSError):
                raise
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            log.info("a TLS handshake failed", extra={"peer": connection.peer, "reason": reason})

    def admit(self, connection: ServerConnection) -> str | None:
        """Count a connection; return why it is refused, or None."""
        self.connections.add(connection)
        self._by_host[connection.host] += 1
        limits = self.limits
        of_host = limits.connections_per_ip_overrides.get(
            connection.host, limits.connections_per_ip_max
        )
        refusal = None
        if len(self.connections) > limits.connections_max:
            refusal = f"there are {limits.connections_max} connections already"
        elif self._by_host[connection.host] > of_host:
            refusal = f"{connection.host} has {of_host} connections already"
        self.refused += refusal is not None
        return refusal

    def forget(self, connection: ServerConnection, counted_bytes: int) -> None:
        """Forget a connection."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.waiting.pop(connection, None)
            self._by_host[connection.host] -= 1
            if not self._by_host[connection.host]:
                del self._by_host[connection.host]
            if not self.connections:
                self._emptied.set()
        self._buffered_bytes -= counted_bytes

    def may_handle(self, connection: ServerConnection) -> bool:
        """Whether another request may be handled; else the connection waits for ``go_on``."""
        if self._queued() < self.limits.queued_requests_max:
            return True
        self.waiting[connection] = None
        return False

    def go_on(self) -> None:
        """Handle requests that waited, as far as the limit allows; the longest waiting is first."""
        while self.waiting and self._queued() < self.limits.queued_requests_max:
            connection = next(iter(self.waiting))
            del self.waiting[connection]
            connection.go_on()

    def count_bytes(self, grown: int) -> bool:
        """Count what connections hold; return whether there is room for more."""
        self._buffered_bytes += grown
        return grown < 0 or self._buffered_bytes <= self._bytes_max

    def _sweep(self) -> None:
        """Close what is idle, and what stands still half-way."""
        now = self.loop.time()
        stall_s = self.limits.stall_ms_max / 1000
        idle_s = self.limits.idle_ms_max / 1000
        for connection in list(self.connections):
            since = connection.incomplete_since
            if since is not None and now - since > stall_s:
                connection.drop(f"a request is not whole after {stall_s:g} s")
                continue
            since = connection.unread_since
            if since is not None and now - since > stall_s:
                connection.drop(f"answers are not read for {stall_s:g} s")
            elif idle_s >= 0 and now - connection.active_at > idle_s:
                connection.drop(f"idle for {idle_s:g} s")
        period_s = min(SWEEP_S, stall_s / 2)
        self._sweep_timer = self.loop.call_later(period_s, self._sweep)

    async def close(self) -> None:
        """Stop listening, send what was answered, and close all connections."""
        self._sweep_timer.cancel()
        for timer in self._paused.values():
            timer.cancel()
        for listening in self._listening:
            self.loop.remove_reader(listening)
            listening.close()
        for task in self._attaching:
            task.cancel()
        await asyncio.gather(*self._attaching, return_exceptions=True)
        for connection, accepted in self._accepted.items():  # Their tasks never ran.
            accepted.close()
            self.forget(connection, 0)
        for connection in list(self.connections):
            if connection.is_open:
                connection.is_open = False
                connection.transport.close()
        if self.connections:
            self._emptied.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), SWEEP_S)
        for connection in list(self.connections):
            connection.transport.abort()
