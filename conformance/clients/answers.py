"""Answers as bytes: as they should be, or with what a script says is wrong with them."""

from __future__ import annotations

import re
from typing import Any

from kraftspec.conformance.clients.exchange_files import Answer, versions_of
from kraftspec.fastpath.message import Message, Struct
from kraftspec.fastpath.types import UnknownTags
from kraftspec.generated.kafka import ResponseHeader

_TAGS = ((9_001, b"\x00\xff"), (1 << 20, b"unknown"))
_SEVEN_BITS = 0x7F
_CAPITAL = re.compile(r"([A-Z])")


class Script:
    """The answers of an exchange that are not as they should be, and how often each matched."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers
        self._matches = [0] * len(answers)
        self._acts = [0] * len(answers)

    def unmet(self) -> list[str]:
        """Return the APIs of answers that have not acted."""
        return [one.api for one, acts in zip(self._answers, self._acts, strict=True) if not acts]

    def next_for(
        self, api: str, version: int, node: int, message: Message | None = None
    ) -> list[Answer]:
        """Return what acts on a request that has come; with ``message``, on the answer to it.

        Only claims need the answer: they are about a field that it has or has not.
        """
        acting = []
        for at, answer in enumerate(self._answers):
            if answer.api != api or answer.node not in (None, node):
                continue
            if bool(answer.claim) != (message is not None):
                continue
            if message is not None and not all(_reaches(message, path) for path in answer.claim):
                continue
            if answer.versions and version not in (versions_of(answer.versions) or ()):
                continue
            self._matches[at] += 1
            number = self._matches[at]
            if answer.nth in (0, number) and number > answer.after:
                self._acts[at] += 1
                acting.append(answer)
        return acting


def encoded(message: Message, version: int, correlation: int, acting: list[Answer]) -> bytes:
    """Return the frame of an answer, its size included."""
    header = ResponseHeader(correlation_id=correlation)
    header_version = message.header_version(version)
    for answer in acting:
        if answer.tags:
            _tag(message, _TAGS)
            header.unknown_tagged_fields = _TAGS
        header.correlation_id += answer.correlation
    if version not in message.FLEXIBLE_VERSIONS:
        _tag(message, ())
    if header_version == 0:
        header.unknown_tagged_fields = ()
    body = bytes(message.encode(version))
    for answer in acting:
        for path, length in answer.claim.items():
            body = with_claim(message, version, path, length, body)
        body = body if answer.body is None else bytes.fromhex(answer.body)
        body += bytes.fromhex(answer.append)
    frame = header.encode(header_version) + body
    size = len(frame)
    for answer in acting:
        size = size if answer.frame_size is None else answer.frame_size
        if answer.frame is not None:
            return bytes.fromhex(answer.frame)
    return (size & 0xFFFFFFFF).to_bytes(4, "big") + frame


def with_claim(message: Message, version: int, path: str, length: int, body: bytes) -> bytes:
    """Return the body with another length said of the first field of that path.

    Where the length stands is seen by encoding the field with no element and with one: the two
    differ in the length first. Raises ValueError and
    AttributeError where there is no such field.
    """
    owner, attr = _field(message, path)
    kept = getattr(owner, attr)
    empty, one, width = _samples(kept)
    try:
        setattr(owner, attr, empty)
        without = bytes(message.encode(version))
        setattr(owner, attr, one)
        with_one = bytes(message.encode(version))
    finally:
        setattr(owner, attr, kept)
    # Where an array of fixed size got an element, the length is still what differs first.
    at = next(at for at, (a, b) in enumerate(zip(without, with_one, strict=False)) if a != b)
    if version in message.FLEXIBLE_VERSIONS:
        end = at
        while body[end] & 0x80:
            end += 1
        return body[:at] + _uvarint((length + 1) & 0xFFFFFFFF) + body[end + 1 :]
    start = at - width + 1
    return body[:start] + (length & (1 << 8 * width) - 1).to_bytes(width, "big") + body[at + 1 :]


def _field(message: Message, path: str) -> tuple[Any, str]:
    """Return the struct and the attribute that a path such as ``topics.name`` leads to."""
    owner: Any = message
    *above, last = (_CAPITAL.sub(r"_\1", word).lower() for word in path.split("."))
    for attr in above:
        items = getattr(owner, attr)
        if not items:
            raise ValueError(f"{path}: {attr} is empty")
        owner = items[0]
    return owner, last


def _reaches(message: Message, path: str) -> bool:
    """Whether there is a field of that path, and not an empty array before it."""
    try:
        owner, attr = _field(message, path)
    except ValueError:
        return False
    return getattr(owner, attr) not in ([], ())


def _samples(kept: Any) -> tuple[Any, Any, int]:
    """Return a field's value without elements, with one, and the width of its length."""
    if isinstance(kept, str):
        return "", "x", 2
    if kept is None or isinstance(kept, bytes | memoryview):
        return b"", b"x", 4
    if not kept:
        raise ValueError("the array must have an element, of which one is made")
    return type(kept)(), kept[:1], 4


def _tag(value: Any, tags: UnknownTags) -> None:
    """Give a struct and all below it these tagged fields.

    A struct that has its defaults is in a tagged field that is left out, or not of this version.
    """
    if isinstance(value, Struct | Message):
        for name in value.__struct_fields__:
            below = getattr(value, name)
            if not isinstance(below, Struct) or below != type(below)():
                _tag(below, tags)
        if "unknown_tagged_fields" in value.__struct_fields__:
            setattr(value, "unknown_tagged_fields", tags)  # noqa: B010 - not of every struct
    elif isinstance(value, list):
        for item in value:
            _tag(item, tags)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    return bytes([*out, value])
