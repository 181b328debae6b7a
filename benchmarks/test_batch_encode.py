"""Records into one batch, uncompressed: ours in bulk, by append() and from Arrow, beside others.

A: null key, 100 B value. B: 16 B key, 100 B value, one header. C: 1 KiB value. All are given the
records as Python objects, in whatever containers they take, but for Arrow, whose columns are there
already (headers have no such form and stay a list). Every contestant first shows the same bytes;
kafka-python writes a leader epoch of 0 for -1, which the CRC does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka  # type: ignore[import-untyped]  # no types

from kraftspec.fastpath import BatchBuilder, encode_batch
from kraftspec.fastpath.records import LEADER_EPOCH_AT, MAGIC_AT

# kafka-python reads its schemas through a deprecated function of importlib.resources.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

TIMESTAMP_MS = 1_700_000_000_000
BATCH_BYTES_MAX = 1 << 30
COUNTS = {"1": 1, "100": 100, "10k": 10_000}
Row = tuple[int, bytes | None, bytes, list[tuple[str, bytes]]]
Encode = Callable[[], bytes]


@cache
def rows(case: str, count: int) -> list[Row]:
    """(timestamp, key, value, headers) of each record."""
    rows_: list[Row] = []
    for at in range(count):
        byte = bytes([at & 0xFF])
        key = byte * 16 if case == "B" else None
        headers = [("header", byte * 8)] if case == "B" else []
        rows_.append((TIMESTAMP_MS + at, key, byte * (1024 if case == "C" else 100), headers))
    return rows_


def columns(rows: list[Row], case: str) -> dict[str, Any]:
    """The columns that the case has, by the names that ``encode_batch`` gives them."""
    times, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    # A batch of one has one timestamp, which needs no column.
    fields: dict[str, Any] = {"values": values, "timestamps": times if len(times) > 1 else times[0]}
    return fields | ({"keys": keys, "headers": headers} if case == "B" else {})


def by_bulk(rows: list[Row], case: str) -> Encode:
    """``encode_batch`` of lists."""
    return bulk(**columns(rows, case))


def bulk(values: Any, timestamps: Any, keys: Any = None, headers: Any = None) -> Encode:
    """``encode_batch`` of columns; empty columns are left out."""
    if keys is None:
        return lambda: encode_batch(values, timestamps=timestamps)
    return lambda: encode_batch(values, timestamps=timestamps, keys=keys, headers=headers)


def by_arrow(rows: list[Row], case: str) -> Encode:
    """``encode_batch`` of Arrow arrays."""
    pa = pytest.importorskip("pyarrow")
    fields = columns(rows, case)
    kinds = {"values": pa.binary(), "keys": pa.binary(), "timestamps": pa.int64()}
    for name in kinds.keys() & fields.keys():
        if isinstance(fields[name], list):
            fields[name] = pa.array(fields[name], kinds[name])
    return bulk(**fields)


def by_append(rows: list[Row], case: str) -> Encode:
    """One ``BatchBuilder``, cleared for each batch."""
    builder = BatchBuilder()

    def bare() -> bytes:
        builder.clear()
        append = builder.append
        for timestamp, key, value, _ in rows:
            append(key, value, timestamp)
        return builder.build()

    def full() -> bytes:
        builder.clear()
        append = builder.append
        for timestamp, key, value, headers in rows:
            append(key, value, timestamp, headers)
        return builder.build()

    return full if case == "B" else bare


def by_aiokafka(rows: list[Row], case: str) -> Encode:
    """aiokafka's builder, in Cython."""

    def encode() -> bytes:
        builder = aiokafka.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
        append = builder.append
        for offset, (timestamp, key, value, headers) in enumerate(rows):
            append(offset, timestamp, key, value, headers)
        return builder.build()  # type: ignore[no-any-return]  # a bytearray, not copied

    return encode


def by_kafka_python(rows: list[Row], case: str) -> Encode:
    """kafka-python's builder."""
    from kafka.record.default_records import (  # noqa: PLC0415 - it warns
        DefaultRecordBatchBuilder,
    )

    def encode() -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
        append = builder.append
        for offset, (timestamp, key, value, headers) in enumerate(rows):
            append(offset, timestamp, key, value, headers)
        return builder.build()  # type: ignore[no-any-return]  # a bytearray, not copied

    return encode


CONTESTANTS: dict[str, Callable[[list[Row], str], Encode]] = {
    "kraftspec bulk": by_bulk,
    "kraftspec append": by_append,
    "kraftspec arrow": by_arrow,
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
}


@cache
def expected(case: str, count: int) -> bytes:
    """The bytes that all must give: aiokafka's."""
    return bytes(by_aiokafka(rows(case, count), case)())


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("case", ["A", "B", "C"])
@pytest.mark.parametrize("who", CONTESTANTS)
def test_encode(benchmark: Any, who: str, case: str, count: str) -> None:
    """One batch."""
    encode, data = CONTESTANTS[who](rows(case, COUNTS[count]), case), expected(case, COUNTS[count])
    encoded = bytearray(encode())
    if who == "kafka-python":
        assert encoded[LEADER_EPOCH_AT:MAGIC_AT] == bytes(4)
        encoded[LEADER_EPOCH_AT:MAGIC_AT] = b"\xff" * 4
    assert encoded == data
    benchmark.group = f"batch encode {case}/{count}"
    benchmark.extra_info = {"who": who, "records": COUNTS[count], "bytes": len(data)}
    benchmark(encode)
