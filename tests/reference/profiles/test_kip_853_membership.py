"""AddVoter and RemoveVoter of the draft of KIP-853, on live quorums in memory."""

from __future__ import annotations

import pytest
from tests.reference.profiles.kip_853 import (
    add,
    add_voter,
    append,
    begun,
    endpoints,
    remove_voter,
    static,
)
from tests.reference.raft.network import Network, Replica, directory

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.kip_853 import membership
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.types import ReplicaKey


def call(net: Network, leader: Replica, request: ms.Request, us: int = 0) -> ms.Reply | None:
    """Ask, let time pass, and return the answer, if there is one by then."""
    reply = net.ask(leader.config.node_id, request)
    token = net.last_token
    net.run(us)
    return reply if reply is not None else net.answers.pop(token, None)


def keys(replica: Replica) -> list[ReplicaKey]:
    return [voter.key for voter in replica.core.log.voters.last]


def test_a_quorum_grows_from_one_to_three_to_five_and_shrinks_again_under_load() -> None:
    net = begun(1)
    leader = net.elect()
    number = 0
    for node_id in (2, 3, 4, 5):
        add(net, node_id)
        net.run(100 * MS)
        append(leader, number := number + 1)
        reply = call(net, leader, add_voter(node_id), 500 * MS)
        assert reply is not None
        assert not reply.error
    for replica in net.replicas.values():
        assert replica.core.log.voters.last.ids == (1, 2, 3, 4, 5)
    for node_id in (5, 4):
        append(leader, number := number + 1)
        reply = call(net, leader, remove_voter(node_id), 500 * MS)
        assert reply is not None
        assert not reply.error
    net.run(2 * S)
    for replica in net.replicas.values():  # Those removed observe.
        assert replica.core.log.voters.last.ids == (1, 2, 3)
        assert replica.disk.values() == [b"%d" % n for n in range(1, number + 1)]
        assert replica.core.is_voter is (replica.config.node_id <= 3)


def test_a_change_survives_the_leader_that_made_it() -> None:
    net = begun(3)
    leader = net.elect()
    add(net, 4)
    net.run(S)
    reply = call(net, leader, add_voter(4), 500 * MS)
    assert reply is not None
    assert not reply.error
    leader.crash()
    other = net.elect()
    assert other is not leader
    assert other.core.log.voters.last.ids == (1, 2, 3, 4)
    leader.restart()
    net.run(3 * S)
    assert leader.core.log.voters.last.ids == (1, 2, 3, 4)


def test_who_waits_is_added_when_it_has_caught_up() -> None:
    net = begun(1)
    leader = net.elect()
    assert call(net, leader, add_voter(2), 500 * MS) is None
    token = net.last_token
    add(net, 2)
    net.run(500 * MS)
    assert not net.answers.pop(token).error
    assert leader.core.log.voters.last.ids == (1, 2)


def test_who_had_caught_up_and_is_gone_when_its_turn_comes_is_not_added() -> None:
    """Else it would count for majorities, and with one voter beside it nothing would be committed.

    A change is pending for longer than the fetch time-out, because the log of node 2 is not synced.
    """
    net = begun(2, request_timeout_us=60 * S)
    leader = net.elect()
    other = net.replicas[3 - leader.config.node_id]
    first, second = add(net, 3), add(net, 4)
    net.run(S)
    other.auto_flush = False
    first.crash()  # It has caught up, and was heard of just now: it is added, and pending.
    assert call(net, leader, add_voter(3)) is None
    assert call(net, leader, add_voter(4)) is None
    second.crash()
    net.run(2500 * MS)
    other.auto_flush = True
    other.flush()
    net.run(2 * S)
    assert leader.core.log.voters.last.ids == (1, 2, 3)
    assert (leader.core.log.voters.last_offset or 0) < leader.core.high_watermark


@pytest.mark.parametrize("cut", [True, False])
def test_no_answer_comes_before_a_majority_of_the_new_set_has_it(cut: bool) -> None:
    net = begun(1)
    leader = net.elect()
    joiner = add(net, 2)
    net.run(S)
    joiner.auto_flush = not cut  # It takes the record, and does not have it on its disk.
    reply = call(net, leader, add_voter(2), 200 * MS)
    assert (reply is None) is cut
    assert leader.core.log.voters.last.ids == (1, 2)


def test_a_leader_that_is_removed_is_followed_by_one_of_the_others() -> None:
    net = begun(3)
    leader = net.elect()
    own_id = leader.config.node_id
    reply = call(net, leader, remove_voter(own_id), 500 * MS)
    assert reply is not None
    assert not reply.error
    other = net.elect()
    assert other is not leader
    net.run(3 * S)
    assert own_id not in other.core.log.voters.last
    assert leader.role is RoleName.FOLLOWER
    assert not leader.core.is_voter


def test_a_full_queue_refuses() -> None:
    net = begun(1)
    leader = net.elect()
    for _ in range(membership.WAITING_MAX):
        assert net.ask(1, add_voter(2)) is None
    reply = net.ask(1, add_voter(2))
    assert reply is not None
    assert reply.error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    net.run(3 * S)
    answers = list(net.answers.values())
    assert len(answers) == membership.WAITING_MAX
    assert {answer.error for answer in answers} == {ErrorCode.REQUEST_TIMED_OUT}
    assert leader.core.log.voters.last.ids == (1,)


def test_the_same_addition_twice_is_made_once() -> None:
    net = begun(1)
    leader = net.elect()
    assert call(net, leader, add_voter(2)) is None
    first = net.last_token
    assert call(net, leader, add_voter(2)) is None
    second = net.last_token
    add(net, 2)
    net.run(S)
    assert not net.answers[first].error
    assert net.answers[second].error == ErrorCode.DUPLICATE_VOTER


# ---- replaced disks ------------------------------------------------------------------------------


def test_a_replaced_disk_is_recovered() -> None:
    net = begun(3)
    leader = net.elect()
    append(leader, 1)
    net.run(S)
    lost = next(r for r in net.replicas.values() if r is not leader)
    node_id = lost.config.node_id
    lost.crash()
    again = add(net, node_id, directory_id=directory(node_id, 1))
    net.run(S)
    assert again.disk.values() == [b"1"]
    assert not again.core.is_voter
    reply = call(net, leader, add_voter(node_id, 1), 500 * MS)
    assert reply is not None
    assert not reply.error
    assert again.core.is_voter
    assert ReplicaKey(node_id, directory(node_id, 1)) in keys(leader)
    assert len(keys(leader)) == 3


@pytest.mark.parametrize("without", [(), ("removed-before-replaced",)])
def test_another_uuid_takes_two_records(without: tuple[str, ...]) -> None:
    net = begun(3, *without)
    leader = net.elect()
    lost = next(r for r in net.replicas.values() if r is not leader)
    lost.crash()
    node_id = lost.config.node_id
    add(net, node_id, directory_id=directory(node_id, 1))
    net.run(S)
    before = leader.core.log.voters.last_offset
    assert call(net, leader, add_voter(node_id, 1), 500 * MS) is not None
    entries = [at for at, _ in leader.core.log.voters.entries() if at > (before or 0)]
    assert len(entries) == (1 if without else 2)


# ---- static voters -------------------------------------------------------------------------------


def test_static_voters_elect_and_are_named_by_their_uuids() -> None:
    net = static()
    leader = net.elect()
    assert all(not any(key.directory_id) for key in keys(leader))
    for node_id, replica in net.replicas.items():
        request = ms.AddVoter(voter_id=node_id, voter_directory_id=replica.core.config.directory_id)
        reply = call(net, leader, request, 500 * MS)
        assert reply is not None
        assert not reply.error
    net.run(S)
    for replica in net.replicas.values():
        assert keys(replica) == [r.core.config.key for r in net.replicas.values()]
        assert replica.core.log.voters.last.endpoints(2) == endpoints(2)
    leader.crash()
    assert net.elect().core.epoch > leader.core.epoch


@pytest.mark.parametrize(
    "request_",
    [
        add_voter(4, endpoints=()),  # A new id.
        add_voter(2),  # Endpoints.
        remove_voter(2),
    ],
)
def test_static_voters_are_those_of_the_properties(request_: ms.Request) -> None:
    net = static()
    leader = net.elect()
    reply = call(net, leader, request_)
    assert reply is not None
    assert reply.error == ErrorCode.INVALID_REQUEST
    assert isinstance(reply, ms.AddVoterReply | ms.RemoveVoterReply)
    assert reply.message
    assert "controller.quorum.voters" in reply.message


def test_a_voter_that_alone_has_the_record_of_its_uuid_votes_for_a_later_log() -> None:
    """Its record is not committed, and the other of the two that are up cannot know the uuid."""
    net = static()
    old = net.elect()
    net.run(S)
    others = [replica for replica in net.replicas.values() if replica is not old]
    for replica in others:
        replica.crash()
    key = old.core.config.key
    request = ms.AddVoter(voter_id=key.id, voter_directory_id=key.directory_id)
    old.step(ev.RequestReceived(-99, request))
    net.run(100 * MS)
    assert key in keys(old)
    old.crash()
    for replica in others:
        replica.start()
    leader = net.elect()
    net.run(S)
    for replica in others:
        replica.crash()
    leader.start()
    old.start()
    assert net.elect() is leader


# ---- rules beside the draft ----------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("own-epoch-first",)])
def test_a_new_leader_commits_before_it_changes_voters(without: tuple[str, ...]) -> None:
    net = begun(3, *without)
    leader = net.elect()
    net.run(S)
    leader.crash()
    others = [r for r in net.replicas.values() if r is not leader]
    for replica in others:
        replica.auto_flush = False
    while net.leader is None:
        net.run(50 * MS)
    new = net.leader
    new.step(ev.RequestReceived(-99, remove_voter(leader.config.node_id)))
    net.settle()
    assert new.core.high_watermark == -1
    assert (leader.config.node_id in new.core.log.voters.last) is not bool(without)


def disturbed(*without: str) -> tuple[int, int]:
    """Return how many epochs began within 10 s after a removed voter was back, and 10 s later.

    It was cut off while two voters joined, and it and another were removed: so it campaigns, and
    does not know those that lead by now. Nor are they among its bootstrap servers.
    """
    net = begun(3, *without)
    for node_id in (4, 5):
        add(net, node_id, servers=5)
    leader = net.elect()
    net.run(S)
    away, other = (node_id for node_id in (1, 2, 3) if node_id != leader.config.node_id)
    net.isolate(away)
    for request in (add_voter(4), add_voter(5), remove_voter(away), remove_voter(other)):
        reply = call(net, leader, request, S)
        assert reply is not None
        assert not reply.error
    net.run(5 * S)
    net.heal()
    epochs: list[int] = []
    for second in range(20):
        for tenth in range(10):
            net.run(100 * MS)
            if net.leader is not None:
                append(net.leader, 10 * second + tenth)
        epochs.append(max(replica.core.epoch for replica in net.replicas.values()))
    return epochs[9] - epochs[0], epochs[19] - epochs[9]


def test_a_removed_voter_that_is_back_disturbs_once() -> None:
    soon, later = disturbed()
    assert soon <= 3
    assert later == 0


def test_without_the_rule_it_disturbs_again_and_again() -> None:
    soon, later = disturbed("loser-steps-down")
    assert soon >= 4
    assert later >= 4
