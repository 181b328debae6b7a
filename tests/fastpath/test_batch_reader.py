"""Reading batches: against other projects' builders, Kafka's vectors, and damage made by hand."""

from __future__ import annotations

import array
import mmap
import pickle
import struct
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath import batch_reader, native
from kraftspec.fastpath.batch_reader import (
    decode_batch,
    inflate,
    iterate_records,
    pure_decode_batch,
    pure_read_batch,
    read_batch,
    read_header,
)
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import Batch, Compression, Header, Record, TimestampType

from . import segments
from .segments import TIME_MS, at_offset, batch, by_aiokafka, record, refit, rows, varint, vectors

E = ErrorClass
_native: Any = native.load("_batch_reader")
SIZE_MAX, RATIO_MAX = 1 << 24, 1_000


def pure(data: bytes, position: int = 0) -> Batch:
    return pure_read_batch(memoryview(data), position, True, SIZE_MAX, RATIO_MAX)


def refusal(data: bytes, position: int = 0) -> CodecError:
    """Return the error of the pure reader; the native one must reject too, both ways."""
    view, limits = memoryview(data), (inflate, SIZE_MAX, RATIO_MAX)
    if _native is not None and _native.read_header(view, position, True) is not None:
        with suppress(CodecError):  # Of decompression: it is the same function for both.
            assert _native.read_records(view, position, *limits) is None
        with suppress(CodecError):
            assert _native.decode_batch(view, position, True, *limits) is None
    with pytest.raises(CodecError) as caught:
        pure(data, position)
    with pytest.raises(CodecError) as again:
        read_batch(data, position, size_max=SIZE_MAX, ratio_max=RATIO_MAX)
    assert str(again.value) == str(caught.value)
    return caught.value


def agreed(data: bytes) -> Batch | CodecError:
    """Return what both readers make of a batch."""
    try:
        expected = pure(data)
    except CodecError:
        return refusal(data)
    view = memoryview(data)
    if _native is not None:
        assert _native.read_header(view, 0, True) == expected.header
        actual = _native.read_records(view, 0, inflate, SIZE_MAX, RATIO_MAX)
        assert actual == expected.records
        objects = _native.decode_batch(view, 0, True, inflate, SIZE_MAX, RATIO_MAX)
        assert objects == pure_decode_batch(view, 0, True, SIZE_MAX, RATIO_MAX)
    return expected


def as_rows(records: list[Record]) -> list[Any]:
    return [
        (one.offset, one.timestamp, one.key, one.value, [(h.key, h.value) for h in one.headers])
        for one in records
    ]


def test_the_native_reader_is_what_runs() -> None:
    built = list((Path(batch_reader.__file__).parent).glob("_batch_reader.*.so"))
    assert (_native is not None) == (bool(built) and not native.PURE)


@pytest.mark.parametrize("test", vectors(), ids=lambda test: test["id"])
def test_what_kafka_wrote(test: dict[str, Any]) -> None:
    def content(value: str | None) -> bytes | None:
        return None if value is None else b64decode(value)

    value, decoded = test["value"], agreed(bytes.fromhex(test["hex"]))
    assert isinstance(decoded, Batch)
    header = decoded.header
    assert {
        "baseOffset": header.base_offset,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "attributes": header.attributes,
        "lastOffsetDelta": header.last_offset_delta,
        "baseTimestamp": header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
    } == {name: field for name, field in value.items() if name != "records"}
    assert [
        (raw.attributes, raw.timestamp_delta, raw.offset_delta, raw.key, raw.value)
        for raw in decoded.records
    ] == [
        (one["attributes"], one["timestampDelta"], one["offsetDelta"], content(one["key"]),
         content(one["value"]))
        for one in value["records"]
    ]  # fmt: skip
    assert [[(h.key, h.value) for h in raw.headers] for raw in decoded.records] == [
        [(h["key"], content(h["value"])) for h in one["headers"]] for one in value["records"]
    ]


def test_there_are_vectors_of_every_compression() -> None:
    codecs = {bytes.fromhex(test["hex"])[22] & 7 for test in vectors()}
    assert codecs == set(Compression)
    assert (vectors_root() / "kafka/RecordBatch.json").is_file()


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("count", [1, 2, 100, 3_000])
def test_what_aiokafka_wrote(codec: Compression, count: int) -> None:
    expected = rows(count, headers=True, value=40)
    data = by_aiokafka(expected, codec=codec, producer=(7, 3, 11), transactional=True)
    decoded = agreed(data)
    assert isinstance(decoded, Batch)
    header = decoded.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert not header.is_control
    assert header.compression is codec
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert as_rows(decode_batch(data)) == expected


# kafka-python reads its schemas through a deprecated function of importlib.resources.
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.LZ4])
def test_what_kafka_python_wrote(codec: Compression) -> None:
    expected = rows(200, headers=True)
    assert as_rows(decode_batch(segments.by_kafka_python(expected, codec=codec))) == expected


def test_iterating_goes_over_all_batches_and_raises_when_it_gets_there() -> None:
    one, two = by_aiokafka(rows(10)), at_offset(by_aiokafka(rows(5)), 10)
    moved = [(row[0] + 10, *row[1:]) for row in rows(5)]
    assert as_rows(list(iterate_records(one + two))) == rows(10) + moved
    assert as_rows(list(iterate_records(one + two, len(one)))) == moved
    assert list(iterate_records(b"")) == []
    bad = bytearray(one + two)
    bad[-1] ^= 1
    records = iterate_records(bad)
    assert as_rows([next(records) for _ in range(10)]) == rows(10)
    with pytest.raises(CodecError) as caught:
        next(records)
    assert (caught.value.error_class, caught.value.offset) == (E.CRC_MISMATCH, len(one) + 17)


def test_log_append_time_is_the_time_of_all() -> None:
    body = record(0, timestamp_delta=5) + record(1, timestamp_delta=6)
    data = batch(body, 2, attributes=8, max_timestamp=TIME_MS + 99)
    assert [one.timestamp for one in decode_batch(data)] == [TIME_MS + 99] * 2
    assert read_header(data).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [raw.timestamp_delta for raw in read_batch(data).records] == [5, 6]


@pytest.mark.parametrize("power", [0, 15, 29, 30, 31, 59, 60, 61, 62])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_numbers_of_every_width(power: int, more: int) -> None:
    for number in ((1 << power) + more, -(1 << power) + more):
        data = batch(record(0), 1, base_timestamp=number, base_offset=number)
        (decoded,) = decode_batch(data)
        assert (decoded.timestamp, decoded.offset) == (number, number)
        # An int that was put together wrongly may be equal and yet behave as no other does.
        assert (hash(decoded.timestamp), decoded.timestamp + 1) == (hash(number), number + 1)


def test_sums_wrap_as_in_java() -> None:
    top = (1 << 63) - 1
    body = record(0, timestamp_delta=top) + record(9, timestamp_delta=-top - 1)
    data = batch(body, 2, last_delta=9, base_offset=top - 5, base_timestamp=1)
    assert agreed(data) is not None
    decoded = [(one.offset, one.timestamp) for one in decode_batch(data)]
    assert decoded == [(top - 5, -top - 1), (-top - 1 + 3, -top)]
    assert read_header(data).last_offset == -top - 1 + 3


def test_offsets_that_compaction_left() -> None:
    data = batch(record(3) + record(1_000), 2, last_delta=5_000, base_offset=10)
    assert [one.offset for one in decode_batch(data)] == [13, 1_010]
    assert read_header(data).last_offset == 5_010
    empty = batch(b"", 0, last_delta=5, attributes=0x40 | 0x10)
    assert read_batch(empty).records == []
    assert decode_batch(empty) == []
    assert read_header(empty).has_delete_horizon
    assert read_batch(batch(b"", 0, attributes=2)).records == []


def test_attributes_that_nobody_knows_are_kept() -> None:
    data = batch(record(0, attributes=-1), 1, attributes=-0x8000)
    decoded = agreed(data)
    assert isinstance(decoded, Batch)
    assert (decoded.header.attributes, decoded.records[0].attributes) == (-0x8000, -1)


def test_records_are_plain_values() -> None:
    (one,) = decode_batch(batch(record(0, b"k", b"v", [("h", None)]), 1))
    assert one == Record(0, TIME_MS, b"k", b"v", (Header("h", None),))
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == (
        f"Record(offset=0, timestamp={TIME_MS}, key=b'k', value=b'v', "
        "headers=(Header(key='h', value=None),))"
    )
    one.value = None
    assert one.value is None


LONG = b"\xff" * 4 + b"\x10"  # 33 bits.
R = record(0, b"key", b"value")
H = 61 + len(record(0, None, None, [])) - 1  # Where the header count of such a record is.

# What is wrong, as the class, the offset, the path, and words of the detail.
DAMAGE: dict[str, tuple[bytes, ErrorClass, int, str, str]] = {
    "magic 0": (b"\0" * 8 + b"\0\0\0\x0e" + b"\0" * 14, E.BAD_MAGIC, 16, "magic", "v0"),
    "magic 1": (b"\0" * 8 + b"\0\0\0\x16" + b"\0" * 4 + b"\1" + b"\0" * 17,
                E.BAD_MAGIC, 16, "magic", "message format v1"),
    "magic 3": (batch(R, 1)[:16] + b"\3" + batch(R, 1)[17:], E.BAD_MAGIC, 16, "magic", "magic 3"),
    "zeros": (bytes(100), E.BATCH_LENGTH_MISMATCH, 8, "batchLength", "length of 0"),
    "length below a header": (batch(R, 1)[:8] + struct.pack(">i", 48) + batch(R, 1)[12:],
                              E.BATCH_LENGTH_MISMATCH, 8, "batchLength", "49"),
    "length negative": (batch(R, 1)[:8] + struct.pack(">i", -1) + batch(R, 1)[12:],
                        E.BATCH_LENGTH_MISMATCH, 8, "batchLength", "-1"),
    "length above the input": (batch(R, 1)[:8] + struct.pack(">i", 1 << 30) + batch(R, 1)[12:],
                               E.TRUNCATED, 61, "records", "1073741836 bytes"),
    "crc": (batch(R, 1)[:-1] + b"\1", E.CRC_MISMATCH, 17, "crc", "CRC-32C"),
    "compression 5": (batch(R, 1, attributes=5), E.UNKNOWN_COMPRESSION, 21, "attributes", "5"),
    "compression 7": (batch(b"", 0, attributes=7), E.UNKNOWN_COMPRESSION, 21, "attributes", "7"),
    "not gzip": (batch(R, 1, attributes=1), E.UNKNOWN_COMPRESSION, 61, "records", "gzip"),
    "count negative": (batch(R, -1), E.NEGATIVE_LENGTH, 57, "recordCount", "-1"),
    "count above all": (batch(R, (1 << 31) - 1), E.RECORD_COUNT_MISMATCH, 57, "recordCount", "fit"),
    "count one more": (batch(R, 2), E.RECORD_COUNT_MISMATCH, 57, "recordCount", "there are 1"),
    "count one less": (batch(record(0) + record(1), 1, last_delta=1),
                       E.RECORD_COUNT_MISMATCH, 57, "recordCount", "there are more"),
    "bytes after": (batch(R + b"\x08", 1), E.TRAILING, 61 + len(R), "records[1]", "1 bytes after"),
    "records in an empty batch": (batch(b"\0", 0), E.TRAILING, 61, "records[0]", "0 records"),
    "delta again": (batch(record(0) + record(0), 2), E.OFFSET_DELTA_DISORDER,
                    61 + len(record(0)) + 3, "records[1].offsetDelta", "of 0 after 0"),
    "delta negative": (batch(record(-1), 1), E.OFFSET_DELTA_DISORDER, 64,
                       "records[0].offsetDelta", "-1"),
    "delta past the last": (batch(record(2), 1), E.OFFSET_DELTA_DISORDER, 64,
                            "records[0].offsetDelta", "is 0"),
    "record length 33 bits": (batch(LONG + R, 1), E.VARINT_OVERFLOW, 61, "records[0].length", "32"),
    "record length 6 bytes": (batch(b"\xff" * 5 + b"\1" + R, 1), E.VARINT_OVERFLOW, 61,
                              "records[0].length", "long"),
    "record length cut": (batch(b"\xff" * 4, 0), E.TRAILING, 61, "records[0]", "4 bytes"),
    "record length not minimal": (batch(b"\x8c\0" + b"\0" * 6, 1), E.NON_MINIMAL_VARINT, 61,
                                  "records[0].length", "more bytes"),
    "record length negative": (batch(b"\1" + b"\0" * 6, 1), E.NEGATIVE_LENGTH, 61,
                               "records[0].length", "-1"),
    "record length beyond": (batch(varint(7) + b"\0" * 6, 1), E.LENGTH_EXCEEDS_INPUT, 61,
                             "records[0].length", "7 bytes"),
    "record of nothing": (batch(b"\0" * 7, 1), E.TRUNCATED, 62, "records[0].attributes", "no"),
    "no timestamp": (batch(varint(1) + b"\0" * 7, 1), E.TRUNCATED, 63,
                     "records[0].timestampDelta", "end"),
    "timestamp 65 bits": (batch(varint(15) + b"\0" + b"\x80" * 9 + b"\2" + b"\0" * 4, 1),
                          E.VARINT_OVERFLOW, 63, "records[0].timestampDelta", "64"),
    "timestamp cut": (batch(varint(2) + b"\0\x80" + b"\0" * 5, 1), E.VARINT_TRUNCATED, 63,
                      "records[0].timestampDelta", "end"),
    "key length 33 bits": (batch(varint(10) + b"\0\0\0\x80\x80\x80\x80\x10\1\0", 1),
                           E.VARINT_OVERFLOW, 65, "records[0].key", "32 bits"),
    "key length -2": (batch(varint(6) + b"\0\0\0\3\1\0", 1), E.NEGATIVE_LENGTH, 65,
                      "records[0].key", "-2"),
    "key beyond": (batch(varint(6) + b"\0\0\0\6\1\0", 1), E.LENGTH_EXCEEDS_INPUT, 65,
                   "records[0].key", "3 bytes are announced, 2 are left"),
    "value beyond": (batch(varint(6) + b"\0\0\0\1\4\0", 1), E.LENGTH_EXCEEDS_INPUT, 66,
                     "records[0].value", "2 bytes"),
    "header count negative": (batch(varint(6) + b"\0\0\0\1\1\1", 1), E.NEGATIVE_LENGTH, 67,
                              "records[0].headers", "-1"),
    "header count beyond": (batch(varint(8) + b"\0\0\0\1\1\4\0\1", 1), E.LENGTH_EXCEEDS_INPUT, 67,
                            "records[0].headers", "2 headers"),
    "header key null": (batch(varint(8) + b"\0\0\0\1\1\2\1\1", 1), E.NEGATIVE_LENGTH, 68,
                        "records[0].headers[0].key", "-1"),
    "header key beyond": (batch(varint(8) + b"\0\0\0\1\1\2\4\1", 1), E.LENGTH_EXCEEDS_INPUT, 68,
                          "records[0].headers[0].key", "2 bytes"),
    "header key not UTF-8": (batch(varint(10) + b"\0\0\0\1\1\2\4\xc0\x80\1", 1), E.INVALID_UTF8,
                             68, "records[0].headers[0].key", "UTF-8"),
    "header value -3": (batch(varint(8) + b"\0\0\0\1\1\2\0\5", 1), E.NEGATIVE_LENGTH, 69,
                        "records[0].headers[0].value", "-3"),
    "record goes on": (batch(varint(7) + b"\0\0\0\1\1\0\0", 1), E.TRAILING, 68, "records[0]",
                       "1 bytes after the last field"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("before", [0, 77])
def test_what_is_wrong_is_named(name: str, before: int) -> None:
    data, error_class, offset, path, words = DAMAGE[name]
    error = refusal(bytes(before) + data, before)
    actual = (error.error_class, error.offset, error.path)
    assert actual == (error_class, before + offset, path)
    assert words in error.detail


def test_every_class_of_reading_has_its_damage() -> None:
    tried = {entry[1] for entry in DAMAGE.values()}
    elsewhere = {E.DECOMPRESSION_BOMB}
    assert tried | elsewhere >= {
        E.TRUNCATED, E.TRAILING, E.NEGATIVE_LENGTH, E.LENGTH_EXCEEDS_INPUT, E.VARINT_OVERFLOW,
        E.VARINT_TRUNCATED, E.NON_MINIMAL_VARINT, E.INVALID_UTF8, E.CRC_MISMATCH, E.BAD_MAGIC,
        E.BATCH_LENGTH_MISMATCH, E.RECORD_COUNT_MISMATCH, E.OFFSET_DELTA_DISORDER,
        E.UNKNOWN_COMPRESSION,
    }  # fmt: skip


def test_records_that_were_compressed_have_the_place_of_their_block() -> None:
    from zlib import compressobj  # noqa: PLC0415 - here only

    packer = compressobj(wbits=31)
    block = packer.compress(record(0) + record(0)) + packer.flush()
    error = refusal(batch(block, 2, attributes=1))
    assert (error.error_class, error.offset) == (E.OFFSET_DELTA_DISORDER, 61)
    assert error.path == "records[1].offsetDelta"
    assert f"byte {len(record(0)) + 3} of the decompressed records" in error.detail


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_bomb_is_refused(codec: Compression) -> None:
    data = by_aiokafka([(0, TIME_MS, None, bytes(1 << 18), [])], codec=codec)
    assert len(decode_batch(data)) == 1
    with pytest.raises(CodecError) as caught:
        decode_batch(data, size_max=1 << 17)
    assert caught.value.error_class is E.DECOMPRESSION_BOMB
    assert caught.value.offset is not None
    assert 61 <= caught.value.offset < len(data)


def test_a_batch_cut_at_each_byte_is_truncated() -> None:
    data = by_aiokafka(rows(3, headers=True))
    fields = (0, 8, 12, 16, 17, 21, 23, 27, 35, 43, 51, 53, 57, 61)
    for size in range(len(data)):
        error = refusal(data[:size])
        assert error.error_class is E.TRUNCATED
        assert error.offset == max(at for at in fields if at <= size)
    with pytest.raises(ValueError, match="negative"):
        read_batch(data, -1)
    assert refusal(data, len(data) + 5).error_class is E.TRUNCATED


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_a_byte_changed_is_taken_alike_by_both_readers(codec: Compression) -> None:
    random, accepted = Random(1), 0
    data = by_aiokafka(rows(5, headers=True), codec=codec)
    for at in range(21, len(data)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, random.randrange(256)}:
            changed = bytearray(data)
            changed[at] = byte
            accepted += isinstance(agreed(refit(bytes(changed))), Batch)
    assert accepted  # Of values and timestamps, any byte is as good as another.


@given(st.data())
def test_any_records_are_taken_alike_by_both_readers(data: st.DataObject) -> None:
    seed = by_aiokafka(rows(data.draw(st.integers(1, 8)), headers=True))
    changed = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(57, len(changed) - 1))
        if data.draw(st.booleans()):
            changed[at] = data.draw(st.sampled_from((0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)))
        else:
            changed[at:at] = data.draw(st.binary(max_size=4))
    changed[8:12] = struct.pack(">i", len(changed) - 12)
    agreed(refit(bytes(changed)))


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=300),
            st.none() | st.binary(max_size=300),
            st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20))),
            st.integers(-(1 << 40), 1 << 40),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_rows_come_back(contents: list[Any]) -> None:
    expected = [
        (offset, TIME_MS + delta, key, value, headers)
        for offset, (key, value, headers, delta) in enumerate(contents)
    ]
    data = by_aiokafka(expected)
    assert isinstance(agreed(data), Batch)
    assert as_rows(decode_batch(data)) == expected


def test_any_contiguous_buffer_will_do(tmp_path: Path) -> None:
    expected = rows(20, headers=True)
    data = by_aiokafka(expected)
    for shift in range(9):
        shifted = bytearray(shift) + data
        assert as_rows(decode_batch(memoryview(shifted)[shift:])) == expected
        assert as_rows(decode_batch(shifted, shift)) == expected
    padded = array.array("I", data + bytes(-len(data) % 4))
    assert as_rows(decode_batch(padded)) == expected
    with pytest.raises((BufferError, TypeError)):
        decode_batch(memoryview(data)[::-1])
    path = tmp_path / "segment"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        decoded = decode_batch(mapped)
    assert as_rows(decoded) == expected  # Objects have bytes of their own: the mapping is closed.


GOOD = by_aiokafka(rows(30, headers=True))


def test_reading_again_and_again() -> None:
    """Only ours runs here, so a reference too many is ours: what tests/leaks.py looks for."""
    assert len(decode_batch(GOOD)) == len(read_batch(GOOD).records) == 30
    for name, (data, error_class, *_) in DAMAGE.items():
        if name != "not gzip":
            for read in (decode_batch, read_batch):
                with pytest.raises(CodecError) as caught:
                    read(data)
                assert caught.value.error_class is error_class


def test_offsets_of_any_size_and_of_no_number() -> None:
    data = batch(record(0), 1)
    calls: tuple[Callable[[Any], Any], ...] = (
        lambda at: read_header(data, at), lambda at: read_batch(data, at),
        lambda at: decode_batch(data, at), lambda at: next(iterate_records(data, at), None),
    )  # fmt: skip
    for call in calls[:3]:
        with pytest.raises(CodecError) as refused:
            call(1 << 70)
        assert refused.value.error_class is E.TRUNCATED
    assert calls[3](1 << 70) is None
    for call in calls:
        with pytest.raises(TypeError, match="integer"):
            call(0.0)
        with pytest.raises(ValueError, match="offset -1 is negative"):
            call(-1)
