"""Walking segments: the valid prefix, what ends it, and where batches go on."""

from __future__ import annotations

import io
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import native, walk
from kraftspec.fastpath import scan as scan_module
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import ErrorClass
from kraftspec.fastpath.scan import Verdict, pure_walk, scan, valid_prefix
from kraftspec.fastpath.walk import WINDOW_BYTES, reader_of, written_end

from .segments import at_offset, batch, by_aiokafka, record, refit, rows

_native: Any = native.load("_batch_reader")
ONE = by_aiokafka(rows(10))
THREE = b"".join(at_offset(ONE, 10 * number) for number in range(3))
SIZE = len(ONE)


def damages(data: Any, **options: Any) -> list[tuple[int, int, Verdict, ErrorClass]]:
    with scan(data, **options) as scanner:
        for _ in scanner:
            pass
    return [(one.position, one.size, one.verdict, one.error.error_class) for one in scanner.damage]


def test_every_source(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(THREE)
    empty = tmp_path / "empty.log"
    empty.touch()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        sources = (path, str(path), file, mapped, THREE, bytearray(THREE), memoryview(THREE))
        for source in sources:
            with scan(source) as scanner:
                headers = list(scanner)
            assert [header.base_offset for header in headers] == [0, 10, 20]
            assert [header.position for header in headers] == [0, SIZE, 2 * SIZE]
            assert [header.end for header in headers] == [SIZE, 2 * SIZE, 3 * SIZE]
            assert (scanner.valid_prefix, scanner.verdict) == (3 * SIZE, Verdict.CLEAN)
            prefix = valid_prefix(source)
            assert (prefix.size, prefix.batches, prefix.verdict) == (3 * SIZE, 3, Verdict.CLEAN)
            assert prefix.last == headers[-1]
    for nothing in (empty, b""):
        assert list(scan(nothing)) == []
        assert valid_prefix(nothing) == scan_module.Prefix(0, 0, None, Verdict.CLEAN, None, 0)
    with pytest.raises((TypeError, io.UnsupportedOperation)):
        scan(io.StringIO())
    for outside in (-1, len(THREE) + 1, 1 << 70):
        with pytest.raises(ValueError, match=f"no byte {outside}: the input has {len(THREE)}"):
            scan(THREE, offset=outside)
        with pytest.raises(ValueError, match=f"no byte {outside}"):
            valid_prefix(THREE, offset=outside)
    assert valid_prefix(THREE, offset=len(THREE)).verdict is Verdict.CLEAN
    assert valid_prefix(THREE, offset=SIZE).batches == 2


def test_a_file_closes_with_its_scanner(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(THREE)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    with scan(path) as scanner:
        next(scanner)
    assert len(os.listdir("/proc/self/fd")) == before if before else True
    assert scanner.valid_prefix == SIZE
    with pytest.raises(ValueError, match="released"):
        next(scanner)


@pytest.mark.parametrize("tail", [1, 8, 61, 4_096, 1 << 17])
def test_a_zero_tail(tail: int) -> None:
    prefix = valid_prefix(THREE + bytes(tail))
    assert (prefix.size, prefix.batches, prefix.zero_tail) == (3 * SIZE, 3, tail)
    assert prefix.verdict is Verdict.ZERO_TAIL
    assert prefix.error is not None
    ((position, size, verdict, _),) = damages(THREE + bytes(tail), resync=True)
    assert (position, size, verdict) == (3 * SIZE, tail, Verdict.ZERO_TAIL)


def test_only_zeros() -> None:
    prefix = valid_prefix(bytes(70_000))
    assert (prefix.size, prefix.zero_tail, prefix.verdict) == (0, 70_000, Verdict.ZERO_TAIL)


@pytest.mark.parametrize("zeros", [0, 5_000])
def test_a_write_cut_at_each_byte(zeros: int) -> None:
    # Base offset 20 and no record ends in zeros: each byte of the last batch can be recognised.
    last = at_offset(batch(record(0, b"key", b"\xff" * 40, [("h", b"\xff" * 9)]), 1), 20)
    for size in range(1, len(last)):
        prefix = valid_prefix(THREE + last[:size] + bytes(zeros))
        assert (prefix.size, prefix.batches) == (3 * SIZE, 3)
        written = len(last[:size].rstrip(b"\0"))
        if not written:  # What is there of a base offset may be zeros.
            assert prefix.verdict is Verdict.ZERO_TAIL
        elif zeros and written > len(last) - 8:
            assert prefix.verdict is Verdict.CORRUPT  # So few zeros may be the batch's own.
        else:
            assert prefix.verdict is Verdict.TORN, size
        assert prefix.zero_tail == size - written + zeros


def test_corrupt_is_not_torn() -> None:
    flipped = bytearray(ONE)
    flipped[70] ^= 4
    longer = ONE[:8] + struct.pack(">i", 1 << 20) + ONE[12:]
    for bad, error_class in (
        (bytes(flipped), ErrorClass.CRC_MISMATCH),
        (longer, ErrorClass.TRUNCATED),
    ):
        after = damages(THREE + bad + ONE, resync=True)
        assert after == [(3 * SIZE, SIZE, Verdict.CORRUPT, error_class)]
        prefix = valid_prefix(THREE + bad + ONE)
        assert (prefix.size, prefix.verdict) == (3 * SIZE, Verdict.CORRUPT)
    assert valid_prefix(THREE + bytes(flipped)).verdict is Verdict.CORRUPT
    assert valid_prefix(THREE + bytes(flipped) + bytes(9_000)).verdict is Verdict.CORRUPT
    assert valid_prefix(THREE + longer).verdict is Verdict.TORN  # There is no telling it apart.
    assert valid_prefix(b"\xff" * 500).verdict is Verdict.CORRUPT


def test_where_batches_go_on() -> None:
    for garbage in (b"\x02" * 200, b"\0" * 50, bytes(range(256)) * 3, ONE[:-30], ONE[20:]):
        data = ONE + garbage + THREE
        with scan(data, resync=True) as scanner:
            bases = [header.base_offset for header in scanner]
        assert bases == [0, 0, 10, 20]
        (damage,) = scanner.damage
        assert (damage.position, damage.size) == (SIZE, len(garbage))
        assert scanner.valid_prefix == SIZE
        assert [header.position for header in scan(data)] == [0]


def test_damage_between_good_batches_is_listed_in_order() -> None:
    data = b"junk" + ONE + b"\xff" * 100 + ONE + bytes(64) + ONE[:40]
    assert [(position, size) for position, size, *_ in damages(data, resync=True)] == [
        (0, 4), (4 + SIZE, 100), (104 + 2 * SIZE, 104),
    ]  # fmt: skip


def test_without_crcs_only_frames_are_seen() -> None:
    flipped = bytearray(THREE)
    flipped[SIZE + 70] ^= 1
    assert len(list(scan(flipped, check_crc=False))) == 3
    assert len(list(scan(flipped))) == 1
    assert valid_prefix(flipped, check_crc=False).batches == 3


def test_bytes_made_to_look_like_headers_take_no_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "RESYNC_CRC_BYTES_FREE", 1)
    # A header at every 61 bytes, each with a length to the end of the input and a wrong CRC.
    size, headers = 61 * 4_000, []
    for number in range(4_000):
        whole = batch(b"", 1)
        length = size - number * 61 - 12
        headers.append(whole[:8] + struct.pack(">i", length) + whole[12:22] + b"\1" + whole[23:])
    data = b"\xff" * 30 + b"".join(headers) + ONE
    crcs: list[int] = []

    def counted(part: memoryview) -> int:
        crcs.append(len(part))
        return crc32c(part)

    monkeypatch.setattr(walk, "crc32c", counted)
    assert damages(data, resync=True)[0][2] is Verdict.CORRUPT
    assert crcs
    assert sum(crcs) <= walk.RESYNC_CRC_TIMES_MAX * len(data)


@pytest.mark.skipif(_native is None, reason="there is no compiled reader")
@given(st.integers(0, 400), st.sampled_from((0, 2, 0xFF)), st.booleans())
def test_both_walks_agree(at: int, byte: int, check_crc: bool) -> None:
    changed = bytearray(THREE)
    changed[at] = byte
    for data in (changed, changed[:at]):
        view = memoryview(data)
        assert _native.walk(view, 0, check_crc) == pure_walk(view, 0, check_crc)


def test_written_end_at_each_place() -> None:
    for size in (1, WINDOW_BYTES - 1, WINDOW_BYTES, WINDOW_BYTES + 1, 3 * WINDOW_BYTES + 9):
        assert written_end(reader_of(memoryview(bytes(size))), 0, size) == 0
        for at in {0, size // 2, size - 1}:
            data = bytearray(size)
            data[at] = 1
            read = reader_of(memoryview(data))
            assert written_end(read, 0, size) == at + 1
            assert written_end(read, at, size) == at + 1
            assert written_end(read, at + 1, size) == at + 1


def test_headers_that_compaction_left_are_batches() -> None:
    data = ONE + at_offset(batch(b"", 0, last_delta=7), 10) + at_offset(ONE, 18)
    assert [header.last_offset for header in scan(data)] == [9, 17, 27]
    assert [header.record_count for header in scan(data)] == [10, 0, 10]
    assert read_header(data, SIZE).record_count == 0
    assert refit(data[:SIZE]) == ONE
