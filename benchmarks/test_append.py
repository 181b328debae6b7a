"""Encode, write and sync, beside a plain write and fsync of the same bytes to a growing file.

The contestants take turns, round by round. Zeros written ahead are in the rounds they fall in: they
show in the mean, and hardly in the median.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftspec.fastpath.append import LogAppender
from kraftspec.fastpath.batch_writer import encode_batch

from .turns import by_turns, directory_on_disk, report_times

OURS, PEER = "kraftspec", "write + fsync"
TIMESTAMP_MS = 1_700_000_000_000
VALUE = bytes(range(100))
ROUNDS = {1: 600, 100: 600, 1_000: 400}
COMMITS = 256  # Of a group-commit round, over all threads.
GROUP_ROUNDS = 20

Contestants = dict[str, Callable[[], object]]


class Growing:
    """A file that grows by each write, synced each time; threads wait for one another."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb", buffering=0)
        self.lock = threading.Lock()

    def __enter__(self) -> Growing:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def commit(self, data: bytes) -> None:
        """Write and sync."""
        with self.lock:
            self.file.write(data)
            os.fsync(self.file.fileno())


pytestmark = by_turns


@cache
def race(what: str, number: int, rounds: int) -> dict[str, list[float]]:
    """Let both take turns at ``MEASURED[what](number)``; return the seconds of each round."""
    with ExitStack() as stack:
        directory = stack.enter_context(directory_on_disk())
        log = stack.enter_context(LogAppender(directory / "log"))
        growing = stack.enter_context(Growing(directory / "growing"))
        contestants = MEASURED[what](log, growing, number)
        times: dict[str, list[float]] = {who: [] for who in contestants}
        for _ in range(rounds):
            for who, commit in contestants.items():
                start = time.perf_counter()
                commit()
                times[who].append(time.perf_counter() - start)
        assert log.durable_end == growing.file.tell()
    return times


def one_batch(log: LogAppender, growing: Growing, count: int) -> Contestants:
    """Make a batch of ``count`` records durable. The peer has its bytes already."""
    values = [VALUE] * count
    same = encode_batch(values, timestamps=TIMESTAMP_MS)
    return {
        OURS: lambda: log.sync(log.append_values(values, timestamps=TIMESTAMP_MS)),
        PEER: lambda: growing.commit(same),
    }


def group_commit(log: LogAppender, growing: Growing, threads: int) -> Contestants:
    """Make 256 batches of 100 durable, each before its thread makes the next."""

    def together(commit: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(COMMITS // threads):
                commit()

        def all_of_them() -> None:
            everyone = [threading.Thread(target=run) for _ in range(threads)]
            for thread in everyone:
                thread.start()
            for thread in everyone:
                thread.join()

        return all_of_them

    contestants = one_batch(log, growing, 100)
    return {who: together(commit) for who, commit in contestants.items()}


MEASURED = {"one batch": one_batch, "group commit": group_commit}


@pytest.mark.parametrize("who", [OURS, PEER])
@pytest.mark.parametrize("count", ROUNDS)
def test_append(benchmark: Any, count: int, who: str) -> None:
    """A batch of records of 100 bytes, durable."""
    benchmark.group = f"append {count}"
    times = race("one batch", count, ROUNDS[count] if benchmark.enabled else 1)
    report_times(benchmark, who, times[who], records=count)


@pytest.mark.parametrize("who", [OURS, PEER])
@pytest.mark.parametrize("threads", [1, 4, 16])
def test_group_commit(benchmark: Any, threads: int, who: str) -> None:
    """Batches of 100 from threads that each wait until theirs is durable."""
    benchmark.group = f"append 100, {threads} threads"
    times = race("group commit", threads, GROUP_ROUNDS if benchmark.enabled else 1)
    report_times(benchmark, who, times[who], records=100 * COMMITS, threads=threads)
