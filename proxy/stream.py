"""Finds the frames in what a peer sends, and passes on those that nobody wants to look at.

A frame that is not wanted passes piece by piece, as it comes: it is not copied, and its receiver
need not wait for its end. A wanted one is put together first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraftspec.reference.wire.frames import FRAME_BYTES_MAX, SIZE_BYTES

if TYPE_CHECKING:
    from kraftspec.proxy.lane import Lane

# (bytes, where a frame begins in them, where it ends) → is it wanted? None: more bytes are needed.
Begin = Callable[[memoryview, int, int], bool | None]


class Stream:
    """What comes from one peer and goes into a lane.

    ``begin`` is asked at the head of each frame. ``take`` gets each wanted frame, its size
    included. ``done`` is called after each other frame while ``is_awaited``. ``lost`` hears why
    frames cannot be told apart any more.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        bytes_min: int,
        begin: Begin,
        take: Callable[[bytes], None],
        done: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        self.is_raw = False  # Everything passes, whatever it is.
        self.is_awaited = False
        self._lane = lane
        self._bytes_min: Final = bytes_min
        self._begin = begin
        self._take = take
        self._done = done
        self._lost = lost
        self._head = b""  # The first bytes of a frame, too few to say what it is.
        self._left = 0  # Bytes that a passing frame still has.
        self._missing = 0  # Bytes that a wanted frame still needs.
        self._pieces: list[memoryview] = []

    @property
    def is_in_frame(self) -> bool:
        """Whether part of a frame has been passed on, and part has not come yet."""
        return self._left > 0

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        if self._head:
            data, self._head = self._head + data, b""
        view = memoryview(data)
        at, end = 0, len(view)
        run = 0  # What lies between here and ``at`` passes on.
        while at < end and not self.is_raw:
            if self._missing:
                piece = view[at : at + self._missing]
                at += len(piece)
                run = at
                self._collect(piece)
            elif self._left:
                step = min(self._left, end - at)
                at += step
                self._left -= step
                if self.is_awaited and not self._left:
                    self._send(view, run, at)
                    run = at
                    self._done()
            elif (wanted := self._next(view, at)) is None:
                self._send(view, run, at)
                self._head = bytes(view[at:])
                return
            elif wanted:
                self._send(view, run, at)
        self._send(view, run, end)

    def finish(self) -> None:
        """Pass on what has come of a frame that will never be whole."""
        rest = b"".join((*self._pieces, self._head))
        if rest:
            self._lane.send(rest)
        self._pieces, self._head, self._missing = [], b"", 0

    def _send(self, view: memoryview, run: int, at: int) -> None:
        if run < at:
            self._lane.send(view[run:at])

    def _collect(self, piece: memoryview) -> None:
        self._pieces.append(piece)
        self._missing -= len(piece)
        if not self._missing:
            whole = b"".join(self._pieces)
            self._pieces.clear()
            self._take(whole)

    def _next(self, view: memoryview, at: int) -> bool | None:
        """Look at the head of a frame: whether it is wanted; None where more bytes are needed."""
        if len(view) - at < SIZE_BYTES:
            return None
        size = int.from_bytes(view[at : at + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= FRAME_BYTES_MAX:
            self._lost(f"a frame of {size} bytes; 0 to {FRAME_BYTES_MAX} are possible")
            return False
        end = at + SIZE_BYTES + size
        wanted: bool | None = False
        if size >= self._bytes_min:
            if len(view) - at < SIZE_BYTES + self._bytes_min:
                return None
            wanted = self._begin(view, at, end)
            if wanted is None:
                return None
        if wanted:
            self._missing = end - at
        else:
            self._left = end - at
        return wanted
