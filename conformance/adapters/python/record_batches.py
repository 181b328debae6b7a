"""Record batches of clients that have them from one origin: read and built as they do themselves.

kafka-python took these classes over from aiokafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
# What comes before the batch's length, and its length.
_BEFORE_LENGTH_BYTES, _LENGTH_BYTES = 8, 4


@dataclass(frozen=True)
class Records:
    """The record batches of a client.

    Attributes:
        client: its name.
        builder: its class that builds batches.
        memory: its class that finds them in bytes.
        batch: its class of a batch of version 2.
        leader_epoch: tells that of a batch, from the batch and its bytes.
        built_leader_epoch: that of the batches that are built.
        unsupported: what it raises for a compression that it does not know.
    """

    client: str
    builder: Any
    memory: Any
    batch: Any
    leader_epoch: Callable[[Any, bytes], int]
    built_leader_epoch: int
    unsupported: type[Exception]

    def encode(self, value: Any) -> dict[str, Any]:
        """Answer an encode request; ``Skipped`` for what a producer never says."""
        check_batch(value)
        if value["partitionLeaderEpoch"] != self.built_leader_epoch or not built_so(value):
            raise Skipped(f"{self.client}'s builder sets the batch's header by the records")
        builder = self.builder(
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

    def decode(self, data: bytes) -> dict[str, Any]:
        """Answer a decode request: the first batch, if its checksum is right."""
        batch = self.memory(data).next_batch()
        if batch is None:
            raise Refused("truncated", f"{self.client} sees no whole batch")
        if not isinstance(batch, self.batch):
            raise Refused("bad_magic", "not of version 2")
        if not batch.validate_crc():
            raise Refused("crc_mismatch", "the checksum is wrong")
        if batch.timestamp_type:
            raise Skipped(f"{self.client} gives each record the batch's time of appending")
        try:
            records = list(batch)
        except self.unsupported as error:
            raise Refused("unknown_compression", str(error)) from None
        value = {
            "baseOffset": batch.base_offset,
            "partitionLeaderEpoch": self.leader_epoch(batch, data),
            "attributes": batch.attributes,
            "lastOffsetDelta": batch.last_offset_delta,
            "baseTimestamp": batch.first_timestamp,
            "maxTimestamp": batch.max_timestamp,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "baseSequence": batch.base_sequence,
            "records": [
                {
                    "attributes": 0,  # They are not told; nothing uses them today.
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
        head_bytes = _BEFORE_LENGTH_BYTES + _LENGTH_BYTES
        trailing = len(data) - head_bytes - int.from_bytes(data[_BEFORE_LENGTH_BYTES:head_bytes])
        return {"value": value, **({"trailing": trailing} if trailing > 0 else {})}


def built_so(value: dict[str, Any]) -> bool:
    """Whether a batch's header says just what a builder sets."""
    records = value["records"]
    if not records or value["baseOffset"]:
        return False
    newest = value["baseTimestamp"] + max(record["timestampDelta"] for record in records)
    return bool(
        value["attributes"] in (0, TRANSACTIONAL)
        and not any(record["attributes"] for record in records)
        and records[0]["timestampDelta"] == 0
        and records[-1]["offsetDelta"] == value["lastOffsetDelta"]
        and newest == value["maxTimestamp"]
    )


def _bytes(value: Any) -> Any:
    return None if value is None else scalar_from_json("bytes", value, "records")
