"""What a draft adds to a node's metrics: how far a change of voters is.

KIP-595's documents have one metric more that is worth a number there, voters whose connections are
not known; in Kafka that is always 0, for its voter sets say where voters are. What KIP-853's first
draft asks under "Monitoring", "What new metrics do we need?", is answered by what its leader knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kraftspec.fastpath.types import ZERO_UUID

if TYPE_CHECKING:
    from kraftspec.reference.raft import Core

Gauge = tuple[str, float, str]  # Its name, value, and what it says.


def of_kip_595(core: Core) -> Iterator[Gauge]:
    """Yield the gauges of a node of KIP-595."""
    voters = core.log.voters.last
    targets: tuple[int, ...] | None = getattr(voters, "targets", None)  # Of an Assignment alone.
    moves = set() if targets is None else set(targets) ^ set(voters.ids)
    away = [
        voter_id
        for voter_id in {*voters.ids, *(targets or ())} - {core.config.node_id}
        if core.node(voter_id) is None
    ]
    yield "number-of-target-voters", len(targets or ()), "0: there is no reassignment"
    yield "number-of-pending-moves", len(moves), "voters that the target adds or removes"
    yield "number-unknown-voter-connections", len(away), "voters, where they are not being known"


def of_kip_853(core: Core) -> Iterator[Gauge]:
    """Yield the gauges of a node of KIP-853, of which the leader alone has any."""
    role: Any = core.role
    if not hasattr(role, "observers"):
        return
    eligible = sum(key.directory_id != ZERO_UUID for key in list(role.observers))
    yield "number-of-eligible-observers", eligible, "observers that can be made voters"
    queue = getattr(role.membership, "queue", ())
    yield "number-of-pending-voter-changes", len(queue), "AddVoter and RemoveVoter under way"
