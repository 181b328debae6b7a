"""A peer's connection to the node: requests go out in any shape, answers come back in order."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.wire.blocking import CHUNK_BYTES, left_s
from kraftspec.reference.wire.frames import FrameReader

PIECE_PAUSE_S = 0.05  # Long enough for a piece to be read by itself.


class Connection:
    """A connection of a peer. Answers are frames without their sizes, by their correlation ids."""

    def __init__(self, port: int, timeout_s: float, peer: int) -> None:
        self.peer = peer
        self.socket = socket.create_connection((HOST, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_closed = False  # By the node.
        self.due: deque[tuple[str, int, int]] = deque()  # API, version and id of each request.
        self._reader = FrameReader()

    def send(self, data: bytes, pieces: Sequence[int] = ()) -> None:
        """Send bytes, in pieces of these lengths and the rest. A closed connection takes none."""
        try:
            for length in pieces:
                self.socket.sendall(data[:length])
                data = data[length:]
                time.sleep(PIECE_PAUSE_S)
            self.socket.sendall(data)
        except OSError:
            self.is_closed = True

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.is_closed = True

    def receive(self, deadline_s: float) -> bytes | None:
        """Return the next frame; None where the node closed the connection. Raises TimeoutError."""
        while (frame := self._reader.take()) is None:
            self.socket.settimeout(left_s(deadline_s))
            try:
                data = self.socket.recv(CHUNK_BYTES)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                self.is_closed = True
                return None
            self._reader.feed(data)
        return frame

    def shut(self) -> None:
        """Let a thread that waits for an answer wait no more."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it."""
        self.socket.close()
