"""What a recorded frame must stand: read, written again the same, and read by Kafka alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from kraftspec.conformance.adapters.harness import decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.making.capture.proxy import Frame
from kraftspec.conformance.runner.judge import value_difference
from kraftspec.fastpath import native
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message, use_codec
from kraftspec.generated import kafka
from kraftspec.reference.wire.apis import message_of
from kraftspec.reference.wire.frames import answer_version

Codec = Literal["native", "python"]
Progress = Callable[[str, int, int], None]

PLAIN_CLIENT_ID = "plain"  # What the client ids of requests begin with that no real client sent.
HEADERS = {"request": "RequestHeader", "response": "ResponseHeader"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A header or a body as it was on the wire: what one vector is about."""

    message: str
    version: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A piece that a codec does not decode or encode as it was captured."""

    piece: Piece
    codec_name: str
    detail: str
    comment: str

    def __str__(self) -> str:
        return (
            f"{self.piece.message} v{self.piece.version}, {self.codec_name}: {self.detail} "
            f"({self.comment}; {self.piece.data.hex()[:120]})"
        )


@dataclass(slots=True)
class Checked:
    """All distinct pieces of a recording, with Kafka's values, and what was wrong with any."""

    frames: int = 0
    values: dict[Piece, dict[str, Any]] = field(default_factory=dict)
    comments: dict[Piece, str] = field(default_factory=dict)
    one_way: set[Piece] = field(default_factory=set)
    unknown: dict[str, int] = field(default_factory=dict)
    disagreements: list[Disagreement] = field(default_factory=list)


def message_named(name: str) -> type[Message]:
    """Return a message class of Apache Kafka by its name."""
    message: type[Message] = getattr(import_module("kraftspec.generated.kafka"), name)
    return message


def comment_of(frame: Frame) -> str:
    """Return the phase, the client and the listener of a frame."""
    client = f"client id {frame.client_id}" if frame.client_id else "no client id"
    if (frame.client_id or "").startswith(PLAIN_CLIENT_ID):
        client += ", a plain request by Kafka's own classes"
    preposition = "to" if frame.direction == "request" else "answered by"
    return f"{frame.phase}: {client}, {preposition} {frame.listener}"


def split(frame: Frame) -> tuple[Piece, Piece] | None:
    """Cut a frame in header and body; None where our schemas lack its key or version.

    Raises ``CodecError`` where the header is not to be read.
    """
    message = message_of(kafka, frame.direction, frame.api_key)
    version = frame.api_version
    if message is None:
        return None
    if frame.direction == "response":
        version = answer_version(frame.payload, message, version)
    if version not in message.VALID_VERSIONS:
        return None
    header = message_named(HEADERS[frame.direction])
    header_version = message.header_version(version)
    _, end = header.decode_from(frame.payload, 0, header_version)
    return (
        Piece(header.__name__, header_version, frame.payload[:end]),
        Piece(message.__name__, version, frame.payload[end:]),
    )


def check(
    frames: Sequence[Frame], kafka: KafkaAdapter, progress: Progress | None = None
) -> Checked:
    """Hold every distinct header and body against our codecs and against Kafka's own classes.

    Nothing may differ: our native and pure codecs read each whole and write the same bytes, and
    Kafka reads the same value. Where Kafka writes that value in other bytes than the client did
    (both are allowed), the piece is kept in ``one_way``. Frames of keys or versions that our
    schemas lack are counted in ``unknown``.
    """
    checked = Checked(frames=len(frames))
    for frame in frames:
        _take(frame, checked)
    pieces = list(checked.comments)
    ours: dict[Piece, dict[str, Any]] = {}
    codecs: tuple[Codec, ...] = ("python",)
    if native.load("_engine") is not None:
        codecs = ("python", "native")  # The last one stays in use.
    for codec in codecs:
        use_codec(codec)
        for piece in pieces:
            _check_ours(piece, codec, ours, checked)
    for number, (piece, reply) in enumerate(zip(pieces, _decoded(kafka, pieces), strict=True), 1):
        if progress is not None and number % 100 == 0:
            progress("frames read by Kafka", number, len(pieces))
        _check_kafka(piece, reply, ours.get(piece), checked)
    for disagreement in checked.disagreements:
        checked.values.pop(disagreement.piece, None)
    _check_written(kafka, checked)
    return checked


def _take(frame: Frame, checked: Checked) -> None:
    try:
        pieces = split(frame)
    except CodecError as error:
        whole = Piece(HEADERS[frame.direction], -1, frame.payload)
        checked.disagreements.append(
            Disagreement(whole, "our header", str(error), comment_of(frame))
        )
        return
    if pieces is None:
        name = f"{frame.direction} of API key {frame.api_key} version {frame.api_version}"
        checked.unknown[name] = checked.unknown.get(name, 0) + 1
        return
    for piece in pieces:
        checked.comments.setdefault(piece, comment_of(frame))


def _check_ours(
    piece: Piece, codec: Codec, ours: dict[Piece, dict[str, Any]], checked: Checked
) -> None:
    try:
        value = message_named(piece.message).decode(piece.data, piece.version)
        encoded = value.encode(piece.version)
        value_json = value.to_json(piece.version)
    except CodecError as error:
        _disagree(piece, f"our {codec} codec", str(error), checked)
        return
    if encoded != piece.data:
        _disagree(piece, f"our {codec} codec", f"writes {encoded.hex()}", checked)
    difference = value_difference(ours.setdefault(piece, value_json), value_json)
    if difference:
        _disagree(piece, f"our {codec} codec", difference, checked)


def _decoded(kafka: KafkaAdapter, pieces: Iterable[Piece]) -> Iterable[dict[str, Any]]:
    return kafka.run(
        decode_request(str(at), piece.message, piece.version, piece.data.hex())
        for at, piece in enumerate(pieces)
    )


def _check_kafka(
    piece: Piece, reply: dict[str, Any], ours: dict[str, Any] | None, checked: Checked
) -> None:
    if "value" not in reply:
        _disagree(piece, "Kafka", f"refused: {reply.get('error', reply)}", checked)
        return
    if reply.get("trailing"):
        _disagree(piece, "Kafka", f"left {reply['trailing']} bytes", checked)
    if ours is not None and (difference := value_difference(reply["value"], ours)):
        _disagree(piece, "Kafka (wanted) and ours (given)", difference, checked)
    checked.values[piece] = reply["value"]


def _check_written(kafka: KafkaAdapter, checked: Checked) -> None:
    """Record the pieces that Kafka encodes to other bytes."""
    replies = kafka.run(
        encode_request(str(at), piece.message, piece.version, value)
        for at, (piece, value) in enumerate(checked.values.items())
    )
    for piece, reply in zip(list(checked.values), replies, strict=True):
        if reply.get("hex") != piece.data.hex():
            checked.one_way.add(piece)


def _disagree(piece: Piece, codec_name: str, detail: str, checked: Checked) -> None:
    checked.disagreements.append(Disagreement(piece, codec_name, detail, checked.comments[piece]))
