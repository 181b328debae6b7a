"""Power losses, failing, full and rotten disks under the harness over Kafka's clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.simulation.harness.conversations import append, harness, leader_of, static_quorum
from tests.simulation.harness.network import VirtualNetwork
from tests.simulation.harness.process import EVENTS, Event, RawHarness, command

from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.types import Uuid

pytestmark = pytest.mark.kafka

RUNS = count(1)
EFFECTS = {layout.name for layout in EVENTS.values() if layout.is_effect}
FAILS, FULL, POWER_GOES = 1, 2, 3
DOWN, UP, POWER_WENT, FATAL, DISK_FAILED, DISK_FULL = 0, 1, 3, 4, 5, 6


@pytest.fixture(scope="module")
def process() -> Iterator[RawHarness]:
    with harness() as shared:
        yield shared


@pytest.fixture
def network(process: RawHarness) -> Iterator[VirtualNetwork]:
    run = next(RUNS)
    yield VirtualNetwork(process, run=run)
    process.ask(command("forget", run))


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


class Mirror:
    """The log of a node as its events say: base offset and bytes of each batch."""

    def __init__(self, events: list[Event], node: int = 0) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.start = 0
        for event in events:
            if event["node"] != node:
                continue
            if event["name"] == "appended":
                self.batches += split(event["data"])
            elif event["name"] == "truncated":
                self.batches = [each for each in self.batches if each[0] < event["end_offset"]]
            elif event["name"] in ("reset", "start_moved"):
                self.start = event["end_offset"]
                self.batches = [each for each in self.batches if each[0] >= self.start]
                if event["name"] == "reset":
                    self.batches = []

    def crc(self, batches: int | None = None) -> int:
        return signed(crc32c(b"".join(data for _, data in self.batches[:batches])))


def split(data: bytes) -> list[tuple[int, bytes]]:
    batches = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        batches.append((int.from_bytes(data[:8], "big"), data[:size]))
        data = data[size:]
    return batches


def effects(events: list[Event]) -> list[Event]:
    return [event for event in events if event["name"] in EFFECTS]


def single(network: VirtualNetwork) -> None:
    """One voter that leads, snapshots and appends: each kind of write there is."""
    network.define(0, static_voters=[0], retention_bytes=0)
    network.now_us = 1_000_000
    network.start(0)
    live(network)


def live(network: VirtualNetwork) -> None:
    for number in range(3):
        network.now_us += 3_000_000
        network.act("tick", 0)
        state = network.states[0]
        if state["status"] != UP:
            return
        records = [b"%d" % number] * 3
        network.act("append", 0, append_id=number, epoch=state["epoch"], records=records)
        network.now_us += 5_000
        network.act("tick", 0)
        state = network.states[0]
        where = {"end_offset": state["high_watermark"], "epoch": state["epoch"]}
        if state["status"] == UP:
            network.act("snapshot", 0, values=[b"state"], **where)
        network.act("clean", 0)


def test_the_power_goes_before_each_effect(process: RawHarness) -> None:
    """What was done until then is the beginning of what is done without it, effect by effect."""
    whole = VirtualNetwork(process, run=next(RUNS))
    single(whole)
    expected = [{**event, "run": 0} for event in effects(whole.seen)]
    names = [event["name"] for event in expected]
    assert {"persisted", "appended", "flushed", "leader", "committed", "snapshot_stored",
            "start_moved", "snapshot_deleted"} <= set(names)  # fmt: skip
    for done in range(len(expected)):
        network = VirtualNetwork(process, run=next(RUNS))
        network.define(0, static_voters=[0], retention_bytes=0)
        network.do("power_after", 0, effects=done)
        network.start(0)
        live(network)
        assert [{**event, "run": 0} for event in effects(network.seen)] == expected[:done]
        assert network.states[0]["status"] == POWER_WENT
        silent = network.act("tick", 0) + network.act("clean", 0) + network.do("kill", 0)
        assert {event["name"] for event in silent} == {"state"}
        before = Mirror(network.seen)
        network.power_loss(0, batches=9)
        recovered = network.start(0)[0]
        assert recovered["name"] == "recovered"
        assert recovered["crc32c"] == before.crc()
        network.now_us += 3_000_000
        network.act("tick", 0)
        assert network.states[0]["role"] == 3, done
        process.ask(command("forget", network.run))


def test_the_power_of_a_leader_goes(process: RawHarness) -> None:
    """Between its requests and its answers, too, which Kafka gives out from within futures."""

    def story(effects: int) -> tuple[VirtualNetwork, int, list[Event]]:
        network = VirtualNetwork(process, run=next(RUNS), seed=11)
        leader = static_quorum(network)
        network.do("power_after", leader, effects=effects)
        before = len(network.seen)
        append(network, 1, [b"committed, or not"])
        network.sleep(600_000)
        process.ask(command("forget", network.run))
        after = [event for event in network.seen[before:] if event["node"] == leader]
        return network, leader, [{**event, "run": 0} for event in after if event["name"] in EFFECTS]

    _, _, expected = story(-1)
    assert {"appended", "flushed", "answered", "committed"} <= {each["name"] for each in expected}
    for done in range(min(len(expected), 14)):
        network, leader, told = story(done)
        assert told == expected[:done]
        assert network.states[leader]["status"] == POWER_WENT


@pytest.mark.parametrize("fault", [FAILS, FULL, POWER_GOES])
def test_each_operation_of_the_disk(process: RawHarness, fault: int) -> None:
    """One after the other fails, or the power goes before it: the node stops, and starts again."""
    statuses = set()
    for operation in count(1):
        network = VirtualNetwork(process, run=next(RUNS))
        network.define(0, static_voters=[0], retention_bytes=0)
        network.start(0)
        network.do("disk_fault", 0, fault=fault, operations=operation)
        live(network)
        status = network.states[0]["status"]
        statuses.add(status)
        voted = [event for event in network.seen if event["name"] == "persisted"][-1]
        if status == POWER_WENT:
            network.power_loss(0, files=operation % 2 == 0, torn=operation)
        network.do("disk_fault", 0, fault=0, operations=1)
        if status == UP:
            network.do("kill", 0)
        assert network.states[0]["epoch"] >= voted["epoch"]  # A file that was written stays.
        mirror = Mirror(network.seen)
        recovered = network.start(0)[0]
        kept = [base for base, _ in mirror.batches if base < recovered["end_offset"]]
        assert recovered["crc32c"] == mirror.crc(len(kept))
        network.now_us += 3_000_000
        network.act("tick", 0)
        assert network.states[0]["role"] == 3
        assert not [event for event in network.seen if event["name"] == "fatal"]
        process.ask(command("forget", network.run))
        if fault == FULL or (status == UP and operation > 60):
            break
    expected = {FAILS: {UP, DISK_FAILED}, FULL: {DISK_FULL}, POWER_GOES: {UP, POWER_WENT}}
    assert statuses == expected[fault]


def test_a_snapshot_that_fails_does_not_stop_its_node(network: VirtualNetwork) -> None:
    single(network)
    network.now_us += 5_000
    epoch = network.states[0]["epoch"]
    network.act("append", 0, append_id=9, epoch=epoch, records=[b"more"])
    network.now_us += 5_000
    network.act("tick", 0)
    network.do("disk_fault", 0, fault=FAILS, operations=1)
    end = network.states[0]["high_watermark"]
    events = network.act("snapshot", 0, end_offset=end, epoch=epoch, values=[b"x"])
    assert [event["name"] for event in events] == ["note", "state"]
    assert "Input/output error" in events[0]["text"]
    assert events[-1]["status"] == UP
    events = network.act("snapshot", 0, end_offset=end, epoch=epoch, values=[b"x"])
    assert [event["name"] for event in events] == ["snapshot_stored", "state"]
    assert events[0]["is_own"]


def unflushed(network: VirtualNetwork) -> tuple[int, Mirror]:
    """A follower whose last batch is written, and whose sync has failed."""
    leader = static_quorum(network)
    follower = (leader + 1) % 3
    network.do("disk_fault", follower, fault=FAILS, operations=2)
    append(network, 9, [b"written", b"not synced"])
    network.until(lambda: network.states[follower]["status"] != UP)
    state = network.states[follower]
    assert state["status"] == DISK_FAILED
    assert state["durable_end"] == state["log_end"] - 2
    return follower, Mirror(network.seen, follower)


def test_what_was_not_flushed_outlives_a_process_but_no_power_loss(network: VirtualNetwork) -> None:
    """Neither the end of a process nor a start flushes anything."""
    node, mirror = unflushed(network)
    end = network.states[node]["log_end"]
    network.do("kill", node)
    recovered = network.start(node)[0]
    assert recovered["crc32c"] == mirror.crc()
    assert (network.states[node]["log_end"], network.states[node]["durable_end"]) == (end, end - 2)
    network.power_loss(node)
    assert network.states[node]["log_end"] == network.states[node]["durable_end"] == end - 2
    recovered = network.start(node)[0]
    assert recovered["crc32c"] == mirror.crc(-1)
    network.until(network.agree)
    assert network.states[node]["durable_end"] == end


@pytest.mark.parametrize("left", [0, 1, 16, 17, 60, 61, -1, None])
def test_a_torn_batch_is_cut(network: VirtualNetwork, left: int | None) -> None:
    node, mirror = unflushed(network)
    whole = len(mirror.batches[-1][1])
    torn = whole if left is None else left % whole
    network.power_loss(node, torn=torn)
    recovered = network.start(node)[0]
    assert recovered["crc32c"] == mirror.crc(None if torn == whole else -1)


def test_a_rotten_batch_is_cut_with_all_behind_it(network: VirtualNetwork) -> None:
    """Durable ones as well: Kafka reads the whole metadata log again when it starts."""
    network.define(0, static_voters=[0])
    network.start(0)
    for number in range(8):
        network.now_us += 3_000_000
        network.act("tick", 0)
        epoch = network.states[0]["epoch"]
        network.act("append", 0, append_id=number, epoch=epoch, records=[b"%d" % number])
    network.do("kill", 0)
    mirror = Mirror(network.seen)
    for index in (6, 4, 1):
        base, data = mirror.batches[index]
        position = 17 + 7 * index
        network.do("rot", 0, base_offset=base, position=position, mask=1 << index)
        (log, _) = network.do("read", 0)
        assert log["data"].count(data) == 0
        recovered = network.start(0)[0]
        assert recovered["end_offset"] == base
        assert recovered["crc32c"] == mirror.crc(index)
        assert network.states[0]["status"] == UP
        network.do("kill", 0)


def test_a_base_offset_that_rots_stops_the_start(network: VirtualNetwork) -> None:
    leader = static_quorum(network)
    network.do("kill", leader)
    (log, _) = network.do("read", leader)
    (base, _) = split(log["data"])[0]
    network.do("rot", leader, base_offset=base, position=0, mask=-128)
    events = network.start(leader)
    assert [event["name"] for event in events] == ["fatal", "state"]
    assert events[-1]["status"] == FATAL


def test_a_full_disk_takes_no_vote(network: VirtualNetwork) -> None:
    """A voter whose vote cannot be stored does not give it."""
    leader = static_quorum(network)
    others = [node for node in range(3) if node != leader]
    network.do("kill", leader)
    for node in others:
        network.do("disk_fault", node, fault=FULL, operations=1)
    before = {node: network.states[node]["epoch"] for node in others}
    network.until(lambda: all(network.states[node]["status"] == DISK_FULL for node in others))
    for node in others:
        assert network.states[node]["epoch"] == before[node]
        network.do("disk_fault", node, fault=0, operations=1)
        network.start(node)
    network.until(lambda: network.leader() is not None and network.agree())
    append(network, 1, [b"again"])
    network.until(network.agree)
    assert leader_of(network) in others


def test_zero_directories_are_told_as_unknown(network: VirtualNetwork) -> None:
    """Without kraft.version 1, quorum-state has no directory ids."""
    static_quorum(network)
    voted = [event for event in network.seen if event["name"] == "persisted"]
    assert {Uuid(event["voted_directory"]) for event in voted} == {Uuid(bytes(16))}
    assert {event["voted_id"] for event in voted} > {-1}
