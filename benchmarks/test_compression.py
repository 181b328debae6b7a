"""The five compressions beside aiokafka's, on 16 KiB of records: the default size of a batch.

Each contestant reads what ours wrote, and ours reads what it writes, before it is timed.
``compressedBytes`` says what the time was spent for: the libraries' levels are not the same.
"""

from __future__ import annotations

import importlib
import json
from functools import partial
from random import Random
from typing import Any

import pytest

from kraftspec.fastpath.compression import compress, decompress
from kraftspec.fastpath.records import Compression

aiokafka = importlib.import_module("aiokafka.codec")  # It has no types.
SIZE = 16 << 10
CODECS = list(Compression)[1:]
WHO = ["kraftspec", "aiokafka"]


def records() -> bytes:
    """Values as an application has them: JSON with names that repeat and numbers that do not."""
    random = Random(4)
    rows = (
        {"id": number, "user": f"user-{random.randrange(500)}", "amount": random.random()}
        for number in range(SIZE)
    )
    data = b""
    while len(data) < SIZE:
        data += json.dumps(next(rows)).encode()
    return data[:SIZE]


DATA = records()


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("codec", CODECS)
def test_compress(benchmark: Any, codec: Compression, who: str) -> None:
    """Records to a block."""
    name = codec.name.lower()
    benchmark.group = f"compress {name} 16 KiB"
    encode = {"kraftspec": partial(compress, codec), "aiokafka": theirs(name, "encode")}[who]
    packed = bytes(benchmark(encode, DATA))
    benchmark.extra_info.update(who=who, compressedBytes=len(packed))
    assert decompress(codec, packed) == DATA


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("codec", CODECS)
def test_decompress(benchmark: Any, codec: Compression, who: str) -> None:
    """A block that ours wrote, to records."""
    name = codec.name.lower()
    benchmark.group = f"decompress {name} 16 KiB"
    packed = compress(codec, DATA)
    decode = {"kraftspec": partial(decompress, codec), "aiokafka": theirs(name, "decode")}[who]
    benchmark.extra_info.update(who=who, compressedBytes=len(packed))
    assert bytes(benchmark(decode, packed)) == DATA


def theirs(name: str, direction: str) -> Any:
    """aiokafka's function, as its record batches call it."""
    return getattr(aiokafka, f"{name}_{direction}")
