"""Resigning, losing the quorum, shutting down; and what a node is when it starts again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.raft.network import (
    CLUSTER,
    Network,
    Replica,
    directory,
    formatted,
    joiner,
    quorum,
)

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.resigned import Resigned
from kraftspec.reference.raft.types import (
    NEVER_US,
    ElectionState,
    ReplicaKey,
)


def others(net: Network, node: Replica) -> list[Replica]:
    return [r for r in net.replicas.values() if r is not node]


def moves(node: Replica) -> list[RoleName]:
    return [to for _, _, to in node.moves]


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
        deadline_us = node.following.fetch_deadline_us
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
    requests = [r for _, _, r in net.sent[before:] if isinstance(r, ms.EndEpoch)]
    assert [key.id for key in requests[0].preferred_successors] == [
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
    targets = [t for _, t, r in net.sent[before:] if isinstance(r, ms.EndEpoch)]
    assert sorted(targets) == sorted([deaf.config.node_id, listening.config.node_id])
    assert isinstance(leader.core.role, Resigned)
    assert leader.core.role.unacknowledged == [deaf.config.node_id]


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
    requests = [1 for source, _, _ in net.sent if source == 9]
    assert 3 * 500 // 20 - 3 <= len(requests) <= 3 * 500 // 20 + 3
    assert observer.role is RoleName.UNATTACHED
