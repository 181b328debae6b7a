"""Frames of Kafka as a capture file: classic pcap, IPv4 and TCP without a link layer."""

from __future__ import annotations

import struct
from pathlib import Path

_FILE = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101)  # 101: raw IP.
_SEGMENT_MAX = 60_000  # With both headers it must stay below 64 KiB.
_ACK_PUSH = 0x18


class Connection:
    """One TCP connection; ``name`` distinguishes its client from those of others."""

    def __init__(self, number: int, port: int) -> None:
        self.ends = ((bytes((10, 0, 1, 1)), 20_000 + number), (bytes((10, 0, 0, 1)), port))
        self.sent = [1, 1]

    def segment(self, sender: int, data: bytes) -> bytes:
        """Return the IP packet with the next bytes that the client (0) or the node (1) sends."""
        (source, source_port), (target, target_port) = self.ends[sender], self.ends[1 - sender]
        tcp = struct.pack(
            ">HHIIBBHHH", source_port, target_port, self.sent[sender], self.sent[1 - sender],
            5 << 4, _ACK_PUSH, 0xFFFF, 0, 0,
        )  # fmt: skip
        self.sent[sender] += len(data)
        size = 40 + len(data)
        return (
            struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + source + target + tcp + data
        )


class Capture:
    """Packets in the order in which they were seen, a millisecond apart."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def send(
        self, connection: Connection, sender: int, data: bytes, size: int = _SEGMENT_MAX
    ) -> None:
        """Add bytes that one side sends, in segments of at most ``size`` bytes."""
        for at in range(0, len(data), size):
            self.packets.append(connection.segment(sender, data[at : at + size]))

    def write(self, path: Path) -> None:
        """Write the file."""
        with path.open("wb") as out:
            out.write(_FILE)
            for number, packet in enumerate(self.packets):
                second, millisecond = divmod(number, 1000)
                sizes = len(packet), len(packet)
                out.write(struct.pack("<IIII", 1_700_000_000 + second, millisecond * 1000, *sizes))
                out.write(packet)


def frame(header: bytes, body: bytes) -> bytes:
    """Put a header before a message, and the size before both."""
    return struct.pack(">i", len(header) + len(body)) + header + body
