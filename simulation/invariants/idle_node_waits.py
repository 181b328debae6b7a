"""A node that has nothing to do waits: its clock does not wake it again and again in vain.

It breaks at the end of a run, so that the run shows all else that it has.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant, role_of
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import MS

WAKES_MAX = 20  # In a row, each at most a millisecond after the one before.


class IdleNodeWaits(Invariant):
    """Counts, for each node, the wakes in a row after which it asked nobody and would not wait."""

    def __init__(self) -> None:
        self.wakes: dict[int, int] = {}
        self.worst: dict[str, tuple[int, int, int]] = {}  # Role → wakes, node, when it ended.

    def ticked(self, replica: Replica) -> None:
        """Look when it wants to be woken next."""
        core = replica.core
        if core.deadline_us - replica.clock_us() > MS:
            self.wakes.pop(replica.id, None)
            return
        wakes = self.wakes[replica.id] = self.wakes.get(replica.id, 0) + 1
        role = role_of(replica)
        if wakes > max(WAKES_MAX, self.worst.get(role, (0,))[0]):
            self.worst[role] = (wakes, replica.id, replica.world.now_us)

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """It was woken for this."""
        self.wakes.pop(replica.id, None)

    def request_arrived(self, replica: Replica, message: Message, request: Request) -> None:
        """It has something to do."""
        self.wakes.pop(replica.id, None)

    def finished(self, replicas: list[Replica]) -> None:
        """Tell the longest of each role."""
        if self.worst:
            self.fail(
                "; ".join(
                    f"node {node_id}, {role}, was woken {wakes} times in a row with nothing to do, "
                    f"until {now_us / MS:,.0f} ms"
                    for role, (wakes, node_id, now_us) in sorted(self.worst.items())
                )
            )


INVARIANT = IdleNodeWaits
