"""An epoch has one leader, whoever says so: by role, or in what is stored (election safety).

And a node that led an epoch and went down never leads that epoch again.
"""

from __future__ import annotations

from kraftspec.reference.raft import ElectionState, RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class SingleLeader(Invariant):
    """Collects who leads which epoch, by role and by what is stored.

    Kafka's SingleLeader; Raft, figure 3.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}  # Epoch → leader.
        self.incarnations: dict[
            int, tuple[object, int]
        ] = {}  # Epoch → replica key and incarnation that led.

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """A leader is the only one, and it is so once."""
        if new is not RoleName.LEADER:
            return
        epoch = replica.core.epoch
        self._is(epoch, replica.id, f"node {replica.id} leads")
        incarnation = (replica.key, replica.incarnation)
        if self.incarnations.setdefault(epoch, incarnation) != incarnation:
            self.fail(f"node {replica.id} leads epoch {epoch} again after a restart")

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """What a node stores of the leader is what is so."""
        if state.leader_id >= 0:
            self._is(state.epoch, state.leader_id, f"node {replica.id} stored")

    def _is(self, epoch: int, leader: int, who: str) -> None:
        known = self.leaders.setdefault(epoch, leader)
        if known != leader:
            self.fail(f"{who} epoch {epoch} with leader {leader}; its leader is {known}")


INVARIANT = SingleLeader
