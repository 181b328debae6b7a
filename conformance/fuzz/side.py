"""One of two compared adapters. It gets questions in bulk, and is restarted if one ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from kraftspec.conformance.adapters.harness import (
    Adapter,
    AdapterError,
    Reply,
    Request,
    decode_request,
    encode_request,
    version_range,
)
from kraftspec.conformance.runner.pool import Charge, begin, exchange
from kraftspec.conformance.vectors import KAFKA


@dataclass(frozen=True, slots=True)
class Question:
    """A value to encode, or bytes to decode, of one message at one version."""

    spec: str
    message: str
    version: int
    payload: dict[str, Any] | bytes

    @property
    def direction(self) -> str:
        """``encode`` or ``decode``."""
        return "decode" if isinstance(self.payload, bytes) else "encode"

    @property
    def kin(self) -> tuple[str, str, int, str]:
        """The pair and the direction."""
        return self.spec, self.message, self.version, self.direction

    def request(self, number: int) -> Request:
        """Return the question as a request of the harness protocol."""
        spec = None if self.spec == KAFKA else self.spec
        if isinstance(self.payload, bytes):
            data = self.payload.hex()
            return decode_request(str(number), self.message, self.version, data, spec)
        return encode_request(str(number), self.message, self.version, self.payload, spec)


@dataclass(slots=True)
class Side:
    """An adapter and the pairs that it serves.

    The reply to a question that ended the process is ``{"ended": KIND}``, with the kind of the
    ``AdapterError``. ``loose_ends`` counts endings that no single question could reproduce.
    """

    name: str
    adapter: Adapter
    version: str = ""
    served: set[tuple[str, str, int]] = field(default_factory=set)
    sets: tuple[str, ...] = ()
    loose_ends: int = 0

    def start(self, sets: Sequence[str] = ()) -> None:
        """Start the adapter, read which pairs it serves, and load ``sets`` if it can load sets.

        Raises ``AdapterError``.
        """
        self.sets = tuple(sets)
        hello = begin(self.adapter, {*sets})
        self.version = hello.version
        self.served = set(_pairs(KAFKA, hello.messages))
        for name, messages in ({} if hello.sets is UNSET else hello.sets).items():
            self.served |= set(_pairs(name, messages))

    def query(self, questions: Sequence[Question]) -> list[Reply]:
        """Send questions; return the replies in order."""

        def put(first: int, end: int) -> Iterator[Reply]:
            return self.adapter.run(questions[at].request(at) for at in range(first, end))

        replies: list[Reply] = []
        for at, reply in exchange(self.adapter, len(questions), put, self._again):
            if not isinstance(reply, Charge):
                replies.append(reply)
            elif reply.passes_alone:
                self.loose_ends += 1
            else:
                replies[at:] = [{"ended": reply.error.kind}]
        return replies

    def _again(self, _: AdapterError) -> bool:
        begin(self.adapter, {*self.sets})
        return True


def _pairs(spec: str, messages: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    for message, versions in messages.items():
        for version in version_range(versions):
            yield spec, message, version
