"""The exchange of a scenario: what was sent to whom, decoded and in hex, and how it is printed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kraftspec.conformance.live.messages import API_NAMES, NODE, REQUESTS, RESPONSES
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.reference.wire.frames import (
    answer_version,
    peek_request,
    read_correlation_id,
    read_request_head,
    read_response,
)

HEX_ROW_BYTES = 32
HEX_BYTES_MAX = 512  # Of a longer frame, only the beginning is printed; --json has all.


@dataclass
class Entry:
    """A frame, or an event: ``data`` is empty then. ``at_s`` counts from the node's first start."""

    at_s: float
    sender: int
    receiver: int
    title: str
    data: bytes = b""
    fields: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "at_s": round(self.at_s, 4),
            "from": self.sender,
            "to": self.receiver,
            "what": self.title,
            "hex": self.data.hex(),
            "fields": self.fields,
        }


class Transcript:
    """What happened, in order; several threads add to it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._lock = threading.Lock()
        self._start_s = time.monotonic()

    def note(self, title: str) -> None:
        """Add an event at the node."""
        self._add(NODE, NODE, title)

    def request(self, sender: int, receiver: int, frame: bytes) -> Message | None:
        """Add a request, its size left out; return it, or None where it cannot be read."""
        try:
            key, version, correlation_id = peek_request(frame)
            name = API_NAMES.get(key, f"API {key}")
            title = f"{name} v{version} request {correlation_id}"
            message = REQUESTS[name]
            body = frame[read_request_head(frame, message).body_at :]
            read: Message = message.decode(body, version, copy=True)
            self._add(sender, receiver, title, frame, lambda: read.to_json(version))
        except (CodecError, KeyError, ValueError) as error:
            self._add(sender, receiver, f"a request that cannot be read: {error}", frame)
            return None
        return read

    def response(
        self, sender: int, receiver: int, frame: bytes, api: str, version: int
    ) -> Message | None:
        """Add a response, its size left out; return it, or None where it cannot be read."""
        message = RESPONSES[api]
        title = f"{api} v{version} response {read_correlation_id(frame)}"
        try:
            read: Message = read_response(frame, message, version)
            shown = answer_version(frame, message, version)
            self._add(sender, receiver, title, frame, lambda: read.to_json(shown))
        except CodecError as error:
            self._add(sender, receiver, f"{title} that cannot be read: {error}", frame)
            return None
        return read

    def raw(self, sender: int, receiver: int, title: str, data: bytes) -> None:
        """Add bytes that are no message."""
        self._add(sender, receiver, title, data)

    def _add(
        self,
        sender: int,
        receiver: int,
        title: str,
        data: bytes = b"",
        fields: Callable[[], Any] = lambda: None,
    ) -> None:
        entry = Entry(0.0, sender, receiver, title, data, fields())
        with self._lock:
            entry.at_s = time.monotonic() - self._start_s
            self.entries.append(entry)

    def lines(self) -> list[str]:
        """Return the exchange for people."""
        lines = []
        for entry in list(self.entries):
            if not entry.data:
                lines.append(f"{entry.at_s:9.3f} s  {'':8}  --- {entry.title}")
                continue
            who = f"{_name(entry.sender)} → {_name(entry.receiver)}"
            lines.append(f"{entry.at_s:9.3f} s  {who:8}  {entry.title}, {len(entry.data)} bytes")
            if entry.fields is not None:
                lines.append(f"{'':23}{json.dumps(entry.fields, ensure_ascii=False)}")
            shown = entry.data[:HEX_BYTES_MAX]
            for at in range(0, len(shown), HEX_ROW_BYTES):
                row = shown[at : at + HEX_ROW_BYTES].hex(" ", 4)
                lines.append(f"{'':23}{at:04x}  {row}")
            if len(shown) < len(entry.data):
                lines.append(f"{'':23}and {len(entry.data) - len(shown)} bytes more")
        return lines


def _name(node: int) -> str:
    return "node" if node == NODE else f"{node}"
