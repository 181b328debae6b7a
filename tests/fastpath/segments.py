"""Batches for the readers' tests: made by hand, or by other projects' builders."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath.records import Compression

# Independent of ours, which is under test here.
crc32c: Any = import_module("aiokafka.record.util").calc_crc32c
Headers = list[tuple[str, bytes | None]]
Row = tuple[int, int, bytes | None, bytes | None, Headers]  # offset, timestamp, key, value, headers

TIME_MS = 1_700_000_000_000


@cache
def vectors() -> tuple[dict[str, Any], ...]:
    """Return the committed batches that Apache Kafka's own builder made."""
    text = (vectors_root() / "kafka/RecordBatch.json").read_bytes()
    return tuple(test for test in json.loads(text)["tests"] if test["result"] == "valid")


def varint(value: int) -> bytes:
    """Encode a zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    delta: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: Headers | None = None,
    timestamp_delta: int = 0,
    attributes: int = 0,
) -> bytes:
    body = struct.pack(">b", attributes) + varint(timestamp_delta) + varint(delta)
    body += sized(key) + sized(value) + varint(len(headers or []))
    for name, content in headers or []:
        body += sized(name.encode()) + sized(content)
    return varint(len(body)) + body


def batch(
    records: bytes,
    count: int,
    *,
    attributes: int = 0,
    last_delta: int | None = None,
    base_offset: int = 0,
    epoch: int = 0,
    base_timestamp: int = TIME_MS,
    max_timestamp: int = TIME_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Put a header with the right CRC and length before ``records``."""
    delta = count - 1 if last_delta is None else last_delta
    covered = struct.pack(
        ">hiqqqhii", attributes, delta, base_timestamp, max_timestamp, *producer, count
    )
    covered += records
    return struct.pack(">qiibI", base_offset, len(covered) + 9, epoch, 2, crc32c(covered)) + covered


def refit(data: bytes) -> bytes:
    """Correct the CRC of a batch whose bytes were changed."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def rows(count: int, *, key: int = 8, value: int = 20, headers: bool = False) -> list[Row]:
    """Rows that differ: null and empty keys and values among them."""
    result: list[Row] = []
    for index in range(count):
        name = None if index % 5 == 1 else b"k%d" % index * (index % key)
        content = None if index % 7 == 3 else bytes([index & 0xFF]) * (index % value)
        pairs: Headers = []
        if headers:
            pairs = [("trace-é"[: index % 8], b"%d" % index), ("null", None)][: index % 3]
        result.append((index, TIME_MS + index // 3, name, content, pairs))
    return result


def by_aiokafka(
    rows_: Iterable[Row],
    *,
    codec: Compression = Compression.NONE,
    transactional: bool = False,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    records: Any = import_module("aiokafka.record._crecords.default_records")
    builder = records.DefaultRecordBatchBuilder(
        2, int(codec), int(transactional), *producer, 1 << 30
    )
    for offset, timestamp, key, value, headers in rows_:
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def by_kafka_python(rows_: Iterable[Row], *, codec: Compression = Compression.NONE) -> bytes:
    records: Any = import_module("kafka.record.default_records")
    builder = records.DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 30)
    for offset, timestamp, key, value, headers in rows_:
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def at_offset(data: bytes, base_offset: int) -> bytes:
    """Move a batch: the CRC does not cover the base offset."""
    return struct.pack(">q", base_offset) + data[8:]
