"""Frames of Kafka as a capture file: classic pcap, IPv4 and TCP without a link layer."""

from __future__ import annotations

import struct
from pathlib import Path

from kraftspec.proxy.capture import FILE_HEADER, SEGMENT_BYTES_MAX, Tcp, record


class Connection(Tcp):
    """One TCP connection; ``number`` distinguishes its client (0) from those of others."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(((bytes((10, 0, 1, 1)), 20_000 + number), (bytes((10, 0, 0, 1)), port)))


class Capture:
    """Packets in the order in which they were seen, a millisecond apart."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def send(
        self, connection: Connection, sender: int, data: bytes, size: int = SEGMENT_BYTES_MAX
    ) -> None:
        """Add bytes that one side sends, in segments of at most ``size`` bytes."""
        for at in range(0, len(data), size):
            self.packets.append(connection.packet(sender, data[at : at + size]))

    def write(self, path: Path) -> None:
        """Write the file."""
        with path.open("wb") as out:
            out.write(FILE_HEADER)
            for number, packet in enumerate(self.packets):
                out.write(record(packet, 1_700_000_000_000_000 + number * 1000))


def frame(header: bytes, body: bytes) -> bytes:
    """Put a header before a message, and the size before both."""
    return struct.pack(">i", len(header) + len(body)) + header + body
