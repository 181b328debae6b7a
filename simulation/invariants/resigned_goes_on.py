"""Who has resigned goes on in the next epoch when its election time-out is over (KIP-595).

Whoever has heard of it by then: a voter that is down must not keep the others without a leader.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import MS


class ResignedGoesOn(Invariant):
    """Looks, when the clock of a node strikes, how long ago it resigned."""

    def __init__(self) -> None:
        self.since_us: dict[int, int] = {}  # Node → when it resigned, by its own clock.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Take note."""
        self.since_us.pop(replica.id, None)
        if new is RoleName.RESIGNED:
            self.since_us[replica.id] = replica.core.now_us

    def ticked(self, replica: Replica) -> None:
        """The time-out is drawn between once and twice what is configured.

        Where the power is lost as the node goes on, nobody was told of another role. A node whose
        disk failed in this step has ended.
        """
        since_us, core = self.since_us.get(replica.id), replica.core
        has_gone_on = core.role.name is not RoleName.RESIGNED
        if since_us is None or has_gone_on or not replica.is_up:
            return
        if core.shutdown_deadline_us != NEVER_US:
            return
        elapsed_us = core.now_us - since_us
        if elapsed_us > 2 * replica.config.election_timeout_us:
            self.fail(
                f"node {replica.id} has resigned for {elapsed_us / MS:,.0f} ms, and does not go on"
            )


INVARIANT = ResignedGoesOn
