"""What the draft's nodes and tools say to each other beside what every profile's do."""

from __future__ import annotations

from typing import NamedTuple

from kraftspec.reference.raft.messages import (
    DescribeQuorumReply,
    ReplicaDescription,
    Reply,
    Request,
)
from kraftspec.reference.raft.types import NONE


class Connection(NamedTuple):
    """Where a voter is reached, and since when: of two the one with the later boot is kept.

    An empty ``host`` says that nobody knows. ``security_protocol`` is Kafka's number, 0 PLAINTEXT.
    """

    voter_id: int
    boot_timestamp_ms: int = NONE
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class FindQuorum(Request, gc=False, kw_only=True):
    """Who leads, and where are the voters? I am reached here ("FindQuorum").

    ``sender.voter_id`` is -1 of a tool, whose other fields nobody looks at.
    """

    sender: Connection = Connection(NONE)


class FindQuorumReply(Reply, gc=False, kw_only=True):
    """Answer to `FindQuorum`; ``targets`` is None when no reassignment is under way."""

    cluster_id: str = ""
    voters: tuple[Connection, ...] = ()
    targets: tuple[Connection, ...] | None = None


class AlterQuorum(Request, gc=False, kw_only=True):
    """Let these be the voters in the end ("AlterQuorum")."""

    targets: tuple[int, ...]
    timeout_us: int = 0


class AlterQuorumReply(Reply, gc=False, kw_only=True):
    """Answer to `AlterQuorum`: the targets are committed to the log, or why not."""

    message: str | None = None


class DraftDescribeQuorumReply(DescribeQuorumReply, gc=False, kw_only=True):
    """Answer to `DescribeQuorum`, with those who are to vote in the end."""

    targets: tuple[ReplicaDescription, ...] = ()
