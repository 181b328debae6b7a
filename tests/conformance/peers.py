"""Our codec beside Apache Kafka's own classes: ask both, and say where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import settings

from kraftspec.conformance.harness import Reply, decode_request, encode_request
from kraftspec.conformance.java import KafkaAdapter
from kraftspec.conformance.run import value_difference
from kraftspec.fastpath import interpret
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message

KAFKA = "kafka"
Value = dict[str, Any]


def effort() -> int:
    """Return how much the hypothesis profile asks for: 1 in ``fast``, 100 in ``deep``."""
    return max(1, settings().max_examples // 50)


def seed() -> int:
    """Return a seed: always the same one in ``fast``, news in the deep profiles."""
    return 0 if settings().derandomize else Random().getrandbits(32)


@dataclass(frozen=True, slots=True)
class Answer:
    """What Kafka's classes said: the value encoded, and the bytes of that decoded again."""

    version: int
    value: Value
    encoded: Reply
    decoded: Reply


def ask(
    kafka: KafkaAdapter, set_name: str, message: str, cases: Sequence[tuple[int, Value]]
) -> Iterator[Answer]:
    """Have Kafka encode (version, value) of one message, and decode what it wrote."""
    spec = None if set_name == KAFKA else set_name
    encoded = list(
        kafka.run(
            encode_request(str(at), message, version, value, spec)
            for at, (version, value) in enumerate(cases)
        )
    )
    decoded = kafka.run(
        decode_request(str(at), message, version, reply.get("hex", ""), spec)
        for at, ((version, _), reply) in enumerate(zip(cases, encoded, strict=True))
    )
    for (version, value), made, read in zip(cases, encoded, decoded, strict=True):
        yield Answer(version, value, made, read)


def difference(cls: type[Message], answer: Answer) -> str:
    """Say how our codec and Kafka part over a value, in either direction; empty when they agree.

    Straight-line code, interpreter and JSON are all held to Kafka's bytes and to its value.
    """
    version, made = answer.version, answer.encoded.get("hex")
    if made is None:
        return f"Kafka refused the value: {answer.encoded}"
    data, codec = bytes.fromhex(made), cls.CODEC
    message = cls.from_json(answer.value, version)
    parts: list[bytes] = []
    codec.encoders[version](message, parts.append)
    twin = interpret.Encoder(codec.layouts, codec.structs)
    for name, ours in (
        ("straight-line", b"".join(parts)),
        ("interpreted", twin.struct(codec.layout(version), message)),
    ):
        if ours != data:
            return f"{name} encode: {ours.hex()} is ours, {made} is Kafka's"
    if "value" not in answer.decoded:
        return _refused_too(cls, version, data, answer.decoded)
    for name, (value, end) in (
        ("straight-line", codec.decoders[version](data, 0)),
        ("interpreted", cls._interpret(data, 0, version, False)),
        ("lenient", cls._interpret(data, 0, version, True)),
    ):
        where = value_difference(answer.decoded["value"], value.to_json(version))
        if where or end != len(data):
            return f"{name} decode of {made}, {end} of {len(data)} bytes read: {where}"
        if value.encode(version) != data:
            return f"{name} decode of {made} and encode: {value.encode(version).hex()}"
    return ""


def _refused_too(cls: type[Message], version: int, data: bytes, decoded: Reply) -> str:
    """Kafka does not read all that it writes: elements of no bytes are more than bytes left."""
    try:
        value = cls.decode(data, version, lenient=True)
    except CodecError:
        return ""
    return f"Kafka refused its own bytes, which we read as {value}: {decoded}"
