"""Segments as Arrow tables: the values that Kafka's vectors have, in every layout and part."""

from __future__ import annotations

import gc
import mmap
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import native
from kraftspec.fastpath.columns import (
    COLUMNS,
    TIMESTAMPS,
    VALUES,
    Columns,
    decode_columns,
    iterate_columns,
    pure_decode_columns,
)
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import Compression
from kraftspec.fastpath.scan import Verdict

from .segments import TIME_MS, at_offset, batch, by_aiokafka, record, refit, rows, varint, vectors

pa: Any = import_module("pyarrow")
Decode = Callable[..., Columns]
DECODERS: dict[str, Decode] = {"pure": pure_decode_columns}
if native.load("_columns") is not None:
    DECODERS["native"] = decode_columns
decoders = pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
INT64 = 1 << 64


def wrapped(value: int) -> int:
    return (value + (1 << 63)) % INT64 - (1 << 63)


def table_of(test: dict[str, Any], position: int) -> list[dict[str, Any]]:
    """Return the rows that a vector's value says, by the rules of ``DefaultRecordBatch``."""
    from base64 import b64decode  # noqa: PLC0415 - here only

    def content(text: str | None) -> bytes | None:
        return None if text is None else b64decode(text)

    value, attributes = test["value"], test["value"]["attributes"]
    result = []
    for one in value["records"]:
        stamp = wrapped(value["baseTimestamp"] + one["timestampDelta"])
        sequence = (value["baseSequence"] + one["offsetDelta"]) % (1 << 31)
        result.append(
            {
                "offset": wrapped(value["baseOffset"] + one["offsetDelta"]),
                "timestamp": value["maxTimestamp"] if attributes & 8 else stamp,
                "timestamp_type": attributes >> 3 & 1,
                "leader_epoch": value["partitionLeaderEpoch"],
                "key": content(one["key"]),
                "value": content(one["value"]),
                "headers": [
                    {"key": header["key"], "value": content(header["value"])}
                    for header in one["headers"]
                ],
                "is_control": bool(attributes & 0x20),
                "is_transactional": bool(attributes & 0x10),
                "producer_id": value["producerId"],
                "producer_epoch": value["producerEpoch"],
                "sequence": sequence if value["baseSequence"] >= 0 else -1,
                "position": position,
                "compression": bytes.fromhex(test["hex"])[22] & 7,
            }
        )
    return result


def arrow(columns: Columns) -> Any:
    """Hand the rows to pyarrow, which looks at every buffer."""
    actual = columns.to_pyarrow()
    actual.validate(full=True)
    assert len(actual) == len(columns)
    return actual


def as_table(columns: Columns) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = arrow(columns).to_pylist()
    return actual


def segment(*sizes: int, codec: Compression = Compression.NONE) -> tuple[bytes, list[int]]:
    """Concatenate batches of so many rows; return them and where each starts, and the end."""
    data, base, starts = b"", 0, [0]
    for size in sizes:
        data += at_offset(by_aiokafka(rows(size, headers=True, value=40), codec=codec), base)
        base += size
        starts.append(len(data))
    return data, starts


@decoders
@pytest.mark.parametrize("values", VALUES)
def test_what_kafka_wrote(decode: Decode, values: str) -> None:
    data, expected = b"", []
    for test in vectors():
        expected += table_of(test, len(data))
        data += bytes.fromhex(test["hex"])
    decoded = decode(data, values=values)
    assert (decoded.next_offset, decoded.batches, decoded.damage) == (len(data), len(vectors()), ())
    assert as_table(decoded) == expected


@decoders
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("timestamps", TIMESTAMPS)
def test_the_schema_is_exact(decode: Decode, values: str, timestamps: str) -> None:
    value = {"view": pa.binary_view(), "binary": pa.binary(), "large_binary": pa.large_binary()}
    stamp = {
        "int64": pa.int64(),
        "timestamp[ms]": pa.timestamp("ms"),
        "timestamp[ms, tz=UTC]": pa.timestamp("ms", "UTC"),
        "timestamp[us]": pa.timestamp("us"),
        "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    }
    header = pa.struct([("key", pa.string()), ("value", value[values])])
    expected = pa.schema(
        [
            ("offset", pa.int64()), ("timestamp", stamp[timestamps]),
            ("timestamp_type", pa.int8()), ("leader_epoch", pa.int32()),
            ("key", value[values]), ("value", value[values]),
            ("headers", pa.list_(pa.field("element", header))),
            ("is_control", pa.bool_()), ("is_transactional", pa.bool_()),
            ("producer_id", pa.int64()), ("producer_epoch", pa.int16()),
            ("sequence", pa.int32()), ("position", pa.int64()), ("compression", pa.int8()),
        ]
    )  # fmt: skip
    data, _ = segment(3)
    for given_bytes in (data, b""):
        decoded = arrow(decode(given_bytes, values=values, timestamps=timestamps))
        assert decoded.schema.equals(expected, check_metadata=True)
    factor = 1_000 if "us" in timestamps else 1
    stamps = arrow(decode(data, values=values, timestamps=timestamps)).column("timestamp")
    assert stamps.cast(pa.int64()).to_pylist() == [TIME_MS * factor] * 3


@decoders
def test_microseconds_end_where_int64_does(decode: Decode) -> None:
    limit = (1 << 63) - 1
    for stamp, expected in (
        (limit, limit), (limit // 1000, limit // 1000 * 1000), (limit // 1000 + 1, limit),
        (-limit - 1, -limit - 1), (-1, -1000), (-(limit // 1000) - 1, -limit - 1),
    ):  # fmt: skip
        data = batch(record(0), 1, base_timestamp=stamp)
        decoded = arrow(decode(data, columns=["timestamp"], timestamps="timestamp[us]"))
        assert decoded.column(0).cast(pa.int64()).to_pylist() == [expected]


@decoders
def test_only_the_columns_asked_for(decode: Decode) -> None:
    data, _ = segment(20, 5)
    whole = arrow(decode(data))
    assert whole.schema.names == list(COLUMNS)
    for names in ([], ["value", "offset"], *([name] for name in COLUMNS), list(reversed(COLUMNS))):
        decoded = decode(data, columns=names)
        assert len(decoded) == 25
        assert arrow(decoded).num_rows == 25
        assert arrow(decoded).equals(whole.select(names))
    for wrong in (["offset", "offset"], ["ofset"]):
        with pytest.raises(ValueError, match="column"):
            decode(data, columns=wrong)
    for option in ("values", "timestamps", "errors"):
        with pytest.raises(ValueError, match=f"{option} is one of"):
            decode(data, **{option: "other"})
    for name in ("offset", "rows_max", "batches_max", "inflated_bytes_max"):
        with pytest.raises(ValueError, match=f"{name} -1 is negative"):
            decode(data, **{name: -1})
        with pytest.raises(TypeError, match="integer"):
            decode(data, **{name: 1.0})
        if name != "offset":  # There is no limit too great.
            assert len(decode(data, **{name: 1 << 70})) == 25
    assert len(decode(data, 1 << 70)) == 0


@decoders
@pytest.mark.parametrize(
    ("options", "is_held"),
    [
        ({}, True), ({"columns": ["headers"]}, True), ({"columns": ["offset"]}, False),
        ({"values": "binary"}, False), ({"values": "large_binary"}, False),
    ],
)  # fmt: skip
def test_columns_without_views_let_the_input_go(
    decode: Decode, options: dict[str, Any], is_held: bool
) -> None:
    data = bytearray(segment(3, 5, 7)[0])
    decoded = decode(data, **options)
    if is_held and decode is decode_columns:  # Pure Python copies all.
        with pytest.raises(BufferError):
            data.append(0)
    else:
        data.append(0)
    assert arrow(decoded).num_rows == len(decoded) > 0


@decoders
@pytest.mark.parametrize("codec", Compression)
def test_every_compression(decode: Decode, codec: Compression) -> None:
    plain, _ = segment(100, 300, 7)
    data, starts = segment(100, 300, 7, codec=codec)
    names = [name for name in COLUMNS if name not in ("position", "compression")]
    for values in VALUES:
        decoded = arrow(decode(data, values=values))
        assert decoded.select(names).equals(arrow(decode(plain, columns=names, values=values)))
        assert decoded.column("compression").unique().to_pylist() == [codec]
        assert decoded.column("position").unique().to_pylist() == starts[:-1]


@decoders
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_it_goes_on_where_it_stopped(decode: Decode, codec: Compression) -> None:
    data, starts = segment(10, 10, 50, 1, 9, codec=codec)
    whole = as_table(decode(data))
    for options, expected in (
        ({"rows_max": 20}, [20, 50, 10]),
        ({"rows_max": 1}, [10, 10, 50, 1, 9]),
        ({"rows_max": 0}, [10, 10, 50, 1, 9]),
        ({"batches_max": 3}, [70, 10]),
        ({"batches_max": 2, "rows_max": 15}, [10, 10, 50, 10]),
    ):
        sizes, table, at = [], [], 0
        while at < len(data):
            part = decode(data, offset=at, **options)
            sizes.append(len(part))
            table += as_table(part)
            at = part.next_offset
            assert at in starts
            assert part.position + sum(b - a for a, b in pairwise(starts) if a >= at) <= len(data)
        assert sizes == expected
        assert table == whole
    assert decode(data, batches_max=0).next_offset == 0


def test_iterating_over_parts() -> None:
    data, starts = segment(10, 10, 50)
    parts = list(iterate_columns(data, rows_max=20))
    assert [(part.position, part.next_offset) for part in parts] == [
        (0, starts[2]), (starts[2], starts[3]),
    ]  # fmt: skip
    assert [part.position for part in iterate_columns(data, offset=starts[1])] == [starts[1]]
    torn = data[:-1]
    (only,) = iterate_columns(torn, errors="stop")
    assert (len(only), only.next_offset, only.damage[0].verdict) == (20, starts[2], Verdict.TORN)
    assert [part.batches for part in iterate_columns(data, batches_max=0)] == [0]


@decoders
@pytest.mark.parametrize("values", ["view", "binary"])
def test_what_is_held_decompressed_is_limited(decode: Decode, values: str) -> None:
    data, starts = segment(100, 100, 100, codec=Compression.GZIP)
    inflated = len(by_aiokafka(rows(100, headers=True, value=40))) - 61
    for limit, batches in ((inflated * 3, 3), (inflated + 1, 2), (inflated, 1), (1, 1), (0, 0)):
        decoded = decode(data, values=values, inflated_bytes_max=limit)
        assert (decoded.batches, decoded.next_offset) == (batches, starts[batches])


def bad_record(count: int) -> bytes:
    """Make a batch whose CRC is right and whose last record is not, after nulls and headers."""
    body = b"".join(
        record(delta, None if delta % 2 else b"key" * 9, None, [("h", None), ("i", b"x" * 20)])
        for delta in range(count)
    )
    return batch(body + varint(6) + b"\0\0" + varint(count) + b"\6\1\0", count + 1)


@decoders
@pytest.mark.parametrize("values", VALUES)
def test_a_bad_batch_is_left_out_whole(decode: Decode, values: str) -> None:
    one, two = segment(13)[0], at_offset(segment(30)[0], 13)
    expected = [*as_table(decode(one)), *as_table(decode(two))]
    for row in expected[13:]:
        row["position"] = len(one) + len(bad_record(20))
    data = one + bad_record(20) + two
    with pytest.raises(CodecError) as caught:
        decode(data, values=values)
    error = caught.value
    assert error.error_class is ErrorClass.LENGTH_EXCEEDS_INPUT
    assert error.path == "records[20].key"
    assert error.offset is not None
    assert data[error.offset] == 6

    stopped = decode(data, values=values, errors="stop")
    assert as_table(stopped) == expected[:13]
    assert stopped.next_offset == len(one)
    skipped = decode(data, values=values, errors="skip")
    assert as_table(skipped) == expected
    assert (skipped.next_offset, skipped.batches) == (len(data), 2)
    for actual in (stopped, skipped):
        (damage,) = actual.damage
        assert str(damage.error) == str(error)
        assert (damage.position, damage.verdict) == (len(one), Verdict.CORRUPT)
    assert skipped.damage[0].size == len(bad_record(20))


@decoders
def test_damage_of_every_kind_is_skipped_and_reported(decode: Decode) -> None:
    parts = [at_offset(segment(10)[0], 10 * number) for number in range(5)]
    parts[1] = parts[1][:30] + b"\xee" + parts[1][31:]  # A wrong CRC.
    parts[2] = parts[2][:16] + b"\1" + parts[2][17:]  # Another magic.
    data = b"".join(parts) + parts[0][:-9] + bytes(5_000)
    decoded = decode(data, errors="skip")
    assert [row["offset"] for row in as_table(decoded)] == [
        *range(10), *range(30, 40), *range(40, 50),
    ]  # fmt: skip
    size = len(parts[0])
    assert [
        (one.position, one.size, one.verdict, one.error.error_class) for one in decoded.damage
    ] == [
        (size, size, Verdict.CORRUPT, ErrorClass.CRC_MISMATCH),
        (2 * size, size, Verdict.CORRUPT, ErrorClass.BAD_MAGIC),
        (5 * size, size - 9 + 5_000, Verdict.TORN, ErrorClass.CRC_MISMATCH),
    ]
    zeros = decode(parts[0] + bytes(100), errors="skip")
    assert (len(zeros), zeros.next_offset) == (10, size + 100)
    assert [one.verdict for one in zeros.damage] == [Verdict.ZERO_TAIL]
    assert decode(parts[1], errors="skip", check_crc=False).damage == ()


@decoders
def test_many_batches_and_many_windows(decode: Decode) -> None:
    plain, packed = segment(3)[0], segment(3, codec=Compression.LZ4)[0]
    data = (plain + packed) * 40
    once = as_table(decode(plain, columns=["key", "value", "headers"]))
    assert as_table(decode(data, columns=["key", "value", "headers"])) == once * 80


def sound(decode: Decode, data: bytes, **options: Any) -> Any:
    """Return what a decoder makes of any bytes, as a plain value."""
    try:
        decoded = decode(data, **options)
    except CodecError as error:
        return error.error_class, error.offset, str(error)
    damage = [(one.position, one.size, one.verdict, str(one.error)) for one in decoded.damage]
    return decoded.next_offset, decoded.batches, damage, as_table(decoded)


@given(st.data())
def test_any_bytes_are_taken_alike(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from((Compression.NONE, Compression.NONE, Compression.LZ4)))
    seed, starts = segment(*data.draw(st.lists(st.integers(1, 6), min_size=1)), codec=codec)
    changed = bytearray(seed)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
        start, end = next((a, b) for a, b in pairwise(starts) if a <= at < b)
        if data.draw(st.booleans()):
            changed[start:end] = refit(bytes(changed[start:end]))
    del changed[len(changed) - data.draw(st.sampled_from((0, 0, 0, 1, 5, 62))) :]
    changed += bytes(data.draw(st.sampled_from((0, 0, 0, 3, 17, 90))))
    options = {
        "errors": data.draw(st.sampled_from(("raise", "stop", "skip"))),
        "values": data.draw(st.sampled_from(VALUES)),
        "rows_max": data.draw(st.sampled_from((None, 1, 7))),
        "inflated_bytes_max": data.draw(st.sampled_from((1 << 30, 60))),
        "check_crc": data.draw(st.booleans()),
    }
    results = [sound(decode, bytes(changed), **options) for decode in DECODERS.values()]
    assert results[0] == results[-1]


def test_views_keep_what_they_point_into(tmp_path: Path) -> None:
    data, _ = segment(50, 50)
    expected = as_table(decode_columns(data))
    path = tmp_path / "segment"
    path.write_bytes(data)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    decoded = decode_columns(mapped)
    whole = arrow(decoded)
    keys, headers = whole.column("key"), whole.column("headers").flatten()
    with pytest.raises(BufferError):
        mapped.close()
    del decoded, whole
    gc.collect()
    if "native" in DECODERS:  # Only children are left, and hold it still.
        with pytest.raises(BufferError):
            mapped.close()
    assert keys.to_pylist() == [row["key"] for row in expected]
    assert headers.to_pylist() == [pair for row in expected for pair in row["headers"]]
    del keys, headers
    mapped.close()

    changing = bytearray(data)
    held = arrow(decode_columns(changing, columns=["value"]))
    if "native" in DECODERS:
        with pytest.raises(BufferError):
            changing.clear()
    assert held.column(0).to_pylist() == [row["value"] for row in expected]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_rows_outlive_everything_else(codec: Compression) -> None:
    expected = [row["value"] for row in as_table(decode_columns(segment(90)[0]))]
    kept = [decode_columns(segment(90, codec=codec)[0]).to_pyarrow().column(5) for _ in range(20)]
    gc.collect()
    assert all(column.to_pylist() == expected for column in kept)
    decoded = decode_columns(segment(90, codec=codec)[0])
    capsules = [decoded.__arrow_c_array__() for _ in range(3)]
    first = pa.RecordBatch._import_from_c_capsule(*capsules.pop())
    del decoded, capsules  # Two capsules without a consumer.
    assert first.column("value").to_pylist() == expected


def test_decoding_in_threads() -> None:
    size = 2_000 if "native" in DECODERS else 20
    data, _ = segment(size, size)
    expected = arrow(decode_columns(data))
    with ThreadPoolExecutor(4) as pool:
        for decoded in pool.map(lambda _: arrow(decode_columns(data)), range(40)):
            assert decoded.equals(expected)


def test_random_bytes_and_counts_that_lie() -> None:
    random = Random(2)
    for size in (0, 1, 60, 61, 62, 500):
        for _ in range(50):
            data = random.randbytes(size)
            if size > 61:
                data = data[:8] + struct.pack(">i", size - 12) + data[12:16] + b"\2" + data[17:]
                data = refit(data)
            results = [sound(decode, data, errors="skip") for decode in DECODERS.values()]
            assert results[0] == results[-1]


def test_importing_loads_no_arrow() -> None:
    code = (
        "import sys, kraftspec.fastpath.columns, kraftspec.fastpath.message as m; "
        "print(sorted({'pyarrow', 'numpy', 'lz4', 'cramjam', 'isal'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = decode_columns(segment(3)[0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        decoded.to_pyarrow()


GOOD, _ = segment(20, 10)
BAD = bad_record(5)


def test_decoding_again_and_again() -> None:
    """Only ours runs here, so a reference too many is ours: what tests/leaks.py looks for."""
    for values in VALUES:
        decoded = decode_columns(GOOD + BAD + GOOD, values=values, errors="skip")
        assert (len(decoded), len(decoded.damage)) == (60, 1)
        if "native" in DECODERS:
            assert len(decoded.__arrow_c_array__()) == 2
    with pytest.raises(CodecError):
        decode_columns(BAD)


@pytest.mark.parametrize("path", ["00000000000000000000.log", Path("00000000000000000000.log")])
def test_a_path_in_the_place_of_bytes_is_told(path: Any) -> None:
    with pytest.raises(TypeError, match=r"read the file first .* kraftspec\.pipeline\.scan"):
        decode_columns(path)
