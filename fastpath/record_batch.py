"""``RecordBatch``: a batch of magic 2 as a message like the others.

For conformance and tools: every field of a batch and of its records is there to be seen and set.
What is hot goes by ``batch_writer`` and ``batch_reader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from kraftspec.fastpath.batch_fields import integer, plain_bytes, plain_headers, refuse
from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.batch_writer import seal, write_record
from kraftspec.fastpath.errors import ErrorClass
from kraftspec.fastpath.message import _IN_PYTHON, Codec, Message, Part, Struct
from kraftspec.fastpath.plan import Layouts
from kraftspec.fastpath.records import COMPRESSION_MASK, MAGIC, Compression

# What the JSON is read and written by, as for generated classes; the bytes have no plan.
_LAYOUTS: Final[Layouts] = (
    (0, False, (
        ("baseOffset", "base_offset", "int64", False, None),
        ("partitionLeaderEpoch", "partition_leader_epoch", "int32", False, None),
        ("attributes", "attributes", "int16", False, None),
        ("lastOffsetDelta", "last_offset_delta", "int32", False, None),
        ("baseTimestamp", "base_timestamp", "int64", False, None),
        ("maxTimestamp", "max_timestamp", "int64", False, None),
        ("producerId", "producer_id", "int64", False, None),
        ("producerEpoch", "producer_epoch", "int16", False, None),
        ("baseSequence", "base_sequence", "int32", False, None),
        ("records", "records", "array", False, 1),
    ), (), (), ()),
    (1, False, (
        ("attributes", "attributes", "int8", False, None),
        ("timestampDelta", "timestamp_delta", "int64", False, None),
        ("offsetDelta", "offset_delta", "int32", False, None),
        ("key", "key", "bytes", True, None),
        ("value", "value", "bytes", True, None),
        ("headers", "headers", "array", False, 2),
    ), (), (), ()),
    (2, False, (
        ("key", "key", "string", False, None),
        ("value", "value", "bytes", True, None),
    ), (), (), ()),
)  # fmt: skip


class RecordBatch(Message, kw_only=True, gc=False):
    """A record batch, version 2 (``org.apache.kafka.common.record.DefaultRecordBatch``).

    base_offset: int64. Offset of the first record, or of the first that compaction removed.
    partition_leader_epoch: int32. Epoch of the leader that appended it; -1: none yet.
    attributes: int16. Bits 0-2 compression, 3 log append time, 4 transactional, 5 control,
        6 delete horizon; ``records`` has them by name.
    last_offset_delta: int32. Offset of the last record, less the base offset.
    base_timestamp: int64. Milliseconds, to which the records' deltas are; the delete horizon
        where bit 6 is set.
    max_timestamp: int64. Milliseconds; the time of append where bit 3 is set.
    producer_id: int64, -1: none. producer_epoch: int16, -1. base_sequence: int32, -1.
    records: []Record.

    The batch length, the magic, the CRC and the record count follow from the rest; decoding
    checks them. A batch whose attributes name a compression is compressed when it is encoded.
    """

    API_KEY = None
    TYPE = "data"
    VALID_VERSIONS = range(MAGIC, MAGIC + 1)
    FLEXIBLE_VERSIONS = range(0)

    class Header(Struct, kw_only=True, gc=False):
        """A header. key: string. value: bytes, nullable."""

        key: str = ""
        value: bytes | None = None

    class Record(Struct, kw_only=True, gc=False):
        """A record.

        attributes: int8, 0 so far. timestamp_delta: int64, offset_delta: int32, to the base of
        the batch. key: bytes, nullable. value: bytes, nullable. headers: []Header.
        """

        attributes: int = 0
        timestamp_delta: int = 0
        offset_delta: int = 0
        key: bytes | None = None
        value: bytes | None = None
        headers: list[RecordBatch.Header] = msgspec.field(default_factory=list)

    base_offset: int = 0
    partition_leader_epoch: int = -1
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    records: list[RecordBatch.Record] = msgspec.field(default_factory=list)

    def encode(self, version: int) -> bytes:
        """Return the batch's bytes; refuses (``CodecError``) what decoding would."""
        layout = self.CODEC.layout(version)
        head = {
            attr: integer(getattr(self, attr), wire, name)
            for name, attr, wire, _, element in layout[2]
            if element is None
        }
        try:
            compression = Compression(head["attributes"] & COMPRESSION_MASK)
        except ValueError as error:
            refuse(ErrorClass.UNKNOWN_COMPRESSION, str(error), "attributes")
        records = b"".join(self._encoded(head["last_offset_delta"]))
        if compression is not Compression.NONE and records:
            from kraftspec.fastpath.compression import compress  # noqa: PLC0415 - few need it

            records = compress(compression, records)
        return seal(records, count=len(self.records), **head)

    def _encoded(self, last_offset_delta: int) -> list[bytes]:
        out: list[bytes] = []
        last = -1
        for record in _structs(self.records, RecordBatch.Record, "records"):
            path = f"records[{len(out)}]"
            delta = integer(record.offset_delta, "int32", f"{path}.offsetDelta")
            if not last < delta <= last_offset_delta:
                refuse(
                    ErrorClass.OFFSET_DELTA_DISORDER,
                    f"{delta} does not lie above {last} and up to {last_offset_delta}",
                    f"{path}.offsetDelta",
                )
            last = delta
            headers = _structs(record.headers, RecordBatch.Header, f"{path}.headers")
            out.append(
                write_record(
                    plain_bytes(record.key, f"{path}.key"),
                    plain_bytes(record.value, f"{path}.value"),
                    plain_headers([(h.key, h.value) for h in headers], f"{path}.headers"),
                    integer(record.timestamp_delta, "int64", f"{path}.timestampDelta"),
                    delta,
                    integer(record.attributes, "int8", f"{path}.attributes"),
                )
            )
        return out

    def encode_parts(self, version: int) -> list[Part]:
        """Return the bytes as one piece: the CRC covers them all."""
        return [self.encode(version)]

    # A batch has no plan that the engine could run: these go through ``encode`` and ``_read``.
    # A type checker sees those of every message.
    if not TYPE_CHECKING:
        encode_into = _IN_PYTHON["encode_into"]
        decode = _IN_PYTHON["decode"]
        decode_from = _IN_PYTHON["decode_from"]

    @classmethod
    def _read(
        cls, data: bytes | memoryview, offset: int, version: int, lenient: bool, *, whole: bool
    ) -> tuple[Self, int]:
        """Read a batch; ``lenient`` lets bytes after it pass, and nothing in it."""
        layout = cls.CODEC.layout(version)
        header, raws = (batch := read_batch(data, offset)).header, batch.records
        fields: dict[str, Any] = {
            attr: getattr(header, attr) for _, attr, _, _, element in layout[2] if element is None
        }
        records = [
            RecordBatch.Record(
                attributes=raw.attributes,
                timestamp_delta=raw.timestamp_delta,
                offset_delta=raw.offset_delta,
                key=raw.key,
                value=raw.value,
                headers=[
                    RecordBatch.Header(
                        key=item.key, value=None if item.value is None else bytes(item.value)
                    )
                    for item in raw.headers
                ],
            )
            for raw in raws
        ]
        return cls(records=records, **fields), header.end


def _structs(items: Any, kind: type, path: str) -> Any:
    """Return a list of structs of one kind, or refuse."""
    if not isinstance(items, (list, tuple)):
        refuse(ErrorClass.WRONG_TYPE, f"a list wanted, not {type(items).__name__}", path)
    for at, item in enumerate(items):
        if not isinstance(item, kind):
            refuse(
                ErrorClass.WRONG_TYPE,
                f"a {kind.__qualname__} wanted, not {type(item).__name__}",
                f"{path}[{at}]",
            )
    return items


RecordBatch.CODEC = Codec(
    "", (RecordBatch, RecordBatch.Record, RecordBatch.Header), _LAYOUTS, {MAGIC: 0}
)
