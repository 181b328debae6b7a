"""A metadata image as the records of a snapshot: what Apache Kafka 4.4.0 would write of it.

Their order is Kafka's by kind, levels of features first; within a kind it is that of the image,
where Kafka's is often that of a hash. Source: ``org.apache.kafka.image.MetadataImage.write`` and
what it hands the writer on to; versions of records are those of the cluster's metadata.version
(``org.apache.kafka.server.common.MetadataVersion``), whatever version the log has them at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated import kafka
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.metadata.image import ImageError

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.metadata.image import MetadataImage

METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
# From which metadata.version on: 3.4-IV0, 3.7-IV0, 3.7-IV2, 4.0-IV1, 4.3-IV0.
_MIGRATION: Final = 8
_CONTROLLER_REGISTRATION: Final = 15
_DIRECTORIES: Final = 17
_ELR: Final = 23
_CORDONED: Final = 30


def snapshot_values(image: MetadataImage) -> Iterator[bytes]:
    """Yield the values of the data records of a snapshot of ``image``.

    Raises ImageError where there is metadata and no metadata.version, ImageError and CodecError
    for what the metadata.version in force has no record or field for; so does Kafka
    (UnwritableMetadataException).
    """
    level = image.features.get(METADATA_VERSION)
    if level is None:
        if image.topics or image.brokers or image.controllers or any(True for _ in _rest(image)):
            raise ImageError("no metadata.version is in force, so nothing says how to write it")
        return
    yield write_frame(level, 0)
    for name, feature in image.features.items():
        if name != METADATA_VERSION:
            yield write_frame(feature, 0)
    version = level.feature_level
    for broker in image.brokers.values():
        yield write_frame(broker, _broker_version(version))
    if image.controllers and version < _CONTROLLER_REGISTRATION:
        raise ImageError(f"metadata.version {version} has no registrations of controllers")
    yield from _frames(image.controllers.values())
    with_elr = ELR_VERSION in image.features
    for topic_id, topic in image.topics.items():
        yield write_frame(topic, 0)
        for partition in image.partitions[topic_id].values():
            yield _partition(partition, version, with_elr=with_elr)
    yield from _frames(_rest(image))


def _frames(records: Iterable[Message]) -> Iterator[bytes]:
    """Yield the values of records that have one version only."""
    return (write_frame(record, 0) for record in records)


def _rest(image: MetadataImage) -> Iterator[Message]:
    for configs in image.configs.values():
        yield from configs.values()
    yield from image.client_quotas.values()
    if image.producer_ids is not None:  # Which broker was given the last ones is not kept.
        yield kafka.ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.producer_ids.next_producer_id
        )
    yield from image.acls.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()


def _broker_version(level: int) -> int:
    """``MetadataVersion.registerBrokerRecordVersion``; Kafka 4 begins with 3.3-IV3, which is 1."""
    if level >= _CORDONED:
        return 4
    if level >= _DIRECTORIES:
        return 3
    return 2 if level >= _MIGRATION else 1


def _partition(partition: kafka.PartitionRecord, level: int, *, with_elr: bool) -> bytes:
    """``PartitionRegistration.toRecord``: empty lists of ELR are left out, directories never."""
    has_directories = level >= _DIRECTORIES
    # A record of before directories has none; each replica's is then said to be unknown so far.
    unknown = (ZERO_UUID,) * len(partition.replicas) if has_directories else ()
    written = msgspec.structs.replace(
        partition,
        directories=partition.directories or unknown,
        eligible_leader_replicas=(partition.eligible_leader_replicas or None) if with_elr else None,
        last_known_elr=(partition.last_known_elr or None) if with_elr else None,
    )
    return write_frame(written, 2 if level >= _ELR else int(has_directories))
