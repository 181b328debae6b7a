"""CRC-32C of one run of bytes, called from Python: ours, every PyPI implementation, and reading.

``read`` only sums the words of the bytes, as fast as the core can load them: from main memory no
checksum is faster. Every contestant first shows the same checksum. The bytes are an object of type
``bytes``, as a received batch is, and stand wherever the allocator put them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import awscrt.checksums  # type: ignore[import-untyped]  # it has no types
import crc32c_rs
import fastcrc
import google_crc32c
import pytest
from aiokafka.record import util as aiokafka_util  # type: ignore[import-untyped] # it has no types
from crc32c import crc32c as icrar_crc32c

from kraftspec.fastpath import crc32c, crc32c_implementation, native

Checksum = Callable[[bytes], int]

KIB = 1 << 10
MIB = 1 << 20
SIZES = {
    "64 B": 64,
    "1 KiB": KIB,
    "16 KiB": 16 * KIB,
    "1 MiB": MIB,
    "16 MiB": 16 * MIB,
    "64 MiB": 64 * MIB,
}
CONTESTANTS: dict[str, Checksum] = {
    "kraftspec": crc32c,
    "crc32c": icrar_crc32c,
    "fastcrc": fastcrc.crc32.iscsi,
    "google-crc32c": google_crc32c.value,
    "crc32c-rs": crc32c_rs.crc32c,
    "awscrt": awscrt.checksums.crc32c,
    "aiokafka": aiokafka_util.calc_crc32c,
}


def payload(size: int) -> bytes:
    """Every byte value in turn."""
    return bytes(range(256)) * (size // 256) + bytes(range(size % 256))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("who", CONTESTANTS)
def test_crc(benchmark: Any, size: str, who: str) -> None:
    """The checksum of all the bytes in one call."""
    if who == "kraftspec" and crc32c_implementation() == "python" and SIZES[size] > MIB:
        pytest.skip("plain Python would take a minute")
    data = payload(SIZES[size])
    assert CONTESTANTS[who](data) == icrar_crc32c(data)
    benchmark.group = f"crc {size}"
    benchmark.extra_info = {"who": who, "bytes": len(data)}
    benchmark(CONTESTANTS[who], data)


@pytest.mark.parametrize("size", SIZES)
def test_read(benchmark: Any, size: str) -> None:
    """The yardstick: all the bytes are read, and no more is done."""
    module = native.load("_crc")
    if module is None:
        pytest.skip("the compiled module is not there, or turned off")
    data = payload(SIZES[size])
    assert module.read(data) == sum(memoryview(data).cast("Q")) % (1 << 64)
    benchmark.group = f"crc {size}"
    benchmark.extra_info = {"who": "read", "bytes": len(data)}
    benchmark(module.read, data)
