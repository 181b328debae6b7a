"""Packets as a capture file that Wireshark and tshark open: what the proxy's sockets saw.

The file is a classic pcap of raw IP packets, without a link layer. Each socket of the proxy is a
TCP connection in it: the clients' have the bytes as clients sent and got them, the nodes' have what
the rules made of them. Checksums are 0, and times are those at which the proxy had the bytes.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINK_TYPE_RAW_IP: Final = 101
FILE_HEADER: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, LINK_TYPE_RAW_IP)
SEGMENT_BYTES_MAX: Final = 60_000  # With both headers it must stay below 64 KiB.
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
_PACKET: Final = struct.Struct("<IIII")
_TCP: Final = struct.Struct(">HHIIBBHHH")
_TCP_BYTES: Final = 20
IPV4_BYTES: Final = 4  # An IPv6 address has 16.
_TTL: Final = 64
_SEQUENCE: Final = (1 << 32) - 1

End = tuple[bytes, int]  # The 4 or 16 bytes of an address, and a port.


def end_of(address: tuple[Any, ...]) -> End:
    """Return the end of a connection that asyncio calls ``(host, port, ...)``."""
    host = address[0].partition("%")[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.inet_pton(family, host), address[1]


class Tcp:
    """A TCP connection as its packets; ``ends`` are those of the sides 0 and 1."""

    def __init__(self, ends: tuple[End, End]) -> None:
        self.ends = ends
        self.next = [1, 1]  # Sequence numbers.

    def packet(self, sender: int, data: bytes | memoryview = b"", flags: int = PSH | ACK) -> bytes:
        """Return the IP packet with the next bytes of a side; SYN and FIN take a number, too."""
        (source, source_port), (target, target_port) = self.ends[sender], self.ends[1 - sender]
        sequence, acknowledged = self.next[sender], self.next[1 - sender]
        if flags & SYN:
            sequence -= 1
        elif flags & FIN:
            self.next[sender] = sequence + 1 & _SEQUENCE
        self.next[sender] = self.next[sender] + len(data) & _SEQUENCE
        tcp = _TCP.pack(
            source_port, target_port, sequence, acknowledged if flags & ACK else 0,
            _TCP_BYTES // 4 << 4, flags, 0xFFFF, 0, 0,
        )  # fmt: skip
        size = _TCP_BYTES + len(data)
        if len(source) == IPV4_BYTES:
            ip = struct.pack(
                ">BBHHHBBH", 0x45, 0, 20 + size, 0, 0, _TTL, socket.IPPROTO_TCP, 0
            )  # fmt: skip
        else:
            ip = struct.pack(">IHBB", 6 << 28, size, socket.IPPROTO_TCP, _TTL)
        return b"".join((ip, source, target, tcp, data))


def record(packet: bytes, at_us: int) -> bytes:
    """Return a packet as it stands in the file; ``at_us`` are microseconds since 1970."""
    seconds, micros = divmod(at_us, 1_000_000)
    return _PACKET.pack(seconds, micros, len(packet), len(packet)) + packet


class Capture:
    """Writes what sockets send and get into a file, at once, so that it may be read meanwhile.

    When the file cannot be written any more, ``on_error`` hears why, and the rest is left out.
    """

    def __init__(self, file: BinaryIO, on_error: Callable[[str], None]) -> None:
        """Write the head of the file. Raises OSError."""
        self._file: BinaryIO | None = file
        self._on_error = on_error
        file.write(FILE_HEADER)

    def open(self, transport: Any, *, is_accepted: bool) -> CapturedTransport:
        """Return the transport in whose place it is captured; ``is_accepted``: the peer opened."""
        return CapturedTransport(self, transport, is_accepted=is_accepted)

    def write(self, packet: bytes) -> None:
        """Write a packet."""
        if self._file is None:
            return
        try:
            self._file.write(record(packet, time.time_ns() // 1_000))
        except OSError as error:
            self._file = None
            self._on_error(f"the capture ends: {error.strerror or error}")


class CapturedTransport:
    """An asyncio transport whose bytes are captured. Side 0 is ours, side 1 the peer's.

    Whoever wants them otherwise overrides ``note_bytes`` and ``note_end``.
    """

    def __init__(self, capture: Capture, transport: Any, *, is_accepted: bool) -> None:
        self._capture = capture
        self._transport = transport
        ends = (transport.get_extra_info(name) for name in ("sockname", "peername"))
        ours, theirs = map(end_of, ends)
        self._tcp = Tcp((ours, theirs))
        self._ended = [False, False]
        opener = 1 if is_accepted else 0
        for sender, flags in ((opener, SYN), (1 - opener, SYN | ACK), (opener, ACK)):
            capture.write(self._tcp.packet(sender, flags=flags))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def note_bytes(self, sender: int, data: bytes | memoryview) -> None:
        """Note bytes that a side sends."""
        view = memoryview(data)
        for at in range(0, len(view), SEGMENT_BYTES_MAX):
            self._capture.write(self._tcp.packet(sender, view[at : at + SEGMENT_BYTES_MAX]))

    def note_end(self, sender: int, flags: int) -> None:
        """Note that a side sends no more: by FIN or RST."""
        if not self._ended[sender]:
            self._ended[sender] = True
            self._capture.write(self._tcp.packet(sender, flags=flags | ACK))

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""
        self.note_bytes(0, data)
        self._transport.write(data)

    def write_eof(self) -> None:
        """Send no more."""
        self.note_end(0, FIN)
        self._transport.write_eof()

    def close(self) -> None:
        """Close, after what was sent."""
        self.note_end(0, FIN)
        self._transport.close()

    def abort(self) -> None:
        """Close by a reset."""
        self.note_end(0, RST)
        self._transport.abort()

    def received(self, data: bytes) -> None:
        """Note bytes of the peer."""
        self.note_bytes(1, data)

    def peer_ended(self, *, is_reset: bool) -> None:
        """Note that the peer sends no more."""
        self.note_end(1, RST if is_reset else FIN)
