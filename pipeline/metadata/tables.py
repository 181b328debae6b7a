"""A metadata image as tables, one a kind of thing; the columns are the fields of its record.

==================  ================================================  ===========================
table               columns of                                        and
==================  ================================================  ===========================
quorum              (one row)                                         endOffset, epoch, timestamp,
                                                                      leaderId, leaderEpoch,
                                                                      kraftVersion, transaction
voters              VotersRecord.Voter
topics              TopicRecord
partitions          PartitionRecord                                   topicName, first
brokers             RegisterBrokerRecord
controllers         RegisterControllerRecord
configs             ConfigRecord
features            FeatureLevelRecord
client_quotas       ClientQuotaRecord, without remove
acls                AccessControlEntryRecord
scram_credentials   UserScramCredentialRecord, without its secrets
producer_ids        ProducerIdsRecord: nextProducerId; no row at first
delegation_tokens   DelegationTokenRecord
==================  ================================================  ===========================

Fields of unknown tags are left out. Types that Kafka numbers (of resources, patterns, operations,
permissions, mechanisms) are text, as its tools print them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.values import UNKNOWN_TAGS
from kraftspec.generated import kafka
from kraftspec.pipeline.messages.columns import struct_columns
from kraftspec.pipeline.messages.schema import ROOT, struct_type
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.metadata.names import (
    ACL_RESOURCES,
    CONFIG_RESOURCES,
    MECHANISMS,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
)

_Names = Mapping[int, str]

_QUORUM: Final = pa.schema(
    [
        ("endOffset", pa.int64()),
        ("epoch", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("leaderId", pa.int32()),
        ("leaderEpoch", pa.int32()),
        ("kraftVersion", pa.int16()),
        ("transaction", pa.string()),
    ]
)
TOPIC_NAME: Final = "topicName"


class _Table(NamedTuple):
    """How a table is made: the records that are its rows, and what of them."""

    message: type[Message]
    rows: Callable[[MetadataImage], Iterable[Any]]
    without: tuple[str, ...] = ()
    names: Mapping[str, _Names] = {}
    struct: str = ""  # A struct of the message instead of the message itself.


def _configs(image: MetadataImage) -> Iterable[kafka.ConfigRecord]:
    return chain.from_iterable(values.values() for values in image.configs.values())


def _partitions(image: MetadataImage) -> list[kafka.PartitionRecord]:
    rows = chain.from_iterable(partitions.values() for partitions in image.partitions.values())
    return sorted(rows, key=lambda row: (image.topic(row.topic_id), row.partition_id))


_TABLES: Final = {
    "voters": _Table(
        kafka.VotersRecord,
        lambda image: sorted(image.voters, key=lambda voter: voter.voter_id),
        struct="Voter",
    ),
    "topics": _Table(
        kafka.TopicRecord, lambda image: sorted(image.topics.values(), key=lambda row: row.name)
    ),
    "partitions": _Table(kafka.PartitionRecord, _partitions),
    "brokers": _Table(kafka.RegisterBrokerRecord, lambda image: _by_key(image.brokers)),
    "controllers": _Table(kafka.RegisterControllerRecord, lambda image: _by_key(image.controllers)),
    "configs": _Table(
        kafka.ConfigRecord,
        lambda image: sorted(
            _configs(image), key=lambda row: (row.resource_type, row.resource_name, row.name)
        ),
        names={"resourceType": CONFIG_RESOURCES},
    ),
    "features": _Table(kafka.FeatureLevelRecord, lambda image: _by_key(image.features)),
    "client_quotas": _Table(
        kafka.ClientQuotaRecord,
        lambda image: [image.client_quotas[key] for key in sorted(image.client_quotas, key=repr)],
        without=("remove",),
    ),
    "acls": _Table(
        kafka.AccessControlEntryRecord,
        lambda image: _by_key(image.acls),
        names={
            "resourceType": ACL_RESOURCES,
            "patternType": PATTERNS,
            "operation": OPERATIONS,
            "permissionType": PERMISSIONS,
        },
    ),
    "scram_credentials": _Table(
        kafka.UserScramCredentialRecord,
        lambda image: _by_key(image.scram_credentials),
        without=("salt", "storedKey", "serverKey"),
        names={"mechanism": MECHANISMS},
    ),
    "producer_ids": _Table(
        kafka.ProducerIdsRecord,
        lambda image: [] if image.producer_ids is None else [image.producer_ids],
        without=("brokerId", "brokerEpoch"),  # The last requester; a snapshot does not keep it.
    ),
    "delegation_tokens": _Table(
        kafka.DelegationTokenRecord, lambda image: _by_key(image.delegation_tokens)
    ),
}
TABLES: Final = ("quorum", *_TABLES)


def image_tables(image: MetadataImage, names: Sequence[str] = TABLES) -> dict[str, pa.Table]:
    """Return the tables of an image by name; ValueError for one that there is not.

    The schema of a table does not depend on its rows.
    """
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise ValueError(f"there is no table {unknown[0]!r}; the tables are {', '.join(TABLES)}")
    return {name: _quorum(image) if name == "quorum" else _table(image, name) for name in names}


def _by_key(things: Mapping[Any, Any]) -> list[Any]:
    return [things[key] for key in sorted(things)]


def _quorum(image: MetadataImage) -> pa.Table:
    is_empty = image.end_offset == 0
    row = {
        "endOffset": image.end_offset,
        "epoch": image.epoch,
        "timestamp": None if is_empty else image.timestamp * 1000,
        "leaderId": image.leader_id,
        "leaderEpoch": image.leader_epoch,
        "kraftVersion": image.kraft_version,
        "transaction": image.transaction,
    }
    return pa.Table.from_pylist([row], schema=_QUORUM)


def _table(image: MetadataImage, name: str) -> pa.Table:
    source = _TABLES[name]
    codec, rows = source.message.CODEC, list(source.rows(image))
    structs = [struct.__name__ for struct in codec.structs]
    struct = structs.index(source.struct) if source.struct else ROOT
    newest = codec.layouts[codec.plans[max(codec.plans)]]
    layout = next(one for one in reversed(codec.layouts) if one[0] == struct)
    columns = struct_columns(codec, newest if struct == ROOT else layout, rows)
    table: dict[str, pa.Array] = {}
    if name == "partitions":
        table[TOPIC_NAME] = pa.array([image.topic(row.topic_id) for row in rows], pa.string())
    for field, column in zip(struct_type(codec, struct), columns, strict=True):
        if field.name in source.names:
            known = source.names[field.name]
            texts = [known.get(value, str(value)) for value in column.to_pylist()]
            table[field.name] = pa.array(texts, pa.string())
        elif field.name not in (UNKNOWN_TAGS, *source.without):
            table[field.name] = column.cast(_without_tags(field.type))
    return pa.table(table)


def _without_tags(type_: pa.DataType) -> pa.DataType:
    """Return a type without the unknown tags of the structs in it."""
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _without_tags(type_.value_type)))
    if pa.types.is_struct(type_):
        kept = [field for field in type_ if field.name != UNKNOWN_TAGS]
        return pa.struct([field.with_type(_without_tags(field.type)) for field in kept])
    return type_
