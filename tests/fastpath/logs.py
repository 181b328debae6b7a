"""Logs for the tests of the append and of its recovery."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kraftspec.fastpath.append import LogAppender
from kraftspec.fastpath.batch_reader import iterate_records
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.recovery import Recovery, find_end
from kraftspec.fastpath.walk import read_file


def batch(base_offset: int, count: int = 3, size: int = 40) -> bytes:
    values = [f"{base_offset + at:08d}".encode() * (size // 8) for at in range(count)]
    headers = [[("last", b"byte")]] * count  # A batch that ends with a zero is whole without it.
    return encode_batch(values, timestamps=1, headers=headers, base_offset=base_offset)


def values_of(path: Path) -> list[bytes | None]:
    return [record.value for record in iterate_records(path.read_bytes())]


def found_in(path: Path, data: bytes, base_offset: int = 0) -> Recovery:
    path.unlink(missing_ok=True)  # Ext4 syncs a file that is written over.
    path.write_bytes(data)
    with path.open("rb") as file:
        return find_end(partial(read_file, file.fileno()), len(data), base_offset)


def written(path: Path, batches: int) -> bytes:
    """Make a log of ``batches`` batches of three, closed; return its bytes."""
    with LogAppender(path) as log:
        for number in range(batches):
            log.append(batch(3 * number))
    return path.read_bytes()
