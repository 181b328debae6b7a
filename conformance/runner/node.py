"""Replay node vectors: the answers of a real Kafka node in a known state.

A vector is a state and steps. A step is a request and the answer to it (as bytes, or as fields of
which some are undetermined: another run of the same node may answer them otherwise), what another
node answers to this one, or what this one's state machine appends. Time is what the vector says, so
nothing here waits. The format is ``schemas/node.schema.json``.

A vector is recorded of one release. Others were asked the same: it has what they answer otherwise.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from kraftspec.conformance.raw.node import (
    NodeAnswer,
    NodeAppend,
    NodeExpectation,
    NodeRequest,
    NodeSource,
    NodeState,
    NodeStep,
    NodeVector,
)
from kraftspec.conformance.runner.judge import hex_difference, value_difference
from kraftspec.conformance.runner.known import KnownFailures
from kraftspec.conformance.runner.metadata_batches import (
    own_batches_bared,
    sets_in_order,
    written_from,
)
from kraftspec.conformance.vectors import NODE, vectors_root
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.reference.wire.frames import (
    REQUEST_BYTES_MIN,
    answer_version,
    peek_request,
    read_correlation_id,
    read_request_head,
    read_response,
)

_STEP_OF_PATH = re.compile(r"(?P<name>\w+)(?:\[(?P<index>\d+|\*|\+|~)\])?")
_UNDETERMINED = "(undetermined)"


class Node(Protocol):
    """A node whose state can be set, and that answers requests.

    Any exception fails the step. ``writes_by_itself``: the node has its own clock and state
    machine, so that its batches are compared without times and records.
    """

    writes_by_itself: bool

    def restore(self, state: NodeState) -> None:
        """Take this state, at time 0; forget any earlier state."""

    def at(self, at_us: int, clock_ms: int | None) -> None:
        """Let it be that late; the clock is given where this step makes the node write."""

    def request(self, data: bytes) -> int:
        """Take a request, a frame without its size; return a token for its answer."""

    def reply(self, token: int) -> bytes | None:
        """Wait for the frame that answers a request; None if the node closed the connection."""

    def answer(self, answer: NodeAnswer) -> None:
        """Let another node answer a request of this one."""

    def append(self, append: NodeAppend) -> None:
        """Let the state machine append a batch."""

    def settle(self, role: str | None) -> None:
        """Wait until the step has no more effects; ValueError if the role is different."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class NodeFailure:
    """An answer that differs from the recorded one. ``step`` counts from 0."""

    vector: str
    step: int
    at_us: int
    api: str
    version: int
    path: str
    detail: str
    ended: bool = False  # The node gets no further requests.

    def __str__(self) -> str:
        return f"{self.vector} step {self.step} ({self.api} v{self.version}): {self.detail}"


@dataclass
class ApiCounts:
    """Of one API: the number of answers that are as recorded, and of those that differ."""

    passed: int = 0
    failed: int = 0
    known_failures: int = 0
    unexpected_passes: int = 0


@dataclass
class NodeReport:
    """What a node made of the vectors. ``asked`` counts requests by API.

    ``failures`` are those that are not known; ``unexpected_passes`` are known ones that passed.
    """

    vectors: int = 0
    steps: int = 0
    failures: list[NodeFailure] = field(default_factory=list)
    unexpected_passes: list[str] = field(default_factory=list)
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_node_vectors(root: Path | None = None) -> Iterator[NodeVector]:
    """Yield the node vectors below the root of the vectors (this package's where absent).

    ``ValueError`` has the file and the mistake.
    """
    for path in sorted(((root or vectors_root()) / NODE).glob("*.json")):
        try:
            vector = msgspec.json.decode(path.read_bytes(), type=NodeVector)
            check(vector)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
        yield vector


def variants(vector: NodeVector) -> list[NodeVector]:
    """Return what each release answered to a vector, the recorded one first.

    The id of another one names it: ``leader-fetches@4.0.2``.
    """
    vectors = [vector]
    for release in vector.source.also or ():
        steps = [_of_release(step, release) for step in vector.steps]
        source = NodeSource(kafka=release)
        about = f"{vector.id}@{release}"
        vectors.append(NodeVector(id=about, source=source, state=vector.state, steps=steps))
    return vectors


def _of_release(step: NodeStep, release: str) -> NodeStep:
    for other in step.others or ():
        if release in other.kafka:
            return msgspec.structs.replace(step, expect=other.expect, others=UNSET)
    return step


def run_node(
    make: Callable[[str], Node],
    root: Path | None = None,
    *,
    known: KnownFailures | None = None,
    chosen: Callable[[NodeVector], bool] = lambda vector: True,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> NodeReport:
    """Replay node vectors, of each release, each to a new node; ``known`` are expected failures.

    ``make`` is given the release, ``chosen`` a variant as ``variants`` makes them. Raises
    ``ValueError`` for an invalid vector. A report of no vectors proves nothing.
    """
    report = NodeReport()
    excuses = known or KnownFailures()
    every = [one for vector in read_node_vectors(root) for one in variants(vector)]
    vectors = [vector for vector in every if chosen(vector)]
    for number, vector in enumerate(vectors):
        progress(vector.id, number, len(vectors))
        _count(report, vector, replay(vector, make(vector.source.kafka)), excuses)
    report.apis = dict(sorted(report.apis.items()))
    report.warnings = excuses.warnings(whole=len(vectors) == len(every))
    return report


def _count(
    report: NodeReport, vector: NodeVector, failures: list[NodeFailure], excuses: KnownFailures
) -> None:
    """Add the verdicts on one vector to a report."""
    report.vectors += 1
    report.steps += len(vector.steps)
    failed = {failure.step: failure for failure in failures}
    for number, step in enumerate(vector.steps):
        failure = failed.get(number)
        if not step.request and failure is None:
            continue
        api, version = _about(step)
        counts = report.apis.setdefault(api, ApiCounts())
        name = f"{NODE}/{vector.id}/{api}/{version}/{number}"
        entry = excuses.named(name)
        if failure is None and entry is None:
            counts.passed += 1
        elif failure is None:
            assert entry is not None
            entry.passed += 1
            counts.unexpected_passes += 1
            report.unexpected_passes.append(name)
        elif entry is None:
            counts.failed += 1
            report.failures.append(failure)
        else:
            entry.failed += 1
            counts.known_failures += 1
        if failure is not None and failure.ended:
            break


def check(vector: NodeVector) -> None:
    """Reject a vector that no node can pass: requests, answers and paths must be consistent."""
    at_us = 0
    for number, step in enumerate(vector.steps):
        where = f"{vector.id} step {number}"
        if step.at_us < at_us:
            raise ValueError(f"{where}: at_us is {step.at_us}, and was {at_us} before")
        at_us = step.at_us
        if step.request and step.expect:
            for expect in (step.expect, *(other.expect for other in step.others or ())):
                _check_exchange(step.request, expect, where)
                if expect.after and number + expect.after >= len(vector.steps):
                    raise ValueError(f"{where}: there are not {expect.after} steps after it")
        elif not step.answer and not step.append:
            raise ValueError(f"{where}: it is neither request and expect, nor answer, nor append")


def _check_exchange(request: NodeRequest, expect: NodeExpectation, where: str) -> None:
    if expect.closed is UNSET and (expect.hex is UNSET) == (expect.fields is UNSET):
        raise ValueError(f"{where}: expect has either hex or fields")
    if expect.undetermined and not expect.why:
        raise ValueError(f"{where}: why are {', '.join(expect.undetermined)} undetermined?")
    try:
        if not expect.closed:  # Otherwise it need not be a valid request.
            _check_request(request)
        if expect.hex:
            _answer(request, bytes.fromhex(expect.hex))
    except (CodecError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    for path in expect.undetermined or ():
        _check_path(_message(request, "Response"), request.version, path, where)


Hear = Callable[[int, bytes | None], None]


def replay(
    vector: NodeVector, node: Node, hear: Hear = lambda number, data: None
) -> list[NodeFailure]:
    """Replay the steps of a vector; return the answers that are not as recorded.

    A node that raises fails that step and gets no further requests: its state is unknown. ``hear``
    is given each answer, by the number of its step.
    """
    failures: list[NodeFailure] = []
    late: dict[int, list[tuple[int, int]]] = {}  # After which step → (step, token) to be answered.
    written = written_from(vector.state) if node.writes_by_itself else None

    def note(number: int, path: str, detail: str) -> None:
        step = vector.steps[number]
        api, version = _about(step)
        if detail:
            failures.append(NodeFailure(vector.id, number, step.at_us, api, version, path, detail))

    number = 0
    try:
        node.restore(vector.state)
        for number, step in enumerate(vector.steps):
            node.at(step.at_us, None if step.clock_ms is UNSET else step.clock_ms)
            token = _begin(step, node)
            node.settle(step.role or None)
            if step.expect and token is not None:
                late.setdefault(number + (step.expect.after or 0), []).append((number, token))
            for index, waiting in late.pop(number, ()):
                data = node.reply(waiting)
                hear(index, data)
                note(index, *_difference(vector.steps[index], data, written))
    except Exception as error:
        step = vector.steps[number]
        detail = f"raised {type(error).__name__}: {error}"
        failures = [one for one in failures if one.step != number]
        failures.append(
            NodeFailure(vector.id, number, step.at_us, *_about(step), "", detail, ended=True)
        )
    finally:
        node.close()
    return failures


def _begin(step: NodeStep, node: Node) -> int | None:
    """Begin a step; return the token of a request."""
    if step.request:
        return node.request(bytes.fromhex(step.request.hex))
    if step.answer:
        node.answer(step.answer)
    elif step.append:
        node.append(step.append)
    return None


def _about(step: NodeStep) -> tuple[str, int]:
    """Return the API and the version of a step."""
    if step.request:
        return step.request.api, step.request.version
    return (step.answer.api, step.answer.version) if step.answer else ("append", 0)


def _difference(step: NodeStep, data: bytes | None, written: int | None) -> tuple[str, str]:
    """Return the path and the description of the first difference, or empty strings.

    ``written``: the offset from which on the node's batches have its own times and records, or
    None.
    """
    expect = step.expect
    assert expect is not UNSET
    if data is None or expect.closed:
        return "", "" if data is None and expect.closed else _hang_up_difference(data)
    if expect.hex is not UNSET and written is None:
        return "", hex_difference(expect.hex, data.hex())
    assert step.request is not UNSET
    try:
        body = _answer(step.request, data)
    except CodecError as error:
        return error.path, f"the answer is not readable: {error}"
    expected_id, actual_id = _correlation_id(step), read_correlation_id(data)
    if expected_id != actual_id:
        return "", f"correlation id {expected_id} wanted, {actual_id} given"
    expected, actual = deepcopy(answered_fields(step)), body
    if written is not None:
        expected, actual = own_batches_bared(expected, written), own_batches_bared(actual, written)
    for path in expect.undetermined or ():
        _mask(expected, actual, _split(path))
    detail = value_difference(expected, actual)
    return detail.partition(": ")[0], detail


def _hang_up_difference(data: bytes | None) -> str:
    return (
        "an answer wanted, and the node hung up"
        if data is None
        else (f"the node should hang up, and answered {data.hex()}")
    )


def _message(request: NodeRequest, kind: str) -> type[Message]:
    package = import_module("kraftspec.generated.kafka")
    name = f"{request.api}{kind}"
    if name not in package.CATALOGUE:
        raise ValueError(f"there is no message {name}: api is as in VoteRequest, which is Vote")
    message: type[Message] = getattr(package, name)
    return message


def _check_request(request: NodeRequest) -> None:
    """Reject a request that does not match its step."""
    data = bytes.fromhex(request.hex)
    message = _message(request, "Request")
    header = peek_request(data)[:2] if len(data) >= REQUEST_BYTES_MIN else (-1, -1)
    if header != (message.API_KEY, request.version):
        raise ValueError(
            f"the header is of API {header[0]} v{header[1]}, "
            f"not of {request.api} ({message.API_KEY}) v{request.version}"
        )
    if request.api != "ApiVersions" or request.version in message.VALID_VERSIONS:
        message.decode(data[read_request_head(data, message).body_at :], request.version)


def _correlation_id(step: NodeStep) -> int:
    """Return the correlation id, which has the same place in every request header."""
    assert step.request is not UNSET
    return peek_request(bytes.fromhex(step.request.hex))[2]


def _answer(request: NodeRequest, data: bytes) -> dict[str, Any]:
    """Return the body of an answer as JSON. ``CodecError`` if it is malformed."""
    message = _message(request, "Response")
    version = answer_version(data, message, request.version)
    return read_response(data, message, version).to_json(version)


def answered_fields(step: NodeStep) -> dict[str, Any]:
    """Return the expected body of a step's answer; empty if the node closes the connection."""
    assert step.expect is not UNSET
    assert step.request is not UNSET
    if step.expect.fields is not UNSET:
        return step.expect.fields
    return _answer(step.request, bytes.fromhex(step.expect.hex)) if step.expect.hex else {}


def _split(path: str) -> list[tuple[str, str | None]]:
    """Split ``topics[*].name`` into (topics, ``*``), (name, None)."""
    return [(match["name"], match["index"]) for match in _STEP_OF_PATH.finditer(path)]


def _check_path(message: type[Message], version: int, path: str, where: str) -> None:
    """Reject the path of an unknown field: it would mask nothing."""
    codec = message.CODEC
    layout = codec.layout(version)
    names = _split(path)
    for number, (name, _) in enumerate(names, 1):
        below = {field[0]: field[4] for field in layout[2]}
        below |= {field[1]: field[5] for field in layout[3]}
        if name not in below:
            raise ValueError(
                f"{where}: undetermined {path}: {message.__name__} v{version} has no {name} there"
            )
        element = below[name]
        if number < len(names):
            if not isinstance(element, int):
                raise ValueError(f"{where}: undetermined {path}: {name} has no fields of its own")
            layout = codec.layouts[element]


def _mask(expected: Any, actual: Any, steps: list[tuple[str, str | None]]) -> None:
    """Replace the values at a path on both sides, present or not, by the same placeholder.

    Null stays null: whether a value is null is determined.
    """
    (name, index), *rest = steps
    if not isinstance(expected, dict) or not isinstance(actual, dict):
        return
    if index is None:
        if rest:
            _mask(expected.get(name), actual.get(name), rest)
        else:
            for value in (expected, actual):
                if value.get(name, _UNDETERMINED) is not None:
                    value[name] = _UNDETERMINED
        return
    items, others = expected.get(name), actual.get(name)
    if index == "+":  # An empty tagged list may be absent.
        actual[name] = [item for item in items or () if item in (others or ())]
        return
    if index == "~" and isinstance(items, str) and isinstance(others, str):  # Records, in base64.
        expected[name] = sets_in_order(b64decode(items))
        actual[name] = sets_in_order(b64decode(others))
        return
    if not isinstance(items, list) or not isinstance(others, list):
        return
    if index == "~":
        expected[name], actual[name] = sorted(items, key=repr), sorted(others, key=repr)
        return
    for at in range(len(items)) if index == "*" else [int(index)]:
        if at >= min(len(items), len(others)):
            return
        if rest:
            _mask(items[at], others[at], rest)
        else:
            items[at] = others[at] = _UNDETERMINED
