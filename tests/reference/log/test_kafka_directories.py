"""Directories that a real Kafka 4.3.1 wrote: ours open, with the content that Kafka's tool says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftspec.generated.kafka import QuorumStateData
from kraftspec.reference.log import LogDirectory, MetadataLog
from kraftspec.reference.log.epochs import EpochList
from kraftspec.reference.log.quorum_state import render
from kraftspec.reference.log.snapshots import parse_name

from . import kafka_directories
from .corpus import METADATA, SHAPES, Batch, dump_of, parse_dump, read_batches, unpack

FRESH = pytest.param("fresh", marks=pytest.mark.kafka)


@pytest.fixture(scope="module", params=[*SHAPES, FRESH])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Directories of the corpus, or some that a real Kafka writes now."""
    if request.param == "fresh":
        work = tmp_path_factory.mktemp("fresh")
        (work / "out").mkdir()
        kafka_directories.grown(work / "cluster", work / "out")
        directories = sorted(path for path in (work / "out").iterdir() if path.is_dir())
    else:
        directories = unpack(request.param, tmp_path_factory.mktemp("corpus"))
    assert directories
    return directories


def all_of(log: MetadataLog, offset: int) -> bytes:
    parts = []
    while offset < log.end_offset:
        parts.append(log.read(offset, 1 << 20))
        offset = list(read_batches(parts[-1]))[-1].last_offset + 1
    return b"".join(parts)


def with_positions(batches: list[Batch], size_of_earlier: list[int]) -> list[Batch]:
    """Positions in a dump are those of a segment; count them through all segments."""
    for batch in batches:
        batch.position += sum(size_of_earlier)
    return batches


def test_the_log_has_the_batches_and_records_that_kafka_says(nodes: list[Path]) -> None:
    for node in nodes:
        files = sorted((node / METADATA).glob("*.log"))
        expected: list[Batch] = []
        sizes: list[int] = []
        for path in files:
            expected += with_positions(parse_dump(dump_of(node, path.name)), sizes)
            sizes.append(path.stat().st_size)
        before = [path.read_bytes() for path in files]
        with LogDirectory.open(str(node)) as directory:
            log = directory.open_log()
            assert log.segment_offsets[0] == expected[0].base_offset
            served = [batch for batch in expected if batch.base_offset >= log.start_offset]
            assert served[0].base_offset == log.start_offset
            first = served[0].position  # Where they stand in what is read, which begins later.
            for batch in served:
                batch.position -= first
            assert list(read_batches(all_of(log, log.start_offset))) == served
            assert log.end_offset == log.flushed_offset == expected[-1].last_offset + 1
            assert log.recovery.batches == len(expected)
            assert (log.recovery.torn_bytes, log.recovery.zero_bytes) == (0, 0)
            epochs: dict[int, int] = {}
            for batch in served:
                epochs.setdefault(batch.epoch, batch.base_offset)
            assert dict(log.epochs) == epochs
            log.close()
        assert [path.read_bytes() for path in files] == before


def test_snapshots_have_the_records_that_kafka_says(nodes: list[Path]) -> None:
    for node in nodes:
        with LogDirectory.open(str(node)) as directory:
            log = directory.open_log()
            names = [one.name for one in (node / METADATA).glob("*.checkpoint")]
            assert {tuple(one) for one in log.snapshots} == {
                tuple(parsed.id) for parsed in map(parse_name, names) if parsed
            }
            for id_ in log.snapshots:
                reader = log.open_snapshot(id_)
                name = f"{id_.end_offset:020d}-{id_.epoch:010d}.checkpoint"
                data = reader.read(0, reader.size)
                assert list(read_batches(data)) == parse_dump(dump_of(node, name))
                assert data == (node / METADATA / name).read_bytes()
                count = sum(len(records) for _, records in reader.batches())
                assert count == sum(batch.count for batch in parse_dump(dump_of(node, name)))
                header_line = next(
                    line for line in dump_of(node, name).splitlines() if "Header" in line
                )
                stamp = json.loads(header_line.rpartition("SnapshotHeader ")[2])[
                    "lastContainedLogTimestamp"
                ]
                assert reader.header().last_contained_log_timestamp == stamp
                reader.close()
            log.close()


def test_quorum_state_is_read_and_written_byte_for_byte(nodes: list[Path]) -> None:
    for node in nodes:
        path = node / METADATA / "quorum-state"
        with LogDirectory.open(str(node)) as directory:
            stored = directory.quorum_state.read()
            assert stored is not None
            state, version = stored
            value = json.loads(path.read_bytes())
            assert value["data_version"] == version == int("voters" not in str(value).lower())
            assert state.leader_epoch == value["leaderEpoch"]
            assert render(state, version) == path.read_bytes()
            before = path.read_bytes()
            directory.quorum_state.write(QuorumStateData(leader_epoch=99), 1)
            directory.quorum_state.write(state, version)
            assert path.read_bytes() == before


def test_meta_properties_are_read(nodes: list[Path]) -> None:
    for node in nodes:
        lines = dict(
            line.split("=", 1)
            for line in (node / "meta.properties").read_text().split()
            if "=" in line
        )
        with LogDirectory.open(str(node), node_id=int(node.name)) as directory:
            meta = directory.meta
            assert meta.profile == "kafka"
            assert meta.cluster_id == lines["cluster.id"]
            assert str(meta.directory_id) == lines["directory.id"]
            assert not meta.others


def test_epochs_are_those_of_kafka(tmp_path: Path) -> None:
    seen = 0
    for shape in SHAPES:
        for node in unpack(shape, tmp_path):
            path = node / METADATA / "leader-epoch-checkpoint"
            kafkas = EpochList.from_checkpoint(path.read_bytes())
            assert kafkas.to_checkpoint() == path.read_bytes()
            with LogDirectory.open(str(node)) as directory:
                log = directory.open_log()
                assert log.epochs == kafkas.entries
                assert not log.recovery.epochs_were_stale
                log.close()
            seen += len(kafkas.entries)
    assert seen > 10


def test_indexes_of_kafkas_leaders_are_ours(tmp_path: Path) -> None:
    """A leader appends batch by batch, as recovery does; a follower many at once, with less."""
    same = 0
    for node in unpack("retained", tmp_path) + unpack("grown", tmp_path)[:1]:
        before = {path: path.read_bytes() for path in (node / METADATA).glob("*index")}
        with LogDirectory.open(str(node)) as directory:
            log = directory.open_log()
            assert log.recovery.stale_indexes == []
            log.close()
        for path, data in before.items():
            assert path.read_bytes() == data
            same += 1
    assert same >= 6


def test_after_sigkill_the_preallocated_index_is_told(tmp_path: Path) -> None:
    node = unpack("failovers", tmp_path)[0]
    active = sorted((node / METADATA).glob("*.index"))[-1]
    assert active.stat().st_size == 10 << 20
    with LogDirectory.open(str(node)) as directory:
        log = directory.open_log()
        assert active.name in log.recovery.stale_indexes
        assert not active.exists()
        log.close()
    assert active.stat().st_size < 1 << 10


def test_what_kafka_had_marked_for_deletion_is_gone(tmp_path: Path) -> None:
    (node,) = unpack("retained", tmp_path)
    marked = [path.name for path in (node / METADATA).glob("*.deleted")]
    assert len(marked) > 10
    with LogDirectory.open(str(node)) as directory:
        log = directory.open_log()
        assert sorted(log.recovery.removed) == sorted(marked)
        assert log.start_offset > 0
        assert log.snapshots[0].end_offset >= log.start_offset
        log.close()
    assert not list((node / METADATA).glob("*.deleted"))


def test_ours_appends_to_kafkas_log(nodes: list[Path]) -> None:
    for node in nodes:
        with LogDirectory.open(str(node)) as directory:
            log = directory.open_log()
            end = log.end_offset
            log.append_records(log.last_epoch + 1, [b"\x01\x14\x00\x00"], 1_795_279_999_000)
            log.flush()
            log.close()
            log = directory.open_log()
            assert log.end_offset == end + 1
            assert log.epochs[-1].start_offset == end
            assert log.truncate_to(end) == end
            log.close()
