"""Captured requests: the header of each, and its body for ``decode_message``."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import pyarrow as pa

from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.pipeline.messages.decode import binary_column
from kraftspec.pipeline.messages.schema import ERROR_TYPE, messages_of
from kraftspec.reference.wire.apis import message_of
from kraftspec.reference.wire.frames import read_request_head

_HEAD: Final = Struct(">hh")  # API key and version, the same in every header.

REQUEST_TYPE: Final = pa.struct(
    [
        ("message", pa.string()),
        ("version", pa.int16()),
        ("apiKey", pa.int16()),
        ("correlationId", pa.int32()),
        ("clientId", pa.string()),
        ("body", pa.binary()),
        ("_error", ERROR_TYPE),
    ]
)


def split_requests(
    column: pa.Array | pa.ChunkedArray, *, spec_set: str = "kafka"
) -> pa.StructArray:
    """Read the headers of requests, each a frame without the size before it.

    The struct has the message's name (``FetchRequest``), ``version``, ``apiKey``,
    ``correlationId``, ``clientId`` and the ``body``, which ``decode_message`` takes. A null frame
    gives null. A frame whose header is wrong, or of an API or a version that the set does not have,
    has ``_error`` and of the rest what is known. ValueError for a column that is not binary.
    """
    rows = [
        None if frame is None else _split(frame, spec_set)
        for frame in binary_column(column).to_pylist()
    ]
    return pa.array(rows, REQUEST_TYPE)


def _split(frame: bytes, spec_set: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    try:
        if len(frame) < _HEAD.size:
            detail = f"a request starts with API key and version, {_HEAD.size} bytes"
            raise CodecError(ErrorClass.TRUNCATED, detail, offset=0)
        row["apiKey"], row["version"] = _HEAD.unpack_from(frame)
        cls = message_of(messages_of(spec_set), "request", row["apiKey"])
        if cls is None:
            detail = f"there is no request with API key {row['apiKey']} in {spec_set}"
            raise CodecError(ErrorClass.UNKNOWN_MESSAGE, detail, offset=0)
        row["message"] = cls.__name__
        head = read_request_head(frame, cls)
        row["correlationId"], row["clientId"] = head.correlation_id, head.client_id
        row["body"] = frame[head.body_at :]
    except CodecError as error:
        row["_error"] = {
            "class": str(error.error_class),
            "position": error.offset,
            "detail": detail_of(error),
        }
    return row
