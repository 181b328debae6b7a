"""What voters and joiners say of themselves: updates, the upgrade, auto-join, DescribeQuorum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reference.raft.changes import add_request, ask, led, others, remove_request, voters
from tests.reference.raft.network import (
    CLUSTER,
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
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import S
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet

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


def nothing(net: Network, leader: Replica) -> None:
    pass


# ---- UpdateRaftVoter ---------------------------------------------------------------------------


def moved(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", f"moved{node_id}", 9000 + node_id),)


def test_the_order_of_listeners_says_nothing() -> None:
    """A leader of Apache Kafka may write them in another one: to tell it again would never end."""
    listeners = (Endpoint("A", "localhost", 1), Endpoint("B", "localhost", 2))
    known = Voter(ReplicaKey(1, directory(1)), listeners)
    known_set = VoterSet([known])
    assert not known_set.needs_update(Voter(known.key, listeners[::-1]))
    assert known_set.needs_update(Voter(known.key, listeners[:1]))
    assert known_set.needs_update(Voter(known.key, listeners, VersionRange(0, 1)))


def test_a_voter_that_moved_tells_its_leader() -> None:
    net, leader = led()
    node = others(net, leader)[0]
    node.crash()
    node.config = config(
        node.config.node_id, VoterSet(), **_contacts(node), endpoints=moved(node.config.node_id)
    )
    node.restart()
    net.run(5 * S)
    for replica in net.replicas.values():
        entry = replica.core.log.voters.last.get(node.config.node_id)
        assert entry is not None
        assert entry.endpoints == node.config.endpoints
    updates = [r for _, _, r in net.sent if isinstance(r, ms.UpdateVoter)]
    assert len(updates) == 1  # it is told once


def _contacts(node: Replica) -> dict[str, Any]:
    return {"bootstrap_servers": node.config.bootstrap_servers}


def update_request(leader: Replica, **changes: Any) -> ms.UpdateVoter:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "leader_epoch": leader.core.epoch,
        "voter_id": 2,
        "voter_directory_id": directory(2),
        "endpoints": moved(2),
        "kraft_versions": VersionRange(0, 1),
    }
    return ms.UpdateVoter(**{**values, **changes})


UPDATE: dict[str, tuple[dict[str, Any], Arrange, int]] = {
    "another cluster": ({"cluster_id": "x"}, nothing, 104),
    "lower epoch": ({"leader_epoch": 0}, nothing, 74),
    "higher epoch": ({"leader_epoch": 9}, nothing, 75),
    "no id": ({"voter_id": -1}, nothing, 42),
    "no directory": ({"voter_directory_id": ZERO_UUID}, nothing, 42),
    "no endpoint of the controllers' listener": ({"endpoints": ()}, nothing, 42),
    "negative version": ({"kraft_versions": VersionRange(-1, 1)}, nothing, 42),
    "versions the wrong way round": ({"kraft_versions": VersionRange(1, 0)}, nothing, 42),
    "a malformed one while a change is under way": (
        {"kraft_versions": VersionRange(1, 0)},
        _pending,
        42,
    ),
    "another change": ({}, _pending, 7),
    "nothing committed in this epoch": ({}, _unknown_high_watermark, 7),
    "the last change is not committed": ({}, _uncommitted_voters, 7),
    "the version in force is not spoken": ({"kraft_versions": VersionRange(0, 0)}, nothing, 42),
    "no voter": ({"voter_id": 9}, nothing, 127),
    "another directory": ({"voter_directory_id": directory(2, 1)}, nothing, 127),
    "taken": ({}, nothing, 0),
}


@pytest.mark.parametrize("name", UPDATE)
def test_updates(name: str) -> None:
    changes, arrange, error = UPDATE[name]
    net, leader = led()
    arrange(net, leader)
    before = leader.core.log.voters.last
    reply = ask(net, leader, update_request(leader, **changes))
    assert reply is not None
    assert (reply.error or reply.top_error) == error
    assert (reply.leader_id, reply.leader_epoch) == (leader.config.node_id, leader.core.epoch)
    after = leader.core.log.voters.last
    if error:
        assert after == before
    else:
        assert after == before.with_voter(
            Voter(ReplicaKey(2, directory(2)), moved(2), VersionRange(0, 1))
        )


# ---- kraft.version 0 and the upgrade ----------------------------------------------------------


def upgrade(node: Replica, level: int = 1, **changes: Any) -> fx.UpgradeAnswered:
    values = {"upgrade_id": 5, "epoch": node.core.epoch, "level": level, **changes}
    effects = node.step(ev.UpgradeRequested(**values))
    return next(e for e in effects if isinstance(e, fx.UpgradeAnswered))


def test_with_kraft_version_0_each_voter_tells_each_leader_once() -> None:
    net = quorum(3)
    leader = net.elect()
    net.run(10 * S)
    updates = [source for source, _, r in net.sent if isinstance(r, ms.UpdateVoter)]
    assert sorted(updates) == sorted(r.config.node_id for r in others(net, leader))
    volatile = leader.leading.membership.volatile_voters
    assert volatile == VoterSet(voter(n) for n in (1, 2, 3))
    assert leader.core.log.voters.last_offset is None


def test_the_upgrade_writes_down_what_was_in_memory() -> None:
    net = quorum(3)
    leader = net.elect()
    early = upgrade(leader)
    assert early.error == ErrorCode.INVALID_UPDATE_VERSION  # two voters are not known yet
    net.run(5 * S)
    end = leader.core.log.end_offset
    assert upgrade(leader, validate_only=True).error == 0
    assert leader.core.log.end_offset == end
    assert upgrade(leader).error == 0
    records = [record for _, record in leader.disk.batches[-1].control]
    assert records == [KRaftVersion(1), Voters(VoterSet(voter(n) for n in (1, 2, 3)))]
    net.run(S)
    for replica in net.replicas.values():
        assert replica.core.log.kraft_versions.last == 1
        assert replica.core.is_voter
    net.add(joiner(4))
    net.run(S)
    reply = ask(net, leader, add_request())
    assert reply is not None
    assert reply.error == 0
    persisted = [e for r in net.replicas.values() for e in r.effects if _is_persist(e, 1)]
    assert not persisted  # quorum-state is written anew at the next election only
    leader.crash()
    net.elect()
    assert [e for r in net.replicas.values() for e in r.effects if _is_persist(e, 1)]


def _is_persist(effect: fx.Effect, level: int) -> bool:
    return isinstance(effect, fx.PersistElection) and effect.kraft_version == level


def test_upgrades_that_are_refused() -> None:
    net = quorum(3)
    leader = net.elect()
    net.run(5 * S)
    assert upgrade(leader, epoch=0).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert upgrade(leader, epoch=9).error == ErrorCode.INVALID_REQUEST
    assert upgrade(leader, level=2).error == ErrorCode.INVALID_UPDATE_VERSION
    assert upgrade(leader, level=0).error == 0  # it is 0
    assert upgrade(others(net, leader)[0]).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert upgrade(leader).error == 0
    assert upgrade(leader).error == 0  # on its way already
    assert upgrade(leader, level=2).error == ErrorCode.INVALID_UPDATE_VERSION
    net.run(S)
    leader.crash()
    new = net.elect()
    assert upgrade(new, level=0).error == ErrorCode.INVALID_UPDATE_VERSION  # no way back
    assert upgrade(new, level=1).error == 0


def test_one_old_voter_stops_the_upgrade() -> None:
    net = quorum(2)
    net.add(
        config(3, net.replicas[1].config.voters, kraft_versions=VersionRange(0, 0)),
    )
    voters3 = VoterSet(voter(n, named=False) for n in (1, 2, 3))
    net = Network()
    for node_id in (1, 2, 3):
        versions = VersionRange(0, 0 if node_id == 3 else 1)
        net.add(config(node_id, voters3, kraft_versions=versions))
    leader = net.elect()
    net.run(5 * S)
    assert upgrade(leader).error == ErrorCode.INVALID_UPDATE_VERSION


# ---- joining by itself (KIP-1186) --------------------------------------------------------------


def test_an_observer_with_auto_join_becomes_a_voter() -> None:
    net, leader = led()
    net.add(joiner(4, auto_join=True))
    net.run(6 * S)
    assert voters(leader) == (1, 2, 3, 4)
    adds = [r for source, _, r in net.sent if isinstance(r, ms.AddVoter) and source == 4]
    assert len(adds) == 1
    assert not adds[0].ack_when_committed


def test_a_replaced_disk_joins_under_its_new_directory() -> None:
    net, leader = led(auto_join=True)
    node = others(net, leader)[0]
    node_id = node.config.node_id
    node.crash()
    wiped = directory(node_id, 1)
    replaced = net.add(joiner(node_id, auto_join=True, directory_id=wiped), seed=99)
    net.run(12 * S)
    assert voters(leader) == (1, 2, 3)
    entry = leader.core.log.voters.last.get(node_id)
    assert entry is not None
    assert entry.key == ReplicaKey(node_id, wiped)
    assert replaced.core.is_voter
    kinds = [
        type(r).__name__
        for source, _, r in net.sent
        if source == node_id and isinstance(r, (ms.AddVoter, ms.RemoveVoter))
    ]
    assert kinds[-2:] == ["RemoveVoter", "AddVoter"]


@pytest.mark.parametrize("changes", [{}, {"auto_join": True, "can_become_voter": False}])
def test_an_observer_that_should_not_join_does_not(changes: dict[str, Any]) -> None:
    net, leader = led()
    net.add(joiner(4, **changes))
    net.run(10 * S)
    assert voters(leader) == (1, 2, 3)


def test_nobody_joins_by_itself_with_kraft_version_0() -> None:
    net = quorum(3)
    leader = net.elect()
    net.add(joiner(4, auto_join=True))
    net.run(10 * S)
    assert voters(leader) == (1, 2, 3)
    assert not [r for _, _, r in net.sent if isinstance(r, ms.AddVoter)]


# ---- DescribeQuorum ------------------------------------------------------------------------------


def test_describe_quorum() -> None:
    net, leader = led()
    observer = net.add(joiner(4))
    net.run(S)
    reply = ask(net, leader, ms.DescribeQuorum())
    assert isinstance(reply, ms.DescribeQuorumReply)
    assert (reply.error, reply.leader_id, reply.leader_epoch) == (0, leader.config.node_id, 1)
    assert reply.high_watermark == leader.core.high_watermark
    assert [d.key for d in reply.voters] == [ReplicaKey(n, directory(n)) for n in (1, 2, 3)]
    assert [d.key for d in reply.observers] == [observer.config.key]
    now_ms = net.now_us // 1000
    for description in (*reply.voters, *reply.observers):
        assert description.end_offset == leader.core.log.end_offset
        if description.key.id == leader.config.node_id:
            assert description.last_fetch_timestamp_ms == now_ms
            assert description.last_caught_up_timestamp_ms == now_ms
        else:
            assert now_ms - 500 <= description.last_fetch_timestamp_ms <= now_ms
            assert description.last_caught_up_timestamp_ms >= now_ms - 1000
    assert reply.voters[0].endpoints == voter(1).endpoints


def test_describe_quorum_of_others_and_of_another_topic() -> None:
    net, leader = led()
    reply = ask(net, others(net, leader)[0], ms.DescribeQuorum())
    assert reply is not None
    assert reply.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    reply = ask(net, leader, ms.DescribeQuorum(refused=3))
    assert reply is not None
    assert reply.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_observers_are_forgotten_after_five_minutes() -> None:
    net, leader = led()
    observer = net.add(joiner(4))
    net.run(S)
    observer.crash()
    net.run(299 * S)
    reply = ask(net, leader, ms.DescribeQuorum())
    assert isinstance(reply, ms.DescribeQuorumReply)
    assert len(reply.observers) == 1
    net.run(2 * S)
    reply = ask(net, leader, ms.DescribeQuorum())
    assert isinstance(reply, ms.DescribeQuorumReply)
    assert reply.observers == ()


def test_caught_up_means_having_had_everything_there_was() -> None:
    """At a fetch that has all: now. One that has what there was last time: last time (KIP-836)."""
    net, leader = led()
    progress = leader.leading._observer(ReplicaKey(8, directory(8)))
    progress.fetched(5, 10, 1000)
    assert progress.caught_up_us < 0
    progress.fetched(10, 15, 2000)
    assert progress.caught_up_us == 1000
    progress.fetched(15, 15, 3000)
    assert progress.caught_up_us == 3000
    progress.fetched(15, 20, 4000)
    assert progress.caught_up_us == 3000
    progress.fetched(16, 25, 5000)
    assert progress.caught_up_us == 3000
    assert net.leader is leader


def test_api_versions_tells_kraft_version() -> None:
    net, leader = led()
    reply = ask(net, leader, ms.ApiVersions())
    assert isinstance(reply, ms.ApiVersionsReply)
    assert reply.kraft_versions == (0, 1)
    assert reply.finalized_kraft_version == 1
