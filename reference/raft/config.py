"""What an operator may set, with Kafka's defaults (``controller.quorum.*``, ``metadata.*``)."""

from __future__ import annotations

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.raft.types import NONE, Endpoints, Node, ReplicaKey, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet

MS = 1_000
S = 1_000_000

FETCH_MAX_WAIT_US = 500 * MS  # KafkaRaftClient.MAX_FETCH_WAIT_MS
OBSERVER_SESSION_US = 300 * S  # LeaderState.OBSERVER_SESSION_TIMEOUT_MS
OBSERVERS_MAX = 10_000  # More than any cluster has; who makes ids up gets no more memory.
CAUGHT_UP_WITHIN_US = 3600 * S  # A joiner that last fetched longer ago is not caught up (KIP-853).
CLEAN_PERIOD_US = 60 * S  # How often the host asks for cleaning.
BATCH_BYTES_MAX = 8 << 20  # KafkaRaftClient.MAX_BATCH_SIZE_BYTES
BATCH_OVERHEAD_BYTES = 61  # DefaultRecordBatch.RECORD_BATCH_OVERHEAD
RECORD_OVERHEAD_BYTES_MAX = 21  # DefaultRecord.MAX_RECORD_OVERHEAD


class Config(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The configuration of one node. Times are microseconds.

    ``voters`` are the static ones of ``controller.quorum.voters``; a voter set in the log or in a
    snapshot wins over them. ``bootstrap_servers`` are asked when no leader is known; with static
    voters and nothing else they are those voters. ``node_id`` -1 is an observer without a name.
    """

    cluster_id: str
    node_id: int = NONE
    directory_id: Uuid = ZERO_UUID
    listener_name: str = "CONTROLLER"
    endpoints: Endpoints = ()
    kraft_versions: VersionRange = VersionRange(0, 1)
    voters: VoterSet = VoterSet()
    bootstrap_servers: tuple[Node, ...] = ()
    can_become_voter: bool = True  # False on a broker: it observes, and need not sync its log.
    auto_join: bool = False  # controller.quorum.auto.join.enable (KIP-1186)
    election_timeout_us: int = 1_000 * MS
    fetch_timeout_us: int = 2_000 * MS
    election_backoff_max_us: int = 1_000 * MS
    request_timeout_us: int = 2_000 * MS
    retry_backoff_us: int = 20 * MS
    retry_backoff_max_us: int = 0  # quorum.retry.backoff.max.ms of KIP-595 as drafted, no other's.
    append_linger_us: int = 25 * MS
    fetch_max_wait_us: int = FETCH_MAX_WAIT_US
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    retention_bytes: int = 100 << 20  # metadata.max.retention.bytes; below 0: no limit
    retention_us: int = 7 * 24 * 3600 * S  # metadata.max.retention.ms; below 0: no limit

    @property
    def key(self) -> ReplicaKey:
        """This replica's id and directory."""
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def voter(self) -> Voter:
        """This replica as it would stand in a voter set."""
        return Voter(self.key, self.endpoints, self.kraft_versions)

    @property
    def contacts(self) -> tuple[Node, ...]:
        """Whom to ask when no leader is known."""
        if self.bootstrap_servers:
            return self.bootstrap_servers
        nodes = (voter.node(self.listener_name) for voter in self.voters)
        return tuple(node for node in nodes if node is not None)
