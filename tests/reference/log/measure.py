"""What the log costs: ``python -m tests.reference.log.measure [DIRECTORY]``. No test runs this.

Ratios are of loops in one process, turn about; DIRECTORY is on the disk to measure.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kraftspec.fastpath import encode_batch
from kraftspec.reference.log import LocalFiles, LogConfig, MetadataLog
from kraftspec.reference.log.memory_files import MemoryFiles

VALUES = [bytes(range(100))] * 100
BATCHES_A_FLUSH = 4
ROUNDS = 300
NODES = 3


def in_memory() -> None:
    """An append and its flush, on a disk in memory."""
    for count in (1, 10, 100):
        times = []
        for _ in range(7):
            config = LogConfig(segment_bytes=1 << 20, zero_ahead_bytes=4096)
            log = MetadataLog.open("/log", MemoryFiles(), config)
            start = time.perf_counter()
            for number in range(1000):
                log.append_records(1, VALUES[:count], number)
                log.flush()
            times.append((time.perf_counter() - start) / 1000)
        print(f"in memory, append of {count} records and flush: {min(times) * 1e6:.1f} us")


def bare(directory: Path, *, at_once: bool) -> float:
    """Write the same bytes to three files, one fdatasync each a group; records a second."""
    data = BATCHES_A_FLUSH * encode_batch(VALUES, timestamps=1, partition_leader_epoch=1)
    files = [os.open(directory / str(node), os.O_RDWR | os.O_CREAT) for node in range(NODES)]
    with ThreadPoolExecutor(NODES) as pool:
        start = time.perf_counter()
        for number in range(ROUNDS):
            for file in files:
                os.pwrite(file, data, number * len(data))
            list((pool.map if at_once else map)(os.fdatasync, files))
        taken = time.perf_counter() - start
    for file in files:
        os.close(file)
    return ROUNDS * BATCHES_A_FLUSH * len(VALUES) / taken


def ours(directory: Path, *, at_once: bool) -> float:
    """Append to a leader's log and, its bytes checked, to two followers'; records a second."""
    logs = [MetadataLog.open(str(directory / str(node)), LocalFiles()) for node in range(NODES)]
    with ThreadPoolExecutor(NODES) as pool:
        start = time.perf_counter()
        for _ in range(ROUNDS):
            for _ in range(BATCHES_A_FLUSH):
                appended = logs[0].append_records(1, VALUES, 1)
                for log in logs[1:]:
                    log.append_batches(appended.data)
            list((pool.map if at_once else map)(MetadataLog.flush, logs))
        taken = time.perf_counter() - start
    for log in logs:
        log.close()
    return ROUNDS * BATCHES_A_FLUSH * len(VALUES) / taken


def on_disk(directory: Path) -> None:
    """Three logs beside three bare files."""
    for at_once in (False, True):
        ratios = []
        for _ in range(7):
            rates = []
            for run in (bare, ours):
                work = Path(tempfile.mkdtemp(dir=directory))
                rates.append(run(work, at_once=at_once))
                shutil.rmtree(work)
            ratios.append(rates[1] / rates[0])
        how = "at once" if at_once else "in turn"
        print(
            f"on disk, {NODES} files synced {how}: {rates[1]:,.0f} records/s, "
            f"{statistics.median(ratios):.2f} x bare ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def recovery(directory: Path, size: int = 256 << 20) -> None:
    """Open a log of ``size`` bytes, of batches of 100 records and of one."""
    for count in (100, 1):
        work = Path(tempfile.mkdtemp(dir=directory))
        config = LogConfig(segment_bytes=64 << 20)
        log = MetadataLog.open(str(work), LocalFiles(), config)
        while log.size_bytes < (size if count > 1 else size // 8):
            log.append_records(1, VALUES[:count], 1)
        log.close()
        start = time.perf_counter()
        log = MetadataLog.open(str(work), LocalFiles(), config)
        taken = time.perf_counter() - start
        print(
            f"recovery, batches of {count}: {log.size_bytes / taken / 1e6:,.0f} MB/s, "
            f"{log.recovery.batches / taken:,.0f} batches/s"
        )
        log.close()
        shutil.rmtree(work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as root:
        in_memory()
        on_disk(Path(root))
        recovery(Path(root))
