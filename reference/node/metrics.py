"""A node's metrics for Prometheus: Kafka's ``raft-metrics``, and a few of the node's connections.

Kafka has them as attributes of the MBean ``kafka.server:type=raft-metrics``; here each is
``kafka_server_raft_metrics_`` and its name with underscores, and its help text begins with the name
that Kafka has for it. The measurements behind averages, maxima and rates are in ``sensors``.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.node.settings import host_port
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.types import NONE

if TYPE_CHECKING:
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.raft import Core

PREFIX: Final = "kafka_server_raft_metrics_"
AT_ONCE_MAX: Final = 8  # Connections; Prometheus needs one.
SILENCE_S: Final = 10.0  # Then whoever is at the other end is let go.
STATES: Final = (
    "leader",
    "candidate",
    "prospective",
    "prospective-voted",
    "follower",
    "observer",
    "unattached",
    "unattached-voted",
)


def state_of(core: Core) -> str:
    """Return what Kafka calls the state of a replica; one that resigned is unattached there."""
    name = core.role.name
    has_voted = core.voted is not None and core.voted.id != core.config.node_id
    if name in (RoleName.LEADER, RoleName.CANDIDATE):
        return name.value
    if name is RoleName.FOLLOWER:
        return name.value if core.is_voter else "observer"
    if name is RoleName.PROSPECTIVE:
        return "prospective-voted" if has_voted else name.value
    return "unattached-voted" if name is RoleName.UNATTACHED and has_voted else "unattached"


class RaftCollector(Collector):
    """Reads a node when it is asked to, which may be from another thread."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as of now."""
        if not hasattr(self._node, "server"):  # It is starting.
            return
        core = self._node.core
        state = StateSetMetricFamily(
            f"{PREFIX}current_state",
            "current-state: the state of this member",
            {known: known == state_of(core) for known in STATES},
        )
        yield state
        of_draft = {gauge[0]: gauge for gauge in self._node.kind.gauges(core)}
        kafkas = [gauge for gauge in self._gauges(core) if gauge[0] not in of_draft]
        for name, value, about in (*kafkas, *of_draft.values()):
            full_name = PREFIX + name.replace("-", "_")
            yield GaugeMetricFamily(full_name, f"{name}: {about}", value)
        voted = ZERO_UUID if core.voted is None else core.voted.directory_id
        if core.role.name in (RoleName.LEADER, RoleName.CANDIDATE):
            voted = core.config.directory_id  # As in KafkaRaftMetrics, where no vote is kept.
        voted_directory = GaugeMetricFamily(
            f"{PREFIX}current_vote_directory_id",
            "current-vote-directory-id: as a label; zero where no directory was voted for",
            labels=["id"],
        )
        voted_directory.add_metric([str(voted)], 1)
        yield voted_directory
        yield from self._of_connections()

    def _gauges(self, core: Core) -> Iterator[tuple[str, float, str]]:
        name = core.role.name
        is_own = name in (RoleName.LEADER, RoleName.CANDIDATE)
        voted_id = NONE if core.voted is None else core.voted.id
        sensors = self._node.sensors
        yield "current-leader", core.leader_id, "the leader's id; -1: unknown"
        yield "current-vote", core.config.node_id if is_own else voted_id, "-1: for nobody"
        yield "current-epoch", core.epoch, "the epoch of the quorum"
        yield "high-watermark", core.high_watermark, "as this member knows it; -1: unknown"
        yield "log-end-offset", core.log.end_offset, "the offset after the log's last record"
        yield "log-end-epoch", core.log.last_epoch, "the epoch of the log's last record"
        yield "number-of-voters", len(core.log.voters.last), "voters of the quorum"
        yield "number-unknown-voter-connections", 0, "always 0: where voters are is never unknown"
        observers: Any = getattr(core.role, "observers", None)
        if observers is not None:  # Of a leader alone, as in Kafka.
            changed_at = core.log.voters.last_offset
            is_changing = changed_at is not None and changed_at >= max(core.high_watermark, 0)
            yield "number-of-observers", len(observers), "observers that this leader knows of"
            yield "uncommitted-voter-change", int(is_changing), "1: one is not committed yet"
        yield "commit-latency-avg", sensors.commit_ms.average, "ms from append to commit"
        yield "commit-latency-max", sensors.commit_ms.maximum, "ms from append to commit"
        yield "election-latency-avg", sensors.election_ms.average, "ms until there is a leader"
        yield "election-latency-max", sensors.election_ms.maximum, "ms until there is a leader"
        yield "fetch-records-rate", sensors.fetched.rate, "records a second, from the leader"
        yield "append-records-rate", sensors.appended.rate, "records a second, as the leader"
        yield "poll-idle-ratio-avg", sensors.idle_ratio, "how much of the time it waits"

    def _of_connections(self) -> Iterator[Metric]:
        server = self._node.server
        yield GaugeMetricFamily(
            "kraftspec_node_connections", "connections to this node", len(server.connections)
        )
        yield CounterMetricFamily(
            "kraftspec_node_connections_refused",
            "connections that were more than the limits allow",
            server.refused,
        )


class _Handler(WSGIRequestHandler):
    """Serves one connection; ``timeout`` is what its base sets on the socket."""

    timeout = SILENCE_S

    def log_message(self, format: str, *_: Any) -> None:
        """Log nothing: not what a stranger has sent."""


class _HttpServer(ThreadingWSGIServer):
    """A thread for each connection, and no more than a few of them."""

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.BoundedSemaphore(AT_ONCE_MAX)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, or close it: nothing waits."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of who hangs up or does not go on."""


class _HttpServer6(_HttpServer):
    address_family = socket.AF_INET6


class MetricsServer:
    """An HTTP endpoint, ``/metrics``, in a thread of its own. ``port`` is the one that is bound.

    It serves a few connections at once, closes others, and those that say nothing for a while.
    """

    def __init__(self, node: Node, host: str, port: int) -> None:
        """Listen. Raises OSError that says where, and what to do."""
        registry = CollectorRegistry()
        registry.register(RaftCollector(node))
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            kind = _HttpServer6 if infos[0][0] == socket.AF_INET6 else _HttpServer
            bound = str(infos[0][4][0])
            app = make_wsgi_app(registry)
            self._server = make_server(bound, port, app, kind, handler_class=_Handler)
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                why = "another process listens there; stop it, or choose another port"
            raise OSError(error.errno, f"no metrics at {host_port(host, port)}: {why}") from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
