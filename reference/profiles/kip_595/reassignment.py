"""AlterQuorum and the moves that follow, at the leader ("Quorum Reassignment").

The target voters are written to the log; then the current ones move towards them by one voter at a
time: one is added while there are as many to add as to remove, else one is removed. Each move is a
VoterAssignmentMessage, and the next one comes when it is committed. In the end one is written with
no targets. A leader that alone is left to be removed resigns, and the next leader removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.generated.errors import DraftErrorCode, ErrorCode
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.discovery import publish, targets_of
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum, AlterQuorumReply
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.control import Voters
from kraftspec.reference.raft.membership import Membership
from kraftspec.reference.raft.types import NONE, ReplicaKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftspec.reference.raft.events import UpgradeRequested
    from kraftspec.reference.raft.membership import Leadership
    from kraftspec.reference.raft.role import QuorumState


UNKNOWN_IDS_MAX = 20  # Of ids that nobody knows, however many a request has.


class Waiting:
    """An AlterQuorum that is not answered yet."""

    __slots__ = ("deadline_us", "targets", "token")

    def __init__(self, token: int, targets: tuple[int, ...], deadline_us: int) -> None:
        self.token = token
        self.targets = targets
        self.deadline_us = deadline_us


class Reassignment(Membership):
    """The leader's part in changes of the voters.

    ``waits_for_epoch``: nothing is changed before this leader has committed a record of its own.
    ``waits_for_log``: only who has caught up is added.
    """

    __slots__ = (
        "dismissed",
        "move_us",
        "publish_us",
        "waiting",
        "waits_for_epoch",
        "waits_for_log",
    )

    def __init__(
        self, core: QuorumState, leader: Leadership, *, waits_for_epoch: bool, waits_for_log: bool
    ) -> None:
        super().__init__(core, leader)
        self.waits_for_epoch = waits_for_epoch
        self.waits_for_log = waits_for_log
        self.waiting: list[Waiting] = []
        self.move_us = self.publish_us = 0
        self.dismissed: set[int] = set()  # Who was told that it is no voter any more.

    # ---- AlterQuorum ---------------------------------------------------------------------------

    def alter(self, token: int, request: AlterQuorum) -> None:
        """Begin, or go on; the answer comes when these targets are committed ("AlterQuorum")."""
        core = self.core
        targets = tuple(sorted(set(request.targets)))
        unknown = [id for id in targets if not self._is_known(id)]
        if unknown:
            reply = core.reply(AlterQuorumReply, DraftErrorCode.UNKNOWN_VOTER_ID)
            ids = f"{unknown[:UNKNOWN_IDS_MAX]}"
            reply.message = f"{ids} neither vote nor have fetched from this leader"
            core.answer(token, reply)
            return
        deadline_us = core.now_us + max(request.timeout_us, 0)
        self.waiting.append(Waiting(token, targets, deadline_us))
        self.leader.wake(0)

    def _is_known(self, voter_id: int) -> bool:
        """Whether it votes, or is to vote, already, or has fetched from this leader: it is there.

        A target was known to the leader that made it one. To ask a later leader for the same
        targets again is no mistake.
        """
        return (
            voter_id in self.core.log.voters.last
            or voter_id in (targets_of(self.core) or ())
            or ReplicaKey(voter_id) in self.leader.observers
        )

    def _end(self, waiting: Waiting, error: int) -> None:
        self.core.answer(waiting.token, self.core.reply(AlterQuorumReply, error))

    # ---- what goes on by itself ------------------------------------------------------------------

    def poll(self, now_us: int) -> int:
        """Answer, append the next target or make the next move; return when to look again."""
        if now_us >= self.publish_us:
            publish(self.core)
            self.publish_us = now_us + self.core.config.fetch_timeout_us
        if now_us < self.move_us:
            return self.move_us
        appended = self._go_on()
        for waiting in self.waiting:
            if waiting.deadline_us <= now_us:
                self._end(waiting, ErrorCode.REQUEST_TIMED_OUT)
        self.waiting = [one for one in self.waiting if one.deadline_us > now_us]
        if appended or self.leader.resign_requested:
            return now_us
        return min([self.publish_us, *(one.deadline_us for one in self.waiting)])

    def high_watermark_moved(self, offset: int) -> None:
        """Look whether the last move is committed."""
        super().high_watermark_moved(offset)
        self.move_us = self.core.now_us + 1  # Not in the step that committed by the old voters.
        self.leader.wake(self.move_us)

    def observer_fetched(self, key: ReplicaKey) -> None:
        """Look whether one that is to be added has caught up."""
        targets = self._last.targets if self._last is not None else None
        if targets is not None and key.id in targets:
            self.leader.wake(0)

    def leadership_lost(self) -> None:
        """Send who waits to look for the next leader."""
        super().leadership_lost()
        for waiting in self.waiting:
            self._end(waiting, DraftErrorCode.NOT_QUORUM_LEADER)
        self.waiting.clear()

    def upgrade(self, event: UpgradeRequested) -> None:
        """Refuse: the draft has no kraft.version."""
        error = ErrorCode.UNSUPPORTED_VERSION
        self.core.emit(fx.UpgradeAnswered(event.upgrade_id, error, "there is no kraft.version"))

    @property
    def _last(self) -> Assignment | None:
        last = self.core.log.voters.last
        return last if isinstance(last, Assignment) else None

    def _is_settled(self) -> bool:
        """Whether the last assignment is committed, and so is a record of this epoch."""
        core = self.core
        committed = core.high_watermark if self.waits_for_epoch else core.committed_offset
        offset = core.log.voters.last_offset
        return committed != NONE and (offset is None or offset < committed)

    def _go_on(self) -> bool:
        """Do what is to be done next, if the last assignment is settled; tell if one was added."""
        last = self._last
        leader = self.leader
        if last is None or leader.resign_requested or not self._is_settled():
            return False
        for waiting in self.waiting:
            if waiting.targets == last.targets:
                self._end(waiting, 0)
        self.waiting = [one for one in self.waiting if one.targets != last.targets]
        if self.waiting:
            return self._append(last, last.ids, self.waiting[0].targets)
        return last.targets is not None and self._move(last, last.targets)

    # ---- single movements ------------------------------------------------------------------------

    def _move(self, last: Assignment, targets: tuple[int, ...]) -> bool:
        """Make one move; the sets are computed anew each time, so a change of targets counts."""
        own_id = self.core.config.node_id
        new = [id for id in targets if id not in last]
        removing = [id for id in last.ids if id not in targets]
        if not new and not removing:
            return self._append(last, last.ids, None)
        if len(new) >= len(removing):
            ready = [id for id in new if self._may_be_added(id)]
            return bool(ready) and self._append(last, (*last.ids, ready[0]), targets)
        others = [id for id in removing if id != own_id]
        if not others:
            self.leader.resign_requested = True
            return False
        gone = min(others, key=lambda id: (self.leader.voters[id].end_offset, id))
        return self._append(last, [id for id in last.ids if id != gone], targets)

    def _may_be_added(self, voter_id: int) -> bool:
        return not self.waits_for_log or self._is_caught_up(ReplicaKey(voter_id))

    def _append(
        self, last: Assignment, ids: Iterable[int], targets: tuple[int, ...] | None
    ) -> bool:
        assignment = Assignment(last.cluster_id, ids, targets)
        self.dismissed.difference_update(assignment.ids)  # Who is added again may be removed again.
        self.leader.append_control((Voters(assignment),))
        return True

    # ---- who was removed -------------------------------------------------------------------------

    def dismisses(self, replica_id: int, fetch_offset: int) -> bool:
        """Whether to tell a replica that it votes no longer, which its own log does not say yet.

        Once for each removal: after that it fetches as an observer, and its log will say it, too.
        The older draft had a field for what a replica takes itself for; its log at its fetch offset
        says as much. What was applied is committed, also before a new leader has a high watermark.
        """
        core = self.core
        voters = core.log.voters
        committed = voters.at(max(core.committed_offset - 1, core.memory.applied_offset))
        if (
            replica_id in self.dismissed
            or replica_id in voters.last
            or replica_id in committed
            or replica_id not in voters.at(fetch_offset - 1)
        ):
            return False
        self.dismissed.add(replica_id)
        return True
