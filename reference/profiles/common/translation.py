"""What the translations of all APIs are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.types import Endpoint, Endpoints
from kraftspec.reference.wire.apis import Api

TOPIC = "__cluster_metadata"
TOPIC_ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
PARTITION = 0

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)
R = TypeVar("R", bound=Reply)


def lowest(request: Any) -> int:
    """Return the lowest version that can carry a request: most are carried by any."""
    return 0


class Topic(Protocol[P_co]):
    """A topic of a message."""

    @property
    def topic_name(self) -> str:
        """Return the topic's name."""
        ...

    @property
    def partitions(self) -> Sequence[P_co]:
        """Return what the message says of each of its partitions."""
        ...


class Translation(NamedTuple):
    """One API, what it carries of the core's, and the four ways between their messages."""

    api: Api
    asks: type[Request]
    put_request: Callable[[Any, int], Any]  # (core's request, version) → generated request
    get_request: Callable[[Any, int], Request]  # (generated request, version) → core's
    put_reply: Callable[[Any, Any, int, str], Any]  # (request, reply, version, listener)
    get_reply: Callable[[Any, str], Reply]  # (generated response, listener)
    min_version: Callable[[Any], int] = lowest


def only_partition(topics: Sequence[Topic[P]], index: str = "partition_index") -> P | None:
    """Return the one partition that a message is about, or None if it is not this log's."""
    if len(topics) != 1:
        return None
    topic = topics[0]
    if topic.topic_name != TOPIC or len(topic.partitions) != 1:
        return None
    partition = topic.partitions[0]
    return partition if getattr(partition, index) == PARTITION else None


def get_endpoints(listeners: Iterable[Any]) -> Endpoints:
    """Return endpoints that a message names; names are upper-cased, as Kafka does."""
    return tuple(Endpoint(entry.name.upper(), entry.host, entry.port) for entry in listeners)


def put_endpoints(kind: Any, endpoints: Endpoints) -> list[Any]:
    """Return endpoints as the entries of a message."""
    return [kind(name=e.name, host=e.host, port=e.port) for e in endpoints]


def put_leader(kind: Any, reply: Reply, listener: str) -> list[Any]:
    """Return NodeEndpoints: the leader, if known, on the listener that the request came in on.

    An error that concerns the whole request is all that its answer says.
    """
    if reply.leader_id < 0 or reply.top_error:
        return []
    return [
        kind(node_id=reply.leader_id, host=endpoint.host, port=endpoint.port)
        for endpoint in reply.leader_endpoints
        if endpoint.name == listener
    ]


def get_leader(reply: R, node_endpoints: Iterable[Any], listener: str) -> R:
    """Return a reply with where its leader is, on the listener that this node asked on."""
    if not reply.top_error:
        for entry in node_endpoints:
            if entry.node_id == reply.leader_id:
                reply.leader_endpoints = (Endpoint(listener, entry.host, entry.port),)
                break
    return reply


def not_about_this_log(kind: type[R]) -> R:
    """Return what a response that is about another topic or partition counts as: no answer."""
    return kind(top_error=ErrorCode.UNKNOWN_SERVER_ERROR)
