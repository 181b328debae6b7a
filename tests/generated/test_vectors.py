"""Every golden vector, both directions, through each of the three ways to run a plan.

The bytes and the values of a vector are Apache Kafka's own.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.adapters.ours import SETS
from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath.interpret import Decoder, Encoder
from kraftspec.fastpath.message import Message

FILES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in Path(vectors_root()).glob("*/*.json")
    # A batch has no plan (tests/fastpath/test_record_batch.py has it), the other is no message.
    if path.parent.name in ("kafka", *SETS) and path.stem not in ("RecordBatch", "NoSuchMessage")
)


def message_class(name: str) -> type[Message]:
    spec, message = name.split("/")
    package = import_module(f"kraftspec.generated.{spec.replace('-', '_')}")
    cls: type[Message] = getattr(package, message)
    return cls


@cache
def vectors_of(name: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = json.loads((vectors_root() / f"{name}.json").read_bytes())[
        "tests"
    ]
    return [test for test in tests if test["result"] == "valid"]


def exactly(value: Any) -> str:
    """Tell 1, 1.0 and true apart, as ``==`` does not."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("name", FILES)
def test_message_methods(name: str) -> None:
    cls = message_class(name)
    for test in vectors_of(name):
        version, data = test["version"], bytes.fromhex(test["hex"])
        assert cls.from_json(test["value"], version).encode(version) == data, test["id"]
        read = cls.decode(data, version)
        if test["op"] == "roundtrip":
            assert exactly(read.to_json(version)) == exactly(test["value"]), test["id"]


@pytest.mark.parametrize("name", FILES)
def test_straight_line_code_needs_no_help(name: str) -> None:
    """Called directly: had it refused, ``encode`` would quietly have asked the interpreter."""
    codec = message_class(name).CODEC
    for test in vectors_of(name):
        version, data = test["version"], bytes.fromhex(test["hex"])
        read, end = codec.decoders[version](memoryview(data), 0)
        assert end == len(data), test["id"]
        parts: list[bytes] = []
        codec.encoders[version](read, parts.append)
        assert b"".join(parts) == data, test["id"]


@pytest.mark.parametrize("name", FILES)
def test_interpreter(name: str) -> None:
    codec = message_class(name).CODEC
    for test in vectors_of(name):
        version, data = test["version"], bytes.fromhex(test["hex"])
        layout = codec.layout(version)
        decoder = Decoder(data, 0, codec.layouts, codec.make)
        read = decoder.struct(layout)
        assert decoder.at == len(data), test["id"]
        assert Encoder(codec.layouts, codec.structs).struct(layout, read) == data, test["id"]
        if test["op"] == "roundtrip":
            assert exactly(read.to_json(version)) == exactly(test["value"]), test["id"]
