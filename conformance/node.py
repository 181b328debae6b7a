"""Node vectors: what a real Kafka node answered in a known state, put to another node.

A vector is a state and steps; a step is a request at a time and the answer to it, as bytes or as
fields of which some are undetermined (another run of the same node may answer them otherwise).
Time is what the vector says, so nothing here waits. The format is ``schemas/node.schema.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from kraftspec.conformance.judge import hex_difference, value_difference
from kraftspec.conformance.raw.node import NodeState, NodeStep, NodeVector
from kraftspec.conformance.vectors import NODE, vectors_root
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import RequestHeader, ResponseHeader

_STEP_OF_PATH = re.compile(r"(?P<name>\w+)(?:\[(?P<index>\d+|\*)\])?")
_UNDETERMINED = "(undetermined)"


class Node(Protocol):
    """A node that can be put into a state and asked, without sockets and clocks."""

    def restore(self, state: NodeState) -> None:
        """Become the node of that state, at time 0; whatever it was before is forgotten."""

    def request(self, at_us: int, data: bytes) -> bytes:
        """Answer a request that comes in ``at_us`` microseconds after the state.

        Both are frames without the size before them: a header, then a body.
        """


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

    def __str__(self) -> str:
        return f"{self.vector} step {self.step} ({self.api} v{self.version}): {self.detail}"


@dataclass
class NodeReport:
    """What a node made of the vectors."""

    vectors: int
    steps: int
    failures: list[NodeFailure]


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


def run_node(make: Callable[[], Node], root: Path | None = None) -> NodeReport:
    """Replay every node vector, each to a node of its own.

    Raises ``ValueError`` for a vector that is itself wrong. A report of no vectors proves nothing.
    """
    report = NodeReport(vectors=0, steps=0, failures=[])
    for vector in read_node_vectors(root):
        report.vectors += 1
        report.steps += len(vector.steps)
        report.failures += replay(vector, make())
    return report


def check(vector: NodeVector) -> None:
    """Refuse a vector that no node could pass: requests, answers and paths must hold together."""
    at_us = 0
    for number, step in enumerate(vector.steps):
        where = f"{vector.id} step {number}"
        if step.at_us < at_us:
            raise ValueError(f"{where}: at_us is {step.at_us}, and was {at_us} before")
        at_us = step.at_us
        if (step.expect.hex is UNSET) == (step.expect.fields is UNSET):
            raise ValueError(f"{where}: expect has either hex or fields")
        try:
            _correlation_id(step)
            if step.expect.hex:
                _answer(step, bytes.fromhex(step.expect.hex))
        except (CodecError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
        for path in step.expect.undetermined or ():
            _check_path(_message(step, "Response"), step.request.version, path, where)


def replay(vector: NodeVector, node: Node) -> list[NodeFailure]:
    """Put the steps of a vector to a node; return the answers that are not as recorded.

    A node that raises has failed that step, and is asked nothing more: its state is unknown.
    """
    failures = []
    node.restore(vector.state)
    for number, step in enumerate(vector.steps):
        request = step.request
        try:
            data = node.request(step.at_us, bytes.fromhex(request.hex))
        except Exception as error:
            path, detail, ended = "", f"raised {type(error).__name__}: {error}", True
        else:
            (path, detail), ended = _difference(step, data), False
        if detail:
            failures.append(
                NodeFailure(
                    vector.id, number, step.at_us, request.api, request.version, path, detail
                )
            )
        if ended:
            break
    return failures


def _difference(step: NodeStep, data: bytes) -> tuple[str, str]:
    """Return the path and the description of the first difference; empty where there is none."""
    expect = step.expect
    if expect.hex is not UNSET:
        return "", hex_difference(expect.hex, data.hex())
    try:
        header, body = _answer(step, data)
    except CodecError as error:
        return error.path, f"the answer is not readable: {error}"
    if header.correlation_id != (wanted_id := _correlation_id(step)):
        return "", f"correlation id {wanted_id} wanted, {header.correlation_id} given"
    assert expect.fields is not UNSET
    wanted, given = deepcopy(expect.fields), body
    for path in expect.undetermined or ():
        steps = _split(path)
        _mask(wanted, steps)
        _mask(given, steps)
    detail = value_difference(wanted, given)
    return detail.partition(": ")[0], detail


def _message(step: NodeStep, kind: str) -> type[Message]:
    package = import_module("kraftspec.generated.kafka")
    name = f"{step.request.api}{kind}"
    if name not in package.CATALOGUE:
        raise ValueError(f"there is no message {name}: api is as in VoteRequest, which is Vote")
    message: type[Message] = getattr(package, name)
    return message


def _correlation_id(step: NodeStep) -> int:
    """Read the request as far as its header; refuse one that is not what the step says it is."""
    request, data = step.request, bytes.fromhex(step.request.hex)
    message = _message(step, "Request")
    version = message.header_version(request.version)
    header, at = RequestHeader.decode_from(data, 0, version)
    told = (header.request_api_key, header.request_api_version)
    if told != (message.API_KEY, request.version):
        raise ValueError(
            f"the header is of API {told[0]} v{told[1]}, "
            f"not of {request.api} ({message.API_KEY}) v{request.version}"
        )
    message.decode(data[at:], request.version)
    return header.correlation_id


def _answer(step: NodeStep, data: bytes) -> tuple[ResponseHeader, dict[str, Any]]:
    """Read an answer: its header, and the body as JSON. ``CodecError`` where it is none."""
    message, version = _message(step, "Response"), step.request.version
    header, at = ResponseHeader.decode_from(data, 0, message.header_version(version))
    return header, message.decode(data[at:], version).to_json(version)


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


def _mask(value: Any, steps: list[tuple[str, str | None]]) -> None:
    """Put the same thing in place of what a path leads to, whether it is there or not."""
    (name, index), *rest = steps
    if not isinstance(value, dict):
        return
    if index is None:
        if rest:
            _mask(value.get(name), rest)
        else:
            value[name] = _UNDETERMINED
        return
    items = value.get(name)
    if not isinstance(items, list):
        return
    for at in range(len(items)) if index == "*" else [int(index)]:
        if at >= len(items):
            return
        if rest:
            _mask(items[at], rest)
        else:
            items[at] = _UNDETERMINED
