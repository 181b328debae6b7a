"""Append to a quorum of three, beside a loop that writes the same bytes to three files.

A round is some batches of records of 100 bytes, some of them on their way at any time, until all
are acknowledged and all three logs are durable. The loop then writes what the three logs got, byte
for byte, with one fdatasync where each log had one. It has the bytes already, and three ways:

* ``write + fdatasync``: three files that grow, one after another;
* ``at once``: the same by a thread a file, which wait for nothing;
* ``at once, in place``: these over zeros that are there before: no program can be faster that syncs
  as often.

In the end the three logs are opened anew and compared, and every acknowledged record is looked up.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log import LocalFiles, MetadataLog
from kraftspec.reference.log.directory import METADATA_NAME

from .quorum import BATCHES, Quorum, Records, batches_of
from .turns import by_turns, directory_on_disk, report_times

OURS = "kraftspec"
IN_TURN, AT_ONCE, IN_PLACE = "write + fdatasync", "at once", "at once, in place"
IN_FLIGHT = 8  # Batches.
ROUNDS = 15
READ_BYTES = 1 << 30

Groups = list[list[bytes]]  # By file: what is written before each sync.

pytestmark = by_turns


class Race:
    """What the rounds took, by contestant, and the latencies of ours; all seconds."""

    def __init__(self, count: int, rounds: int) -> None:
        self.times: dict[str, list[float]] = {OURS: [], IN_TURN: [], AT_ONCE: [], IN_PLACE: []}
        self.latencies: dict[str, list[float]] = {f"{OURS} p50": [], f"{OURS} p99": []}
        self.syncs = 0
        with directory_on_disk() as directory:
            with Quorum(directory, in_flight=IN_FLIGHT) as quorum:
                for at in range(rounds):
                    self._round(quorum, directory, count, at)
                quorum.settle()
                end = quorum.leader.core.high_watermark
                offsets = quorum.base_offsets
            logs = [read_log(directory / str(node) / METADATA_NAME) for node in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
        batches = (records for at in range(rounds) for records in batches_of(count, at))
        check(logs[0], offsets, batches, end)

    def _round(self, quorum: Quorum, directory: Path, count: int, at: int) -> None:
        batches = list(batches_of(count, at))
        start = quorum.leader.core.log.end_offset
        for node in quorum.nodes.values():
            node.flushed.clear()
        quorum.latencies_s.clear()
        self.times[OURS].append(timed(partial(quorum.append, batches)))
        waited = sorted(quorum.latencies_s)
        assert len(waited) == len(batches)
        for who, part in zip(self.latencies, (0.5, 0.99), strict=True):
            self.latencies[who].append(waited[int(len(waited) * part)])
        groups = [synced(node.storage.log, start, node.flushed) for node in quorum.nodes.values()]
        assert len({b"".join(group) for group in groups}) == 1
        self.syncs += sum(map(len, groups))
        for who, write in ((IN_TURN, in_turn), (AT_ONCE, at_once), (IN_PLACE, at_once)):
            with Files(directory, groups, in_place=who is IN_PLACE) as files:
                self.times[who].append(timed(partial(write, files.descriptors, groups)))


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def synced(log: MetadataLog, start: int, ends: list[int]) -> list[bytes]:
    """Return the bytes that each sync of a log made durable, from ``start`` on."""
    groups = []
    for end in ends:
        if end > start:
            groups.append(log.read(start, READ_BYTES, end))
            start = end
    return groups


class Files:
    """Three new files, whose names are on the disk; ``in_place``: as long as they will be."""

    def __init__(self, directory: Path, groups: Groups, *, in_place: bool) -> None:
        self.paths = [directory / f"file {number}" for number in range(len(groups))]
        self.descriptors = [os.open(path, os.O_RDWR | os.O_CREAT) for path in self.paths]
        for descriptor in self.descriptors:
            if in_place:
                os.pwrite(descriptor, bytes(sum(map(len, groups[0]))), 0)
            os.fsync(descriptor)
        self.expected = b"".join(groups[0])

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        for path, descriptor in zip(self.paths, self.descriptors, strict=True):
            os.close(descriptor)
            assert path.read_bytes() == self.expected
            path.unlink()


def in_turn(files: list[int], groups: Groups) -> None:
    """One loop: write and sync the first file, the second, the third, the first again."""
    for row in zip_longest(*groups):
        for file, data in zip(files, row, strict=True):
            if data is not None:
                os.write(file, data)
                os.fdatasync(file)


def at_once(files: list[int], groups: Groups) -> None:
    """A thread a file."""
    threads = [
        threading.Thread(target=in_turn, args=([file], [group]))
        for file, group in zip(files, groups, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_log(directory: Path) -> bytes:
    """Open a node's log anew, as after a start, and return all its batches."""
    log = MetadataLog.open(str(directory), LocalFiles())
    try:
        return log.read(0, READ_BYTES)
    finally:
        log.close()


def check(log: bytes, offsets: list[int], batches: Iterable[Records], high_watermark: int) -> None:
    """Look every acknowledged record up, below the high watermark."""
    headers = list(iterate_headers(log))
    assert headers[-1].last_offset + 1 == high_watermark
    begins = [header.base_offset for header in headers]
    begin = -1
    values: list[bytes | None] = []
    for offset, records in zip(offsets, batches, strict=True):
        header = headers[bisect_right(begins, offset) - 1]
        if header.base_offset != begin:  # Appends can share a batch.
            begin = header.base_offset
            values = [record.value for record in decode_batch(log, header.position)]
        at = offset - begin
        assert values[at : at + len(records)] == list(records)


@cache
def race(count: int, rounds: int) -> Race:
    """Let all take turns with batches of ``count`` records."""
    return Race(count, rounds)


@pytest.mark.parametrize("who", [OURS, IN_TURN, AT_ONCE, IN_PLACE])
@pytest.mark.parametrize("count", BATCHES)
def test_quorum(benchmark: Any, count: int, who: str) -> None:
    """Batches through three nodes, committed and durable on each."""
    benchmark.group = f"quorum {count}"
    race_ = race(count, ROUNDS if benchmark.enabled else 1)
    records = count * BATCHES[count]
    report_times(
        benchmark, who, race_.times[who], records=records, bytes=100 * records, syncs=race_.syncs
    )


@pytest.mark.parametrize("who", [f"{OURS} p50", f"{OURS} p99"])
@pytest.mark.parametrize("count", BATCHES)
def test_acknowledged(benchmark: Any, count: int, who: str) -> None:
    """From giving a batch to its acknowledgement."""
    benchmark.group = f"acknowledged {count}"
    race_ = race(count, ROUNDS if benchmark.enabled else 1)
    report_times(benchmark, who, race_.latencies[who], records=count)
