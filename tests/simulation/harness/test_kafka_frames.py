"""What the harness answers to frames that no simulator should send: it says so, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.simulation.harness.conversations import harness, static_quorum
from tests.simulation.harness.network import VirtualNetwork
from tests.simulation.harness.process import COMMANDS, RawHarness, command, events

from kraftspec.simulation.harness.protocol import FRAME_BYTES_MAX, HEAD, SIZE

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def process() -> Iterator[RawHarness]:
    with harness() as shared:
        static_quorum(VirtualNetwork(shared, run=1), 1)
        yield shared


def names(process: RawHarness, commands: bytes) -> list[str]:
    return [event["name"] for event in process.ask(commands)]


def head(code: int, size: int, node: int = 0) -> bytes:
    return HEAD.pack(code, 1, node, size)


READ = command("read", 1, 0)
WRONG = {
    "unknown code": head(23, 0),
    "unknown code with fields": head(127, 3) + b"abc",
    "negative code": head(-1, 0),
    "node that is not there": command("read", 1, 5),
    "run that is not there": command("read", 9, 0),
    "too few fields": head(COMMANDS["tick"].code, 7) + bytes(7),
    "too many fields": head(COMMANDS["tick"].code, 9) + bytes(9),
    "bool of 2": head(COMMANDS["power_loss"].code, 9) + bytes(8) + b"\2",
    "negative length": head(COMMANDS["hello"].code + 6, 28) + bytes(24) + b"\xff" * 4,
    "negative batches": command("power_loss", 1, 0, batches=-1, torn_bytes=0, files=False),
    "length beyond the command": head(COMMANDS["request"].code, 24) + bytes(20) + b"\0\0\0\1",
    "count of 2^31 - 1": head(COMMANDS["append"].code, 24) + bytes(20) + b"\x7f\xff\xff\xff",
    "start of a node that is up": command("start", 1, 0, now_us=0, seed=0),
    "checkpoint under a node that is up": command(
        "install", 1, 0, end_offset=0, epoch=0, content=b""
    ),
    "rot under a node that is up": command("rot", 1, 0, base_offset=0, position=0, mask=1),
    "a fault that there is not": command("disk_fault", 1, 0, fault=4, operations=1),
    "protocol version 0": command("hello", version=0),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_command_is_passed_over(process: RawHarness, wrong: bytes) -> None:
    assert names(process, READ + wrong + READ) == ["log", "state", "wrong", "log", "state"]


def test_it_says_where(process: RawHarness) -> None:
    (_, _, wrong) = process.ask(READ + head(6, 7) + bytes(7))
    assert wrong["text"].endswith(f"at byte {len(READ) + HEAD.size}")


@pytest.mark.parametrize(
    "rest", [bytes(HEAD.size - 1), head(6, 9) + bytes(8), head(6, -1), head(6, 1 << 30)]
)
def test_what_has_no_end_ends_its_frame(process: RawHarness, rest: bytes) -> None:
    assert names(process, READ + rest) == ["log", "state", "wrong"]
    assert names(process, READ) == ["log", "state"]


def test_a_frame_that_is_too_long_is_passed_over(process: RawHarness) -> None:
    size = FRAME_BYTES_MAX + 1
    (wrong,) = events(process.exchange(SIZE.pack(size) + bytes(size)))
    assert wrong["name"] == "wrong"
    assert str(size) in wrong["text"]
    (wrong,) = events(process.exchange(SIZE.pack(-5)))
    assert wrong["name"] == "wrong"
    assert names(process, b"") == []
    assert names(process, READ) == ["log", "state"]


def test_random_bytes_are_answered(process: RawHarness) -> None:
    """Each frame has its answer, whatever it holds, and the nodes of other runs stay."""
    random = Random(1)
    for _ in range(2_000):
        code = random.randrange(2, 24)
        body = random.randbytes(random.randrange(60))
        name = names(process, HEAD.pack(code, 2, random.randrange(3), len(body)) + body)[-1:]
        assert name in (["wrong"], ["state"], [])
    assert names(process, READ) == ["log", "state"]


def test_bytes_that_no_message_has_are_dropped(process: RawHarness) -> None:
    fields = {"now_us": 2_000_000, "token": 1, "api_key": 52, "version": 1}
    received = process.ask(command("request", 1, 0, body=b"\xff" * 9, **fields))
    assert next(event["name"] for event in received) == "dropped"
    for api_key, version in ((52, 99), (52, -1), (3, 12), (9999, 0), (-1, 0)):
        received = process.ask(
            command(
                "request", 1, 0, now_us=2_000_000, token=2, api_key=api_key, version=version,
                body=b"",
            )
        )  # fmt: skip
        assert next(event["name"] for event in received) == "dropped", (api_key, version)


def test_it_ends_with_its_input() -> None:
    process = harness()
    assert names(process, command("hello", version=1)) == ["welcome"]
    assert process.close() == 0
