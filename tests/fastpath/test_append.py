"""The append: what is acknowledged is durable; threads share syncs; the disk fails."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from kraftspec.fastpath import append
from kraftspec.fastpath.append import Appended, AppendFailedError, LogAppender
from kraftspec.fastpath.batch_reader import iterate_records, read_header
from kraftspec.fastpath.batch_writer import encode_batch, encode_control_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.recovery import SECTOR_BYTES, Recovery, find_end
from kraftspec.fastpath.walk import read_file

from .logs import batch, values_of

LOOP_MIB = 64


# What is written.


def test_a_log_is_its_batches_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogAppender(path) as log:
        assert log.recovery == Recovery(0, 0, 0, 0, 0, "")
        appended = log.append(batch(0) + batch(3))
        first = appended.end
        assert appended == Appended(0, 2 * len(batch(0)))
        assert (log.end, log.durable_end, log.next_offset) == (first, 0, 6)
        assert path.read_bytes()[:first] == batch(0) + batch(3)  # A reader sees it already.
        assert log.sync(first) == first == log.durable_end
        appended = log.append_values([b"a", b"b"], timestamps=7, partition_leader_epoch=4)
        last = appended.end
        assert (appended.base_offset, log.next_offset) == (6, 8)
        assert log.append(b"") == (8, last) == log.append_values([], timestamps=7)
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
        assert log.append_values([b"a"], timestamps=1).base_offset == 1_000
        assert log.append(batch(2_000) + batch(3_000)).base_offset == 2_000  # Gaps may be.
        assert log.next_offset == 3_003
    data = (tmp_path / "log").read_bytes()
    assert read_header(data).base_offset == 1_000
    for base_offset in (None, 0, 1_000):
        with LogAppender(tmp_path / "log", base_offset=base_offset) as log:
            assert (log.recovery.base_offset, log.next_offset) == (1_000, 3_003)
    for base_offset in (1_001, 2_000, 3_003, 1 << 62):
        with pytest.raises(
            ValueError, match=f"starts at offset 1000, base_offset is {base_offset}"
        ):
            LogAppender(tmp_path / "log", base_offset=base_offset)
    assert (tmp_path / "log").read_bytes() == data
    for base_offset in (-1, 1 << 63):
        with pytest.raises(ValueError, match=f"base_offset {base_offset} is no offset"):
            LogAppender(tmp_path / "none", base_offset=base_offset)
    with pytest.raises(TypeError, match="integer"):
        LogAppender(tmp_path / "none", base_offset=1.5)  # type: ignore[arg-type]  # it is wrong
    assert not (tmp_path / "none").exists()


def test_control_records_join(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogAppender(path) as log:
        log.append(batch(0))
        appended = log.append_control(2, b"value", timestamp=7, partition_leader_epoch=4)
        assert (appended.base_offset, log.next_offset, log.end) == (3, 4, appended.end)
        log.sync(appended)
        with pytest.raises(CodecError):
            log.append_control(1 << 15, b"", timestamp=7)
        with pytest.raises(TypeError, match="base_offset"):
            log.append_control(2, b"", timestamp=7, base_offset=9)
    own = encode_control_batch(2, b"value", timestamp=7, partition_leader_epoch=4, base_offset=3)
    assert path.read_bytes() == batch(0) + own


def test_threads_know_which_offsets_are_theirs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    own: dict[int, bytes] = {}

    def run(name: int) -> None:
        for number in range(30):
            value = b"%d %d" % (name, number)
            if number % 3:
                appended = log.append_values([value, value], timestamps=1)
                own[appended.base_offset] = own[appended.base_offset + 1] = value
            else:
                own[log.append_control(2, value, timestamp=1).base_offset] = value

    with LogAppender(path) as log:
        threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = list(iterate_records(path.read_bytes()))
    assert {record.offset: record.value for record in records} == own
    assert sorted(own) == list(range(8 * 50))


def test_zeros_are_ahead_and_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kib = 1 << 10
    monkeypatch.setattr(append, "ZERO_AHEAD_BYTES_MAX", 128 * kib)
    path = tmp_path / "log"
    ends, sizes = [0], [0]
    with LogAppender(path) as log:
        while log.end < 2048 * kib:
            ends.append(log.append_values([b"\1" * 10 * kib] * 2, timestamps=1).end)
            sizes.append(path.stat().st_size)
            with path.open("rb") as file:
                file.seek(log.end)
                assert not any(file.read())
        assert path.stat().st_blocks * SECTOR_BYTES >= sizes[-1]  # Real zeros: there is no hole.
    # Written when a batch would not fit.
    for size, (before, end) in zip(sizes[1:], pairwise(ends), strict=True):
        index = ends.index(end)
        if end <= sizes[index - 1]:
            assert size == sizes[index - 1], before
        else:
            assert size == end + 128 * kib
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
    with pytest.raises(ValueError, match="byte -5 is not written"):
        log.sync(-5)
    for wrong in (1.5, "1", b"", (0, 0)):
        with pytest.raises(TypeError, match="integer"):
            log.sync(wrong)  # type: ignore[arg-type]  # they are
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="is not copied or pickled"):
            duplicate(log)
    log.close()
    log.close()
    uses: list[Callable[[], object]] = [
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


# A child that goes on with its parent's log, and then ends as a process does, or as a fork may.
FORKED = """
import os, sys, threading
from kraftspec.fastpath.append import LogAppender

path = sys.argv[1]
log = LogAppender(path)
log.append_values([b"parent"], timestamps=1)
held, forked = threading.Event(), threading.Event()

def hold():
    with log._lock:
        held.set()
        forked.wait()

other = threading.Thread(target=hold)  # It has the lock at the fork, and is not in the child.
other.start()
held.wait()
ours, theirs = os.pipe()
child = os.fork()
if child == 0:
    os.close(theirs)
    uses = [
        log.sync,
        lambda: log.append(b""),
        lambda: log.append_values([b"child"], timestamps=1),
        lambda: log.append_control(2, b"child", timestamp=1),
    ]
    for use in uses:
        try:
            use()
        except RuntimeError as error:
            print(error, flush=True)
    os.read(ours, 1)
    log.close()
    os._exit(0)
forked.set()
other.join()
os.close(ours)
log.append_values([b"after the fork"], timestamps=1)
log.close()
log = LogAppender(path)  # The child has the file still.
log.append_values([b"again"], timestamps=1)
os.write(theirs, b"1")
assert os.waitpid(child, 0)[1] == 0
log.sync()
log.close()
"""


def test_a_fork_leaves_the_log_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "log"
    command = [sys.executable, "-c", FORKED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    output = done.stdout.splitlines()
    assert len(output) == 4
    assert all("is that of process" in line and "this is a fork" in line for line in output)
    assert values_of(path) == [b"parent", b"after the fork", b"again"]


def test_so_much_is_never_left_unsynced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "UNSYNCED_BYTES_MAX", 1 << 14)
    with LogAppender(tmp_path / "log") as log:
        for number in range(900):
            log.append(batch(3 * number))
            assert log.end - log.durable_end <= 1 << 14
        assert log.durable_end > 0
        durable = log.durable_end
        appended = log.append_values([bytes(1 << 15)], timestamps=1)  # One may be more.
        assert durable < log.durable_end < appended.end
        assert log.sync(appended) == appended.end

        def failing() -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(log.file, "sync", failing)
        log.append(batch(log.next_offset))
        with pytest.raises(AppendFailedError):
            log.append_values([bytes(1 << 15)], timestamps=1)
        assert log.durable_end == appended.end


# Group commit.


class Gate:
    """Replaces the sync of the disk; the test releases each call."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.entered.release()
        assert self.leave.acquire(timeout=60)


@pytest.mark.once
def test_what_comes_during_a_sync_shares_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogAppender(tmp_path / "log")
    gate = Gate()
    monkeypatch.setattr(log.file, "sync", gate)
    done: list[tuple[int, int]] = []

    def commit() -> None:
        appended = log.append_values([b"value"], timestamps=1)
        done.append((appended.end, log.sync(appended)))

    first = threading.Thread(target=commit)
    first.start()
    assert gate.entered.acquire(timeout=60)
    size = log.end
    others = [threading.Thread(target=commit) for _ in range(10)]
    for thread in others:
        thread.start()
    while log.end < 11 * size:
        time.sleep(0.001)
    assert (log.durable_end, done) == (0, [])  # Written, and not reported as durable.
    gate.leave.release()
    assert gate.entered.acquire(timeout=60)
    first.join(60)
    assert done == [(size, size)]
    assert log.durable_end == size  # The sync under way covers no more than it began with.
    gate.leave.release()
    for thread in others:
        thread.join(60)
    assert gate.count == 2
    assert sorted(end for end, _ in done) == [size * number for number in range(1, 12)]
    assert {durable for _, durable in done[1:]} == {11 * size}
    monkeypatch.undo()
    log.close()


def test_threads_share_syncs_of_a_real_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0

    def counted() -> None:
        nonlocal syncs
        syncs += 1
        real()
        time.sleep(0.01)  # However fast the disk is, others come meanwhile.

    path = tmp_path / "log"
    log = LogAppender(path)
    real = log.file.sync
    monkeypatch.setattr(log.file, "sync", counted)

    def run(name: int) -> None:
        for number in range(40):
            appended = log.append_values([b"%d %d" % (name, number)], timestamps=1)
            assert log.sync(appended) >= appended.end

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
    monkeypatch.setattr(log.file, "sync", gate)
    log.append(batch(0))
    syncing = threading.Thread(target=log.sync)
    syncing.start()
    assert gate.entered.acquire(timeout=60)
    end = log.append(batch(3)).end
    closing = threading.Thread(target=log.close)
    closing.start()
    time.sleep(0.01)
    assert closing.is_alive()
    gate.leave.release(2)
    syncing.join(60)
    closing.join(60)
    assert log.durable_end == end
    assert (tmp_path / "log").read_bytes() == batch(0) + batch(3)


# The disk fails.


def unusable(log: LogAppender, code: int) -> None:
    uses: list[Callable[[], object]] = [log.sync, lambda: log.append(batch(900))]
    for use in uses:
        with pytest.raises(AppendFailedError) as error:
            use()
        assert error.value.errno == code


def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    log = LogAppender(path)
    durable = log.sync(log.append(batch(log.next_offset)))
    calls = []

    def failing() -> None:
        calls.append(log.end)
        time.sleep(0.05)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log.file, "sync", failing)
    log.append(batch(log.next_offset))
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
        thread.join(60)
    assert len(errors) == 4
    assert "bytes are durable, what follows is not acknowledged" in str(errors[0])
    assert log.durable_end == durable
    monkeypatch.undo()  # The disk would work again, but no sync is called.
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
        patch.setattr(log.file, "write_at", interrupted)
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
    path = broken_disk / "log"
    with path.open("rb") as file:
        assert find_end(partial(read_file, file.fileno()), path.stat().st_size).end >= durable
