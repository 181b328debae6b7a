"""One of two adapters under comparison: asked in bulk, started again where a question ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from kraftspec.conformance.harness import (
    IN_FLIGHT_COUNT_MAX,
    Adapter,
    AdapterError,
    Reply,
    Request,
    decode_request,
    encode_request,
    version_range,
)
from kraftspec.conformance.java import KafkaAdapter
from kraftspec.conformance.vectors import KAFKA
from kraftspec.specs import specs_root


@dataclass(frozen=True, slots=True)
class Question:
    """A value to encode, or bytes to decode, of one message at one version."""

    spec: str
    message: str
    version: int
    asked: dict[str, Any] | bytes

    @property
    def direction(self) -> str:
        """``encode`` or ``decode``."""
        return "decode" if isinstance(self.asked, bytes) else "encode"

    @property
    def kin(self) -> tuple[str, str, int, str]:
        """What questions of the same pair and direction share."""
        return self.spec, self.message, self.version, self.direction

    def request(self, number: int) -> Request:
        """Return the question as the harness asks it."""
        spec = None if self.spec == KAFKA else self.spec
        if isinstance(self.asked, bytes):
            asked = self.asked.hex()
            return decode_request(str(number), self.message, self.version, asked, spec)
        return encode_request(str(number), self.message, self.version, self.asked, spec)


@dataclass(slots=True)
class Side:
    """An adapter and what it serves.

    A reply to a question that ended the process is ``{"ended": KIND}``, with the kind of the
    ``AdapterError``. ``loose_ends`` counts the times it ended and no question alone did it again.
    """

    name: str
    adapter: Adapter
    version: str = ""
    served: set[tuple[str, str, int]] = field(default_factory=set)
    sets: tuple[str, ...] = ()
    loose_ends: int = 0

    def start(self, sets: Sequence[str] = ()) -> None:
        """Start the adapter and ask what it serves; load ``sets`` where it can be given them.

        Raises ``AdapterError``.
        """
        self.sets = tuple(sets)
        self.adapter.start()
        hello = self.adapter.hello()
        self.version = hello.version
        self.served = set(_pairs(KAFKA, hello.messages))
        for name, messages in ({} if hello.sets is UNSET else hello.sets).items():
            self.served |= set(_pairs(name, messages))
        self._load()

    def _load(self) -> None:
        if isinstance(self.adapter, KafkaAdapter):  # Only Kafka's own is given specs.
            for name in self.sets:
                if name != KAFKA:
                    made = self.adapter.load(name, directory=specs_root() / name)
                    self.served |= set(_pairs(name, made))

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        """Put questions, and return the replies in order."""
        replies: list[Reply] = []
        while len(replies) < len(questions):
            first = len(replies)
            try:
                asked = enumerate(questions[first:], first)
                for reply in self.adapter.run(q.request(at) for at, q in asked):
                    replies.append(reply)
            except AdapterError as error:
                self._again()
                if len(replies) == len(questions) - 1:  # It was alone.
                    replies.append({"ended": error.kind})
                else:
                    replies += self._one_by_one(questions, len(replies))
        return replies

    def _one_by_one(self, questions: Sequence[Question], first: int) -> Iterator[Reply]:
        """Ask what was in flight again, alone, up to the question that ends the process."""
        for at in range(first, min(first + IN_FLIGHT_COUNT_MAX, len(questions))):
            try:
                yield self.adapter.request(questions[at].request(at))
            except AdapterError as error:
                self._again()
                yield {"ended": error.kind}
                return
        self.loose_ends += 1

    def _again(self) -> None:
        self.adapter.start()
        self._load()


def _pairs(spec: str, messages: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    for message, versions in messages.items():
        for version in version_range(versions):
            yield spec, message, version
