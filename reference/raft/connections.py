"""Which requests are under way: at most one to each node, with time-outs and backoff.

Source: Kafka's ``RequestManager``. A node is ready, or a request to it awaits its answer until the
request time-out, or it is left alone for the retry backoff after an answer that was no good. Who
has asked is remembered by request id; answers to requests that were given up find nothing.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import Request
from kraftspec.reference.raft.types import NEVER_US, Node


class Connection:
    """One node: ``until_us`` is when a request times out, or when a backoff is over."""

    __slots__ = ("node_id", "request_id", "until_us")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.request_id = 0
        self.until_us = 0


class Pending:
    """A request that may still be answered."""

    __slots__ = ("connection", "node", "request")

    def __init__(self, node: Node, request: Request, connection: Connection) -> None:
        self.node = node
        self.request = request
        self.connection = connection


class Connections:
    """All nodes that were sent something since the last change of role."""

    __slots__ = ("_by_node", "_next_request_id", "_pending", "request_timeout_us", "retry_us")

    def __init__(self, request_timeout_us: int, retry_us: int) -> None:
        self.request_timeout_us = request_timeout_us
        self.retry_us = retry_us
        self._by_node: dict[int, Connection] = {}
        self._pending: dict[int, Pending] = {}
        self._next_request_id = 1

    def sent(self, node: Node, request: Request, now_us: int) -> int:
        """Take note of a request; return its id."""
        request_id = self._next_request_id
        self._next_request_id = request_id + 1
        connection = self._by_node.get(node.id)
        if connection is None:
            connection = self._by_node[node.id] = Connection(node.id)
        elif connection.request_id:
            self._pending.pop(connection.request_id, None)
        connection.request_id = request_id
        connection.until_us = now_us + self.request_timeout_us
        self._pending[request_id] = Pending(node, request, connection)
        return request_id

    def take(self, request_id: int) -> Pending | None:
        """Return the request that was answered, and await it no longer; None if nobody does."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            pending.connection.request_id = 0
            pending.connection.until_us = 0
        return pending

    def back_off(self, pending: Pending, now_us: int) -> None:
        """Leave a node alone for a while, unless something was sent to it meanwhile."""
        connection = pending.connection
        if not connection.request_id and self._by_node.get(connection.node_id) is connection:
            connection.until_us = now_us + self.retry_us

    def timed_out(self, now_us: int) -> list[Node]:
        """Give up the requests that are overdue; return the nodes that did not answer."""
        overdue = [id for id, p in self._pending.items() if p.connection.until_us <= now_us]
        nodes = []
        for request_id in overdue:
            pending = self._pending.pop(request_id)
            pending.connection.request_id = 0
            nodes.append(pending.node)
        return nodes

    def ready(self, node_id: int, now_us: int) -> bool:
        """Whether a request may be sent to this node."""
        connection = self._by_node.get(node_id)
        return connection is None or connection.until_us <= now_us

    def ready_us(self, node_id: int) -> int:
        """Return when this node will be ready; 0 if it is."""
        connection = self._by_node.get(node_id)
        return 0 if connection is None else connection.until_us

    def backing_off(self, node_id: int, now_us: int) -> bool:
        """Whether this node is being left alone."""
        connection = self._by_node.get(node_id)
        return connection is not None and not connection.request_id and connection.until_us > now_us

    def busy_until_us(self, now_us: int) -> int:
        """Return when the last request under way times out; 0 if none is."""
        if not self._pending:
            return 0
        return max(pending.connection.until_us for pending in self._pending.values())

    def next_ready_us(self, now_us: int) -> int:
        """Return when the first node that is not ready will be."""
        soonest_us = NEVER_US
        for connection in self._by_node.values():
            if now_us < connection.until_us < soonest_us:
                soonest_us = connection.until_us
        return min(soonest_us, now_us + self.retry_us)

    def first_deadline_us(self) -> int:
        """Return when the first request under way times out."""
        return min((p.connection.until_us for p in self._pending.values()), default=NEVER_US)

    def reset(self) -> None:
        """Forget everything: a new role expects no answers to what an old one asked."""
        self._by_node.clear()
        self._pending.clear()
