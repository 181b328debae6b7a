"""kio's record batches: version 2, not compressed; a batch is written from its records.

kio derives base offset, timestamps, lengths and checksum of a new batch from the records, so that
a value whose header says otherwise cannot be asked of it.
"""

from __future__ import annotations

import io
from typing import Any

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_new_batch
from peer import (
    Skipped,
    check_batch,
    scalar_from_json,
    scalar_to_json,
)

NAME, VERSION = "RecordBatch", 2
COMPRESSION_AT, COMPRESSION_BITS = 22, 7  # The lower byte of the attributes.


def encode_batch(value: Any, to_datetime: Any) -> dict[str, Any]:
    """Answer an encode request; ``to_datetime`` makes one of milliseconds."""
    check_batch(value)
    if value["attributes"] & COMPRESSION_BITS:
        raise Skipped("kio does not compress batches")
    if not derived(value):
        raise Skipped("kio derives a batch's offsets and timestamps from its records")
    batch = NewRecordBatch(
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        partition_leader_epoch=value["partitionLeaderEpoch"],
        base_sequence=value["baseSequence"],
        attributes=value["attributes"],
        records=tuple(
            Record(
                attributes=record["attributes"],
                timestamp=to_datetime(value["baseTimestamp"] + record["timestampDelta"]),
                offset=value["baseOffset"] + record["offsetDelta"],
                key=_bytes(record["key"]),
                value=_bytes(record["value"]),
                headers=tuple(
                    RecordHeader(key=header["key"].encode(), value=_bytes(header["value"]))
                    for header in record["headers"]
                ),
            )
            for record in value["records"]
        ),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, batch)
    return {"hex": buffer.getvalue().hex()}


def derived(value: dict[str, Any]) -> bool:
    """Whether the header of a batch says just what kio derives from the records."""
    records = value["records"]
    if not records:
        return False
    first, last = records[0], records[-1]
    newest = value["baseTimestamp"] + max(record["timestampDelta"] for record in records)
    return bool(
        first["offsetDelta"] == first["timestampDelta"] == 0
        and last["offsetDelta"] == value["lastOffsetDelta"]
        and newest == value["maxTimestamp"]
    )


def decode_batch(data: bytes, to_milliseconds: Any) -> dict[str, Any]:
    """Answer a decode request; ``to_milliseconds`` is for kio's datetimes."""
    if data[COMPRESSION_AT : COMPRESSION_AT + 1] and data[COMPRESSION_AT] & COMPRESSION_BITS:
        raise Skipped("kio does not decompress batches")
    batch, size = read_batch(data, 0)
    value = {
        "baseOffset": batch.base_offset,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "attributes": batch.attributes,
        "lastOffsetDelta": batch.last_offset_delta,
        "baseTimestamp": batch.base_timestamp,
        "maxTimestamp": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "records": [
            {
                "attributes": record.attributes,
                "timestampDelta": to_milliseconds(record.timestamp) - batch.base_timestamp,
                "offsetDelta": record.offset - batch.base_offset,
                "key": scalar_to_json("bytes", record.key),
                "value": scalar_to_json("bytes", record.value),
                "headers": [
                    {"key": header.key.decode(), "value": scalar_to_json("bytes", header.value)}
                    for header in record.headers
                ],
            }
            for record in batch.records
        ],
    }
    reply = {"value": value}
    return {**reply, "trailing": len(data) - size} if size < len(data) else reply


def _bytes(value: Any) -> Any:
    return None if value is None else scalar_from_json("bytes", value, "records")
