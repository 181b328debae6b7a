"""Which requests are under way: at most one to each node, with time-outs and backoff.

Source: Kafka's ``RequestManager``. A node is ready, or a request to it awaits its answer until the
request time-out, or it is left alone for the retry backoff after an answer that was no good. Who
has asked is remembered by request id; answers to requests that were given up find nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftspec.reference.raft.messages import Request
from kraftspec.reference.raft.types import NEVER_US, Node


class Connection:
    """One node, and the request that it was last sent.

    ``request_id`` is 0 unless an answer is awaited; ``until_us`` is when that times out, or when a
    backoff is over. ``failures`` counts the answers that were no good since the last good one.
    """

    __slots__ = ("failures", "node", "request", "request_id", "until_us")

    def __init__(self, node: Node, request: Request) -> None:
        self.node = node
        self.request = request
        self.request_id = 0
        self.until_us = 0
        self.failures = 0


class Connections:
    """All nodes that were sent something since the last change of role.

    ``check_us`` is a time before which no request times out.
    """

    __slots__ = (
        "_by_node",
        "_next_request_id",
        "_pending",
        "check_us",
        "request_timeout_us",
        "retry_us",
    )

    def __init__(self, request_timeout_us: int, retry_us: int) -> None:
        self.request_timeout_us = request_timeout_us
        self.retry_us = retry_us
        self.check_us = NEVER_US
        self._by_node: dict[int, Connection] = {}
        self._pending: dict[int, Connection] = {}
        self._next_request_id = 1

    def sent(self, node: Node, request: Request, now_us: int) -> int:
        """Take note of a request; return its id."""
        request_id = self._next_request_id
        self._next_request_id = request_id + 1
        connection = self._by_node.get(node.id)
        if connection is None:
            connection = self._by_node[node.id] = Connection(node, request)
        elif connection.request_id:
            self._pending.pop(connection.request_id, None)
        connection.node = node
        connection.request = request
        connection.request_id = request_id
        connection.until_us = until_us = now_us + self.request_timeout_us
        self._pending[request_id] = connection
        self.check_us = min(self.check_us, until_us)
        return request_id

    def take(self, request_id: int) -> Connection | None:
        """Return the connection of a request that was answered, and await it no longer.

        None if nobody does.
        """
        connection = self._pending.pop(request_id, None)
        if connection is not None:
            connection.request_id = connection.until_us = 0
        return connection

    def last_request(self, node_id: int) -> Request:
        """Return what this node was sent last."""
        return self._by_node[node_id].request

    def back_off(self, connection: Connection, now_us: int, retry_us: int | None = None) -> None:
        """Leave a node alone for a while, unless something was sent to it meanwhile."""
        if not connection.request_id and self._by_node.get(connection.node.id) is connection:
            connection.until_us = now_us + (self.retry_us if retry_us is None else retry_us)

    def leave_alone(self, node_id: int, now_us: int) -> None:
        """Back off from a node that answered well, and whose answer proved to be no good."""
        connection = self._by_node.get(node_id)
        if connection is not None:
            self.back_off(connection, now_us)

    def timed_out(self, now_us: int) -> list[Node]:
        """Give up the requests that are overdue; return the nodes that did not answer."""
        nodes = []
        for request_id, connection in list(self._pending.items()):
            if connection.until_us <= now_us:
                del self._pending[request_id]
                connection.request_id = 0
                nodes.append(connection.node)
        self.check_us = min((c.until_us for c in self._pending.values()), default=NEVER_US)
        return nodes

    def ready(self, node_id: int, now_us: int) -> bool:
        """Whether a request may be sent to this node."""
        connection = self._by_node.get(node_id)
        return connection is None or connection.until_us <= now_us

    def first_ready(self, nodes: Sequence[Node], first: int, now_us: int) -> Node | None:
        """Return the first node, in a circle from index ``first``, that is ready; None if none."""
        known = self._by_node
        for node in (*nodes[first:], *nodes[:first]):
            connection = known.get(node.id)
            if connection is None or connection.until_us <= now_us:
                return node
        return None

    def ready_us(self, node_id: int) -> int:
        """Return when this node will be ready; 0 if it is."""
        connection = self._by_node.get(node_id)
        return 0 if connection is None else connection.until_us

    def backing_off(self, node_id: int, now_us: int) -> bool:
        """Whether this node is being left alone."""
        connection = self._by_node.get(node_id)
        return connection is not None and not connection.request_id and connection.until_us > now_us

    def left_alone(self, node_id: int, now_us: int) -> bool:
        """Whether this node is being left alone though its last answer was good."""
        return self.backing_off(node_id, now_us) and not self._by_node[node_id].failures

    def busy_until_us(self, now_us: int) -> int:
        """Return when the last request under way times out; 0 if none is."""
        latest_us = 0
        for connection in self._pending.values():
            latest_us = max(latest_us, connection.until_us)
        return latest_us

    def next_ready_us(self, now_us: int) -> int:
        """Return when the first node that is not ready will be."""
        soonest_us = now_us + self.retry_us
        for connection in self._by_node.values():
            if now_us < connection.until_us < soonest_us:
                soonest_us = connection.until_us
        return soonest_us

    def reset(self) -> None:
        """Forget everything: a new role expects no answers to what an old one asked."""
        self._by_node.clear()
        self._pending.clear()
        self.check_us = NEVER_US
