"""Elections of whole quorums: timers, campaigns, greeting, resigning, check quorum, shutdown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.reference.raft.network import (
    CLUSTER,
    START_US,
    Network,
    Replica,
    directory,
    formatted,
    joiner,
    quorum,
    voter,
)

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.raft.types import (
    ElectionState,
    Endpoint,
    Node,
    ReplicaKey,
)


def roles(net: Network) -> list[RoleName]:
    return [r.role for r in net.replicas.values()]


def others(net: Network, node: Replica) -> list[Replica]:
    return [r for r in net.replicas.values() if r is not node]


def persisted(node: Replica) -> list[ElectionState]:
    return [e.state for e in node.effects if isinstance(e, fx.PersistElection)]


def moves(node: Replica) -> list[RoleName]:
    return [to for _, _, to in node.moves]


# ---- the way to a leader ---------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_a_quorum_elects_one_leader(count: int) -> None:
    net = quorum(count)
    leader = net.elect()
    net.run(100 * MS)
    assert sorted(roles(net)) == [RoleName.FOLLOWER] * (count - 1) + [RoleName.LEADER]
    for replica in net.replicas.values():
        assert replica.core.leader_id == leader.config.node_id
        assert replica.core.epoch == leader.core.epoch
        assert replica.core.high_watermark == leader.core.high_watermark == 1


def test_only_through_prospective_does_anybody_become_candidate() -> None:
    """KIP-996: pre-votes first, in the epoch as it is; then a vote for itself, in the next."""
    net = quorum(3)
    leader = net.elect()
    assert moves(leader) == [RoleName.PROSPECTIVE, RoleName.CANDIDATE, RoleName.LEADER]
    votes = [
        (request.epoch, request.pre_vote)
        for source, _, request in net.sent
        if source == leader.config.node_id and isinstance(request, ms.Vote)
    ]
    assert votes == [(0, True), (0, True), (1, False), (1, False)]
    own = ReplicaKey(leader.config.node_id, leader.config.directory_id)
    assert persisted(leader) == [
        ElectionState(0),
        ElectionState(1, -1, own),
        ElectionState(1, leader.config.node_id),
    ]


def test_a_sole_voter_leads_at_once() -> None:
    net = quorum(1)
    node = net.replicas[1]
    assert node.role is RoleName.LEADER
    assert net.now_us == START_US
    assert not [r for _, _, r in net.sent if isinstance(r, ms.Vote)]
    assert node.core.high_watermark == -1  # not before its own log is durable
    net.settle()
    assert node.core.high_watermark == 1


def test_election_timeouts_are_between_one_and_two_periods() -> None:
    drawn = []
    for seed in range(200):
        net = Network()
        net.add(quorum(3).replicas[1].config, seed=seed)
        drawn.append(net.replicas[1].core.role.election_deadline_us - START_US)
    assert min(drawn) >= 1000 * MS
    assert max(drawn) < 2000 * MS
    assert max(drawn) - min(drawn) > 900 * MS


def test_the_first_record_of_an_epoch_is_a_leader_change() -> None:
    net = quorum(3)
    leader = net.elect()
    (record,) = leader.disk.batches[0].control
    assert isinstance(record[1], LeaderChange)
    assert record[1].leader_id == leader.config.node_id
    assert record[1].voters == (1, 2, 3)
    assert leader.config.node_id in record[1].granting_voters
    assert len(record[1].granting_voters) >= 2


def test_a_leader_hears_of_itself_after_its_first_commit() -> None:
    net = quorum(3)
    leader = net.elect()
    kinds = [e for e in leader.effects if isinstance(e, (fx.Commit, fx.LeaderChanged))]
    assert kinds[-2:] == [fx.Commit(1), fx.LeaderChanged(1, leader.config.node_id)]
    for other in others(net, leader):
        assert other.reported_leaders[-1] == (1, leader.config.node_id)


def test_a_dead_leader_is_replaced() -> None:
    net = quorum(3)
    old = net.elect()
    net.run(S)
    old.crash()
    net.elect()
    new = net.leader
    assert new is not None
    assert new is not old
    old.restart()
    assert moves(old)[-1:] != [RoleName.FOLLOWER]
    assert roles(net).count(RoleName.RESIGNED) == 1  # it cannot know what it acknowledged
    net.run(S)
    assert moves(old)[-1] is RoleName.FOLLOWER
    assert old.core.leader_id == new.config.node_id


def test_no_majority_no_leader_and_no_epoch() -> None:
    """Pre-votes change nothing durable: an isolated voter's epoch stands still (KIP-996)."""
    net = quorum(3)
    leader = net.elect()
    net.run(S)
    lonely = others(net, leader)[0]
    written = len(persisted(lonely))
    net.isolate(lonely.config.node_id)
    net.run(60 * S)
    assert lonely.core.epoch == 1
    assert lonely.disk.election is not None
    assert lonely.disk.election.epoch == 1
    assert RoleName.CANDIDATE not in moves(lonely)
    net.heal()
    net.run(5 * S)
    assert net.leader is leader
    assert leader.core.epoch == 1
    assert lonely.role is RoleName.FOLLOWER
    assert all(state.epoch == 1 for state in persisted(lonely)[written:])


def test_a_voter_without_pre_vote_is_asked_in_earnest() -> None:
    """KIP-996, Compatibility: the first answer UNSUPPORTED_VERSION ends the pre-votes."""
    net = quorum(3)
    net.versions["Vote"] = 1
    leader = net.elect()
    votes = [r for _, _, r in net.sent if isinstance(r, ms.Vote) and not r.pre_vote]
    assert votes
    assert moves(leader)[-3:] == [
        RoleName.PROSPECTIVE,
        RoleName.CANDIDATE,
        RoleName.LEADER,
    ]


# ---- losing ----------------------------------------------------------------------------------


def campaigner(epoch: int = 5, leader: int = -1) -> tuple[Network, Replica]:
    """Return node 1 as Prospective in that epoch, with nobody answering."""
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    node.disk.election = ElectionState(epoch, leader)
    node.restart()
    net.run(node.core.role.election_deadline_us - net.now_us if leader < 0 else 2 * S)
    assert node.role is RoleName.PROSPECTIVE
    return net, node


def last_ask(node: Replica, target: int) -> int:
    requests = [e for e in node.effects if isinstance(e, fx.Ask) and e.node.id == target]
    return requests[-1].request_id


def answer_vote(node: Replica, target: int, *, granted: bool, **fields: Any) -> None:
    values = {"leader_epoch": node.core.epoch, **fields}
    reply = ms.VoteReply(vote_granted=granted, **values)
    node.step(ev.ReplyReceived(last_ask(node, target), reply))


def test_a_prospective_that_loses_goes_back_to_its_leader() -> None:
    net, node = campaigner(leader=3)
    answer_vote(node, 2, granted=False)
    assert node.role is RoleName.PROSPECTIVE  # one of two may still grant
    answer_vote(node, 3, granted=False)
    assert (node.role, node.core.leader_id, node.core.epoch) == (RoleName.FOLLOWER, 3, 5)
    net.run(2 * S)
    assert node.role is RoleName.PROSPECTIVE


def test_a_prospective_that_loses_without_a_leader_waits_anew() -> None:
    net, node = campaigner()
    answer_vote(node, 2, granted=False)
    answer_vote(node, 3, granted=False)
    assert (node.role, node.core.epoch) == (RoleName.UNATTACHED, 5)
    assert node.core.role.election_deadline_us >= net.now_us + 1000 * MS  # drawn anew


def test_a_prospective_that_times_out_keeps_no_time() -> None:
    net, node = campaigner()
    net.run(node.core.role.election_deadline_us - net.now_us)
    assert RoleName.UNATTACHED in moves(node)
    assert node.core.epoch == 5


def test_a_candidate_that_cannot_win_waits_without_asking() -> None:
    net, node = campaigner()
    answer_vote(node, 2, granted=True)
    assert (node.role, node.core.epoch) == (RoleName.CANDIDATE, 6)
    deadline_us = node.core.role.election_deadline_us
    answer_vote(node, 2, granted=False)
    answer_vote(node, 3, granted=False)
    sent = len(net.sent)
    net.run(deadline_us - net.now_us - 1)
    assert node.role is RoleName.CANDIDATE
    assert len(net.sent) == sent
    net.run(1)
    assert (node.role, node.core.epoch) == (RoleName.PROSPECTIVE, 6)
    assert node.core.voted == node.config.key  # its vote of this epoch is given


def test_the_first_answer_of_a_voter_counts() -> None:
    net = quorum(5)
    for node_id in (2, 3, 4, 5):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    net.run(node.core.role.election_deadline_us - net.now_us)
    role = node.campaigning
    for granted in (True, False, False, False):
        role.on_vote(2, granted)
    role.on_vote(77, True)
    assert node.role is RoleName.PROSPECTIVE
    assert role.tally.granted == {1: None, 2: None}
    assert role.tally.refused == {}


def test_an_answer_to_a_campaign_that_is_over_counts_for_nothing() -> None:
    _, node = campaigner()
    old = last_ask(node, 3)
    answer_vote(node, 2, granted=True)
    assert node.role is RoleName.CANDIDATE
    node.step(ev.ReplyReceived(old, ms.VoteReply(leader_epoch=6, vote_granted=True)))
    assert node.role is RoleName.CANDIDATE


@pytest.mark.parametrize("granted", [True, False])
def test_a_vote_given_away_starts_a_prospective_anew(granted: bool) -> None:
    net, node = campaigner()
    answer_vote(node, 2, granted=False)
    request = ms.Vote(
        cluster_id=CLUSTER, epoch=5, replica_id=3, last_epoch=4, end_offset=0 if granted else -1
    )
    net.now_us += 10 * MS
    before_us = node.core.role.election_deadline_us
    net.ask(1, request)
    assert node.role is RoleName.PROSPECTIVE
    if granted:
        assert node.core.voted == ReplicaKey(3)
        assert node.campaigning.tally.refused == {}
        assert node.core.role.election_deadline_us != before_us
    else:
        assert node.core.role.election_deadline_us == before_us


# ---- remaining election time -----------------------------------------------------------------


@pytest.mark.parametrize("role", [RoleName.UNATTACHED, RoleName.CANDIDATE, RoleName.RESIGNED])
def test_a_running_election_timer_survives_a_higher_epoch(role: RoleName) -> None:
    """Or a node that bumps epochs could keep all others from campaigning."""
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    key = ReplicaKey(1, directory(1))
    node.disk.election = {
        RoleName.UNATTACHED: ElectionState(5),
        RoleName.CANDIDATE: ElectionState(5, -1, key),
        RoleName.RESIGNED: ElectionState(5, 1),
    }[role]
    node.restart()
    assert node.role is role
    deadline_us = node.core.role.election_deadline_us
    net.now_us += 300 * MS
    for epoch in (6, 7, 8):
        net.ask(1, ms.Vote(epoch=epoch, replica_id=2, last_epoch=0, end_offset=-1))
        net.ask(
            1, ms.Vote(epoch=epoch, replica_id=2, voter_id=3, last_epoch=0, end_offset=0)
        )  # refused by its key, once the epoch is taken over
        assert (node.role, node.core.epoch) == (RoleName.UNATTACHED, epoch)
        assert node.core.role.election_deadline_us == deadline_us


def test_a_follower_of_a_lost_leader_draws_a_new_timer() -> None:
    net = quorum(3)
    leader = net.elect()
    node = others(net, leader)[0]
    net.ask(
        node.config.node_id,
        ms.Vote(epoch=9, replica_id=77, voter_id=88, last_epoch=0, end_offset=0),
    )
    assert node.role is RoleName.UNATTACHED
    assert node.core.role.election_deadline_us >= net.now_us + 1000 * MS


# ---- BeginQuorumEpoch ------------------------------------------------------------------------


def begin(**changes: Any) -> ms.BeginEpoch:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "leader_id": 3,
        "leader_epoch": 5,
        "voter_id": 1,
        "voter_directory_id": directory(1),
        "leader_endpoints": voter(3).endpoints,
    }
    return ms.BeginEpoch(**{**values, **changes})


# name → (changes, error, of the whole request, role and epoch after it)
BEGIN: dict[str, tuple[dict[str, Any], int, bool, RoleName, int]] = {
    "a leader": ({}, 0, False, RoleName.FOLLOWER, 5),
    "without endpoints: from the voters": (
        {"leader_endpoints": ()},
        0,
        False,
        RoleName.FOLLOWER,
        5,
    ),
    "of a higher epoch": ({"leader_epoch": 7}, 0, False, RoleName.FOLLOWER, 7),
    "lower epoch": ({"leader_epoch": 4}, 74, False, RoleName.UNATTACHED, 5),
    "lower epoch, no id": ({"leader_epoch": 4, "leader_id": -1}, 74, False, RoleName.UNATTACHED, 5),
    "no id": ({"leader_id": -1, "leader_epoch": 7}, 42, False, RoleName.UNATTACHED, 5),
    "another cluster": ({"cluster_id": "x"}, 104, True, RoleName.UNATTACHED, 5),
    "another topic": ({"refused": 42}, 42, True, RoleName.UNATTACHED, 5),
    "wrong key: the leader is followed all the same": (
        {"voter_id": 2},
        125,
        False,
        RoleName.FOLLOWER,
        5,
    ),
    "wrong directory": (
        {"voter_directory_id": directory(1, 1)},
        125,
        False,
        RoleName.FOLLOWER,
        5,
    ),
    "nobody knows where it is": (
        {"leader_id": 9, "leader_endpoints": (), "leader_epoch": 6},
        0,
        False,
        RoleName.UNATTACHED,
        6,
    ),
}


@pytest.mark.parametrize("name", BEGIN)
def test_begin_quorum_epoch(name: str) -> None:
    changes, error, whole, role, epoch = BEGIN[name]
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    node.disk.election = ElectionState(5)
    node.restart()
    reply = net.ask(1, begin(**changes))
    assert reply is not None
    assert (reply.error, reply.top_error) == ((0, error) if whole else (error, 0))
    assert (node.role, node.core.epoch) == (role, epoch)
    if role is RoleName.FOLLOWER:
        assert node.core.leader_id == 3
        assert node.disk.election == ElectionState(epoch, 3)
        assert (reply.leader_id, reply.leader_epoch) == (3, epoch)


@pytest.mark.parametrize("role", [RoleName.PROSPECTIVE, RoleName.CANDIDATE])
def test_a_campaign_ends_when_a_leader_of_the_epoch_shows_up(role: RoleName) -> None:
    net, node = campaigner()
    if role is RoleName.CANDIDATE:
        answer_vote(node, 2, granted=True)
    epoch = node.core.epoch
    net.ask(1, begin(leader_epoch=epoch))
    assert (node.role, node.core.epoch, node.core.leader_id) == (RoleName.FOLLOWER, epoch, 3)
    assert (node.core.voted is not None) is (role is RoleName.CANDIDATE)  # a vote is kept


def test_more_endpoints_of_the_same_leader_are_news() -> None:
    net = quorum(3)
    leader = net.elect()
    node = others(net, leader)[0]
    own_id, epoch = node.config.node_id, leader.core.epoch
    more = (*leader.config.endpoints, Endpoint("EXTRA", "elsewhere", 1))
    request = begin(leader_id=leader.config.node_id, leader_epoch=epoch, leader_endpoints=more)
    request.voter_id = -1
    written = len(persisted(node))
    net.ask(own_id, request)
    assert node.core.leader_endpoints == more
    assert len(persisted(node)) == written + 1
    net.ask(own_id, request)
    assert len(persisted(node)) == written + 1  # now they are old


def test_a_leader_greets_voters_until_they_fetch_and_when_they_stop() -> None:
    net = quorum(3)
    leader = net.elect()
    silent = others(net, leader)[0]

    def greetings() -> int:
        return len(
            [
                1
                for _, target, request in net.sent
                if isinstance(request, ms.BeginEpoch) and target == silent.config.node_id
            ]
        )

    net.run(10 * S)
    assert greetings() == 1  # a voter that fetches is told nothing
    silent.crash()
    net.run(1100 * MS)
    assert greetings() == 2  # half a fetch timeout after its last fetch, at the next period
    net.run(5 * S)
    assert 4 <= greetings() <= 5  # one that is not answered blocks the next for its two seconds


def test_who_knows_its_leader_and_not_where_it_is_follows_it_when_it_answers() -> None:
    """A joiner that goes down before the voter set is in its log has the leader's id alone."""
    net = formatted(3)
    leader = net.elect()
    net.run(S)
    node = net.add(joiner(4))
    net.run(S)
    assert node.disk.election == ElectionState(leader.core.epoch, leader.config.node_id)
    node.disk.synced = 0
    node.crash()
    node.config = msgspec.structs.replace(
        node.config, bootstrap_servers=node_of(leader.config.node_id)
    )
    node.restart()
    assert (node.role, node.core.leader_id) == (RoleName.UNATTACHED, leader.config.node_id)
    net.run(S)
    assert node.role is RoleName.FOLLOWER
    assert node.core.log.end_offset == leader.core.log.end_offset


def node_of(node_id: int) -> tuple[Node, ...]:
    """Return where a node is, as a bootstrap server, whose id nobody knows."""
    return (Node(-2, f"node{node_id}", 9000 + node_id),)
