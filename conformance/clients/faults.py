"""The faults that our own client has by a switch; each fails at least one exchange."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterable
from typing import Any

from kraftspec.fastpath import iterate_records
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.reference.wire.frames import RESPONSE_BYTES_MIN, read_response

_FOREVER_S = 3_600.0
_KEPT: list[Any] = []  # Memory that a fault takes.

FAULTS = {
    "no-fallback": "gives up when the broker does not know its version of ApiVersions",
    "own-version": "sends its newest version, whatever the broker serves",
    "oldest-version": "sends its oldest version, whatever the broker serves",
    "no-tags": "takes unknown tagged fields for a mistake",
    "header-tags": "reads a header of version 1 before an answer to ApiVersions",
    "no-codes": "takes an error code for success",
    "no-retry": "gives up at errors that pass",
    "retry-all": "tries again after errors that do not pass",
    "no-refresh": "asks the old leader again",
    "no-deadline": "waits for an answer for ever",
    "no-end": "waits for more bytes on a closed connection for ever",
    "trust-size": "takes memory for the size that a frame claims",
    "trust-count": "takes memory for the count that an array claims",
    "abort": "ends at bytes that it cannot decode",
    "any-correlation": "takes the next answer for the answer to its request",
    "late-answer": "takes an answer that comes late for the answer to its next request",
    "no-checksum": "reads batches whose checksum is wrong",
    "inflate-all": "inflates all that a compressed batch has",
    "new-sequence": "sends a batch again with a new sequence number",
    "lost-is-done": "takes a lost connection for success",
    "old-records": "returns records before the offset that was asked for",
    "any-certificate": "does not verify the certificate",
    "any-name": "does not compare the certificate's name",
    "throttle-is-error": "takes a throttled answer for an error",
    "silent-error": "has no text for its errors",
}


class Faulty:
    """Where the client asks whether it does right; without a name it does."""

    def __init__(self, name: str = "") -> None:
        if name and name not in FAULTS:
            raise ValueError(f"there is no fault {name!r}: {', '.join(FAULTS)}")
        self.name = name

    def has(self, name: str) -> bool:
        """Whether the client has this fault."""
        return self.name == name

    def version(self, ours: range, theirs: range | None, common: int | None) -> int | None:
        """Return the version of a request."""
        if self.has("own-version"):
            return ours[-1]
        return ours[0] if self.has("oldest-version") else common

    def wait_s(self, left_s: float) -> float:
        """Return how long an answer is waited for."""
        return _FOREVER_S if self.has("no-deadline") else left_s

    def trust(self, context: ssl.SSLContext) -> None:
        """Say which certificates are taken."""
        if self.name in ("any-certificate", "any-name"):
            context.check_hostname = False
        if self.has("any-certificate"):
            context.verify_mode = ssl.CERT_NONE

    def size(self, size: int) -> None:
        """See the size of a frame before it is read."""
        if self.has("abort") and size < RESPONSE_BYTES_MIN:
            os.abort()
        if self.has("trust-size") and size > 0:
            _KEPT.append(bytearray(size))

    def hung_up(self, missing: int) -> bytes:
        """Return what comes after the end of a connection."""
        if self.has("no-end"):
            time.sleep(_FOREVER_S)
        raise ConnectionResetError("the broker hung up")

    def takes(self, correlation: int, expected: int) -> bool:
        """Whether an answer with this correlation id is taken."""
        return correlation == expected or self.name in ("any-correlation", "late-answer")

    def decoded(self, kind: Any, frame: bytes, version: int) -> Any:
        """Return the message of a frame."""
        if self.has("header-tags") and kind.API_KEY == API_VERSIONS_KEY:
            frame = frame[:4] + frame[5:]
        try:
            message = read_response(frame, kind, version)
        except CodecError:
            if self.has("abort"):
                os.abort()
            if self.has("trust-count"):
                _KEPT.append(bytearray((1 << 31) - 1))
            raise
        if self.has("no-tags") and message.unknown_tagged_fields:
            raise ConnectionError("an unknown tagged field")
        if self.has("throttle-is-error") and getattr(message, "throttle_time_ms", False):
            raise ConnectionError("throttled")
        return message

    def sequence(self, sequence: int) -> int:
        """Return the sequence number of a batch that is sent again."""
        return sequence + 1 if self.has("new-sequence") and sequence >= 0 else sequence

    def records(self, data: bytes) -> Iterable[Any]:
        """Yield the records of fetched batches."""
        if self.has("inflate-all") and data[22:23] not in (b"", b"\x00"):
            _KEPT.append(bytearray(1 << 31))
        try:
            yield from iterate_records(data, check_crc=not self.has("no-checksum"))
        except CodecError:
            if self.has("abort"):
                os.abort()
            if self.has("trust-count"):
                _KEPT.append(bytearray((1 << 31) - 1))
            raise

    def stops_at(self, error: Exception, *, is_produce: bool) -> bool:
        """Whether an error that may pass is the last word."""
        if self.has("lost-is-done") and is_produce and isinstance(error, OSError):
            return True
        return self.has("no-retry")
