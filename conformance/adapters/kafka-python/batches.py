"""kafka-python's record batches: read as its consumer does, built as its producer does."""

from __future__ import annotations

from typing import Any

from kafka.errors import UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from peer import (
    Refused,
    Skipped,
    check_batch,
    scalar_from_json,
    scalar_to_json,
)

NAME, VERSION = "RecordBatch", 2
TRANSACTIONAL = 0x10
SIZE_BYTES_MAX = 1 << 30  # Of a batch that is built: no record is left out.


def encode_batch(value: Any) -> dict[str, Any]:
    """Answer an encode request; ``Skipped`` for what a producer never says."""
    check_batch(value)
    if not built_so(value):
        raise Skipped("kafka-python's builder sets the batch's header by the records")
    builder = DefaultRecordBatchBuilder(
        magic=VERSION,
        compression_type=0,
        is_transactional=bool(value["attributes"]),
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        base_sequence=value["baseSequence"],
        batch_size=SIZE_BYTES_MAX,
    )
    for record in value["records"]:
        builder.append(
            record["offsetDelta"],
            value["baseTimestamp"] + record["timestampDelta"],
            _bytes(record["key"]),
            _bytes(record["value"]),
            [(header["key"], _bytes(header["value"])) for header in record["headers"]],
        )
    return {"hex": bytes(builder.build()).hex()}


def built_so(value: dict[str, Any]) -> bool:
    """Whether a batch's header says just what the builder sets."""
    records = value["records"]
    if not records or value["baseOffset"] or value["partitionLeaderEpoch"]:
        return False
    newest = value["baseTimestamp"] + max(record["timestampDelta"] for record in records)
    return bool(
        value["attributes"] in (0, TRANSACTIONAL)
        and not any(record["attributes"] for record in records)
        and records[0]["timestampDelta"] == 0
        and records[-1]["offsetDelta"] == value["lastOffsetDelta"]
        and newest == value["maxTimestamp"]
    )


def decode_batch(data: bytes) -> dict[str, Any]:
    """Answer a decode request: the first batch, if its checksum is right."""
    batch = MemoryRecords(data).next_batch()
    if batch is None:
        raise Refused("truncated", "kafka-python sees no whole batch")
    if not isinstance(batch, DefaultRecordBatch):
        raise Refused("bad_magic", "not of version 2")
    if not batch.validate_crc():
        raise Refused("crc_mismatch", "the checksum is wrong")
    if batch.timestamp_type == batch.LOG_APPEND_TIME:
        raise Skipped("kafka-python gives each record the batch's time of appending")
    trailing = len(data) - batch.size_in_bytes
    try:
        records = list(batch)
    except UnsupportedCodecError as error:
        raise Refused("unknown_compression", str(error)) from None
    value = {
        "baseOffset": batch.base_offset,
        "partitionLeaderEpoch": batch.leader_epoch,
        "attributes": batch.attributes,
        "lastOffsetDelta": batch.last_offset_delta,
        "baseTimestamp": batch.first_timestamp,
        "maxTimestamp": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "records": [
            {
                "attributes": 0,  # kafka-python does not tell them; nothing uses them today.
                "timestampDelta": record.timestamp - batch.first_timestamp,
                "offsetDelta": record.offset - batch.base_offset,
                "key": scalar_to_json("bytes", record.key),
                "value": scalar_to_json("bytes", record.value),
                "headers": [
                    {"key": key, "value": scalar_to_json("bytes", header_value)}
                    for key, header_value in record.headers
                ],
            }
            for record in records
        ],
    }
    reply = {"value": value}
    return {**reply, "trailing": trailing} if trailing > 0 else reply


def _bytes(value: Any) -> Any:
    return None if value is None else scalar_from_json("bytes", value, "records")
