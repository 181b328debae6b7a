"""What the draft of KIP-996 decides, and the rules without which its flaws show.

Two kinds of rules can be switched off. Some are the draft's own, so that it can be seen what they
are for: pre-votes, Check Quorum, and that a failed pre-vote is followed by another pre-vote. The
others stand beside the draft, which says something else or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kraftspec.reference.raft import replies, requests
from kraftspec.reference.raft.messages import BeginEpoch, Reply, Request, Vote, VoteReply
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.state import draw_below
from kraftspec.reference.raft.transitions import TRANSITIONS, Cause, Transitions
from kraftspec.reference.raft.types import RoleName

if TYPE_CHECKING:
    from kraftspec.reference.raft.role import QuorumState, ReplyHandler, RequestHandler
    from kraftspec.reference.raft.types import Node
    from kraftspec.reference.raft.voters import VoterSet

PRE_VOTE = "pre-vote"
PRE_VOTES_ALONE = "pre-votes-alone"
CHECK_QUORUM = "check-quorum"
LEADER_REFUSES = "leader-refuses"
OWN_WORD = "own-word"
EPOCH_FIRST = "epoch-first"

FIXES: Mapping[str, str] = {
    PRE_VOTE: "Elections without pre-votes: a voter that came back with an empty disk disturbs the "
    "leader, and one that lags is elected by it, so that committed records are lost.",
    PRE_VOTES_ALONE: "Standard votes after a failed pre-vote, the alternative that the draft "
    "rejects: who is cut off raises its epoch, and deposes a leader that a majority follows.",
    CHECK_QUORUM: "A leader that a majority cannot fetch from goes on leading, and its followers "
    "refuse pre-votes to those who could be elected.",
    LEADER_REFUSES: "The draft refuses pre-votes as a follower, not as a leader: a leader helps "
    "whoever has its whole log to depose it.",
    OWN_WORD: "A prospective goes back to the leader that it gave up because another follower "
    "still believes in it: two who time out in turn never elect anybody.",
    EPOCH_FIRST: "A follower refuses a pre-vote of a higher epoch, and stays in its own: the node "
    "that asks can follow no leader of a lower epoch, and is kept out until its leader meets it.",
}
BACKOFF_US = 50_000  # Below which the first delay between two pre-votes is drawn; then it doubles.
DOUBLINGS_MAX = 10  # Whatever the limit is, this is beyond it.

_PROSPECTIVE = RoleName.PROSPECTIVE
_CANDIDATE = RoleName.CANDIDATE


def _transitions(without: Sequence[str]) -> Transitions:
    """Return the table: a prospective that has lost asks again, and stays what it is."""
    roles = {name: dict(causes) for name, causes in TRANSITIONS.items()}
    again = _CANDIDATE if PRE_VOTES_ALONE in without else _PROSPECTIVE
    roles[_PROSPECTIVE][Cause.PRE_VOTE_LOST] = again
    roles[_PROSPECTIVE][Cause.PRE_VOTE_LOST_LEADER_KNOWN] = again
    if PRE_VOTE in without:
        for causes in roles.values():
            for cause in (Cause.ELECTION_TIMEOUT, Cause.FETCH_TIMEOUT, Cause.SOLE_VOTER):
                if cause in causes:
                    causes[cause] = _CANDIDATE
    return roles


class DraftPolicy(Policy):
    """The decisions of KIP-996's first draft."""

    flushes_always = True
    leader_keeps_vote = True

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.without = frozenset(without)
        self.transitions = _transitions(without)
        self.checks_quorum = CHECK_QUORUM not in self.without
        begin: RequestHandler = self._on_begin_epoch
        vote: ReplyHandler = self._on_vote_reply
        self.request_handlers: Mapping[type[Request], RequestHandler] = {BeginEpoch: begin}
        self.reply_handlers: Mapping[type[Reply], ReplyHandler] = {VoteReply: vote}

    # ---- who grants ----------------------------------------------------------------------------

    def follower_grants_pre_vote(self, core: QuorumState, *, has_fetched: bool) -> bool:
        """Never: a follower has a leader, whether it has heard from it yet or not."""
        return False

    def vote_raises_epoch(self, core: QuorumState, request: Vote) -> bool:
        """Whether the epoch is adopted before the role decides: by KIP-595, that of any request.

        By the draft's words who rejects every pre-vote rejects this one as well, and then has no
        reason to leave its epoch.
        """
        name = core.role.name
        leads = name is RoleName.LEADER and not self.leader_grants_pre_vote(core)
        rejects = request.pre_vote and (leads or name is RoleName.FOLLOWER)
        return not rejects or EPOCH_FIRST not in self.without

    def leader_grants_pre_vote(self, core: QuorumState) -> bool:
        """Whether a leader counts as one that is not a follower, as the draft's words have it."""
        return LEADER_REFUSES in self.without

    # ---- a prospective -------------------------------------------------------------------------

    def election_backoff_us(self, core: QuorumState) -> int:
        """Return the delay before the next pre-vote of one that a majority has refused, else 0.

        Uniform below a bound that doubles with each campaign, up to
        ``controller.quorum.election.backoff.max.ms``. The draft asks again without saying when;
        at once, it would do nothing else. One that had too few answers has waited already.
        """
        role = core.role
        if not isinstance(role, Prospective) or not role.tally.is_lost:
            return 0
        longest_us = core.config.election_backoff_max_us
        lost = core.campaigns - 2  # Before this one; the next is counted already.
        bound_us = min(longest_us, BACKOFF_US << min(max(lost, 0), DOUBLINGS_MAX))
        return draw_below(core.random, bound_us) + 1

    def refusals_to_lose(self, voters: VoterSet, *, pre_vote: bool) -> int:
        """Return a majority, as the draft has it; of four that is one more than is needed to lose.

        With fewer, a prospective waits for the rest of its election time-out.
        """
        return voters.majority if pre_vote else super().refusals_to_lose(voters, pre_vote=pre_vote)

    def _on_begin_epoch(self, core: QuorumState, token: int, request: BeginEpoch) -> None:
        """Go back to a leader that was given up and tells this node itself that it leads."""
        requests.on_begin_epoch(core, token, request)
        is_ours = not requests.top_level_error(core, request)
        if is_ours and request.leader_epoch == core.epoch:
            self._return_to(core, request.leader_id)

    def _on_vote_reply(self, core: QuorumState, source: Node, reply: VoteReply) -> bool:
        """Count an answer; but a refusal that names the leader may end the campaign."""
        role = core.role
        is_news = OWN_WORD in self.without or source.id == reply.leader_id
        is_refused = not (reply.vote_granted or reply.error or reply.top_error)
        if is_news and is_refused and reply.leader_epoch == core.epoch:
            self._return_to(core, reply.leader_id)
        if core.role is not role:
            return True
        if isinstance(role, Prospective) and is_refused and reply.leader_epoch < core.epoch:
            role.on_vote(source.id, granted=False)  # Who keeps its leader keeps its epoch, too.
            return True
        return replies.on_vote_reply(core, source, reply)

    def _return_to(self, core: QuorumState, leader_id: int) -> None:
        """Follow the leader again that was known before the campaign, if it is this one.

        One that was not known before is learnt by the rule for all answers (KIP-595).
        """
        is_it = core.leader_id == leader_id >= 0
        if isinstance(core.role, Prospective) and is_it and core.leader_endpoints:
            endpoints = core.leader_endpoints
            core.move(Cause.LEADER_FOUND, leader_id=leader_id, endpoints=endpoints)

    # ---- what there is not ---------------------------------------------------------------------

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> Request | None:
        """Return nothing: voters are static."""
        return None
