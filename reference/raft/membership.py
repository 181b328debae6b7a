"""Changes of the voter set, as its leader makes them: one at a time (KIP-853).

A change is one control record with the whole new set, which differs from the last by one voter. It
counts from the moment it is appended. The next may begin once it is committed, and none before this
leader has committed a record of its own epoch: two leaders could otherwise each make a majority of
sets that do not overlap.

With kraft.version 0 there are no such records. Voters still tell each leader who they are, and it
keeps that in memory, so that the upgrade to version 1 can write it down.
"""

from __future__ import annotations

from typing import Protocol

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.config import CAUGHT_UP_WITHIN_US
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.events import UpgradeRequested
from kraftspec.reference.raft.messages import (
    AddVoter,
    AddVoterReply,
    ApiVersions,
    ApiVersionsReply,
    RemoveVoter,
    RemoveVoterReply,
    UpdateVoter,
)
from kraftspec.reference.raft.role import QuorumState
from kraftspec.reference.raft.types import NEVER_US, NONE, Endpoints, ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet

NO_DIRECTORY = bytes(16)
NOT_YET_US = -(1 << 62)  # A fetch that never happened is longer ago than any period.


class Progress:
    """How far one replica is, as its fetches say (Kafka's ``ReplicaState``)."""

    __slots__ = (
        "caught_up_us",
        "directory_id",
        "end_offset",
        "endpoints",
        "fetched_us",
        "key",
        "leader_end_at_fetch",
    )

    def __init__(self, key: ReplicaKey, endpoints: Endpoints = ()) -> None:
        self.identify(key)
        self.endpoints = endpoints
        self.end_offset = NONE
        self.fetched_us = NOT_YET_US
        self.caught_up_us = NOT_YET_US
        self.leader_end_at_fetch = NONE

    def identify(self, key: ReplicaKey) -> None:
        """Take note which replica this is, where its id alone was known."""
        self.key = key
        self.directory_id = key.directory_id if any(key.directory_id) else None

    def fetched(self, offset: int, leader_end_offset: int, now_us: int) -> None:
        """Take note of a fetch at ``offset``.

        The replica was caught up now if it has all there is, and at its fetch before this one if it
        has all that there was then (KIP-836).
        """
        if offset >= leader_end_offset:
            self.caught_up_us = now_us
        elif 0 < self.leader_end_at_fetch <= offset:
            self.caught_up_us = max(self.caught_up_us, self.fetched_us)
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_us = now_us
        self.end_offset = offset


class Leadership(Protocol):
    """What a change of the voters needs of the leader that makes it."""

    voters: dict[int, Progress]
    observers: dict[ReplicaKey, Progress]
    epoch_start_offset: int
    undrained_records: int
    resign_requested: bool

    def append_control(self, records: tuple[ControlRecord, ...]) -> int:
        """Append one control batch, act on it at once, and return its last offset."""
        ...

    def heard_from(self, replica_id: int, directory_id: bytes, now_us: int) -> None:
        """Count a voter for Check Quorum."""
        ...

    def wake(self, us: int) -> None:
        """Look at the timers at ``us`` at the latest."""
        ...


class Change:
    """An addition or a removal under way.

    ``last_offset`` is its record's, -1 before there is one; ``token`` is None once it was answered.
    """

    __slots__ = ("ack_when_committed", "deadline_us", "endpoints", "key", "last_offset", "token")

    def __init__(
        self,
        token: int,
        key: ReplicaKey,
        deadline_us: int,
        endpoints: Endpoints = (),
        ack_when_committed: bool = True,
    ) -> None:
        self.token: int | None = token
        self.key = key
        self.endpoints = endpoints
        self.ack_when_committed = ack_when_committed
        self.deadline_us = deadline_us
        self.last_offset = NONE


class Membership:
    """The leader's part in changes of the voter set."""

    __slots__ = ("adding", "core", "leader", "removing", "upgraded_to", "volatile_voters")

    def __init__(self, core: QuorumState, leader: Leadership) -> None:
        self.core = core
        self.leader = leader
        self.adding: Change | None = None
        self.removing: Change | None = None
        self.upgraded_to: int | None = None
        self.volatile_voters: VoterSet | None = None
        if core.log.kraft_versions.last < 1:
            self.volatile_voters = core.log.voters.last.with_voter(core.config.voter)

    # ---- what goes on by itself ----------------------------------------------------------------

    def poll(self, now_us: int) -> int:
        """Give up a change that takes too long; return when the next one would be.

        The request is answered then; its record, if it was written, may be committed all the same.
        """
        next_us = NEVER_US
        if self.adding is not None:
            if self.adding.deadline_us <= now_us:
                self._end_adding(ErrorCode.REQUEST_TIMED_OUT)
            else:
                next_us = self.adding.deadline_us
        if self.removing is not None:
            if self.removing.deadline_us <= now_us:
                self._end_removing(ErrorCode.REQUEST_TIMED_OUT)
            else:
                next_us = min(next_us, self.removing.deadline_us)
        return next_us

    def high_watermark_moved(self, offset: int) -> None:
        """End the changes that are committed; a leader that is no voter by them resigns (KIP-853).

        Kafka 4.3.1 (``RemoveVoterHandler``) lets it resign only as long as the request waits: one
        that was told of a time-out leads on for good, votes in nothing, and nobody can add it.
        """
        adding = self.adding
        if adding is not None and NONE < adding.last_offset < offset:
            self._end_adding(0)
        removing = self.removing
        if removing is not None and removing.last_offset < offset:
            self._end_removing(0)
        core = self.core
        if not core.is_voter and (core.log.voters.last_offset or 0) < offset:
            self.leader.resign_requested = True

    def observer_fetched(self, key: ReplicaKey) -> None:
        """Take note that a replica which does not vote has got further."""

    def voter_fetched(self, progress: Progress, key: ReplicaKey) -> None:
        """Take note which replica fetched as a voter that is known by its id alone."""

    def leadership_lost(self) -> None:
        """Nobody here can say how a change ends that has begun."""
        self._end_adding(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._end_removing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end_adding(self, error: int, message: str | None = None) -> None:
        change, self.adding = self.adding, None
        if change is not None and change.token is not None:
            self.core.answer(change.token, AddVoterReply(error=error, message=message))

    def _end_removing(self, error: int) -> None:
        change, self.removing = self.removing, None
        if change is not None and change.token is not None:
            self.core.answer(change.token, RemoveVoterReply(error=error))

    # ---- what every change needs ---------------------------------------------------------------

    def _is_busy(self) -> bool:
        self.poll(self.core.now_us)
        return self.adding is not None or self.removing is not None

    def refusal(self, verb: str) -> tuple[int, str] | None:
        """Return why no voter can be added or removed now, in Kafka's order of checks."""
        core = self.core
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        if self._is_busy():
            return timed_out, "another change of the voters is under way"
        if core.high_watermark == NONE:
            return timed_out, "this leader has not committed anything of its epoch yet"
        level = core.log.kraft_versions.last
        if level < 1:
            return (
                ErrorCode.UNSUPPORTED_VERSION,
                f"no voter can be {verb} as long as kraft.version is {level}",
            )
        offset = core.log.voters.last_offset
        if offset is None or offset >= core.high_watermark:
            return (
                timed_out,
                f"the last change of the voters, at offset {offset}, is not committed: the high "
                f"watermark is {core.high_watermark}",
            )
        return None

    # ---- AddRaftVoter --------------------------------------------------------------------------

    def add(self, token: int, request: AddVoter) -> None:
        """Begin to add a voter: ask it first which versions it speaks (KIP-853, AddVoter)."""
        core = self.core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        refusal = self.refusal("added")
        if refusal is None and key.id in core.log.voters.last:
            refusal = ErrorCode.DUPLICATE_VOTER, f"id {key.id} is a voter already"
        voter = Voter(key, request.endpoints)
        node = voter.node(core.config.listener_name)
        if refusal is None and (node is None or not core.connections.ready(key.id, core.now_us)):
            refusal = ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} cannot be asked just now"
        if refusal is not None:
            core.answer(token, AddVoterReply(error=refusal[0], message=refusal[1]))
            return
        assert node is not None
        core.ask(node, ApiVersions())
        deadline_us = core.now_us + core.config.request_timeout_us
        self.adding = Change(token, key, deadline_us, request.endpoints, request.ack_when_committed)
        self.leader.wake(deadline_us)

    def on_api_versions(self, node_id: int, reply: ApiVersionsReply) -> bool:
        """Go on adding, now that it is known what the new voter speaks."""
        change = self.adding
        if change is None or change.last_offset != NONE or change.key.id != node_id:
            return True
        core = self.core
        if reply.error or reply.top_error:
            self._end_adding(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {node_id} answered ApiVersions with error {reply.error or reply.top_error}",
            )
            return False
        level = core.log.kraft_versions.last
        versions = reply.kraft_versions
        if versions is None or not versions.covers(level):
            self._end_adding(
                ErrorCode.INVALID_REQUEST,
                f"node {node_id} speaks kraft.version {versions}, not {level}, which is in force",
            )
            return True
        if not self._is_caught_up(change.key):
            self._end_adding(
                ErrorCode.REQUEST_TIMED_OUT, f"{change.key} has not caught up with the log"
            )
            return True
        voter = Voter(change.key, change.endpoints, versions)
        self._append_voters(change, core.log.voters.last.with_voter(voter))
        if not change.ack_when_committed and change.token is not None:
            core.answer(change.token, AddVoterReply())
            change.token = None
        return True

    def on_api_versions_failed(self, node_id: int) -> None:
        """Give up adding a voter that does not answer."""
        change = self.adding
        if change is not None and change.last_offset == NONE and change.key.id == node_id:
            self._end_adding(
                ErrorCode.REQUEST_TIMED_OUT, f"node {node_id} did not answer ApiVersions"
            )

    def _is_caught_up(self, key: ReplicaKey) -> bool:
        """Whether an observer had everything once, and fetched within the last hour."""
        progress = self.leader.observers.get(key)
        return (
            progress is not None
            and progress.caught_up_us >= 0
            and progress.fetched_us > self.core.now_us - CAUGHT_UP_WITHIN_US
        )

    # ---- RemoveRaftVoter -----------------------------------------------------------------------

    def remove(self, token: int, request: RemoveVoter) -> None:
        """Remove a voter, this very replica; never the last one (KIP-853, RemoveVoter)."""
        core = self.core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        voters = core.log.voters.last
        refusal = self.refusal("removed")
        if refusal is None:
            voter = voters.get(key.id)
            message = (
                f"id {key.id} with directory {key.directory_id} is no voter that can be removed"
            )
            if voter is None or voter.key != key or len(voters) == 1:
                refusal = ErrorCode.VOTER_NOT_FOUND, message
        if refusal is not None:
            core.answer(token, RemoveVoterReply(error=refusal[0], message=refusal[1]))
            return
        deadline_us = core.now_us + core.config.request_timeout_us
        change = self.removing = Change(token, key, deadline_us)
        self.leader.wake(deadline_us)
        change.last_offset = core.log.end_offset + self.leader.undrained_records
        self._append_voters(change, voters.without(key.id))

    # ---- UpdateRaftVoter -----------------------------------------------------------------------

    def update(self, request: UpdateVoter) -> int:
        """Take over what a voter says of itself; return an error code, or 0 (KIP-853)."""
        core = self.core
        if self._is_busy() or core.high_watermark == NONE:
            return ErrorCode.REQUEST_TIMED_OUT
        level = core.log.kraft_versions.last
        voters: VoterSet | None
        if level >= 1:
            offset = core.log.voters.last_offset
            committed = offset is not None and offset < core.high_watermark
            voters = core.log.voters.last if committed else None
        else:
            voters = self.volatile_voters
        if voters is None:
            return ErrorCode.REQUEST_TIMED_OUT
        if not request.kraft_versions.covers(level):
            return ErrorCode.INVALID_REQUEST
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        known = voters.get(key.id)
        if known is None or (level >= 1 and not known.key.matches(key)):
            return ErrorCode.VOTER_NOT_FOUND
        updated = voters.with_voter(Voter(key, request.endpoints, request.kraft_versions))
        if level >= 1:
            self.leader.append_control((Voters(updated),))
        else:
            self.volatile_voters = updated
        self.leader.heard_from(key.id, key.directory_id, core.now_us)
        return 0

    # ---- the upgrade from kraft.version 0 ------------------------------------------------------

    def upgrade(self, event: UpgradeRequested) -> None:
        """Raise kraft.version, and write down the voters that were in memory (KIP-853)."""
        error, message = self._upgrade_error(event)
        if not error and not event.validate_only and self._is_news(event.level):
            voters = self.volatile_voters
            assert voters is not None
            records: list[ControlRecord] = [KRaftVersion(event.level)]
            if voters != self.core.log.voters.last:
                records.append(Voters(voters))
            self.volatile_voters = None
            self.upgraded_to = event.level
            self.leader.append_control(tuple(records))
        self.core.emit(fx.UpgradeAnswered(event.upgrade_id, error, message))

    def _is_news(self, level: int) -> bool:
        return self.upgraded_to is None and level != self.core.log.kraft_versions.last

    def _upgrade_error(self, event: UpgradeRequested) -> tuple[int, str | None]:
        core = self.core
        invalid = ErrorCode.INVALID_UPDATE_VERSION
        if event.epoch != core.epoch:
            wrong = ErrorCode.INVALID_REQUEST
            if event.epoch < core.epoch:
                wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return wrong, f"epoch {event.epoch} is not {core.epoch}, which this node leads"
        if self.upgraded_to is not None:
            if self.upgraded_to == event.level:
                return 0, None
            return invalid, f"kraft.version is on its way to {self.upgraded_to}"
        current = core.log.kraft_versions.last
        if current == event.level:
            return 0, None
        if current > event.level:
            return invalid, f"kraft.version {current} cannot go back to {event.level}"
        voters = self.volatile_voters
        if voters is None:
            return invalid, f"kraft.version cannot go from {current} to {event.level}"
        if not voters.all_support(event.level):
            lacking = [v.key.id for v in voters if not v.kraft_versions.covers(event.level)]
            return invalid, f"of voters {lacking} it is not known that they speak {event.level}"
        if voters.ids != core.log.voters.last.ids or any(
            voter.key.directory_id == NO_DIRECTORY for voter in voters
        ):
            unknown = [voter.key.id for voter in voters if voter.key.directory_id == NO_DIRECTORY]
            return ErrorCode.UNKNOWN_SERVER_ERROR, f"of voters {unknown} no directory is known"
        return 0, None

    def _append_voters(self, change: Change, voters: VoterSet) -> None:
        change.last_offset = self.leader.append_control((Voters(voters),))
