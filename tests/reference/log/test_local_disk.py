"""The log on a real disk: one that is full, a process that is killed, locks, syncs."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftspec.fastpath import iterate_records
from kraftspec.fastpath.append import ZERO_AHEAD_BYTES_MAX
from kraftspec.fastpath.files import LocalFile
from kraftspec.reference.log import (
    LocalFiles,
    LogConfig,
    LogDirectory,
    LogFailedError,
    MetadataLog,
    MetaProperties,
)
from kraftspec.reference.log.recovery import recover

VALUE = bytes(range(1, 251)) * 4
# Fills what it may write, and prints what was acknowledged and what then happened.
FILLING = """
import sys
from kraftspec.reference.log import LocalFiles, LogConfig, LogFailedError, MetadataLog

log = MetadataLog.open(sys.argv[1], LocalFiles(), LogConfig(segment_bytes=int(sys.argv[2])))
flushed = 0
try:
    while True:
        log.append_records(1, [bytes(range(1, 251)) * 4] * 20, 1)
        flushed = log.flush()
        print(flushed, flush=True)
except LogFailedError as error:
    assert log.flushed_offset == flushed
    print("failed", error.errno)
log.close()
"""


def check(path: Path, flushed: int) -> None:
    log = MetadataLog.open(str(path), LocalFiles())
    assert log.end_offset >= flushed
    offset = 0
    while offset < log.end_offset:
        values = [record.value for record in iterate_records(log.read(offset, 1 << 20))]
        assert set(values) == {VALUE}
        offset += len(values)
    log.close()


def filled(
    path: Path, segment_bytes: int = 1 << 20, limit: Callable[[], None] | None = None
) -> tuple[int, int]:
    """Fill a log until the disk fails; return the error's number and the last acknowledged."""
    command = [sys.executable, "-c", FILLING, str(path), str(segment_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=limit)
    *flushed, failed = done.stdout.splitlines()
    assert failed.startswith("failed ")
    return int(failed.split()[1]), int(flushed[-1])


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))

    number, flushed = filled(tmp_path / "log", 64 << 20, limit)
    assert number == errno.EFBIG
    assert flushed * len(VALUE) > 1 << 20
    check(tmp_path / "log", flushed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"may not mount a file system here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    number, flushed = filled(small_disk / "log")
    assert number == errno.ENOSPC
    assert flushed * len(VALUE) > 4 << 20
    log = small_disk / "log"
    last = max(log.glob("*.log"))
    with last.open("r+b") as file:  # Make room, as an operator would elsewhere.
        file.truncate(file.seek(0, os.SEEK_END) - 1)
    check(log, flushed - 20)


def test_sigkill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILLING, str(tmp_path / "log"), str(1 << 20)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(60)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    flushed = int([line for line in lines if line.endswith("\n")][-1])
    assert flushed >= 1200
    check(tmp_path / "log", flushed)


def test_short_writes_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda to, data, at: pwrite(to, bytes(data)[:777], at))
    monkeypatch.setattr(os, "pread", lambda of, size, at: pread(of, min(size, 555), at))
    log = MetadataLog.open(str(tmp_path), LocalFiles(), LogConfig(zero_ahead_bytes=0))
    appended = log.append_records(1, [VALUE] * 5, 1)
    assert log.read(0, 1 << 20) == appended.data
    log.close()
    monkeypatch.undo()
    assert (tmp_path / f"{0:020d}.log").read_bytes() == appended.data


def test_a_sync_is_of_the_data_and_after_a_cut_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def spy(name: str, real: Callable[[int], None]) -> None:
        def called(descriptor: int) -> None:
            calls.append(name)
            real(descriptor)

        monkeypatch.setattr(os, name, called)

    spy("fdatasync", os.fdatasync)
    spy("fsync", os.fsync)
    log = MetadataLog.open(str(tmp_path), LocalFiles())
    calls.clear()
    for _ in range(3):
        log.append_records(0, [b"x"], 1)
    log.flush()
    log.flush()
    epochs, flushes = calls[:-1], calls[-1:]
    assert flushes == ["fdatasync"]  # One for all three, and none for nothing.
    assert len(epochs) == 2  # The leader-epoch-checkpoint: the file, and the directory.
    log.truncate_to(1)
    assert "fsync" in calls[3:]
    log.close()


def test_zeros_are_written_ahead_and_cut_at_the_end(tmp_path: Path) -> None:
    log = MetadataLog.open(str(tmp_path), LocalFiles())
    data = log.append_records(1, [VALUE], 1).data
    path = tmp_path / f"{0:020d}.log"
    size = path.stat().st_size
    assert size == len(data) + ZERO_AHEAD_BYTES_MAX
    assert path.read_bytes() == bytes(data) + bytes(size - len(data))
    assert path.stat().st_blocks * 512 >= size  # Really written, not a hole.
    log.append_records(1, [VALUE], 1)
    assert path.stat().st_size == size
    log.close()
    assert path.stat().st_size == 2 * len(data)


def test_zeros_end_with_the_segment(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=10_000)
    log = MetadataLog.open(str(tmp_path), LocalFiles(), config)
    log.append_records(1, [VALUE], 1)
    assert (tmp_path / f"{0:020d}.log").stat().st_size == 10_000
    log.close()


def formatted(path: Path) -> str:
    LogDirectory.format(str(path), MetaProperties(cluster_id="c", node_id=1))
    return str(path)


def test_a_directory_is_open_once_in_a_process(tmp_path: Path) -> None:
    path = formatted(tmp_path / "data")
    with LogDirectory.open(path):
        for _ in range(2):  # The refusal lets no lock go.
            with pytest.raises(BlockingIOError, match="stop it first"):
                LogDirectory.open(path)
    with LogDirectory.open(path):
        pass


HOLDING = """
import sys
from kraftspec.reference.log import LogDirectory

with LogDirectory.open(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_directory_is_open_in_one_process(tmp_path: Path) -> None:
    path = formatted(tmp_path / "data")
    command = [sys.executable, "-c", HOLDING, path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(  # type: ignore[call-overload] # Pipes.
        command, text=True, **pipes
    ) as first:
        assert first.stdout.readline() == "open\n"
        with pytest.raises(BlockingIOError):
            LogDirectory.open(path)
        second = subprocess.run(command, input="", capture_output=True, text=True, check=False)
        assert second.returncode != 0
        assert "BlockingIOError" in second.stderr
        first.kill()
        first.wait()
    with LogDirectory.open(path):  # The lock went with its process.
        pass


def test_a_sealed_segment_is_whole_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power loss could leave a zero tail amid the log, and Kafka drop what follows."""
    calls: list[tuple[str, str]] = []

    def spy(name: str) -> None:
        real = getattr(LocalFile, name)

        def called(self: LocalFile, *arguments: object) -> object:
            where = os.readlink(f"/proc/self/fd/{self.descriptor}")
            calls.append((name, Path(where).name))
            return real(self, *arguments)

        monkeypatch.setattr(LocalFile, name, called)

    for name in ("write_at", "truncate", "sync"):
        spy(name)
    log = MetadataLog.open(str(tmp_path), LocalFiles(), LogConfig(segment_bytes=3000))
    while len(log.segment_offsets) < 2:
        log.append_records(1, [VALUE], 1)
    first, second = f"{0:020d}.log", f"{log.segment_offsets[1]:020d}.log"
    begins = calls.index(("write_at", second))
    of_first = [call for call, name in calls[:begins] if name == first]
    assert of_first[-2:] == ["truncate", "sync"]
    assert (tmp_path / first).stat().st_size < 3000
    log.close()


def test_a_failed_log_leaves_the_files_to_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MetadataLog.open(str(tmp_path), LocalFiles())
    log.append_records(1, [VALUE], 1)
    log.flush()

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the disk says no")

    monkeypatch.setattr(os, "fdatasync", fail)
    log.append_records(1, [VALUE], 1)
    with pytest.raises(LogFailedError, match="what is before offset 1 is durable"):
        log.flush()
    monkeypatch.undo()
    log.close()
    assert (tmp_path / f"{0:020d}.log").stat().st_size > ZERO_AHEAD_BYTES_MAX
    files = LocalFiles()
    recovered = recover(files, str(tmp_path), files.names(str(tmp_path)), 4096)
    assert recovered.report.zero_bytes > 0
    for segment in recovered.segments:
        segment.file.close()
