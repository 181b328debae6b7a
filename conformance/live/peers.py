"""The other voters: they listen, keep what the node asks, and answer by their habits."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kraftspec.conformance.live.messages import (
    API_NAMES,
    NODE,
    RESPONSES,
    Known,
    Ports,
    recorded_batch,
    recorded_response,
    response_of,
    set_fields,
)
from kraftspec.conformance.live.scenario_files import Habits, Reply
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.peers import Peers, PendingRequest, versions_answer
from kraftspec.conformance.report.transcript import Transcript
from kraftspec.fastpath.message import Message
from kraftspec.generated.errors import ErrorCode
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
    answer: bytes = b""  # Not sent while requests before it on the connection have none.

    @property
    def epoch(self) -> int:
        """The epoch that a Fetch names."""
        request: Any = self.message
        return int(request.topics[0].partitions[0].current_leader_epoch)


@dataclass
class Standing:
    """How a peer answers each request that ``meets`` its conditions, as a leader does."""

    meets: Callable[[Asked], bool]
    answer: Callable[[Asked], Message]


class LivePeers(Peers):
    """Peers that listen on ``ports``, by node id.

    ApiVersions, BeginQuorumEpoch and EndQuorumEpoch are answered at once, Vote and Fetch by habit.
    Answers of a connection are sent in the order of its requests, as Kafka sends them.
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
        self.followed = (-1, -1)  # Epoch and leader, as the node's last answer has them.
        self.standing: Standing | None = None
        self._waiting: dict[socket.socket, deque[Asked]] = {}  # In the order in which they came.
        self._sending = threading.Lock()
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
        message = self._transcript.request(NODE, peer, request.frame, request.connection)
        if message is None or request.api_key not in API_NAMES:
            return
        known = self._learn(message)
        api = API_NAMES[request.api_key]
        received = Asked(time.monotonic(), peer, api, request.version, message, request)
        with self._sending:
            self._waiting.setdefault(request.connection, deque()).append(received)
        with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        standing = self.standing
        if standing is not None and standing.meets(received):
            self.reply(received, standing.answer(received))
        elif api == "Vote" and self.votes != "ignore":
            answer = response_of(api, message, peer, known, self._ports_by_node)
            answer.topics[0].partitions[0].vote_granted = self.votes == "grant"
            self.reply(received, answer)
        elif api == "Fetch" and self.fetches == "empty":
            answer = response_of(api, message, peer, known, self._ports_by_node)
            self._later(self.reply, received, answer)
        elif api == "Fetch" and self.fetches == "no-leader":
            self._later(self._deny, received)
        elif api == "ApiVersions":
            self.reply(received, versions_answer())
        elif api in ("BeginQuorumEpoch", "EndQuorumEpoch"):
            self.reply(received, response_of(api, message, peer, known, self._ports_by_node))

    @staticmethod
    def _later(action: Callable[..., None], *arguments: object) -> None:
        timer = threading.Timer(EMPTY_FETCH_S, action, arguments)
        timer.daemon = True
        timer.start()

    def stand(self, meets: Callable[[Asked], bool], answer: Callable[[Asked], Message]) -> None:
        """Answer so what ``meets`` the conditions, of what is there and of what comes.

        A leader leaves no request open. A node may have sent one on another connection before it
        knew the leader; it awaits the answer to the later one.
        """
        self.standing = standing = Standing(meets, answer)
        for request in list(self.requests):
            if standing.meets(request):
                self.reply(request, standing.answer(request))

    def follow(self, epoch: int, leader: int) -> None:
        """Note whom the node follows now; what it fetched before is answered by habit."""
        if self.followed == (epoch, leader):
            return
        self.followed = (epoch, leader)
        if self.fetches == "no-leader":
            for request in list(self.requests):
                if request.api == "Fetch":
                    self._deny(request)

    def forget(self) -> None:
        """Take nothing for open that the node left when it ended."""
        self.followed = (-1, -1)
        for request in list(self.requests):
            request.is_answered = True

    def _deny(self, request: Asked) -> None:
        """Answer a Fetch that does not go to the leader that the node follows."""
        if (request.epoch, request.peer) != self.followed:
            self._reject(request)

    def _reject(self, request: Asked) -> None:
        """Answer a Fetch as who does not lead, and knows no leader."""
        known = {"epoch": request.epoch, "end": 0}
        answer = response_of("Fetch", request.message, -1, known, self._ports_by_node)
        answer.responses[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.node_endpoints = []
        self.reply(request, answer)

    def reply(self, request: Asked, response: Message) -> None:
        """Answer a request once; a node that has gone hears nothing.

        Fetches before a Fetch on its connection, which nobody answered, are rejected: they have
        come before the node knew the leader.
        """
        with self._arrived:
            if request.is_answered:
                return
            request.is_answered = True
        if request.api == "Fetch":
            with self._sending:
                came = list(self._waiting[request.pending.connection])
            for older in came[: came.index(request)]:
                if older.api == "Fetch":
                    self._reject(older)
        kind = RESPONSES[request.api]
        header = response_header(kind, request.version, request.pending.correlation_id)
        answer = header + response.encode(request.version)
        with self._sending:
            request.answer = answer
            waiting = self._waiting[request.pending.connection]
            if not waiting[0].answer:
                self._transcript.note(
                    f"{request.peer} answers {request.api} after the {waiting[0].api} that came "
                    "before it on the connection"
                )
            while waiting and waiting[0].answer:
                first = waiting.popleft()
                connection = first.pending.connection
                self._transcript.response(
                    first.peer, NODE, first.answer, first.api, first.version, connection
                )
                with suppress(OSError):
                    connection.sendall(sized(first.answer))

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


def answer_to(request: Asked, reply: Reply, known: Known, ports: Ports) -> Message:
    """Return the answer of a step to a request. Raises MessageError where it cannot be."""
    answer: Any
    if reply.body:
        kind = RESPONSES[reply.api]
        version = kind.VALID_VERSIONS[-1] if reply.version is None else reply.version
        answer = recorded_response(reply.api, version, bytes.fromhex(reply.body), ports)
    else:
        answer = response_of(reply.api, request.message, reply.at, known, ports)
    if reply.records == "opening":
        batch = rq.opening(known["epoch"], reply.at, known["end"])
        answer.responses[0].partitions[0].records = batch
    elif reply.records is not None:
        batches = [recorded_batch(bytes.fromhex(one), ports) for one in reply.records]
        answer.responses[0].partitions[0].records = b"".join(batches)
    set_fields(answer, request.version, reply.api, "response", reply.fields, known)
    return answer  # type: ignore[no-any-return] # A message, of whichever API.
