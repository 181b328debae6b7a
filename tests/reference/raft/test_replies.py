"""Replies that are no good: their sender is left alone for the retry backoff, and that is all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.raft.network import Network, Replica, directory, formatted, joiner

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import FatalError, RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.types import Node


def led() -> tuple[Network, Replica, Replica]:
    """Return a quorum, its leader, and a follower that awaits nothing."""
    net = formatted(3)
    leader = net.elect()
    follower = next(r for r in net.replicas.values() if r is not leader)
    return net, leader, follower


PEER = Node(77, "somewhere", 9077)
REQUESTS: dict[type[ms.Reply], ms.Request] = {
    ms.VoteReply: ms.Vote(epoch=1, replica_id=1, last_epoch=0, end_offset=0),
    ms.BeginEpochReply: ms.BeginEpoch(leader_id=1, leader_epoch=1),
    ms.EndEpochReply: ms.EndEpoch(leader_id=1, leader_epoch=1),
    ms.FetchReply: ms.Fetch(replica_id=1, leader_epoch=1, fetch_offset=0, last_fetched_epoch=0),
    ms.FetchSnapshotReply: ms.FetchSnapshot(
        replica_id=1,
        leader_epoch=1,
        snapshot_end_offset=1,
        snapshot_epoch=1,
        position=0,
        max_bytes=1,
    ),
    ms.UpdateVoterReply: ms.UpdateVoter(
        leader_epoch=1, voter_id=1, voter_directory_id=directory(1)
    ),
    ms.AddVoterReply: ms.AddVoter(voter_id=1, voter_directory_id=directory(1)),
    ms.RemoveVoterReply: ms.RemoveVoter(voter_id=1, voter_directory_id=directory(1)),
}


def answer(node: Replica, kind: type[ms.Reply], **fields: Any) -> bool:
    """Give a node this answer of a non-voter; return whether that one is left alone for a while."""
    core = node.core
    core.effects = []
    core.ask(PEER, REQUESTS[kind])
    (ask,) = core.effects
    assert isinstance(ask, fx.Ask)
    values = {"leader_id": core.leader_id, "leader_epoch": core.epoch, **fields}
    if kind is ms.FetchSnapshotReply:
        values |= {"snapshot_end_offset": 0, "snapshot_epoch": 0}  # As an error has it on the wire.
    core.step(ev.ReplyReceived(ask.request_id, kind(**values)), node.net.now_us)
    return core.connections.backing_off(PEER.id, node.net.now_us)


@pytest.mark.parametrize("kind", list(REQUESTS))
@pytest.mark.parametrize(
    "fields", [{"error": -1}, {"error": 8}, {"error": 6}], ids=["unknown", "leaving", "no leader"]
)
def test_errors_are_a_reason_to_wait(kind: type[ms.Reply], fields: dict[str, int]) -> None:
    _, _, follower = led()
    before = (follower.role, follower.core.epoch, follower.core.log.end_offset)
    assert answer(follower, kind, **fields)
    assert (follower.role, follower.core.epoch, follower.core.log.end_offset) == before


@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind is not ms.UpdateVoterReply])
@pytest.mark.parametrize("error", [-1, 8, 35, 104])
def test_errors_of_the_whole_request_too(kind: type[ms.Reply], error: int) -> None:
    _, _, follower = led()
    assert answer(follower, kind, top_error=error)


@pytest.mark.parametrize(
    "kind",
    [ms.VoteReply, ms.BeginEpochReply, ms.EndEpochReply, ms.FetchReply, ms.FetchSnapshotReply],
)
def test_who_may_not_ask_stops(kind: type[ms.Reply]) -> None:
    _, _, follower = led()
    with pytest.raises(FatalError, match="authorized"):
        answer(follower, kind, top_error=31)


@pytest.mark.parametrize("kind", [ms.VoteReply, ms.BeginEpochReply, ms.EndEpochReply])
def test_a_good_answer_to_a_role_that_is_over_changes_nothing(kind: type[ms.Reply]) -> None:
    _, leader, follower = led()
    for node in (leader, follower):
        before = (node.role, node.core.epoch)
        assert not answer(node, kind)
        assert (node.role, node.core.epoch) == before


@pytest.mark.parametrize("kind", [ms.FetchReply, ms.FetchSnapshotReply])
def test_records_for_a_node_that_follows_nobody_are_dropped(kind: type[ms.Reply]) -> None:
    _, leader, _ = led()
    end = leader.core.log.end_offset
    assert answer(leader, kind)
    assert leader.core.log.end_offset == end


def test_a_voter_key_that_is_not_the_receivers_is_asked_for_again_later() -> None:
    _, leader, _ = led()
    assert answer(leader, ms.BeginEpochReply, error=int(ErrorCode.INVALID_VOTER_KEY))
    assert leader.role is RoleName.LEADER


def test_half_a_snapshot_id_is_none() -> None:
    _, _, follower = led()
    assert answer(follower, ms.FetchReply, snapshot_epoch=3)
    assert answer(follower, ms.FetchReply, snapshot_end_offset=3)
    assert follower.following.fetching is None


@pytest.mark.parametrize(
    ("kind", "error", "good"),
    [
        (ms.AddVoterReply, 0, True),
        (ms.AddVoterReply, 7, True),
        (ms.AddVoterReply, 126, True),
        (ms.AddVoterReply, 127, False),
        (ms.RemoveVoterReply, 0, True),
        (ms.RemoveVoterReply, 7, True),
        (ms.RemoveVoterReply, 127, True),
        (ms.RemoveVoterReply, 126, False),
        (ms.UpdateVoterReply, 0, True),
        (ms.UpdateVoterReply, 35, True),
        (ms.UpdateVoterReply, 7, False),
    ],
)
def test_answers_about_the_voter_set(kind: type[ms.Reply], error: int, good: bool) -> None:
    """Those that end the matter start a new period; the others are tried again (KIP-1186)."""
    net, _, _ = led()
    observer = net.add(joiner(4))
    net.run(S)
    role = observer.following
    role.update_deadline_us = 0
    assert answer(observer, kind, error=error) is not good
    if kind is ms.UpdateVoterReply:
        assert role.has_updated_leader is good


def test_an_update_that_the_leader_does_not_know_is_not_repeated() -> None:
    _, leader, follower = led()
    core = follower.core
    core.effects = []
    core.ask(PEER, REQUESTS[ms.UpdateVoterReply])
    (ask,) = core.effects
    assert isinstance(ask, fx.Ask)
    core.step(ev.RequestFailed(ask.request_id, unsupported=True), follower.net.now_us)
    assert follower.following.has_updated_leader
    assert core.connections.backing_off(PEER.id, follower.net.now_us)
    assert leader.role is RoleName.LEADER


def test_the_backoff_is_over_after_its_time() -> None:
    net, _, follower = led()
    assert answer(follower, ms.VoteReply, error=-1)
    assert not follower.core.connections.backing_off(PEER.id, net.now_us + 20 * MS)
    assert follower.core.connections.ready(PEER.id, net.now_us + 20 * MS)
