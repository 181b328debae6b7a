"""What the proxy adds to an exchange of 1 KiB, and how fast Fetch passes, beside a plain forwarder.

All contestants stand before the same node and take turns; no rule is about what passes. Times of
Fetch are the processor time of who stands in the middle: the client and the node share the machine.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from kraftspec.generated.kafka import FetchRequest, ProduceRequest
from kraftspec.reference.wire.frames import request_header, sized

from .proxied import (
    FETCH_BYTES,
    FETCH_VERSION,
    FORWARDER,
    NODE,
    PRODUCE_VERSION,
    PROXY,
    REWRITING,
    Caller,
    Program,
)
from .turns import by_turns, report_times

DIRECT = "without anything between"
BETWEEN = (PROXY, REWRITING, FORWARDER)
EXCHANGES = 200  # A turn.
FETCHES = 64
TURNS = 30

pytestmark = by_turns


def produce_frame() -> bytes:
    """Return a Produce request with 1 KiB of records."""
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(1024))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    message = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])
    header = request_header(ProduceRequest, PRODUCE_VERSION, 7, "bench")
    return sized(header, message.encode(PRODUCE_VERSION))


def fetch_frame() -> bytes:
    """Return a Fetch request."""
    header = request_header(FetchRequest, FETCH_VERSION, 9, "bench")
    return sized(header, FetchRequest(max_wait_ms=1).encode(FETCH_VERSION))


def exchanges(caller: Caller, frame: bytes, count: int) -> list[float]:
    """Return how long each of so many exchanges takes (s), one after another."""
    times = []
    for _ in range(count):
        begun_s = time.perf_counter()
        caller.send(frame)
        answer = caller.receive()
        times.append(time.perf_counter() - begun_s)
        assert answer[:4] == frame[8:12]
    return times


def fetches(caller: Caller, frame: bytes, count: int) -> None:
    """Fetch so many times, two requests at once."""
    for number in range(count + 1):
        if number < count:
            caller.send(frame[:8] + number.to_bytes(4, "big") + frame[12:])
        if number:
            answer = caller.receive()
            assert len(answer) > FETCH_BYTES
            assert answer[:4] == (number - 1).to_bytes(4, "big")


def part_of(times: list[float], part: float) -> float:
    """Return the time that this part of all is not above."""
    return sorted(times)[int(len(times) * part)]


@cache
def races(turns: int) -> tuple[dict[str, dict[str, list[float]]], dict[str, list[float]]]:
    """Let all take turns; return p50 and p99 of each turn, and the time for each turn of Fetch."""
    latencies: dict[str, dict[str, list[float]]] = {
        who: {"p50": [], "p99": []} for who in (DIRECT, *BETWEEN)
    }
    used: dict[str, list[float]] = {who: [] for who in BETWEEN}
    produce, fetch = produce_frame(), fetch_frame()
    with ExitStack() as stack:
        node = stack.enter_context(Program(NODE))
        programs = {who: stack.enter_context(Program(who, node.port)) for who in BETWEEN}
        callers = {who: Caller(program.port) for who, program in programs.items()}
        callers[DIRECT] = Caller(node.port)
        for caller in callers.values():
            stack.callback(caller.close)
            exchanges(caller, produce, EXCHANGES)  # The first ones find nothing in the caches.
        for _ in range(turns):
            for who, percentiles in latencies.items():
                times = exchanges(callers[who], produce, EXCHANGES)
                percentiles["p50"].append(part_of(times, 0.5))
                percentiles["p99"].append(part_of(times, 0.99))
            for who, program in programs.items():
                before_s = program.used_s()
                fetches(callers[who], fetch, FETCHES)
                used[who].append(program.used_s() - before_s)
    return latencies, used


@pytest.mark.soak
@pytest.mark.parametrize("who", [*BETWEEN, DIRECT])
@pytest.mark.parametrize("part", ["p50", "p99"])
def test_proxy_exchange(benchmark: Any, part: str, who: str) -> None:
    """A Produce of 1 KiB and its answer."""
    benchmark.group = f"proxy exchange 1 KiB {part}"
    latencies, _ = races(TURNS if benchmark.enabled else 1)
    report_times(benchmark, who, latencies[who][part])


@pytest.mark.parametrize("who", BETWEEN)
def test_proxy_fetch(benchmark: Any, who: str) -> None:
    """Answers to Fetch of 1 MiB, in processor time of who passes them on."""
    benchmark.group = "proxy fetch 1 MiB"
    _, used = races(TURNS if benchmark.enabled else 1)
    report_times(benchmark, who, used[who], bytes=FETCH_BYTES * FETCHES)
