"""The calls, and who is asked: through any broker, or at the leader of the controllers.

A broker hands a request on to the active controller. Among controllers DescribeCluster says which
of them leads; one that does not lead any more answers so, and the search begins again. What can be
tried again is, with Kafka's backoff, until ``default.api.timeout.ms`` is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.admin.caller import NOT_LEADER, Caller
from kraftspec.reference.admin.errors import AdminError, AnswerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftspec.generated.kafka import DescribeQuorumResponse
    from kraftspec.reference.admin.config import ClientConfig
    from kraftspec.reference.admin.connection import Connection

METADATA_TOPIC: Final = "__cluster_metadata"
ENDPOINT_BROKER, ENDPOINT_CONTROLLER = 1, 2  # DescribeCluster's EndpointType.
METADATA_KEY: Final = 3  # What every broker answers, and no controller.

MISMATCHED_ENDPOINT_TYPE: Final = 114
DUPLICATE_VOTER, VOTER_NOT_FOUND = 126, 127
CONTROLLER_ID_NOT_REGISTERED: Final = 136
UPGRADE: Final = 1  # FeatureUpdate.UpgradeType


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener of a voter is reached.

    The core has the same three fields in a type of its own, which a command that asks one question
    would load the whole core for.
    """

    name: str
    host: str
    port: int


class DraftEndpoint(Endpoint, frozen=True):
    """The same in a draft, with Kafka's number of the protocol that it speaks; 0 is PLAINTEXT."""

    security_protocol: int = 0


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


class AdminClient(Caller):
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
        super().__init__(bootstrap, config=config, on_retry=on_retry)
        self._to_controllers = to_controllers

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

        self._change(attempt, DUPLICATE_VOTER, lambda: self._is_voter(node_id, directory_id))

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

        self._change(attempt, VOTER_NOT_FOUND, lambda: not self._is_voter(node_id, directory_id))

    def unregister_controller(self, node_id: int) -> None:
        """Forget a controller that is gone for good (KIP-1312, UnregisterController of 4.4).

        Features are no longer held back by what it supports. One that still runs registers again.
        """
        from kraftspec.generated.kafka import (  # noqa: PLC0415 - this call alone needs them
            UnregisterControllerRequest,
            UnregisterControllerResponse,
        )

        request = UnregisterControllerRequest(controller_id=node_id)

        def attempt(deadline_s: float) -> None:
            connection = self._controller(deadline_s)
            answer = connection.ask(request, UnregisterControllerResponse, deadline_s)
            _check(answer.error_code, answer.error_message)

        self._change(attempt, CONTROLLER_ID_NOT_REGISTERED, lambda: True)

    def upgrade_feature(self, name: str, level: int, *, validate_only: bool = False) -> None:
        """Raise a feature to a level, as ``kafka-features upgrade`` does (UpdateFeatures).

        ``validate_only`` asks whether it could be. A feature that has the level already is no
        error.
        """
        from kraftspec.generated.kafka import (  # noqa: PLC0415 - this call alone needs them
            UpdateFeaturesRequest,
            UpdateFeaturesResponse,
        )

        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=UPGRADE
        )

        def attempt(deadline_s: float) -> None:
            request = UpdateFeaturesRequest(
                timeout_ms=_left_ms(deadline_s),
                feature_updates=[update],
                validate_only=validate_only,
            )
            answer = self._controller(deadline_s).ask(request, UpdateFeaturesResponse, deadline_s)
            _check(answer.error_code, answer.error_message)

        self._call(attempt, retried=NOT_LEADER)

    def _is_voter(self, node_id: int, directory_id: Uuid) -> bool:
        voters = {(voter.id, voter.directory_id) for voter in self.describe_quorum().voters}
        return (node_id, directory_id) in voters

    def _change(
        self, attempt: Callable[[float], None], done_code: int, is_done: Callable[[], bool]
    ) -> None:
        """Change the quorum, once: what the leader refuses stays refused, as in AdminClient.

        An attempt of which no answer came may have been carried out. If so, the next is refused
        with ``done_code``; ``is_done`` then says whether the quorum is as it was to be.
        """
        attempts = 0

        def counted(deadline_s: float) -> None:
            nonlocal attempts
            attempts += 1
            attempt(deadline_s)

        try:
            self._call(counted, retried=NOT_LEADER)
        except AnswerError as error:
            if error.code != done_code or attempts == 1 or not is_done():
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

    def _accept(self, connection: Connection) -> None:
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
            connection = self._anyone(deadline_s)
            if node is None or (node.host, node.port) == (connection.host, connection.port):
                # A leader that is not registered is found by asking one after another.
                self._leader = connection
            else:
                self._leader = self._connect(node.host, node.port, deadline_s)
        return self._leader


def ask_quorum(connection: Connection, deadline_s: float) -> QuorumInfo:
    """Ask the node of a connection, whoever it is; a controller that does not lead refuses.

    Raises AnswerError, AdminError, CodecError, and OSError as the network does.
    """
    from kraftspec.generated import kafka  # noqa: PLC0415 - changes do without

    answer = connection.ask(quorum_request(kafka), kafka.DescribeQuorumResponse, deadline_s)
    _check(answer.error_code, answer.error_message)
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise AdminError("the answer to DescribeQuorum is not about one partition")
    partition = answer.topics[0].partitions[0]
    _check(partition.error_code, partition.error_message)
    return QuorumInfo(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=_replicas(partition.current_voters),
        observers=_replicas(partition.observers),
        endpoints={
            node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in answer.nodes
        },
    )


def quorum_request(messages: Any) -> Any:
    """Return DescribeQuorum of a package of generated messages."""
    kind = messages.DescribeQuorumRequest
    topic = kind.TopicData(
        topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)]
    )
    return kind(topics=[topic])


def _check(code: int, message: str | None, advice: str = "") -> None:
    if code:
        raise AnswerError(code, message, advice=advice)


def _left_ms(deadline_s: float) -> int:
    return max(0, round((deadline_s - time.monotonic()) * 1000))


def _replicas(states: Sequence[DescribeQuorumResponse.ReplicaState]) -> tuple[Replica, ...]:
    return tuple(
        Replica(
            one.replica_id,
            Uuid(one.replica_directory_id or ZERO_UUID),
            one.log_end_offset,
            one.last_fetch_timestamp,
            one.last_caught_up_timestamp,
        )
        for one in states
    )
