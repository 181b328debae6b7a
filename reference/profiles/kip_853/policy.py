"""What KIP-853's first draft decides otherwise than Apache Kafka 4.4.0.

There is no pre-vote: a follower whose leader is silent is a candidate at once. Who looks for the
leader fetches from all bootstrap servers, and the one whose answer is no refusal is the leader. No
answer says where a leader is reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.kip_853 import membership
from kraftspec.reference.profiles.kip_853.control import (
    LeaderChange,
    VoterAdded,
    VoterRemoved,
    folded,
)
from kraftspec.reference.profiles.kip_853.membership import Fix
from kraftspec.reference.profiles.kip_853.quorum import DraftDescription
from kraftspec.reference.raft import replies, requests
from kraftspec.reference.raft.candidate import Candidate
from kraftspec.reference.raft.control import ControlRecord, Voters
from kraftspec.reference.raft.effects import Answer
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.messages import (
    AddVoter,
    DescribeQuorum,
    DescribeQuorumReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    RemoveVoter,
    Reply,
    Request,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.role import (
    ControlHandler,
    ReplyHandler,
    RequestHandler,
    up_to_date,
)
from kraftspec.reference.raft.state import Random, draw_below
from kraftspec.reference.raft.transitions import TRANSITIONS, Cause, Transitions
from kraftspec.reference.raft.types import (
    NEVER_US,
    NONE,
    Endpoint,
    Node,
    ReplicaKey,
    RoleName,
)
from kraftspec.reference.raft.voters import VoterSet

if TYPE_CHECKING:
    from kraftspec.reference.raft.config import Config
    from kraftspec.reference.raft.membership import Leadership
    from kraftspec.reference.raft.role import QuorumState

_CANDIDATE = RoleName.CANDIDATE
_ARROWS: dict[RoleName, dict[Cause, RoleName]] = {
    role: {
        cause: _CANDIDATE if target is RoleName.PROSPECTIVE else target
        for cause, target in arrows.items()
    }
    for role, arrows in TRANSITIONS.items()
    if role is not RoleName.PROSPECTIVE
}
# Elections of the Raft paper: whoever was Prospective in Kafka is a Candidate here.
AS_DRAFTED: Transitions = _ARROWS
# As above, but who loses an election steps down, and looks for a leader before the next one.
STEPS_DOWN: Transitions = {
    **_ARROWS,
    _CANDIDATE: {**_ARROWS[_CANDIDATE], Cause.ELECTION_LOST: RoleName.UNATTACHED},
}


NON_VOTER_WAITS = 10  # Fetch time-outs between two campaigns of who was told that it is no voter.


class Kept(NamedTuple):
    """What quorum-state keeps beside the vote: this replica's uuid, and the static voters' ids."""

    uuid: Uuid
    static_ids: tuple[int, ...] | None


class Memory:
    """What the policy knows of a replica: what it ``kept``, and that it was told that it is none.

    ``is_removed`` is about a voter that campaigns, whom a voter that knows more does not know.
    """

    __slots__ = ("is_removed", "kept")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.is_removed = False


def make_uuid(random: Random) -> Uuid:
    """Return a uuid that a replica makes for itself, a random one (RFC 4122, version 4).

    Its first bit is 0, so that in base64 it begins with no dash, which tools take for an option.
    """
    data = bytearray(b"".join(random.getrandbits(32).to_bytes(4, "big") for _ in range(4)))
    data[0] &= 0x7F
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    return Uuid(bytes(data))


class KipPolicy(Policy):
    """The decisions of KIP-853's first version. ``without`` are names of `Fix` to do without."""

    flushes_always = True
    leader_keeps_vote = True

    def __init__(self, without: Sequence[str] = ()) -> None:
        super().__init__(without)
        self.checks_quorum = Fix.CHECK_QUORUM not in without
        steps_down = Fix.LOSER_STEPS_DOWN not in without
        self.transitions = STEPS_DOWN if steps_down else AS_DRAFTED
        self.request_handlers: Mapping[type[Request], RequestHandler] = {
            AddVoter: membership.on_add_voter,
            RemoveVoter: membership.on_remove_voter,
            DescribeQuorum: on_describe_quorum,
            FetchSnapshot: on_fetch_snapshot,
            Vote: self._on_vote,
        }
        self.reply_handlers: Mapping[type[Reply], ReplyHandler] = {FetchReply: on_fetch_reply}
        if steps_down:
            self.reply_handlers = {**self.reply_handlers, VoteReply: on_vote_reply}
        if Fix.VOTER_UUID in without:
            self.request_handlers = {**self.request_handlers, Fetch: on_fetch_by_id}
        self.control_handlers: Mapping[type[ControlRecord], ControlHandler] = {
            VoterAdded: self._on_voter_record,
            VoterRemoved: self._on_voter_record,
        }

    # ---- who a replica is ("Quorum State") ------------------------------------------------------

    def remember(self, core: QuorumState, rest: Kept | None) -> Memory:
        """Know this replica's uuid: what quorum-state has, or one that is made now.

        A host may bring one as ``directory_id``, which is taken where no file has one. A replica
        that cannot become a voter does not show its uuid: a fetch without one says just that.
        """
        config = core.config
        uuid = config.directory_id if rest is None else rest.uuid
        if uuid == ZERO_UUID:
            uuid = make_uuid(core.random)
        shown = uuid if config.can_become_voter else ZERO_UUID
        core.config = msgspec.structs.replace(config, directory_id=shown)
        core.know_own_vote()
        return Memory(Kept(uuid, config.voters.ids if len(config.voters) else None))

    def written(self, core: QuorumState) -> Kept:
        """Return what quorum-state keeps beside the vote."""
        memory: Memory = core.memory
        return memory.kept

    # ---- voter sets ("Log and Snapshot Control Records", "Listener") -----------------------------

    def folded(self, record: ControlRecord, voters: VoterSet) -> VoterSet | None:
        """Return the voter set that a record leaves."""
        return folded(record, voters)

    def folded_in_snapshot(self, record: ControlRecord, voters: VoterSet) -> VoterSet | None:
        """Return as ``folded`` does; a snapshot holds its voters, and takes none of them away."""
        if isinstance(record, VoterRemoved):
            raise ValueError(
                f"it has a RemoveVoterRecord, of voter {record.key.id} with uuid "
                f"{record.key.directory_id}: those are of the log alone, and a snapshot has an "
                f"AddVoterRecord for each of its voters"
            )
        return self.folded(record, voters)

    def snapshot_voters(self, core: QuorumState, last_offset: int) -> VoterSet | None:
        """Return the voters at an offset; None as long as they are those of the properties."""
        entries = core.log.voters.entries()
        known = bool(entries) and entries[0][0] <= last_offset
        return core.log.voters.at(last_offset) if known else None

    def _on_voter_record(self, core: QuorumState, offset: int, record: ControlRecord) -> None:
        """Act on a record as soon as it is in the log, committed or not."""
        voters = self.folded(record, core.log.voters.last)
        assert voters is not None
        core.control_handlers[Voters](core, offset, Voters(voters))

    def membership(self, core: QuorumState, leader: Leadership) -> membership.DraftMembership:
        """Return what carries out AddVoter and RemoveVoter."""
        return membership.DraftMembership(core, leader, self.without)

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> None:
        """Ask nothing: in this draft a replica is added by a person."""

    def epoch_start_records(
        self, core: QuorumState, granting: tuple[int, ...]
    ) -> tuple[ControlRecord, ...]:
        """Return what a leader writes first, with the voters' uuids."""
        own = core.config.key  # Static voters have no uuid in the properties.
        keys = tuple(own if voter.key.id == own.id else voter.key for voter in core.log.voters.last)
        granted = tuple(key for key in keys if key.id in granting)
        return (LeaderChange(core.config.node_id, keys, granted),)

    # ---- elections ("Vote") ----------------------------------------------------------------------

    def _on_vote(self, core: QuorumState, token: int, request: Vote) -> None:
        """Vote, if this very replica is meant: that is looked at before the epoch ("Handling" 1).

        A candidate that is no voter is told so, if this replica's log knows more than its.
        """
        if Fix.VOTER_UUID in self.without:
            request.voter_directory_id = core.config.directory_id
        if not requests.top_level_error(core, request) and not _is_meant(core, request):
            core.answer(token, core.reply(VoteReply, ErrorCode.INVALID_VOTER_KEY))
            return
        requests.on_vote(core, token, request)
        if Fix.LOSER_STEPS_DOWN not in self.without:
            _tell_non_voter(core, request)

    def may_vote_for(self, core: QuorumState, candidate: ReplicaKey) -> bool:
        """Let every replica vote that can become a voter, whether it is one or not."""
        return core.config.can_become_voter

    def election_backoff_us(self, core: QuorumState) -> int:
        """Wait after a lost election, so long that others may win one; the draft does not say.

        Who was told that it is no voter waits longer, and looks for the leader meanwhile.
        """
        memory: Memory = core.memory
        if core.campaigns == 0 or Cause.ELECTION_LOST not in self.transitions[_CANDIDATE]:
            memory.is_removed = False
            return 0
        config = core.config
        if memory.is_removed:
            return NON_VOTER_WAITS * config.fetch_timeout_us
        return config.retry_backoff_us + draw_below(core.random, config.election_backoff_max_us)

    def fetch_request(self, core: QuorumState) -> Fetch:
        """Say where this replica listens, unless that is in the log or in the properties."""
        request = core.fetch_request()
        if not core.is_voter:
            request.replica_endpoints = core.config.endpoints
        return request

    # ---- the leader ("controller.quorum.bootstrap.servers") --------------------------------------

    def discover(self, core: QuorumState) -> int:
        """Fetch from all bootstrap servers, until one does not refuse; return when to go on.

        Where the properties have neither servers nor voters, those of the log are asked. Nobody is
        if the leader is known and well, and its snapshot damaged: as a bootstrap server it would
        be asked for that again at once.
        """
        if not core.may_fetch():
            return NEVER_US  # A server that leads would take it for an acknowledgement.
        connections = core.connections
        role = core.role
        if isinstance(role, Follower) and connections.left_alone(role.leader.id, core.now_us):
            return connections.ready_us(role.leader.id)
        next_us = NEVER_US
        for node in _contacts(core):
            if connections.ready(node.id, core.now_us):
                core.ask(node, self.discovery_request(core))
            next_us = min(next_us, connections.ready_us(node.id))
        return next_us


def _contacts(core: QuorumState) -> list[Node]:
    """Return whom to ask who leads: the servers of the properties, without this node itself."""
    config = core.config
    own = {(e.host, e.port) for e in config.endpoints}
    nodes = list(config.contacts)
    if not nodes:
        voters = core.log.voters.last
        known = (voters.node(id, config.listener_name) for id in voters.ids)
        nodes = [node for node in known if node is not None]
    return [node for node in nodes if (node.host, node.port) not in own]


# ---- handlers ------------------------------------------------------------------------------------


def on_fetch_reply(core: QuorumState, source: Node, reply: FetchReply) -> bool:
    """Take the sender of an answer that is no refusal for the leader, since nobody else gives one.

    Other servers that were asked at the same time are asked no more: what they answer is about the
    log as it was.
    """
    is_leader = not reply.error and not reply.top_error and reply.leader_id != NONE
    if is_leader:
        here = Endpoint(core.config.listener_name, source.host, source.port)
        reply.leader_endpoints = (here,)
    good = replies.on_fetch_reply(core, source, reply)
    role = core.role
    if good and is_leader and isinstance(role, Follower) and role.leader.id == reply.leader_id:
        role.leader = Node(reply.leader_id, source.host, source.port)
        if core.connections.busy_until_us(core.now_us):
            core.connections.reset()
    return good


def _is_meant(core: QuorumState, request: Vote) -> bool:
    """Whether a request names this replica by id and uuid; version 0 names nobody.

    Null for the uuid is for whom the sender knows by its id alone: a voter of
    ``controller.quorum.voters``, until this replica knows of a committed AddVoter record of its id.
    One that is not committed may be missing in the log of the only one that can win.
    """
    if request.voter_id == NONE:
        return True
    own, meant = core.config.key, ReplicaKey(request.voter_id, request.voter_directory_id)
    known = core.log.voters.at(core.committed_offset - 1).get(own.id)
    return meant == own or (known is not None and meant == known.key == ReplicaKey(own.id))


def _tell_non_voter(core: QuorumState, request: Vote) -> None:
    answer = core.effects[-1]
    assert isinstance(answer, Answer)
    reply = answer.reply
    assert isinstance(reply, VoteReply)
    candidate = ReplicaKey(request.replica_id, request.replica_directory_id)
    if (
        not (reply.vote_granted or reply.error or reply.top_error)
        and not core.log.voters.last.is_voter(candidate)
        and not up_to_date(core, request.last_epoch, request.end_offset)
    ):
        reply.error = ErrorCode.INCONSISTENT_VOTER_SET


def on_vote_reply(core: QuorumState, source: Node, reply: VoteReply) -> bool:
    """Count a vote; step down on being told that this replica is no voter any more."""
    is_removed = reply.error == ErrorCode.INCONSISTENT_VOTER_SET
    if is_removed and isinstance(core.role, Candidate) and reply.leader_epoch == core.epoch:
        core.memory.is_removed = True
        core.move(Cause.ELECTION_LOST)
        return True
    return replies.on_vote_reply(core, source, reply)


def on_fetch_snapshot(core: QuorumState, token: int, request: FetchSnapshot) -> None:
    """Hear a voter by its id, for this request has no uuid: who loads a snapshot is there."""
    role = core.role
    if isinstance(role, Leader) and request.replica_id in role.voters:
        request.replica_directory_id = role.voters[request.replica_id].key.directory_id
    requests.on_fetch_snapshot(core, token, request)


def on_fetch_by_id(core: QuorumState, token: int, request: Fetch) -> None:
    """Take what any disk of a voter has for the voter's."""
    known = core.log.voters.last.get(request.replica_id)
    if known is not None:
        request.replica_directory_id = known.key.directory_id
    requests.on_fetch(core, token, request)


def should_become_voter(config: Config, observer: ReplicaKey) -> bool:
    """Whether an observer fetches with an id and a uuid; with static voters, the id of one."""
    static = config.voters
    return observer.directory_id != ZERO_UUID and (not len(static) or observer.id in static)


def on_describe_quorum(core: QuorumState, token: int, request: DescribeQuorum) -> None:
    """Say of each observer too whether it should become a voter ("DescribeQuorum")."""
    requests.on_describe_quorum(core, token, request)
    answer = core.effects[-1]
    assert isinstance(answer, Answer)
    reply = answer.reply
    assert isinstance(reply, DescribeQuorumReply)
    static = core.config.voters
    reply.observers = tuple(
        DraftDescription(
            observer.key,
            observer.end_offset,
            observer.last_fetch_timestamp_ms,
            observer.last_caught_up_timestamp_ms,
            observer.endpoints or static.endpoints(observer.key.id),
            should_become_voter(core.config, observer.key),
        )
        for observer in reply.observers
    )
