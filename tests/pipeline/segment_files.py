"""Logs for the tests of the pipeline: golden batches of Kafka's own builder, and made ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath import encode_batch, encode_control_batch

TIME_MS = 1_700_000_000_000


@cache
def golden_batches() -> tuple[bytes, ...]:
    """Return the committed batches that Apache Kafka's own builder made, from offset 0 on."""
    text = (vectors_root() / "kafka/RecordBatch.json").read_bytes()
    tests: list[dict[str, Any]] = json.loads(text)["tests"]
    result, offset = [], 0
    for test in tests:
        if test["result"] != "valid":
            continue
        data = bytes.fromhex(test["hex"])
        if len(data) < 4096:
            result.append(struct.pack(">q", offset) + data[8:])
            offset += struct.unpack_from(">i", data, 23)[0] + 1
    return tuple(result)


def batch(base_offset: int, count: int = 3, size: int = 40, **options: Any) -> bytes:
    """Make a batch whose values say their offsets."""
    values = [(b"%d " % (base_offset + at)).ljust(size, b".") for at in range(count)]
    options = {"timestamps": TIME_MS + base_offset, **options}
    return encode_batch(values, base_offset=base_offset, **options)


def transactional(base_offset: int, producer_id: int, count: int = 2) -> bytes:
    return batch(
        base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip


def marker(base_offset: int, producer_id: int, kind: int) -> bytes:
    """Make the control batch that commits (1) or aborts (0)."""
    return encode_control_batch(
        kind, struct.pack(">hi", 0, 0), timestamp=TIME_MS, base_offset=base_offset,
        producer_id=producer_id, producer_epoch=0, transactional=True,
    )  # fmt: skip


def write_segment(directory: Path, batches: Sequence[bytes], base_offset: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def write_index(path: Path, every: int = 1) -> Path:
    """Write the ``.index`` that Kafka would: each entry a batch and its last offset."""
    data, base_offset = path.read_bytes(), int(path.stem)
    entries, at, number = b"", 0, 0
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        (delta,) = struct.unpack_from(">i", data, at + 23)
        number += 1
        if at and number % every == 0:
            entries += struct.pack(">ii", base + delta - base_offset, at)
        at += length + 12
    index = path.with_suffix(".index")
    index.write_bytes(entries)
    return index
