"""The values of control records: which message each type has, and their bytes.

The key of a control record is its type; the value is the bare message at the version that its own
first field says (``ControlRecordUtils``). Types that are not here are passed over by readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from kraftspec.fastpath.batch_writer import control_record_key, encode_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.records import Record
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

ControlValue = tuple[int, bytes]  # The type of a control record, and its encoded value.
ControlMessage = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)

TYPES: Final[dict[type[Message], ControlRecordType]] = {
    LeaderChangeMessage: ControlRecordType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlRecordType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlRecordType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlRecordType.KRAFT_VERSION,
    VotersRecord: ControlRecordType.KRAFT_VOTERS,
}
MESSAGES: Final[dict[int, type[Message]]] = {
    control_type: message for message, control_type in TYPES.items()
}

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


def control_value(message: ControlMessage) -> ControlValue:
    """Return the type and the bytes of a message as Apache Kafka writes it."""
    return TYPES[type(message)], message.encode(message.version)


def encode_control_values(
    values: Sequence[ControlValue], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytes:
    """Encode control records as one batch."""
    return encode_batch(
        [value for _, value in values],
        keys=[control_record_key(control_type) for control_type, _ in values],
        timestamps=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        control=True,
    )


def control_type_of(record: Record) -> int:
    """Return the type of a record of a control batch; -1 where it has none."""
    if record.key is None or len(record.key) < _KEY.size:
        return -1
    control_type: int = _KEY.unpack_from(record.key)[1]
    return control_type


def decode_control_record(record: Record) -> Message | None:
    """Read a record of a control batch; None for a type that Apache Kafka 4.4.0 does not have.

    Raises CodecError for a value that its type does not have.
    """
    message = MESSAGES.get(control_type_of(record))
    if message is None or record.value is None:
        return None
    (version,) = _VERSION.unpack_from(record.value.ljust(_VERSION.size, b"\0"))
    # A later version has more fields, which a reader of now passes over, as Kafka's does.
    is_known = version in message.VALID_VERSIONS
    return message.decode(
        record.value, version if is_known else message.VALID_VERSIONS[-1], lenient=not is_known
    )


def decode_control_records(records: Iterable[Record]) -> list[tuple[int, Message]]:
    """Return (offset, message) of the records of a control batch that are known."""
    decoded = ((record.offset, decode_control_record(record)) for record in records)
    return [(offset, message) for offset, message in decoded if message is not None]
