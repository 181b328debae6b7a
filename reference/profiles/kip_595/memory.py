"""What a node of the draft keeps beside the core: connections, cluster id, and what was applied.

Of this, quorum-state has the cluster id, the voters of the last VoterAssignmentMessage that is
committed, and up to which offset the log was looked at for that.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import Connection

CONNECTIONS_MAX = 10_000  # More voters than any quorum has; who makes them up gets no more memory.
CALLERS_MAX = 100

LONG_AGO_US = -(1 << 62)


class Stored(NamedTuple):
    """What quorum-state keeps; ``applied`` is None before the first assignment is committed.

    ``learned`` are the first voters as another server expects them: see `Memory`.
    """

    cluster_id: str = ""
    applied_offset: int = 0
    applied: Assignment | None = None
    learned: tuple[int, ...] = ()


class Memory:
    """What a node of KIP-595's draft knows beside its core.

    ``cluster_id`` is the one that this node is sure of: cached, committed, or told by FindQuorum;
    empty if it knows none. ``is_strict``: an assignment is known to be committed, so requests are
    held against it. ``is_dismissed``: the leader has said NOT_FOLLOWER, and the log does not yet.
    ``callers`` are the last who asked for the quorum and are no voters by this node's log.
    ``expected_voters`` are the voters that other servers expect, by the id of the server;
    ``asks_itself``: one of these servers is this node, by another name or behind a proxy.
    ``learned`` are the first voters that this node expects, itself told none, since it heard of
    them: it tells them to others, and no restart changes them.
    """

    __slots__ = (
        "applied",
        "applied_offset",
        "asks_itself",
        "callers",
        "cluster_id",
        "connections",
        "expected_voters",
        "find_us",
        "heeded",
        "is_dismissed",
        "is_strict",
        "learned",
        "rounds",
    )

    def __init__(self, cluster_id: str, stored: Stored) -> None:
        self.cluster_id = cluster_id or stored.cluster_id
        self.applied = stored.applied
        self.applied_offset = stored.applied_offset
        self.is_strict = stored.applied is not None
        self.learned = stored.learned
        self.is_dismissed = False
        self.asks_itself = False
        self.connections: dict[int, Connection] = {}
        self.callers: dict[int, Connection] = {}
        self.heeded: dict[int, int] = {}  # Non-voters that asked for votes → when one was heeded.
        self.expected_voters: dict[int, tuple[int, ...]] = {}
        self.find_us = 0  # When to look for the quorum again.
        self.rounds = 0  # How often it was looked for in vain.

    def called(self, caller: Connection) -> None:
        """Remember who asked, instead of who asked first of those remembered."""
        if caller.host and caller.voter_id >= 0:
            self.callers.pop(caller.voter_id, None)
            if len(self.callers) >= CALLERS_MAX:
                del self.callers[next(iter(self.callers))]
            self.callers[caller.voter_id] = caller

    def heeds(self, node_id: int, now_us: int, period_us: int) -> bool:
        """Whether a non-voter that disturbs a leader is heeded: once in a period."""
        last_us = self.heeded.get(node_id, LONG_AGO_US)
        if now_us - last_us < period_us:
            return False
        self.heeded.pop(node_id, None)
        if len(self.heeded) >= CALLERS_MAX:
            del self.heeded[next(iter(self.heeded))]
        self.heeded[node_id] = now_us
        return True

    def merge(self, connection: Connection) -> bool:
        """Keep a connection if it is news: the one with the largest BootTimestamp counts.

        Return whether it is.
        """
        known = self.connections.get(connection.voter_id)
        if not connection.host or connection.voter_id < 0:
            return False
        if known is None and len(self.connections) >= CONNECTIONS_MAX:
            return False
        if known is not None and connection.boot_timestamp_ms <= known.boot_timestamp_ms:
            return False
        self.connections[connection.voter_id] = connection
        return True
