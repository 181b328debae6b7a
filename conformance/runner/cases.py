"""Select the tests of a run: read vectors, filter, shard and shuffle them, and make request lines.

A *case* is a test in one direction. A roundtrip is two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from kraftspec.conformance.raw.vectors import KafkaVerdict, Note, Source, Test
from kraftspec.conformance.vectors import KAFKA

Direction = Literal["encode", "decode"]
NODE = "node"  # The directory of node vectors, which have another format.
DIRECTIONS: tuple[Direction, ...] = ("encode", "decode")
FILTER_KEYS = ("set", "message", "version", "family", "direction", "flag", "id", "result")
FILTER_HELP = (
    "Only these tests. A bare word is a part of SET/MESSAGE; else KEY:PATTERN, the keys being "
    f"{', '.join(FILTER_KEYS)}, a pattern with * and ? or, for version, 3 or 0-2. Filters with "
    "one key are alternatives; different keys must all match. Repeatable."
)


# The values of these keys are known, so a misspelt one is an error.
_CLOSED = {"direction": DIRECTIONS, "result": ("valid", "invalid", "acceptable")}


class RawVerdict(KafkaVerdict, kw_only=True):
    """The outcome of Kafka's classes, with the value as JSON text."""

    value: msgspec.Raw | UnsetType = UNSET  # type: ignore[assignment]  # narrower in what it reads


class RawTest(Test, kw_only=True):
    """A test with the value as JSON text: most are only sent, or compared byte for byte."""

    value: msgspec.Raw | UnsetType = UNSET  # type: ignore[assignment]  # narrower in what it reads
    kafka: RawVerdict | UnsetType = UNSET


class RawFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A vector file as the runner reads it."""

    schema_version: Literal[1] = msgspec.field(name="schemaVersion")
    message: str
    source: Source
    notes: dict[str, Note]
    tests: list[RawTest]
    spec: str = KAFKA


class Case(msgspec.Struct, frozen=True, gc=False):
    """One test in one direction, of a message of a set."""

    spec: str
    message: str
    test: RawTest
    direction: Direction

    @property
    def key(self) -> str:
        """Return the message as results name it: drafts with their set."""
        return self.message if self.spec == KAFKA else f"{self.spec}/{self.message}"

    @property
    def name(self) -> str:
        """Return the name that patterns of known failures match."""
        test = self.test
        return f"{self.spec}/{self.message}/{test.version}/{test.family}/{self.direction}/{test.id}"

    @property
    def flags(self) -> list[str]:
        """Return the names of the bugs and policies that the case tests."""
        return [] if self.test.flags is UNSET else list(self.test.flags)

    def line(self) -> tuple[str, bytes]:
        """Return the id and the line of the request."""
        test, encode = self.test, self.direction == "encode"
        id = f"{test.id}-e" if encode else f"{test.id}-d"
        spec = "" if self.spec == KAFKA else f'"spec":"{self.spec}",'
        head = (
            f'{{"cmd":"{self.direction}","id":"{id}",{spec}"message":"{self.message}",'
            f'"version":{test.version},'
        )
        if not encode:
            return id, f'{head}"hex":"{test.hex}"}}\n'.encode()
        value = bytes(test.value)  # type: ignore[arg-type]  # an encode test has one
        if b"\n" in value:  # In a hand-written file; newlines are between tokens only.
            value = value.replace(b"\n", b" ").replace(b"\r", b" ")
        return id, b'%b"value":%b}\n' % (head.encode(), value)


class Filters:
    """The filters of ``--filter``: any value of a key matches, and all keys must match."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        """Read filters as ``FILTER_HELP`` has them; ``ValueError`` for an invalid one."""
        self.texts = tuple(texts)
        self._by_key: dict[str, list[str]] = {}
        for text in texts:
            key, colon, pattern = text.partition(":")
            if not colon:
                key, pattern = "", text
            elif key not in FILTER_KEYS:
                raise ValueError(f"{text!r}: there is no key {key!r}: {', '.join(FILTER_KEYS)}")
            if key == "version":
                _versions(pattern)
            closed = _CLOSED.get(key)
            if closed and not any(fnmatchcase(name, pattern) for name in closed):
                raise ValueError(f"{text!r}: {key} is one of {', '.join(closed)}")
            self._by_key.setdefault(key, []).append(pattern)

    def file_named(self, stem: str) -> bool:
        """Whether a file of this name may match: most files need not be read."""
        bare = [pattern.rpartition("/")[2] for pattern in self._by_key.get("", ())]
        named = self._by_key.get("message", ())
        return (not bare or any(_part(pattern, stem) for pattern in bare)) and (
            not named or any(fnmatchcase(stem, pattern) for pattern in named)
        )

    def of_message(self, spec: str, message: str) -> bool:
        """Whether a message of a set matches."""
        return self._match("set", spec) and self.file_named(message) and self._bare(spec, message)

    def of_test(self, test: RawTest) -> bool:
        """Whether a test matches in at least one direction."""
        flags = () if test.flags is UNSET else test.flags
        versions = self._by_key.get("version")
        patterns = self._by_key.get("flag")
        return (
            self._match("id", test.id)
            and self._match("family", test.family)
            and self._match("result", test.result)
            and (versions is None or any(test.version in _versions(text) for text in versions))
            and (
                patterns is None
                or any(fnmatchcase(flag, pattern) for flag in flags for pattern in patterns)
            )
        )

    def of_direction(self, direction: Direction) -> bool:
        """Whether a direction matches."""
        return self._match("direction", direction)

    def _bare(self, spec: str, message: str) -> bool:
        patterns = self._by_key.get("", ())
        return not patterns or any(_part(pattern, f"{spec}/{message}") for pattern in patterns)

    def _match(self, key: str, value: str) -> bool:
        patterns = self._by_key.get(key)
        return patterns is None or any(fnmatchcase(value, pattern) for pattern in patterns)


def _part(pattern: str, text: str) -> bool:
    if set("*?[") & set(pattern):
        return fnmatchcase(text, pattern) or fnmatchcase(text.rpartition("/")[2], pattern)
    return pattern.lower() in text.lower()


def _versions(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        least, most = int(first), int(last if dash else first)
        if least > most:
            raise ValueError
    except ValueError:
        raise ValueError(f"version:{text} is not version:3 or version:0-2") from None
    return range(least, most + 1)


class Shard(msgspec.Struct, frozen=True):
    """The part ``number`` (from 1) of ``count``. Only the test's id determines its part."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``1/4``; ``ValueError`` for anything else."""
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ValueError(f"{text!r} is not 1/4, the first of four parts")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, test: RawTest) -> bool:
        """Whether the test is in this part."""
        return int(test.id, 16) % self.count == self.number - 1


def read_cases(root: Path, filters: Filters, shard: Shard | None = None) -> list[Case]:
    """Read the selected cases in the order of the vectors: set, message, test, direction."""
    decode = msgspec.json.Decoder(RawFile).decode
    by_message: list[tuple[str, str, list[RawTest]]] = []
    for path in sorted(root.glob("*/*.json")):
        if path.parent.name == NODE or not filters.file_named(path.stem):
            continue
        file = decode(path.read_bytes())
        if filters.of_message(file.spec, file.message):
            by_message.append((file.spec, file.message, file.tests))
    by_message.sort(key=lambda entry: (entry[0] != KAFKA, entry[0], entry[1]))
    return [
        Case(spec, message, test, direction)
        for spec, message, tests in by_message
        for test in tests
        if filters.of_test(test) and (shard is None or shard.has(test))
        for direction in directions(test)
        if filters.of_direction(direction)
    ]


def directions(test: RawTest) -> tuple[Direction, ...]:
    """Return the directions of a test: a roundtrip has both."""
    return DIRECTIONS if test.op == "roundtrip" else (test.op,)


def shuffled(count: int, seed: int | None) -> list[int]:
    """Return the numbers of the cases in the order in which the adapter gets them."""
    order = list(range(count))
    if seed is not None:
        Random(seed).shuffle(order)
    return order


def dealt(order: Sequence[int], jobs: int, chunk: int) -> Iterator[list[int]]:
    """Distribute an order to jobs in chunks, round robin. It is deterministic."""
    chunks = [order[at : at + chunk] for at in range(0, len(order), chunk)]
    for job in range(jobs):
        yield [number for part in chunks[job::jobs] for number in part]
