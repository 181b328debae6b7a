"""The dissector in tshark: it shows what our decoder says, field by field and byte by byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from kraftspec.codegen.model import Message
from kraftspec.codegen.reader import read_message
from kraftspec.codegen.wireshark_target import render_dissector
from kraftspec.conformance.raw.vectors import Test as Vector
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.message import header_version_of
from kraftspec.generated.kafka import RequestHeader, ResponseHeader
from kraftspec.specs import specs_root

from .expected import expected, shown
from .packets import Capture, Connection, frame
from .tshark import Shown, frames

pytestmark = pytest.mark.wireshark

PORT = 9092
EXCHANGES_MAX = 500  # Of one capture: their tree as XML is many times their size.


@cache
def messages() -> dict[str, Message]:
    paths = sorted((specs_root() / "kafka").rglob("*.json"))
    return {message.name: message for message in map(read_message, paths)}


@pytest.fixture(scope="module")
def dissector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dissector") / "kafka.lua"
    path.write_text(render_dissector(messages().values(), specs_root(), "specs/kafka"))
    return path


@dataclass(slots=True)
class Sent:
    """A body of a message that a frame of the capture holds."""

    message: Message
    version: int
    data: bytes
    label: str


def vectors(per_version: int | None) -> dict[tuple[str, int], list[Sent]]:
    """Return valid bodies of each message and version; ``None`` means all there are."""
    found: dict[tuple[str, int], list[Sent]] = defaultdict(list)
    for set_name, file in read_vectors(vectors_root()):
        message = messages().get(file.message) if set_name == "kafka" else None
        if message is None or message.type not in ("request", "response"):
            continue
        for test in _valid(file.tests):
            bodies = found[message.name, test.version]
            if per_version is None or len(bodies) < per_version:
                data = bytes.fromhex(str(test.hex))
                bodies.append(Sent(message, test.version, data, f"{message.name} {test.id}"))
    return found


def _valid(tests: Iterable[Vector]) -> Iterator[Vector]:
    return (test for test in tests if test.result == "valid" and isinstance(test.hex, str))


class Session:
    """A connection whose requests and responses are noted as they are sent."""

    def __init__(self) -> None:
        self.capture = Capture()
        self.connection = Connection(0, PORT)
        self.sent: list[Sent] = []
        self.correlation_id = 0

    def exchange(self, request: Sent, response: Sent) -> None:
        """Send a request and its response."""
        self.correlation_id += 1
        header = RequestHeader(
            request_api_key=request.message.api_key or 0,
            request_api_version=request.version,
            correlation_id=self.correlation_id,
            client_id="a client",
        )
        self._send(0, header.encode(_header(request)), request)
        answer = ResponseHeader(correlation_id=self.correlation_id)
        self._send(1, answer.encode(_header(response)), response)

    def _send(self, sender: int, header: bytes, body: Sent) -> None:
        self.capture.send(self.connection, sender, frame(header, body.data))
        self.sent.append(body)

    def shown(self, dissector: Path, path: Path) -> list[Shown]:
        """Return what tshark shows of each frame."""
        self.capture.write(path)
        return list(frames(path, dissector))


def _header(sent: Sent) -> int:
    message = sent.message
    flexible = sent.version in message.flexible_versions
    version = header_version_of(message.type, message.api_key, sent.version, flexible)
    assert version is not None
    return version


def differences(sent: Sent, top: Shown) -> list[str]:
    """Return how what tshark shows of a frame differs from what our decoder says of its body."""
    title = f"{sent.message.name} v{sent.version}"
    bodies = [line for line in top.below if line.text == title]
    if len(bodies) != 1:
        return [f"{sent.label}: shown as {[line.text for line in top.below]}, not as {title}"]
    lines, read = expected(sent.message, sent.version, sent.data)
    found = shown(bodies[0], lines)
    if found == lines and read.error is None and not top.named("error"):
        return []
    pairs = zip([*lines, None], [*found, None], strict=False)
    wanted, given = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
    errors = [line.value for line in top.named("error")]
    return [f"{sent.label}: {wanted} wanted, {given} shown; {errors}"]


def exchanges(per_version: int | None) -> Iterator[tuple[Sent, Sent]]:
    """Yield requests with responses: vectors of all APIs and versions."""
    bodies = vectors(per_version)
    for (name, version), requests in sorted(bodies.items()):
        if name.endswith("Request"):
            responses = bodies[f"{name.removesuffix('Request')}Response", version]
            for number in range(max(len(requests), len(responses))):
                yield requests[number % len(requests)], responses[number % len(responses)]


def compare(per_version: int | None, dissector: Path, path: Path) -> tuple[int, list[str]]:
    """Send vectors of all APIs and versions; return how many frames, and what differs."""
    count, wrong, waiting = 0, list[str](), exchanges(per_version)
    while chosen := list(islice(waiting, EXCHANGES_MAX)):
        session = Session()
        for request, response in chosen:
            session.exchange(request, response)
        session.capture.write(path)
        tops = frames(path, dissector)
        for sent, top in zip(session.sent, tops, strict=True):
            count += 1
            wrong += differences(sent, top)
    return count, wrong


@pytest.mark.smoke
def test_it_shows_what_our_decoder_says_of_every_api_and_version(
    dissector: Path, tmp_path: Path
) -> None:
    count, wrong = compare(1, dissector, tmp_path / "sample.pcap")
    pairs = sum(
        len(message.valid_versions) for message in messages().values() if message.type == "request"
    )
    assert count == 2 * pairs
    assert not wrong, "\n".join(islice(wrong, 20))


@pytest.mark.soak
def test_it_shows_what_our_decoder_says_of_every_vector(dissector: Path, tmp_path: Path) -> None:
    count, wrong = compare(None, dissector, tmp_path / "all.pcap")
    assert count > 20_000
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong[:20]])
