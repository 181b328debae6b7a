"""Value types of the generated messages: uuids, entity types, unknown tagged fields."""

from __future__ import annotations

import binascii
import os
import uuid
from typing import NewType, Self

UUID_BYTES = 16

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
GroupId = NewType("GroupId", str)
TopicName = NewType("TopicName", str)
TransactionalId = NewType("TransactionalId", str)

# (tag, payload) pairs in ascending tag order, as found on the wire.
UnknownTags = tuple[tuple[int, bytes], ...]


class Uuid(bytes):
    """Sixteen bytes that print as Kafka prints them: 22 characters of URL-safe base64.

    Source: ``org.apache.kafka.common.Uuid``. Equal to, and usable as, plain ``bytes``.
    """

    __slots__ = ()

    def __new__(cls, value: bytes | str | uuid.UUID = bytes(UUID_BYTES)) -> Self:
        """Wrap 16 bytes, a ``uuid.UUID`` or Kafka's text; ``ValueError`` for any other length."""
        if isinstance(value, uuid.UUID):
            value = value.bytes
        elif isinstance(value, str):
            return cls.parse(value)
        elif not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"a uuid is 16 bytes or their text, not {type(value).__name__}")
        self = super().__new__(cls, value)
        if len(self) != UUID_BYTES:
            raise ValueError(f"a uuid is {UUID_BYTES} bytes, not {len(self)}")
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the base64 form; ``ValueError`` names the mistake in it."""
        try:
            raw = binascii.a2b_base64(
                text.translate(_FROM_URL) + "=" * (-len(text) % 4), strict_mode=True
            )
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{text!r} is not a uuid in URL-safe base64: {error}") from None
        if len(raw) != UUID_BYTES:
            raise ValueError(f"{text!r} is {len(raw)} bytes in base64; a uuid is {UUID_BYTES}")
        return cls(raw)

    @classmethod
    def random(cls) -> Self:
        """Draw a random (version 4) uuid; never a reserved one, never one that starts with -."""
        while True:
            candidate = cls(uuid.UUID(bytes=os.urandom(UUID_BYTES), version=4))
            if not str(candidate).startswith("-"):
                return candidate

    def to_uuid(self) -> uuid.UUID:
        """Convert to the standard library's type."""
        return uuid.UUID(bytes=bytes(self))

    def __str__(self) -> str:
        return binascii.b2a_base64(self, newline=False).translate(_TO_URL).decode().rstrip("=")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = str.maketrans("-_", "+/")

ZERO_UUID = Uuid()  # "no uuid" on the wire; the default of every uuid field
