"""Records out of one batch, CRC checked: ours as objects and as columns, beside other readers.

A: null key, 100 B value. B: 16 B key, 100 B value, one header. C: 1 KiB value. The batches are
made by aiokafka's builder. Every contestant first shows the same records. Those that give objects
are asked for every field of each record, for that is what columns have in hand too; columns end
as a ``pyarrow.RecordBatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka  # type: ignore[import-untyped]  # no types

from kraftspec.fastpath import decode_batch, decode_columns

# kafka-python reads its schemas through a deprecated function of importlib.resources.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

TIMESTAMP_MS = 1_700_000_000_000
BATCH_BYTES_MAX = 1 << 30
COUNTS = {"100": 100, "10k": 10_000}
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]


def rows(case: str, count: int) -> list[Row]:
    """(offset, timestamp, key, value, headers) of each record."""
    rows_: list[Row] = []
    for at in range(count):
        byte = bytes([at & 0xFF])
        key = byte * 16 if case == "B" else None
        headers = [("header", byte * 8)] if case == "B" else []
        rows_.append((at, TIMESTAMP_MS + at, key, byte * (1024 if case == "C" else 100), headers))
    return rows_


@cache
def batch(case: str, count: int) -> bytes:
    """The rows as one uncompressed batch."""
    builder = aiokafka.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
    for row in rows(case, count):
        assert builder.append(*row) is not None
    return bytes(builder.build())


def look_at(records: Iterable[Any]) -> None:
    """Read every field of each record."""
    for record in records:
        _ = record.offset
        _ = record.timestamp
        _ = record.key
        _ = record.value
        _ = record.headers


def columns(data: bytes) -> Any:
    """All fourteen columns, values as views."""
    return decode_columns(data).to_pyarrow()


def objects(data: bytes) -> None:
    """A list of records, each accessed."""
    look_at(decode_batch(data))


def by_aiokafka(data: bytes) -> None:
    """What ``AIOKafkaConsumer`` does: the CRC, then record by record."""
    batch = aiokafka.DefaultRecordBatch(data)
    assert batch.validate_crc()
    look_at(batch)


def by_kafka_python(data: bytes) -> None:
    """What ``KafkaConsumer`` does."""
    from kafka.record.default_records import DefaultRecordBatch  # noqa: PLC0415 - it warns

    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    look_at(batch)


def rows_of_columns(data: bytes) -> list[Row]:
    """What ``columns`` gives, as rows."""
    return [
        (row["offset"], row["timestamp"], row["key"], row["value"],
         [(header["key"], header["value"]) for header in row["headers"]])
        for row in columns(data).to_pylist()
    ]  # fmt: skip


def rows_of_objects(data: bytes) -> list[Any]:
    """What ``objects`` looks at."""
    return [
        (one.offset, one.timestamp, one.key, one.value, [(h.key, h.value) for h in one.headers])
        for one in decode_batch(data)
    ]


def rows_of_aiokafka(data: bytes) -> list[Row]:
    """What aiokafka gives."""
    batch = aiokafka.DefaultRecordBatch(data)
    return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in batch]


def rows_of_kafka_python(data: bytes) -> list[Row]:
    """What kafka-python gives."""
    from kafka.record.default_records import DefaultRecordBatch  # noqa: PLC0415 - it warns

    batch = DefaultRecordBatch(data)
    return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in batch]


CONTESTANTS: dict[str, tuple[Callable[[bytes], Any], Callable[[bytes], list[Any]]]] = {
    "kraftspec columns": (columns, rows_of_columns),
    "kraftspec objects": (objects, rows_of_objects),
    "aiokafka": (by_aiokafka, rows_of_aiokafka),
    "kafka-python": (by_kafka_python, rows_of_kafka_python),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("case", ["A", "B", "C"])
@pytest.mark.parametrize("who", CONTESTANTS)
def test_decode(benchmark: Any, who: str, case: str, count: str) -> None:
    """All records of one batch."""
    if who == "kraftspec columns":
        pytest.importorskip("pyarrow")
    data, (decode, shown) = batch(case, COUNTS[count]), CONTESTANTS[who]
    assert shown(data) == rows(case, COUNTS[count])
    benchmark.group = f"batch decode {case}/{count}"
    benchmark.extra_info = {"who": who, "records": COUNTS[count], "bytes": len(data)}
    benchmark(decode, data)
