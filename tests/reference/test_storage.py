"""From effects to a log directory and back, on this machine's disk and on one in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.reference.storage_disk import (
    CLUSTER,
    MANY,
    NOW_US,
    ONE,
    Disk,
    append,
    append_control,
    bootstrap,
    contents,
    directory_id,
    fetch,
    in_memory,
    static,
    values,
    voters,
    with_snapshot,
)

from kraftspec.fastpath import decode_batch, encode_batch, read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import SnapshotFooterRecord, SnapshotHeaderRecord
from kraftspec.reference.host import Host
from kraftspec.reference.log import (
    LocalFiles,
)
from kraftspec.reference.log.control import decode_control_record
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft import (
    Config,
    ElectionState,
    LogState,
    ReplicaKey,
    RoleName,
    SnapshotId,
    VoterSet,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import LeaderChange, Voters
from kraftspec.reference.raft.messages import FetchReply, FetchSnapshotReply, VoteReply
from kraftspec.reference.raft.types import Endpoint


@pytest.fixture(params=["memory", "local"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    opened = in_memory()
    if request.param == "local":
        opened = Disk(LocalFiles(), str(tmp_path / "data"), lambda: None)
    yield opened
    if hasattr(opened, "storage"):
        opened.storage.close()


def picture(state: LogState) -> dict[str, Any]:
    """What a core knows of its log, as far as a restart must find it again."""
    latest = state.latest_snapshot
    first = latest.end_offset - 1 if latest is not None else -1
    offsets = range(first, state.end_offset)
    return {
        "offsets": (state.start_offset, state.end_offset, state.flushed_offset),
        "epochs": state.epochs,
        "last epoch": state.last_epoch,
        "snapshots": list(state.snapshots.values()),
        "ends": (state.earliest_snapshot, state.latest_snapshot),
        "voters": [state.voters.at(offset) for offset in offsets],
        "levels": [state.kraft_versions.at(offset) for offset in offsets],
    }


# ---- quorum-state -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "version", "expected"),
    [
        (
            ElectionState(5, 2),
            0,
            {"leaderId": 2, "leaderEpoch": 5, "votedId": -1, "data_version": 0},
        ),
        (
            ElectionState(6, -1, ReplicaKey(3)),
            0,
            {"leaderId": -1, "leaderEpoch": 6, "votedId": 3, "data_version": 0},
        ),
        (
            ElectionState(7, -1, ReplicaKey(3, directory_id(3))),
            1,
            {
                "leaderId": -1,
                "leaderEpoch": 7,
                "votedId": 3,
                "votedDirectoryId": str(directory_id(3)),
                "data_version": 1,
            },
        ),
    ],
)
def test_election_state(
    disk: Disk, state: ElectionState, version: int, expected: dict[str, Any]
) -> None:
    storage = disk.format().storage
    assert storage.election is None
    storage.persist_election(fx.PersistElection(state, version, (1, 2, 3)))
    written = json.loads(disk.whole("quorum-state"))
    if version == 0:
        assert written.pop("currentVoters") == [{"voterId": id} for id in (1, 2, 3)]
        assert (written.pop("clusterId"), written.pop("appliedOffset")) == ("", 0)
    assert written == expected
    assert storage.election == state
    assert disk.restart().election == state


def test_a_higher_kraft_version_has_the_newest_file(disk: Disk) -> None:
    storage = disk.format().storage
    storage.persist_election(fx.PersistElection(ElectionState(1), 2, (1,)))
    assert json.loads(disk.whole("quorum-state"))["data_version"] == 1


# ---- the log ----------------------------------------------------------------------------------


def test_what_a_leader_and_a_follower_append(disk: Disk) -> None:
    storage = disk.format().storage
    append_control(storage, 3, LeaderChange(1, (1, 2, 3), (1, 2)))
    append(storage, 3, b"one", b"two")
    sent = encode_batch([b"three"], base_offset=3, partition_leader_epoch=4, timestamps=1)
    storage.append_batches(read_batches(sent))
    first, second, third = read_batches(contents(storage))
    (change,) = (decode_control_record(record) for record in decode_batch(first.data))
    assert change is not None
    assert change.to_json(0) == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": id} for id in (1, 2, 3)],
        "grantingVoters": [{"voterId": id} for id in (1, 2)],
    }
    assert values(contents(storage)) == [b"one", b"two", b"three"]
    assert bytes(third.data) == sent
    assert (second.base_offset, second.epoch, third.base_offset, third.epoch) == (1, 3, 3, 4)
    assert read_header(second.data).max_timestamp == NOW_US // 1000


def test_a_batch_that_does_not_follow_is_an_error(disk: Disk) -> None:
    storage = disk.format().storage
    append(storage, 2, b"one")
    for offset, epoch in ((2, 2), (0, 2), (1, 1)):
        sent = encode_batch([b"x"], base_offset=offset, partition_leader_epoch=epoch, timestamps=1)
        with pytest.raises(CodecError):
            storage.append_batches(read_batches(sent))
    assert storage.log.end_offset == 1


def test_a_flush_is_told_with_its_generation(disk: Disk) -> None:
    storage = disk.format().storage
    append(storage, 1, b"one", b"two")
    append(storage, 1, b"three")
    assert storage.flush(fx.FlushLog(2, 7)) == ev.LogFlushed(3, 7)  # One sync serves both.
    assert storage.log.flushed_offset == 3


def test_cuts(disk: Disk) -> None:
    storage = disk.format().storage
    append(storage, 1, b"one", b"two")
    append(storage, 2, b"three")
    append(storage, 2, b"four")
    storage.truncate(3)
    assert values(contents(storage)) == [b"one", b"two", b"three"]
    storage.truncate(2)
    state = disk.restart().log_state(static(1))
    assert (state.end_offset, state.epochs) == (2, [(1, 0)])


def test_a_fetch_is_filled_with_whole_batches(disk: Disk) -> None:
    storage = disk.format().storage
    append(storage, 1, b"one")
    append(storage, 1, b"two" * 30)
    reply = FetchReply(read_offset=0, read_max_bytes=1)
    storage.fill(reply)
    assert values(bytes(reply.records or b"")) == [b"one"]
    reply = FetchReply(read_offset=0, read_max_bytes=MANY)
    storage.fill(reply)
    assert reply.records == contents(storage)
    nothing, other = FetchReply(), VoteReply()
    storage.fill(nothing)
    storage.fill(other)
    assert not nothing.records


def test_a_snapshot_that_was_not_begun_is_let_be(disk: Disk) -> None:
    storage = disk.format().storage
    before = disk.names()
    storage.abandon_snapshot(SnapshotId(1, 1))
    storage.extend_snapshot(fx.ExtendSnapshot(SnapshotId(1, 1), 0, b"nobody asked"))
    assert disk.names() == before


# ---- snapshots --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1])
def test_a_snapshot_that_is_written(disk: Disk, level: int) -> None:
    storage = disk.format().storage
    known = voters(1, 2) if level else None
    stored = with_snapshot(storage, level, known)
    name = "00000000000000000003-0000000002.checkpoint"
    assert name in disk.names()
    assert stored == ev.SnapshotStored(ONE, len(disk.whole(name)), 77, level or None, known)
    first, *_, last = (list(decode_batch(b.data)) for b in read_batches(disk.whole(name)))
    (head, *_), (foot,) = map(decode_control_record, first), map(decode_control_record, last)
    assert head == SnapshotHeaderRecord(last_contained_log_timestamp=77)
    assert foot == SnapshotFooterRecord()
    assert len(first) == (3 if level else 1)
    assert storage.snapshot_values(ONE) == [b"abc"]
    again = storage.write_snapshot(fx.WriteSnapshot(ONE, 77, level, known), [b"abc"], 99)
    assert again is None
    assert disk.restart().snapshot_values(ONE) == [b"abc"]


def test_a_snapshot_that_fails_leaves_nothing(disk: Disk) -> None:
    storage = disk.format().storage
    append(storage, 2, b"a", b"b", b"c")
    before = disk.names()
    too_large = [bytes(9 << 20)]
    with pytest.raises(ValueError, match="a batch has at most"):
        storage.write_snapshot(fx.WriteSnapshot(ONE, 77, 0, None), too_large, 99)
    assert disk.names() == before
    with pytest.raises(ValueError, match="no snapshot can be taken"):
        storage.write_snapshot(fx.WriteSnapshot(SnapshotId(2, 2), 77, 0, None), [], 99)


@pytest.mark.parametrize("level", [0, 1])
def test_a_snapshot_that_is_fetched(disk: Disk, level: int) -> None:
    leader = in_memory().format().storage
    known = voters(1, 2, 3) if level else None
    written = with_snapshot(leader, level, known)
    storage = disk.format().storage
    append(storage, 1, b"of no use")
    storage.begin_snapshot(ONE)
    position = 0
    while position < written.size:
        reply = FetchSnapshotReply(
            snapshot_end_offset=3, snapshot_epoch=2, position=position, read_max_bytes=50
        )
        leader.fill(reply)
        storage.extend_snapshot(fx.ExtendSnapshot(SnapshotId(9, 9), position, b"another's"))
        storage.extend_snapshot(fx.ExtendSnapshot(ONE, position, reply.data))
        position += len(reply.data)
    assert storage.finish_snapshot(SnapshotId(9, 9)) is None
    assert storage.finish_snapshot(ONE) == written
    assert storage.finish_snapshot(ONE) is None
    storage.reset(ONE)
    for is_new in (False, True):
        reopened = disk.restart() if is_new else storage
        assert reopened.snapshot_values(ONE) == [b"abc"]
        state = reopened.log_state(static(1))
        assert (state.start_offset, state.end_offset, state.epochs) == (3, 3, [])
        assert state.voters.last == (known or static(1))
        assert state.voters.entries() == ([(2, known)] if known else [])
        assert state.kraft_versions.entries() == ([(2, 1)] if level else [])


@pytest.mark.parametrize(
    "data",
    [b"", b"rubbish" * 9, bootstrap(1)[:-1], bootstrap(1)[:80] + b"!" + bootstrap(1)[81:]],
    ids=["none", "rubbish", "cut", "changed"],
)
def test_a_fetched_snapshot_that_is_damaged_changes_nothing(disk: Disk, data: bytes) -> None:
    storage = disk.format().storage
    append(storage, 1, b"one")
    storage.flush(fx.FlushLog(1))
    before = disk.names()
    damaged = fetch(storage, ONE, data)
    assert isinstance(damaged, ev.SnapshotDamaged)
    assert damaged.id == ONE
    assert damaged.reason
    assert disk.names() == before
    assert values(contents(disk.restart())) == [b"one"]


def test_a_fetch_that_is_abandoned_or_begun_anew(disk: Disk) -> None:
    storage = disk.format().storage
    before = disk.names()
    storage.begin_snapshot(ONE)
    storage.extend_snapshot(fx.ExtendSnapshot(ONE, 0, b"some bytes"))
    assert len(disk.names()) == len(before) + 1
    storage.begin_snapshot(SnapshotId(5, 2))
    assert len(disk.names()) == len(before) + 1
    storage.abandon_snapshot(SnapshotId(5, 2))
    assert disk.names() == before
    assert storage.finish_snapshot(SnapshotId(5, 2)) is None
    storage.begin_snapshot(ONE)
    assert [name for name in disk.names() if name.endswith(".part")]
    disk.restart()
    assert not [name for name in disk.names() if name.endswith(".part")]


def test_cleaning(disk: Disk) -> None:
    storage = disk.format().storage
    with_snapshot(storage, 0, None)
    append(storage, 2, b"d" * 1500)
    append(storage, 2, b"e" * 1500)
    two = SnapshotId(4, 2)
    storage.write_snapshot(fx.WriteSnapshot(two, 78, 0, None), [b"abcd"], 99)
    storage.delete_before(two)
    for is_new in (False, True):
        reopened = disk.restart() if is_new else storage
        state = reopened.log_state(static(1))
        assert (state.start_offset, list(state.snapshots)) == (4, [two])
        assert values(contents(reopened)) == [b"e" * 1500]


# ---- voters by snapshot and log ----------------------------------------------------------------


def test_the_history_of_voters_is_of_the_latest_snapshot_and_what_follows(disk: Disk) -> None:
    storage = disk.format(bootstrap(1, 2)).storage
    state = storage.log_state(static(9))
    assert (state.voters.entries(), state.kraft_versions.entries()) == (
        [(-1, voters(1, 2))],
        [(-1, 1)],
    )
    append_control(storage, 1, LeaderChange(1, (1, 2)), Voters(voters(1, 2, 3)))
    append(storage, 1, b"a")
    looked_at = storage.log_state(static(9)).voters.entries()
    append_control(storage, 1, Voters(voters(1, 3)))
    for is_new in (False, True):
        opened = disk.restart() if is_new else storage
        entries = opened.log_state(static(9)).voters.entries()
        assert entries == [*looked_at, (3, voters(1, 3))]
    assert looked_at == [(-1, voters(1, 2)), (1, voters(1, 2, 3))]
    three = SnapshotId(3, 1)
    disk.storage.write_snapshot(
        fx.WriteSnapshot(three, 0, 1, voters(1, 2, 3)), [b"a"], NOW_US // 1000
    )
    state = disk.restart().log_state(static(9))
    assert state.voters.entries() == [(2, voters(1, 2, 3)), (3, voters(1, 3))]
    assert state.kraft_versions.entries() == [(2, 1)]
    disk.storage.truncate(3)
    state = disk.restart().log_state(static(9))
    assert state.voters.entries() == [(2, voters(1, 2, 3))]
    state.voters.truncate_from(0)
    assert state.voters.last == static(9)


def test_voters_amid_many_segments_are_found(disk: Disk) -> None:
    storage = disk.format().storage
    expected = []
    for number in range(12):
        append(storage, 1, b"x" * 900)
        if number % 4 == 1:
            expected.append((storage.log.end_offset, voters(1, number)))
            append_control(storage, 1, Voters(voters(1, number)))
    assert len(storage.log.segment_offsets) > 3
    assert disk.restart().log_state(VoterSet()).voters.entries() == expected


# ---- a core and its restarts -------------------------------------------------------------------


class Alone(Host):
    """A quorum of one: a core that leads, on a storage."""

    def __init__(self, disk: Disk, config: Config) -> None:
        super().__init__()
        self.disk = disk
        self.config = config
        self.now_us = NOW_US
        self.start()

    def start(self) -> None:
        self.storage = self.disk.storage
        self.core = self.storage.make_core(self.config, Random(1))
        self.step(ev.Start())

    def restart(self) -> None:
        self.disk.storage.close()
        self.disk.open(self.config)

    def clock_us(self) -> int:
        self.now_us += 1000
        return self.now_us

    def snapshot_values(self, effect: fx.WriteSnapshot) -> list[bytes]:
        return [bytes(value or b"") for value in values(contents(self.storage))]

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        raise AssertionError(effect)

    def on_snapshot_refused(self, effect: fx.SnapshotRefused) -> None:
        raise AssertionError(effect)

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        assert effect.error == 0

    def append(self, *records: bytes) -> None:
        self.step(ev.AppendRequested(1, self.core.epoch, records))

    def snapshot(self) -> SnapshotId:
        snapshot_id = SnapshotId(self.core.high_watermark, self.core.epoch)
        self.step(ev.SnapshotRequested(snapshot_id, self.now_us // 1000))
        assert snapshot_id in self.core.log.snapshots
        return snapshot_id


@pytest.mark.parametrize("level", [0, 1])
def test_a_restart_finds_what_the_core_knew(disk: Disk, level: int) -> None:
    config = Config(
        cluster_id=CLUSTER,
        node_id=1,
        directory_id=directory_id(1),
        endpoints=(Endpoint("CONTROLLER", "node1", 9001),),
        voters=VoterSet() if level else static(1),
        append_linger_us=0,
        retention_bytes=0,
    )
    disk.format(bootstrap(1) if level else None)
    alone = Alone(disk, config)
    alone.append(b"one", b"two")
    deeds: list[Callable[[], object]] = [
        lambda: alone.append(b"three" * 300),
        alone.snapshot,
        lambda: alone.append(b"four" * 400),
        lambda: alone.step(ev.UpgradeRequested(1, alone.core.epoch, 1)),
        lambda: alone.append(b"five"),
        alone.snapshot,
        lambda: alone.step(ev.CleanRequested(disk.storage.log.size_bytes)),
    ]
    for deed in deeds:
        assert alone.core.role.name is RoleName.LEADER
        deed()
        knew, stood = picture(alone.core.log), contents(disk.storage)
        elected = ElectionState(alone.core.epoch, alone.core.leader_id, alone.core.voted)
        alone.restart()
        assert picture(disk.storage.log_state(config.voters)) == knew
        assert disk.storage.election == elected
        assert contents(disk.storage) == stood
        alone.start()
    assert disk.storage.log.start_offset > 0
    assert alone.core.log.kraft_versions.last == 1
    assert json.loads(disk.whole("quorum-state"))["data_version"] == 1
    assert alone.core.log.voters.last.ids == (1,)
