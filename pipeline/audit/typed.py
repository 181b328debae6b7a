"""Records whose values Kafka itself reads: those of the metadata log, and control records.

Each value is decoded by its generated codec and encoded again at the same version: the bytes must
be the same. The frame of a metadata record is three unsigned varints, the frame's version (1), the
type and the type's version, before the message (``AbstractApiMessageSerde``). A control record's
key is version and type, both int16 (``ControlRecordType``); its value starts with its version,
which is a field of the message but for end markers (``EndTransactionMarker``).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final

from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.wire import RefusedError, read_uvarint, uvarint
from kraftspec.generated import kafka
from kraftspec.generated.control_records import ControlRecordType

METADATA_TOPIC: Final = "__cluster_metadata"
FRAME_VERSION: Final = 1
_KEY: Final = struct.Struct(">hh")
_MESSAGES: Final = {
    ControlRecordType.ABORT: "EndTxnMarker",
    ControlRecordType.COMMIT: "EndTxnMarker",
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}


@cache
def _metadata_names() -> dict[int, str]:
    """Return type → message. Tiered storage has a topic and types of its own."""
    return {
        key: name
        for name, (_, kind, key, *_) in kafka.CATALOGUE.items()
        if kind == "metadata" and key is not None and not name.startswith("Remote")
    }


@cache
def _message(name: str) -> Any:
    return getattr(kafka, name)


def _refused(error_class: ErrorClass, detail: str, path: str, at: int = 0) -> CodecError:
    return CodecError(error_class, detail, path=path, offset=at)


def metadata_record(value: bytes | None) -> tuple[str, bool]:
    """Return ("TopicRecord v0", whether the value comes out the same).

    Raises CodecError, its offset a byte of the value.
    """
    if value is None:
        raise _refused(ErrorClass.NULL_FOR_NON_NULLABLE, "a metadata record is null", "value")
    try:
        frame, at = read_uvarint(value, 0)
        key, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
    except (RefusedError, IndexError):
        raise _refused(ErrorClass.VARINT_TRUNCATED, "no frame of three varints", "frame") from None
    if frame != FRAME_VERSION:
        detail = f"there is no frame version {frame}"
        raise _refused(ErrorClass.UNSUPPORTED_VERSION, detail, "frame")
    name = _metadata_names().get(key)
    if name is None:
        raise _refused(ErrorClass.UNKNOWN_MESSAGE, f"there is no record type {key}", "type", 1)
    message = _message(name).decode(memoryview(value)[at:], version)
    made = b"\x01" + uvarint(key) + uvarint(version) + message.encode(version)
    return f"{name} v{version}", made == value


def control_record(key: bytes | None, value: bytes | None) -> tuple[str, bool]:
    """Return ("COMMIT v0", whether key and value come out the same). Raises CodecError."""
    if key is None or len(key) < _KEY.size:
        raise _refused(ErrorClass.TRUNCATED, "a control record's key has 4 bytes", "key")
    key_version, number = _KEY.unpack_from(key)
    try:
        kind = ControlRecordType(number)
    except ValueError:
        detail = f"there is no control record type {number}"
        raise _refused(ErrorClass.UNKNOWN_MESSAGE, detail, "key.type", 2) from None
    if value is None or len(value) < 2:  # noqa: PLR2004 - an int16
        raise _refused(ErrorClass.TRUNCATED, f"a value of {kind.name} has a version", "value")
    (version,) = struct.unpack_from(">h", value)
    codec = _message(_MESSAGES[kind])
    head = value[:2] if codec is _message("EndTxnMarker") else b""
    message = codec.decode(memoryview(value)[len(head) :], version)
    is_same = head + message.encode(version) == value and _KEY.pack(key_version, number) == key
    return f"{kind.name} v{version}", is_same


def is_abort(data: memoryview) -> bool:
    """Whether a control batch, whose bytes these are, aborts a transaction."""
    keys = [record.key or b"" for record in read_batch(data, check_crc=False).records]
    return any(len(key) >= _KEY.size and _KEY.unpack_from(key)[1] == ControlRecordType.ABORT
               for key in keys)  # fmt: skip
