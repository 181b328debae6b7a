"""The calls, and who is asked: through any broker, or at the leader of the controllers.

A broker hands a request on to the active controller. Among controllers DescribeCluster says which
of them leads; one that does not lead any more answers so, and the search begins again. What can be
tried again is, with Kafka's backoff, until ``default.api.timeout.ms`` is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.admin.config import ClientConfig
from kraftspec.reference.admin.connection import Connection
from kraftspec.reference.admin.errors import AdminError, AnswerError, TimedOutError, address, said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kraftspec.generated.kafka import DescribeQuorumResponse

METADATA_TOPIC: Final = "__cluster_metadata"
ENDPOINT_BROKER, ENDPOINT_CONTROLLER = 1, 2  # DescribeCluster's EndpointType.
METADATA_KEY: Final = 3  # What every broker answers, and no controller.
_PORT_MAX: Final = 65_535

NOT_LEADER: Final = frozenset({6, 41})  # NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER
# LEADER_NOT_AVAILABLE, REQUEST_TIMED_OUT, BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION
TRANSIENT: Final = frozenset({5, 7, 8, 13})
MISMATCHED_ENDPOINT_TYPE: Final = 114
DUPLICATE_VOTER, VOTER_NOT_FOUND = 126, 127

_Answer = TypeVar("_Answer")


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener of a voter is reached.

    The core has the same three fields in a type of its own, which a command that asks one question
    would load the whole core for.
    """

    name: str
    host: str
    port: int


class Node(msgspec.Struct, frozen=True):
    """A broker or a controller, and where it is reached."""

    id: int
    host: str
    port: int


class Cluster(msgspec.Struct, frozen=True):
    """What DescribeCluster answers. ``controller_id`` is -1 where no leader is known."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]

    def node(self, id: int) -> Node | None:
        """Return the node of that id, or None."""
        return next((node for node in self.nodes if node.id == id), None)


class Replica(msgspec.Struct, frozen=True):
    """A voter or an observer as the leader knows it.

    Times are the leader's clock in milliseconds since 1970, and -1 is unknown.
    """

    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumInfo(msgspec.Struct, frozen=True):
    """What DescribeQuorum answers. ``endpoints`` are those of the voters, by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    endpoints: dict[int, tuple[Endpoint, ...]]

    @property
    def leader(self) -> Replica:
        """The leader's own entry; AdminError where it is no voter (it is being removed)."""
        for voter in self.voters:
            if voter.id == self.leader_id:
                return voter
        raise AdminError(f"the leader {self.leader_id} is not among the voters: ask again")

    @property
    def max_follower_lag(self) -> int:
        """How many offsets the slowest voter is behind the leader."""
        return self.leader.log_end_offset - self._slowest.log_end_offset

    @property
    def max_follower_lag_ms(self) -> int:
        """How long ago the slowest voter was caught up; -1 where that is unknown."""
        leader, slowest = self.leader, self._slowest
        if slowest is leader:
            return 0
        if leader.last_caught_up_ms < 0 or slowest.last_caught_up_ms < 0:
            return -1
        return leader.last_caught_up_ms - slowest.last_caught_up_ms

    @property
    def _slowest(self) -> Replica:
        return min(self.voters, key=lambda voter: voter.log_end_offset)


class AdminClient:
    """``with AdminClient("host:port,host:port", to_controllers=True) as admin: …``.

    Every call raises AnswerError where a node refuses, TimedOutError where nothing settled it in
    time, and AdminError for what else is wrong. Not for use from several threads at once.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        to_controllers: bool = False,
        config: ClientConfig | None = None,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """Take the addresses; nothing is connected before the first call.

        Args:
            bootstrap: ``host:port`` of some brokers, or of some controllers, with commas between.
            to_controllers: they are controllers.
            config: time-outs and security.
            on_retry: told once a call why it is tried again; that a node does not lead is told
                when all were asked, for until then it is how the leader is found.

        Raises:
            ValueError: an address is none.
        """
        self._addresses = parse_addresses(bootstrap)
        self._to_controllers = to_controllers
        self._config = config or ClientConfig()
        self._on_retry = on_retry
        self._any: Connection | None = None
        self._leader: Connection | None = None
        self._next = 0  # Which address is tried next.

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        for connection in {self._any, self._leader} - {None}:
            assert connection is not None
            connection.close()
        self._any = self._leader = None

    # ---- calls ---------------------------------------------------------------------------------

    def describe_cluster(self) -> Cluster:
        """Return the cluster's id, its nodes and its active controller (DescribeCluster)."""
        return self._call(self._describe_cluster)

    def describe_quorum(self) -> QuorumInfo:
        """Return what the leader knows of the metadata quorum (DescribeQuorum)."""
        return self._call(self._describe_quorum)

    def add_voter(
        self, node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint], cluster_id: str = ""
    ) -> None:
        """Make an observer that has caught up a voter; returns when that is committed.

        Source: KIP-853, AddRaftVoter. ``cluster_id`` is compared where it is given.
        """
        from kraftspec.generated.kafka import (  # noqa: PLC0415 - this call alone needs them
            AddRaftVoterRequest,
            AddRaftVoterResponse,
        )

        listeners = [
            AddRaftVoterRequest.Listener(name=one.name, host=one.host, port=one.port)
            for one in endpoints
        ]

        def attempt(deadline_s: float) -> None:
            request = AddRaftVoterRequest(
                cluster_id=cluster_id or None,
                timeout_ms=_left_ms(deadline_s),
                voter_id=node_id,
                voter_directory_id=directory_id,
                listeners=listeners,
            )
            answer = self._controller(deadline_s).ask(request, AddRaftVoterResponse, deadline_s)
            _check(answer.error_code, answer.error_message)

        self._change(attempt, DUPLICATE_VOTER, node_id, directory_id)

    def remove_voter(self, node_id: int, directory_id: Uuid, cluster_id: str = "") -> None:
        """Take a voter out of the quorum; returns when that is committed (RemoveRaftVoter)."""
        from kraftspec.generated.kafka import (  # noqa: PLC0415 - this call alone needs them
            RemoveRaftVoterRequest,
            RemoveRaftVoterResponse,
        )

        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id or None, voter_id=node_id, voter_directory_id=directory_id
        )

        def attempt(deadline_s: float) -> None:
            answer = self._controller(deadline_s).ask(request, RemoveRaftVoterResponse, deadline_s)
            _check(answer.error_code, answer.error_message)

        self._change(attempt, VOTER_NOT_FOUND, node_id, directory_id)

    def _change(
        self, attempt: Callable[[float], None], done_code: int, node_id: int, directory_id: Uuid
    ) -> None:
        """Change the voters, once: what the leader refuses stays refused, as in AdminClient.

        An attempt of which no answer came may have been carried out. If so, the next is refused
        with ``done_code``; the quorum itself then says whether it is as it was to be.
        """
        attempts = 0

        def counted(deadline_s: float) -> None:
            nonlocal attempts
            attempts += 1
            attempt(deadline_s)

        try:
            self._call(counted, retried=NOT_LEADER)
        except AnswerError as error:
            if error.code != done_code or attempts == 1:
                raise
            voters = {(voter.id, voter.directory_id) for voter in self.describe_quorum().voters}
            if ((node_id, directory_id) in voters) != (done_code == DUPLICATE_VOTER):
                raise

    # ---- once ----------------------------------------------------------------------------------

    def _describe_cluster(self, deadline_s: float) -> Cluster:
        from kraftspec.generated.kafka import (  # noqa: PLC0415 - --replication does without
            DescribeClusterRequest,
            DescribeClusterResponse,
        )

        wanted = ENDPOINT_CONTROLLER if self._to_controllers else ENDPOINT_BROKER
        connection = self._anyone(deadline_s)
        answer = connection.ask(
            DescribeClusterRequest(endpoint_type=wanted), DescribeClusterResponse, deadline_s
        )
        advice = ""
        if answer.error_code == MISMATCHED_ENDPOINT_TYPE:
            advice = "Give controllers as bootstrap controllers, and brokers as bootstrap servers"
        _check(answer.error_code, answer.error_message, advice)
        nodes = tuple(Node(node.broker_id, node.host, node.port) for node in answer.brokers)
        return Cluster(answer.cluster_id, answer.controller_id, nodes)

    def _describe_quorum(self, deadline_s: float) -> QuorumInfo:
        return ask_quorum(self._controller(deadline_s), deadline_s)

    # ---- who is asked --------------------------------------------------------------------------

    def _anyone(self, deadline_s: float) -> Connection:
        """Return a connection to the first address that takes one."""
        if self._any is not None:
            return self._any
        failures = []
        for _ in self._addresses:
            host, port = self._addresses[self._next]
            try:
                self._any = self._connect(host, port, deadline_s)
            except (OSError, CodecError) as error:
                failures.append(said(error))
                self._next = (self._next + 1) % len(self._addresses)
            else:
                self._refuse_controller(self._any)
                return self._any
        raise ConnectionError("; ".join(failures))

    def _connect(self, host: str, port: int, deadline_s: float) -> Connection:
        """Connect; who cannot be reached is named, once."""
        try:
            return Connection(host, port, self._config, deadline_s)
        except (OSError, CodecError) as error:
            where, why = address(host, port), said(error)
            if why.startswith(where):
                raise
            raise ConnectionError(f"{where}: {why}") from error

    def _refuse_controller(self, connection: Connection) -> None:
        if not self._to_controllers and METADATA_KEY not in connection.versions:
            raise AdminError(
                f"{connection} does not answer Metadata, as brokers do. Give brokers as bootstrap "
                f"servers, and controllers as bootstrap controllers"
            )

    def _controller(self, deadline_s: float) -> Connection:
        """Return a connection to who hands on to the leader, or to the leader itself."""
        if not self._to_controllers:
            return self._anyone(deadline_s)
        if self._leader is None:
            cluster = self._describe_cluster(deadline_s)
            node = cluster.node(cluster.controller_id)
            asked = self._anyone(deadline_s)
            if node is None or (node.host, node.port) == (asked.host, asked.port):
                # A leader that is not registered is found by asking one after another.
                self._leader = asked
            else:
                self._leader = self._connect(node.host, node.port, deadline_s)
        return self._leader

    def _forget(self) -> None:
        """Begin the next search with the next address."""
        self.close()
        self._next = (self._next + 1) % len(self._addresses)

    def _call(
        self,
        attempt: Callable[[float], _Answer],
        retried: frozenset[int] = NOT_LEADER | TRANSIENT,
    ) -> _Answer:
        """Try until it is settled, or until the time is up; ``retried`` codes settle nothing."""
        config = self._config
        deadline_s = time.monotonic() + config.api_timeout_ms / 1000
        attempts = 0
        failure = ""
        is_told = False
        while True:
            try:
                return attempt(deadline_s)
            except AnswerError as error:
                if error.code not in retried:
                    raise
                failure = str(error)
                is_search = error.code in NOT_LEADER and attempts < len(self._addresses)
                if error.code in NOT_LEADER:
                    self._forget()
            except (OSError, CodecError) as error:
                # What came of having no time left says less than what happened before.
                if not failure or time.monotonic() < deadline_s:
                    failure = said(error)
                is_search = False
                self._forget()
            if not (is_told or is_search) and self._on_retry is not None:
                self._on_retry(failure)
                is_told = True
            wait_s = backoff_s(config, attempts)
            attempts += 1
            if time.monotonic() + wait_s >= deadline_s:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise TimedOutError(
                    f"nothing settled it within {config.api_timeout_ms:,} ms "
                    f"({config.api_timeout_name}), tried {times}; the last time: {failure}"
                )
            time.sleep(wait_s)


def ask_quorum(connection: Connection, deadline_s: float) -> QuorumInfo:
    """Ask the node of a connection, whoever it is; a controller that does not lead refuses.

    Raises AnswerError, AdminError, CodecError, and OSError as the network does.
    """
    from kraftspec.generated.kafka import (  # noqa: PLC0415 - changes do without
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )

    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    answer = connection.ask(
        DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, deadline_s
    )
    _check(answer.error_code, answer.error_message)
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise AdminError("the answer to DescribeQuorum is not about one partition")
    found = answer.topics[0].partitions[0]
    _check(found.error_code, found.error_message)
    return QuorumInfo(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=_replicas(found.current_voters),
        observers=_replicas(found.observers),
        endpoints={
            node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in answer.nodes
        },
    )


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """Read ``host:port,[host]:port``; ValueError says which address is none."""
    found = []
    for one in text.split(","):
        address = one.strip()
        if not address:
            continue
        host, colon, port = address.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
            raise ValueError(f"{address!r} is no host:port with a port from 1 to {_PORT_MAX}")
        found.append((host, int(port)))
    if not found:
        raise ValueError(f"{text!r} has no host:port in it")
    return found


def backoff_s(config: ClientConfig, failures: int) -> float:
    """Return how long to wait after so many failures before (KIP-580: twice as long, ±20 %)."""
    import random  # noqa: PLC0415 - a call that is answered at once does without

    # Beyond 2 ** 32 the limit holds whatever a configuration says.
    wait_ms = min(config.retry_backoff_ms * 2 ** min(failures, 32), config.retry_backoff_max_ms)
    return float(wait_ms) * random.uniform(0.8, 1.2) / 1000


def _check(code: int, message: str | None, advice: str = "") -> None:
    if code:
        raise AnswerError(code, message, advice=advice)


def _left_ms(deadline_s: float) -> int:
    return max(0, round((deadline_s - time.monotonic()) * 1000))


def _replicas(found: Sequence[DescribeQuorumResponse.ReplicaState]) -> tuple[Replica, ...]:
    return tuple(
        Replica(
            one.replica_id,
            Uuid(one.replica_directory_id or ZERO_UUID),
            one.log_end_offset,
            one.last_fetch_timestamp,
            one.last_caught_up_timestamp,
        )
        for one in found
    )
