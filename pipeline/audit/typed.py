"""Records whose values Kafka itself reads: those of the metadata log, and control records.

Each value is decoded by its generated codec and encoded again at the same version: the bytes must
be the same, of a metadata record with its frame, of a control record with its key.
"""

from __future__ import annotations

from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.wire import uvarint
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.reference.metadata.frames import (
    CONTROL_KEY,
    FRAME_VERSION,
    FrameError,
    read_control,
    read_frame,
)


def metadata_record(value: bytes | None) -> tuple[str, bool]:
    """Return ("TopicRecord v0", whether the encoded value has the same bytes).

    Raises CodecError, its offset a byte of the value, and FrameError.
    """
    frame = read_frame(value)
    assert value is not None  # Which is no frame.
    head = b"".join(map(uvarint, (FRAME_VERSION, frame.number, frame.version)))
    encoded = head + frame.decode(value).encode(frame.version)
    return f"{frame.cls.__name__} v{frame.version}", encoded == value


def control_record(key: bytes | None, value: bytes | None) -> tuple[str, bool]:
    """Return ("COMMIT v0", whether key and value come out the same).

    Raises CodecError, its offset a byte of the value, and FrameError.
    """
    frame = read_control(key, value)
    assert key is not None  # Without a key or a value it is no control record.
    assert value is not None
    encoded = value[: frame.body_at] + frame.decode(value).encode(frame.version)
    is_same = encoded == value and len(key) == CONTROL_KEY.size
    return f"{ControlRecordType(frame.number).name} v{frame.version}", is_same


def is_abort(data: memoryview) -> bool:
    """Whether the bytes are a control batch that aborts a transaction."""
    for record in read_batch(data, check_crc=False).records:
        try:
            return read_control(record.key, record.value).number == ControlRecordType.ABORT
        except FrameError:
            return False
    return False
