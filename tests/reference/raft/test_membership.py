"""Adding, removing and updating voters; kraft.version 0 and 1; joining by itself (KIP-853)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reference.raft.changes import add_request, ask, led, others, remove_request, voters
from tests.reference.raft.network import (
    Network,
    Replica,
    config,
    directory,
    joiner,
    quorum,
    voter,
)

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet

# ---- what a first leader writes ----------------------------------------------------------------


def test_the_first_leader_writes_down_what_only_the_checkpoint_has() -> None:
    """The bootstrap checkpoint is never replicated, so version and voters go into the log."""
    _, leader = led()
    records = [record for _, record in leader.disk.batches[0].control]
    assert [type(record).__name__ for record in records] == [
        "LeaderChange",
        "KRaftVersion",
        "Voters",
    ]
    assert records[1] == KRaftVersion(1)
    assert isinstance(records[2], Voters)
    assert records[2].voters == VoterSet(voter(n) for n in (1, 2, 3))


def test_the_next_leader_need_not() -> None:
    net, leader = led()
    leader.crash()
    new = net.elect()
    assert [type(r).__name__ for _, r in new.disk.batches[-1].control] == ["LeaderChange"]


def test_a_leader_whose_own_endpoints_changed_writes_them() -> None:
    net, leader = led()
    leader.crash()
    for node in others(net, leader):
        node.crash()
        moved = (Endpoint("CONTROLLER", f"new{node.config.node_id}", 9000 + node.config.node_id),)
        node.config = config(node.config.node_id, VoterSet(), endpoints=moved)
        node.restart()
    new = net.elect()
    written = new.core.log.voters.last.get(new.config.node_id)
    assert written is not None
    assert written.endpoints[0].host.startswith("new")


def test_static_voters_are_not_written() -> None:
    net = quorum(3)
    leader = net.elect()
    assert [type(r).__name__ for _, r in leader.disk.batches[0].control] == ["LeaderChange"]
    assert leader.core.log.kraft_versions.last == 0


# ---- AddRaftVoter ------------------------------------------------------------------------------


def test_an_observer_becomes_a_voter() -> None:
    net, leader = led()
    joining = net.add(joiner(4))
    net.run(S)
    assert not joining.core.is_voter
    reply = ask(net, leader, add_request())
    assert reply is not None
    assert reply.error == 0
    net.run(S)
    for replica in net.replicas.values():
        assert voters(replica) == (1, 2, 3, 4)
    assert joining.core.is_voter
    assert joining.role is RoleName.FOLLOWER
    entry = leader.core.log.voters.last.get(4)
    assert entry == Voter(ReplicaKey(4, directory(4)), voter(4).endpoints, VersionRange(0, 1))


def test_the_new_set_counts_from_its_append_and_the_answer_waits_for_its_commit() -> None:
    """Three of four must have it: the joiner itself is one of them."""
    net, leader = led()
    joining = net.add(joiner(4))
    net.run(S)
    slow = others(net, leader, joining)
    for node in slow:
        node.auto_flush = False
    assert ask(net, leader, add_request()) is None
    assert voters(leader) == (1, 2, 3, 4)
    net.run(200 * MS)
    token = net.last_token
    assert token not in net.answers  # two of four have it
    slow[0].auto_flush = True
    slow[0].flush()
    net.run(10 * MS)
    assert net.answers[token].error == 0


def test_the_answer_need_not_wait_for_the_commit() -> None:
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    for node in net.replicas.values():
        node.auto_flush = False
    reply = ask(net, leader, add_request(ack_when_committed=False))
    assert reply is not None
    assert reply.error == 0
    busy = ask(net, leader, remove_request(4))
    assert busy is not None
    assert busy.error == ErrorCode.REQUEST_TIMED_OUT  # the change is still under way


def test_an_addition_that_takes_too_long_is_answered_and_may_happen_all_the_same() -> None:
    net, leader = led()
    joining = net.add(joiner(4))
    net.run(S)
    slow = others(net, leader, joining)
    for node in slow:
        node.auto_flush = False
    assert ask(net, leader, add_request()) is None
    token = net.last_token
    net.run(1900 * MS)
    assert token not in net.answers
    net.run(200 * MS)
    assert net.answers[token].error == ErrorCode.REQUEST_TIMED_OUT
    assert voters(leader) == (1, 2, 3, 4)


def test_an_addition_whose_leader_resigns() -> None:
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    for node in net.replicas.values():
        node.auto_flush = False
    assert ask(net, leader, add_request()) is None
    leader.step(ev.ResignRequested(leader.core.epoch))
    assert net.answers[net.last_token].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


Arrange = Callable[[Network, Replica], None]


def _pending(net: Network, leader: Replica) -> None:
    for node in others(net, leader):
        node.auto_flush = False
    net.ask(leader.config.node_id, remove_request(others(net, leader)[0].config.node_id))


def _unknown_high_watermark(net: Network, leader: Replica) -> None:
    leader.core.high_watermark = -1


def _kraft_version_0(net: Network, leader: Replica) -> None:
    leader.core.log.kraft_versions.replace([])


def _uncommitted_voters(net: Network, leader: Replica) -> None:
    last = leader.core.log.voters.last
    leader.core.log.voters.add(leader.core.high_watermark, last)


def _no_voters_record(net: Network, leader: Replica) -> None:
    leader.core.log.voters.replace([])


def _busy_connection(net: Network, leader: Replica) -> None:
    node = voter(4).node("CONTROLLER")
    assert node is not None
    leader.core.ask(node, ms.ApiVersions())


def nothing(net: Network, leader: Replica) -> None:
    pass


# In Kafka's order of checks: name → (changes, arrangement, error)
ADD: dict[str, tuple[dict[str, Any], Arrange, int]] = {
    "another cluster": ({"cluster_id": "x"}, nothing, 104),
    "no id": ({"voter_id": -1}, nothing, 42),
    "no directory": ({"voter_directory_id": ZERO_UUID}, nothing, 42),
    "no endpoint of the controllers' listener": (
        {"endpoints": (Endpoint("OTHER", "h", 1),)},
        nothing,
        42,
    ),
    "the listener is looked at first": ({"endpoints": ()}, _pending, 42),
    "another change": ({}, _pending, 7),
    "nothing committed in this epoch": ({}, _unknown_high_watermark, 7),
    "kraft.version 0": ({}, _kraft_version_0, 35),
    "the last change is not committed": ({}, _uncommitted_voters, 7),
    "the voters stand nowhere": ({}, _no_voters_record, 7),
    "a voter already": ({"voter_id": 2, "voter_directory_id": directory(2)}, nothing, 126),
    "a voter's id, another directory": (
        {"voter_id": 2, "voter_directory_id": directory(2, 1)},
        nothing,
        126,
    ),
    "it cannot be asked now": ({}, _busy_connection, 7),
}


@pytest.mark.parametrize("name", ADD)
def test_additions_that_are_refused(name: str) -> None:
    changes, arrange, error = ADD[name]
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    arrange(net, leader)
    before = voters(leader)
    reply = ask(net, leader, add_request(**changes))
    assert reply is not None
    assert (reply.error or reply.top_error) == error
    assert voters(leader) == before


def test_only_the_leader_changes_voters() -> None:
    net, leader = led()
    follower = others(net, leader)[0]
    for request in (add_request(), remove_request(leader.config.node_id)):
        reply = ask(net, follower, request)
        assert reply is not None
        assert reply.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def _answer_api_versions(**fields: Any) -> ms.Reply | None:
    """Add node 4, let it answer ApiVersions so, and return the answer to the addition."""
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    net.cut = {(4, leader.config.node_id), (leader.config.node_id, 4)}
    assert ask(net, leader, add_request()) is None
    sent = [e for e in leader.effects if isinstance(e, fx.Ask)][-1]
    assert isinstance(sent.request, ms.ApiVersions)
    leader.step(ev.ReplyReceived(sent.request_id, ms.ApiVersionsReply(**fields)))
    net.settle()
    taken = fields.get("kraft_versions") == (0, 1)
    assert voters(leader) == ((1, 2, 3, 4) if taken else (1, 2, 3))
    return net.answers.get(net.last_token)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error": 35}, 7),
        ({"top_error": 35}, 7),
        ({"kraft_versions": None}, 42),
        ({"kraft_versions": VersionRange(0, 0)}, 42),
        ({"kraft_versions": VersionRange(2, 3)}, 42),
        ({"kraft_versions": VersionRange(0, 1)}, 0),
    ],
)
def test_what_the_joiner_must_speak(fields: dict[str, Any], error: int) -> None:
    reply = _answer_api_versions(**fields)
    assert reply is not None
    assert reply.error == error


def test_a_joiner_that_never_fetched_is_not_caught_up() -> None:
    net, leader = led()
    assert ask(net, leader, add_request()) is None  # nobody there has fetched at all
    sent = [e for e in leader.effects if isinstance(e, fx.Ask)][-1]
    versions = ms.ApiVersionsReply(kraft_versions=VersionRange(0, 1))
    leader.step(ev.ReplyReceived(sent.request_id, versions))
    answer = net.answers[net.last_token]
    assert isinstance(answer, ms.AddVoterReply)
    assert answer.error == ErrorCode.REQUEST_TIMED_OUT
    assert "caught up" in str(answer.message)


def test_a_joiner_that_fetched_an_hour_ago_is_not_caught_up() -> None:
    net, leader = led()
    joining = net.add(joiner(4))
    net.run(S)
    joining.crash()
    net.run(250 * S)
    progress = leader.leading.observers[ReplicaKey(4, directory(4))]
    membership = leader.leading.membership
    assert membership._is_caught_up(progress.key)
    progress.fetched_us -= 3600 * S
    assert not membership._is_caught_up(progress.key)


def test_a_joiner_that_does_not_answer() -> None:
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    net.cut = {(4, leader.config.node_id), (leader.config.node_id, 4)}
    assert ask(net, leader, add_request()) is None
    sent = [e for e in leader.effects if isinstance(e, fx.Ask)][-1]
    leader.step(ev.RequestFailed(sent.request_id))
    assert net.answers[net.last_token].error == ErrorCode.REQUEST_TIMED_OUT


# ---- RemoveRaftVoter ---------------------------------------------------------------------------


def test_a_follower_is_removed_and_goes_on_as_observer() -> None:
    net, leader = led()
    gone = others(net, leader)[0]
    reply = ask(net, leader, remove_request(gone.config.node_id))
    assert reply is not None
    assert reply.error == 0
    net.run(S)
    assert gone.config.node_id not in voters(leader)
    assert not gone.core.is_voter
    assert gone.role is RoleName.FOLLOWER
    net.isolate(gone.config.node_id)
    net.run(30 * S)
    assert RoleName.PROSPECTIVE not in [to for *_, to in gone.moves]
    assert net.leader is leader


def test_a_leader_that_removes_itself_resigns_once_that_is_committed() -> None:
    net, leader = led()
    own_id = leader.config.node_id
    reply = ask(net, leader, remove_request(own_id))
    assert reply is not None
    assert reply.error == 0
    assert [to for *_, to in leader.moves][-1] is RoleName.RESIGNED
    net.run(3 * S)
    new = net.leader
    assert new is not None
    assert new is not leader
    assert voters(new) == tuple(n for n in (1, 2, 3) if n != own_id)
    assert not leader.core.is_voter
    assert leader.role is RoleName.FOLLOWER


def test_it_resigns_as_well_once_the_request_has_timed_out() -> None:
    """Apache Kafka 4.3.1 leads on; `kraftspec simulate --seed 1140 --events 2000` met it."""
    net, leader = led(request_timeout_us=300 * MS)
    followers = others(net, leader)
    for follower in followers:
        follower.auto_flush = False
    assert ask(net, leader, remove_request(leader.config.node_id)) is None
    token = net.last_token
    net.run(400 * MS)
    assert net.answers[token].error == ErrorCode.REQUEST_TIMED_OUT
    assert leader.role is RoleName.LEADER
    for follower in followers:
        follower.auto_flush = True
        follower.flush()
    net.run(3 * S)
    assert net.leader in followers
    assert not leader.core.is_voter


def test_meanwhile_it_does_not_count_itself() -> None:
    """Two of the other two must have the record, and both must fetch for its quorum."""
    net, leader = led()
    first, second = others(net, leader)
    first.auto_flush = second.auto_flush = False
    assert ask(net, leader, remove_request(leader.config.node_id)) is None
    token = net.last_token
    first.auto_flush = True
    first.flush()
    net.run(300 * MS)
    assert token not in net.answers  # the leader and one follower: one of two voters
    second.auto_flush = True
    second.flush()
    net.run(10 * MS)
    assert net.answers[token].error == 0


def test_nor_for_its_quorum() -> None:
    """Of the two voters that are left both must fetch, or it resigns (KAFKA-15489)."""
    net, leader = led()
    silent, fetching = others(net, leader)
    silent.crash()
    assert ask(net, leader, remove_request(leader.config.node_id)) is None
    net.run(2500 * MS)
    assert leader.role is RoleName.LEADER
    net.run(1000 * MS)
    assert [to for *_, to in leader.moves][-1] is not RoleName.LEADER
    assert fetching.core.log.voters.last.ids == voters(leader)


REMOVE: dict[str, tuple[dict[str, Any], Arrange, int]] = {
    "another cluster": ({"cluster_id": "x"}, nothing, 104),
    "no id": ({"voter_id": -1}, nothing, 42),
    "no directory": ({"voter_directory_id": ZERO_UUID}, nothing, 42),
    "another change": ({}, _pending, 7),
    "nothing committed in this epoch": ({}, _unknown_high_watermark, 7),
    "kraft.version 0": ({}, _kraft_version_0, 35),
    "the last change is not committed": ({}, _uncommitted_voters, 7),
    "no voter": ({"voter_id": 9}, nothing, 127),
    "another directory": ({"voter_directory_id": directory(2, 1)}, nothing, 127),
}


@pytest.mark.parametrize("name", REMOVE)
def test_removals_that_are_refused(name: str) -> None:
    changes, arrange, error = REMOVE[name]
    net, leader = led()
    arrange(net, leader)
    before = voters(leader)
    reply = ask(net, leader, remove_request(2, **changes))
    assert reply is not None
    assert (reply.error or reply.top_error) == error
    assert voters(leader) == before


def test_the_last_voter_stays() -> None:
    net, leader = led(1)
    reply = ask(net, leader, remove_request(1))
    assert isinstance(reply, ms.RemoveVoterReply)
    key = leader.core.config.key
    message = f"id 1 with directory {key.directory_id} is no voter that can be removed"
    assert (reply.error, reply.message) == (ErrorCode.VOTER_NOT_FOUND, message)


def test_a_quorum_grows_from_one_to_three_and_shrinks_again() -> None:
    net, leader = led(1)
    for node_id in (2, 3):
        net.add(joiner(node_id, servers=1))
        net.run(S)
        reply = ask(net, leader, add_request(node_id))
        assert reply is not None
        assert reply.error == 0
    net.run(S)
    leader.crash()
    new = net.elect()
    assert voters(new) == (1, 2, 3)
    leader.restart()
    net.run(2 * S)
    for node_id in (n for n in (1, 2, 3) if n != new.config.node_id):
        reply = ask(net, new, remove_request(node_id))
        assert reply is not None
        assert reply.error == 0
        net.run(S)
    assert voters(new) == (new.config.node_id,)
    for replica in others(net, new):
        replica.crash()
    new.step(ev.AppendRequested(1, new.core.epoch, (b"alone",)))
    net.run(S)
    assert new.core.high_watermark == new.core.log.end_offset


def test_who_led_alone_has_time_to_hear_from_the_second_voter() -> None:
    """An observer's fetch begins the time of Check Quorum, which ran out long ago otherwise."""
    net, leader = led(1)
    joining = net.add(joiner(2, servers=1))
    net.run(10 * S)
    net.cut.add((2, 1))
    net.run(600 * MS)  # Its fetch is answered, and the next one is lost.
    net.cut.clear()
    ask(net, leader, add_request(2))
    assert voters(leader) == (1, 2)
    joining.crash()
    net.run(2 * S)
    assert leader.role is RoleName.LEADER
    net.run(2 * S)
    assert [to for *_, to in leader.moves][-1] is not RoleName.LEADER


def test_a_set_that_is_truncated_gives_way_to_the_one_before() -> None:
    net, leader = led()
    net.add(joiner(4))
    net.run(S)
    net.isolate(leader.config.node_id)
    net.cut -= {(leader.config.node_id, 4), (4, leader.config.node_id)}
    assert ask(net, leader, add_request()) is None
    joining = net.replicas[4]
    net.run(500 * MS)
    assert voters(leader) == voters(joining) == (1, 2, 3, 4)
    assert joining.core.is_voter
    net.isolate(4)
    net.run(10 * S)
    new = next(r for r in others(net, leader, joining) if r.role is RoleName.LEADER)
    assert voters(new) == (1, 2, 3)
    net.heal()
    net.run(5 * S)
    for replica in net.replicas.values():
        assert voters(replica) == (1, 2, 3)
    assert not joining.core.is_voter
