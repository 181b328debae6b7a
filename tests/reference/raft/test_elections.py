"""Elections of whole quorums: timers, campaigns, greeting, resigning, check quorum, shutdown."""

from __future__ import annotations

from typing import Any

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

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.raft.types import (
    NEVER_US,
    ElectionState,
    Endpoint,
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
        assert other.told[-1] == (1, leader.config.node_id)


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
    asked = [e for e in node.effects if isinstance(e, fx.Ask) and e.node.id == target]
    return asked[-1].request_id


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
    role = node.core.role
    for granted in (True, False, False, False):
        role.on_vote(2, granted)  # type: ignore[attr-defined]  # only campaigns count votes
    role.on_vote(77, True)  # type: ignore[attr-defined]  # nor does who is no voter
    assert node.role is RoleName.PROSPECTIVE
    assert role.tally.granted == {1: None, 2: None}  # type: ignore[attr-defined]  # a campaign's
    assert role.tally.refused == {}  # type: ignore[attr-defined]  # a campaign's


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
        assert node.core.role.tally.refused == {}  # type: ignore[attr-defined]  # a campaign's
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


# ---- EndQuorumEpoch and resigning ------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "count", "delay_ms"),
    [
        (0, 1, 0),
        (0, 3, 0),
        (1, 2, 500),
        (1, 3, 250),
        (2, 3, 500),
        (1, 4, 125),
        (2, 4, 250),
        (3, 4, 500),
        (None, 3, 1000),
    ],
)
def test_successors_wait_twice_as_long_each(place: int | None, count: int, delay_ms: int) -> None:
    """KIP-595: a strict exponential of the place, by the largest backoff, here 1000 ms."""
    net = quorum(3)
    leader = net.elect()
    node = others(net, leader)[0]
    keys = [ReplicaKey(100 + i, directory(100 + i)) for i in range(count)]
    if place is not None:
        keys[place] = node.config.key
    request = ms.EndEpoch(
        cluster_id=CLUSTER,
        leader_id=leader.config.node_id,
        leader_epoch=leader.core.epoch,
        preferred_successors=tuple(keys),
    )
    event = ev.RequestReceived(-5, request)
    if delay_ms == 0:
        node.step(event)
        assert node.role is RoleName.PROSPECTIVE
    else:
        node.step(event)
        deadline_us = node.core.role.fetch_deadline_us  # type: ignore[attr-defined]  # a follower
        assert deadline_us == net.now_us + delay_ms * MS


END: dict[str, tuple[dict[str, Any], int, bool]] = {
    "lower epoch": ({"leader_epoch": 0}, 74, False),
    "no id": ({"leader_id": -1}, 42, False),
    "another cluster": ({"cluster_id": "x"}, 104, True),
    "another topic": ({"refused": 42}, 42, True),
}


@pytest.mark.parametrize("name", END)
def test_end_quorum_epoch_is_refused(name: str) -> None:
    changes, error, whole = END[name]
    net = quorum(3)
    leader = net.elect()
    node = others(net, leader)[0]
    values: dict[str, Any] = {"leader_id": leader.config.node_id, "leader_epoch": 1}
    reply = net.ask(node.config.node_id, ms.EndEpoch(**{**values, **changes}))
    assert reply is not None
    assert (reply.error, reply.top_error) == ((0, error) if whole else (error, 0))
    assert node.role is RoleName.FOLLOWER


def test_a_leader_that_resigns_names_the_longest_log_first() -> None:
    net = quorum(3)
    leader = net.elect()
    ahead, behind = others(net, leader)
    net.isolate(behind.config.node_id)
    leader.step(ev.AppendRequested(1, leader.core.epoch, (b"x",)))
    net.run(200 * MS)
    net.heal()
    before = len(net.sent)
    leader.step(ev.ResignRequested(leader.core.epoch))
    asked = [r for _, _, r in net.sent[before:] if isinstance(r, ms.EndEpoch)]
    assert [key.id for key in asked[0].preferred_successors] == [
        ahead.config.node_id,
        behind.config.node_id,
    ]
    started_us = net.now_us
    while net.leader is None and net.now_us < started_us + S:
        net.run(10 * MS)
    assert net.leader is ahead
    assert net.now_us - started_us < 100 * MS  # nobody waited for a timeout


@pytest.mark.parametrize("epoch", [0, 2])
def test_resigning_another_epoch_does_nothing(epoch: int) -> None:
    net = quorum(3)
    leader = net.elect()
    leader.step(ev.ResignRequested(epoch))
    assert leader.role is RoleName.LEADER


def test_resignation_ends_in_the_next_epoch_without_a_vote() -> None:
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    node.disk.election = ElectionState(5, 1)
    node.restart()
    assert node.role is RoleName.RESIGNED
    net.run(node.core.role.election_deadline_us - net.now_us)
    assert moves(node)[-2:] == [RoleName.UNATTACHED, RoleName.PROSPECTIVE]
    assert node.core.epoch == 6
    assert node.core.voted is None


def test_resigned_tells_each_voter_until_it_answers() -> None:
    net = quorum(3)
    leader = net.elect()
    deaf, listening = others(net, leader)
    net.isolate(deaf.config.node_id)
    net.isolate(listening.config.node_id)
    net.cut -= {
        (leader.config.node_id, listening.config.node_id),
        (listening.config.node_id, leader.config.node_id),
    }
    before = len(net.sent)
    leader.step(ev.ResignRequested(leader.core.epoch))
    net.settle()
    asked = [t for _, t, r in net.sent[before:] if isinstance(r, ms.EndEpoch)]
    assert sorted(asked) == sorted([deaf.config.node_id, listening.config.node_id])
    assert leader.core.role.unacknowledged == [deaf.config.node_id]  # type: ignore[attr-defined]


# ---- check quorum ----------------------------------------------------------------------------


def test_a_leader_that_nobody_fetches_from_resigns_after_one_and_a_half_timeouts() -> None:
    net = quorum(3)
    leader = net.elect()
    net.run(2 * S)
    net.isolate(leader.config.node_id)
    started_us = net.now_us
    while leader.role is RoleName.LEADER:
        net.run(10 * MS)
    # Its timer began anew at the last fetch, half a second before at most.
    assert 2400 * MS <= net.now_us - started_us <= 3010 * MS


def test_one_follower_of_two_is_a_quorum_and_one_of_four_is_none() -> None:
    for count, survives in ((3, True), (5, False)):
        net = quorum(count)
        leader = net.elect()
        for silent in others(net, leader)[1:]:
            silent.crash()
        net.run(10 * S)
        assert (leader.role is RoleName.LEADER) is survives


def test_a_sole_voter_never_loses_its_quorum() -> None:
    net = quorum(1)
    net.run(600 * S)
    assert net.replicas[1].role is RoleName.LEADER


# ---- leaving ---------------------------------------------------------------------------------


def stops(node: Replica) -> list[bool]:
    return [e.timed_out for e in node.effects if isinstance(e, fx.ShutdownCompleted)]


def test_a_leader_that_leaves_waits_for_the_next_one() -> None:
    net = quorum(3)
    leader = net.elect()
    leader.step(ev.ShutdownRequested(5 * S))
    assert leader.role is RoleName.RESIGNED
    net.run(S)
    assert stops(leader) == [False]
    assert net.leader is not leader
    assert leader.core.next_deadline_us() == NEVER_US
    assert leader.step(ev.Tick()) == []


def test_a_follower_an_observer_and_a_sole_voter_leave_at_once() -> None:
    net = quorum(3)
    follower = others(net, net.elect())[0]
    follower.step(ev.ShutdownRequested(5 * S))
    assert stops(follower) == [False]
    observer = net.add(joiner(9))
    observer.step(ev.ShutdownRequested(5 * S))
    assert stops(observer) == [False]
    alone = quorum(1).replicas[1]
    alone.step(ev.ShutdownRequested(5 * S))
    assert stops(alone) == [False]


def test_leaving_gives_up_after_its_time() -> None:
    net = quorum(3)
    leader = net.elect()
    net.isolate(leader.config.node_id)
    leader.step(ev.ShutdownRequested(5 * S))
    net.run(4900 * MS)
    assert stops(leader) == []
    net.run(200 * MS)
    assert stops(leader) == [True]


def test_while_leaving_leader_requests_are_refused() -> None:
    net = quorum(3)
    leader = net.elect()
    core = leader.core
    core.shutdown_deadline_us = net.now_us + S
    assert core.leader_error(core.epoch) == ErrorCode.BROKER_NOT_AVAILABLE
    assert core.leader_error(core.epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert core.leader_error(core.epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH


# ---- start -----------------------------------------------------------------------------------


def start(election: ElectionState | None, last_epoch: int = 0, count: int = 3) -> Replica:
    net = quorum(count)
    for replica in net.replicas.values():
        replica.crash()
    node = net.replicas[1]
    if last_epoch:
        node.disk.append_values(last_epoch, 0, [b"x"])
        node.disk.synced = 1
    node.disk.election = election
    node.restart()
    return node


OWN = ReplicaKey(1, directory(1))


@pytest.mark.parametrize(
    ("election", "last_epoch", "role", "epoch", "leader_id"),
    [
        (None, 0, RoleName.UNATTACHED, 0, -1),
        (ElectionState(3), 5, RoleName.UNATTACHED, 5, -1),
        (ElectionState(3, -1, OWN), 5, RoleName.UNATTACHED, 5, -1),
        (ElectionState(5, 1), 5, RoleName.RESIGNED, 5, 1),
        (ElectionState(5, -1, OWN), 4, RoleName.CANDIDATE, 5, -1),
        (ElectionState(5, 2), 5, RoleName.FOLLOWER, 5, 2),
        (ElectionState(5, 9), 5, RoleName.UNATTACHED, 5, 9),
        (ElectionState(5, -1, ReplicaKey(2, directory(2))), 4, RoleName.UNATTACHED, 5, -1),
    ],
)
def test_the_first_role(
    election: ElectionState | None, last_epoch: int, role: RoleName, epoch: int, leader_id: int
) -> None:
    node = start(election, last_epoch)
    assert (node.role, node.core.epoch, node.core.leader_id) == (role, epoch, leader_id)
    stale = election is not None and epoch > election.epoch
    expected = None if stale or election is None else election.voted
    assert node.core.voted == expected
    assert node.disk.election == ElectionState(epoch, leader_id, expected)


def test_a_leader_of_one_starts_as_leader_of_the_next_epoch() -> None:
    node = start(ElectionState(5, 1), count=1)
    assert (node.role, node.core.epoch) == (RoleName.LEADER, 6)


def test_a_candidate_of_one_leads_the_epoch_that_it_voted_for() -> None:
    node = start(ElectionState(5, -1, OWN), count=1)
    assert (node.role, node.core.epoch) == (RoleName.LEADER, 5)


def test_observers_find_the_leader_by_themselves_and_never_campaign() -> None:
    net = formatted(3)
    leader = net.elect()
    observer = net.add(joiner(9))
    net.run(S)
    assert (observer.role, observer.core.leader_id) == (RoleName.FOLLOWER, leader.config.node_id)
    assert not observer.core.is_voter
    net.isolate(9)
    net.run(60 * S)
    assert set(moves(observer)) <= {RoleName.FOLLOWER, RoleName.UNATTACHED}
    for replica in others(net, observer):
        replica.crash()
    net.heal()
    net.run(60 * S)
    assert observer.core.epoch == leader.core.epoch


def test_a_quorum_without_a_leader_is_not_kept_busy_by_discovery() -> None:
    """Who cannot name the leader is asked again after the retry backoff, 20 ms, at the soonest."""
    net = quorum(3)
    observer = net.add(joiner(9))
    net.run(500 * MS)
    asked = [1 for source, _, _ in net.sent if source == 9]
    assert 3 * 500 // 20 - 3 <= len(asked) <= 3 * 500 // 20 + 3
    assert observer.role is RoleName.UNATTACHED
