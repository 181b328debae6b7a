"""A change of the voters that was answered with success is committed, and so it stays (KIP-853).

Who asked not to wait for that, and who only says where it is reached (UpdateRaftVoter), is answered
once the change is in the leader's log (KIP-1186). It may be truncated there later. Kafka's leader
answers before it writes, and writes in the same step: the log is looked at when the step is over.
"""

from __future__ import annotations

from kraftspec.reference.raft import VoterSet
from kraftspec.reference.raft.messages import AddVoter, Request, UpdateVoter
from kraftspec.simulation.invariants.log_voters import LogVoters
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica


class AnsweredChangeIsCommitted(LogVoters):
    """Looks for what was asked for in the last voter set of the leader's log that is committed.

    What is committed never changes; `committed_bytes` sees to that. That the leader acts on the set
    is for `voters_follow_log` to see.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unwaited: dict[object, Request] = {}  # Replica key → what it answered in this step.

    def change_answered(self, replica: Replica, request: Request) -> None:
        """Look when the answer leaves, if it was to wait."""
        if isinstance(request, UpdateVoter):
            if replica.core.log.kraft_versions.last >= 1:  # Else it is kept in memory.
                self.unwaited[replica.key] = request
        elif isinstance(request, AddVoter) and not request.ack_when_committed:
            self.unwaited[replica.key] = request
        else:
            # A node may answer before its state machine reads what is committed.
            known = max(replica.committed, replica.high_watermark)
            committed = min(known, self.committed_log.high_watermark)
            self._require(replica, request, committed)

    def voters_changed(self, replica: Replica) -> None:
        """Look for what did not wait: the step is over."""
        request = self.unwaited.pop(replica.key, None)
        if request is not None:
            self._require(replica, request, replica.log_model.end_offset)

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """A node that ended in the step in which it answered may not have come to write."""
        super().started(replica, before)
        self.unwaited.pop(replica.key, None)

    def _require(self, replica: Replica, request: Request, end_offset: int) -> None:
        sets = [(at, voters) for at, voters in self.sets[replica.key] if at < end_offset]
        at, voters = sets[-1] if sets else (None, replica.first_voters)
        if not replica.world.protocol.has_happened(request, voters):
            self.fail(
                f"node {replica.id} says that {request} is done; the voters in its log, of offset "
                f"{at}, are {_keys(voters)}, and {replica.high_watermark} is committed"
            )


def _keys(voters: VoterSet) -> list[object]:
    return [voter.key for voter in voters]


INVARIANT = AnsweredChangeIsCommitted
