"""What a record of the metadata log holds: which message, at which version, from which byte on.

A data record's value is a frame (``org.apache.kafka.server.common.serialization
.AbstractApiMessageSerde``)::

    uvarint frame version, 1
    uvarint API key of the record      (MetadataRecordType)
    uvarint version of the record
    the record

A control record's type is the second int16 of its key, and its value is the bare message, whose
first field is its version (``org.apache.kafka.common.record.internal.ControlRecordUtils``); the
mark at the end of a transaction has that int16 before it instead.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.wire import read_uvarint
from kraftspec.generated import kafka
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.reference.profiles import KAFKA, parts_of

FRAME_VERSION: Final = 1
# Records of another log, __remote_log_metadata, that are numbered from 0 again.
_REMOTE_STORAGE: Final = "Remote"
_INT16: Final = Struct(">h")
CONTROL_KEY: Final = Struct(">hh")  # Version, type.
_HEAD_BYTES: Final = 3  # Each of the three numbers has been one byte so far.


class Frame(NamedTuple):
    """A record whose message is known: of ``cls`` at ``version``, from byte ``body_at`` on.

    ``number`` is the API key of a metadata record, or the type of a control record.
    """

    cls: type[Message]
    number: int
    version: int
    body_at: int

    def decode(self, value: bytes) -> Message:
        """Decode the message; CodecError, whose offset is the byte of ``value``."""
        message, end = self.cls.decode_from(value, self.body_at, self.version)
        if end != len(value):
            raise CodecError(
                ErrorClass.TRAILING, f"{len(value) - end} bytes follow the record", offset=end
            )
        return message


class FrameError(Exception):
    """A record of which not even the message is known, or not at this version.

    ``number`` and ``version`` are those that it names, as far as it does.
    """

    def __init__(
        self, error: CodecError, number: int | None = None, version: int | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.number = number
        self.version = version

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.error, self.number, self.version)


@cache
def record_classes() -> dict[int, type[Message]]:
    """Return the records of the cluster's metadata log by API key (``MetadataRecordType``)."""
    return {
        entry[2]: getattr(kafka, name)
        for name, entry in kafka.CATALOGUE.items()
        if entry[1] == "metadata" and entry[2] is not None and not name.startswith(_REMOTE_STORAGE)
    }


def control_classes(profile: str = KAFKA) -> dict[int, type[Message]]:
    """Return the messages of a profile's control records by control record type."""
    return parts_of(profile).control_messages


def control_name(kind: int, profile: str = KAFKA) -> str | None:
    """Return what a type of control record is called; None for one that the profile has not."""
    return parts_of(profile).control_names.get(kind)


@cache
def record_names() -> tuple[str, ...]:
    """Return the names of all messages that a metadata log may hold."""
    classes = [*record_classes().values(), *control_classes().values()]
    return tuple(sorted({cls.__name__ for cls in classes}))


def read_frame(value: bytes | None) -> Frame:
    """Read the frame of a data record.

    Raises FrameError: no value, a cut or overlong number, a frame version, an API key or a record
    version that nobody knows.
    """
    if value is None:
        raise FrameError(CodecError(ErrorClass.NULL_FOR_NON_NULLABLE, "the record has no value"))
    if len(value) >= _HEAD_BYTES and value[:_HEAD_BYTES].isascii():
        return _short_frame(value[:_HEAD_BYTES])
    frame_version, at = _number(value, 0, "frame version")
    key, at = _number(value, at, "API key")
    version, at = _number(value, at, "version")
    return _frame(frame_version, key, version, at)


@cache  # Only what is known: what is refused raises, each time.
def _short_frame(head: bytes) -> Frame:
    """Return the frame of a head whose numbers take one byte each: below 128."""
    frame_version, key, version = head
    return _frame(frame_version, key, version, _HEAD_BYTES)


def _frame(frame_version: int, key: int, version: int, at: int) -> Frame:
    if frame_version != FRAME_VERSION:
        detail = f"a frame of version {FRAME_VERSION} wanted, not {frame_version}"
        raise FrameError(CodecError(ErrorClass.UNSUPPORTED_VERSION, detail, offset=0))
    cls = record_classes().get(key)
    if cls is None:
        detail = f"there is no metadata record with API key {key}"
        raise FrameError(CodecError(ErrorClass.UNKNOWN_MESSAGE, detail, offset=1), key, version)
    return _known(cls, key, version, at)


def read_control(key: bytes | None, value: bytes | None, profile: str = KAFKA) -> Frame:
    """Read which message a control record is; FrameError as ``read_frame`` has it."""
    if key is None or len(key) < CONTROL_KEY.size:
        detail = f"the key of a control record has {CONTROL_KEY.size} bytes"
        raise FrameError(CodecError(ErrorClass.TRUNCATED, detail, path="key"))
    kind = CONTROL_KEY.unpack_from(key)[1]
    parts = parts_of(profile)
    cls = parts.control_messages.get(kind)
    if cls is None:
        detail = f"there is no control record of type {kind}"
        raise FrameError(CodecError(ErrorClass.UNKNOWN_MESSAGE, detail, path="key"), kind)
    if value is None or len(value) < _INT16.size:
        detail = "the value of a control record starts with a version, an int16"
        raise FrameError(CodecError(ErrorClass.TRUNCATED, detail, offset=0), kind)
    if parts.control_version is not None:
        return _known(cls, kind, parts.control_version, 0)
    version = _INT16.unpack_from(value)[0]
    has_prefix = kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    return _known(cls, kind, version, _INT16.size if has_prefix else 0)


def write_frame(record: Message, version: int) -> bytes:
    """Return the value of a data record that has a message at a version.

    Raises CodecError where it cannot be written at that version.
    """
    assert record.API_KEY is not None
    head = bytes([FRAME_VERSION, record.API_KEY, version])  # None has reached two bytes so far.
    return head + record.encode(version)


def explain(offset: int, error: CodecError) -> str:
    """Return what is wrong with the record at an offset of the log."""
    at = "" if error.offset is None else f", byte {error.offset} of its value"
    return f"record at offset {offset}{at}: {detail_of(error)}"


def _known(cls: type[Message], number: int, version: int, body_at: int) -> Frame:
    if version not in cls.VALID_VERSIONS:
        known = f"{min(cls.VALID_VERSIONS)} to {max(cls.VALID_VERSIONS)}"
        detail = f"{cls.__name__} has versions {known}, not {version}"
        error = CodecError(ErrorClass.UNSUPPORTED_VERSION, detail, offset=min(body_at, 2))
        raise FrameError(error, number, version)
    return Frame(cls, number, version, body_at)


def _number(value: bytes, at: int, what: str) -> tuple[int, int]:
    try:
        return read_uvarint(value, at)
    except IndexError:
        error = CodecError(
            ErrorClass.VARINT_TRUNCATED, "the value ends in it", path=what, offset=at
        )
    except Exception:  # What straight-line code refuses by: it names nothing.
        detail = "not the shortest form of a number of 31 bits"
        error = CodecError(ErrorClass.VARINT_OVERFLOW, detail, path=what, offset=at)
    raise FrameError(error)
