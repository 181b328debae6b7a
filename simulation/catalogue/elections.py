"""Mistakes in elections: votes, tallies, epochs, what is stored before what is said."""

from __future__ import annotations

from typing import Any

from kraftspec.reference.raft import (
    campaign,
    candidate,
    core,
    follower,
    leader,
    policy,
    prospective,
    replies,
    requests,
    resigned,
    role,
    rules,
    unattached,
)
from kraftspec.reference.raft import connections as links
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import Vote, VoteReply
from kraftspec.reference.raft.transitions import TRANSITIONS, Cause
from kraftspec.reference.raft.types import NEVER_US, NONE, ElectionState, ReplicaKey, RoleName
from kraftspec.simulation.catalogue.bug import Planter


def forgets_the_vote(plant: Planter) -> None:
    """A node grants a vote and neither stores nor remembers it."""

    def grant(node: Any, request: Vote) -> bool:
        key = ReplicaKey(request.replica_id, request.replica_directory_id)
        is_up_to_date = role.up_to_date(node, request.last_epoch, request.end_offset)
        return bool(node.role.grants(key, is_up_to_date, request.pre_vote))

    plant(requests, "_grant", grant)


def votes_twice(plant: Planter) -> None:
    """A node grants every candidate of an epoch whose log is good."""
    for module in (role, prospective, unattached):
        plant(module, "grants_without_leader", lambda node, key, good, pre_vote: good)


def votes_before_it_stores(plant: Planter) -> None:
    """The answer to a vote leaves the node before the vote is on its disk."""
    step = core.Core.step

    def reordered(self: Any, event: ev.Event, now_us: int) -> list[fx.Effect]:
        effects = step(self, event, now_us)
        effects.sort(
            key=lambda effect: (
                not (isinstance(effect, fx.Answer) and isinstance(effect.reply, VoteReply))
            )
        )
        return effects

    plant(core.Core, "step", reordered)


def asks_before_it_stores(plant: Planter) -> None:
    """A candidate asks for votes before its own vote is on its disk."""
    step = core.Core.step

    def reordered(self: Any, event: ev.Event, now_us: int) -> list[fx.Effect]:
        effects = step(self, event, now_us)
        effects.sort(key=lambda effect: not isinstance(effect, fx.Ask))
        return effects

    plant(core.Core, "step", reordered)


def asks_before_its_log_is_durable(plant: Planter) -> None:
    """A candidate asks for votes while its log is being synced: what it is voted for may go."""
    ask = campaign.Campaign.ask_for_votes

    def hasty(self: Any, now_us: int) -> int:
        log = self.core.log
        flushed, log.flushed_offset = log.flushed_offset, log.end_offset
        try:
            return ask(self, now_us)
        finally:
            log.flushed_offset = flushed

    plant(campaign.Campaign, "ask_for_votes", hasty)


def forgets_the_vote_at_restart(plant: Planter) -> None:
    """A node that starts reads its epoch, and not whom it voted for in it."""
    init = core.Core.__init__

    def forgetful(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.voted = None

    plant(core.Core, "__init__", forgetful)


def votes_for_any_log(plant: Planter) -> None:
    """Votes are given without a look at the candidate's log."""
    plant(requests, "up_to_date", lambda node, last_epoch, end_offset: True)


def compares_lengths_alone(plant: Planter) -> None:
    """The longer log counts as the better one, whatever its last epoch."""
    plant(
        requests,
        "up_to_date",
        lambda node, last_epoch, end_offset: end_offset >= node.log.end_offset,
    )


def compares_epochs_alone(plant: Planter) -> None:
    """Of two logs with the same last epoch, the shorter one counts as good enough."""
    plant(
        requests,
        "up_to_date",
        lambda node, last_epoch, end_offset: last_epoch >= node.log.last_epoch,
    )


def wins_with_half(plant: Planter) -> None:
    """Half of the voters elect a leader."""
    plant(
        campaign.Tally,
        "is_won",
        property(lambda self: len(self.granted) >= max(1, len(self.voters) // 2)),
    )


def counts_refusals(plant: Planter) -> None:
    """Every answer to a vote counts as a yes."""
    record = campaign.Tally.record
    plant(campaign.Tally, "record", lambda self, voter_id, granted: record(self, voter_id, True))


def counts_pre_votes_as_votes(plant: Planter) -> None:
    """What was granted to a pre-vote elects: the candidate leads without asking again."""
    begin = candidate.Candidate.begin

    def lead(self: Any) -> None:
        begin(self)
        if self.core.role is self:
            self.won()

    plant(candidate.Candidate, "begin", lead)


def counts_answers_of_earlier_epochs(plant: Planter) -> None:
    """Answers to an earlier campaign are awaited still, and their epoch is not looked at."""
    handled = rules.handled_by_rule

    def lenient(node: Any, reply: Any) -> bool | None:
        if reply.leader_epoch < node.epoch and not reply.error:
            return None
        return handled(node, reply)

    plant(replies, "handled_by_rule", lenient)
    plant(links.Connections, "reset", lambda self: None)


def pre_vote_bumps_the_epoch(plant: Planter) -> None:
    """A pre-vote is asked for in the next epoch, which all who hear it take over."""
    question = campaign.Campaign._question

    def bumped(self: Any, voter: ReplicaKey) -> Vote:
        vote = question(self, voter)
        if vote.pre_vote:
            vote.epoch += 1
        return vote

    plant(campaign.Campaign, "_question", bumped)


def pre_vote_is_stored(plant: Planter) -> None:
    """A granted pre-vote is written down as if it were a vote."""
    grant = requests._grant

    def stored(node: Any, request: Vote) -> bool:
        granted = grant(node, request)
        if granted and request.pre_vote and node.voted is None:
            key = ReplicaKey(request.replica_id, request.replica_directory_id)
            node.persist(ElectionState(node.epoch, node.leader_id, key))
        return granted

    plant(requests, "_grant", stored)


def candidate_does_not_store(plant: Planter) -> None:
    """A candidate votes for itself in a new epoch, and writes neither."""

    def enter(node: Any, *_: Any) -> None:
        state = ElectionState(node.epoch + 1, NONE, node.config.key)
        node.enter(candidate.Candidate(node), state, (), persist=False)

    plant(core._ENTER, RoleName.CANDIDATE, enter)


def candidate_keeps_its_epoch(plant: Planter) -> None:
    """A candidate asks for votes in the epoch that it is in already."""

    def enter(node: Any, *_: Any) -> None:
        state = ElectionState(max(node.epoch, 1), NONE, node.config.key)
        node.enter(candidate.Candidate(node), state, ())

    plant(core._ENTER, RoleName.CANDIDATE, enter)


def epoch_is_not_stored(plant: Planter) -> None:
    """A node takes over a higher epoch that it hears of, and does not write it down."""
    enter = role.QuorumState.enter

    def careless(
        self: Any,
        new: Any,
        election: ElectionState,
        endpoints: Any,
        *,
        persist: bool = True,
        **rest: Any,
    ) -> None:
        is_stored = persist and new.name is not RoleName.UNATTACHED
        enter(self, new, election, endpoints, persist=is_stored, **rest)

    plant(role.QuorumState, "enter", careless)


def leads_again_after_a_restart(plant: Planter) -> None:
    """A leader that restarts goes on leading its epoch."""
    start = core._STEPS[ev.Start]

    def resume(node: Any, event: ev.Start) -> None:
        start(node, event)
        if node.role.name is RoleName.RESIGNED:
            node.role = leader.Leader(node, ())
            node.role.begin()

    plant(core._STEPS, ev.Start, resume)


def accepts_old_leaders(plant: Planter) -> None:
    """BeginQuorumEpoch of an earlier epoch is taken for news."""
    plant(requests, "voter_error", lambda node, sender_id, epoch: 0)


def resigned_leader_votes(plant: Planter) -> None:
    """Who won an epoch, and lost its power before it wrote, gives its vote in that very epoch."""
    row = {**TRANSITIONS[RoleName.RESIGNED], Cause.VOTE_GRANTED: RoleName.UNATTACHED}
    plant(TRANSITIONS, RoleName.RESIGNED, row)
    plant(resigned.Resigned, "grants", lambda self, key, good, pre_vote: good)


def leader_votes(plant: Planter) -> None:
    """A leader grants whoever has as much as it has: a node that was merely cut off unseats it."""
    plant(leader.Leader, "grants", lambda self, key, good, pre_vote: good)


def follower_grants_pre_votes(plant: Planter) -> None:
    """A follower that hears from its leader grants pre-votes all the same."""
    plant(role.Decisions, "follower_grants_pre_vote", lambda self, node, *, has_fetched: True)


def leader_ignores_higher_epochs(plant: Planter) -> None:
    """A leader that hears of a higher epoch stays in its own."""
    move = role.QuorumState.move

    def deaf(self: Any, cause: Cause, **changes: Any) -> None:
        news = (Cause.HIGHER_EPOCH, Cause.NEW_LEADER)
        if not (self.role.name is RoleName.LEADER and cause in news):
            move(self, cause, **changes)

    plant(role.QuorumState, "move", deaf)


def follower_votes(plant: Planter) -> None:
    """A follower that never voted in its leader's epoch gives another its vote in it."""
    plant(
        follower.Follower,
        "grants",
        lambda self, key, good, pre_vote: good and (pre_vote or self.core.voted is None),
    )


def observers_campaign(plant: Planter) -> None:
    """A node that is no voter stands for election when it hears from nobody."""
    poll = unattached.Unattached.poll

    def eager(self: Any, now_us: int) -> int:
        if self.core.is_voter or now_us < self.election_deadline_us:
            return int(poll(self, now_us))
        self.core.move(Cause.ELECTION_TIMEOUT)
        return 0

    plant(
        role.QuorumState,
        "election_deadline_us",
        lambda self: self.now_us + self.policy.election_timeout_us(self),
    )
    plant(unattached.Unattached, "poll", eager)


def never_campaigns(plant: Planter) -> None:
    """A follower waits for its silent leader for ever."""
    begin = follower.Follower.begin

    def patient(self: Any) -> None:
        begin(self)
        self.fetch_deadline_us = NEVER_US

    plant(follower.Follower, "begin", patient)
    plant(
        follower.Follower,
        "heard_from_leader",
        lambda self: setattr(self, "has_fetched", True),
    )


def leads_without_a_majority(plant: Planter) -> None:
    """A leader that nobody fetches from any more goes on (no Check Quorum)."""
    init = leader.Leader.__init__

    def stubborn(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.check_quorum_us = self.check_quorum_deadline_us = NEVER_US

    plant(leader.Leader, "__init__", stubborn)


def takes_refusals_for_success(plant: Planter) -> None:
    """A candidate leads when a voter refuses because the epoch has a leader already."""
    on_vote = replies.on_vote_reply

    def proud(node: Any, source: Any, reply: VoteReply) -> bool:
        is_led = reply.leader_id not in (NONE, node.config.node_id)
        if (
            is_led
            and isinstance(node.role, candidate.Candidate)
            and reply.leader_epoch == node.epoch
        ):
            node.role.won()
            return True
        return on_vote(node, source, reply)

    plant(replies.HANDLERS, VoteReply, proud)


def votes_for_old_disks(plant: Planter) -> None:
    """A vote that is addressed to a disk that was replaced is answered by the new one."""
    plant(requests, "is_meant", lambda node, voter_id, directory_id: True)


def waits_though_its_leader_resigned(plant: Planter) -> None:
    """Who hears that its leader has resigned waits for the fetch time-out all the same."""

    def patient(self: Any, core: Any, successors: Any) -> int:
        return int(core.config.fetch_timeout_us)

    plant(policy.Policy, "end_epoch_backoff_us", patient)


def resigns_in_silence(plant: Planter) -> None:
    """A leader that resigns tells nobody."""
    init = resigned.Resigned.__init__

    def silent(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.unacknowledged = []

    plant(resigned.Resigned, "__init__", silent)


def resigned_waits_for_all(plant: Planter) -> None:
    """Who has resigned campaigns only when each voter has answered that it knows."""
    poll = resigned.Resigned.poll

    def patient(self: Any, now_us: int) -> int:
        deadline_us = self.election_deadline_us
        if self.unacknowledged:
            self.election_deadline_us = NEVER_US
        next_us = poll(self, now_us)
        self.election_deadline_us = deadline_us
        return next_us

    plant(resigned.Resigned, "poll", patient)
