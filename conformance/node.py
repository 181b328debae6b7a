"""Node vectors: what a real Kafka node answered in a known state, put to another node.

A vector is a state and steps. A step is a request and the answer to it (as bytes, or as fields of
which some are undetermined: another run of the same node may answer them otherwise), what another
node answers to this one, or what this one's state machine appends. Time is what the vector says, so
nothing here waits. The format is ``schemas/node.schema.json``.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from kraftspec.conformance.exchanges.batches import (
    own_batches_bared,
    sets_in_order,
    written_from,
)
from kraftspec.conformance.judge import hex_difference, value_difference
from kraftspec.conformance.known import KnownFailures
from kraftspec.conformance.raw.node import (
    NodeAnswer,
    NodeAppend,
    NodeExpectation,
    NodeRequest,
    NodeState,
    NodeStep,
    NodeVector,
)
from kraftspec.conformance.vectors import NODE, vectors_root
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import RequestHeader, ResponseHeader

_STEP_OF_PATH = re.compile(r"(?P<name>\w+)(?:\[(?P<index>\d+|\*|\+|~)\])?")
_UNDETERMINED = "(undetermined)"
_CORRELATION_AT, _CORRELATION_END = 4, 8  # In a request header of any version.


class Node(Protocol):
    """A node that can be put into a state and asked.

    Whatever it raises has failed the step. ``writes_by_itself`` tells of a node whose clock and
    state machine are its own, so that what it appends is compared without what comes of them.
    """

    writes_by_itself: bool

    def restore(self, state: NodeState) -> None:
        """Become the node of that state, at time 0; whatever it was before is forgotten."""

    def at(self, at_us: int, clock_ms: int | None) -> None:
        """Let it be that late; the clock is given where this step makes the node write."""

    def request(self, data: bytes) -> int:
        """Take a request: a frame without the size before it. Return a token for its answer."""

    def reply(self, token: int) -> bytes | None:
        """Return the frame that answers a request, waiting for it; None where the node hung up."""

    def answer(self, answer: NodeAnswer) -> None:
        """Let another node answer what this one asks it."""

    def append(self, append: NodeAppend) -> None:
        """Let the state machine append a batch."""

    def settle(self, role: str | None) -> None:
        """Let what the step began come to rest; ValueError where the role is another one."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class NodeFailure:
    """An answer that is not the recorded one. ``step`` counts from 0; ``path`` may be empty."""

    vector: str
    step: int
    at_us: int
    api: str
    version: int
    path: str
    detail: str
    ended: bool = False  # The node was asked nothing more.

    def __str__(self) -> str:
        return f"{self.vector} step {self.step} ({self.api} v{self.version}): {self.detail}"


@dataclass
class ApiCounts:
    """Of one API: how many answers were as recorded, and how many were not."""

    passed: int = 0
    failed: int = 0
    known_failures: int = 0
    unexpected_passes: int = 0


@dataclass
class NodeReport:
    """What a node made of the vectors. ``asked`` counts requests by API.

    ``failures`` are those that nothing excuses; ``unexpected_passes`` names what was known to fail.
    """

    vectors: int = 0
    steps: int = 0
    failures: list[NodeFailure] = field(default_factory=list)
    unexpected_passes: list[str] = field(default_factory=list)
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_node_vectors(root: Path | None = None) -> Iterator[NodeVector]:
    """Yield the node vectors below the root of the vectors (this package's where absent).

    ``ValueError`` names the file, and what in it is not as it must be.
    """
    for path in sorted(((root or vectors_root()) / NODE).glob("*.json")):
        try:
            vector = msgspec.json.decode(path.read_bytes(), type=NodeVector)
            check(vector)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
        yield vector


def run_node(
    make: Callable[[], Node],
    root: Path | None = None,
    *,
    known: KnownFailures | None = None,
    chosen: Callable[[NodeVector], bool] = lambda vector: True,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> NodeReport:
    """Replay node vectors, each to a node of its own; ``known`` excuses what is under it.

    Raises ``ValueError`` for a vector that is itself wrong. A report of no vectors proves nothing.
    """
    report = NodeReport()
    excuses = known or KnownFailures()
    every = list(read_node_vectors(root))
    vectors = [vector for vector in every if chosen(vector)]
    for number, vector in enumerate(vectors):
        progress(vector.id, number, len(vectors))
        _count(report, vector, replay(vector, make()), excuses)
    report.apis = dict(sorted(report.apis.items()))
    report.warnings = excuses.warnings(whole=len(vectors) == len(every))
    return report


def _count(
    report: NodeReport, vector: NodeVector, failures: list[NodeFailure], excuses: KnownFailures
) -> None:
    """Take the verdicts on one vector into a report."""
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
    """Refuse a vector that no node could pass: requests, answers and paths must hold together."""
    at_us = 0
    for number, step in enumerate(vector.steps):
        where = f"{vector.id} step {number}"
        if step.at_us < at_us:
            raise ValueError(f"{where}: at_us is {step.at_us}, and was {at_us} before")
        at_us = step.at_us
        if step.request and step.expect:
            _check_exchange(step, step.request, step.expect, where)
            if step.expect.after and number + step.expect.after >= len(vector.steps):
                raise ValueError(f"{where}: there are not {step.expect.after} steps after it")
        elif not step.answer and not step.append:
            raise ValueError(f"{where}: it is neither request and expect, nor answer, nor append")


def _check_exchange(
    step: NodeStep, request: NodeRequest, expect: NodeExpectation, where: str
) -> None:
    if expect.closed is UNSET and (expect.hex is UNSET) == (expect.fields is UNSET):
        raise ValueError(f"{where}: expect has either hex or fields")
    if expect.undetermined and not expect.why:
        raise ValueError(f"{where}: why are {', '.join(expect.undetermined)} undetermined?")
    try:
        if not expect.closed:  # Else it need not be a request at all.
            _check_request(request)
        if expect.hex:
            _answer(step, bytes.fromhex(expect.hex))
    except (CodecError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    for path in expect.undetermined or ():
        _check_path(_message(request, "Response"), request.version, path, where)


def replay(vector: NodeVector, node: Node) -> list[NodeFailure]:
    """Put the steps of a vector to a node; return the answers that are not as recorded.

    A node that raises has failed that step, and is asked nothing more: its state is unknown.
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
            for asked, waiting in late.pop(number, ()):
                given = node.reply(waiting)
                note(asked, *_difference(vector.steps[asked], given, written))
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
    """Let what a step says happen; return the token of a request."""
    if step.request:
        return node.request(bytes.fromhex(step.request.hex))
    if step.answer:
        node.answer(step.answer)
    elif step.append:
        node.append(step.append)
    return None


def _about(step: NodeStep) -> tuple[str, int]:
    """Return the API and the version that a step is about."""
    if step.request:
        return step.request.api, step.request.version
    return (step.answer.api, step.answer.version) if step.answer else ("append", 0)


def _difference(step: NodeStep, data: bytes | None, written: int | None) -> tuple[str, str]:
    """Return the path and the description of the first difference; empty where there is none.

    ``written``: from which offset on the node's batches have its own times and records; None if
    none has.
    """
    expect = step.expect
    assert expect is not UNSET
    if data is None or expect.closed:
        return "", "" if data is None and expect.closed else _hang_up_difference(data)
    if expect.hex is not UNSET and written is None:
        return "", hex_difference(expect.hex, data.hex())
    try:
        header, body = _answer(step, data)
    except CodecError as error:
        return error.path, f"the answer is not readable: {error}"
    if header.correlation_id != (wanted_id := _correlation_id(step)):
        return "", f"correlation id {wanted_id} wanted, {header.correlation_id} given"
    wanted, given = deepcopy(answered_fields(step)), body
    if written is not None:
        wanted, given = own_batches_bared(wanted, written), own_batches_bared(given, written)
    for path in expect.undetermined or ():
        _mask(wanted, given, _split(path))
    detail = value_difference(wanted, given)
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
    """Refuse a request that is not what the step says it is."""
    data = bytes.fromhex(request.hex)
    message = _message(request, "Request")
    told = struct.unpack_from(">hh", data) if len(data) >= _CORRELATION_END else (-1, -1)
    if told != (message.API_KEY, request.version):
        raise ValueError(
            f"the header is of API {told[0]} v{told[1]}, "
            f"not of {request.api} ({message.API_KEY}) v{request.version}"
        )
    if _answer_version(request) == request.version:
        _, at = RequestHeader.decode_from(data, 0, message.header_version(request.version))
        message.decode(data[at:], request.version)


def _correlation_id(step: NodeStep) -> int:
    """Return what every request header has at the same place."""
    assert step.request is not UNSET
    return int.from_bytes(bytes.fromhex(step.request.hex)[_CORRELATION_AT:_CORRELATION_END], "big")


def _answer_version(request: NodeRequest) -> int:
    """Return the version of the answer: 0 to ApiVersions of a version unknown (KIP-511)."""
    if request.api == "ApiVersions":
        known = _message(request, "Response").VALID_VERSIONS
        return request.version if request.version in known else 0
    return request.version


def _answer(step: NodeStep, data: bytes) -> tuple[ResponseHeader, dict[str, Any]]:
    """Read an answer: its header, and the body as JSON. ``CodecError`` where it is none."""
    assert step.request is not UNSET
    message, version = _message(step.request, "Response"), _answer_version(step.request)
    header, at = ResponseHeader.decode_from(data, 0, message.header_version(version))
    return header, message.decode(data[at:], version).to_json(version)


def answered_fields(step: NodeStep) -> dict[str, Any]:
    """Return the body of the answer that a step expects; empty where the node hangs up."""
    assert step.expect is not UNSET
    if step.expect.fields is not UNSET:
        return step.expect.fields
    return _answer(step, bytes.fromhex(step.expect.hex))[1] if step.expect.hex else {}


def _split(path: str) -> list[tuple[str, str | None]]:
    """Split ``topics[*].name`` into (topics, ``*``), (name, None)."""
    return [(match["name"], match["index"]) for match in _STEP_OF_PATH.finditer(path)]


def _check_path(message: type[Message], version: int, path: str, where: str) -> None:
    """Refuse the path of a field that the message does not have: it would mask nothing."""
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


def _mask(wanted: Any, given: Any, steps: list[tuple[str, str | None]]) -> None:
    """Put the same thing in place of what a path leads to, whether it is there or not.

    Null stays null: whether there is something is determined.
    """
    (name, index), *rest = steps
    if not isinstance(wanted, dict) or not isinstance(given, dict):
        return
    if index is None:
        if rest:
            _mask(wanted.get(name), given.get(name), rest)
        else:
            for value in (wanted, given):
                if value.get(name, _UNDETERMINED) is not None:
                    value[name] = _UNDETERMINED
        return
    items, others = wanted.get(name), given.get(name)
    if index == "+":  # A tagged list that is empty is left out.
        given[name] = [item for item in items or () if item in (others or ())]
        return
    if index == "~" and isinstance(items, str) and isinstance(others, str):  # Records, in base64.
        wanted[name] = sets_in_order(b64decode(items))
        given[name] = sets_in_order(b64decode(others))
        return
    if not isinstance(items, list) or not isinstance(others, list):
        return
    if index == "~":
        wanted[name], given[name] = sorted(items, key=repr), sorted(others, key=repr)
        return
    for at in range(len(items)) if index == "*" else [int(index)]:
        if at >= min(len(items), len(others)):
            return
        if rest:
            _mask(items[at], others[at], rest)
        else:
            items[at] = others[at] = _UNDETERMINED
