"""Decode and encode again: the encoder must give the bytes of the log.

An uncompressed batch is compared byte for byte. Of a compressed one the records are, once inflated,
and every field of the header that the encoder makes: two compressors, or two releases of one, give
different bytes of the same records.

Most batches are what a producer sends, and ``encode_batch`` repeats those at once from Arrow
columns (small ones, and those with headers, from objects). What it gives differently is looked at
record by record: the log cleaner leaves batches that no producer can send, with offsets missing or
with a delete horizon for their base timestamp, and each way to differ has a name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.batch_fields import plain_bytes
from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.batch_writer import seal, write_record
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    RawRecord,
    TimestampType,
)

# Slices of Arrow columns cost a few microseconds a batch, objects as much a dozen records.
COLUMN_RECORDS_MIN: Final = 12
_KNOWN_ATTRIBUTES: Final = DELETE_HORIZON * 2 - 1
_PLAIN: Final = (LOG_APPEND_TIME, TimestampType.LOG_APPEND_TIME, TimestampType.CREATE_TIME)

Encode = Callable[..., bytes]


class RoundTrip(NamedTuple):
    """How a batch came out: ``is_same`` by the encoder; else why it could not (empty: unknown)."""

    is_same: bool
    reasons: tuple[tuple[str, str], ...] = ()


SAME: Final = RoundTrip(True)


def from_columns(
    data: memoryview, header: BatchHeader, columns: tuple[Any, Any, Any], row: int
) -> bool:
    """Whether the plain batch is what the encoder makes of its rows of (timestamp, key, value).

    ``header`` is that of the batch in the log, codec included.
    """
    count = header.record_count
    timestamps, keys, values = (column.slice(row, count) for column in columns)
    try:
        encoded = _encoder(header)(values, keys=keys, timestamps=timestamps)
    except CodecError:
        return False
    return _is_same(data, header, encoded)


def from_objects(data: memoryview, header: BatchHeader, records: list[RawRecord]) -> bool:
    """Whether encoding its records gives the plain batch."""
    base = header.base_timestamp
    headers = None
    if any(record.headers for record in records):
        # Plain pairs: the encoder does not check each of those.
        headers = [[(one.key, one.value) for one in record.headers] for record in records]
    try:
        encoded = _encoder(header)(
            [record.value for record in records],
            keys=[record.key for record in records],
            timestamps=[base + record.timestamp_delta for record in records],
            headers=headers,
        )
    except CodecError:
        return False
    return _is_same(data, header, encoded)


def _encoder(header: BatchHeader) -> Encode:
    """Return the encoder with the fields of the header that do not follow from the records."""
    attributes = header.attributes
    return partial(
        encode_batch,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        timestamp_type=_PLAIN[1] if attributes & LOG_APPEND_TIME else _PLAIN[2],
        log_append_time=header.max_timestamp if attributes & LOG_APPEND_TIME else -1,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=bool(attributes & TRANSACTIONAL),
        control=bool(attributes & CONTROL),
    )


def _is_same(data: memoryview, header: BatchHeader, encoded: bytes) -> bool:
    """Compare the encoded bytes with the plain batch; of a compressed one, all but the CRC."""
    plain = data.tobytes()
    if not header.attributes & COMPRESSION_MASK:
        return plain == encoded
    return plain[:CRC_AT] == encoded[:CRC_AT] and plain[ATTRIBUTES_AT:] == encoded[ATTRIBUTES_AT:]


def examine(data: memoryview, header: BatchHeader) -> RoundTrip:
    """Return why the encoder gives other bytes, and whether encoding by record gives the same.

    The reasons are (kind of finding, detail). A batch that even so gives other bytes has none.
    """
    records = read_batch(data, check_crc=False).records
    if from_objects(data, header, records):
        return SAME
    if not _repeats(data, header, records):
        return RoundTrip(False)
    return RoundTrip(False, tuple(_reasons(header, records)))


def _repeats(data: memoryview, header: BatchHeader, records: list[RawRecord]) -> bool:
    """Whether the header and the records, encoded one by one, give the same bytes."""
    try:
        written = b"".join(
            write_record(
                record.key, record.value,
                [(one.key, plain_bytes(one.value, "value")) for one in record.headers],
                record.timestamp_delta, record.offset_delta, record.attributes,
            )
            for record in records
        )  # fmt: skip
    except (OverflowError, UnicodeEncodeError):
        return False
    encoded = seal(
        written,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~COMPRESSION_MASK,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=len(records),
    )
    return _is_same(data, header, encoded)


def _reasons(header: BatchHeader, records: list[RawRecord]) -> list[tuple[str, str]]:
    """Return only what no producer can send: a list of (kind, detail)."""
    reasons = []
    attributes = header.attributes
    if not records:
        reasons.append(("empty_batch", f"{header.last_offset_delta + 1:,} offsets, no record"))
    elif (missing := header.last_offset_delta + 1 - len(records)) > 0:
        detail = f"{missing:,} of {header.last_offset_delta + 1:,} offsets have no record"
        if any(record.key is None for record in records) and not attributes & CONTROL:
            detail += "; the cleaner leaves no record without a key, and here is one"
            reasons.append(("offset_hole_with_null_key", detail))
        else:
            reasons.append(("offset_hole", detail))
    if attributes & DELETE_HORIZON:
        reasons.append(("delete_horizon", f"from {header.base_timestamp} on"))
    elif records and records[0].timestamp_delta:
        delta = records[0].timestamp_delta
        reasons.append(("base_timestamp_odd", f"the first record is {delta:,} ms after it"))
    if records and not attributes & LOG_APPEND_TIME:
        latest = header.base_timestamp + max(record.timestamp_delta for record in records)
        if latest != header.max_timestamp:
            detail = f"it says {header.max_timestamp}, the latest record is of {latest}"
            reasons.append(("max_timestamp_wrong", detail))
    earliest = min((record.timestamp_delta for record in records), default=0)
    if records and header.base_timestamp + earliest < -1:
        reasons.append(("timestamp_negative", f"{header.base_timestamp + earliest}"))
    if attribute_bits := next((one.attributes for one in records if one.attributes), 0):
        reasons.append(("record_attributes", f"{attribute_bits & 0xFF:#04x}"))
    if attributes & ~_KNOWN_ATTRIBUTES:
        reasons.append(("batch_attributes", f"{attributes & 0xFFFF:#06x}"))
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    is_idempotent = header.producer_id != -1
    if (attributes & TRANSACTIONAL and not is_idempotent) or (
        is_idempotent and (producer[1] == -1 or (producer[2] < 0 and not attributes & CONTROL))
    ):
        reasons.append(("producer_fields", "id {}, epoch {}, sequence {}".format(*producer)))
    return reasons
