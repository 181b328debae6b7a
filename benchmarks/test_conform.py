"""The conformance runner and our adapter on one core: how many cases a second go through the pipe.

A case is a test in one direction: its request is made a line, written, read, answered by the
adapter's process, and the reply is read and judged. Both processes are bound to the same core; the
adapter has been started, and has loaded what it needs. ``cases`` and ``cases_per_s`` stand in
``extra_info``, the latter by the fastest round. ``cpu_cases_per_s`` counts what both processes
computed instead of the clock, so that it holds on a busy machine too.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kraftspec.conformance.adapters.harness import Adapter
from kraftspec.conformance.runner.cases import Filters, read_cases
from kraftspec.conformance.runner.judge import judge
from kraftspec.conformance.runner.run import adapter_named
from kraftspec.conformance.vectors import vectors_root

ROUNDS = 5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UTIME, STIME = 13, 14  # Among the fields of /proc/<pid>/stat, counted from 0.


@pytest.fixture
def one_core() -> Iterator[None]:
    """Bind this process, and what it starts, to one of its cores."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("a process is bound to a core on Linux only")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def cpu_s(pid: int) -> float:
    """What this process and another one have computed, in seconds."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        # The name of the program may hold anything, and is the last thing in brackets.
        fields = ["", "", *stat.read().rpartition(")")[2].split()]
    return own.ru_utime + own.ru_stime + (int(fields[UTIME]) + int(fields[STIME])) / TICKS_PER_S


@pytest.mark.usefixtures("one_core")
def test_through_the_pipe(benchmark: Any) -> None:
    benchmark.group = "conform"
    timed = not benchmark.disabled
    cases = read_cases(vectors_root(), Filters(() if timed else ["kafka/VoteRequest"]))
    computed: list[float] = []

    def put(adapter: Adapter) -> None:
        began = cpu_s(adapter.pid)
        answers = adapter.exchange(case.line() for case in cases)
        wrong = [
            case.name
            for case, answer in zip(cases, answers, strict=True)
            if judge(case, answer, exact=True) is not None
        ]
        computed.append(cpu_s(adapter.pid) - began)
        assert wrong == []

    with adapter_named("kraftspec") as ours:
        ours.hello()
        put(ours)  # Loads the classes of every message.
        computed.clear()
        began = time.perf_counter()
        benchmark.pedantic(put, args=(ours,), rounds=ROUNDS)
        least_s = time.perf_counter() - began
    if timed:
        least_s = benchmark.stats.stats.min
        benchmark.extra_info["cases"] = len(cases)
        benchmark.extra_info["cases_per_s"] = round(len(cases) / least_s)
        benchmark.extra_info["cpu_cases_per_s"] = round(len(cases) / min(computed))
        print(benchmark.extra_info, file=sys.stderr)
    assert len(computed) >= 1
