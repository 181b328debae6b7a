"""Segments of a wanted size, made of a real one's batches."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.scan import scan

# A batch of one record that fills up has at least its header and a value; and not much more.
_FILLER_BYTES_MIN = 256
_RECORD_OVERHEAD_BYTES = 61 + 5 + 1 + 1 + 1 + 1 + 5 + 1


@dataclass(frozen=True)
class Segment:
    """A segment that was made, and what it holds."""

    path: Path
    size: int
    rows: int
    value_bytes: int


def grown(source: Path, directory: Path, size: int, value_bytes: int) -> Segment:
    """Make a segment of exactly ``size`` bytes that repeats the batches of another one.

    Base offsets go on (no checksum covers them), and a batch of one record fills the rest.
    ``value_bytes`` is what each record of the source has.
    """
    data = memoryview(source.read_bytes())
    headers = list(scan(data))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{0:020}.log"
    left, offset, rows = size, 0, 0
    with path.open("wb") as file:
        for header in chain.from_iterable(repeat(headers)):
            if left - header.size < _FILLER_BYTES_MIN:
                break
            file.write(struct.pack(">q", offset))
            file.write(data[header.position + 8 : header.end])
            left -= header.size
            offset += header.record_count
            rows += header.record_count
        filler, filler_value_bytes = _filler(offset, left)
        file.write(filler)
    assert path.stat().st_size == size
    return Segment(path, size, rows + 1, rows * value_bytes + filler_value_bytes)


def _filler(offset: int, size: int) -> tuple[bytes, int]:
    """Return a batch of one record and exactly ``size`` bytes, and its value's length."""
    length = size - _RECORD_OVERHEAD_BYTES
    while True:
        # Two lengths of a varint each: what a longer value adds may be one more than its bytes.
        batch = encode_batch([bytes(length)], timestamps=1, base_offset=offset)
        if len(batch) == size:
            return batch, length
        length += 1 if len(batch) < size else -1
        if length >= size:
            raise AssertionError(f"no batch of one record has {size} bytes")
