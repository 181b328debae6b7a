"""What the peers are given for a group, and what they must make of it.

A group's name says it all: ``crc 1 MiB``, ``batch encode A/100``, ``decode vote-v1``, ``javascript
decode fetch-v12-100x10`` (what the clients in JavaScript have). Batches are
made by our builder; a peer takes the records out and must write the same bytes again.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Any

from benchmarks.peers.programs import Request

from kraftspec.fastpath import BatchBuilder, crc32c

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
THOUSANDS = {"": 1, "k": 1000}
MESSAGES = {
    "metadata": "MetadataResponse",
    "vote": "VoteRequest",
    "fetch": "FetchResponse",
    "produce": "ProduceRequest",
    "fetchrequest": "FetchRequest",
    "metadatarequest": "MetadataRequest",
}
TIMESTAMP_MS = 1_700_000_000_000

CRC = re.compile(r"crc (\d+) (B|KiB|MiB)")
BATCH = re.compile(r"batch (encode|decode) ([ABC])/(\d+)(k?)")
MESSAGE = re.compile(r"(?:javascript )?(encode|decode) ((\w+)-v(\d+)\S*)")

Given = tuple[int, bytes | None, bytes, list[tuple[str, bytes]]]


def request(group: str, module: Any) -> Request | None:
    """What the peers measure for a group; None where they have nothing like it.

    ``module`` is the benchmark's: for a message, its ``wire(case)`` gives the bytes.
    """
    if match := CRC.fullmatch(group):
        data = bytes(range(256)) * (int(match[1]) * UNITS[match[2]] // 256 + 1)
        data = data[: int(match[1]) * UNITS[match[2]]]
        return Request("crc32c", data, crc32c(data))
    if match := BATCH.fullmatch(group):
        count = int(match[3]) * THOUSANDS[match[4]]
        data = batch(match[2], count)
        check = crc32c(data) if match[1] == "encode" else checksum(records(match[2], count))
        return Request(f"{match[1]}-batch", data, check)
    if match := MESSAGE.fullmatch(group):
        data = module.wire(match[2])
        operation = f"{match[1]}-message"
        return Request(operation, data, crc32c(data), MESSAGES[match[3]], int(match[4]))
    return None


def records(case: str, count: int) -> list[Given]:
    """The records of a case: (timestamp, key, value, headers).

    A: null key, 100 bytes of value. B: 16 bytes of key, 100 of value, one header. C: 1 KiB.
    """
    value_size = 1024 if case == "C" else 100
    records_: list[Given] = []
    for at in range(count):
        byte = bytes([at & 0xFF])
        key = byte * 16 if case == "B" else None
        headers = [("header", byte * 8)] if case == "B" else []
        records_.append((TIMESTAMP_MS + at, key, byte * value_size, headers))
    return records_


@cache
def batch(case: str, count: int) -> bytes:
    """The records of a case as one uncompressed batch from offset 0 on, of no producer."""
    builder = BatchBuilder()
    for timestamp, key, value, headers in records(case, count):
        builder.append(key, value, timestamp, headers)
    return builder.build()


def checksum(records: list[Given]) -> int:
    """The CRC-32C over offset, timestamp, key, value and headers of each record."""
    crc = 0
    for offset, (timestamp, key, value, headers) in enumerate(records):
        crc = crc32c(struct.pack(">qq", offset, timestamp), crc)
        for part in (key or b"", value, *(x for k, v in headers for x in (k.encode(), v))):
            crc = crc32c(part, crc)
    return crc
