"""Snapshots that a node of ours writes: when, of what, what a crash leaves, and who can load them.

Kafka's own controllers join from them, and write the same records into theirs.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.reference.kafka_tools import DUMP, KafkaTools
from tests.reference.node.quorum import WAIT_S, Quorum, leads, run, seen
from tests.waiting import until

from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.interop.snapshots import in_order, values_in
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.metadata.checkpoint import PROGRAM, Order, Settled, Written, read_image
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.metadata.snapshot import snapshot_values
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.raft.config import MS
from kraftspec.reference.raft.events import CleanRequested, SnapshotDamaged, SnapshotStored
from kraftspec.reference.raft.types import SnapshotId
from kraftspec.reference.storage import Storage

FETCH_TIMEOUT_US = 600 * MS
NO_OP = write_frame(kafka.NoOpRecord(), 0)
FEATURE = write_frame(kafka.FeatureLevelRecord(name="metadata.version", feature_level=30), 0)
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "internal.metadata.log.segment.bytes": "16384",
}


def topic(number: int) -> list[bytes]:
    """The records of a topic with two partitions and a configuration."""
    topic_id = Uuid(number.to_bytes(16, "big"))
    partitions = [
        kafka.PartitionRecord(
            partition_id=partition, topic_id=topic_id, replicas=(1, 2), isr=(1, 2), leader=1,
            leader_epoch=0, partition_epoch=0, directories=(Uuid(b"d" * 16), Uuid(b"e" * 16)),
        )
        for partition in range(2)
    ]  # fmt: skip
    name = f"topic-{number}"
    config = kafka.ConfigRecord(
        resource_type=2, resource_name=name, name="retention.ms", value=str(number)
    )
    return [
        write_frame(kafka.TopicRecord(name=name, topic_id=topic_id), 0),
        *(write_frame(partition, 1) for partition in partitions),
        write_frame(config, 0),
    ]


def checkpoints(directory: Path) -> list[Path]:
    """The snapshots in a log directory, that of formatting left out."""
    return sorted((directory / METADATA_NAME).glob("*[1-9].checkpoint"))


def ends(paths: list[Path]) -> list[int]:
    return [int(path.name[:20]) for path in paths]


def quorum_of(path: Path, count: int = 1, **changes: int) -> Quorum:
    """A quorum whose nodes write snapshots as ``changes``, fields of NodeConfig, say."""
    quorum = Quorum(path, count=count)
    quorum.configs = {
        node_id: msgspec.structs.replace(config, **changes)
        for node_id, config in quorum.configs.items()
    }
    return quorum


def latest(node: Node) -> int:
    """Where the last snapshot ends that the node knows of; 0 is where that of formatting does."""
    snapshot = node.core.log.latest_snapshot
    return 0 if snapshot is None else snapshot.end_offset


async def written(node: Node, beyond: int = 0) -> None:
    """Wait for a snapshot that ends beyond an offset."""
    await seen(lambda: latest(node) > beyond)


async def fill(node: Node, numbers: range) -> None:
    for number in numbers:
        await node.append(topic(number))


def test_a_snapshot_is_written_when_so_many_bytes_are_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum_of(tmp_path, 3, snapshot_bytes=20_000) as quorum:
            leader = await quorum.leader()
            await leader.append([FEATURE])
            await fill(leader, range(30))
            await seen(lambda: leader.storage.log.size_bytes > 8000)
            assert not any(checkpoints(tmp_path / str(node_id)) for node_id in quorum.ids)
            await fill(leader, range(30, 100))
            # Each writes its own, followers too, of the same log but maybe not at the same offset.
            for node_id, node in quorum.nodes.items():
                await written(node)
                first = checkpoints(tmp_path / str(node_id))[0]
                image = read_image(str(first.parent), int(first.name[:20]))
                values = values_in(first)
                assert len(values) == len(set(values)) > 200
                assert first.stat().st_mode & 0o777 == 0o400
                assert values == list(snapshot_values(image))

    run(main())


def test_a_snapshot_is_written_when_it_is_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum_of(tmp_path, snapshot_ms=300) as quorum:
            node = await quorum.leader()
            feature = await node.append([FEATURE])

            def later() -> list[Path]:
                """Not the one that was due, on a slow machine, before anything was appended."""
                paths = checkpoints(tmp_path / "1")
                return [path for path in paths if ends([path])[0] > feature.last_offset]

            async with asyncio.timeout(WAIT_S):
                while len(later()) < 2:
                    await node.append([NO_OP])
                    await asyncio.sleep(0.02)
            first, second = later()[:2]
            assert values_in(first) == values_in(second) == [FEATURE]
        async with quorum_of(tmp_path / "never", snapshot_ms=0, snapshot_bytes=1 << 20) as quorum:
            node = await quorum.leader()
            await node.append([FEATURE])
            await asyncio.sleep(0)
            assert not checkpoints(tmp_path / "never" / "1")

    run(main())


@pytest.mark.soak
def test_what_it_covers_goes_and_a_node_starts_from_it(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = quorum_of(tmp_path, snapshot_bytes=10_000)
        config = quorum.configs[1]
        core = msgspec.structs.replace(config.core, retention_bytes=15_000)
        log_config = msgspec.structs.replace(config.log, segment_bytes=4096)
        quorum.configs[1] = msgspec.structs.replace(config, core=core, log=log_config)
        async with quorum:
            node = await quorum.leader()
            await node.append([FEATURE])
            number = 0
            async with asyncio.timeout(WAIT_S):
                while len(node.core.log.snapshots) < 4:  # The one of formatting among them.
                    await node.append(topic(number))
                    number += 1
            old = checkpoints(tmp_path / "1")
            node.post(CleanRequested(node.storage.log.size_bytes))
            await seen(lambda: node.storage.log.start_offset > ends(old)[0])
            # The older ones go one after the other.
            await seen(
                lambda: node.storage.log.start_offset == ends(checkpoints(tmp_path / "1"))[0]
            )
            segments = sorted((tmp_path / "1" / METADATA_NAME).glob("*.log"))
            assert int(segments[0].name[:20]) > 0
            end = node.core.committed_offset
            # The next begins with the last, and with what is left of the log.
            await fill(node, range(number, number + 60))
            await written(node, end)
        async with quorum:
            node = await quorum.leader()
            end = node.core.committed_offset
            image = read_image(str(tmp_path / "1" / METADATA_NAME), end)
            assert len(image.topics) == number + 60
            assert {row.name for row in image.topics.values()} == {
                f"topic-{at}" for at in range(number + 60)
            }

    run(main())


def test_a_follower_without_a_log_begins_with_a_snapshot_of_ours(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = quorum_of(tmp_path, 3, snapshot_bytes=10_000)
        async with quorum.running():
            for node_id in (1, 2):
                await quorum.start(node_id)
            leader = await quorum.leader()
            await leader.append([FEATURE])
            await fill(leader, range(80))
            await written(leader)
            third = await quorum.start(3)
            await third.until(lambda it: it.core.committed_offset >= leader.core.log.end_offset, 60)
            fetched = checkpoints(tmp_path / "3")[0]
            theirs = tmp_path / str(leader.config.node_id) / METADATA_NAME / fetched.name
            assert fetched.read_bytes() == theirs.read_bytes()
            assert third.storage.log.start_offset == int(fetched.name[:20])

    run(main())


@pytest.mark.soak
def test_a_voter_may_take_longer_to_check_a_snapshot_than_a_leader_may_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would campaign, forget the snapshot, fetch it again, and so on for ever."""
    checked: list[int] = []
    real = Storage.finish_snapshot

    def slow(storage: Storage, id_: SnapshotId) -> SnapshotStored | SnapshotDamaged | None:
        checked.append(id_.end_offset)
        time.sleep(2 * FETCH_TIMEOUT_US / 1e6)
        return real(storage, id_)

    monkeypatch.setattr(Storage, "finish_snapshot", slow)

    async def main() -> None:
        quorum = quorum_of(tmp_path, 3, snapshot_bytes=10_000)
        quorum.configs[3] = msgspec.structs.replace(
            quorum.configs[3],
            core=msgspec.structs.replace(quorum.configs[3].core, fetch_timeout_us=FETCH_TIMEOUT_US),
        )
        async with quorum.running():
            for node_id in (1, 2):
                await quorum.start(node_id)
            leader = await quorum.leader()
            await leader.append([FEATURE])
            await fill(leader, range(80))
            await written(leader)
            third = await quorum.start(3)
            await third.until(lambda it: it.core.committed_offset > 0, WAIT_S)
            assert len(checked) == 1
            assert third.storage.log.start_offset == checked[0]

    run(main())


def test_records_that_are_no_metadata_leave_the_log_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with quorum_of(tmp_path, snapshot_bytes=1000) as quorum:
            node = await quorum.leader()
            for _ in range(30):
                await node.append([b"no record of Kafka's" * 3])
            await seen(lambda: "no snapshot was written" in caplog.text)
            assert leads(node)
            assert not checkpoints(tmp_path / "1")
            await node.append([b"it goes on"])

    with caplog.at_level(logging.WARNING):
        run(main())
    (reason,) = {
        getattr(record, "reason", "").partition(":")[2]
        for record in caplog.records
        if "no snapshot" in record.message
    }
    assert "record at offset" in reason


def test_a_node_that_stops_lets_nobody_write(tmp_path: Path) -> None:
    """The program ends with the node, which has the directory to itself as it closes."""

    async def main() -> None:
        async with quorum_of(tmp_path, snapshot_bytes=3000) as quorum:
            node = await quorum.leader()
            await node.append([FEATURE])
            await fill(node, range(20))  # It has begun, and most likely is not done.
        assert not list((tmp_path / "1").rglob("*.part"))
        async with quorum:
            node = await quorum.leader()
            await fill(node, range(20, 40))
            await written(node)

    run(main())


# ---- the program by itself ---------------------------------------------------------------------


@pytest.fixture
def log_of_three(tmp_path: Path) -> Path:
    """The log of a node that was stopped: a level of metadata.version, and three topics."""

    async def main() -> None:
        async with quorum_of(tmp_path) as quorum:
            node = await quorum.leader()
            await node.append([FEATURE])
            await fill(node, range(3))

    run(main())
    return tmp_path / "1" / METADATA_NAME


@contextmanager
def program_at(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It has an image of three topics, and waits for its order."""
    end = 16
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, str(log), str(end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert msgspec.json.decode(process.stdout.readline(), type=Settled).end_offset == end
        yield process
        process.kill()


@pytest.fixture
def program(log_of_three: Path) -> Iterator[subprocess.Popen[bytes]]:
    with program_at(log_of_three) as process:
        yield process


def test_without_an_order_nothing_is_written(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    before = sorted(path.name for path in tmp_path.rglob("*"))
    output, error = program.communicate(timeout=WAIT_S)
    assert (output, error, program.returncode) == (b"", b"", 0)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_disk_that_refuses_is_told(program: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "1" / METADATA_NAME).rename(tmp_path / "1" / "elsewhere")
    order = msgspec.json.encode(Order([], 0)) + b"\n"
    output, error = program.communicate(order, timeout=WAIT_S)
    assert (output, program.returncode) == (b"", 1)
    assert b"No such file or directory" in error
    assert b"Traceback" not in error


def test_two_that_write_the_same_leave_each_other_alone(log_of_three: Path) -> None:
    """A node was killed, and started again, before its program was done."""
    order = msgspec.json.encode(Order([control_value(SnapshotHeaderRecord())], 0)) + b"\n"
    with program_at(log_of_three) as one, program_at(log_of_three) as other:
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write(order)
            process.stdin.flush()
        for process in (one, other):
            output, error = process.communicate(timeout=WAIT_S)
            assert (error, process.returncode) == (b"", 0)
            assert msgspec.json.decode(output, type=Written).records == 13
    (path,) = log_of_three.glob("*[1-9].checkpoint")
    assert len(values_in(path)) == 13
    assert not list(log_of_three.glob("*.part"))


# ---- Kafka's -----------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_kafka_controller_joins_from_a_snapshot_of_ours(
    kafka: KafkaTools, tmp_path: Path
) -> None:
    """It fetches the snapshot, loads it, and its own later one has the same records as ours."""

    async def main() -> None:
        settings = SMALL | {"controller.quorum.fetch.timeout.ms": "4000"}
        quorum = LocalQuorum(
            tmp_path / "ours",
            voters=1,
            first_id=301,
            first_port=free_port(set()),
            settings=settings,
        )
        where = {"controller.quorum.bootstrap.servers": quorum.bootstrap}
        cluster = Cluster(tmp_path, controllers=0, brokers=0, controller_properties=where | SMALL)
        cluster.cluster_id = quorum.cluster_id
        async with quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await quorum.bootstrap_log(leader)
            await fill(leader, range(100))
            await written(leader)
            snapshot = leader.core.log.latest_snapshot
            assert snapshot is not None
            with cluster:
                theirs = await asyncio.to_thread(cluster.add_node, "controller", start=False)
                theirs.start()
                directory = theirs.metadata_log
                fetched = directory / f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
                await asyncio.to_thread(until, fetched.exists)
                mine = Path(leader.storage.log.directory)
                assert fetched.read_bytes() == (mine / fetched.name).read_bytes()

                def own() -> list[Path]:
                    paths = [*directory.glob("*[1-9].checkpoint")]
                    return [path for path in paths if path.name > fetched.name]

                number = 100
                async with asyncio.timeout(3 * WAIT_S):
                    while not own():
                        await leader.append(topic(number))
                        number += 1
                        await asyncio.sleep(0.01)
                after = own()[0]
                image = read_image(str(mine), int(after.name[:20]))
                assert in_order(snapshot_values(image)) == in_order(values_in(after))
                assert len(image.topics) > 100
                assert theirs.running()

    run(main())
    for path in checkpoints(tmp_path / "ours" / "301" / "log"):
        done = kafka.run(DUMP, "--cluster-metadata-decoder", "--files", str(path))
        assert done.code == 0, done
        assert "SnapshotHeader" in done.out
        assert "SnapshotFooter" in done.out
        assert '"type":"TOPIC_RECORD"' in done.out
        assert done.out.count("isvalid: true") >= 3
        assert "isvalid: false" not in done.out
