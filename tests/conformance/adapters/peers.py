"""Our codec beside Apache Kafka's own classes: ask both, and say where they part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from hypothesis import settings
from tests.conformance.fuzz.random_values import Lacking, Values, lacking

from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.adapters.harness import Reply, decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.runner.judge import value_difference
from kraftspec.fastpath import interpret
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.plan import FieldLayout, Layout
from kraftspec.fastpath.values import from_json

KAFKA = "kafka"
Value = dict[str, Any]


def effort() -> int:
    """Return how much the hypothesis profile asks for: 1 in ``fast``, 100 in ``deep``."""
    return max(1, settings().max_examples // 50)


def seed() -> int:
    """Return a seed: always the same one in ``fast``, news in ``deep``."""
    return 0 if settings().derandomize else Random().getrandbits(32)


def spec_of(set_name: str) -> str | None:
    """Return a set's name as requests have it: none for kafka."""
    return None if set_name == KAFKA else set_name


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
    spec = spec_of(set_name)
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
    for (version, value), encoding, read in zip(cases, encoded, decoded, strict=True):
        yield Answer(version, value, encoding, read)


def difference(cls: type[Message], answer: Answer) -> str:
    """Say how our codec and Kafka part over a value, in either direction; empty when they agree.

    Straight-line code, interpreter and JSON are all held to Kafka's bytes and to its value.
    """
    version, hex_text = answer.version, answer.encoded.get("hex")
    if hex_text is None:
        return _refuses_too(cls, answer)
    data, codec = bytes.fromhex(hex_text), cls.CODEC
    message = cls.from_json(answer.value, version)
    parts: list[bytes] = []
    codec.encoders[version](message, parts.append)
    twin = interpret.Encoder(codec.layouts, codec.structs)
    for name, ours in (
        ("straight-line", b"".join(parts)),
        ("interpreted", twin.struct(codec.layout(version), message)),
    ):
        if ours != data:
            return f"{name} encode: {ours.hex()} is ours, {hex_text} is Kafka's"
    if "value" not in answer.decoded:
        return _refused_too(cls, version, data, answer.decoded)
    for name, (value, end) in (
        ("straight-line", codec.decoders[version](data, 0)),
        ("interpreted", cls._interpret(data, 0, version, False)),
        ("lenient", cls._interpret(data, 0, version, True)),
    ):
        where = value_difference(answer.decoded["value"], value.to_json(version))
        if where or end != len(data):
            return f"{name} decode of {hex_text}, {end} of {len(data)} bytes read: {where}"
        if value.encode(version) != data:
            return f"{name} decode of {hex_text} and encode: {value.encode(version).hex()}"
    return ""


def _refuses_too(cls: type[Message], answer: Answer) -> str:
    """A field that another version has and whose default is NaN never equals it: no encode."""
    encoded, error = attempt(
        lambda: cls.from_json(answer.value, answer.version).encode(answer.version)
    )
    theirs = answer.encoded["error"]["class"]
    if error is not None and theirs == str(error.error_class) == "field_not_in_version":
        return ""
    return f"Kafka refused the value, {answer.encoded}; ours {encoded or error}"


def _refused_too(cls: type[Message], version: int, data: bytes, decoded: Reply) -> str:
    """Kafka does not read all that it writes: elements of no bytes are more than bytes left."""
    try:
        value = cls.decode(data, version, lenient=True)
    except CodecError:
        return ""
    return f"Kafka refused its own bytes, which we read as {value}: {decoded}"


def verdict_difference(cls: type[Message], version: int, data: bytes, reply: dict[str, Any]) -> str:
    """Say how our decoders and Kafka part over bytes."""
    theirs = reply.get("value")
    strict, why = attempt(lambda: cls.decode(data, version).to_json(version))
    lenient, why_lenient = attempt(lambda: cls.decode(data, version, lenient=True).to_json(version))
    if (lenient is None) != (theirs is None):
        return f"lenient {lenient or why_lenient}, Kafka {reply}"
    if theirs is not None and (where := value_difference(theirs, lenient)):
        return f"lenient decode: {where}"
    if strict is not None and (where := value_difference(theirs, strict)):
        return f"strict decode: {where}"
    try:
        fast = cls.CODEC.decoders[version](data, 0)[1] == len(data)
    except Exception:
        fast = False  # Straight-line code refuses by any exception.
    return "" if fast == (strict is not None) else f"straight-line {fast}, interpreter {why}"


def attempt(decode: Callable[[], Any]) -> tuple[Any, CodecError | None]:
    """Return the value and no error, or None and the error; any other exception is a failure."""
    try:
        return decode(), None
    except CodecError as error:
        return None, error


def absent_differences(
    kafka: KafkaAdapter,
    set_name: str,
    spec: Spec,
    cls: type[Message],
    values: Values,
    repeat: int = 1,
) -> Iterator[str]:
    """Set each field that a version lacks; yield how we and Kafka part, empty where we agree."""
    cases = [
        (version, field, field.value(values, plan_message(spec, version).struct),
         values.field(field.field, 0))
        for version in spec.valid_versions
        for field in lacking(spec, version)
        for _ in range(repeat)
    ]  # fmt: skip
    objects = []
    for version, field, value, extra in cases:
        message = cls.from_json(value, version)
        _give(cls, message, field, extra)
        objects.append(message)
        field.inside(value)[field.absent.name] = extra
    replies = kafka.run(
        encode_request(str(at), spec.name, version, value, spec_of(set_name))
        for at, (version, _, value, _) in enumerate(cases)
    )
    for (version, field, _, extra), message, reply in zip(cases, objects, replies, strict=True):
        encoded, error = attempt(partial(message.encode, version))
        theirs = reply.get("hex", reply.get("error", {}).get("class"))
        ours = str(error.error_class) if error else encoded.hex()
        if ours == theirs:
            yield ""
        else:
            where = f"{spec.name} v{version} {field.absent.name}={extra!r}"
            yield f"{where}: ours {error or ours}, Kafka's {reply}"


def _give(cls: type[Message], message: Any, field: Lacking, extra: object) -> None:
    """Set the field in the object, whatever the version says."""
    codec = cls.CODEC
    inner = message
    for step in field.path:
        inner = getattr(inner, step.attr)
        inner = inner[0] if isinstance(inner, list) else inner
    number = codec.structs.index(type(inner))
    known: Iterator[FieldLayout] = (
        entry
        for candidate in codec.layouts
        if candidate[0] == number
        for entry in (*candidate[2], *(tagged[1:6] for tagged in candidate[3]))
    )
    layout = next(entry for entry in known if entry[0] == field.absent.name)
    alone: Layout = (number, False, (layout,), (), (), ())
    read = from_json(codec.layouts, alone, {field.absent.name: extra}, codec.make)
    setattr(inner, field.absent.attr, getattr(read, field.absent.attr))
