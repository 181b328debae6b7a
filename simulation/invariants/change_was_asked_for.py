"""The voters change as somebody has asked their leader to, and in no other way (KIP-853).

A leader adds or removes a voter for a request that it got in its epoch, of that very replica: one
about a disk that was replaced is about nobody. A request is good for one change.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class ChangeWasAskedFor(Invariant):
    """Looks for the request behind each voter set that a leader writes."""

    def __init__(self) -> None:
        # Leader → its epoch, and what it was asked for in it.
        self.requests: dict[int, tuple[int, list[Request]]] = {}

    def change_requested(self, replica: Replica, request: Request) -> None:
        """Take note; the core has taken it, and nothing that it does then has happened yet."""
        self._of(replica).append(request)

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Hold a new set against the one before it."""
        if replica.core.role.name is not RoleName.LEADER:
            return
        sets = [voters for at, voters in replica.known_voters if at < offset]
        before = sets[-1] if sets else replica.first_voters
        after = replica.profile.policy.folded(record, before)
        if after is None or not len(before):
            return
        requests = self._of(replica)
        unasked = replica.world.protocol.unasked(before, after, requests, replica.id)
        if unasked:
            self.fail(
                f"leader {replica.id} of epoch {replica.core.epoch} does what nobody asked it for: "
                f"{unasked}; it was asked for {requests}"
            )

    def _of(self, replica: Replica) -> list[Request]:
        epoch, requests = self.requests.get(replica.id, (-1, []))
        if epoch != replica.core.epoch:
            requests = []
            self.requests[replica.id] = replica.core.epoch, requests
        return requests


INVARIANT = ChangeWasAskedFor
