"""A few seconds of what ``make fuzz`` does for as long as you like, and what fuzzing once found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.conformance.fuzz.targets import SELECTOR_BYTES, BrokenError, records
from kraftspec.conformance.fuzz.targets import messages as target
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message

ROOT = Path(__file__).resolve().parents[2]
RUNS = 6_000  # About two seconds.


def selector(set_name: str, message: str, version: int) -> bytes:
    """Return the bytes that choose a message and version."""
    names = [(name, cls.__name__, number) for name, cls, number in target.pairs()]
    number = names.index((set_name, message, version))
    return number.to_bytes(SELECTOR_BYTES, "big")


def test_every_pair_can_be_chosen_and_has_seeds() -> None:
    assert len(target.pairs()) == 917
    chosen = {int.from_bytes(data[:SELECTOR_BYTES], "big") for data in target.seeds()}
    assert chosen == set(range(917))


def test_vectors_as_they_are_are_messages() -> None:
    for data in list(target.seeds())[::5]:
        assert target.check(data, one_in=1)


@pytest.mark.soak
def test_changed_vectors() -> None:
    random = Random(0)
    inputs = list(target.seeds())
    accepted = sum(
        target.check(target.mutated(random, random.choice(inputs), random.choice(inputs)), 1)
        for _ in range(RUNS)
    )
    assert RUNS // 20 < accepted < RUNS // 2  # Neither always refused nor hardly changed.


@given(st.integers(0, 894), st.binary(max_size=64))
def test_any_bytes(number: int, data: bytes) -> None:
    target.check(number.to_bytes(SELECTOR_BYTES, "big") + data, 1)


def test_batches_as_they_are_are_taken() -> None:
    whole, entries = list(records.seeds()), len(records.ENTRIES)
    taken = [0] * entries
    for data in whole[::5]:
        taken[data[0]] += records.check(data, one_in=1)
    given = [sum(data[0] == entry for data in whole[::5]) for entry in range(entries)]
    blocks = records.ENTRIES.index(records.check_decompress)
    assert 0 < taken.pop(blocks) < given.pop(blocks)  # A whole batch is no compressed block.
    assert taken == given


@pytest.mark.soak
def test_changed_batches() -> None:
    random = Random(0)
    inputs = list(records.seeds())
    accepted = sum(
        records.check(records.mutated(random, random.choice(inputs), random.choice(inputs)), 1)
        for _ in range(RUNS)
    )
    assert RUNS // 20 < accepted < RUNS // 2


@given(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=128))
def test_any_bytes_as_batches(entry: int, option: int, data: bytes) -> None:
    records.check(bytes((entry, option)) + data, one_in=1)


# ------------------------------------------------------------------ does it see what is wrong?

VOTE = ("kafka", "VoteRequest", 0)
VOTE_BYTES = bytes.fromhex("00 01 00")  # No cluster id, no topics, no tags.


def test_a_good_input_is_a_message() -> None:
    assert target.check(selector(*VOTE) + VOTE_BYTES, 1)
    assert not target.check(selector(*VOTE) + VOTE_BYTES + b"\x00", 1)
    assert not target.check(b"\x00")


def wrong_decoder(kind: str) -> Any:
    def decode(data: bytes, at: int) -> Any:
        from kraftspec.generated.kafka import VoteRequest  # noqa: PLC0415 - only this one is fooled

        if kind == "memory":
            raise MemoryError
        if kind == "refuses":
            raise ValueError
        cluster_id = "x" if kind == "value" else None
        return VoteRequest(cluster_id=cluster_id), len(data) - (kind == "end")

    return decode


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("memory", "MemoryError"),
        ("refuses", "straight-line code None"),
        ("end", "straight-line code None"),
        ("value", "interpreter, straight-line|inside other bytes"),
    ],
)
def test_straight_line_code_that_is_wrong_is_seen(
    kind: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraftspec.generated.kafka import VoteRequest  # noqa: PLC0415 - as above

    monkeypatch.setitem(VoteRequest.CODEC.decoders, 0, wrong_decoder(kind))
    with pytest.raises(BrokenError, match=pattern):
        target.check(selector(*VOTE) + VOTE_BYTES, 1)


@pytest.mark.parametrize(
    ("raised", "pattern"),
    [
        (IndexError("x"), "IndexError"),
        (RecursionError("x"), "RecursionError"),
        (CodecError(ErrorClass.TRUNCATED, "x", offset=99), "without its place"),
        (CodecError(ErrorClass.TRUNCATED, "x"), "without its place"),
    ],
)
def test_an_interpreter_that_is_wrong_is_seen(
    raised: Exception, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interpret(*_: object) -> Any:
        raise raised

    monkeypatch.setattr(Message, "_interpret", interpret)
    with pytest.raises(BrokenError, match=pattern):
        target.check(selector(*VOTE) + VOTE_BYTES, 1)


def test_a_slow_decoder_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "SECONDS_MAX", -1.0)
    with pytest.raises(BrokenError, match=r"took 0\.0 s"):
        target.check(selector(*VOTE) + VOTE_BYTES, 1)


@pytest.mark.soak
def test_the_command_counts_what_it_ran() -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "--engine", "random", "--runs", "200"]
    done = subprocess.run(
        [*command, "--target", "messages", "--jobs", "2", "--seed", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 inputs in" in done.stdout
    assert "0 findings" in done.stdout
