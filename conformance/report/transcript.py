"""An exchange: what was sent to whom, decoded and in hex, and how it is printed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.proxy.capture import ACK, FILE_HEADER, SEGMENT_BYTES_MAX, SYN, Tcp, end_of, record
from kraftspec.proxy.frame import apis_of
from kraftspec.reference.wire.frames import (
    answer_version,
    peek_request,
    read_correlation_id,
    read_request_head,
    read_response,
    sized,
)

HOST = "127.0.0.1"  # Of all in a capture.
HEX_ROW_BYTES = 32
CLIENT_PORT = 1_000  # Who opened a connection in a capture, the number of it is added.
LANE_CHARS = 10
HEX_BYTES_MAX = 512  # Of a longer frame, only the beginning is printed; --json has all.
FIELDS_CHARS_MAX = 4_000  # Likewise of a message's fields.


@dataclass
class Entry:
    """A frame, or an event: ``data`` is empty then. ``at_s`` counts from the beginning."""

    at_s: float
    sender: int
    receiver: int
    title: str
    data: bytes
    fields: Any
    asked_by: int  # Who opened the connection.
    connection: int  # Its number.
    is_whole: bool = False  # The data begins with its size, or with what stands in its place.

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "at_s": round(self.at_s, 4),
            "from": self.sender,
            "to": self.receiver,
            "what": self.title,
            **({"connection": self.connection} if self.data else {}),
            "hex": self.data.hex(),
            "fields": self.fields,
        }


class Transcript:
    """What happened to ``subject``, in order; several threads add to it."""

    def __init__(self, subject: int, name: str) -> None:
        """Begin; ``name`` is what people call the subject."""
        self.subject, self.name = subject, name
        self.entries: list[Entry] = []
        self._lock = threading.Lock()
        self._connections: dict[object, int] = {}
        self._start_s = time.monotonic()
        self._start_us = time.time_ns() // 1_000

    def note(self, title: str) -> None:
        """Add an event at the subject."""
        self._add(self.subject, self.subject, title)

    def request(
        self, sender: int, receiver: int, frame: bytes, connection: object
    ) -> Message | None:
        """Add a request, its size left out; return it, or None where it cannot be read."""
        opened = (sender, self._number(connection))
        try:
            key, version, correlation_id = peek_request(frame)
            api = apis_of(kafka).get(key)
            name = api.name if api else f"API {key}"
            title = f"{name} v{version} request {correlation_id}"
            message = apis_of(kafka)[key].request
            body = frame[read_request_head(frame, message).body_at :]
            read: Message = message.decode(body, version, copy=True)
            self._add(sender, receiver, title, frame, lambda: read.to_json(version), opened)
        except (CodecError, KeyError, ValueError) as error:
            title = f"a request that cannot be read: {error}"
            self._add(sender, receiver, title, frame, opened=opened)
            return None
        return read

    def response(
        self, sender: int, receiver: int, frame: bytes, api: str, version: int, connection: object
    ) -> Message | None:
        """Add a response, its size left out; return it, or None where it cannot be read."""
        opened = (receiver, self._number(connection))
        message = _response_classes()[api]
        title = f"{api} v{version} response {read_correlation_id(frame)}"
        try:
            read: Message = read_response(frame, message, version)
            shown = answer_version(frame, message, version)
            self._add(sender, receiver, title, frame, lambda: read.to_json(shown), opened)
        except CodecError as error:
            title = f"{title} that cannot be read: {error}"
            self._add(sender, receiver, title, frame, opened=opened)
            return None
        return read

    def raw(self, sender: int, receiver: int, title: str, data: bytes, connection: object) -> None:
        """Add bytes that are no message, those of a size among them."""
        opened = (receiver if sender == self.subject else sender, self._number(connection))
        self._add(sender, receiver, title, data, opened=opened, is_whole=True)

    def _number(self, connection: object) -> int:
        with self._lock:
            return self._connections.setdefault(connection, len(self._connections) + 1)

    def _add(
        self,
        sender: int,
        receiver: int,
        title: str,
        data: bytes = b"",
        fields: Callable[[], Any] = lambda: None,
        opened: tuple[int, int] = (0, 0),
        *,
        is_whole: bool = False,
    ) -> None:
        entry = Entry(0.0, sender, receiver, title, data, fields(), *opened, is_whole)
        with self._lock:
            entry.at_s = time.monotonic() - self._start_s
            self.entries.append(entry)

    def lines(self) -> list[str]:
        """Return the exchange for people: a lane for each node, an arrow for each frame."""
        entries = list(self.entries)
        peers = {node for one in entries for node in (one.sender, one.receiver)} - {self.subject}
        lanes = [self.subject, *sorted(peers)]
        heads = "".join(
            f"{self.name if node == self.subject else node!s:<{LANE_CHARS}}" for node in lanes
        )
        lines = [f"{'':13}{heads}".rstrip()]
        for entry in entries:
            at = f"{entry.at_s:9.3f} s  "
            if not entry.data:
                lines.append(f"{at}{_arrow(lanes, self.subject, self.subject)}--- {entry.title}")
                continue
            arrow = _arrow(lanes, entry.sender, entry.receiver)
            lines.append(
                f"{at}{arrow}{entry.title}, connection {entry.connection}, {len(entry.data)} bytes"
            )
            if entry.fields is not None:
                fields = json.dumps(entry.fields, ensure_ascii=False)
                more = "…" if len(fields) > FIELDS_CHARS_MAX else ""
                lines.append(f"{'':13}{fields[:FIELDS_CHARS_MAX]}{more}")
            shown = entry.data[:HEX_BYTES_MAX]
            for offset in range(0, len(shown), HEX_ROW_BYTES):
                row = shown[offset : offset + HEX_ROW_BYTES].hex(" ", 4)
                lines.append(f"{'':13}{offset:04x}  {row}")
            if len(shown) < len(entry.data):
                lines.append(f"{'':13}and {len(entry.data) - len(shown)} bytes more")
        return lines

    def pcap(self, ports: Mapping[int, int]) -> bytes:
        """Return the exchange as a capture. Packets are frames, each at the time it was noted."""
        packets = [FILE_HEADER]
        connections: dict[int, Tcp] = {}
        for entry in list(self.entries):
            if not entry.data:
                continue
            at_us = self._start_us + int(entry.at_s * 1e6)
            opener = entry.asked_by
            other = entry.receiver if entry.sender == opener else entry.sender
            tcp = connections.get(entry.connection)
            if tcp is None:
                source, target = (HOST, CLIENT_PORT + entry.connection), (HOST, ports[other])
                tcp = connections[entry.connection] = Tcp((end_of(source), end_of(target)))
                for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
                    packets.append(record(tcp.packet(side, flags=flags), at_us))
            data = entry.data if entry.is_whole else sized(entry.data)
            for offset in range(0, len(data), SEGMENT_BYTES_MAX):
                part = data[offset : offset + SEGMENT_BYTES_MAX]
                side = 0 if entry.sender == opener else 1
                packets.append(record(tcp.packet(side, part), at_us))
        return b"".join(packets)


@cache
def _response_classes() -> dict[str, type[Message]]:
    return {one.name: one.response for one in apis_of(kafka).values()}


def _arrow(lanes: list[int], sender: int, receiver: int) -> str:
    """Return the lanes, with an arrow from one to another."""
    first, last = sorted((lanes.index(sender), lanes.index(receiver)))
    drawn = ""
    for number in range(len(lanes)):
        inside = first <= number < last
        drawn += "│" + ("─" if inside else " ") * (LANE_CHARS - 1)
    if first == last:
        return drawn
    if lanes.index(receiver) > lanes.index(sender):
        tip = last * LANE_CHARS - 1
        return f"{drawn[:tip]}>{drawn[tip + 1 :]}"
    tip = first * LANE_CHARS + 1
    return f"{drawn[:tip]}<{drawn[tip + 1 :]}"
