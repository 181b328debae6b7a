"""Partitions for the tests of the audit: sound by construction, until something is planted."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kraftspec.fastpath import crc32c, encode_batch, encode_control_batch, read_header
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.pipeline.audit import Report, audit

TIME_MS = 1_700_000_000_000
Record = RecordBatch.Record


def batch(base_offset: int, count: int = 3, **options: Any) -> bytes:
    """Make a batch of keyed records of epoch 0, a millisecond apart."""
    numbers = range(base_offset, base_offset + count)
    options = {
        "keys": [b"k%d" % number for number in numbers],
        "timestamps": [TIME_MS + number for number in numbers],
        "partition_leader_epoch": 0,
        **options,
    }
    return encode_batch([b"v%d" % number for number in numbers], base_offset=base_offset, **options)


FIRST = "00000000000000000000.log"
SIZE = len(batch(0))


def produced(
    base_offset: int, sequence: int, *, count: int = 3, producer: int = 7, epoch: int = 0,
    transactional: bool = False,
) -> bytes:  # fmt: skip
    """Make a batch of an idempotent producer."""
    return batch(
        base_offset, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
        transactional=transactional,
    )  # fmt: skip


def marker(
    base_offset: int, *, commit: bool = True, producer: int = 7, epoch: int = 0, time: int = TIME_MS
) -> bytes:
    """Make the end marker of a transaction."""
    return encode_control_batch(
        int(commit), struct.pack(">hi", 0, 0), timestamp=time, base_offset=base_offset,
        producer_id=producer, producer_epoch=epoch, transactional=True, partition_leader_epoch=0,
    )  # fmt: skip


def raw_batch(base_offset: int, records: Sequence[Record], **fields: Any) -> bytes:
    """Return a batch that no producer builds: each field as passed."""
    last = max((record.offset_delta for record in records), default=0)
    fields = {
        "partition_leader_epoch": 0,
        "base_timestamp": TIME_MS,
        "max_timestamp": TIME_MS,
        "last_offset_delta": last,
        **fields,
    }
    return RecordBatch(base_offset=base_offset, records=list(records), **fields).encode(2)


def patched(data: bytes, at: int, code: str, value: int) -> bytes:
    """Set a field of a batch, and its CRC after it."""
    out = bytearray(data)
    struct.pack_into(code, out, at, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def cut(batches: list[bytes], cuts: set[int]) -> list[list[bytes]]:
    """Divide batches into segments, before each of the numbers."""
    segments: list[list[bytes]] = [[]]
    for number, data in enumerate(batches):
        if number in cuts and number:
            segments.append([])
        segments[-1].append(data)
    return segments


def write(
    root: Path, segments: Sequence[Sequence[bytes]], *, topic: str = "t", partition: int = 0,
    clean_until: int | None = 0, epochs: Iterable[tuple[int, int]] = (),
) -> Path:  # fmt: skip
    """Write a log directory of one partition; a segment is named for its first batch.

    ``clean_until`` goes into cleaner-offset-checkpoint, which None leaves out.
    """
    directory = root / f"{topic}-{partition}"
    directory.mkdir(parents=True)
    for batches in segments:
        data = b"".join(batches)
        base = read_header(data, check_crc=False).base_offset
        (directory / f"{base:020}.log").write_bytes(data)
    if clean_until is not None:
        line = f"{topic} {partition} {clean_until}\n" if clean_until else ""
        (root / "cleaner-offset-checkpoint").write_text(f"0\n{int(bool(line))}\n{line}")
    if rows := list(epochs):
        lines = "".join(f"{epoch} {start}\n" for epoch, start in rows)
        (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(rows)}\n{lines}")
    return directory


Place = tuple[str, str, int, int]


def places(report: Report) -> list[Place]:
    """Return (kind, file's name, byte, offset) of each finding."""
    return [
        (one.kind, Path(one.file).name, one.position, one.offset) for one in report.findings.kept
    ]


def findings_of(root: Path) -> list[Place]:
    """Audit and return the places of the findings. The byte counts must always add up."""
    report = audit(root)
    batches = sum(share.bytes for share in report.totals.codecs.values())
    assert batches + report.totals.damaged_bytes == report.totals.bytes
    assert sum(report.findings.counts.values()) == len(report.findings.kept)
    return places(report)
