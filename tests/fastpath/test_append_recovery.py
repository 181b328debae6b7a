"""Recovery: the rest of a crash is truncated, other damage is reported, whole batches stay."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kraftspec.fastpath import recovery, walk
from kraftspec.fastpath.append import CorruptLogError, LogAppender
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.recovery import SECTOR_BYTES, Recovery
from kraftspec.fastpath.walk import iterate_headers

from .logs import batch, found_in, written


def test_cut_anywhere_whole_batches_stay(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 3)
    size = len(data) // 3
    path = tmp_path / "log"
    for cut in range(len(data) + 1):
        for tail in (b"", bytes(700)):
            actual = found_in(path, data[:cut] + tail)
            end = cut // size * size
            torn = len(data[end:cut].rstrip(b"\0"))
            assert actual[:4] == (end, 3 * (cut // size), cut // size, torn)
            assert actual.end + actual.torn_bytes + actual.zero_bytes == cut + len(tail)
            assert bool(actual.reason) == bool(torn)
            # A batch that is there but for some bytes is not torn: that leaves out whole sectors.
            is_corrupt = bool(tail) and bool(torn) and size - torn < 8
            assert (actual.is_corrupt, actual.good_bytes) == (is_corrupt, 0)
            if cut % 97 == 0 and not is_corrupt:
                with LogAppender(path) as log:
                    assert log.recovery == actual
                    assert log.durable_end == end
                    assert path.read_bytes() == data[:end]
                    log.append(batch(log.next_offset))
                assert path.read_bytes() == data[:end] + batch(3 * (cut // size))


def refused(path: Path) -> Recovery:
    """Open a log that must be rejected; check that it is whole, and what ``cut_corrupt`` does."""
    data = path.read_bytes()
    with pytest.raises(CorruptLogError) as error:
        LogAppender(path)
    assert path.read_bytes() == data
    actual = error.value.recovery
    assert actual.is_corrupt
    output = str(pickle.loads(pickle.dumps(error.value)))  # As multiprocessing hands it on.
    assert output == str(error.value)
    for part in (
        str(path),
        actual.reason,
        f"after it {actual.good_bytes} bytes",
        "cut_corrupt=True",
    ):
        assert part in output
    with LogAppender(path, cut_corrupt=True) as log:
        assert log.recovery == actual
        assert log.end == actual.end
        log.append(batch(log.next_offset))
    assert path.read_bytes() == data[: actual.end] + batch(actual.next_offset)
    return actual


# But for the length of the last batch: that could be one cut short by the end of the file.
FLIPS = [(number, at) for number in range(5) for at in (0, 10, 16, 17, 30, 70, -1)]
FLIPS.remove((4, 10))


@pytest.mark.parametrize(("number", "at"), FLIPS)
def test_a_flipped_bit_costs_nothing_unasked(tmp_path: Path, number: int, at: int) -> None:
    data = bytearray(written(tmp_path / "log", 5))
    size = len(data) // 5
    # A wrong base offset is detected though the CRC does not cover it: an offset is negative.
    data[number * size + at % size] ^= 0x80 if at == 0 else 1
    (tmp_path / "log").write_bytes(data)
    actual = refused(tmp_path / "log")
    assert actual[:3] == (number * size, 3 * number, number)
    assert actual.torn_bytes + actual.zero_bytes == (5 - number) * size
    assert actual.good_bytes == (5 - number - (at != 0)) * size
    if at in (17, 30, 70, -1):
        assert "crc_mismatch" in actual.reason


def test_a_length_that_lies_is_no_torn_batch(tmp_path: Path) -> None:
    """It reaches over good batches into the zeros, or over the end; those batches stay good."""
    whole = written(tmp_path / "log", 300)
    size = len(whole) // 300
    for bit in range(8, 31):
        for tail in (b"", bytes(1 << 18)):
            data = bytearray(whole + tail)
            data[4 * size + 11 - bit // 8] ^= 1 << bit % 8
            actual = found_in(tmp_path / "log", bytes(data))
            assert (actual.end, actual.is_corrupt) == (4 * size, True)
            assert actual.good_bytes == 295 * size, bit


@pytest.mark.parametrize(
    "data",
    [
        b"Buy milk.\n",
        b"Notes.\n" * 500,
        "Notizen.\n".encode("utf-16-be") * 100,
        bytes(4096) + b"A disk's image" * 99,
        b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\x3e\0" + bytes(5000) + b"\1",
        bytes(8) + b"\0\0\0\x20" + bytes(4) + b"\1" + b"magic 1" * 9,  # Of an old Kafka.
        b"\xff" * 10_000,
        b"\2\0" * 100_000,
    ],
)
def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "notes.txt").write_bytes(data)
    actual = refused(tmp_path / "notes.txt")
    assert actual[:3] == (0, 0, 0)
    assert actual.good_bytes == 0


def test_offsets_that_go_back_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(batch(0) + batch(3) + batch(3) + batch(6))
    actual = refused(tmp_path / "log")
    assert (actual.end, actual.next_offset, actual.batches) == (2 * len(batch(0)), 6, 2)
    assert "offsets 3 to 5, where 6 is due" in actual.reason
    assert actual.good_bytes == 2 * len(batch(0))


def log_of(count: int, size: int) -> tuple[bytes, list[int]]:
    """Return batches with no zero sector, and where each ends."""
    data, ends = b"", []
    for number in range(count):
        data += batch(3 * number, 3, size)
        ends.append(len(data))
    return data, ends


@pytest.mark.parametrize("size", [40, 168, 800, 4000])
@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_a_lost_sector_is_what_a_crash_leaves(tmp_path: Path, size: int, sector_bytes: int) -> None:
    """Each sector in turn, good batches after it: cut, but for the head of what has no batch."""
    data, ends = log_of(30, size)
    for sector in range(0, len(data), sector_bytes):
        lost = data[:sector] + bytes(sector_bytes) + data[sector + sector_bytes :]
        actual = found_in(tmp_path / "log", lost[: len(data)] + bytes(99))
        assert actual.end == max((end for end in ends if end <= sector), default=0)
        assert not actual.is_corrupt, sector
        assert actual.good_bytes >= sum(
            end - start for start, end in pairwise(ends) if start >= sector + sector_bytes
        )


def test_a_lost_sector_that_was_durable_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "UNSYNCED_BYTES_MAX", 1 << 14)
        data, ends = log_of(300, 40)
        for sector in range(0, len(data), SECTOR_BYTES):
            lost = data[:sector] + bytes(SECTOR_BYTES) + data[sector + SECTOR_BYTES :]
            actual = found_in(tmp_path / "log", lost[: len(data)])
            assert actual.end == max((end for end in ends if end <= sector), default=0)
            if actual.torn_bytes:
                assert actual.is_corrupt == (actual.torn_bytes > 1 << 14), sector


def test_good_batches_are_found_across_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(walk, "WINDOW_BYTES", 1 << 8)
        good = batch(6, 2, 3000)
        for gap in range(1, 600, 7):
            data = (
                batch(0) + b"\xff\2" + bytes(gap) + b"\2" + good + b"\xff" * gap + batch(9) + b"\1"
            )
            actual = found_in(tmp_path / "log", data)
            assert (actual.end, actual.is_corrupt) == (len(batch(0)), True)
            assert actual.good_bytes == len(good) + len(batch(9))


def test_what_looks_like_many_batches_is_not_searched_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(walk, "RESYNC_CRC_BYTES_FREE", 0)
        head = bytes(9) + b"\1\0\0"  # A length of 64 KiB.
        data = batch(0) + (head + bytes(4) + b"\2\1\1\1\1\0" + b"\1" * 42) * 4000
        checked_bytes = 0

        def counted(checked: bytes, crc: int = 0) -> int:
            nonlocal checked_bytes
            checked_bytes += len(checked)
            return crc32c(checked, crc)

        patch.setattr(walk, "crc32c", counted)
        actual = found_in(tmp_path / "log", data)
        assert 0 < checked_bytes <= walk.RESYNC_CRC_TIMES_MAX * len(data)
        assert (actual.end, actual.is_corrupt, actual.good_bytes) == (len(batch(0)), True, 0)


def test_batches_of_every_size_are_walked_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that end within, at and after a window of the walk, and that take many."""
    with monkeypatch.context() as patch:
        patch.setattr(walk, "WINDOW_BYTES", 1 << 14)
        frame = len(batch(0, 1, 1 << 13)) - (1 << 13)
        sizes = [8, (1 << 14) - frame, 1 << 14, 24, 10_000, 9_000, 5 << 14, 8, (2 << 14) + 8, 800]
        data = b"".join(batch(number, 1, size) for number, size in enumerate(sizes))
        assert found_in(tmp_path / "log", data)[:3] == (len(data), len(sizes), len(sizes))
        actual = found_in(tmp_path / "log", data[:-1] + bytes(3 << 14))
        assert (actual.end, actual.batches) == (len(data) - len(batch(9, 1, 800)), len(sizes) - 1)
        # A length that lies: the batch would be 2 GiB.
        lying = data + bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\2" + bytes(5 << 14)
        actual = found_in(tmp_path / "log", lying)
        assert (actual.end, actual.torn_bytes, actual.zero_bytes) == (len(data), 17, 5 << 14)
        assert f"records at byte {len(data) + 61}" in actual.reason
        assert not actual.is_corrupt


def test_a_power_loss_loses_sectors_not_acknowledged(tmp_path: Path) -> None:
    """Behind the durable end any sector is old (zeros) or new, in any order."""
    rolls = Random(5)
    for _ in range(25):
        path = tmp_path / "log"
        path.unlink(missing_ok=True)
        with LogAppender(path) as log:
            for number in range(rolls.randrange(1, 6)):
                log.append(batch(9 * number, 9, rolls.choice((40, 400))))
            durable = log.sync()
            for _ in range(rolls.randrange(1, 9)):
                log.append_values([rolls.randbytes(rolls.randrange(600))] * 3, timestamps=1)
            end, image = log.end, bytearray(path.read_bytes())
        whole = path.read_bytes()
        for at in range(durable - durable % SECTOR_BYTES, end, SECTOR_BYTES):
            if rolls.random() < 0.3:
                lost = slice(max(at, durable), at + SECTOR_BYTES)
                image[lost] = bytes(len(image[lost]))
        path.write_bytes(image)
        with LogAppender(path) as log:
            assert durable <= log.recovery.end <= end
            assert log.recovery.next_offset % 3 == 0
            kept = log.end
        assert path.read_bytes() == whole[:kept]


CHILD = """
import sys, threading
from kraftspec.fastpath.append import LogAppender

log, lock = LogAppender(sys.argv[1]), threading.Lock()

def run(name):
    number = 0
    while True:
        values = [b"%d %d " % (name, number) + b"x" * (number * 37 % 3000)] * (number % 5 + 1)
        durable = log.sync(log.append_values(values, timestamps=number))
        with lock:
            print(name, number, durable, flush=True)
        number += 1

threads = [threading.Thread(target=run, args=(name,)) for name in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
"""


@pytest.mark.parametrize("threads", [1, 4])
def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "log"
    for delay_s in (0.0, 0.01, 0.1):
        path.unlink(missing_ok=True)
        command = [sys.executable, "-c", CHILD, str(path), str(threads)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout
            output = child.stdout.readline()  # It is under way.
            time.sleep(delay_s)
            child.kill()
            output += child.stdout.read()
        # Whole lines alone: the last one may be cut.
        reported = [
            tuple(map(int, numbers))
            for numbers in re.findall(r"^(\d+) (\d+) (\d+)\n", output, re.MULTILINE)
        ]
        with LogAppender(path) as log:
            assert log.recovery.end >= max(durable for _, _, durable in reported)
            assert log.recovery.zero_bytes > 0  # It had no time to trim.
        numbers: dict[int, list[int]] = {name: [] for name in range(threads)}
        data = path.read_bytes()
        for header in iterate_headers(data):
            records = decode_batch(data, header.position)
            name, number = map(int, bytes(records[0].value or b"").split()[:2])
            assert len(records) == number % 5 + 1
            numbers[name].append(number)
        for name, seen in numbers.items():
            assert seen == list(range(len(seen)))  # In order, and none left out.
            assert len(seen) > max(
                (number for who, number, _ in reported if who == name), default=-1
            )
