"""Mistakes in changes of the voter set (KIP-853)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.kafka import membership as kafka_membership
from kraftspec.reference.raft import leader, log_state, membership, resigned, role, types, voters
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.catalogue.bug import Planter


def applies_voters_on_commit(plant: Planter) -> None:
    """A follower acts on a voter set when it is committed, not when it is in its log."""
    raise_to = role.QuorumState.raise_high_watermark
    waiting: dict[Any, list[Any]] = {}  # By the core: its id would be another one's later.

    def keep(self: Any, batch: Any) -> None:
        waiting.setdefault(self, []).extend(batch.control)

    def raised(self: Any, offset: int) -> None:
        raise_to(self, offset)
        kept = waiting.pop(self, [])
        for at, record in kept:
            handler = self.control_handlers.get(record.__class__)
            last = self.log.voters.last_offset
            if at < offset and handler is not None and (last is None or at > last):
                handler(self, at, record)
        later = [(at, record) for at, record in kept if at >= offset]
        if later:
            waiting[self] = later

    plant(role.QuorumState, "apply_control", keep)
    plant(role.QuorumState, "raise_high_watermark", raised)


def keeps_voters_that_were_cut(plant: Planter) -> None:
    """A voter set stays in force when its record is truncated."""

    def truncate_to(self: Any, end_offset: int) -> None:
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        while self._epoch_starts and self._epoch_starts[-1] >= end_offset:
            del self._epochs[-1], self._epoch_starts[-1]
        self._refresh()

    plant(log_state.LogState, "truncate_to", truncate_to)


def stays_removed_when_cut(plant: Planter) -> None:
    """Who is removed by a voter set that is truncated leaves with the next commit all the same."""
    truncate, raise_to = role.QuorumState.truncate, role.QuorumState.raise_high_watermark

    def forgetful(self: Any, end_offset: int) -> None:
        is_removed = self.is_removed
        truncate(self, end_offset)
        self.is_removed = self.is_removed or is_removed

    def leaving(self: Any, offset: int) -> None:
        is_removed = self.is_removed and offset > (self.log.voters.last_offset or 0)
        raise_to(self, offset)
        if is_removed:
            self.is_voter = False

    plant(role.QuorumState, "truncate", forgetful)
    plant(role.QuorumState, "raise_high_watermark", leaving)


def removed_voter_goes_on(plant: Planter) -> None:
    """Who is removed campaigns until that is committed, and afterwards, too."""
    raise_to = role.QuorumState.raise_high_watermark

    def going_on(self: Any, offset: int) -> None:
        is_removed = self.is_removed
        raise_to(self, offset)
        self.is_voter = self.is_voter or is_removed

    plant(role.QuorumState, "raise_high_watermark", going_on)


def two_changes_at_once(plant: Planter) -> None:
    """A leader begins a change of the voters while another is not committed."""

    def refusal(self: Any, verb: str) -> tuple[int, str] | None:
        if self.core.log.kraft_versions.last < 1 or self.core.high_watermark < 0:
            return int(ErrorCode.REQUEST_TIMED_OUT), "not yet"
        return None

    plant(membership.Membership, "refusal", refusal)


def changes_voters_too_early(plant: Planter) -> None:
    """A new leader changes the voters before it has committed anything (Ongaro, 2015)."""
    refusal = membership.Membership.refusal

    def lenient(self: Any, verb: str) -> tuple[int, str] | None:
        if self.core.high_watermark < 0 and not self._is_busy():
            return None if self.core.log.kraft_versions.last >= 1 else refusal(self, verb)
        return refusal(self, verb)

    plant(membership.Membership, "refusal", lenient)


def counts_the_old_majority(plant: Planter) -> None:
    """A leader goes on counting the voters it was elected with."""
    plant(leader.Leader, "voters_changed", lambda self: None)


def removed_leader_counts_itself(plant: Planter) -> None:
    """A leader that is removing itself counts itself for the high watermark."""
    advance = leader.Leader.advance

    def proud(self: Any) -> None:
        node = self.core
        if node.config.node_id in self.voters:
            advance(self)
            return
        offsets = [p.end_offset for p in self.voters.values()] + [node.log.flushed_offset]
        offset = sorted(offsets, reverse=True)[len(self.voters) // 2]
        if offset > max(self.epoch_start_offset, node.high_watermark):
            node.raise_high_watermark(offset)
            self.membership.high_watermark_moved(offset)

    def on_flushed(self: Any) -> None:
        own = self.voters.get(self.core.config.node_id)
        if own is not None:
            own.end_offset = self.core.log.flushed_offset
        self.advance()

    plant(leader.Leader, "advance", proud)
    plant(leader.Leader, "on_flushed", on_flushed)


def removed_leader_stays(plant: Planter) -> None:
    """A leader that removed itself goes on leading."""

    def moved(self: Any, offset: int) -> None:
        adding, removing = self.adding, self.removing
        if adding is not None and -1 < adding.last_offset < offset:
            self._end_adding(0)
        if removing is not None and removing.last_offset < offset:
            self._end_removing(0)

    plant(membership.Membership, "high_watermark_moved", moved)


def removed_leader_waits_for_a_call(plant: Planter) -> None:
    """A leader that removed itself, and resigned, waits for the next leader to call: none does."""
    poll = resigned.Resigned.poll

    def patient(self: Any, now_us: int) -> int:
        if not self.core.is_voter:
            self.election_deadline_us = NEVER_US
        return poll(self, now_us)

    plant(resigned.Resigned, "poll", patient)


def upgrade_leaves_one_out(plant: Planter) -> None:
    """The upgrade of kraft.version writes down those voters alone who told who they are."""

    def error(self: Any, event: Any) -> tuple[int, str | None]:
        known = [v for v in self.volatile_voters or () if any(v.key.directory_id)]
        if self.volatile_voters is not None and len(known) > 1:
            self.volatile_voters = voters.VoterSet(known)
        return 0, None

    plant(membership.Membership, "_upgrade_error", error)


def answers_a_change_too_early(plant: Planter) -> None:
    """A change of the voters is answered when all before its record is committed, and it is not."""

    def moved(self: Any, offset: int) -> None:
        adding, removing = self.adding, self.removing
        if adding is not None and -1 < adding.last_offset <= offset:
            self._end_adding(0)
        if removing is not None and removing.last_offset <= offset:
            self._end_removing(0)
        core = self.core
        if not core.is_voter and (core.log.voters.last_offset or 0) < offset:
            self.leader.resign_requested = True

    plant(membership.Membership, "high_watermark_moved", moved)


def removes_whoever_has_the_id(plant: Planter) -> None:
    """RemoveRaftVoter removes the voter with its id, though that has another directory by now."""
    remove = membership.Membership.remove

    def careless(self: Any, token: int, request: Any) -> None:
        voter = self.core.log.voters.last.get(request.voter_id)
        if voter is not None:
            request = replace(request, voter_directory_id=voter.key.directory_id)
        remove(self, token, request)

    plant(membership.Membership, "remove", careless)


def removes_two(plant: Planter) -> None:
    """The removal of one voter takes another with it."""
    without = voters.VoterSet.without

    def greedy(self: Any, voter_id: int) -> Any:
        left = without(self, voter_id)
        return without(left, left.ids[0]) if len(left) > 1 else left

    plant(voters.VoterSet, "without", greedy)


def adds_who_is_far_behind(plant: Planter) -> None:
    """A replica becomes a voter although it has not caught up."""
    plant(membership.Membership, "_is_caught_up", lambda self, key: True)


def forgets_directories(plant: Planter) -> None:
    """Two disks of one node count as the same voter."""
    plant(
        voters.VoterSet,
        "is_voter",
        lambda self, key: self._by_id.get(key.id) is not None,
    )


def new_voter_starts_full(plant: Planter) -> None:
    """A replica that becomes a voter is taken to have everything already."""
    changed = leader.Leader.voters_changed

    def generous(self: Any) -> None:
        before = dict(self.voters)
        changed(self)
        for id, progress in self.voters.items():
            if id not in before:
                progress.end_offset = self.core.log.end_offset
        self.advance()

    plant(leader.Leader, "voters_changed", generous)


def tells_old_tools_less(plant: Planter) -> None:
    """DescribeQuorum 0 is answered without the offsets, as if they had come with the times (1)."""
    put_state = kafka_membership._put_state

    def terse(replica: Any, version: int) -> Any:
        state = put_state(replica, version)
        if version == 0:
            state.log_end_offset = -1
        return state

    plant(kafka_membership, "_put_state", terse)


def does_not_tell_that_it_moved(plant: Planter) -> None:
    """A voter compares its versions with its entry, and not where it listens."""

    def needs_update(self: Any, voter: Any) -> bool:
        known = self.get(voter.key.id)
        is_same = known is not None and known.key.matches(voter.key)
        return is_same and known.kraft_versions != voter.kraft_versions

    plant(voters.VoterSet, "needs_update", needs_update)


def asks_at_the_first_listener(plant: Planter) -> None:
    """A request to a voter goes to its first listener, whatever that is for."""

    def node(self: Any, listener: str) -> Any:
        first = self.endpoints[:1]
        return types.address(self.key.id, first, first[0].name) if first else None

    plant(types.Voter, "node", node)
