"""What the translations of all APIs are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.messages import Api, Reply, Request
from kraftspec.reference.raft.types import Endpoint, Endpoints

TOPIC = "__cluster_metadata"
TOPIC_ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
PARTITION = 0


class Translation(NamedTuple):
    """One API: its core messages, its generated classes, and the four ways between them."""

    api: Api
    asks: type[Request]
    request_class: Any
    response_class: Any
    put_request: Callable[[Any, int], Any]  # (core's request, version) → generated request
    get_request: Callable[[Any, int], Request]  # (generated request, version) → core's
    put_reply: Callable[[Any, Any, int, str], Any]  # (request, reply, version, listener)
    get_reply: Callable[[Any, str], Reply]  # (generated response, listener)
    min_version: Callable[[Any], int]


def api(request_class: Any, min_version: int | None = None) -> Api:
    """Return the API of a generated request; ``min_version`` where not all are served."""
    versions = request_class.VALID_VERSIONS
    return Api(
        request_class.API_KEY,
        request_class.__name__.removesuffix("Request"),
        versions.start if min_version is None else min_version,
        versions.stop - 1,
        request_class.FLEXIBLE_VERSIONS.start,
    )


def only_partition(topics: Any, index: str = "partition_index", name: str = "topic_name") -> Any:
    """Return the one partition that a message is about, or None if it is not this log's."""
    if len(topics) != 1:
        return None
    topic = topics[0]
    if getattr(topic, name) != TOPIC or len(topic.partitions) != 1:
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
    """Return NodeEndpoints: the leader, if known, on the listener that the request came in on."""
    if reply.leader_id < 0:
        return []
    return [
        kind(node_id=reply.leader_id, host=endpoint.host, port=endpoint.port)
        for endpoint in reply.leader_endpoints
        if endpoint.name == listener
    ]


def get_leader(node_endpoints: Iterable[Any], leader_id: int, listener: str) -> Endpoints:
    """Return where the leader is on the listener that this node asked on."""
    for entry in node_endpoints:
        if entry.node_id == leader_id:
            return (Endpoint(listener, entry.host, entry.port),)
    return ()


def not_about_this_log(kind: type[Reply]) -> Reply:
    """Return what a response that is about another topic or partition counts as: no answer."""
    return kind(top_error=ErrorCode.UNKNOWN_SERVER_ERROR)
