"""Records what passes: a line of JSON for each message, as it came and decoded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from kraftspec.fastpath.errors import CodecError

if TYPE_CHECKING:
    from kraftspec.proxy.frame import Frame


class Recorder:
    """Writes into a file; ``write`` is called with each message before rules act on it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, frame: Frame, node: str) -> None:
        """Write a message. What cannot be decoded is written in hex, with the reason."""
        exchange = frame.exchange
        line: dict[str, Any] = {
            "time": time.time(),
            "node": node,
            "direction": frame.direction,
            "api": exchange.name,
            "version": frame.version,
            "correlationId": exchange.correlation_id,
            "bytes": len(frame.data),
        }
        if frame.direction == "request":
            line["clientId"] = frame.client_id
        try:
            line["message"] = frame.message.to_json(frame.version)
        except CodecError as error:
            line["error"] = str(error)
            line["hex"] = frame.data.hex()
        self._file.write(msgspec.json.encode(line).decode() + "\n")
        self._file.flush()  # People follow it, and a proxy that is killed has written all.
