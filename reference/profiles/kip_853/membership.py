"""AddVoter and RemoveVoter, as their leader carries them out ("Handling" of each).

The draft lets a request wait: for the replica to catch up, and for the change before it. So the
requests of a leader form a queue, and each is tried again whenever something has happened. What the
draft leaves open is `docs/decisions/`'s: who waits longer than the request time-out is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.kip_853.control import VoterAdded, VoterRemoved
from kraftspec.reference.raft import policy
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.membership import Leadership, Membership, Progress
from kraftspec.reference.raft.messages import (
    AddVoter,
    AddVoterReply,
    RemoveVoter,
    RemoveVoterReply,
    Reply,
)
from kraftspec.reference.raft.requests import top_level_error
from kraftspec.reference.raft.types import NEVER_US, NONE, ReplicaKey, Voter

if TYPE_CHECKING:
    from kraftspec.reference.raft.control import ControlRecord
    from kraftspec.reference.raft.role import QuorumState

WAITING_MAX = 100  # Requests that wait at once; more are refused, and may be asked again.


class Fix(StrEnum):
    """Rules beside the draft. `FIXES` says what each is against."""

    OWN_EPOCH_FIRST = "own-epoch-first"
    REMOVED_BEFORE_REPLACED = "removed-before-replaced"
    VOTER_UUID = "voter-uuid"
    LOSER_STEPS_DOWN = "loser-steps-down"
    CHECK_QUORUM = "check-quorum"


FIXES: dict[str, str] = {
    Fix.OWN_EPOCH_FIRST: "a leader that changes voters before it has committed anything in its "
    "epoch can make a majority that does not meet the one before it",
    Fix.REMOVED_BEFORE_REPLACED: "another uuid for a voter in one record changes two voters at "
    "once: one that goes, and one that comes",
    **policy.FIXES,
    Fix.VOTER_UUID: "a voter that lost its disk votes again, and what it had acknowledged counts",
    Fix.LOSER_STEPS_DOWN: "a removed voter that was away campaigns again and again, looks for no "
    "leader, and deposes one after another",
    Fix.CHECK_QUORUM: "a leader that nobody fetches from leads on, and nobody else can be told",
}


class Waiting:
    """A request under way. ``last_offset`` is its record's, -1 as long as it has none."""

    __slots__ = ("deadline_us", "key", "last_offset", "token", "voter")

    def __init__(self, token: int, key: ReplicaKey, deadline_us: int, voter: Voter | None) -> None:
        self.token = token
        self.key = key
        self.deadline_us = deadline_us
        self.voter = voter  # Whom to add; None for a removal.
        self.last_offset = NONE

    def removes(self, key: ReplicaKey) -> bool:
        """Whether this is to remove that replica."""
        return self.voter is None and self.key == key


class DraftMembership(Membership):
    """The queue of AddVoter and RemoveVoter requests of one leader.

    ``queue`` has the requests in order of arrival, the one in the log first.
    """

    __slots__ = ("has_committed", "queue", "without")

    def __init__(self, core: QuorumState, leader: Leadership, without: Collection[str]) -> None:
        self.core = core
        self.leader = leader
        self.adding = self.removing = self.upgraded_to = self.volatile_voters = None
        self.without = without
        self.queue: list[Waiting] = []
        self.has_committed = False  # In this step.
        own = leader.voters.get(core.config.node_id)
        if own is not None:
            own.identify(core.config.key)

    # ---- what goes on by itself ----------------------------------------------------------------

    def poll(self, now_us: int) -> int:
        """Go on with what can go on, and refuse what waited too long; return when to look again.

        Not in a step that committed something: what it committed, it did by the voters before.
        """
        if self.has_committed:
            self.has_committed = False
            return now_us
        for waiting in [w for w in self.queue if w.deadline_us <= now_us]:
            self._end(waiting, ErrorCode.REQUEST_TIMED_OUT, "it took too long")
        for waiting in list(self.queue):
            if waiting.last_offset == NONE and self._try(waiting):
                return now_us  # The timers of the leader's are others now.
        return min((w.deadline_us for w in self.queue), default=NEVER_US)

    def observer_fetched(self, key: ReplicaKey) -> None:
        """Look whether this replica was waited for."""
        if self.queue:
            self.leader.wake(0)

    def voter_fetched(self, progress: Progress, key: ReplicaKey) -> None:
        """Know a voter of the properties by its uuid from its first fetch on ("Fetch").

        A disk that takes its place has another uuid, and is another replica: an observer.
        """
        if Fix.VOTER_UUID not in self.without:
            progress.identify(key)

    def high_watermark_moved(self, offset: int) -> None:
        """End the change that is committed; a leader that is no voter by it resigns."""
        core = self.core
        if not core.is_voter and (core.log.voters.last_offset or 0) < offset:
            self.leader.resign_requested = True
        for waiting in [w for w in self.queue if NONE < w.last_offset < offset]:
            if waiting.voter is not None and waiting.key not in self._keys():
                waiting.last_offset = NONE  # Its old disk is removed; now it is added.
            else:
                self._end(waiting)
        self.has_committed = bool(self.queue)
        self.leader.wake(0)

    def leadership_lost(self) -> None:
        """Nobody here can say how a change ends that has begun."""
        for waiting in list(self.queue):
            self._end(waiting, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node leads no longer")

    def _end(self, waiting: Waiting, error: int = 0, message: str | None = None) -> None:
        self.queue.remove(waiting)
        _answer(self.core, waiting.token, waiting.voter is None, error, message)

    # ---- a change --------------------------------------------------------------------------------

    def ask(self, token: int, key: ReplicaKey, voter: Voter | None) -> None:
        """Begin to add ``voter``, or to remove the one with that key."""
        if len(self.queue) >= WAITING_MAX:
            _answer(
                self.core,
                token,
                voter is None,
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{WAITING_MAX} changes of voters wait",
            )
            return
        deadline_us = self.core.now_us + self.core.config.request_timeout_us
        self.queue.append(Waiting(token, key, deadline_us, voter))
        self.leader.wake(0)

    def _keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.core.log.voters.last]

    def _is_settled(self) -> bool:
        """Whether no change is pending: the last one is committed, as far as this leader knows.

        As drafted, that may be from the time before it led.
        """
        committed = self._committed()
        if committed is None:
            return False
        return (self.core.log.voters.last_offset or NONE) < committed and all(
            waiting.last_offset == NONE for waiting in self.queue
        )

    def _committed(self) -> int | None:
        """Return up to where the log is committed; None as long as this leader cannot tell."""
        core = self.core
        if Fix.OWN_EPOCH_FIRST in self.without:
            return max(core.high_watermark, core.committed_offset)
        return None if core.high_watermark == NONE else core.high_watermark

    def _is_duplicate(self, waiting: Waiting) -> bool:
        """Whether there is nothing to add: this is a voter, by what is committed and by the rest.

        Nor is it to be removed by a request that came before. Whether it is there does not matter.
        """
        committed = self._committed()
        if committed is None:
            return False
        key, voters = waiting.key, self.core.log.voters
        known = (voters.last.get(key.id), voters.at(committed - 1).get(key.id))
        if any(voter is None or voter.key != key for voter in known):
            return False
        return waiting is next(w for w in self.queue if w is waiting or w.removes(key))

    def _try(self, waiting: Waiting) -> bool:
        """Take a request as far as it goes now; return whether its record was written."""
        voter = waiting.voter
        if voter is not None:
            if self._is_duplicate(waiting):
                self._end(waiting, ErrorCode.DUPLICATE_VOTER, f"{waiting.key} is a voter already")
                return False
            if not self._has_caught_up(waiting.key):
                return False
        if not self._is_settled():
            return False
        voters = self.core.log.voters.last
        known = voters.get(waiting.key.id)
        if voter is None:
            if known is None or known.key != waiting.key:
                self._end(waiting, ErrorCode.VOTER_NOT_FOUND, f"{waiting.key} is no voter")
            elif len(voters) == 1:
                self._end(waiting, ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
            else:
                self._append(waiting, VoterRemoved(waiting.key))
                return True
        elif (
            known is not None
            and known.key.directory_id != ZERO_UUID
            and len(voters) > 1
            and Fix.REMOVED_BEFORE_REPLACED not in self.without
        ):
            self._append(waiting, VoterRemoved(known.key))
            return True
        else:
            self._append(waiting, VoterAdded(voter))
            return True
        return False

    def _append(self, waiting: Waiting, record: ControlRecord) -> None:
        # Known before it is appended, since a quorum of one commits it in the same breath.
        waiting.last_offset = self.core.log.end_offset + self.leader.undrained_records
        self.leader.append_control((record,))

    def _has_caught_up(self, key: ReplicaKey) -> bool:
        """Whether a replica has, or had within the fetch time-out, all there was.

        Asked each time: who had caught up and had to wait for its turn may be gone by then.
        """
        core, leader = self.core, self.leader
        progress = progress_of(leader, key)
        if key == core.config.key:
            return True
        return (
            progress is not None
            and progress.caught_up_us >= core.now_us - core.config.fetch_timeout_us
            and progress.end_offset > leader.epoch_start_offset
        )


def progress_of(leader: Leadership, key: ReplicaKey) -> Progress | None:
    """Return what a leader knows of a replica, which may be a voter known by its id alone."""
    voter = leader.voters.get(key.id)
    is_voter = voter is not None and voter.key.matches(key)
    return leader.observers.get(key) or (voter if is_voter else None)


# ---- requests ------------------------------------------------------------------------------------


def on_add_voter(core: QuorumState, token: int, request: AddVoter) -> None:
    """AddVoter: refuse what can be refused at once, in the draft's order; the rest waits."""
    top_error = top_level_error(core, request)
    if top_error:
        core.answer(token, AddVoterReply(top_error=top_error))
        return
    error = core.leader_error(core.epoch)
    message = None
    static = core.config.voters
    endpoints = request.endpoints
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    role = core.role
    if not endpoints and not len(static) and isinstance(role, Leader):
        known = progress_of(role, key)
        endpoints = known.endpoints if known is not None else ()
    if error:
        pass
    elif request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        error, message = ErrorCode.INVALID_REQUEST, "a voter has an id and a uuid"
    elif len(static):
        if endpoints:
            message = "the endpoints are those of controller.quorum.voters: leave them out"
        elif request.voter_id not in static:
            message = f"controller.quorum.voters has no id {request.voter_id}: it adds no new ones"
        error = ErrorCode.INVALID_REQUEST if message else 0
        endpoints = static.endpoints(request.voter_id)
    elif Voter(core.config.key, endpoints).node(core.config.listener_name) is None:
        error = ErrorCode.INVALID_REQUEST
        message = f"there is no endpoint named {core.config.listener_name}"
    if error or not isinstance(role, Leader):
        _answer(core, token, False, error, message)
        return
    _membership(role).ask(token, key, Voter(key, endpoints))


def on_remove_voter(core: QuorumState, token: int, request: RemoveVoter) -> None:
    """RemoveVoter. Its second step speaks of endpoints, which the request does not have.

    What it must mean: with static voters none is removed, for their ids stand in the properties.
    """
    top_error = top_level_error(core, request)
    if top_error:
        core.answer(token, RemoveVoterReply(top_error=top_error))
        return
    error = core.leader_error(core.epoch)
    message = None
    if error:
        pass
    elif len(core.config.voters):
        error = ErrorCode.INVALID_REQUEST
        message = "the voters are those of controller.quorum.voters, of which none is removed"
    elif request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        error, message = ErrorCode.INVALID_REQUEST, "a voter has an id and a uuid"
    role = core.role
    if error or not isinstance(role, Leader):
        _answer(core, token, True, error, message)
        return
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    _membership(role).ask(token, key, None)


def _membership(leader: Leader) -> DraftMembership:
    membership = leader.membership
    assert isinstance(membership, DraftMembership)
    return membership


def _answer(
    core: QuorumState, token: int, is_removal: bool, error: int, message: str | None
) -> None:
    kind: type[AddVoterReply | RemoveVoterReply] = AddVoterReply
    if is_removal:
        kind = RemoveVoterReply
    reply: Reply = core.reply(kind, error)
    if isinstance(reply, AddVoterReply | RemoveVoterReply):
        reply.message = message
    role = core.role
    if reply.leader_id == core.config.node_id and (
        not isinstance(role, Leader) or role.resign_requested
    ):
        reply.leader_id = NONE  # It led, and who asks goes on elsewhere.
    core.answer(token, reply)
