"""What nodes say to each other, without the words of any protocol version.

A request is a question put to one node; a reply answers exactly one request. A profile turns both
into bytes and back. Field names are Kafka's; shapes are flat, because a quorum has one log.

``refused`` of a request is an error code that the translator found before the core saw it (a topic
or a partition that is not this log), or 0. The core gives it as the answer at the place in the
order of checks where Kafka looks at it.
"""

from __future__ import annotations

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.types import (
    NONE,
    UNSUPPORTED_HIGH_WATERMARK,
    Endpoints,
    ReplicaKey,
    VersionRange,
)
from kraftspec.reference.wire.apis import Api

Bytes = bytes | memoryview


class Request(msgspec.Struct, gc=False):
    """Base of all requests; ``cluster_id`` None is accepted by everybody.

    ``refused_partitions`` are the (topic, partition) pairs that a refused request was about, where
    the answer has to repeat them.
    """

    cluster_id: str | None = None
    refused: int = 0
    refused_partitions: tuple[tuple[str, int], ...] = ()


class Reply(msgspec.Struct, gc=False):
    """Base of all replies.

    ``top_error`` concerns the request as a whole, ``error`` this log. Whatever the error, a reply
    carries the leader and epoch that the answering node knows (KIP-595), and where that leader is.
    """

    error: int = 0
    top_error: int = 0
    leader_id: int = NONE
    leader_epoch: int = NONE
    leader_endpoints: Endpoints = ()


class Vote(Request, gc=False, kw_only=True):
    """Will you vote for me in this epoch? Or, as a pre-vote, would you? (KIP-595, KIP-996)."""

    epoch: int
    replica_id: int
    replica_directory_id: Uuid = ZERO_UUID
    voter_id: int = NONE
    voter_directory_id: Uuid = ZERO_UUID
    last_epoch: int
    end_offset: int
    pre_vote: bool = False


class VoteReply(Reply, gc=False, kw_only=True):
    """Answer to `Vote`."""

    vote_granted: bool = False


class BeginEpoch(Request, gc=False, kw_only=True):
    """I lead this epoch (KIP-595, BeginQuorumEpoch)."""

    leader_id: int
    leader_epoch: int
    voter_id: int = NONE
    voter_directory_id: Uuid = ZERO_UUID
    leader_endpoints: Endpoints = ()


class BeginEpochReply(Reply, gc=False):
    """Answer to `BeginEpoch`."""


class EndEpoch(Request, gc=False, kw_only=True):
    """I lead this epoch no longer; elect one of these, in this order (KIP-595)."""

    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[ReplicaKey, ...] = ()
    leader_endpoints: Endpoints = ()


class EndEpochReply(Reply, gc=False):
    """Answer to `EndEpoch`."""


class Fetch(Request, gc=False, kw_only=True):
    """What comes after this offset? I have everything before it (KIP-595)."""

    replica_id: int
    replica_directory_id: Uuid = ZERO_UUID
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = UNSUPPORTED_HIGH_WATERMARK
    max_wait_us: int = 0
    max_bytes: int = 0
    replica_endpoints: Endpoints = ()  # Of an observer, where the profile says them.


class Batch(msgspec.Struct, gc=False):
    """One record batch that a leader sent, checked by the translator, and its bytes.

    ``control`` holds (offset, record) of the control records in it that the core acts on.
    """

    base_offset: int
    last_offset: int
    epoch: int
    data: Bytes
    control: tuple[tuple[int, ControlRecord], ...] = ()


class FetchReply(Reply, gc=False, kw_only=True):
    """Answer to `Fetch`: records, or where the logs part, or which snapshot to fetch.

    The leader's core has no bytes: it says ``read_offset`` and ``read_max_bytes``, and the host
    puts whole batches from its log into ``records``, at least one. ``read_offset`` -1 means none.
    The fetching side finds them in ``batches``; what was damaged on the way is left out.
    """

    high_watermark: int = NONE
    log_start_offset: int = NONE
    diverging_epoch: int = NONE
    diverging_end_offset: int = NONE
    snapshot_end_offset: int = NONE
    snapshot_epoch: int = NONE
    read_offset: int = NONE
    read_max_bytes: int = 0
    records: Bytes | None = None
    batches: tuple[Batch, ...] = ()


class FetchSnapshot(Request, gc=False, kw_only=True):
    """Bytes of a snapshot, from ``position`` on (KIP-630)."""

    replica_id: int
    replica_directory_id: Uuid = ZERO_UUID
    leader_epoch: int
    snapshot_end_offset: int
    snapshot_epoch: int
    position: int
    max_bytes: int


class FetchSnapshotReply(Reply, gc=False, kw_only=True):
    """Answer to `FetchSnapshot`. The leader's host reads ``read_max_bytes`` into ``data``."""

    snapshot_end_offset: int = NONE
    snapshot_epoch: int = NONE
    size: int = 0
    position: int = 0
    read_max_bytes: int = 0
    data: Bytes = b""


class DescribeQuorum(Request, gc=False):
    """Who leads, who votes, who is how far? (KIP-595, KIP-836, KIP-853)."""


class ReplicaDescription(msgspec.Struct, gc=False):
    """How far one replica is, as its leader knows; -1 for what it does not."""

    key: ReplicaKey
    end_offset: int = NONE
    last_fetch_timestamp_ms: int = NONE
    last_caught_up_timestamp_ms: int = NONE
    endpoints: Endpoints = ()


class DescribeQuorumReply(Reply, gc=False, kw_only=True):
    """Answer to `DescribeQuorum`, of a leader."""

    high_watermark: int = NONE
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()


class AddVoter(Request, gc=False, kw_only=True):
    """Make this replica a voter (KIP-853)."""

    voter_id: int
    voter_directory_id: Uuid
    endpoints: Endpoints = ()
    ack_when_committed: bool = True
    timeout_us: int = 0


class AddVoterReply(Reply, gc=False, kw_only=True):
    """Answer to `AddVoter`."""

    message: str | None = None


class RemoveVoter(Request, gc=False, kw_only=True):
    """Let this replica vote no longer (KIP-853)."""

    voter_id: int
    voter_directory_id: Uuid


class RemoveVoterReply(Reply, gc=False, kw_only=True):
    """Answer to `RemoveVoter`."""

    message: str | None = None


class UpdateVoter(Request, gc=False, kw_only=True):
    """I, a voter, have these endpoints and speak these versions (KIP-853)."""

    leader_epoch: int
    voter_id: int
    voter_directory_id: Uuid
    endpoints: Endpoints = ()
    kraft_versions: VersionRange = VersionRange()


class UpdateVoterReply(Reply, gc=False):
    """Answer to `UpdateVoter`."""


class ApiVersions(Request, gc=False):
    """What do you speak? Asked by a leader of a replica that wants to be a voter (KIP-853)."""


class ApiVersionsReply(Reply, gc=False, kw_only=True):
    """Answer to `ApiVersions`: of the features, only ``kraft.version`` concerns the core.

    ``apis`` are what the host serves, and its to fill in; so are the features of the metadata.
    """

    kraft_versions: VersionRange | None = None
    finalized_kraft_version: int = 0
    finalized_epoch: int = NONE
    apis: tuple[Api, ...] = ()
    supported_features: tuple[tuple[str, VersionRange], ...] = ()
    finalized_features: tuple[tuple[str, int], ...] = ()
