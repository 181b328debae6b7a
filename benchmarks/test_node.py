"""A node beside a Kafka controller, and the quorum tool beside Kafka's: whole processes.

* from the start of a process to the first answer as a leader with a high watermark, one controller
  alone in its quorum;
* the memory that it then has resident (a byte stands where other rows have a nanosecond);
* three controllers: from SIGKILL of the leader to such an answer of another, at the same time-outs,
  which are Kafka's defaults;
* ``describe --status`` from the start of the command to its end.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.adapters.registry import java_missing
from kraftspec.reference.admin import QuorumInfo

from .node import (
    EVERYONE,
    LEAN,
    OURS,
    PATIENCE_S,
    Controllers,
    environment,
    is_serving,
    tool_command,
)
from .turns import by_turns, directory_on_disk, report_times

ROUNDS = 7
SETTLE_S = 1.0  # Memory is measured after the start.

pytestmark = [
    by_turns,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/PID/status"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kafka takes part where peers do (``--peers``), and Java is there."""
    if "who" not in metafunc.fixturenames:
        return
    with_kafka = metafunc.config.getoption("--peers") != "off" and java_missing() is None
    rivals = getattr(metafunc.function, "rivals", EVERYONE)
    metafunc.parametrize("who", rivals if with_kafka else [OURS])


def among(*everyone: str) -> Callable[[Any], Any]:
    """Choose the contestants of a measurement."""

    def mark(test: Any) -> Any:
        test.rivals = everyone
        return test

    return mark


@cache
def starts(everyone: tuple[str, ...], rounds: int) -> dict[str, list[tuple[float, int]]]:
    """Start each in turn; return the seconds and the bytes of memory of each start."""
    measured: dict[str, list[tuple[float, int]]] = {who: [] for who in everyone}
    with directory_on_disk() as directory:
        for at in range(1 + rounds):
            for who in everyone:
                with Controllers(
                    who, new(directory, f"{at}-{EVERYONE.index(who)}"), 1
                ) as controllers:
                    begun_s = time.perf_counter()
                    controllers.start(1)
                    controllers.wait(is_serving)
                    took_s = time.perf_counter() - begun_s
                    time.sleep(SETTLE_S)
                    if at:  # The first start finds nothing in the system's caches.
                        measured[who].append((took_s, controllers.resident_bytes(1)))
    return measured


@cache
def failovers(who: str, rounds: int) -> list[float]:
    """End the leader of three again and again; return how long there was none, in seconds."""
    times = []
    with directory_on_disk() as directory, Controllers(who, directory, 3) as controllers:
        for node_id in controllers.properties:
            controllers.start(node_id)
        for _ in range(rounds):
            leader_id = controllers.wait(all_follow).leader_id
            begun_s = time.perf_counter()
            controllers.kill(leader_id)
            controllers.wait(led_by_another(leader_id))
            times.append(time.perf_counter() - begun_s)
            controllers.start(leader_id)
    return times


def all_follow(quorum: QuorumInfo) -> bool:
    """Whether every voter has the whole log, and fetched within the last half second."""
    now_ms = quorum.leader.last_fetch_ms
    return is_serving(quorum) and all(
        voter.log_end_offset >= quorum.high_watermark and now_ms - voter.last_fetch_ms < 500
        for voter in quorum.voters
    )


def led_by_another(leader_id: int) -> Callable[[QuorumInfo], bool]:
    """A condition: another leads, and has committed."""
    return lambda quorum: is_serving(quorum) and quorum.leader_id != leader_id


@cache
def commands(everyone: tuple[str, ...], rounds: int) -> dict[str, list[float]]:
    """Describe a quorum of ours by each tool in turn; return the seconds of each run."""
    times: dict[str, list[float]] = {who: [] for who in everyone}
    with directory_on_disk() as directory, Controllers(OURS, directory, 1) as controllers:
        controllers.start(1)
        controllers.wait(is_serving)
        arguments = ["--bootstrap-controller", controllers.addresses[1], "describe", "--status"]
        outputs = set()
        for at in range(1 + rounds):
            for who in everyone:
                command = tool_command(who, *arguments)
                begun_s = time.perf_counter()
                done = subprocess.run(
                    command,
                    env=environment(),
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=PATIENCE_S,
                )
                if at:
                    times[who].append(time.perf_counter() - begun_s)
                outputs.add(done.stdout)
        assert len(outputs) == 1, outputs
        assert "LeaderId:               1\n" in outputs.pop()
    return times


def new(directory: Path, name: str) -> Path:
    directory_ = directory / name
    directory_.mkdir()
    return directory_


def everyone_of(benchmark: Any, request: Any) -> tuple[tuple[str, ...], int]:
    """The contestants of this run, and the number of rounds."""
    with_kafka = request.config.getoption("--peers") != "off" and java_missing() is None
    return (EVERYONE if with_kafka else (OURS,)), ROUNDS if benchmark.enabled else 1


def test_start(benchmark: Any, request: Any, who: str) -> None:
    """From the start of the process to the first answer as a leader."""
    benchmark.group = "node start"
    measured = starts(*everyone_of(benchmark, request))
    report_times(benchmark, who, [seconds for seconds, _ in measured[who]])


def test_memory(benchmark: Any, request: Any, who: str) -> None:
    """A second later."""
    benchmark.group = "node memory"
    measured = starts(*everyone_of(benchmark, request))
    report_times(benchmark, who, [size / 1e9 for _, size in measured[who]])


@among(OURS, LEAN)
def test_fail_over(benchmark: Any, who: str) -> None:
    """From SIGKILL to the first answer of another leader."""
    benchmark.group = "node fail-over"
    report_times(benchmark, who, failovers(who, ROUNDS if benchmark.enabled else 1))


def test_command(benchmark: Any, request: Any, who: str) -> None:
    """The whole command."""
    benchmark.group = "command quorum describe"
    report_times(benchmark, who, commands(*everyone_of(benchmark, request))[who])
