"""A second, tiny profile: JSON for bytes, no pre-votes, replicas known by their ids alone.

It holds the seam between core and profiles: whatever the roles took for granted of Kafka's protocol
would show here. The elections are those of the Raft paper: followers become candidates at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.reference.raft.network import Network, config, quorum, voter

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.profiles.kafka.records import decode_control, encode_control, read_batches
from kraftspec.reference.raft import TRANSITIONS, Cause, FatalError, RoleName
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.control import ControlRecord, LeaderChange
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.role import QuorumState, RequestHandler
from kraftspec.reference.raft.transitions import Transitions
from kraftspec.reference.raft.types import NEVER_US, Endpoint, ReplicaKey
from kraftspec.reference.wire.apis import Api

KINDS: dict[int, tuple[type[ms.Request], type[ms.Reply]]] = {
    1: (ms.Vote, ms.VoteReply),
    2: (ms.BeginEpoch, ms.BeginEpochReply),
    3: (ms.EndEpoch, ms.EndEpochReply),
    4: (ms.Fetch, ms.FetchReply),
}


class Ping(ms.Request, gc=False, kw_only=True):
    """A request that only this profile has."""

    number: int


class Pong(ms.Reply, gc=False, kw_only=True):
    """Its answer."""

    number: int = 0


def on_ping(core: QuorumState, token: int, request: Ping) -> None:
    reply = core.reply(Pong)
    reply.number = request.number + 1
    core.answer(token, reply)


ELECTIONS_OF_THE_PAPER: Transitions = {
    **TRANSITIONS,
    RoleName.UNATTACHED: {
        **TRANSITIONS[RoleName.UNATTACHED],
        Cause.ELECTION_TIMEOUT: RoleName.CANDIDATE,
        Cause.SOLE_VOTER: RoleName.CANDIDATE,
    },
    RoleName.FOLLOWER: {
        **TRANSITIONS[RoleName.FOLLOWER],
        Cause.FETCH_TIMEOUT: RoleName.CANDIDATE,
    },
    RoleName.CANDIDATE: {
        **TRANSITIONS[RoleName.CANDIDATE],
        Cause.ELECTION_TIMEOUT: RoleName.CANDIDATE,
    },
}
OWN_REQUESTS: Mapping[type[ms.Request], RequestHandler] = {Ping: on_ping}


class PlainPolicy(Policy):
    """Raft as in the paper: no Prospective; and nobody outside of the quorum gets a vote."""

    transitions = ELECTIONS_OF_THE_PAPER
    request_handlers = OWN_REQUESTS

    def membership_request(self, core: QuorumState, has_updated_leader: bool) -> None:
        return None

    def may_vote_for(self, core: QuorumState, candidate: ReplicaKey) -> bool:
        return candidate.id in core.log.voters.last


APIS: Mapping[int, Api] = {
    key: Api(key, kinds[0].__name__, 0, 0, Message, Message) for key, kinds in KINDS.items()
}


class PlainProfile(KafkaProfile):
    """Messages as JSON: field names and values."""

    name = "plain"

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy or PlainPolicy()
        self.apis = APIS

    def api_of(self, request: ms.Request) -> Api:
        return next(api for api in self.apis.values() if api.name == type(request).__name__)

    def min_version(self, request: ms.Request) -> int:
        return 0

    def encode_request(self, request: ms.Request, version: int) -> bytes:
        return _encoded(request)

    def decode_request(self, api_key: int, version: int, body: ms.Bytes) -> ms.Request:
        return KINDS[api_key][0](**_decoded(body))

    def reply_parts(
        self, request: ms.Request, reply: ms.Reply, version: int, listener: str
    ) -> list[bytes]:
        return [_encoded(reply)]

    def decode_reply(self, request: ms.Request, version: int, body: ms.Bytes) -> ms.Reply:
        kind = next(reply for kind_, reply in KINDS.values() if kind_ is type(request))
        reply = kind(**_decoded(body))
        if isinstance(reply, ms.FetchReply):
            reply.batches = read_batches(reply.records or b"")
        return reply

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        return encode_control(record)

    def decode_control(self, control_type: int, value: ms.Bytes) -> ControlRecord | None:
        return decode_control(control_type, value)


def _encoded(message: ms.Request | ms.Reply) -> bytes:
    values = {field: getattr(message, field) for field in message.__struct_fields__}
    values.pop("batches", None)
    for field, value in values.items():
        if field.endswith("directory_id"):
            assert value == ZERO_UUID  # Replicas are known by their ids alone.
            values[field] = None
        elif field == "leader_endpoints":
            values[field] = [(e.name, e.host, e.port) for e in value]
        elif field == "preferred_successors":
            values[field] = [key.id for key in value]
        elif field == "records":
            values[field] = bytes(value or b"").hex()
    return json.dumps(values).encode()


def _decoded(body: ms.Bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(bytes(body))
    for field, value in values.items():
        if field.endswith("directory_id"):
            values[field] = ZERO_UUID
        elif field == "leader_endpoints":
            values[field] = tuple(Endpoint(*entry) for entry in value)
        elif field == "preferred_successors":
            values[field] = tuple(ReplicaKey(node_id) for node_id in value)
        elif field == "records":
            values[field] = bytes.fromhex(value)
        elif isinstance(value, list):
            values[field] = tuple(value)
    return values


def plain(count: int = 3, policy: Policy | None = None) -> Network:
    """Return a quorum of nodes that have no directory ids."""
    net = quorum(count, profile=PlainProfile(policy), directory_id=ZERO_UUID)
    assert all(r.config.directory_id == ZERO_UUID for r in net.replicas.values())
    return net


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_it_elects_and_replicates(count: int) -> None:
    net = plain(count)
    leader = net.elect()
    for number in range(10):
        leader.step(ev.AppendRequested(number, leader.core.epoch, (b"%d" % number,)))
    net.run(S)
    for replica in net.replicas.values():
        assert replica.disk.values() == [b"%d" % number for number in range(10)]
        assert replica.core.committed_offset == leader.core.log.end_offset


def test_nobody_is_ever_prospective() -> None:
    net = plain(3)
    net.elect()
    for _ in range(3):
        leader = net.leader
        assert leader is not None
        leader.crash()
        net.elect()
        leader.restart()
        net.run(2 * S)
    for replica in net.replicas.values():
        assert RoleName.PROSPECTIVE not in [to for *_, to in replica.moves]
    votes = [r for _, _, r in net.sent if isinstance(r, ms.Vote)]
    assert votes
    assert not any(vote.pre_vote for vote in votes)


def test_without_pre_votes_an_isolated_voter_bumps_epochs_and_deposes_the_leader() -> None:
    """The disruption that KIP-996 is about: here it happens."""
    net = plain(3)
    leader = net.elect()
    lonely = next(r for r in net.replicas.values() if r is not leader)
    net.isolate(lonely.config.node_id)
    net.run(20 * S)
    assert lonely.core.epoch > leader.core.epoch + 5
    assert leader.role is RoleName.LEADER
    bumped = lonely.core.epoch
    net.heal()
    net.run(10 * S)
    assert RoleName.LEADER in [before for before, *_ in leader.moves]  # it was deposed
    assert net.elect().core.epoch >= bumped


def test_its_policy_refuses_votes_to_non_voters() -> None:
    net = plain(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    for candidate_id, granted in ((9, False), (2, True)):
        request = ms.Vote(epoch=7, replica_id=candidate_id, last_epoch=0, end_offset=0)
        reply = net.ask(1, request)
        assert isinstance(reply, ms.VoteReply)
        assert reply.vote_granted is granted


def test_its_own_request_is_handled() -> None:
    net = plain(3)
    reply = net.ask(1, Ping(number=41))
    assert isinstance(reply, Pong)
    assert reply.number == 42


def test_votes_are_kept_by_id() -> None:
    net = plain(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    request = ms.Vote(epoch=7, replica_id=2, last_epoch=0, end_offset=0)
    net.ask(1, request)
    assert net.replicas[1].core.voted == ReplicaKey(2)
    assert voter(2, named=False).key == ReplicaKey(2)
    assert config(1, net.replicas[1].config.voters).node_id == 1


# ---- what the drafts of the KIPs decide otherwise ------------------------------------------------


class PatientPolicy(PlainPolicy):
    """Waits before each election, the longer the more it has lost (KIP-595 as drafted)."""

    def election_backoff_us(self, core: QuorumState) -> int:
        return 100 * MS << min(core.campaigns, 3)


def test_an_election_is_delayed_and_longer_each_time() -> None:
    net = plain(3, PatientPolicy())
    leader = net.elect()
    lonely = next(r for r in net.replicas.values() if r is not leader)
    net.isolate(lonely.config.node_id)
    waited = []
    for _ in range(5):
        before = lonely.core.campaigns
        while lonely.core.campaign_us == NEVER_US:
            net.run(1 * MS)
        expired_us = net.now_us
        while lonely.core.campaigns == before:
            net.run(1 * MS)
        waited.append(round((net.now_us - expired_us) / (100 * MS)))
    assert waited == [1, 2, 4, 8, 8]
    net.heal()
    net.elect()
    net.run(5 * S)
    assert lonely.core.campaigns == 0


def test_a_leader_that_is_heard_again_ends_the_delay() -> None:
    net = plain(3, PatientPolicy())
    leader = net.elect()
    follower = next(r for r in net.replicas.values() if r is not leader)
    follower.following.hurry()
    follower.step(ev.Tick())
    assert follower.core.campaign_us != NEVER_US
    net.run(50 * MS)
    leader.step(ev.AppendRequested(1, leader.core.epoch, (b"news",)))
    net.run(5 * S)
    assert follower.role is RoleName.FOLLOWER
    assert follower.core.epoch == leader.core.epoch


REPEATING: Transitions = {
    **TRANSITIONS,
    RoleName.PROSPECTIVE: {
        **TRANSITIONS[RoleName.PROSPECTIVE],
        Cause.PRE_VOTE_LOST: RoleName.PROSPECTIVE,
        Cause.PRE_VOTE_LOST_LEADER_KNOWN: RoleName.PROSPECTIVE,
    },
}


class RepeatingPolicy(PatientPolicy):
    """Prospective asks until it wins (KIP-996 as drafted)."""

    transitions = REPEATING


def test_a_prospective_may_ask_again_and_again_with_delays_between() -> None:
    net = plain(5, RepeatingPolicy())
    leader = net.elect()
    net.run(S)
    node = next(r for r in net.replicas.values() if r is not leader)
    epoch = node.core.epoch
    net.cut.add((leader.config.node_id, node.config.node_id))
    net.run(5 * S)
    before = len(net.sent)
    net.run(8 * S)
    votes = [r for _, _, r in net.sent[before:] if isinstance(r, ms.Vote)]
    assert node.role is RoleName.PROSPECTIVE
    assert node.core.epoch == epoch
    assert all(vote.pre_vote for vote in votes)
    assert len(votes) == 10 * 4  # Each 800 ms, once it has waited thrice, the four others.
    leader.crash()
    net.run(10 * S)
    assert net.leader is not None
    assert net.leader.core.epoch > epoch


class OneClusterPolicy(PlainPolicy):
    """Whoever learns that it asked another cluster ends (KIP-595 as drafted)."""

    def met_other_cluster(self, core: QuorumState, request: ms.Request) -> None:
        raise FatalError("this is another cluster")


@pytest.mark.parametrize("policy", [PlainPolicy(), OneClusterPolicy()])
def test_a_node_among_non_voters_may_end(policy: Policy) -> None:
    net = plain(3, policy)
    net.elect()
    node = net.replicas[1]
    node.crash()
    node.config = msgspec.structs.replace(node.config, cluster_id="another")
    node.restart()
    if isinstance(policy, OneClusterPolicy):
        with pytest.raises(FatalError, match="another cluster"):
            net.run(10 * S)
    else:
        net.run(10 * S)
        assert node.role is not RoleName.LEADER


class JealousPolicy(PlainPolicy):
    """Who is asked for a vote by a non-voter campaigns itself (KIP-595 as drafted)."""

    def met_non_voter(self, core: QuorumState, candidate: ReplicaKey) -> None:
        core.role.hurry()


@pytest.mark.parametrize(("candidate_id", "campaigns"), [(9, True), (2, False)])
def test_a_non_voters_vote_may_start_an_election(candidate_id: int, campaigns: bool) -> None:
    net = plain(3, JealousPolicy())
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    reply = net.ask(1, ms.Vote(epoch=7, replica_id=candidate_id, last_epoch=0, end_offset=0))
    assert isinstance(reply, ms.VoteReply)
    assert reply.vote_granted is not campaigns
    assert (net.replicas[1].role is RoleName.CANDIDATE) is campaigns
    assert net.replicas[1].core.epoch == (8 if campaigns else 7)


class ListeningPolicy(PlainPolicy):
    """Hears of control records as they are appended, committed or not."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, bool]] = []  # Node, offset, whether it was committed.
        self.control_handlers = {LeaderChange: self._on_leader_change}

    def _on_leader_change(self, core: QuorumState, offset: int, record: LeaderChange) -> None:
        assert record.leader_id == core.leader_id
        self.records.append((core.config.node_id, offset, offset < core.high_watermark))


def test_control_records_are_heard_of_before_they_are_committed() -> None:
    policy = ListeningPolicy()
    net = plain(3, policy)
    net.elect()
    net.run(S)
    assert sorted(policy.records) == [(1, 0, False), (2, 0, False), (3, 0, False)]
