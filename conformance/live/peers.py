"""The other voters: they listen, keep what the node asks, and answer by their habits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kraftspec.conformance.live.messages import API_NAMES, NODE, RESPONSES, response_of
from kraftspec.conformance.live.scenario_files import Habits
from kraftspec.conformance.live.transcript import Transcript
from kraftspec.conformance.making.exchanges.peers import Peers, PendingRequest, versions_answer
from kraftspec.fastpath.message import Message
from kraftspec.reference.wire.frames import response_header, sized

EMPTY_FETCH_S = 0.1  # A leader that answered at once would be asked again without a pause.

_Found = TypeVar("_Found")


@dataclass(eq=False)
class Asked:
    """A request of the node that a peer got; ``pending`` is how it is answered."""

    at_s: float  # time.monotonic()
    peer: int
    api: str
    version: int
    message: Message
    pending: PendingRequest
    is_answered: bool = False


class LivePeers(Peers):
    """Peers that listen on ``ports``, by node id.

    ApiVersions, BeginQuorumEpoch and EndQuorumEpoch are answered at once, Vote and Fetch by habit.
    """

    def __init__(
        self,
        ports: Mapping[int, int],
        transcript: Transcript,
        learn: Callable[[Message], dict[str, int]],
    ) -> None:
        """Listen. ``learn`` is given each request, and returns what is known of the node then."""
        self.requests: list[Asked] = []
        self.votes = "ignore"
        self.fetches = "ignore"
        self._ports_by_node = dict(ports)
        self._node_by_port = {port: node for node, port in ports.items()}
        self._transcript = transcript
        self._learn = learn
        self._arrived = threading.Condition()
        self._is_aborted = False
        super().__init__(ports.values())

    def adopt(self, habits: Habits) -> None:
        """Answer as habits say from now on; what they leave out stays."""
        self.votes = habits.votes or self.votes
        self.fetches = habits.fetches or self.fetches

    def _take(self, request: PendingRequest) -> None:
        peer = self._node_by_port[request.port]
        message = self._transcript.request(NODE, peer, request.frame)
        if message is None:
            return
        known = self._learn(message)
        api = API_NAMES[request.api_key]
        received = Asked(time.monotonic(), peer, api, request.version, message, request)
        with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        if api == "Vote" and self.votes != "ignore":
            answer = response_of(api, message, peer, known, self._ports_by_node)
            answer.topics[0].partitions[0].vote_granted = self.votes == "grant"
            self.reply(received, answer)
        elif api == "Fetch" and self.fetches == "empty":
            answer = response_of(api, message, peer, known, self._ports_by_node)
            timer = threading.Timer(EMPTY_FETCH_S, self.reply, (received, answer))
            timer.daemon = True
            timer.start()
        elif api == "ApiVersions":
            self.reply(received, versions_answer())
        elif api in ("BeginQuorumEpoch", "EndQuorumEpoch"):
            self.reply(received, response_of(api, message, peer, known, self._ports_by_node))

    def reply(self, request: Asked, response: Message) -> None:
        """Answer a request once; a node that has gone hears nothing."""
        with self._arrived:
            if request.is_answered:
                return
            request.is_answered = True
        pending, kind = request.pending, RESPONSES[request.api]
        header = response_header(kind, request.version, pending.correlation_id)
        frame = header + response.encode(request.version)
        self._transcript.response(request.peer, NODE, frame, request.api, request.version)
        with suppress(OSError):
            pending.connection.sendall(sized(frame))

    def abort(self) -> None:
        """Let nobody wait for a request any more."""
        with self._arrived:
            self._is_aborted = True
            self._arrived.notify_all()

    def until(
        self, find: Callable[[Asked], _Found | None], deadline_s: float, *, newest: bool = False
    ) -> _Found | None:
        """Return what is found in a request, the oldest first, or the ``newest`` of those there.

        None after the deadline, and after ``abort``.
        """
        seen = 0
        with self._arrived:
            while True:
                came = self.requests[seen:]
                for request in reversed(came) if newest else came:
                    if (match := find(request)) is not None:
                        return match
                seen = len(self.requests)
                left = deadline_s - time.monotonic()
                if left <= 0 or self._is_aborted:
                    return None
                self._arrived.wait(left)
