"""Golden vectors as a session between a client and a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from kraftspec.codegen.model import Message
from kraftspec.codegen.reader import read_message
from kraftspec.conformance.raw.vectors import Test as Vector
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.message import header_version_of
from kraftspec.generated.kafka import RequestHeader, ResponseHeader
from kraftspec.specs import specs_root

from .packets import Capture, Connection, frame
from .tshark import Shown, frames

PORT = 9092
EXCHANGES_MAX = 500  # Of one capture: their tree as XML is many times their size.


@cache
def messages() -> dict[str, Message]:
    """Return the messages of Kafka by name."""
    paths = sorted((specs_root() / "kafka").rglob("*.json"))
    return {message.name: message for message in map(read_message, paths)}


@dataclass(slots=True)
class Sent:
    """A body of a message that a frame of the capture holds."""

    message: Message
    version: int
    data: bytes
    label: str = ""
    vector: Vector | None = None


Bodies = dict[tuple[str, int], list[Sent]]


def vectors(result: str, *types: str) -> Bodies:
    """Return the vectors of a result with bytes, by message and version."""
    bodies: Bodies = defaultdict(list)
    for set_name, file in read_vectors(vectors_root()):
        message = messages().get(file.message) if set_name == "kafka" else None
        if message is not None and message.type in types:
            for vector in file.tests:
                if vector.result == result and isinstance(vector.hex, str):
                    data, label = bytes.fromhex(vector.hex), f"{message.name} {vector.id}"
                    sent = Sent(message, vector.version, data, label, vector)
                    bodies[message.name, vector.version].append(sent)
    return bodies


class Session:
    """A connection whose requests and responses are noted as they are sent."""

    def __init__(self, port: int = PORT) -> None:
        self.capture = Capture()
        self.connection = Connection(0, port)
        self.sent: list[Sent] = []
        self.correlation_id = 0

    def exchange(self, request: Sent, response: Sent) -> None:
        """Send a request and its response."""
        self.request(request)
        self.response(response)

    def request(self, sent: Sent) -> None:
        """Send a request."""
        self.correlation_id += 1
        self._send(0, request_frame(sent, self.correlation_id), sent)

    def response(self, sent: Sent) -> None:
        """Send the response to the last request."""
        self._send(1, response_frame(sent, self.correlation_id), sent)

    def _send(self, sender: int, data: bytes, sent: Sent) -> None:
        self.capture.send(self.connection, sender, data)
        self.sent.append(sent)

    def shown(self, dissector: Path, path: Path) -> Iterator[tuple[Sent, Shown]]:
        """Yield what was sent, each with what tshark shows of its frame."""
        self.capture.write(path)
        return zip(self.sent, frames(path, dissector), strict=True)


def request_frame(sent: Sent, correlation_id: int) -> bytes:
    """Put the header of its version before a request."""
    header = RequestHeader(
        request_api_key=sent.message.api_key or 0,
        request_api_version=sent.version,
        correlation_id=correlation_id,
        client_id="a client",
    )
    return frame(header.encode(_header(sent)), sent.data)


def response_frame(sent: Sent, correlation_id: int) -> bytes:
    """Put the header of its version before a response."""
    return frame(ResponseHeader(correlation_id=correlation_id).encode(_header(sent)), sent.data)


def _header(sent: Sent) -> int:
    message = sent.message
    flexible = sent.version in message.flexible_versions
    version = header_version_of(message.type, message.api_key, sent.version, flexible)
    assert version is not None
    return version


def title(sent: Sent) -> str:
    """Return the line that stands over the fields of a message."""
    return f"{sent.message.name} v{sent.version}"


def pairs(requests: Bodies, responses: Bodies) -> Iterator[tuple[Sent, Sent]]:
    """Yield each request with a response of its API and version, and each response."""
    for (name, version), sent in sorted(requests.items()):
        if name.endswith("Request"):
            answers = responses[f"{name.removesuffix('Request')}Response", version]
            for number in range(max(len(sent), len(answers))):
                yield sent[number % len(sent)], answers[number % len(answers)]


def shown_of(
    exchanges: Iterable[tuple[Sent, Sent]], dissector: Path, path: Path
) -> Iterator[tuple[Sent, Shown]]:
    """Send exchanges, so many a capture, and yield what tshark shows of each frame."""
    waiting = iter(exchanges)
    while chosen := list(islice(waiting, EXCHANGES_MAX)):
        session = Session()
        for request, response in chosen:
            session.exchange(request, response)
        yield from session.shown(dissector, path)
