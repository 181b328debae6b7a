"""``RecordBatch`` as a message, and batches compressed by us and by Apache Kafka."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kraftspec.conformance.adapters.harness import decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.making.make_batches import batch, record
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.fastpath.records import Compression

from .batches import build_cases, vectors, writers

PACKED = [codec for codec in Compression if codec is not Compression.NONE]
INVALID: list[tuple[dict[str, Any], ErrorClass, str]] = [
    ({"baseOffset": 1 << 63}, ErrorClass.INTEGER_OUT_OF_RANGE, "baseOffset"),
    ({"attributes": 5}, ErrorClass.UNKNOWN_COMPRESSION, "attributes"),
    ({"producerEpoch": "1"}, ErrorClass.WRONG_TYPE, "producerEpoch"),
    ({"lastOffsetDelta": -1}, ErrorClass.OFFSET_DELTA_DISORDER, "records[0].offsetDelta"),
    ({"records": None}, ErrorClass.NULL_FOR_NON_NULLABLE, "records"),
    ({"records": [record(), record()]}, ErrorClass.OFFSET_DELTA_DISORDER,
     "records[1].offsetDelta"),
    ({"records": [record(offset=-1)]}, ErrorClass.OFFSET_DELTA_DISORDER,
     "records[0].offsetDelta"),
    ({"records": [{**record(), "attributes": 128}]}, ErrorClass.INTEGER_OUT_OF_RANGE,
     "records[0].attributes"),
    ({"records": [{**record(), "headers": [{"key": None, "value": None}]}]},
     ErrorClass.NULL_FOR_NON_NULLABLE, "records[0].headers[0].key"),
    ({"records": [{**record(), "headers": [{"key": "\ud800", "value": None}]}]},
     ErrorClass.INVALID_UTF8, "records[0].headers[0].key"),
]  # fmt: skip


def by_id(op: str) -> Iterator[tuple[str, Any, bytes]]:
    for test in vectors():
        if test["op"] == op:
            yield test["id"], test["value"], bytes.fromhex(test["hex"])


def exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_the_vectors_are_of_every_kind() -> None:
    families = Counter(test["family"] for test in vectors())
    assert families.keys() == {
        "counts", "nulls", "lengths", "timestamps", "offsets", "producers", "control", "random",
        "compressed", "control-unnamed", "bugs",
    }  # fmt: skip
    assert len(vectors()) >= 500
    codecs = Counter(test["value"]["attributes"] & 7 for test in vectors())
    assert {codec: codecs[codec] >= 10 for codec in Compression} == dict.fromkeys(Compression, True)
    assert {test["op"] for test in vectors() if test["family"] == "compressed"} == {"decode"}


def test_encode_makes_kafkas_bytes() -> None:
    wrong = [
        id
        for id, value, data in by_id("roundtrip")
        if RecordBatch.from_json(value, 2).encode(2) != data
    ]
    assert wrong == []


def test_decode_reads_kafkas_bytes() -> None:
    for op in ("roundtrip", "decode"):
        for id, value, data in by_id(op):
            read = RecordBatch.decode(data, 2)
            assert exactly(read.to_json(2)) == exactly(value), id
            again, end = RecordBatch.decode_from(b"\xff" + data + b"\xff", 1, 2)
            assert (again, end) == (read, len(data) + 1), id


def test_what_was_compressed_is_compressed_again() -> None:
    for id, value, data in by_id("decode"):
        read = RecordBatch.decode(data, 2)
        packed = read.encode(2)
        assert RecordBatch.decode(packed, 2) == read, id
        assert exactly(read.to_json(2)) == exactly(value)


@pytest.mark.parametrize(("fields", "error", "path"), INVALID)
def test_values_that_no_batch_holds(fields: dict[str, Any], error: ErrorClass, path: str) -> None:
    with pytest.raises(CodecError) as refused:
        RecordBatch.from_json({**batch(record()), **fields}, 2).encode(2)
    assert (refused.value.error_class, refused.value.path) == (error, path)


def test_structs_of_another_kind() -> None:
    records: Any
    for records in ("ab", [None], [{}], [RecordBatch.Header()]):
        with pytest.raises(CodecError, match="wrong_type"):
            RecordBatch(records=records).encode(2)
    headers: Any
    for headers in ((RecordBatch.Record(),), None):
        with pytest.raises(CodecError, match="wrong_type"):
            RecordBatch(records=[RecordBatch.Record(headers=headers)]).encode(2)


def test_versions_and_what_follows() -> None:
    _, _, data = next(by_id("roundtrip"))
    for call in (
        lambda: RecordBatch().encode(1),
        lambda: RecordBatch.decode(data, 3),
        lambda: RecordBatch().to_json(0),
    ):
        with pytest.raises(CodecError, match="RecordBatch has versions 2 to 2, not"):
            call()
    with pytest.raises(CodecError, match="trailing") as refused:
        RecordBatch.decode(data + b"\0", 2)
    assert refused.value.offset == len(data)
    assert RecordBatch.decode(data + b"\0", 2, lenient=True) == RecordBatch.decode(data, 2)
    with pytest.raises(CodecError, match="it has no header"):
        RecordBatch.header_version(2)


def test_like_other_messages() -> None:
    value = next(value for _, value, _ in by_id("roundtrip") if value["records"])
    message = RecordBatch.from_json(value, 2)
    assert message.encode_parts(2) == [message.encode(2)]
    buffer = bytearray(len(message.encode(2)) + 2)
    assert message.encode_into(buffer, 1, 2) == len(buffer) - 1
    assert buffer[1:-1] == message.encode(2)
    assert msgspec.json.decode(msgspec.json.encode(message), type=RecordBatch) == message


def test_damage_has_a_class_and_a_place() -> None:
    data = bytearray(RecordBatch(records=[RecordBatch.Record(value=b"v")]).encode(2))
    for at, byte, error, offset in (
        (16, 1, ErrorClass.BAD_MAGIC, 16),
        (16, 0, ErrorClass.BAD_MAGIC, 16),
        (60, 2, ErrorClass.CRC_MISMATCH, 17),
        (11, 60, ErrorClass.TRUNCATED, None),
        (8, 255, ErrorClass.BATCH_LENGTH_MISMATCH, 8),
    ):
        bad = data.copy()
        bad[at] = byte
        with pytest.raises(CodecError) as refused:
            RecordBatch.decode(bad, 2)
        assert refused.value.error_class is error
        assert offset is None or refused.value.offset == offset
    for size in range(len(data)):
        with pytest.raises(CodecError, match="truncated"):
            RecordBatch.decode(data[:size], 2)


# ----------------------------------------------------------------------------------- compression


@writers
@pytest.mark.parametrize("codec", PACKED)
def test_compressed_by_us_read_by_us(encode: Any, builder: Any, codec: Compression) -> None:
    for v in build_cases():
        if len(v.expected) > 20_000:
            continue
        encoded = encode(
            v.values, keys=v.keys, timestamps=v.timestamps, headers=v.headers,
            compression=codec, **v.fields,
        )  # fmt: skip
        plain = RecordBatch.decode(v.expected, 2)
        plain.attributes |= codec
        assert RecordBatch.decode(encoded, 2) == plain, v.id
        filled = builder(compression=codec, **v.fields)
        for row in zip(v.keys, v.values, v.timestamps, v.headers, strict=True):
            filled.append(*row)
        assert filled.size == len(v.expected)
        again = filled.build()
        assert RecordBatch.decode(again, 2) == plain, v.id
        # isal finds other matches in the same bytes, now and then: its buffers begin as they are.
        assert codec is Compression.GZIP or again == encoded, v.id


# ------------------------------------------------------------------------------- asking Kafka too


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.mark.kafka
def test_compressed_by_us_read_by_kafka(kafka: KafkaAdapter) -> None:
    expected, requests = [], []
    for codec in PACKED:
        for id, value, data in by_id("roundtrip"):
            if not value["records"]:
                continue
            message = RecordBatch.decode(data, 2)
            message.attributes |= codec
            expected.append((id, codec, {**value, "attributes": message.attributes}))
            requests.append(decode_request(id, "RecordBatch", 2, message.encode(2).hex()))
    assert len(requests) > 2000
    for (id, codec, value), reply in zip(expected, kafka.run(requests), strict=True):
        assert exactly(reply.get("value", reply)) == exactly(value), (id, codec)


@pytest.mark.kafka
@writers
def test_lengths_of_four_bytes(encode: Any, builder: Any, kafka: KafkaAdapter) -> None:
    """They need a megabyte, which no committed file should."""
    big = bytes(range(256)) * 4096
    value = batch(record(big), record(value=big[:-1], offset=1))
    built = kafka.request(encode_request("big", "RecordBatch", 2, value))
    mine = encode([b"value", big[:-1]], keys=[big, None], timestamps=value["baseTimestamp"])
    assert mine.hex() == built["hex"]


@pytest.mark.kafka
def test_what_kafkas_builder_refuses(kafka: KafkaAdapter) -> None:
    """Producer fields that do not go together, and times before none."""
    for fields in (
        {"attributes": 0x10},
        {"producerId": 1},
        {"producerId": 1, "producerEpoch": 0},
        {"baseTimestamp": -2, "maxTimestamp": -1},
    ):
        request = encode_request("no", "RecordBatch", 2, {**batch(record()), **fields})
        assert "error" in kafka.request(request), fields
