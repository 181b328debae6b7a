"""Values that events, effects and roles share: replicas, voters, snapshots, election state, log.

All of them are the core's own. None knows how it looks on a wire or in a file; that is a profile's
business. Times are whole microseconds, sizes are bytes, and -1 stands for "none" or "unknown" where
Kafka's own messages use it so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid

NONE = -1  # No leader, no vote, no offset known: Kafka's sentinel on the wire and in files.
NEVER_US = (1 << 63) - 1  # A deadline that does not come.
UNSUPPORTED_HIGH_WATERMARK = (1 << 63) - 1  # What a Fetch says whose version cannot tell one.
BOOTSTRAP_OFFSET = -1  # Contents of the checkpoint 0-0 count as written before the log's start.


class RoleName(StrEnum):
    """The six roles of KIP-595 and KIP-996."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


class ReplicaKey(NamedTuple):
    """Who a replica is: its node id, and the id of the log directory it has (KIP-853).

    A zero ``directory_id`` means that none is known, as with static voters.
    """

    id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether ``other`` is this replica; a directory is compared only if this one has it."""
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)


class SnapshotId(NamedTuple):
    """Which prefix of the log a snapshot holds: up to ``end_offset``, last written in ``epoch``."""

    end_offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)  # Written by formatting; never sent to anybody (KIP-853).


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Where a listener of a node is reached. Names are compared as they are: upper-case them."""

    name: str
    host: str
    port: int


class DraftEndpoint(Endpoint, frozen=True, gc=False):
    """An endpoint that says by which protocol it is spoken to, as the messages of the drafts do.

    ``security_protocol`` is Kafka's number; where that is 0, PLAINTEXT, it is an `Endpoint`.
    """

    security_protocol: int = 0


Endpoints = tuple[Endpoint, ...]


class Node(msgspec.Struct, frozen=True, gc=False):
    """Where to send a request. Bootstrap servers whose ids nobody knows have ids below -1."""

    id: int
    host: str
    port: int


def address(node_id: int, endpoints: Endpoints, listener: str) -> Node | None:
    """Return where ``listener`` of a node is, if that is among its endpoints."""
    for endpoint in endpoints:
        if endpoint.name == listener:
            return Node(node_id, endpoint.host, endpoint.port)
    return None


class VersionRange(NamedTuple):
    """The levels of the feature ``kraft.version`` that a node speaks, both included."""

    min: int = 0
    max: int = 0

    def covers(self, level: int) -> bool:
        """Whether ``level`` is one of them."""
        return self.min <= level <= self.max


class Voter(msgspec.Struct, frozen=True, gc=False):
    """One member of a voter set."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    kraft_versions: VersionRange = VersionRange()

    def is_same(self, other: Voter) -> bool:
        """Whether both say the same; listeners have names, and no order (Kafka's ``Endpoints``)."""
        return (self.key, self.kraft_versions, {*self.endpoints}) == (
            other.key, other.kraft_versions, {*other.endpoints},
        )  # fmt: skip

    def node(self, listener: str) -> Node | None:
        """Return where its ``listener`` is, or None if it has no such listener."""
        return address(self.key.id, self.endpoints, listener)


class ElectionState(msgspec.Struct, frozen=True, gc=False):
    """What quorum-state keeps: the epoch, its leader if one is known, and whom this node voted for.

    A candidate has voted for itself. Once it leads, Kafka's ``ElectionState`` names no vote any
    more; the drafts have the vote of the epoch, whoever won it.
    """

    epoch: int = 0
    leader_id: int = NONE
    voted: ReplicaKey | None = None


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A snapshot that is complete on disk.

    ``last_timestamp_ms`` is the time of the last record in it (``LastContainedLogTimestamp``).
    """

    id: SnapshotId
    size: int = 0
    last_timestamp_ms: int = 0
