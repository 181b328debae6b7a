"""Who says what to whom: the requests that pass, by client, node, API and version."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

TALKS_MAX: Final = 1_000  # The oldest are forgotten.


class Key(NamedTuple):
    """Who asks, whom, and what."""

    client_id: str
    node: str
    api: str
    version: int


class Talk:
    """What a client says to a node by one API. Bytes are those of requests and answers."""

    __slots__ = ("answers", "bytes", "requests", "waited_s")

    def __init__(self) -> None:
        self.requests = 0
        self.answers = 0
        self.bytes = 0
        self.waited_s = 0.0  # From the last request that was answered to its answer.


class WaitingRequest:
    """A request that waits for its answer."""

    __slots__ = ("_at_s", "_talk")

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._at_s = time.monotonic()

    def note_answer(self, size: int) -> None:
        """Note the node's answer."""
        talk = self._talk
        talk.answers += 1
        talk.bytes += size
        talk.waited_s = time.monotonic() - self._at_s


class Watch:
    """Counts, while somebody looks."""

    def __init__(self) -> None:
        self.talks: dict[Key, Talk] = {}

    def note_request(self, key: Key, size: int) -> WaitingRequest:
        """Note a request."""
        talk = self.talks.get(key)
        if talk is None:
            if len(self.talks) >= TALKS_MAX:
                self.talks.pop(next(iter(self.talks)))
            talk = self.talks[key] = Talk()
        talk.requests += 1
        talk.bytes += size
        return WaitingRequest(talk)
