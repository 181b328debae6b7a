"""Who is granted a vote: each role, standard votes and pre-votes, and every refusal in its order.

Expectations are from KIP-595, KIP-853 and KIP-996, and from what Apache Kafka 4.3.1 does.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.raft.network import CLUSTER, Network, Replica, directory, quorum

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS
from kraftspec.reference.raft.types import ElectionState, ReplicaKey


def vote(**changes: Any) -> ms.Vote:
    """Return what node 2 asks in epoch 5, with a log that nobody's exceeds."""
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "epoch": 5,
        "replica_id": 2,
        "replica_directory_id": directory(2),
        "voter_id": 1,
        "voter_directory_id": directory(1),
        "last_epoch": 4,
        "end_offset": 100,
        "pre_vote": False,
    }
    return ms.Vote(**{**values, **changes})


def alone(election: ElectionState | None = None) -> tuple[Network, Replica]:
    """Return node 1 of three, which hears nobody."""
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    if election is not None:
        node.crash()
        node.disk.election = election
        node.restart()
    return net, node


def ask(net: Network, request: ms.Vote) -> ms.VoteReply:
    reply = net.ask(1, request)
    assert isinstance(reply, ms.VoteReply)
    return reply


def in_role(role: RoleName, *, fetched: bool = True) -> tuple[Network, Replica]:
    """Return node 1 in this role, in epoch 5 (a prospective stays in its own)."""
    if role is RoleName.UNATTACHED:
        return alone(ElectionState(5))
    if role is RoleName.RESIGNED:
        return alone(ElectionState(5, 1))
    if role is RoleName.FOLLOWER:
        net, node = alone(ElectionState(5, 3))
        if fetched:
            _answer_fetch(net, node, 5, 3)
        return net, node
    if role is RoleName.CANDIDATE:
        return alone(ElectionState(5, -1, ReplicaKey(1, directory(1))))
    net, node = alone(ElectionState(5 if role is RoleName.PROSPECTIVE else 4))
    net.run(2000 * MS)
    assert node.role is RoleName.PROSPECTIVE
    if role is RoleName.LEADER:
        for pre_vote in (True, False):
            _grant(net, node, pre_vote=pre_vote)
    return net, node


def _answer_fetch(net: Network, node: Replica, epoch: int, leader_id: int) -> None:
    requests = [
        e for e in node.effects if isinstance(e, fx.Ask) and isinstance(e.request, ms.Fetch)
    ]
    reply = ms.FetchReply(leader_id=leader_id, leader_epoch=epoch)
    node.step(ev.ReplyReceived(requests[-1].request_id, reply))


def _grant(net: Network, node: Replica, *, pre_vote: bool) -> None:
    requests = [
        e
        for e in node.effects
        if isinstance(e, fx.Ask)
        and isinstance(e.request, ms.Vote)
        and e.request.pre_vote is pre_vote
    ]
    epoch = node.core.epoch
    node.step(
        ev.ReplyReceived(
            requests[-1].request_id, ms.VoteReply(leader_epoch=epoch, vote_granted=True)
        )
    )
    net.settle()


# role → granted a standard vote, granted a pre-vote; the asking log is as good as it can be
BY_ROLE = {
    RoleName.UNATTACHED: (True, True),
    RoleName.PROSPECTIVE: (True, True),
    RoleName.CANDIDATE: (False, True),
    RoleName.RESIGNED: (False, True),
    RoleName.FOLLOWER: (False, False),
    RoleName.LEADER: (False, False),
}


@pytest.mark.parametrize("role", list(RoleName))
@pytest.mark.parametrize("pre_vote", [False, True])
def test_each_role(role: RoleName, pre_vote: bool) -> None:
    net, node = in_role(role)
    assert (node.role, node.core.epoch) == (role, 5)
    reply = ask(net, vote(pre_vote=pre_vote))
    assert (reply.error, reply.top_error) == (0, 0)
    assert reply.vote_granted is BY_ROLE[role][pre_vote]
    assert node.role is role
    assert reply.leader_epoch == node.core.epoch == 5


@pytest.mark.parametrize("role", list(RoleName))
@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_log_that_lags_is_granted_nothing(role: RoleName, pre_vote: bool) -> None:
    """Raft §5.4.1. Offsets count only where the last epochs are equal."""
    net, node = in_role(role)
    node.core.log.end_offset, node.core.log.last_epoch = 100, 4
    assert not ask(net, vote(pre_vote=pre_vote, end_offset=99)).vote_granted
    assert not ask(net, vote(pre_vote=pre_vote, last_epoch=3, end_offset=1000)).vote_granted
    granted = ask(net, vote(pre_vote=pre_vote, end_offset=100)).vote_granted
    assert granted is BY_ROLE[role][pre_vote]


def test_a_later_last_epoch_beats_a_longer_log() -> None:
    net, node = in_role(RoleName.UNATTACHED)
    node.core.log.end_offset, node.core.log.last_epoch = 100, 3
    assert ask(net, vote(last_epoch=4, end_offset=1)).vote_granted


def test_a_follower_that_has_not_fetched_yet_grants_a_pre_vote() -> None:
    """As shipped: a leader that nobody has heard from may be dead already."""
    net, node = in_role(RoleName.FOLLOWER, fetched=False)
    assert ask(net, vote(pre_vote=True)).vote_granted
    assert not ask(net, vote(pre_vote=False)).vote_granted
    _answer_fetch(net, node, 5, 3)
    assert not ask(net, vote(pre_vote=True)).vote_granted


@pytest.mark.parametrize("role", [RoleName.UNATTACHED, RoleName.PROSPECTIVE])
def test_one_vote_an_epoch(role: RoleName) -> None:
    net, node = in_role(role)
    assert ask(net, vote()).vote_granted
    assert node.disk.election is not None
    assert node.disk.election.voted == ReplicaKey(2, directory(2))
    assert not ask(net, vote(replica_id=3, replica_directory_id=directory(3))).vote_granted
    assert not ask(net, vote(replica_directory_id=directory(2, 1))).vote_granted  # another disk
    written = len([e for e in node.effects if isinstance(e, fx.PersistElection)])
    assert ask(net, vote()).vote_granted  # the same one, again
    assert ask(net, vote(replica_id=3, pre_vote=True)).vote_granted  # binds to nothing
    assert len([e for e in node.effects if isinstance(e, fx.PersistElection)]) == written


def test_a_vote_survives_a_crash() -> None:
    net, node = in_role(RoleName.UNATTACHED)
    assert ask(net, vote()).vote_granted
    node.crash()
    node.restart()
    assert not ask(net, vote(replica_id=3, replica_directory_id=directory(3))).vote_granted
    assert ask(net, vote()).vote_granted


def test_a_vote_whose_directory_nobody_knew_is_kept_for_the_id() -> None:
    net, _ = alone(ElectionState(5, -1, ReplicaKey(2, ZERO_UUID)))
    assert ask(net, vote()).vote_granted
    assert not ask(net, vote(replica_id=3)).vote_granted


def test_a_known_leader_takes_the_place_of_a_vote() -> None:
    """Unattached with a leader whose address is not known: the epoch has its leader."""
    net, node = alone(ElectionState(5, 9))
    assert node.role is RoleName.UNATTACHED
    assert node.core.leader_id == 9
    assert not ask(net, vote()).vote_granted
    assert ask(net, vote(pre_vote=True)).vote_granted


def test_the_vote_is_written_before_the_answer_leaves() -> None:
    _, node = in_role(RoleName.UNATTACHED)
    effects = node.step(ev.RequestReceived(-99, vote(epoch=6, last_epoch=5)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(fx.Answer) > max(
        i for i, kind in enumerate(kinds) if kind is fx.PersistElection
    )
    states = [e.state for e in effects if isinstance(e, fx.PersistElection)]
    assert states == [ElectionState(6), ElectionState(6, -1, ReplicaKey(2, directory(2)))]


@pytest.mark.parametrize("role", list(RoleName))
@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_higher_epoch_is_taken_over_even_from_a_pre_vote(role: RoleName, pre_vote: bool) -> None:
    net, node = in_role(role)
    assert ask(net, vote(epoch=6, last_epoch=5, pre_vote=pre_vote)).vote_granted
    assert (node.role, node.core.epoch) == (RoleName.UNATTACHED, 6)
    assert node.disk.election is not None
    assert node.disk.election.epoch == 6


# request → (error, whether it is of the whole request, epoch after it)
REFUSALS: dict[str, tuple[dict[str, Any], int, bool, int]] = {
    "another cluster": ({"cluster_id": "other", "epoch": 9}, 104, True, 5),
    "another topic": ({"refused": 42, "epoch": 9}, 42, True, 5),
    "another cluster comes first": ({"cluster_id": "other", "refused": 42}, 104, True, 5),
    "negative end offset": ({"end_offset": -1, "epoch": 9}, 42, False, 5),
    "negative last epoch": ({"last_epoch": -1, "epoch": 9}, 42, False, 5),
    "last epoch equal to the epoch": ({"last_epoch": 9, "epoch": 9}, 42, False, 5),
    "last epoch above the epoch": ({"last_epoch": 6}, 42, False, 5),
    "illegal before fenced": ({"end_offset": -1, "epoch": 1}, 42, False, 5),
    "lower epoch": ({"epoch": 4, "last_epoch": 3}, 74, False, 5),
    "lower epoch, no id": ({"epoch": 4, "last_epoch": 3, "replica_id": -1}, 74, False, 5),
    "no id": ({"replica_id": -1, "epoch": 9}, 42, False, 5),
    "another voter's id": ({"voter_id": 3}, 125, False, 5),
    "another directory": ({"voter_directory_id": directory(1, 1)}, 125, False, 5),
    "wrong key of a higher epoch": ({"voter_id": 3, "epoch": 9}, 125, False, 9),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_in_their_order(name: str) -> None:
    changes, error, whole, epoch = REFUSALS[name]
    net, node = in_role(RoleName.UNATTACHED)
    reply = ask(net, vote(**changes))
    assert (reply.error, reply.top_error) == ((0, error) if whole else (error, 0))
    assert not reply.vote_granted
    assert node.core.epoch == epoch
    assert node.core.voted is None


def test_a_pre_vote_may_have_its_last_epoch_as_epoch() -> None:
    """Who asks for a pre-vote has not bumped its epoch (KIP-996)."""
    net, _ = in_role(RoleName.UNATTACHED)
    assert ask(net, vote(last_epoch=5, pre_vote=True)).vote_granted
    assert ask(net, vote(last_epoch=6, pre_vote=True)).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("key", [{}, {"voter_directory_id": ZERO_UUID}, {"voter_id": -1}])
def test_a_key_that_is_not_known_passes(key: dict[str, Any]) -> None:
    net, _ = in_role(RoleName.UNATTACHED)
    assert ask(net, vote(**key)).vote_granted


def test_no_cluster_id_is_accepted_and_nobody_asks_whether_the_sender_votes() -> None:
    net, _ = in_role(RoleName.UNATTACHED)
    assert ask(net, vote(cluster_id=None, replica_id=77)).vote_granted


def test_a_refusal_tells_the_leader_and_where_it_is() -> None:
    net, node = in_role(RoleName.FOLLOWER)
    reply = ask(net, vote(epoch=4, last_epoch=3))
    assert reply.error == ErrorCode.FENCED_LEADER_EPOCH
    assert (reply.leader_id, reply.leader_epoch) == (3, 5)
    assert reply.leader_endpoints == node.core.leader_endpoints != ()
