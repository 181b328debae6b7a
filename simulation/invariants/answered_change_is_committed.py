"""A change of the voters that was answered with success is committed, and so it stays (KIP-853).

Who asked not to wait for that, and who only says where it is reached (UpdateRaftVoter), is answered
once the change is in the leader's log.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import AddVoter, Request, UpdateVoter
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class AnsweredChangeIsCommitted(Invariant):
    """Looks for what was asked for in the last voter set that the leader knows to be committed.

    What is committed never changes; `committed_bytes` sees to that.
    """

    def change_answered(self, replica: Replica, request: Request) -> None:
        """Look when the answer leaves."""
        sets = replica.known_voters
        if isinstance(request, UpdateVoter):
            if replica.core.log.kraft_versions.last < 1:
                return  # Kept in memory, for the upgrade.
        elif not isinstance(request, AddVoter) or request.ack_when_committed:
            # A node may answer before its state machine reads what is committed.
            known = max(replica.committed, replica.high_watermark)
            committed = min(known, self.committed_log.high_watermark)
            sets = [(at, voters) for at, voters in sets if at < committed]
        voters = sets[-1][1] if sets else replica.first_voters
        if not replica.world.protocol.has_happened(request, voters):
            at = sets[-1][0] if sets else None
            self.fail(
                f"node {replica.id} says that {request} is done; its voters, of offset {at}, are "
                f"{[voter.key for voter in voters]}, and {replica.high_watermark} is committed"
            )


INVARIANT = AnsweredChangeIsCommitted
