"""The append: what is acknowledged is durable, what is not is cut; threads share syncs."""

from __future__ import annotations

import errno
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kraftspec.fastpath import append
from kraftspec.fastpath.append import (
    AppendFailedError,
    LogAppender,
    Recovery,
    find_end,
)
from kraftspec.fastpath.batch_reader import decode_batch, iterate_records, read_header
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass

SECTOR_BYTES = 512  # What a disk writes whole or not at all.
LOOP_MIB = 64


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
        return find_end(file.fileno(), base_offset)


def written(path: Path, batches: int) -> bytes:
    """Make a log of ``batches`` batches of three, closed; return its bytes."""
    with LogAppender(path) as log:
        for number in range(batches):
            log.append(batch(3 * number))
    return path.read_bytes()


# What is written.


def test_a_log_is_its_batches_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogAppender(path) as log:
        assert log.recovery == Recovery(0, 0, 0, 0, 0, "")
        first = log.append(batch(0) + batch(3))
        assert (log.end, log.durable_end, log.next_offset) == (first, 0, 6)
        assert path.read_bytes()[:first] == batch(0) + batch(3)  # A reader sees it already.
        assert log.sync(first) == first == log.durable_end
        last = log.append_values([b"a", b"b"], timestamps=7, partition_leader_epoch=4)
        assert log.next_offset == 8
        assert log.append(b"") == last == log.append_values([], timestamps=7)
        assert (log.end, log.durable_end) == (last, first)
    assert log.durable_end == last
    own = encode_batch([b"a", b"b"], timestamps=7, partition_leader_epoch=4, base_offset=6)
    assert path.read_bytes() == batch(0) + batch(3) + own
    with LogAppender(path) as log:
        assert log.recovery == Recovery(last, 8, 3, 0, 0, "")
        assert log.durable_end == last
        log.append_values([b"c"], timestamps=8)
    assert values_of(path)[-3:] == [b"a", b"b", b"c"]


def test_a_batch_whose_offset_another_took_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogAppender(path) as log:

        def headers() -> Iterator[tuple[str, bytes]]:
            log.append(batch(0))  # The log is not locked while values are encoded.
            yield "name", b"value"

        log.append_values([b"a"], headers=[headers()], timestamps=1)
        assert log.next_offset == 4
    data = path.read_bytes()
    own = encode_batch([b"a"], headers=[[("name", b"value")]], timestamps=1, base_offset=3)
    assert data == batch(0) + own


def test_offsets_start_where_they_are_told_to(tmp_path: Path) -> None:
    with LogAppender(tmp_path / "log", base_offset=1_000) as log:
        log.append_values([b"a"], timestamps=1)
        log.append(batch(2_000))  # Compaction leaves gaps.
        assert log.next_offset == 2_003
    assert read_header((tmp_path / "log").read_bytes()).base_offset == 1_000


def test_zeros_are_ahead_and_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kib = 1 << 10
    monkeypatch.setattr(append, "ZERO_AHEAD_BYTES_MIN", 64 * kib)
    monkeypatch.setattr(append, "ZERO_AHEAD_BYTES_MAX", 512 * kib)
    monkeypatch.setattr(append, "_CHUNK_BYTES", 48 * kib)
    path = tmp_path / "log"
    ends, sizes = [0], [0]
    with LogAppender(path) as log:
        while log.end < 2048 * kib:
            ends.append(log.append_values([b"\1" * 10 * kib] * 2, timestamps=1))
            sizes.append(path.stat().st_size)
            with path.open("rb") as file:
                file.seek(log.end)
                assert not any(file.read())
        assert path.stat().st_blocks * SECTOR_BYTES >= sizes[-1]  # Real zeros: there is no hole.
    # Written when a batch would not fit: as much as there is then, within the bounds.
    for size, (before, end) in zip(sizes[1:], pairwise(ends), strict=True):
        index = ends.index(end)
        if end <= sizes[index - 1]:
            assert size == sizes[index - 1], before
        else:
            assert size == end + min(max(end, 64 * kib), 512 * kib)
    assert path.stat().st_size == ends[-1]


@pytest.mark.parametrize(
    ("data", "error_class"),
    [
        (batch(0)[:-1], ErrorClass.TRUNCATED),
        (batch(0) + b"\0", ErrorClass.TRUNCATED),
        (batch(0)[:-1] + b"\xff", ErrorClass.CRC_MISMATCH),
        (bytes(100), ErrorClass.BATCH_LENGTH_MISMATCH),
    ],
)
def test_what_recovery_would_cut_is_not_written(
    tmp_path: Path, data: bytes, error_class: ErrorClass
) -> None:
    with LogAppender(tmp_path / "log") as log:
        with pytest.raises(CodecError) as error:
            log.append(data)
        assert error.value.error_class is error_class
        assert log.end == 0
        log.append(batch(0))  # It is as usable as before.
        with pytest.raises(ValueError, match="offsets 2 to 4, where 3 is due"):
            log.append(batch(2))
        with pytest.raises(CodecError):
            log.append_values([1], timestamps=1)
    assert (tmp_path / "log").read_bytes() == batch(0)


def test_misuse_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogAppender(tmp_path / "none" / "log")
    log = LogAppender(tmp_path / "log")
    with pytest.raises(ValueError, match="byte 1 is not written: the log ends at 0"):
        log.sync(1)
    log.close()
    log.close()
    uses: list[Callable[[], int]] = [
        log.sync,
        lambda: log.append(batch(0)),
        lambda: log.append_values([b""], timestamps=1),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_two_appenders_have_not_one_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    code = f"from kraftspec.fastpath.append import LogAppender\nLogAppender({str(path)!r})"
    with LogAppender(path) as log:
        log.append(batch(0))
        with pytest.raises(BlockingIOError, match="open in another appender"):
            LogAppender(path)
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert other.returncode == 1
        assert b"open in another appender" in other.stderr
        log.append(batch(3))
    with LogAppender(path) as log:
        assert log.next_offset == 6


# Recovery.


def test_cut_anywhere_whole_batches_stay(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 3)
    size = len(data) // 3
    path = tmp_path / "log"
    for cut in range(len(data) + 1):
        for tail in (b"", bytes(700)):
            found = found_in(path, data[:cut] + tail)
            end = cut // size * size
            torn = len(data[end:cut].rstrip(b"\0"))
            assert found[:4] == (end, 3 * (cut // size), cut // size, torn)
            assert found.end + found.torn_bytes + found.zero_bytes == cut + len(tail)
            assert bool(found.reason) == bool(torn)
            if cut % 97 == 0:
                with LogAppender(path) as log:
                    assert log.recovery == found
                    assert log.durable_end == end
                    assert path.read_bytes() == data[:end]
                    log.append(batch(log.next_offset))
                assert path.read_bytes() == data[:end] + batch(3 * (cut // size))


def test_behind_a_bad_batch_nothing_stays(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "log", 5))
    size = len(data) // 5
    data[2 * size + 70] ^= 1
    (tmp_path / "log").write_bytes(data)
    with LogAppender(tmp_path / "log") as log:
        end, next_offset, batches, torn, zeros, reason = log.recovery
        assert (end, next_offset, batches) == (2 * size, 6, 2)
        assert (torn, zeros) == (3 * size, 0)
        assert "crc_mismatch" in reason
        log.append(batch(6))


def test_offsets_that_go_back_end_the_log(tmp_path: Path) -> None:
    found = found_in(tmp_path / "log", batch(0) + batch(3) + batch(3))
    assert (found.end, found.next_offset, found.batches) == (2 * len(batch(0)), 6, 2)
    assert "offsets 3 to 5, where 6 is due" in found.reason
    assert found_in(tmp_path / "log", batch(0), 1).batches == 0


def test_batches_of_every_size_are_walked_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that end within, at and after a window of the walk, and that take many."""
    monkeypatch.setattr(append, "_CHUNK_BYTES", 1 << 14)
    frame = len(batch(0, 1, 1 << 13)) - (1 << 13)
    sizes = [8, (1 << 14) - frame, 1 << 14, 24, 10_000, 9_000, 5 << 14, 8, (2 << 14) + 8, 800]
    data = b"".join(batch(number, 1, size) for number, size in enumerate(sizes))
    assert found_in(tmp_path / "log", data)[:3] == (len(data), len(sizes), len(sizes))
    found = found_in(tmp_path / "log", data[:-1] + bytes(3 << 14))
    assert (found.end, found.batches) == (len(data) - len(batch(9, 1, 800)), len(sizes) - 1)
    # A length that lies: the batch would be 2 GiB.
    lying = data + bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\2" + bytes(5 << 14)
    found = found_in(tmp_path / "log", lying)
    assert (found.end, found.torn_bytes, found.zero_bytes) == (len(data), 17, 5 << 14)
    assert f"records at byte {len(data) + 61}" in found.reason


def test_a_power_cut_loses_sectors_not_acknowledged(tmp_path: Path) -> None:
    """Behind the durable end any sector is old (zeros) or new, in any order."""
    rolls = Random(5)
    for _ in range(15):
        path = tmp_path / "log"
        path.unlink(missing_ok=True)
        with LogAppender(path) as log:
            for number in range(rolls.randrange(6)):
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
            said = child.stdout.readline()  # It is under way.
            time.sleep(delay_s)
            child.kill()
            said += child.stdout.read()
        told = [tuple(map(int, line.split())) for line in said.splitlines() if line.count(" ") == 2]
        with LogAppender(path) as log:
            assert log.recovery.end >= max(durable for _, _, durable in told)
            assert log.recovery.zero_bytes > 0  # It had no time to trim.
        numbers: dict[int, list[int]] = {name: [] for name in range(threads)}
        data, at = path.read_bytes(), 0
        while at < len(data):
            records, at = decode_batch(data, at), read_header(data, at).end
            name, number = map(int, bytes(records[0].value or b"").split()[:2])
            assert len(records) == number % 5 + 1
            numbers[name].append(number)
        for name, seen in numbers.items():
            assert seen == list(range(len(seen)))  # In order, and none left out.
            assert len(seen) > max((number for who, number, _ in told if who == name), default=-1)


# Group commit.


class Gate:
    """Stands for the sync of the disk, and lets each through when it is told to."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)
        self.count = 0

    def __call__(self, _descriptor: int) -> None:
        self.count += 1
        self.entered.release()
        assert self.leave.acquire(timeout=10)


def test_what_comes_during_a_sync_shares_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogAppender(tmp_path / "log")
    gate = Gate()
    monkeypatch.setattr(append, "_sync_data", gate)
    done: list[tuple[int, int]] = []

    def commit() -> None:
        end = log.append_values([b"value"], timestamps=1)
        done.append((end, log.sync(end)))

    first = threading.Thread(target=commit)
    first.start()
    assert gate.entered.acquire(timeout=10)
    size = log.end
    others = [threading.Thread(target=commit) for _ in range(10)]
    for thread in others:
        thread.start()
    while log.end < 11 * size:
        time.sleep(0.001)
    assert (log.durable_end, done) == (0, [])  # Written, and nobody is told it is durable.
    gate.leave.release()
    assert gate.entered.acquire(timeout=10)
    first.join(10)
    assert done == [(size, size)]
    assert log.durable_end == size  # The sync under way covers no more than it began with.
    gate.leave.release()
    for thread in others:
        thread.join(10)
    assert gate.count == 2
    assert sorted(end for end, _ in done) == [size * number for number in range(1, 12)]
    assert {durable for _, durable in done[1:]} == {11 * size}
    monkeypatch.undo()
    log.close()


def test_threads_share_syncs_of_a_real_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    real = append._sync_data

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        real(descriptor)
        time.sleep(0.001)  # However fast the disk is, others come meanwhile.

    path = tmp_path / "log"
    log = LogAppender(path)
    monkeypatch.setattr(append, "_sync_data", counted)

    def run(name: int) -> None:
        for number in range(40):
            end = log.append_values([b"%d %d" % (name, number)], timestamps=1)
            assert log.sync(end) >= end

    threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert syncs < 8 * 40 / 2
    assert log.durable_end == log.end
    log.close()
    with LogAppender(path) as log:
        assert log.recovery[:3] == (log.end, 8 * 40, 8 * 40)  # No offset twice, and no gap.
    assert [record.offset for record in iterate_records(path.read_bytes())] == list(range(320))
    seen = [tuple(map(int, bytes(value or b"").split())) for value in values_of(path)]
    assert sorted(seen) == [(name, number) for name in range(8) for number in range(40)]
    for name in range(8):
        assert [number for who, number in seen if who == name] == list(range(40))


def test_close_waits_for_a_sync_and_covers_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogAppender(tmp_path / "log")
    gate = Gate()
    monkeypatch.setattr(append, "_sync_data", gate)
    log.append(batch(0))
    syncing = threading.Thread(target=log.sync)
    syncing.start()
    assert gate.entered.acquire(timeout=10)
    end = log.append(batch(3))
    closing = threading.Thread(target=log.close)
    closing.start()
    time.sleep(0.01)
    assert closing.is_alive()
    gate.leave.release(2)
    syncing.join(10)
    closing.join(10)
    assert log.durable_end == end
    assert (tmp_path / "log").read_bytes() == batch(0) + batch(3)


# The disk fails.


def unusable(log: LogAppender, code: int) -> None:
    uses: list[Callable[[], int]] = [log.sync, lambda: log.append(batch(900))]
    for use in uses:
        with pytest.raises(AppendFailedError) as error:
            use()
        assert error.value.errno == code


def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    log = LogAppender(path)
    durable = log.sync(log.append(batch(0)))
    calls = []

    def failing(descriptor: int) -> None:
        calls.append(descriptor)
        time.sleep(0.05)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(append, "_sync_data", failing)
    log.append(batch(3))
    errors: list[BaseException] = []

    def sync() -> None:
        try:
            log.sync()
        except AppendFailedError as error:
            errors.append(error)

    threads = [threading.Thread(target=sync) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 4
    assert "bytes are durable, what follows is not acknowledged" in str(errors[0])
    assert log.durable_end == durable
    monkeypatch.undo()  # The disk would do its work again, and is not asked.
    unusable(log, errno.EIO)
    assert len(calls) == 1
    assert log.sync(durable) == durable  # What was acknowledged stays so.
    log.close()
    assert path.stat().st_size > log.end  # Left as it is.
    with LogAppender(path) as log:
        assert log.recovery.end >= durable


def test_interrupted_in_a_write_it_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogAppender(tmp_path / "log")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(append, "_write_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(batch(0))
    unusable(log, errno.EIO)
    log.close()


def test_a_write_that_is_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite

    def short(descriptor: int, data: memoryview, position: int) -> int:
        return real(
            descriptor, data[: random.randrange(1, 50)] if len(data) < 9999 else data, position
        )

    path = tmp_path / "log"
    with LogAppender(path) as log:
        monkeypatch.setattr(os, "pwrite", short)
        for number in range(10):
            log.append(batch(3 * number))
        monkeypatch.undo()
    assert path.read_bytes() == b"".join(batch(3 * number) for number in range(10))


def test_a_device_that_is_full() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    log = LogAppender("/dev/full")
    with pytest.raises(AppendFailedError) as error:
        log.append(batch(0))
    assert error.value.errno == errno.ENOSPC
    assert (log.end, log.durable_end) == (0, 0)
    unusable(log, errno.ENOSPC)
    log.close()


# Fills what it may write, and prints what was acknowledged and what then happened.
FILLING = """
import sys
from kraftspec.fastpath.append import AppendFailedError, LogAppender

log = LogAppender(sys.argv[1])
try:
    while True:
        log.sync(log.append_values([bytes(range(1, 251)) * 4] * 20, timestamps=1))
except AppendFailedError as error:
    print(error.errno, log.durable_end)
log.close()
"""


def filled(path: Path, limit: Callable[[], None] | None = None) -> tuple[int, int]:
    command = [sys.executable, "-c", FILLING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=limit)
    code, durable = map(int, done.stdout.split())
    with LogAppender(path) as log:
        assert log.recovery.end >= durable
        assert log.recovery.batches * 20 == log.next_offset
    values = values_of(path)
    assert set(values) == {bytes(range(1, 251)) * 4}
    return code, durable


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))

    code, durable = filled(tmp_path / "log", limit)
    assert code == errno.EFBIG
    assert durable > 1 << 20


def mounted(directory: Path, *command: str) -> Iterator[Path]:
    done = subprocess.run(["mount", *command, str(directory)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"may not mount a file system here: {done.stderr.decode().strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    yield from mounted(directory, "-t", "tmpfs", "-o", "size=8m", "tmpfs")


def test_a_disk_that_is_full(small_disk: Path) -> None:
    code, durable = filled(small_disk / "log")
    assert code == errno.ENOSPC
    assert durable > 2 << 20


@pytest.fixture
def broken_disk(small_disk: Path, tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 64 MiB whose disk has 8: writes go to the cache, and syncs begin to fail."""
    image = small_disk / "image"
    with image.open("wb") as file:
        file.truncate(LOOP_MIB << 20)
    # No journal: it would stop the whole file system before the data of a file fails.
    make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)]
    try:
        subprocess.run(make, check=True)
    except FileNotFoundError:
        pytest.skip("there is no mkfs.ext4 here")
    directory = tmp_path / "broken"
    directory.mkdir()
    yield from mounted(directory, "-o", "loop,errors=continue", str(image))


def test_a_disk_whose_sync_fails(broken_disk: Path) -> None:
    command = [sys.executable, "-c", FILLING, str(broken_disk / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, durable = map(int, done.stdout.split())
    assert code in (errno.EIO, errno.ENOSPC)
    assert durable > 1 << 20
    # Recovery reads the disk and not the cache, where the lost pages still are.
    with (broken_disk / "log").open("rb") as file:
        assert find_end(file.fileno()).end >= durable
