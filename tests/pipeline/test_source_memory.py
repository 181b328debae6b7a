"""A worker's memory does not depend on how large a segment is."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kraftspec.fastpath import encode_batch

from .segment_files import TIME_MS

PROGRAM = Path(__file__).with_name("read_in_little_memory.py")
ROWS = 140


def write(directory: Path, size: int) -> int:
    """Write a segment of ``size`` bytes, about; return how many records it has."""
    directory.mkdir(parents=True)
    data = bytearray(encode_batch([os.urandom(100)] * ROWS, timestamps=TIME_MS))
    with (directory / f"{0:020}.log").open("wb") as file:
        for offset in range(0, size // len(data) * ROWS, ROWS):
            struct.pack_into(">q", data, 0, offset)
            file.write(data)
    return size // len(data) * ROWS


@pytest.mark.soak
@pytest.mark.rss
def test_a_worker_of_384_mib_reads_any_segment(tmp_path: Path) -> None:
    # Run by hand with a segment of 2 GiB - 1, the program says the same.
    peaks = []
    for name, size in (("small", 16 << 20), ("large", 192 << 20)):
        count = write(tmp_path / name / "t-0", size)
        command = [sys.executable, str(PROGRAM), str(tmp_path / name), "384"]
        process = subprocess.run(command, capture_output=True, check=True, text=True)
        rows, peak = map(int, process.stdout.split())
        assert rows == count
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 16
