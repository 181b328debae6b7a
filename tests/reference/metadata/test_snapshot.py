"""Snapshots of a metadata image: what Kafka wrote, or its classes would write, of the same log."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.metadata_corpus import DATA, oracle, read_gzip
from tests.pipeline.metadata_writer import Writer, frame, write_log

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.interop.snapshots import in_order, values_in
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.metadata.checkpoint import read_image
from kraftspec.reference.metadata.frames import read_frame, write_frame
from kraftspec.reference.metadata.image import ImageError, MetadataImage
from kraftspec.reference.metadata.snapshot import snapshot_values
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.raft.types import ReplicaKey, Voter

LEVELS = range(7, 32)  # Of metadata.version, in Kafka 4.3.1.


def kinds(values: Iterable[bytes]) -> list[str]:
    """The kinds of records in the order in which they come first."""
    return list(dict.fromkeys(read_frame(value).cls.__name__ for value in values))


def test_of_a_draft_control_records_are_its_own_and_data_records_all_metadata(
    tmp_path: Path,
) -> None:
    """What an image would lose is no part of a snapshot: then there is none."""
    voter = Voter(ReplicaKey(1, Uuid(b"u" * 16)))
    meta = MetaProperties(profile="kip-853", cluster_id="c", node_id=1)
    LogDirectory.format(str(tmp_path), meta, bootstrap_files(voter.key.directory_id, [voter]))
    metadata = str(tmp_path / METADATA_NAME)
    feature = frame(kafka.FeatureLevelRecord(name="metadata.version", feature_level=30))
    with LogDirectory.open(str(tmp_path), profile="kip-853") as directory:
        log = directory.open_log()
        log.append_records(1, [feature], 0)
        log.append_records(1, [b"no record of Kafka's"], 0)
        log.close()
    assert list(snapshot_values(read_image(metadata, 2))) == [feature]
    with pytest.raises(ValueError, match="record at offset 2"):
        read_image(metadata, 3)


def values_of(image: dict[str, Any]) -> list[bytes]:
    """What the records are that Kafka's classes would write."""
    values = []
    for one in image["records"]:
        cls: type[Message] = getattr(kafka, one["type"])
        values.append(write_frame(cls.from_json(one["record"], one["version"]), one["version"]))
    return values


@pytest.mark.parametrize("name", [path.name for path in sorted(DATA.glob("*[1-9].checkpoint"))])
def test_a_controllers_own_checkpoint(name: str, tmp_path: Path) -> None:
    """The log alone gives the records that a real controller put into its checkpoint."""
    for path in DATA.glob("*.log"):
        shutil.copy(path, tmp_path)
    values = list(snapshot_values(read_image(str(tmp_path), int(name[:20]))))
    wanted = values_in(DATA / name)
    assert in_order(values) == in_order(wanted)
    assert kinds(values) == kinds(wanted)


def test_images_of_a_real_log() -> None:
    for wanted in read_gzip("images.json.gz"):
        values = list(snapshot_values(read_image(str(DATA), wanted["asOf"])))
        assert in_order(values) == in_order(values_of(wanted)), wanted["asOf"]


@pytest.mark.kafka
def test_images_of_random_records(tmp_path: Path) -> None:
    for seed in range(10, 12):
        directory = tmp_path / str(seed)
        directory.mkdir()
        end = write_log(directory, Writer(seed).batches(150))
        for wanted in oracle("images", directory, *range(3, end + 1, 17), end):
            image = read_image(str(directory), wanted["asOf"])
            values = list(snapshot_values(image))
            assert in_order(values) == in_order(values_of(wanted)), (seed, wanted["asOf"])


def log_of_an_old_cluster() -> list[bytes]:
    """A log that began with 3.3-IV3 and whose metadata.version was raised level by level."""
    topic_id, directory, unknown = Uuid(b"t" * 16), Uuid(b"d" * 16), Uuid(bytes(16))
    partition = kafka.PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0,
        partition_epoch=0,
    )  # fmt: skip
    other = msgspec.structs.replace(partition, partition_id=1)
    # A partition of before the directories that gets another replica: only that one's is known.
    moved = kafka.PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, replicas=(1, 2, 3), adding_replicas=(3,),
        directories=(unknown, unknown, directory),
    )  # fmt: skip
    broker = kafka.RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=directory)
    controller = kafka.RegisterControllerRecord(controller_id=3001, incarnation_id=directory)
    elr = kafka.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    at_level: dict[int, list[tuple[Message, int]]] = {
        7: [
            (broker, 1),
            (kafka.TopicRecord(name="orders", topic_id=topic_id), 0),
            (partition, 0),
            (other, 0),
        ],
        15: [(controller, 0)],
        17: [(moved, 1)],
        26: [(elr, 0)],
    }
    values = []
    for level in LEVELS:
        feature = kafka.FeatureLevelRecord(name="metadata.version", feature_level=level)
        values += [write_frame(*one) for one in [(feature, 0), *at_level.get(level, ())]]
    return values


@pytest.mark.kafka
def test_each_metadata_version(tmp_path: Path) -> None:
    """Records have the version that the cluster's metadata.version gives them, not the log's."""
    values = log_of_an_old_cluster()
    batches = [
        encode_batch([value], timestamps=at, base_offset=at, partition_leader_epoch=1)
        for at, value in enumerate(values)
    ]
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(batches))
    versions = set()
    for wanted in oracle("images", tmp_path, *range(1, len(values) + 1)):
        ours = list(snapshot_values(read_image(str(tmp_path), wanted["asOf"])))
        assert in_order(ours) == in_order(values_of(wanted)), wanted["asOf"]
        versions |= {(one["type"], one["version"]) for one in wanted["records"]}
    brokers = {version for name, version in versions if name == "RegisterBrokerRecord"}
    partitions = {version for name, version in versions if name == "PartitionRecord"}
    assert (brokers, partitions) == ({1, 2, 3, 4}, {0, 1, 2})


def test_a_transaction_that_is_open_is_left_out(tmp_path: Path) -> None:
    feature = kafka.FeatureLevelRecord(name="metadata.version", feature_level=30)
    begin = kafka.BeginTransactionRecord(name="work")
    topic = kafka.TopicRecord(name="orders", topic_id=Uuid(b"t" * 16))
    write_log(tmp_path, [[feature], [begin, topic], [kafka.EndTransactionRecord()]])
    open_image = read_image(str(tmp_path), 3)
    assert open_image.settled == (1, 1, 1000)
    assert list(snapshot_values(open_image)) == [frame(feature)]
    image = read_image(str(tmp_path), 4)
    assert image.settled == (4, 1, 1003)
    assert list(snapshot_values(image)) == [frame(feature), frame(topic)]


def test_nothing_says_how_to_write_what_has_no_metadata_version() -> None:
    image = MetadataImage()
    image.apply(kafka.NoOpRecord())
    assert list(snapshot_values(image)) == []
    image.apply(kafka.TopicRecord(name="orders", topic_id=Uuid(b"t" * 16)))
    with pytest.raises(ImageError, match=r"no metadata.version is in force"):
        list(snapshot_values(image))


def test_what_a_metadata_version_has_no_field_for_is_refused() -> None:
    image = MetadataImage()
    image.apply(kafka.FeatureLevelRecord(name="metadata.version", feature_level=7))
    image.apply(kafka.RegisterBrokerRecord(broker_id=1, log_dirs=(Uuid(b"d" * 16),)))
    with pytest.raises(CodecError, match="logDirs"):
        list(snapshot_values(image))
    image.brokers.clear()
    image.apply(kafka.RegisterControllerRecord(controller_id=3001))
    with pytest.raises(ImageError, match="no registrations of controllers"):
        list(snapshot_values(image))
