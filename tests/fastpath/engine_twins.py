"""Holding the native engine against the pure codec: the same value, bytes or error."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kraftspec.fastpath import message, native
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import VoteRequest

from .messages import by_straight_line, put_by_straight_line

engine = native.load("_engine")
if engine is None:
    pytest.skip(native.describe(), allow_module_level=True)


@contextmanager
def codec(name: str) -> Iterator[None]:
    """Run messages by one codec for a while."""
    message.use_codec(name)  # type: ignore[arg-type]  # one of the two
    try:
        yield
    finally:
        message.use_codec("native")


def same(one: Any, other: Any) -> bool:
    """Whether two decoded values are equal to the last type: 1 is not True, a list no tuple."""
    if type(one) is not type(other):
        return False
    if hasattr(one, "__struct_fields__"):
        names = one.__struct_fields__
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, memoryview):
        facts = ("obj", "format", "ndim", "shape", "strides", "readonly", "c_contiguous")
        return one == other and all(getattr(one, f) == getattr(other, f) for f in facts)
    return bool(one == other)


def verdict(call: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what came of a call: its value, or class, path, offset and detail of its refusal."""
    try:
        return "value", call()
    except CodecError as error:
        return "refused", error.error_class, error.path, error.offset, error.detail


def hold_decode(cls: type[Message], data: bytes, version: int, errors: bool = True) -> bool:
    """Decode with both; return whether the bytes are a message."""
    decoded = engine.try_decode(cls, data, version)
    straight = by_straight_line(cls, data, version)
    assert (decoded is None) == (straight is None), data.hex()
    if decoded is not None:
        assert same(decoded, straight), data.hex()
        return True
    if errors:
        with codec("python"):
            pure = verdict(lambda: cls.decode(data, version))
        assert pure[0] == "refused"
        assert verdict(lambda: cls.decode(data, version)) == pure
    return False


def hold_encode(value: Message, version: int) -> str:
    """Encode with both; return whether it was encoded, rejected, or left to the pure codec."""
    encoded = engine.try_encode(value, version)
    straight = put_by_straight_line(value, version)
    if encoded is not None:
        assert encoded == straight
        assert b"".join(value.encode_parts(version)) == encoded
        return "encoded"
    with codec("python"):
        pure = verdict(lambda: value.encode(version))
    assert verdict(lambda: value.encode(version)) == pure
    assert straight is None or pure == ("value", straight)
    return "left" if pure[0] == "value" else "refused"


def vote(partitions: int = 3) -> VoteRequest:
    """Return a message of three levels."""
    inner = [VoteRequest.PartitionData() for _ in range(partitions)]
    return VoteRequest(topics=[VoteRequest.TopicData(topic_name="t", partitions=inner)])
