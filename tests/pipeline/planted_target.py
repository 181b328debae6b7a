"""A target of the fuzzer with four faults, each over its own byte: ``planted_target`` on the path.

An input is two bytes and four more. A last byte of 0xF0 breaks the check, 0xF1 ends the process,
0xF2 never ends, 0xF3 raises what no check should.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from random import Random

from kraftspec.conformance.fuzz.targets import BrokenError, Label

INPUT_BYTES_MAX = 6


def seeds() -> Iterator[bytes]:
    for number in range(4):
        yield bytes((0, number, 1, 2, 3, 4))


def mutated(random: Random, data: bytes, other: bytes) -> bytes:
    if random.random() < 0.002:
        return data[:5] + bytes((random.choice((0xF0, 0xF0, 0xF1, 0xF2)),))
    return data[:2] + random.randbytes(3) + bytes((random.randrange(0xF0),))


def check(data: bytes, one_in: int) -> bool:
    match data[-1]:
        case 0xF0:
            raise BrokenError(f"set/Message v1: BrokenError: parts over {data.hex()}: {data!r}")
        case 0xF1:
            ctypes.string_at(0)  # SIGSEGV, as native code does it.
        case 0xF2:
            while True:
                pass
    return data[-1] % 2 == 0


def label(selector: bytes) -> Label:
    return Label("set", "Message", selector[1], "decode")


def modules() -> list[str]:
    return []
