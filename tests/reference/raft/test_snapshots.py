"""Snapshots: written, fetched, cleaned up (KIP-630); and what they do to the log's picture."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.raft.network import (
    CLUSTER,
    SNAPSHOT_BYTES,
    Network,
    Replica,
    directory,
    formatted,
    joiner,
    voter,
)

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import FatalError, LogState, RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    ReplicaKey,
    Snapshot,
    SnapshotId,
)
from kraftspec.reference.raft.voters import History, VoterSet


def led(values: int = 10, **changes: Any) -> tuple[Network, Replica]:
    net = formatted(3, **changes)
    leader = net.elect()
    for number in range(values):
        leader.step(ev.AppendRequested(number, leader.core.epoch, (b"%d" % number,)))
    net.run(200 * MS)
    return net, leader


def others(net: Network, node: Replica) -> list[Replica]:
    return [r for r in net.replicas.values() if r is not node]


def take(node: Replica, end_offset: int | None = None, epoch: int | None = None) -> SnapshotId:
    """Let a node write a snapshot of everything committed, or up to an offset."""
    core = node.core
    id = SnapshotId(
        core.committed_offset if end_offset is None else end_offset,
        core.log.last_epoch if epoch is None else epoch,
    )
    node.step(ev.SnapshotRequested(id))
    node.net.settle()
    return id


def clean(node: Replica) -> None:
    node.step(ev.CleanRequested(1 << 40))


# ---- writing -----------------------------------------------------------------------------------


def test_a_snapshot_begins_with_what_was_in_force_at_its_last_record() -> None:
    net, leader = led()
    early = leader.core.committed_offset
    net.add(joiner(4))
    net.run(S)
    reply = net.ask(
        leader.config.node_id,
        ms.AddVoter(voter_id=4, voter_directory_id=directory(4), endpoints=voter(4).endpoints),
    )
    assert reply is not None
    assert reply.error == 0
    for end_offset, ids in ((early, (1, 2, 3)), (early + 1, (1, 2, 3, 4))):
        effects = leader.step(ev.SnapshotRequested(SnapshotId(end_offset, 1)))
        (write,) = [e for e in effects if isinstance(e, fx.WriteSnapshot)]
        assert write.kraft_version == 1
        assert write.voters is not None
        assert write.voters.ids == ids


@pytest.mark.parametrize(
    ("end_offset", "epoch", "reason"),
    [
        (14, 1, "beyond the high watermark"),
        (13, 0, "not a prefix"),
        (13, 2, "not a prefix"),
        (5, 1, "before the log starts"),
        (10, 1, "exists already"),
    ],
)
def test_snapshots_that_are_refused(end_offset: int, epoch: int, reason: str) -> None:
    net, leader = led()
    assert leader.core.committed_offset == 13
    take(leader, 10)
    clean(leader)
    assert leader.core.log.start_offset == 10
    effects = leader.step(ev.SnapshotRequested(SnapshotId(end_offset, epoch)))
    (refused,) = [e for e in effects if isinstance(e, fx.SnapshotRefused)]
    assert reason in refused.reason
    assert net.leader is leader


def test_an_uncommitted_record_is_in_no_snapshot() -> None:
    _, leader = led()
    for node in others(leader.net, leader):
        node.auto_flush = False
    leader.step(ev.AppendRequested(99, 1, (b"uncommitted",)))
    end = leader.core.log.end_offset
    effects = leader.step(ev.SnapshotRequested(SnapshotId(end, 1)))
    assert isinstance(effects[0], fx.SnapshotRefused)


# ---- fetching ----------------------------------------------------------------------------------


def test_who_is_behind_the_log_gets_the_snapshot_in_pieces() -> None:
    net, leader = led()
    id = take(leader)
    clean(leader)
    assert leader.core.log.start_offset == 13
    for number in range(3):
        leader.step(ev.AppendRequested(number, 1, (b"later %d" % number,)))
    observer = net.add(joiner(4))
    net.run(S)
    assert (observer.core.log.start_offset, observer.core.log.end_offset) == (13, 16)
    assert observer.disk.values() == [b"later 0", b"later 1", b"later 2"]
    assert list(observer.core.log.snapshots) == [id]
    assert observer.core.log.voters.last.ids == (1, 2, 3)
    assert observer.core.log.kraft_versions.last == 1
    assert observer.core.committed_offset == 16
    positions = [
        r.position for source, _, r in net.sent if source == 4 and isinstance(r, ms.FetchSnapshot)
    ]
    assert positions == [0, 12, 24]
    kinds = [type(e) for e in observer.effects if not isinstance(e, (fx.Ask, fx.PersistElection))]
    first = kinds.index(fx.BeginSnapshot)
    assert kinds[first : first + 7] == [
        fx.BeginSnapshot,
        fx.ExtendSnapshot,
        fx.ExtendSnapshot,
        fx.ExtendSnapshot,
        fx.FinishSnapshot,
        fx.ResetLog,
        fx.LoadSnapshot,
    ]


def test_an_empty_log_gets_a_snapshot_though_the_log_still_starts_at_0() -> None:
    net, leader = led()
    take(leader)
    assert leader.core.log.start_offset == 0
    observer = net.add(joiner(4))
    net.run(S)
    assert observer.core.log.start_offset == 13


def test_the_bootstrap_checkpoint_is_never_sent() -> None:
    net, leader = led()
    assert BOOTSTRAP_SNAPSHOT in leader.core.log.snapshots
    observer = net.add(joiner(4))
    net.run(S)
    assert observer.core.log.start_offset == 0
    assert observer.core.log.end_offset == leader.core.log.end_offset
    assert observer.core.log.snapshots == {}
    request = snapshot_request(leader, snapshot_end_offset=0, snapshot_epoch=0)
    reply = net.ask(leader.config.node_id, request)
    assert reply is not None
    assert reply.error == ErrorCode.SNAPSHOT_NOT_FOUND


def snapshot_request(leader: Replica, **changes: Any) -> ms.FetchSnapshot:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "replica_id": 77,
        "leader_epoch": leader.core.epoch,
        "snapshot_end_offset": 13,
        "snapshot_epoch": 1,
        "position": 0,
        "max_bytes": 20,
    }
    return ms.FetchSnapshot(**{**values, **changes})


REFUSALS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "another cluster": ({"cluster_id": "x"}, 104, True),
    "malformed": ({"refused": 42}, 42, True),
    "another topic": ({"refused": 3, "refused_partitions": (("t", 0),)}, 3, False),
    "another topic before the epoch": ({"refused": 3, "leader_epoch": 0}, 3, False),
    "lower epoch": ({"leader_epoch": 0}, 74, False),
    "higher epoch": ({"leader_epoch": 2}, 75, False),
    "no such snapshot": ({"snapshot_end_offset": 12}, 98, False),
    "of another epoch": ({"snapshot_epoch": 0}, 98, False),
    "negative position": ({"position": -1}, 99, False),
    "beyond its end": ({"position": SNAPSHOT_BYTES}, 99, False),
    "its last byte": ({"position": SNAPSHOT_BYTES - 1}, 0, False),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_fetch_snapshot(name: str) -> None:
    changes, error, whole = REFUSALS[name]
    net, leader = led()
    take(leader)
    reply = net.ask(leader.config.node_id, snapshot_request(leader, **changes))
    assert isinstance(reply, ms.FetchSnapshotReply)
    assert (reply.error, reply.top_error) == ((0, error) if whole else (error, 0))
    if not error:
        assert (reply.size, reply.position) == (SNAPSHOT_BYTES, SNAPSHOT_BYTES - 1)
        assert len(reply.data) == 1
    reply = net.ask(others(net, leader)[0].config.node_id, snapshot_request(leader))
    assert reply is not None
    assert reply.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetching_a_snapshot_counts_for_check_quorum() -> None:
    net, leader = led()
    take(leader)
    for node in others(net, leader):
        node.crash()
    voter_id = others(net, leader)[0].config.node_id
    for _ in range(10):
        net.run(S)
        request = snapshot_request(
            leader, replica_id=voter_id, replica_directory_id=directory(voter_id)
        )
        net.ask(leader.config.node_id, request)
    assert leader.role is RoleName.LEADER
    net.run(4 * S)
    assert leader.role is not RoleName.LEADER


def fetching() -> tuple[Network, Replica, Replica, fx.Ask]:
    """Return an observer that has asked for the second piece of a snapshot, and hears nothing."""
    net, leader = led()
    take(leader)
    observer = net.add(joiner(4))
    for _ in range(1000):
        ask = [e for e in observer.effects if isinstance(e, fx.Ask)][-1]
        if isinstance(ask.request, ms.FetchSnapshot) and ask.request.position:
            break
        net.queue.popleft()()
    net.queue.clear()
    return net, leader, observer, ask


def snapshot_reply(leader: Replica, **changes: Any) -> ms.FetchSnapshotReply:
    values: dict[str, Any] = {
        "leader_id": leader.config.node_id,
        "leader_epoch": 1,
        "snapshot_end_offset": 13,
        "snapshot_epoch": 1,
        "size": SNAPSHOT_BYTES,
        "position": 12,
        "data": bytes(12),
    }
    return ms.FetchSnapshotReply(**{**values, **changes})


@pytest.mark.parametrize(
    "changes", [{"snapshot_end_offset": 12}, {"snapshot_epoch": 2}, {"position": 0}]
)
def test_other_bytes_than_those_asked_for_are_fatal(changes: dict[str, int]) -> None:
    _, leader, observer, ask = fetching()
    with pytest.raises(FatalError, match="asked for byte 12"):
        observer.step(ev.ReplyReceived(ask.request_id, snapshot_reply(leader, **changes)))


@pytest.mark.parametrize(
    "changes", [{"error": 98}, {"snapshot_end_offset": -1}, {"snapshot_epoch": -1}]
)
def test_a_snapshot_that_is_gone_is_forgotten(changes: dict[str, int]) -> None:
    net, leader, observer, ask = fetching()
    effects = observer.step(ev.ReplyReceived(ask.request_id, snapshot_reply(leader, **changes)))
    assert fx.AbandonSnapshot(SnapshotId(13, 1)) in effects
    assert isinstance([e for e in effects if isinstance(e, fx.Ask)][-1].request, ms.Fetch)
    net.run(5 * S)
    assert observer.core.log.start_offset == 13  # and fetched again from the start


def test_a_new_epoch_abandons_a_half_fetched_snapshot() -> None:
    _, _, observer, _ = fetching()
    effects = observer.step(
        ev.RequestReceived(
            -3,
            ms.BeginEpoch(leader_id=2, leader_epoch=9, leader_endpoints=voter(2).endpoints),
        )
    )
    assert fx.AbandonSnapshot(SnapshotId(13, 1)) in effects


def test_a_snapshot_that_was_given_up_before_it_was_whole_counts_for_nothing() -> None:
    _, leader = led()
    effects = leader.step(ev.SnapshotStored(SnapshotId(99, 1), 10))
    assert fx.AbandonSnapshot(SnapshotId(99, 1)) in effects
    assert SnapshotId(99, 1) not in leader.core.log.snapshots


def test_a_snapshot_that_is_damaged_is_fetched_anew_and_not_at_once() -> None:
    net, leader, node, ask = fetching()
    reply = snapshot_reply(leader, data=bytes(SNAPSHOT_BYTES - 12))
    (finish,) = [
        effect
        for effect in node.core.step(ev.ReplyReceived(ask.request_id, reply), net.now_us)
        if isinstance(effect, fx.FinishSnapshot)
    ]
    end = node.core.log.end_offset
    effects = node.core.step(ev.SnapshotDamaged(finish.id, "a bit flipped"), net.now_us)
    assert node.core.log.end_offset == end
    assert node.following.fetching is None
    targets = [e.node.id for e in effects if isinstance(e, fx.Ask)]
    assert leader.config.node_id not in targets
    effects = node.core.step(ev.Tick(), net.now_us + 3 * S)
    assert [e for e in effects if isinstance(e, fx.Ask)]


def test_a_restart_loads_the_latest_snapshot() -> None:
    net, leader = led()
    id = take(leader)
    leader.crash()
    net.elect()
    leader.restart()
    assert leader.effects[0] == fx.LoadSnapshot(id)
    assert leader.core.committed_offset >= 13


# ---- cleaning ----------------------------------------------------------------------------------


def kept(
    sizes: list[int], ages_s: list[int], log_bytes: int, **limits: int
) -> tuple[int, list[int]]:
    """Return where the log starts, and which snapshots are left, after a cleaning."""
    net, leader = led(40, **limits)
    core = leader.core
    now_ms = core.now_us // 1000
    for number, (size, age_s) in enumerate(zip(sizes, ages_s, strict=True)):
        id = SnapshotId(10 * (number + 1), 1)
        core.log.add_snapshot(Snapshot(id, size, now_ms - age_s * 1000))
    del core.log.snapshots[BOOTSTRAP_SNAPSHOT]
    core.log._refresh()
    leader.step(ev.CleanRequested(log_bytes))
    assert net.leader is leader
    return core.log.start_offset, [id.end_offset for id in core.log.snapshots]


@pytest.mark.parametrize(
    ("sizes", "ages_s", "log_bytes", "limits", "expected"),
    [
        ([50, 50, 50], [0, 0, 0], 50, {"retention_bytes": 1000}, (0, [10, 20, 30])),
        ([50, 50, 50], [0, 0, 0], 50, {"retention_bytes": 199}, (20, [20, 30])),
        ([50, 50, 50], [0, 0, 0], 50, {"retention_bytes": 149}, (30, [30])),
        ([50, 50, 50], [0, 0, 0], 50, {"retention_bytes": 0}, (30, [30])),  # one always stays
        ([50, 50, 50], [0, 0, 0], 50, {"retention_bytes": -1}, (0, [10, 20, 30])),
        ([1, 1, 1], [100, 50, 10], 1, {"retention_us": 60 * S}, (20, [20, 30])),
        ([1, 1, 1], [100, 50, 10], 1, {"retention_us": 5 * S}, (30, [30])),
        ([1, 1, 1], [100, 50, 10], 1, {"retention_us": -1}, (0, [10, 20, 30])),
        ([1], [1000], 1 << 40, {"retention_us": 0}, (0, [10])),
    ],
)
def test_cleaning(
    sizes: list[int],
    ages_s: list[int],
    log_bytes: int,
    limits: dict[str, int],
    expected: tuple[int, list[int]],
) -> None:
    assert kept(sizes, ages_s, log_bytes, **limits) == expected


# ---- the picture of the log ----------------------------------------------------------------------


def log(**changes: Any) -> LogState:
    """Return a log of 0 .. 29 with epochs 2, 5 and 7, and a snapshot at 15."""
    values: dict[str, Any] = {
        "end_offset": 30,
        "epochs": [(2, 0), (5, 10), (7, 20)],
        "snapshots": [Snapshot(SnapshotId(15, 5))],
    }
    return LogState(**{**values, **changes})


def test_deleting_the_log_before_a_snapshot() -> None:
    state = log()
    state.delete_before(SnapshotId(15, 5))
    assert state.start_offset == 15
    assert state.epochs == [(5, 15), (7, 20)]
    assert state.is_before_snapshots(14, 5)
    assert state.is_before_snapshots(15, 2)
    assert state.is_before_snapshots(16, 2)
    assert not state.is_before_snapshots(15, 5)
    assert not state.is_before_snapshots(16, 7)


def test_resetting_to_a_snapshot_forgets_the_log_and_its_histories() -> None:
    voters = VoterSet([voter(1)])
    state = log(voters=[(3, VoterSet([voter(2)]))], kraft_versions=[(2, 1)])
    state.reset_to(SnapshotId(50, 9), voters, None)
    state.add_snapshot(Snapshot(SnapshotId(50, 9)))
    assert (state.start_offset, state.end_offset, state.flushed_offset) == (50, 50, 50)
    assert (state.epochs, state.last_epoch) == ([], 9)
    assert state.voters.entries() == [(49, voters)]
    assert state.kraft_versions.entries() == []
    assert list(state.snapshots) == [SnapshotId(50, 9)]
    assert state.append(9, 3) == 50
    assert state.epochs == [(9, 50)]


def test_truncating_takes_epochs_and_histories_along() -> None:
    sets = [VoterSet([voter(1)]), VoterSet([voter(1), voter(2)])]
    state = log(voters=[(4, sets[0]), (21, sets[1])], kraft_versions=[(3, 1)])
    assert state.voters.last == sets[1]
    state.truncate_to(21)
    assert state.voters.last == sets[0]
    assert (state.end_offset, state.flushed_offset, state.last_epoch) == (21, 21, 7)
    state.truncate_to(20)
    assert state.last_epoch == 5
    state.truncate_to(25)
    assert state.end_offset == 20


def test_a_history_is_read_at_offsets() -> None:
    history: History[str] = History("default", [(-1, "a"), (10, "b")])
    assert [history.at(offset) for offset in (-2, -1, 9, 10, 11)] == ["default", *"aabb"]
    with pytest.raises(ValueError, match="not after"):
        history.add(10, "c")
    history.add(20, "c")
    history.truncate_before(15)
    assert history.entries() == [(10, "b"), (20, "c")]
    assert history.truncate_from(20)
    assert not history.truncate_from(20)
    assert (history.last, history.last_offset) == ("b", 10)
    history.replace([])
    assert (history.last, history.last_offset) == ("default", None)


def test_voter_sets() -> None:
    voters = VoterSet([voter(3), voter(1)])
    assert voters.ids == (1, 3)
    assert voters.majority == 2
    assert voters.is_voter(ReplicaKey(1, directory(1)))
    assert not voters.is_voter(ReplicaKey(1, directory(1, 1)))
    assert VoterSet([voter(1, named=False)]).is_voter(ReplicaKey(1, directory(1)))
    assert voters.with_voter(voter(2)).ids == (1, 2, 3)
    assert voters.without(3).is_only_voter(ReplicaKey(1, directory(1)))
    assert voters == VoterSet([voter(1), voter(3)]) != VoterSet([voter(1)])
    assert voters.node(1, "OTHER") is None
    assert voters.node(9, "CONTROLLER") is None
    assert [VoterSet(voter(n) for n in range(k)).majority for k in range(1, 8)] == [
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
