"""Record batches of magic 2, written as ``MemoryRecordsBuilder`` writes them.

``encode_batch`` makes a batch of columns (lists, or Arrow arrays) in one go; ``BatchBuilder`` takes
records one by one; ``encode_control_batch`` makes the batch of a control record. The layout is
drawn in ``records``. The classes and functions named ``pure`` are the plain-Python twins of
those in ``_batch_writer``: same bytes, same errors.

Timestamps are milliseconds since the epoch, -1 for none. The base timestamp of a batch is that of
its first record. What no batch can hold is refused with ``CodecError``, whose path is that of
the value in JSON (``records[3].headers[0].key``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_fields import (
    BATCH_BYTES_MAX,
    INT64_MAX,
    Fields,
    check_producer,
    integer,
    plain_columns,
    plain_fields,
    plain_record,
    refuse,
)
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import ErrorClass
from kraftspec.fastpath.records import (
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORDS_AT,
    Compression,
    Header,
    TimestampType,
)

HeaderLike = Header | tuple[str, bytes | None]
BytesLike = bytes | bytearray | memoryview

# From the base offset to the magic; then the CRC; then what the CRC covers.
_HEAD = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_COVERED = struct.Struct(">hiqqqhii")
_CONTROL_KEY = struct.Struct(">hh")


def varint(value: int) -> bytes:
    """Encode a signed varint: zigzag, then 7 bits a byte, least significant first."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:  # noqa: PLR2004 - seven bits a byte is the definition
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _nullable(value: bytes | None) -> bytes:
    return b"\x01" if value is None else varint(len(value)) + value


def write_record(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    timestamp_delta: int,
    offset_delta: int,
    attributes: int = 0,
) -> bytes:
    """Encode one record, its length before it."""
    parts = []
    for name, content in headers:
        raw = name.encode()
        parts += [varint(len(raw)), raw, _nullable(content)]
    body = b"".join([
        attributes.to_bytes(1, "big", signed=True),
        varint(timestamp_delta),
        varint(offset_delta),
        _nullable(key),
        _nullable(value),
        varint(len(parts) // 3),
        *parts,
    ])  # fmt: skip
    return varint(len(body)) + body


def seal(
    records: bytes,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Put the head of a batch before its records, compressed or not."""
    size = RECORDS_AT + len(records)
    if size > BATCH_BYTES_MAX:
        _too_long(size, BATCH_BYTES_MAX)
    covered = _COVERED.pack(
        attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    head = _HEAD.pack(base_offset, size - LOG_OVERHEAD_BYTES, partition_leader_epoch, MAGIC)
    crc = crc32c(records, crc32c(covered))
    return b"".join([head, _CRC.pack(crc), covered, records])


def _too_long(size: int, limit: int) -> None:
    refuse(
        ErrorClass.LENGTH_TOO_LONG,
        f"a batch of {size} bytes, and at most {limit} wanted",
        "records",
    )


def _finish(
    fields: Fields, records: bytes, base_timestamp: int, max_timestamp: int, count: int
) -> bytes:
    size = RECORDS_AT + len(records)
    if size > BATCH_BYTES_MAX:
        _too_long(size, BATCH_BYTES_MAX)
    if fields.compression is not Compression.NONE:
        from kraftspec.fastpath.compression import compress  # noqa: PLC0415 - few batches need it

        records = compress(fields.compression, records, fields.compression_level)
    if fields.attributes & LOG_APPEND_TIME:
        max_timestamp = fields.log_append_time
    return seal(
        records,
        base_offset=fields.base_offset,
        partition_leader_epoch=fields.partition_leader_epoch,
        attributes=fields.attributes,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        count=count,
    )


def _check_offsets(base_offset: int, count: int) -> None:
    if base_offset > INT64_MAX - (count - 1):
        refuse(
            ErrorClass.INTEGER_OUT_OF_RANGE,
            f"the offset of record {count - 1} is more than an int64 holds",
            "baseOffset",
        )


def pure_encode_batch(
    values: Sequence[BytesLike | None] | Any,
    *,
    timestamps: int | Sequence[int] | Any,
    keys: Sequence[BytesLike | None] | Any = None,
    headers: Sequence[Iterable[HeaderLike] | None] | None = None,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Encode one batch of whole columns; no records give no bytes, as with Kafka's builder.

    ``values``, ``keys`` and ``timestamps`` are sequences of equal length, or anything that hands
    out Arrow data of that length (``__arrow_c_array__`` or ``__arrow_c_stream__``): binary, string
    or null arrays, large and view kinds too; int64 or timestamp[ms] for timestamps. An int is
    the timestamp of all. ``headers`` gives each record its (key, value) pairs, or None.

    Raises ``CodecError`` for what a batch cannot hold, and ImportError naming the package where
    the library of a compression is missing.
    """
    fields = plain_fields(
        base_offset, partition_leader_epoch, compression, compression_level, timestamp_type,
        log_append_time, producer_id, producer_epoch, base_sequence, transactional, control,
    )  # fmt: skip
    columns = plain_columns(values, keys, timestamps, headers)
    count = len(columns.values)
    if count == 0:
        return b""
    _check_offsets(fields.base_offset, count)
    stamps = columns.timestamps
    if isinstance(stamps, int):
        stamps = [stamps] * count
    base = stamps[0]
    records = b"".join(
        write_record(
            columns.keys[at] if columns.keys is not None else None,
            value,
            columns.headers[at] if columns.headers is not None else (),
            stamps[at] - base,
            at,
        )
        for at, value in enumerate(columns.values)
    )
    return _finish(fields, records, base, max(stamps), count)


class PureBatchBuilder:
    """Collects records into one batch; like Kafka's ``MemoryRecordsBuilder``.

    ``size`` is known before each append (``size_with``, ``has_room_for``): exactly for a batch that
    is not compressed, and without any gain of compression for one that is. ``size_max``, in bytes
    and head included, limits how many records come together: the first one always has room.
    After ``build()`` the builder may go on, or start again by ``clear()``.
    """

    __slots__ = ("_base", "_fields", "_max", "_parts", "_size", "_size_max")

    def __init__(
        self,
        base_offset: int = 0,
        *,
        partition_leader_epoch: int = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        size_max: int | None = None,
    ) -> None:
        self._fields = plain_fields(
            base_offset, partition_leader_epoch, compression, compression_level, timestamp_type,
            log_append_time, producer_id, producer_epoch, base_sequence, transactional, control,
        )  # fmt: skip
        self._size_max = BATCH_BYTES_MAX
        if size_max is not None:
            self._size_max = min(integer(size_max, "int64", "size_max"), BATCH_BYTES_MAX)
        self._reset()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._size = RECORDS_AT
        self._base = self._max = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """The size of the batch in bytes, head included, before compression."""
        return self._size

    @property
    def count(self) -> int:
        """How many records have been appended."""
        return len(self._parts)

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
        return self._fields.base_offset

    def append(
        self,
        key: BytesLike | None,
        value: BytesLike | None,
        timestamp: int,
        headers: Iterable[HeaderLike] | None = (),
    ) -> int:
        """Append a record and return its offset.

        Raises ``CodecError`` of class length_too_long where it does not fit, and of others
        for what no record holds; the builder is then as it was.
        """
        record, stamp = self._record(key, value, timestamp, headers)
        size = self._size + len(record)
        if not self._has_room(size):
            _too_long(size, self._size_max)
        at = len(self._parts)
        _check_offsets(self._fields.base_offset, at + 1)
        if at == 0:
            self._base = self._max = stamp
        self._max = max(self._max, stamp)
        self._parts.append(record)
        self._size = size
        return self._fields.base_offset + at

    def _record(
        self, key: object, value: object, timestamp: object, headers: object
    ) -> tuple[bytes, int]:
        """Encode the next record; return its timestamp too."""
        plain = plain_record(key, value, timestamp, headers, len(self._parts))
        at = len(self._parts)  # Python code may have run, and appended.
        stamp = plain.timestamp
        delta = stamp - self._base if at else 0
        return write_record(plain.key, plain.value, plain.headers, delta, at), stamp

    def _has_room(self, size: int) -> bool:
        return size <= (self._size_max if self._parts else BATCH_BYTES_MAX)

    def size_with(
        self,
        key: BytesLike | None,
        value: BytesLike | None,
        timestamp: int,
        headers: Iterable[HeaderLike] | None = (),
    ) -> int:
        """Return what ``size`` would be after this record."""
        return self._size + len(self._record(key, value, timestamp, headers)[0])

    def has_room_for(
        self,
        key: BytesLike | None,
        value: BytesLike | None,
        timestamp: int,
        headers: Iterable[HeaderLike] | None = (),
    ) -> bool:
        """Return whether ``append`` would fit: in bytes, and in offsets of an int64."""
        size = self.size_with(key, value, timestamp, headers)
        return self._has_room(size) and self._fields.base_offset <= INT64_MAX - len(self._parts)

    def build(self) -> bytes:
        """Return the batch; without records that is no bytes, as with Kafka's builder."""
        if not self._parts:
            return b""
        records = b"".join(self._parts)
        return _finish(self._fields, records, self._base, self._max, len(self._parts))

    def clear(self, base_offset: int | None = None, base_sequence: int | None = None) -> None:
        """Drop the records; start at another offset, and another sequence, where given."""
        fields = self._fields
        if base_offset is not None:
            fields = fields._replace(base_offset=integer(base_offset, "int64", "baseOffset"))
        if base_sequence is not None:
            fields = fields._replace(base_sequence=integer(base_sequence, "int32", "baseSequence"))
        check_producer(
            fields.attributes, fields.producer_id, fields.producer_epoch, fields.base_sequence
        )
        self._fields = fields
        self._reset()


def control_record_key(control_type: int, version: int = 0) -> bytes:
    """Return the key of a control record (``ControlRecordType.recordKey``): version, type."""
    return _CONTROL_KEY.pack(
        integer(version, "int16", "version"), integer(control_type, "int16", "type")
    )


def encode_control_batch(
    control_type: int,
    value: bytes,
    *,
    timestamp: int,
    version: int = 0,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """Encode the batch of one control record: its type, and its value encoded already.

    ``version`` is that of the control record's key, 0 until Kafka has another. A transaction's end
    marker is transactional and has its producer's id and epoch.
    """
    return encode_batch(
        [value],
        keys=[control_record_key(control_type, version)],
        timestamps=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


_native = native.load("_batch_writer")
if TYPE_CHECKING or _native is None:
    BatchBuilder = PureBatchBuilder
    encode_batch = pure_encode_batch
else:
    BatchBuilder = _native.BatchBuilder
    encode_batch = _native.encode_batch
