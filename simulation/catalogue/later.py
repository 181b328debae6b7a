"""Mistakes that were planted when the model was done, to see what it says of what it never met.

They are not in the catalogue: the simulator has not been asked about them.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kraftspec.reference.raft import (
    candidate,
    core,
    follower,
    leader,
    log_state,
    policy,
    prospective,
    role,
    unattached,
)
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import Voters
from kraftspec.reference.raft.messages import Fetch, FetchReply
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import NONE, ElectionState, RoleName, SnapshotId
from kraftspec.simulation.catalogue.bug import Planter


def forgets_its_vote_for_a_leader(plant: Planter) -> None:
    """Who follows a leader forgets, and no longer stores, whom it voted for in that epoch."""
    enter = role.QuorumState.enter

    def forgetful(
        self: Any, new: Any, election: ElectionState, *arguments: Any, **options: Any
    ) -> None:
        if new.name is RoleName.FOLLOWER:
            election = replace(election, voted=None)
        enter(self, new, election, *arguments, **options)

    plant(role.QuorumState, "enter", forgetful)


def stays_in_its_epoch_when_it_resigned(plant: Planter) -> None:
    """Who resigned, and hears of no other leader, takes part again in the very same epoch."""
    move = role.QuorumState.move

    def stay(self: Any, cause: Cause, **changes: Any) -> None:
        if cause is Cause.RESIGNATION_TIMEOUT:
            changes["epoch"] = self.epoch
        move(self, cause, **changes)

    plant(role.QuorumState, "move", stay)


def skips_an_epoch(plant: Planter) -> None:
    """A candidate takes the epoch after the next one."""

    def enter(node: Any, *_: Any) -> None:
        state = ElectionState(node.epoch + 2, NONE, node.config.key)
        node.enter(candidate.Candidate(node), state, ())

    plant(core._ENTER, RoleName.CANDIDATE, enter)


def forgets_its_leader_when_it_loses(plant: Planter) -> None:
    """Whose pre-votes are refused does not go back to the leader that it knows."""
    plant(
        prospective.Prospective,
        "lost",
        lambda self: self.core.move(Cause.PRE_VOTE_LOST, leader_id=NONE),
    )


def grants_pre_votes_to_any_log(plant: Planter) -> None:
    """A pre-vote is granted whatever the candidate's log is: only votes look at that."""
    grants = role.grants_without_leader

    def lenient(node: Any, key: Any, is_up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote or grants(node, key, is_up_to_date, pre_vote)

    for module in (role, prospective, unattached):
        plant(module, "grants_without_leader", lenient)


def candidate_votes_for_another(plant: Planter) -> None:
    """A candidate, which has voted for itself, grants others its vote, too."""
    plant(candidate.Candidate, "grants", lambda self, key, good, pre_vote: good)


def forgets_its_campaign_at_restart(plant: Planter) -> None:
    """A candidate that restarts forgets that it has voted for itself."""
    start = core._STEPS[ev.Start]

    def patient(self: Any, event: Any) -> None:
        voted = self.voted
        if voted is not None and voted.matches(self.config.key) and self.leader_id == NONE:
            self.voted = None
        start(self, event)

    plant(core._STEPS, ev.Start, patient)


def forgets_its_leader_at_restart(plant: Planter) -> None:
    """A node that starts reads its epoch and its vote, and not who leads."""
    init = core.Core.__init__

    def forgetful(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.leader_id = NONE

    plant(core.Core, "__init__", forgetful)


def commits_what_the_fastest_has(plant: Planter) -> None:
    """What one voter has, the leader or another, is committed."""

    def advance(self: Any) -> None:
        offset = max(p.end_offset for p in self.voters.values())
        if offset > max(self.epoch_start_offset, self.core.high_watermark):
            self.core.raise_high_watermark(offset)

    plant(leader.Leader, "advance", advance)


def names_the_end_of_its_log(plant: Planter) -> None:
    """A leader names the end of its log in place of the end of the diverging epoch."""
    reply_to = leader.Leader.fetch_reply

    def wrong(self: Any, request: Fetch) -> FetchReply:
        reply = reply_to(self, request)
        if reply.diverging_epoch >= 0:
            reply.diverging_end_offset = self.core.log.end_offset
        return reply

    plant(leader.Leader, "fetch_reply", wrong)


def truncates_where_its_leader_says(plant: Planter) -> None:
    """A follower cuts its log at its leader's end of the epoch, not at its own if that is less."""
    plant(
        follower.Follower,
        "_truncate",
        lambda self, epoch, end_offset: self.core.truncate(end_offset),
    )


def tells_all_it_has_as_committed(plant: Planter) -> None:
    """A leader's answers name the end of its log as the high watermark."""
    reply_to = leader.Leader.fetch_reply

    def boastful(self: Any, request: Fetch) -> FetchReply:
        reply = reply_to(self, request)
        reply.high_watermark = self.core.log.end_offset
        return reply

    plant(leader.Leader, "fetch_reply", boastful)


def keeps_its_high_watermark_when_elected(plant: Planter) -> None:
    """A new leader tells as committed what it knew as a follower, before its own epoch commits."""
    enter = core._ENTER[RoleName.LEADER]

    def remember(node: Any, *arguments: Any) -> None:
        high_watermark = node.high_watermark
        enter(node, *arguments)
        node.high_watermark = max(node.high_watermark, high_watermark)

    plant(core._ENTER, RoleName.LEADER, remember)


def _start_records(plant: Planter, change: Any) -> None:
    records_of = policy.Policy.epoch_start_records

    def changed(self: Any, node: Any, granting: Any) -> Any:
        return change(node, records_of(self, node, granting))

    plant(policy.Policy, "epoch_start_records", changed)


def writes_no_voters_at_first(plant: Planter) -> None:
    """The first leader of a dynamic quorum does not write down its voters."""
    _start_records(
        plant,
        lambda node, records: tuple(one for one in records if not isinstance(one, Voters)),
    )


def writes_the_voters_in_each_epoch(plant: Planter) -> None:
    """Each leader of a dynamic quorum writes the voters again as it opens its epoch."""

    def again(node: Any, records: Any) -> Any:
        has_voters = any(isinstance(one, Voters) for one in records)
        is_dynamic = node.log.kraft_versions.last >= 1
        return records if has_voters or not is_dynamic else (*records, Voters(node.log.voters.last))

    _start_records(plant, again)


def _voters_changed(plant: Planter, is_voter: Any) -> None:
    changed = role.QuorumState.voters_changed

    def wrong(self: Any) -> None:
        before = self.is_voter
        changed(self)
        self.is_voter = is_voter(before, self.is_voter)

    plant(role.QuorumState, "voters_changed", wrong)


def goes_on_voting_when_removed(plant: Planter) -> None:
    """Who is removed takes itself for a voter until it restarts."""
    _voters_changed(plant, lambda before, now: before or now)


def learns_that_it_votes_at_a_restart(plant: Planter) -> None:
    """Who is added does not take itself for a voter until it restarts."""
    _voters_changed(plant, lambda before, now: before and now)


def offers_its_first_snapshot(plant: Planter) -> None:
    """A leader that has several snapshots offers the oldest one."""

    def oldest(self: Any) -> FetchReply:
        reply = leader.empty_fetch_reply(self.core, 0, self.core.high_watermark)
        earliest = self.core.log.earliest_snapshot
        reply.snapshot_end_offset, reply.snapshot_epoch = earliest
        return reply

    plant(leader.Leader, "_snapshot_reply", oldest)


def sends_snapshots_for_records(plant: Planter) -> None:
    """A leader offers its snapshot to whoever has less than that, though it has the records."""

    def is_before(self: Any, offset: int, epoch: int) -> bool:
        return self.latest_snapshot is not None and offset < self.latest_snapshot.end_offset

    plant(log_state.LogState, "is_before_snapshots", is_before)


def forgets_the_epoch_of_a_snapshot(plant: Planter) -> None:
    """Who loads a snapshot takes its log for one of epoch 0, until it has appended to it."""
    reset_to = log_state.LogState.reset_to

    def forgetful(self: Any, snapshot: SnapshotId, voters: Any, level: Any) -> None:
        reset_to(self, snapshot, voters, level)
        self.last_epoch = 0

    plant(log_state.LogState, "reset_to", forgetful)
