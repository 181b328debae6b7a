"""Append to three nodes in processes of their own, beside a loop that writes their bytes.

As in `test_quorum`, but over TCP: each round is some batches of records of 100 bytes, until all are
acknowledged and all three logs are durable. The loops then write what the three logs got, byte for
byte, with one fdatasync where each log had one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log.directory import METADATA_NAME

from .networked import NetworkedQuorum
from .quorum import BATCHES, batches_of
from .test_quorum import (
    AT_ONCE,
    IN_FLIGHT,
    IN_PLACE,
    IN_TURN,
    OURS,
    ROUNDS,
    Files,
    at_once,
    check,
    in_turn,
    read_log,
    timed,
)
from .turns import by_turns, directory_on_disk, report_times

FLIGHTS = {IN_FLIGHT: "", 64: ", 64 in flight,"}  # Appends in flight: what a group is called.
SIZES = tuple(product(FLIGHTS, BATCHES))

FIRST_SEGMENT = "00000000000000000000.log"

pytestmark = by_turns


class Tail:
    """What is appended to a log, read as it grows, and cut where it was synced."""

    def __init__(self, log_dir: Path) -> None:
        self.path = log_dir / METADATA_NAME / FIRST_SEGMENT
        self.position = 0
        self.offset = 0

    def groups(self, ends: Sequence[int]) -> list[bytes]:
        """Return the bytes up to each of these offsets; none for one that was passed."""
        with self.path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        groups = []
        at = 0
        headers = iterate_headers(data, check_crc=False)
        for end in ends:
            begin = at
            while self.offset < end:
                header = next(headers)
                at, self.offset = header.end, header.last_offset + 1
            if at > begin:
                groups.append(data[begin:at])
        self.position += at
        return groups


class Race:
    """What the rounds of one batch size took, by contestant, and our latencies; all seconds."""

    def __init__(self, in_flight: int, count: int) -> None:
        self.in_flight, self.count = in_flight, count
        self.times: dict[str, list[float]] = {OURS: [], IN_TURN: [], AT_ONCE: [], IN_PLACE: []}
        self.latencies: dict[str, list[float]] = {f"{OURS} p50": [], f"{OURS} p99": []}
        self.syncs = 0

    def round(
        self, quorum: NetworkedQuorum, tails: list[Tail], directory: Path, at: int
    ) -> dict[str, Any]:
        """Let each take its turn; return the reply of the leader."""
        start = quorum.start_offset()
        for tail in tails:
            tail.groups([start])
        quorum.make(self.count, at)
        begun_s = time.perf_counter()
        reply = quorum.append(self.in_flight)
        self.times[OURS].append(time.perf_counter() - begun_s)
        waited = sorted(reply["latencies"])
        assert len(waited) == BATCHES[self.count]
        for who, part in zip(self.latencies, (0.5, 0.99), strict=True):
            self.latencies[who].append(waited[int(len(waited) * part)])
        groups = [tail.groups(ends) for tail, ends in zip(tails, quorum.synced(), strict=True)]
        assert len({b"".join(group) for group in groups}) == 1
        self.syncs += sum(map(len, groups))
        for who, write in ((IN_TURN, in_turn), (AT_ONCE, at_once), (IN_PLACE, at_once)):
            with Files(directory, groups, in_place=who is IN_PLACE) as files:
                self.times[who].append(timed(partial(write, files.descriptors, groups)))
        return reply


def cut(log: bytes, end_offset: int) -> bytes:
    """Return the batches of a log that begin before an offset."""
    headers = iterate_headers(log)
    return log[: max(header.end for header in headers if header.base_offset < end_offset)]


@cache
def races(rounds: int) -> dict[tuple[int, int], Race]:
    """Let all take turns, one size of batches after another; look up all that was acknowledged."""
    races_ = {size: Race(*size) for size in SIZES}
    offsets: list[int] = []
    with directory_on_disk() as directory:
        with NetworkedQuorum(directory) as quorum:
            tails = [Tail(path) for path in quorum.log_dirs]
            for race in races_.values():
                for at in range(rounds):
                    reply = race.round(quorum, tails, directory, at)
                    offsets += reply["offsets"]
        # Nodes stop one after another: those left may have elected a leader, who writes that.
        end = reply["end"]
        logs = [cut(read_log(path / METADATA_NAME), end) for path in quorum.log_dirs]
    assert logs[0] == logs[1] == logs[2]
    written = (
        records for _, count in SIZES for at in range(rounds) for records in batches_of(count, at)
    )
    check(logs[0], offsets, written, end)
    return races_


@pytest.mark.soak
@pytest.mark.parametrize("who", [OURS, IN_TURN, AT_ONCE, IN_PLACE])
@pytest.mark.parametrize(("in_flight", "count"), SIZES)
def test_networked(benchmark: Any, in_flight: int, count: int, who: str) -> None:
    """Batches through three processes, committed and durable in each."""
    benchmark.group = f"TCP quorum{FLIGHTS[in_flight]} {count}"
    race = races(ROUNDS if benchmark.enabled else 1)[in_flight, count]
    records = count * BATCHES[count]
    report_times(
        benchmark, who, race.times[who], records=records, bytes=100 * records, syncs=race.syncs
    )


@pytest.mark.soak
@pytest.mark.parametrize("who", [f"{OURS} p50", f"{OURS} p99"])
@pytest.mark.parametrize(("in_flight", "count"), SIZES)
def test_acknowledged_over_tcp(benchmark: Any, in_flight: int, count: int, who: str) -> None:
    """From an append at the leader to its acknowledgement."""
    benchmark.group = f"TCP acknowledged{FLIGHTS[in_flight]} {count}"
    race = races(ROUNDS if benchmark.enabled else 1)[in_flight, count]
    report_times(benchmark, who, race.latencies[who], records=count)
