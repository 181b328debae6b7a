"""Record batches of magic 2: the facts that writers and readers share.

A batch (``org.apache.kafka.common.record.DefaultRecordBatch``), big-endian::

     0  int64   base offset
     8  int32   batch length: the bytes that follow this field
    12  int32   partition leader epoch          (the CRC does not cover it)
    16  int8    magic = 2
    17  uint32  CRC-32C of all that follows
    21  int16   attributes: bits 0-2 compression, 3 log append time, 4 transactional,
                5 control, 6 delete horizon
    23  int32   last offset delta
    27  int64   base timestamp, milliseconds (the delete horizon when bit 6 is set)
    35  int64   max timestamp
    43  int64   producer id
    51  int16   producer epoch
    53  int32   base sequence
    57  int32   record count
    61  records, compressed as one block

A record (``DefaultRecord``), all integers zigzag varints but the attributes::

    length  attributes int8 = 0  timestamp delta  offset delta
    key length (-1: null)  key  value length (-1: null)  value
    header count  { key length  key (UTF-8)  value length (-1: null)  value }
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from kraftspec.fastpath.errors import CodecError, ErrorClass

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57
RECORDS_AT: Final = 61

LOG_OVERHEAD_BYTES: Final = 12  # Base offset and batch length, which the batch length leaves out.
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1


class Compression(IntEnum):
    """How the records of a batch are compressed: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The origin of the timestamps of a batch: bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Header(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A header of a record; the value may be null."""

    key: str
    value: bytes | memoryview | None


class Record(msgspec.Struct, gc=False):
    """A record as a reader sees it: absolute offset and timestamp (milliseconds)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RawRecord(msgspec.Struct, gc=False):
    """A record in the form of its batch: deltas to the base of the batch, attributes kept."""

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch before its records, and its position.

    ``position`` is the batch's first byte in the input and ``size`` all of its bytes; timestamps
    are milliseconds.
    """

    position: int
    size: int
    base_offset: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end(self) -> int:
        """The byte after the batch: where the next one starts."""
        return self.position + self.size

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also of one that compaction has removed."""
        return wrap_int64(self.base_offset + self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """How the records are compressed; CodecError (unknown_compression) when it is unknown."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise CodecError(
                ErrorClass.UNKNOWN_COMPRESSION,
                f"there is no compression type {codec}",
                path="attributes",
                offset=self.position + ATTRIBUTES_AT,
            )
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """The origin of the timestamps."""
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records: not data, but marks of the protocol."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is also the time from which tombstones may go."""
        return bool(self.attributes & DELETE_HORIZON)


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A batch with its records in their encoded form (deltas)."""

    header: BatchHeader
    records: list[RawRecord]


def wrap_int64(value: int) -> int:
    """Bring a sum into int64 as Java's long does: it wraps."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
