"""One connection of a peer, and the one that the proxy has to the node for it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.proxy.frame import (
    PRODUCE,
    SASL_HANDSHAKE,
    Exchange,
    Fate,
    Frame,
    client_id_at,
    expects_answer,
)
from kraftspec.proxy.lane import Lane
from kraftspec.proxy.security import Gate, Login, Security
from kraftspec.proxy.stream import Stream
from kraftspec.proxy.watch import Key
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.wire.frames import REQUEST_BYTES_MIN, RESPONSE_BYTES_MIN, SIZE_BYTES

if TYPE_CHECKING:
    from kraftspec.proxy.capture import Capture, CapturedTransport
    from kraftspec.proxy.engine import Engine
    from kraftspec.proxy.stats import Stats
    from kraftspec.proxy.watch import Watch

UNANSWERED_MAX: Final = 65_536  # Requests of one connection; the oldest are forgotten.
_REQUEST: Final = struct.Struct(">hhi")
_RESPONSE: Final = struct.Struct(">i")
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER of no time: close() then sends a reset.


Address = tuple[str, int]


class Target:
    """A node. ``names`` are what a rule may call it: its address, and its id where it is known."""

    def __init__(self, address: Address, node_id: int | None = None) -> None:
        self.address = address
        self.name = host_port(*address)
        self.names = frozenset({self.name})
        if node_id is not None:
            self.learn(node_id)

    def learn(self, node_id: int) -> None:
        """Know the node's id."""
        self.names |= {str(node_id)}


class Shared:
    """What all connections of a proxy have in common."""

    def __init__(self, engine: Engine, stats: Stats) -> None:
        self.engine = engine
        self.stats = stats
        self.connections: set[Connection] = set()
        self.sides: set[Side] = set()  # Whose sockets are open.
        self.capture: Capture | None = None
        self.watch: Watch | None = None
        self.peer_security: Security | None = None
        self.node_security: Security | None = None


class Side(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(self, connection: Connection, *, is_client: bool) -> None:
        self.connection = connection
        self.is_client = is_client
        self.transport: Any = None
        self.is_reading = True
        self.captured: CapturedTransport | None = None
        self.login: Login | None = None  # Of ours, at a node, while it lasts.
        self.incoming: Stream
        self.outgoing: Lane

    def connection_made(self, transport: Any) -> None:
        """Take the socket; what waited for it is sent."""
        if self.connection.shared.capture is not None:
            transport = self.captured = self.connection.shared.capture.open(
                transport, is_accepted=self.is_client
            )
        self.transport = transport
        self.connection.shared.sides.add(self)
        if self.is_client:
            self.connection.begin()
        elif not self.connection.is_open:
            transport.abort()
            return
        elif self.connection.must_log_in:
            return
        self.outgoing.attach(transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self.captured is not None:
            self.captured.received(data)
        if self.login is not None:
            self.login.feed(data)
        else:
            self.incoming.feed(data)

    def eof_received(self) -> bool:
        """The peer sends no more, and may still read, but for TLS: tell the other one."""
        if self.captured is not None:
            self.captured.peer_ended(is_reset=False)
        if self.login is not None:
            return False
        self.connection.ended(self)
        return bool(self.transport.can_write_eof())

    def pause_writing(self) -> None:
        """The peer does not read."""
        self.outgoing.is_paused = True
        self.connection.regulate()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.outgoing.is_paused = False
        self.connection.regulate()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed: so is the other one."""
        if self.captured is not None and error is not None:
            self.captured.peer_ended(is_reset=True)
        self.connection.shared.sides.discard(self)
        if self.login is not None:
            self.login.feed(b"")  # Which ends the connection, and says why.
        else:
            self.connection.close("after")

    def read_if(self, must_read: bool) -> None:
        """Read on, or not."""
        if self.transport is not None and must_read is not self.is_reading:
            self.is_reading = must_read
            if not self.transport.is_closing():
                (self.transport.resume_reading if must_read else self.transport.pause_reading)()


class Connection:
    """Two sockets, two lanes, and the requests between them that wait for their answers."""

    def __init__(self, shared: Shared, target: Target) -> None:
        self.shared = shared
        self.target = target
        self.is_open = True
        self.pending: dict[int, Exchange] = {}  # In their order, by correlation id.
        self.copies: Counter[int] = Counter()  # Answers to duplicates, which nobody asked for.
        loop = asyncio.get_running_loop()
        self.to_node = Lane(loop, self.close, self.regulate)
        self.to_client = Lane(loop, self.close, self.regulate)
        self.requests = Stream(
            self.to_node,
            bytes_min=REQUEST_BYTES_MIN,
            begin=self._begin_request,
            take=self._take_request,
            done=self._ignore,
            lost=self._lose,
        )
        self.responses = Stream(
            self.to_client,
            bytes_min=RESPONSE_BYTES_MIN,
            begin=self._begin_response,
            take=self._take_response,
            done=self._send_answers,
            lost=self._lose,
        )
        self.client = Side(self, is_client=True)
        self.client.incoming, self.client.outgoing = self.requests, self.to_client
        self.node = Side(self, is_client=False)
        self.node.incoming, self.node.outgoing = self.responses, self.to_node
        self._engine = shared.engine
        self._stats = shared.stats
        self._connecting: asyncio.Task[None] | None = None
        self._coming: Exchange | None = None  # Whose wanted answer is being put together.
        self._asking: Exchange | None = None  # Likewise a request.
        self._client_id = ""  # Of the last request, for who looks.
        self._gate: Gate | None = None
        if shared.peer_security is not None and shared.peer_security.sasl is not None:
            self._gate = Gate(shared.peer_security.sasl, self._engine.report)

    # ---- life ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """The client is there: connect to the node."""
        self.shared.connections.add(self)
        self._stats.connections += 1
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    @property
    def must_log_in(self) -> bool:
        """Whether the proxy logs in at the node."""
        security = self.shared.node_security
        return security is not None and security.sasl is not None

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        security = self.shared.node_security or Security()
        host, port = self.target.address
        name = None if security.tls is None else host
        try:
            await loop.create_connection(
                lambda: self.node, host, port, ssl=security.tls, server_hostname=name
            )
            if security.sasl is not None:
                self.node.login = Login(security.sasl, self.node.transport)
                await self.node.login.run()
                if self.node.transport.is_closing():
                    raise ConnectionError("it hung up after the login")
                self.node.login = None
                self.to_node.attach(self.node.transport)
        except (OSError, CodecError) as error:
            self.node.login = None
            if self.is_open:
                reason = getattr(error, "strerror", None) or str(error) or "it does not answer"
                self._engine.report(f"no connection to {self.target.name}: {reason}")
                self.close("reset")

    def ended(self, side: Side) -> None:
        """A peer has sent all it had; the other may still have something for it."""
        side.incoming.finish()
        (self.to_node if side.is_client else self.to_client).end()

    def close(self, manner: str) -> None:
        """Close both sockets.

        ``ended``: if both peers have sent all they had. ``untold``: likewise, or where the client
        cannot be told that the node has. ``reset``: by a reset. Else after what was sent.
        """
        if manner == "untold" and not self.to_client.is_ended:
            return
        if manner == "ended" and not (self.to_node.is_ended and self.to_client.is_ended):
            return
        if not self.is_open:
            return
        self.is_open = False
        self.shared.connections.discard(self)
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
        for lane in (self.to_node, self.to_client):
            lane.stop()
        for side in (self.client, self.node):
            transport = side.transport
            if transport is None:
                continue
            if manner == "reset":
                sock = transport.get_extra_info("socket")
                if sock is not None:  # The peer has not closed it yet.
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                transport.abort()
            else:
                transport.close()

    def regulate(self) -> None:
        """Read from each peer as long as the other takes what it sends."""
        self.client.read_if(not self.to_node.is_full)
        self.node.read_if(not self.to_client.is_full)

    # ---- requests ------------------------------------------------------------------------------

    def _begin_request(self, view: memoryview, at: int, end: int) -> bool | None:
        key, version, correlation_id = _REQUEST.unpack_from(view, at + SIZE_BYTES)
        is_answered: bool | None = True
        if key == PRODUCE:
            is_answered = expects_answer(view, at, end, version)
            if is_answered is None:
                return None
        exchange = Exchange(key, version, correlation_id, self._engine.apis.get(key))
        self._stats.count("request", exchange, end - at)
        if self.shared.watch is not None:
            self._client_id = client_id_at(view, at) or self._client_id
            who = Key(self._client_id, self.target.name, exchange.name, version)
            exchange.waiting = self.shared.watch.note_request(who, end - at)
        if is_answered:
            if len(self.pending) >= UNANSWERED_MAX:
                self.pending.pop(next(iter(self.pending)))
                self._engine.report(f"more than {UNANSWERED_MAX} requests without an answer")
            self.pending[correlation_id] = exchange
        is_ours = self._gate is not None and self._gate.is_about(key)
        if key == SASL_HANDSHAKE and version == 0 and not is_ours:  # Tokens without headers follow.
            self._lose("SASL tokens without headers follow SaslHandshake 0")
        wanted = (
            is_ours or self._engine.wants("request", key, version) or self.to_node.waits_for_next
        )
        self._asking = exchange if wanted else None
        return wanted

    def _take_request(self, data: bytes) -> None:
        exchange = self._asking
        assert exchange is not None
        frame = Frame("request", exchange, data)
        if self._engine.keeps(exchange):
            exchange.request = frame
        fate = self._engine.judge(frame, self.target.names)
        if self._gate is not None and (fate is None or (not fate.is_answer and fate.is_delivered)):
            fate = self._gate.judge(frame, fate) or fate
        if fate is None:
            self.to_node.put(Fate([data]))
        elif fate.is_answer:
            if exchange.correlation_id in self.pending:  # Else nobody waits for an answer.
                exchange.answer = fate
                self.responses.is_awaited = True
                self._send_answers()
        else:
            if not fate.is_delivered:
                self.pending.pop(exchange.correlation_id, None)
                self._send_answers()
            elif fate.copies and exchange.correlation_id in self.pending:
                self.copies[exchange.correlation_id] += fate.copies
            self.to_node.put(fate)

    # ---- responses -----------------------------------------------------------------------------

    def _begin_response(self, view: memoryview, at: int, end: int) -> bool | None:
        (correlation_id,) = _RESPONSE.unpack_from(view, at + SIZE_BYTES)
        exchange = self.pending.pop(correlation_id, None)
        if exchange is None:
            if self.copies[correlation_id]:
                return True
            self._engine.report(f"{self.target.name} answers what was not asked")
            return self.to_client.waits_for_next
        self._stats.count("response", exchange, end - at)
        if exchange.waiting is not None:
            exchange.waiting.note_answer(end - at)
        wanted = self.to_client.waits_for_next or self._engine.wants(
            "response", exchange.api_key, exchange.version
        )
        self._coming = exchange if wanted else None
        return wanted

    def _take_response(self, data: bytes) -> None:
        exchange, self._coming = self._coming, None
        fate = None
        if exchange is not None:
            fate = self._engine.judge(Frame("response", exchange, data), self.target.names)
        elif self._is_copy(data):
            return
        self.to_client.put(fate or Fate([data]))
        self._send_answers()

    def _is_copy(self, data: bytes) -> bool:
        """Whether it answers a copy of a request, which its sender knows nothing of."""
        (correlation_id,) = _RESPONSE.unpack_from(data, SIZE_BYTES)
        if not self.copies[correlation_id]:
            return False
        self.copies[correlation_id] -= 1
        return True

    def _send_answers(self) -> None:
        """Send the answers of our own whose turn it is: all before them are answered."""
        if self.responses.is_in_frame or self._coming is not None:
            return
        while self.pending:
            correlation_id, exchange = next(iter(self.pending.items()))
            if exchange.answer is None:
                return
            del self.pending[correlation_id]
            self.to_client.put(exchange.answer)
        self.responses.is_awaited = False

    def _lose(self, reason: str) -> None:
        """Frames cannot be told apart any more: all passes as it comes."""
        self._engine.report(f"{self.target.name}: {reason}; the rest passes as it is")
        self.requests.is_raw = self.responses.is_raw = True

    def _ignore(self) -> None:
        """Nothing waits for the end of a request."""
