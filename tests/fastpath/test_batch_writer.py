"""Writing record batches: Kafka's bytes, equal twins, rejected input, sizes, builders."""

from __future__ import annotations

import gc
import inspect
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath.batch_fields import BATCH_BYTES_MAX
from kraftspec.fastpath.batch_writer import (
    BatchBuilder,
    control_record_key,
    encode_batch,
    encode_control_batch,
    varint,
)
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import RECORDS_AT, Compression, Header, TimestampType

from .batches import WRITERS, BuildCase, build_cases, vectors, writers

INT64_MAX = (1 << 63) - 1
NOW = 1_700_000_000_000


def differing(result: dict[str, bytes]) -> list[str]:
    expected = {vector.id: vector.expected for vector in build_cases()}
    return [name for name, data in result.items() if data != expected[name]]


# ------------------------------------------------------------------------------ Kafka's own bytes


def test_there_are_enough_vectors() -> None:
    assert len(vectors()) >= 500
    assert len(build_cases()) >= 450


@writers
def test_bulk_makes_kafkas_bytes(encode: Any, builder: Any) -> None:
    assert differing({v.id: bulk(encode, v) for v in build_cases()}) == []


def bulk(encode: Any, vector: BuildCase) -> bytes:
    encoded: bytes = encode(
        vector.values, keys=vector.keys, timestamps=vector.timestamps, headers=vector.headers,
        **vector.fields,
    )  # fmt: skip
    return encoded


@writers
def test_bulk_makes_them_without_the_columns_that_are_empty(encode: Any, builder: Any) -> None:
    result = {}
    for v in build_cases():
        keys = v.keys if any(key is not None for key in v.keys) else None
        headers = v.headers if any(v.headers) else None
        stamps: Any = v.timestamps[0] if len(set(v.timestamps)) == 1 else tuple(v.timestamps)
        result[v.id] = encode(
            tuple(v.values), keys=keys, timestamps=stamps, headers=headers, **v.fields
        )
    assert differing(result) == []


@writers
def test_builders_make_kafkas_bytes(encode: Any, builder: Any) -> None:
    assert differing({v.id: built(builder(**v.fields), v) for v in build_cases()}) == []


def built(batch: Any, vector: BuildCase) -> bytes:
    """Append all, holding the builder to what it says of sizes and offsets."""
    for at, (key, value, stamp, headers) in enumerate(
        zip(vector.keys, vector.values, vector.timestamps, vector.headers, strict=True)
    ):
        size = batch.size_with(key, value, stamp, headers)
        assert batch.has_room_for(key, value, stamp, headers)
        assert batch.append(key, value, stamp, headers) == vector.fields["base_offset"] + at
        assert (batch.size, batch.count) == (size, at + 1)
    encoded: bytes = batch.build()
    assert len(encoded) == batch.size
    assert batch.build() == encoded
    return encoded


@writers
def test_one_builder_makes_them_all(encode: Any, builder: Any) -> None:
    """Those without a producer, whose builder differs in the base offset only."""
    plain = {"base_offset": 0} | dict.fromkeys(
        ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"), -1
    )
    batch, result = builder(), {}
    for v in build_cases():
        if v.fields | {"base_offset": 0} == plain | {"transactional": False, "control": False}:
            batch.clear(v.fields["base_offset"])
            assert (batch.size, batch.count, batch.build()) == (RECORDS_AT, 0, b"")
            result[v.id] = built(batch, v)
    assert len(result) > 200
    assert differing(result) == []


def test_control_batches_are_kafkas() -> None:
    result = {}
    for v in build_cases():
        if v.fields["control"] and len(v.values) == 1:
            version, kind = struct.unpack(">hh", v.keys[0] or b"")
            fields = {key: v.fields[key] for key in v.fields if key != "control"}
            assert fields.pop("base_sequence") == -1
            result[v.id] = encode_control_batch(
                kind, v.values[0] or b"", version=version, timestamp=v.timestamps[0], **fields
            )
    assert len(result) >= 40
    assert differing(result) == []
    assert control_record_key(4, 1) == b"\0\1\0\4"
    with pytest.raises(CodecError, match="int16 holds"):
        control_record_key(1 << 15)


# ----------------------------------------------------------------------------------- both alike


class Odd(bytes):
    """Bytes, but not exactly."""


blobs: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.binary(max_size=70),
    *(st.binary(max_size=9).map(kind) for kind in (bytearray, memoryview, Odd)),
)
rubbish = st.sampled_from(["text", 7, [b"x"], memoryview(b"abcdef")[::2], 1.5, object])
stamps = st.integers(-1, INT64_MAX) | st.just(NOW)
bad_stamps = st.sampled_from([-2, 1 << 63, None, "now", 1.0])
names = st.text(max_size=8) | st.sampled_from(["\ud800", 3, None, "x" * 200])
pairs: st.SearchStrategy[Any] = st.tuples(names, blobs) | st.tuples(names, blobs).map(list)
pairs |= st.builds(Header, st.text(max_size=3), st.binary(max_size=3)) | st.just((1, 2, 3))
header_lists = st.none() | st.lists(pairs, max_size=3) | st.lists(pairs, max_size=3).map(tuple)
rows = st.tuples(
    st.one_of(blobs, blobs, blobs, rubbish), st.one_of(blobs, blobs, blobs, rubbish),
    st.one_of(stamps, stamps, stamps, bad_stamps), header_lists | rubbish,
)  # fmt: skip
some_fields = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.integers(-(1 << 63), INT64_MAX) | st.sampled_from([1 << 63, None, True]),
        "partition_leader_epoch": st.sampled_from([0, -1, 1 << 31, "1"]),
        "timestamp_type": st.sampled_from([*TimestampType, 1, 2, None]),
        "log_append_time": st.sampled_from([0, NOW, -2]),
        "producer_id": st.sampled_from([-1, 0, 9, 1 << 63]),
        "producer_epoch": st.sampled_from([-1, 0, 1 << 15]),
        "base_sequence": st.sampled_from([-1, 0, 1 << 31]),
        "transactional": st.booleans(),
        "control": st.booleans(),
        "compression": st.sampled_from([Compression.NONE, 0, Compression.LZ4, 9, "gzip", None]),
    },
)


def outcome(call: Any) -> Any:
    """What a call gives, or everything about its refusal."""
    try:
        return call()
    except CodecError as error:
        return error.error_class, error.detail, error.path, error.offset


def both(call: Any) -> Any:
    """The outcome, which is the same by every writer."""
    outcomes = [outcome(lambda pair=pair: call(*pair)) for pair in WRITERS.values()]
    assert all(actual == outcomes[0] for actual in outcomes), outcomes
    return outcomes[0]


@given(st.lists(rows, max_size=6), some_fields)
def test_bulk_writers_agree(records: list[Any], fields: dict[str, Any]) -> None:
    keys, values, times, headers = (
        list(column) for column in zip(*records, strict=True)
    ) if records else ([], [], [], [])  # fmt: skip
    both(lambda encode, _: encode(
        values, keys=keys, timestamps=times, headers=headers, **fields))  # fmt: skip
    both(lambda encode, _: encode(values, timestamps=NOW, **fields))
    both(lambda encode, _: encode(values, timestamps=times[1:], **fields))


@given(st.lists(rows, max_size=6), some_fields, st.none() | st.integers(-1, 300))
def test_builders_agree(records: list[Any], fields: dict[str, Any], size_max: int | None) -> None:
    def run(encode: Any, builder: Any) -> list[Any]:
        batch = builder(**fields, size_max=size_max)
        seen: list[Any] = []
        for row in records:
            has_room = outcome(lambda row=row: batch.has_room_for(*row))
            size = outcome(lambda row=row: batch.size_with(*row))
            before = batch.count, batch.size
            added = outcome(lambda row=row: batch.append(*row))
            assert isinstance(added, int) == (has_room is True)
            assert isinstance(added, int) or (batch.count, batch.size) == before
            seen.append((has_room, size, added, batch.count, batch.size))
        return [*seen, batch.build()]

    both(run)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"values": b"ab"}, (ErrorClass.WRONG_TYPE, "value")),
        ({"values": 5}, (ErrorClass.WRONG_TYPE, "value")),
        ({"values": None}, (ErrorClass.WRONG_TYPE, "value")),
        ({"keys": [b"k"]}, (ErrorClass.RECORD_COUNT_MISMATCH, "records")),
        ({"headers": []}, (ErrorClass.RECORD_COUNT_MISMATCH, "records")),
        ({"timestamps": [1]}, (ErrorClass.RECORD_COUNT_MISMATCH, "records")),
        ({"timestamps": None}, (ErrorClass.WRONG_TYPE, "timestamp")),
        ({"timestamps": -2}, (ErrorClass.INTEGER_OUT_OF_RANGE, "timestamp")),
        ({"timestamps": 1 << 63}, (ErrorClass.INTEGER_OUT_OF_RANGE, "timestamp")),
        ({"values": [b"", "x"]}, (ErrorClass.WRONG_TYPE, "records[1].value")),
        ({"keys": [b"", 1]}, (ErrorClass.WRONG_TYPE, "records[1].key")),
        ({"timestamps": [0, -2]}, (ErrorClass.INTEGER_OUT_OF_RANGE, "records[1].timestamp")),
        ({"headers": [(), 5]}, (ErrorClass.WRONG_TYPE, "records[1].headers")),
        ({"headers": [(), [5]]}, (ErrorClass.WRONG_TYPE, "records[1].headers[0]")),
        ({"headers": [(), [(None, b"")]]}, (ErrorClass.WRONG_TYPE, "records[1].headers[0].key")),
        ({"headers": [(), [("a", "")]]}, (ErrorClass.WRONG_TYPE, "records[1].headers[0].value")),
        ({"headers": [(), [("\udc00", b"")]]},
         (ErrorClass.INVALID_UTF8, "records[1].headers[0].key")),
        ({"base_offset": INT64_MAX}, (ErrorClass.INTEGER_OUT_OF_RANGE, "baseOffset")),
        ({"transactional": True}, (ErrorClass.MISSING_FIELD, "producerId")),
        ({"producer_id": 1}, (ErrorClass.MISSING_FIELD, "producerEpoch")),
        ({"producer_id": 1, "producer_epoch": 0}, (ErrorClass.MISSING_FIELD, "baseSequence")),
        ({"compression": 5}, (ErrorClass.UNKNOWN_COMPRESSION, "attributes")),
    ],
)  # fmt: skip
def test_what_is_refused(columns: dict[str, Any], error: tuple[ErrorClass, str]) -> None:
    call = {"values": [b"v", b"w"], "timestamps": NOW, **columns}
    values = call.pop("values")
    refusal = both(lambda encode, _: encode(values, **call))
    assert (refusal[0], refusal[2]) == error


@writers
def test_no_records_give_no_bytes(encode: Any, builder: Any) -> None:
    assert encode([], timestamps=NOW) == b""
    assert encode((), timestamps=[], keys=[], headers=[]) == b""
    assert builder().build() == b""


@writers
def test_sequences_of_other_kinds(encode: Any, builder: Any) -> None:
    class Listed(list[Any]):
        pass

    expected = encode([b"a", b"b"], keys=[b"k", None], timestamps=[1, 2])
    assert encode(Listed([b"a", b"b"]), keys=(b"k", None), timestamps=range(1, 3)) == expected
    assert (
        encode((x for x in (b"a", b"b")), keys=Listed([b"k", None]), timestamps=(1, 2)) == expected
    )


@writers
def test_python_code_may_change_the_columns_meanwhile(encode: Any, builder: Any) -> None:
    values = [bytes([at]) * 40 for at in range(30)]

    class Stamp:
        def __index__(self) -> int:
            values.clear()
            gc.collect(0)
            return NOW

    with pytest.raises(CodecError):
        encode([*values], keys=values, timestamps=[Stamp() for _ in range(31)])
    values[:] = [b"x"] * 30
    encoded = encode(values, timestamps=[Stamp() for _ in range(30)])
    assert encoded == encode([b"x"] * 30, timestamps=NOW)
    assert values == []


@writers
def test_python_code_may_use_the_builder_meanwhile(encode: Any, builder: Any) -> None:
    batch = builder()

    class Stamp:
        def __index__(self) -> int:
            batch.append(b"inner" * 99, None, 5)
            return 7

    assert batch.append(b"outer", None, Stamp()) == 1
    assert batch.build() == encode([None] * 2, keys=[b"inner" * 99, b"outer"], timestamps=[5, 7])


# ----------------------------------------------------------------------------------------- sizes


@writers
def test_size_max_limits_what_comes_together(encode: Any, builder: Any) -> None:
    batch = builder(size_max=100)
    assert batch.has_room_for(None, bytes(200), NOW)
    assert batch.append(None, bytes(200), NOW) == 0
    assert not batch.has_room_for(None, b"", NOW)
    with pytest.raises(CodecError, match=r"at most 100 wanted \[length_too_long\]"):
        batch.append(None, b"", NOW)
    assert batch.count == 1
    batch.clear()
    while batch.has_room_for(None, b"12345", NOW):
        batch.append(None, b"12345", NOW)
    assert (batch.count, batch.size) == (3, RECORDS_AT + 3 * 12)
    assert batch.size_with(None, b"12345", NOW) == batch.size + 12
    assert len(batch.build()) == batch.size


@writers
def test_offsets_end_with_int64(encode: Any, builder: Any) -> None:
    batch = builder(INT64_MAX - 1)
    assert [batch.append(None, b"", NOW) for _ in range(2)] == [INT64_MAX - 1, INT64_MAX]
    assert not batch.has_room_for(None, b"", NOW)
    with pytest.raises(CodecError, match="the offset of record 2 is more than an int64 holds"):
        batch.append(None, b"", NOW)
    assert batch.build() == encode([b""] * 2, timestamps=NOW, base_offset=INT64_MAX - 1)


def test_a_limit_is_within_what_a_batch_length_says() -> None:
    assert BATCH_BYTES_MAX == (1 << 31) - 1 + 12


@pytest.mark.parametrize("value", [0, -1, 63, -64, 64, -65, INT64_MAX, -INT64_MAX - 1])
def test_varints_by_the_definition(value: int) -> None:
    zigzag = 2 * value if value >= 0 else -2 * value - 1
    digits = varint(value)
    assert sum((byte & 127) << (7 * at) for at, byte in enumerate(digits)) == zigzag
    assert [byte >> 7 for byte in digits] == [1] * (len(digits) - 1) + [0]


@pytest.mark.parametrize("count", [8192, 8193, 20_000])
def test_long_batches_of_both(count: int) -> None:
    values = [b"%d" % at for at in range(count)]
    times = [NOW + at * 7 % 1000 for at in range(count)]
    both(lambda encode, _: encode(values, timestamps=times))


def test_clear_checks_what_it_is_given() -> None:
    def run(encode: Any, builder: Any) -> Any:
        batch = builder(producer_id=1, producer_epoch=0, base_sequence=0)
        batch.append(b"k", b"v", NOW)
        kept = batch.build()
        refusals = [
            outcome(lambda: batch.clear(1 << 63)), outcome(lambda: batch.clear(0, -1)),
            outcome(lambda: batch.clear("0")), outcome(lambda: batch.clear(0, 1 << 31)),
        ]  # fmt: skip
        assert batch.build() == kept
        batch.clear(10, 1)
        assert batch.base_offset == 10
        assert batch.append(b"k", b"v", NOW) == 10
        return [*refusals, batch.build()]

    *refusals, _ = both(run)
    assert [error_class for error_class, *_ in refusals] == [
        ErrorClass.INTEGER_OUT_OF_RANGE, ErrorClass.MISSING_FIELD,
        ErrorClass.WRONG_TYPE, ErrorClass.INTEGER_OUT_OF_RANGE,
    ]  # fmt: skip


def test_the_public_names_are_those_of_a_writer() -> None:
    assert (encode_batch, BatchBuilder) in WRITERS.values()


@writers
def test_arguments(encode: Any, builder: Any) -> None:
    """However they are given; and as a signature that tools can read."""
    expected = encode([b"v"], timestamps=1, keys=[b"k"], base_offset=0)
    assert encode(values=[b"v"], timestamps=1, keys=[b"k"]) == expected
    names = {"".join(["time", "stamps"]): 1, "".join(["ke", "ys"]): [b"k"]}
    assert encode([b"v"], **names) == encode(*[[b"v"]], **names, headers=None) == expected
    calls: tuple[Any, ...] = (
        lambda: encode([b"v"]),
        lambda: encode(timestamps=1),
        lambda: encode([b"v"], [1]),
        lambda: encode([b"v"], [b"k"], timestamps=1),
        lambda: encode([b"v"], timestamps=1, key=[b"k"]),
        lambda: encode([b"v"], timestamps=1, values=[b"v"]),
    )
    for call in calls:
        with pytest.raises(TypeError, match="encode_batch"):
            call()
    pure_encode, pure_builder = WRITERS["pure"]
    for one, pure in ((encode, pure_encode), (builder, pure_builder)):
        assert parameters(one) == parameters(pure)
    assert parameters(builder.append) == parameters(pure_builder.append)


def parameters(function: Any) -> list[Any]:
    """Names and defaults; a native method's self is positional only."""
    actual = inspect.signature(function).parameters.values()
    return [(one.name, one.default, one.kind == one.KEYWORD_ONLY) for one in actual]


@pytest.mark.parametrize("size", [0, 1, 13, 14, 15, 16, 17, 63, 64, 200])
def test_header_keys_again_and_again(size: int) -> None:
    """The same object, equal objects, others between; short and long, of one byte and of more."""
    keys = ["k" * size, "é" * (size // 2), "".join(["k" * (size // 2)] * 2), "other"]
    values = [None, b"", b"v" * size, b"v" * 70]
    headers: list[Any] = [[(key, value)] for value in values for key in keys for _ in range(3)]
    headers += [((key, value),) for key in keys for value in values]
    headers += [[(keys[0], b"1"), (keys[0], b"2")], [(keys[0], b"3")], (), None, [(keys[0], b"4")]]
    encoded = both(lambda encode, _: encode([b"v"] * len(headers), timestamps=NOW, headers=headers))
    batch = BatchBuilder()
    for item in headers:
        batch.append(None, b"v", NOW, item)
    assert batch.build() == encoded
    unusual: Any
    for unusual in ([(keys[0], 5)], [(5, b"")], [(keys[0],)], [keys[0]], [[keys[0], b""]]):
        mixed = [*headers[:3], unusual, *headers[:3]]
        both(lambda encode, _, mixed=mixed: encode([b""] * 7, timestamps=NOW, headers=mixed))


@pytest.mark.parametrize("headers", [None, [("h", b"v")]])
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("sizes", [range(140), range(8100, 8230)])
def test_where_the_length_of_a_record_grows_by_a_byte(
    sizes: range, key: bytes | None, headers: list[tuple[str, bytes]] | None
) -> None:
    columns: dict[str, Any] = {
        "keys": [key] * len(sizes), "headers": [headers] * len(sizes),
        "timestamps": [NOW + at * 1000 for at in range(len(sizes))],
    }  # fmt: skip
    both(lambda encode, _: encode([bytes(size) for size in sizes], **columns))
    for at, size in enumerate(sizes):
        one = {name: [column[at]] for name, column in columns.items()}
        both(lambda encode, _, size=size, one=one: encode([bytes(size)], **one))


@writers
def test_a_long_record_among_short_ones(encode: Any, builder: Any) -> None:
    values = [b"", bytes(1 << 20), *[b"short"] * 5000, None]
    stamps = [NOW + 7 * at for at in range(len(values))]
    batch = builder()
    for value, stamp in zip(values, stamps, strict=True):
        batch.append(None, value, stamp)
    encoded = encode(values, timestamps=stamps)
    assert encoded == batch.build()
    assert len(encoded) == batch.size
