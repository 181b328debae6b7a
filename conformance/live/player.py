"""The peers' part of a scenario: acts as a step has it, and judges what the node does then."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kraftspec.conformance.live.connection import Connection
from kraftspec.conformance.live.messages import (
    KEYED,
    NAMES,
    NODE,
    REQUESTS,
    TIMEOUTS,
    MessageError,
    evaluate,
    forget_directory,
    header_of,
    learn,
    mismatch,
    recorded_request,
    request_of,
    set_fields,
)
from kraftspec.conformance.live.peers import Asked, LivePeers, answer_to
from kraftspec.conformance.live.scenario_files import (
    NEVER_MS,
    VOTERS,
    Arrival,
    Outcome,
    Peer,
    Raw,
    Reply,
    Restart,
    Send,
    Silence,
    When,
)
from kraftspec.conformance.live.target import Target, TargetError
from kraftspec.conformance.report.transcript import Transcript
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    VoteResponse,
)
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import WireError, sized

START_S = 180.0  # For a machine that is busy; a start takes a few seconds.
SLACK_S = 60.0  # Added to each deadline, for the same reason. Waits end when what is due comes.
POLL_S = 0.05
COMMIT_S = 4.0  # For the leader's own disk. Without a majority no commit comes.
FETCHES_MAX = 100
# What the node says of its leader when it is asked.
ANSWERS = (VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse)


class Unmet(AssertionError):  # noqa: N818 # It is a verdict, not an error.
    """What had to follow did not; the text says what did."""


class _Answer:
    """A request to the node that may be answered later."""

    def __init__(self, connection: Connection, api: str, version: int, ids: Sequence[int]) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.ids = ids


class Player:
    """The peers and the node of one run. ``known`` is what the node's messages tell of it."""

    def __init__(
        self,
        target: Target,
        ports: Mapping[int, int],
        properties: dict[str, str],
        transcript: Transcript,
    ) -> None:
        """Let the peers listen; ``start`` starts the node."""
        self.target = target
        self.ports = dict(ports)
        self.properties = properties
        self.transcript = transcript
        self.known = dict.fromkeys(NAMES, 0)
        self.known |= {f"port_{node}": port for node, port in ports.items()}
        self.at_step = dict(self.known)  # ``known`` when the last step began.
        self.step_s = time.monotonic()
        self._served_s = 0.0  # When it began to serve: a start may take longer than a deadline.
        self._connections: dict[int, Connection] = {}  # Node → what it sends on.
        self._opened: list[Connection] = []
        self._held: dict[str, _Answer] = {}
        self._last_request: _Answer | None = None
        self._correlation_id = 0
        self._is_aborted = False
        others = {node: port for node, port in ports.items() if node != NODE}
        self.peers = LivePeers(others, transcript, self._learn)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()
        self.peers.close()

    def abort(self) -> None:
        """Let the run end, from another thread: what it waits for is not waited for any more."""
        self._is_aborted = True
        self.peers.abort()
        for connection in list(self._opened):
            connection.shut()

    def _go_on(self) -> None:
        if self._is_aborted:
            raise TargetError("the run was ended before the node was judged")

    # ---- the node ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the node, and wait until it serves. Raises TargetError where it does not."""
        self.transcript.note("the node starts")
        self.target.start()
        deadline_s = time.monotonic() + START_S
        while not self._answers():
            self._go_on()
            if self.target.exit_code is not None or time.monotonic() > deadline_s:
                raise TargetError(f"{self._why_not()}:\n{self.target.output()}")
            time.sleep(POLL_S)
        self._served_s = time.monotonic()

    def _why_not(self) -> str:
        code, port = self.target.exit_code, self.ports[NODE]
        if code is not None:
            return f"the node ended with exit code {code} before it served"
        return f"the node runs, and answers no ApiVersions on port {port} after {START_S:g} s"

    def serves(self) -> None:
        """Judge whether the node still serves, as after every scenario it must."""
        if self.target.exit_code is not None:
            raise Unmet(f"the node ended with exit code {self.target.exit_code}")
        deadline_s = time.monotonic() + SLACK_S
        while not self._answers():
            self._go_on()
            if self.target.exit_code is not None or time.monotonic() > deadline_s:
                raise Unmet("the node serves no more: ApiVersions is not answered")

    def _answers(self) -> bool:
        request = api_versions_request(3)
        try:
            answer = ask(self.ports[NODE], request, 3, ApiVersionsResponse)
        except (OSError, CodecError):
            return False
        return answer.error_code == 0

    def _hang_up(self) -> None:
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        self._connections.clear()
        self._held.clear()

    def _learn(self, message: Message) -> dict[str, int]:
        """Take what a message of the node tells of its epoch and of its log."""
        learn(message, self.known)
        if isinstance(message, ANSWERS):
            for topic in message.topics:
                for part in topic.partitions:
                    self.peers.follow(part.leader_epoch, part.leader_id)
        return dict(self.known)

    # ---- what happens --------------------------------------------------------------------------

    def act(self, when: When) -> None:
        """Let it happen. Raises Unmet where the node does not do its part of it."""
        self._go_on()
        actions = [getattr(when, name) for name in when.__struct_fields__]
        if not any(action is not None for action in actions):
            return
        self.at_step = dict(self.known)
        self.step_s = time.monotonic()
        self.peers.standing = None
        try:
            if when.send and when.send.until:
                self._send_until(when.send)
            elif when.send:
                self._send(when.send)
            elif when.raw:
                self._raw(when.raw)
            elif when.reply:
                self._reply(when.reply)
            elif when.collect:
                self._last_request = self._held.pop(when.collect)
            elif when.replicate:
                self._replicate(when.replicate)
            elif when.restart:
                self._restart(when.restart)
            elif when.habits:
                self.peers.adopt(when.habits)
        except MessageError as error:
            raise TargetError(f"it cannot be: {error}") from error

    def _connection(self, sender: int) -> Connection:
        there = self._connections.get(sender)
        if there is None or there.is_closed:
            try:
                there = Connection(self.ports[NODE], SLACK_S, sender)
            except OSError as error:
                raise Unmet(f"the node takes no connection: {error}") from error
            self._connections[sender] = there
            self._opened.append(there)
        return there

    def _send(self, send: Send) -> None:
        version = self._version(send)
        connection = self._connection(send.sender)
        if send.hold:  # What waits for its answer must not keep others waiting.
            del self._connections[send.sender]
        encodable = version if version in REQUESTS[send.api].VALID_VERSIONS else None
        codec_version = REQUESTS[send.api].VALID_VERSIONS[-1] if encodable is None else version
        message = request_of(send.api, codec_version, send.sender, self.at_step, self.ports)
        static = "controller.quorum.voters" in self.properties
        if static and message.API_KEY in KEYED:
            forget_directory(message)
        set_fields(message, codec_version, send.api, "request", send.fields, self.at_step)
        ids, data = [], b""
        for _ in range(send.copies):
            self._correlation_id += 1
            if send.frame:
                frame = recorded_request(bytes.fromhex(send.frame), self.ports, static=static)
                self._correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            else:
                head = header_of(send.api, version, self._correlation_id, send.header)
                frame = head + message.encode(codec_version)
            frame = frame[: len(frame) - send.cut] + bytes.fromhex(send.extra)
            whole = sized(frame)
            if send.size is not None:
                whole = send.size.to_bytes(4, "big", signed=True) + frame
                self.transcript.raw(
                    send.sender, NODE, "a request of another size", whole, connection
                )
            else:
                self.transcript.request(send.sender, NODE, frame, connection)
            data += whole
            ids.append(send.header.get("correlationId", self._correlation_id))
        connection.send(data, send.pieces)
        if send.half_close:
            connection.half_close()
        request = _Answer(connection, send.api, version, ids)
        connection.due += [(send.api, version, one) for one in ids]
        if send.hold:
            self._held[send.hold] = request
        else:
            self._last_request = request

    def _send_until(self, send: Send) -> None:
        """Send a request again and again; Unmet where the answer does not become as it should."""
        deadline_s = time.monotonic() + SLACK_S
        while True:
            self._go_on()
            self._send(send)
            answer = self._answer_now()
            version = self._version(send)
            wrong = mismatch(answer, version, send.api, "response", send.until, self.at_step)
            if not wrong:
                return
            if time.monotonic() > deadline_s:
                raise Unmet(wrong)
            time.sleep(POLL_S)

    @staticmethod
    def _version(send: Send) -> int:
        return REQUESTS[send.api].VALID_VERSIONS[-1] if send.version is None else send.version

    def _raw(self, raw: Raw) -> None:
        old = self._connections.pop(raw.sender, None)
        if old is not None:
            old.close()
        connection = self._connection(raw.sender)
        data = bytes.fromhex(raw.hex)
        self.transcript.raw(raw.sender, NODE, "bytes", data, connection)
        connection.send(data)
        if raw.half_close:
            connection.half_close()
        self._last_request = _Answer(connection, "ApiVersions", 0, [-1])

    def _reply(self, reply: Reply) -> None:
        due = Arrival(api=reply.api, at=reply.at, where=reply.where, open=True)
        request = self._arrival(due, since_s=0.0)
        # What this step is followed by comes after the answer, not while it was waited for.
        self.step_s = time.monotonic()
        if reply.repeat:
            self.peers.stand(
                lambda one: self._is_due(one, due),
                lambda one: answer_to(one, reply, self.known, self.ports),
            )
        else:
            self.peers.reply(request, answer_to(request, reply, self.known, self.ports))

    def _replicate(self, peer: Peer) -> None:
        """Fetch as a follower does, until there is nothing more; a voter until the commit."""
        deadline_s = time.monotonic() + (COMMIT_S if peer in VOTERS else 0.0)
        for _ in range(FETCHES_MAX):
            self.at_step = dict(self.known)
            self._send(Send(api="Fetch", sender=peer))
            answer: Any = self._answer_now()
            part = answer.responses[0].partitions[0] if answer.responses else None
            if part is None or part.error_code or answer.error_code:
                raise Unmet(f"a Fetch of {peer} from {self.at_step['end']} is answered {answer}")
            records = bytes(part.records or b"")
            if not records:
                if part.high_watermark >= self.at_step["end"] or time.monotonic() > deadline_s:
                    return
                time.sleep(POLL_S)
            for header in iterate_headers(records):
                self.known |= {
                    "end": header.last_offset + 1,
                    "last_epoch": header.partition_leader_epoch,
                }
        raise Unmet(f"after {FETCHES_MAX} fetches there is still more")

    def _restart(self, restart: Restart) -> None:
        self._hang_up()
        self.transcript.note(f"the node ends ({restart.by})")
        self.target.stop(restart.by)
        self.peers.forget()
        self.step_s = time.monotonic()  # What it asked before is no answer to its restart.
        if restart.properties:
            self.properties |= {key: str(value) for key, value in restart.properties.items()}
            self.target.write("node.properties", self.properties)
        self.start()

    # ---- what follows --------------------------------------------------------------------------

    def judge(self, outcomes: Sequence[Outcome]) -> None:
        """Return if one of the outcomes is there. Raises Unmet with what is instead."""
        problem = ""
        if any(outcome.answer is not None or outcome.closed for outcome in outcomes):
            problem = self._judge_answer(outcomes)
            if not problem:
                return
        for outcome in outcomes:
            if outcome.request:
                since_s = 0.0 if outcome.request.open else self.step_s
                self._arrival(outcome.request, since_s=since_s)
                return
            if outcome.no_request:
                self._silence(outcome.no_request)
                return
        raise Unmet(problem)

    def _judge_answer(self, outcomes: Sequence[Outcome]) -> str:
        """Return what is wrong with the answer; empty where it is one of the outcomes."""
        request = self._last_request
        assert request is not None
        may_close = any(outcome.closed for outcome in outcomes)
        for number, expected in enumerate(request.ids):
            answer = self._answer(request, expected)
            if answer is None:
                if may_close:
                    return ""
                return f"the node closed the connection; answer {number + 1} was due"
            wrong = "the node answered, and should close the connection"
            for outcome in outcomes:
                if outcome.answer is None:
                    continue
                version = request.version
                unsupported = ErrorCode.UNSUPPORTED_VERSION
                if request.api == "ApiVersions" and getattr(answer, "error_code", 0) == unsupported:
                    version = 0
                wrong = mismatch(
                    answer, version, request.api, "response", outcome.answer, self.at_step
                )
                if not wrong:
                    break
            if wrong:
                return wrong
        return ""

    def _answer_now(self) -> Message:
        request = self._last_request
        assert request is not None
        answer = self._answer(request, request.ids[0])
        if answer is None:
            raise Unmet("the node closed the connection; an answer was due")
        return answer

    def _answer(self, request: _Answer, correlation_id: int) -> Message | None:
        """Return an answer, and pass over those before it; None where the node hung up."""
        while True:
            connection = request.connection
            try:
                frame = connection.receive(time.monotonic() + SLACK_S)
            except TimeoutError as error:
                raise Unmet(f"no answer came within {SLACK_S:g} s") from error
            except WireError as error:
                raise Unmet(f"the node sends what is no frame: {error}") from error
            if frame is None:
                self.transcript.note("the node closes the connection")
                return None
            if not connection.due:
                title = "a frame that is no answer"
                self.transcript.raw(NODE, connection.peer, title, sized(frame), connection)
                raise Unmet("the node sent a frame, and no answer was due")
            api, version, due = connection.due.popleft()
            answer = self.transcript.response(
                NODE, connection.peer, frame, api, version, connection
            )
            came = int.from_bytes(frame[:4], "big", signed=True)
            if came != due:
                raise Unmet(f"the answer is to the request {came}, and {due} is due")
            if answer is None:
                raise Unmet("the answer cannot be read")
            self._learn(answer)
            if due == correlation_id:
                return answer

    def _timeouts(self) -> dict[str, int]:
        return {
            name: int(self.properties[f"controller.quorum.{name}.timeout.ms"]) for name in TIMEOUTS
        }

    def _seconds(self, text: str) -> float:
        milliseconds = evaluate(text, self._timeouts()) if text else 0.0
        if milliseconds >= NEVER_MS:
            raise TargetError(
                f"it waits for {text!r}, a time-out that never ends here: shorten it in the "
                "properties of the scenario, or leave the wait out"
            )
        return milliseconds / 1000

    def _begun_s(self) -> float:
        """Return when the step began, or the node that it started began to serve."""
        return max(self.step_s, self._served_s)

    def _arrival(self, arrival: Arrival, *, since_s: float) -> Asked:
        """Wait for a request of the node since then; Unmet where none comes in time."""
        others: list[str] = []

        def find(request: Asked) -> Asked | None:
            if request.at_s < since_s or not self._is_meant(request, arrival):
                return None
            wrong = self._mismatch(request, arrival.where)
            if wrong:
                others.append(wrong)
            return None if wrong else request

        deadline_s = self._begun_s() + self._seconds(arrival.within) + SLACK_S
        # Of a request that timed out and came again, only the newest can be answered.
        request = self.peers.until(find, deadline_s, newest=arrival.open)
        where = f" at {arrival.at}" if arrival.at else ""
        if request is None:
            had = f"; of those that came, {others[-1]}" if others else ""
            raise Unmet(f"no {arrival.api} that was due came{where} in time{had}")
        least_s = self._seconds(arrival.not_before)
        if arrival.not_before and request.at_s - self.step_s < least_s:
            raise Unmet(
                f"{arrival.api} came{where} after {request.at_s - self.step_s:.3f} s, "
                f"and not before {least_s:g} s was due"
            )
        return request

    @staticmethod
    def _is_meant(request: Asked, arrival: Arrival) -> bool:
        """Whether a request is of that API, came to that peer, and is open where it should be."""
        is_there = request.api == arrival.api and arrival.at in (None, request.peer)
        return is_there and not (arrival.open and request.is_answered)

    def _is_due(self, request: Asked, arrival: Arrival) -> bool:
        return self._is_meant(request, arrival) and not self._mismatch(request, arrival.where)

    def _mismatch(self, request: Asked, due: Mapping[str, Any]) -> str:
        """Return how a request of the node differs from conditions; empty where it does not."""
        return mismatch(request.message, request.version, request.api, "request", due, self.at_step)

    def _silence(self, silence: Silence) -> None:
        """Wait; Unmet where such a request comes."""

        def find(request: Asked) -> Asked | None:
            is_there = request.api == silence.api and silence.at in (None, request.peer)
            is_meant = request.at_s >= self.step_s and is_there
            return request if is_meant and not self._mismatch(request, silence.where) else None

        request = self.peers.until(find, self._begun_s() + self._seconds(silence.during))
        if request is not None:
            raise Unmet(f"{silence.api} came at {request.peer}, and none was due")
