"""What goes over the connections of a client, as a transcript: it is 0, brokers are 1 and on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kraftspec.conformance.report.transcript import Transcript
from kraftspec.generated import kafka
from kraftspec.proxy.capture import Capture, CapturedTransport
from kraftspec.proxy.frame import apis_of
from kraftspec.reference.wire.frames import (
    REQUEST_BYTES_MIN,
    RESPONSE_BYTES_MIN,
    SIZE_BYTES,
    peek_request,
    read_correlation_id,
)

CLIENT: Final = 0


def transcript_of_client() -> Transcript:
    """Return an empty transcript."""
    return Transcript(CLIENT, "client")


class Tape:
    """One connection. What is no whole frame is noted as bytes, when it ends."""

    def __init__(self, transcript: Transcript, broker: int) -> None:
        self._transcript, self._broker = transcript, broker
        self._requests, self._answers = bytearray(), bytearray()
        self._due: dict[int, tuple[str, int]] = {}  # Correlation id → API and version.

    def received(self, data: bytes) -> None:
        """Note what the client sends."""
        for frame in _frames(self._requests, data):
            if len(frame) < REQUEST_BYTES_MIN:
                self._raw(CLIENT, self._broker, frame)
                continue
            self._transcript.request(CLIENT, self._broker, frame, self)
            key, version, correlation_id = peek_request(frame)
            if key in apis_of(kafka):
                self._due[correlation_id] = apis_of(kafka)[key].name, version

    def sent(self, data: bytes) -> None:
        """Note what the client is sent."""
        for frame in _frames(self._answers, data):
            known = len(frame) >= RESPONSE_BYTES_MIN and self._due.get(read_correlation_id(frame))
            if known:
                self._transcript.response(self._broker, CLIENT, frame, *known, self)
            else:
                self._raw(self._broker, CLIENT, frame)

    def end(self, *, by_client: bool) -> None:
        """Note who ended the connection."""
        for sender, receiver, held in (
            (CLIENT, self._broker, self._requests),
            (self._broker, CLIENT, self._answers),
        ):
            if held:
                self._transcript.raw(
                    sender, receiver, "the beginning of a frame", bytes(held), self
                )
                held.clear()
        who = "the client" if by_client else f"broker {self._broker}"
        self._transcript.note(f"{who} closes a connection between them")

    def _raw(self, sender: int, receiver: int, frame: bytes) -> None:
        data = len(frame).to_bytes(SIZE_BYTES, "big") + frame
        self._transcript.raw(sender, receiver, "a frame that belongs to no request", data, self)


def _frames(held: bytearray, data: bytes) -> Iterator[bytes]:
    """Yield the whole frames; a size that lies leaves all after it waiting."""
    held += data
    while len(held) >= SIZE_BYTES:
        end = SIZE_BYTES + int.from_bytes(held[:SIZE_BYTES], "big")
        if len(held) < end:
            return
        frame = bytes(held[SIZE_BYTES:end])
        del held[:end]
        yield frame


class ProxyTape(Capture):
    """Tapes the connections between a client and a proxy, in the place of its capture."""

    def __init__(self, transcript: Transcript, broker_at: Callable[[int], int]) -> None:
        """``broker_at`` returns which broker is behind a port of the proxy."""
        self._transcript, self._broker_at = transcript, broker_at

    def open(self, transport: Any, *, is_accepted: bool) -> CapturedTransport:
        """Return the transport in whose place it is taped."""
        broker = self._broker_at(transport.get_extra_info("sockname")[1]) if is_accepted else 0
        return _TapedTransport(transport, Tape(self._transcript, broker) if broker else None)


class _TapedTransport(CapturedTransport):
    def __init__(self, transport: Any, tape: Tape | None) -> None:
        self._transport = transport
        self._tape = tape

    def note_bytes(self, sender: int, data: bytes | memoryview) -> None:
        if self._tape is not None:
            (self._tape.received if sender else self._tape.sent)(bytes(data))

    def note_end(self, sender: int, flags: int) -> None:
        if self._tape is not None:
            self._tape.end(by_client=bool(sender))
            self._tape = None
