"""A set without repetition: one piece of each shape, in files of the vectors' format."""

from __future__ import annotations

import hashlib
import re
import socket
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from kraftspec.conformance.making.capture.frames import HEADERS, Checked, Piece
from kraftspec.conformance.vectors import SCHEMA_VERSION, test_id, write_vectors
from kraftspec.specs import kafka_release

FAMILY = "captured"
PIECE_BYTES_MAX = 4096  # Larger ones say little more, and a reader of the file would pay for them.
LARGE_BYTES_MAX = 32 << 10  # One larger piece a message and version is kept, for its long lengths.
SHAPES_MAX = 60  # A message and version; what is busy would else drown the rest.
HEADER_SHAPES_MAX = 400
NAME_CHARS_MIN = 4  # A shorter name would be found in anything.
LIST_LENGTHS = (
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    32,
    64,
    127,
)  # Varint lengths of arrays change their width above the last.
TEXT_LENGTHS = (0, 1, 4, 8, 16, 32, 64, 126, 1000, 16382)  # As do those of strings and bytes.
# A path as machines have them, to its second name. (An address of loopback has a slash before it
# where Kafka writes it, and bytes that are no text hold slashes too.)
PATH = re.compile(
    rb"/(?:home|root|Users|work|private|var|usr|opt|etc|mnt|media|srv|tmp|data|app|build)/[\w.-]+"
)
# Paths that are the same on every machine: where a capture lies, and defaults of Kafka's own.
PATHS_ALLOWED = (b"/tmp/kraftspec-capture", b"/tmp/kafka-logs", b"/usr/bin")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the pieces, the size of the files, and how many pieces were left out."""

    pieces: list[Piece]
    bytes_total: int
    withheld: int


def names_machine(data: bytes) -> bool:
    """Whether bytes may say on which machine they were recorded, or whose it is."""
    here = (socket.gethostname(), f"{Path.home()}/", f"{Path.cwd()}/")
    if any(len(name) >= NAME_CHARS_MIN and name.encode() in data for name in here):
        return True
    return any(match[0] not in PATHS_ALLOWED for match in PATH.finditer(data))


def shape(value: Any, name: str = "") -> Any:
    """Return what stands for all values that look like this one.

    Error codes and booleans are kept; numbers by sign and width; strings and arrays by length,
    and an array by the shapes in it.
    """
    if isinstance(value, dict):
        return tuple((key, shape(inner, key)) for key, inner in value.items())
    if isinstance(value, list):
        inside = {shape(inner, name) for inner in value}
        return (_bucket(len(value), LIST_LENGTHS), frozenset(inside))
    if isinstance(value, bool) or value is None or name.lower().endswith("errorcode"):
        return value
    if isinstance(value, int):
        return (value > 0, value < 0, (value.bit_length() + 7) // 8)
    if isinstance(value, str):
        return ("text", _bucket(len(value), TEXT_LENGTHS))
    return type(value).__name__


def _bucket(length: int, bounds: tuple[int, ...]) -> int:
    return sum(length > bound for bound in bounds)


def chosen(checked: Checked) -> dict[str, list[Piece]]:
    """Return the pieces to keep by message: one of each shape, few of them large."""
    by_message: dict[str, list[Piece]] = {}
    seen: dict[tuple[str, int], set[Any]] = {}
    large: set[tuple[str, int]] = set()
    for piece, value in checked.values.items():
        group = (piece.message, piece.version)
        shapes = seen.setdefault(group, set())
        most = HEADER_SHAPES_MAX if piece.message in HEADERS.values() else SHAPES_MAX
        if len(shapes) >= most or len(piece.data) > LARGE_BYTES_MAX:
            continue
        if len(piece.data) > PIECE_BYTES_MAX:
            if group in large:
                continue
            large.add(group)
        looks = _header_shape(value) if piece.message in HEADERS.values() else shape(value)
        if looks not in shapes:
            shapes.add(looks)
            by_message.setdefault(piece.message, []).append(piece)
    for pieces in by_message.values():
        pieces.sort(key=lambda piece: piece.version)
    return dict(sorted(by_message.items()))


def _header_shape(value: dict[str, Any]) -> Any:
    """A header of each key and version; how high its correlation id has counted says nothing."""
    key, version = value.get("requestApiKey"), value.get("requestApiVersion")
    return key, version, shape({**value, "requestApiKey": None, "requestApiVersion": None})


def write(checked: Checked, out: Path) -> Written:
    """Replace the vector files in a directory by what was captured, but what names a machine."""
    withheld = {piece for piece in checked.values if names_machine(piece.data)}
    for piece in withheld:
        del checked.values[piece]
    for old in out.glob("*.json"):
        old.unlink()
    pieces: list[Piece] = []
    bytes_total = 0
    for message, of_message in chosen(checked).items():
        head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": message}
        head["source"] = {"kafka": kafka_release(), "schemaSha256": _schema_sha256(message)}
        head["notes"] = {}
        path = out / f"{message}.json"
        write_vectors(path, head, [_test(piece, checked) for piece in of_message])
        pieces += of_message
        bytes_total += path.stat().st_size
    return Written(pieces, bytes_total, len(withheld))


def _schema_sha256(message: str) -> str:
    [path] = Path(str(files("kraftspec.specs"))).resolve().glob(f"kafka/**/{message}.json")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _test(piece: Piece, checked: Checked) -> dict[str, Any]:
    """Make one test. What Kafka would write in other bytes is only decoded."""
    op = "decode" if piece in checked.one_way else "roundtrip"
    return {
        "id": test_id(piece.message, piece.version, op, piece.data.hex()),
        "version": piece.version,
        "op": op,
        "family": FAMILY,
        "value": checked.values[piece],
        "hex": piece.data.hex(),
        "result": "valid",
        "comment": checked.comments[piece],
    }
