"""A flush, and what is appended beside it."""

from __future__ import annotations

import threading
from copy import deepcopy
from random import Random

import pytest

from kraftspec.reference.log import LocalFiles, LogConfig, MetadataLog
from kraftspec.reference.log.files import read_whole, replace_whole
from kraftspec.reference.log.memory_files import MemoryFiles

DIR = "/log"


def open_log(files: MemoryFiles, **config: int) -> MetadataLog:
    return MetadataLog.open(DIR, files, LogConfig(zero_ahead_bytes=0, **config))


def test_a_flush_counts_what_was_there_when_it_began() -> None:
    """What is appended while the disk syncs waits for the next flush, on the disk, too."""
    files = MemoryFiles()
    log = open_log(files)
    files.sync_directory("/")
    log.append_records(1, [b"before"], 1)
    files.begin_sync(f"{DIR}/{log.segment_offsets[-1]:020d}.log")

    def meanwhile(operation: str, path: str, _: int) -> None:
        if operation == "sync":
            files.hook = None
            log.append_records(1, [b"during"], 2)

    files.hook = meanwhile
    assert log.flush() == log.flushed_offset == 1
    assert log.end_offset == 2
    kept = set()
    for seed in range(20):
        copy = deepcopy(files)
        copy.power_loss(Random(seed))
        kept.add(open_log(copy).end_offset)
    assert kept == {1, 2}
    assert log.flush() == log.flushed_offset == 2
    files.power_loss(Random(0))
    assert open_log(files).end_offset == 2


@pytest.mark.parametrize("seed", range(10))
def test_what_a_killed_process_left_is_durable_once_it_is_open_again(seed: int) -> None:
    files = MemoryFiles()
    open_log(files).close()
    files.sync_directory("/")

    def kill(operation: str, _: str, __: int) -> None:
        if operation == "sync_directory":
            raise KeyboardInterrupt

    files.hook = kill
    with pytest.raises(KeyboardInterrupt):
        replace_whole(files, DIR, "quorum-state", b"a vote")
    files.hook = None
    log = open_log(files, segment_bytes=200)
    log.append_records(1, [bytes(50)], 1)
    files.hook = kill
    with pytest.raises(KeyboardInterrupt):
        log.append_records(1, [bytes(50)], 2)  # In a new segment.
    files.hook = None
    log = open_log(files)
    end_offset = log.append_records(1, [b"acknowledged"], 9).end_offset
    assert log.flush() == end_offset
    files.power_loss(Random(seed))
    assert open_log(files).end_offset == end_offset
    assert read_whole(files, f"{DIR}/quorum-state") == b"a vote"


def test_appends_go_on_beside_a_flush(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("log"))
    log = MetadataLog.open(path, LocalFiles(), LogConfig(segment_bytes=100_000))
    is_done = threading.Event()
    flushed: list[int] = []

    def flush() -> None:
        while not is_done.is_set():
            before = log.end_offset
            flushed.append(log.flush())
            assert flushed[-1] >= before

    thread = threading.Thread(target=flush)
    thread.start()
    for number in range(3000):
        log.append_records(1, [b"x" * 60] * 3, number)
    is_done.set()
    thread.join()
    assert flushed == sorted(flushed)
    assert log.flush() == 9000
    log.close()
    again = MetadataLog.open(path, LocalFiles())
    assert (again.end_offset, again.recovery.torn_bytes) == (9000, 0)
    assert len(again.segment_offsets) > 5
    again.close()
