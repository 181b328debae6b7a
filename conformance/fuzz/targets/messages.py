"""Properties of decode that hold for any input, for all messages and versions of all sets.

Input: two bytes select the message and version, the rest is decoded. Nothing here needs Java;
``tests/conformance/fuzz/test_differential.py`` compares decode with Kafka.

The engine takes a microsecond for an input, the interpreter and all its twins take a thousand. So
the engine decodes every input, and the others decode one in ``TWINS_ONE_IN``.
"""

from __future__ import annotations

import importlib
import time
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from kraftspec.codegen.generate import specs_sets
from kraftspec.conformance.fuzz.targets import (
    SELECTOR_BYTES,
    TWINS_ONE_IN,
    BrokenError,
    Label,
    by_twins,
)
from kraftspec.conformance.fuzz.values import mutated as change
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath import native
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.specs import specs_root

Pair = tuple[str, type[Message], int]  # set, class, version

INPUT_BYTES_MAX = 4096  # Longer inputs would only contain longer payloads.
# An input is decoded ten times; the slowest valid one of that length takes about 50 ms.
SECONDS_MAX = 2.0
SEEDS_PER_PAIR = 6

engine = native.load("_engine")


@cache
def pairs() -> tuple[Pair, ...]:
    """List every (set, class, version); only the specs determine the order."""
    result: list[Pair] = []
    for message_set in specs_sets(specs_root(), Path(), "kraftspec.generated"):
        package = importlib.import_module(message_set.package)
        for name, row in sorted(package.CATALOGUE.items()):
            cls = getattr(package, name)
            result += [(message_set.name, cls, version) for version in range(row[3], row[4])]
    return tuple(result)


def label(selector: bytes) -> Label:
    """Return the message and version that these bytes select."""
    set_name, cls, version = pairs()[int.from_bytes(selector, "big") % len(pairs())]
    return Label(set_name, cls.__name__, version, "decode")


def check(data: bytes, one_in: int = TWINS_ONE_IN) -> bool:
    """Decode an input; return whether it is a message. Raises ``BrokenError``."""
    if len(data) < SELECTOR_BYTES:
        return False
    everything = pairs()
    number = int.from_bytes(data[:SELECTOR_BYTES], "big") % len(everything)
    set_name, cls, version = everything[number]
    started = time.thread_time()  # Of this thread: a busy machine does not make the decoder slow.
    every_way = engine is None or by_twins(data, one_in)
    try:
        accepted = (_check if every_way else _check_engine)(cls, version, data[SELECTOR_BYTES:])
    except CodecError as error:
        raise BrokenError(f"{set_name}/{cls.__name__} v{version}: refused: {error}") from error
    except Exception as error:
        where = f"{set_name}/{cls.__name__} v{version}"
        raise BrokenError(f"{where}: {type(error).__name__}: {error}") from error
    seconds = time.thread_time() - started
    if seconds > SECONDS_MAX:
        raise BrokenError(f"{set_name}/{cls.__name__} v{version} took {seconds:.1f} s")
    return accepted


def _check_engine(cls: type[Message], version: int, data: bytes) -> bool:
    """Only the engine: it can encode what it decodes, and decode that again."""
    value = engine.try_decode(cls, data, version)
    if value is None:
        return False
    encoded = engine.try_encode(value, version)
    if (
        encoded != data
        and engine.try_encode(engine.try_decode(cls, encoded, version), version) != encoded
    ):
        raise BrokenError(f"the engine writes {encoded and encoded.hex()} of {data.hex()}")
    return True


def _check(cls: type[Message], version: int, data: bytes) -> bool:
    strict = _decoded(cls, data, version, lenient=False)
    lenient = _decoded(cls, data, version, lenient=True)
    if lenient is not None:
        lenient.to_json(version)
    straight = _straight(cls, data, version)
    # All implementations agree on verdict and value, and on the end of a message in longer data.
    if (straight is None) != (strict is None):
        raise BrokenError(f"straight-line code {straight}, the interpreter {strict}")
    compiled = strict if engine is None else engine.try_decode(cls, data, version)
    if (compiled is None) != (strict is None):
        raise BrokenError(f"the engine {compiled}, the interpreter {strict}")
    around = b"\x00" + data + b"\x00"
    part = _decoded_from(cls, around, version)
    if strict is None or straight is None:
        return False
    if part is None or part.encode(version) != strict.encode(version):
        raise BrokenError(f"inside other bytes it is {part}, alone {strict}")
    if lenient is None:
        raise BrokenError("strict decode accepts what lenient decode refuses")
    messages = [value for value in (strict, straight, lenient, compiled) if value is not None]
    values = [value.to_json(version) for value in messages]
    if len({repr(value) for value in values}) > 1:
        raise BrokenError(f"interpreter, straight-line, lenient decode and engine part: {values}")
    if _written(straight, version) != strict.encode(version):
        raise BrokenError(f"straight-line code writes {_written(straight, version)!r} of {strict}")
    # A tagged field with its default is read and not written again; nothing else may change.
    encoded = strict.encode(version)
    if len(encoded) > len(data) or (len(encoded) == len(data) and encoded != data):
        raise BrokenError(f"written again it is {encoded.hex()}")
    again = cls.decode(encoded, version)
    if repr(again.to_json(version)) != repr(values[0]) or again.encode(version) != encoded:
        raise BrokenError(f"written again it is another value: {encoded.hex()}")
    if cls.from_json(values[0], version).encode(version) != encoded:
        raise BrokenError(f"its JSON is another value: {values[0]}")
    _check_into(strict, version, encoded)
    _check_json(cls, version, values[0], Random(zlib.crc32(data)))
    return True


def _check_into(value: Message, version: int, encoded: bytes) -> None:
    """Encode into a buffer: the same bytes, none outside of them; a short buffer is rejected."""
    buffer = bytearray(b"\xa5") * (len(encoded) + 2)
    end = value.encode_into(buffer, 1, version)
    if end != len(encoded) + 1 or buffer != b"\xa5" + encoded + b"\xa5":
        raise BrokenError(f"into a buffer it writes {buffer.hex()} up to {end}")
    if not encoded:
        return
    short = bytearray(len(encoded) - 1)
    try:
        value.encode_into(short, 0, version)
    except (CodecError, ValueError):
        return
    raise BrokenError(f"it fits into a byte less than it has: {encoded.hex()}")


UNUSUAL_JSON: tuple[object, ...] = (
    None, True, 0, -1, 1 << 15, 1 << 31, 1 << 63, -(1 << 63) - 1, 1.5, "", "x", "AA==", "!",
    "\ud800", "0x7ff8000000000000", [], [None], {}, {"tag": 0}, [{"tag": 1, "hex": "0"}],
)  # fmt: skip


def _changed(random: Random, value: object) -> object:
    """Change a JSON value in one place: replace, remove or repeat a value, a key or an item."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(sorted(value))
        rest = {key: inner for key, inner in value.items() if key != name}
        if random.random() < 0.1:
            return (
                rest
                if random.random() < 0.5
                else {**value, "_unknownTaggedFields": UNUSUAL_JSON[-1]}
            )
        return {**value, name: _changed(random, value[name])} if random.random() < 0.9 else rest
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], _changed(random, value[at]), *value[at + random.randint(0, 1) :]]
    return random.choice(UNUSUAL_JSON)


def _check_json(cls: type[Message], version: int, value: object, random: Random) -> None:
    """Change the value's JSON: it is rejected, or it is a value that converts to JSON again."""
    for _ in range(4):
        value = _changed(random, value)
        try:
            message = cls.from_json(value, version)
            again = cls.from_json(message.to_json(version), version)
            encoded = message.encode(version)
        except CodecError as error:
            if not error.detail:
                raise BrokenError(f"a refusal without its reason: {error!r}") from error
            continue
        if again.encode(version) != encoded:
            raise BrokenError(f"its JSON is another value: {value}")


def _decoded(cls: type[Message], data: bytes, version: int, *, lenient: bool) -> Message | None:
    """Decode by the interpreter, which gives a reason for each error; None if it rejects."""
    try:
        value, end = cls._interpret(data, 0, version, lenient)
    except CodecError as error:
        _named(error, len(data))
        value, end = None, 0
    try:
        public = cls.decode(data, version, lenient=lenient)
    except CodecError as error:
        _named(error, len(data))
        public = None
    whole = value is not None and (lenient or end == len(data))
    if whole != (public is not None):
        raise BrokenError(f"decode gives {public}, the interpreter {value} and {end} bytes")
    return value if whole else None


def _named(error: CodecError, size: int) -> None:
    if error.offset is None or not 0 <= error.offset <= size or not error.detail:
        raise BrokenError(f"a refusal without its place: {error!r}")


def _straight(cls: type[Message], data: bytes, version: int) -> Message | None:
    try:
        value, end = cls.CODEC.decoders[version](data, 0)
    except MemoryError:
        raise
    except Exception:
        return None  # Straight-line code rejects by any exception.
    return value if end == len(data) else None


def _written(value: Message, version: int) -> bytes:
    parts: list[bytes] = []
    value.CODEC.encoders[version](value, parts.append)
    return b"".join(parts)


def _decoded_from(cls: type[Message], around: bytes, version: int) -> Message | None:
    try:
        value, end = cls.decode_from(around, 1, version)
    except CodecError as error:
        _named(error, len(around))
        return None
    return value if end == len(around) - 1 else None


def modules() -> list[str]:
    """Name the modules whose coverage guides the fuzzer: interpreter and straight-line code."""
    ours = {f"kraftspec.fastpath.{name}" for name in ("interpret", "message", "values", "wire")}
    return sorted(ours | {cls.CODEC.rendered for _, cls, _ in pairs()})


def seeds() -> Iterator[bytes]:
    """Yield inputs made of golden vectors: some of each pair, from its families in turn."""
    selector = {
        (name, cls.__name__, version): at for at, (name, cls, version) in enumerate(pairs())
    }
    for set_name, file in read_vectors(vectors_root()):
        if file.message == "RecordBatch":
            continue  # The target ``records`` reads batches.
        chosen: dict[int, dict[str, str]] = {}
        for test in file.tests:
            is_valid = test.result == "valid"  # The version of other tests may not exist.
            if is_valid and isinstance(test.hex, str) and len(test.hex) < INPUT_BYTES_MAX:
                chosen.setdefault(test.version, {}).setdefault(str(test.family), test.hex)
        for version, families in chosen.items():
            number = selector[set_name, file.message, version]
            for text in sorted(families.values(), key=len)[-SEEDS_PER_PAIR:]:
                yield number.to_bytes(SELECTOR_BYTES, "big") + bytes.fromhex(text)


def mutated(random: Random, data: bytes, other: bytes) -> bytes:
    """Change an input at random, except the bytes that select the message."""
    return change(random, data, other, keep=SELECTOR_BYTES, size_max=INPUT_BYTES_MAX)
