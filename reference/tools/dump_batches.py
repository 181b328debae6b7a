"""Walking the batches of a file that its node may be writing to: windows, no lock, no mapping.

A mapping of a file that its owner cuts ends the process; reading it does not. What is damaged is
noted, and the walk goes on where the next good batch is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.fastpath.records import LENGTH_AT, LOG_OVERHEAD_BYTES, BatchHeader
from kraftspec.fastpath.scan import Resync, is_framed

WINDOW_BYTES: Final = 8 << 20
# Looking for the next good batch: one that is larger than half of it may be missed.
SEARCH_BYTES: Final = 64 << 20
TORN: Final = "torn"  # A batch that was cut short is the last of its file.


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a file: where (bytes), of which class, in words. ``size`` may be 0."""

    file: str
    position: int
    size: int
    error_class: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}: byte {self.position}: {self.error_class}: {self.detail}"


class Piece(NamedTuple):
    """A batch: ``header.position`` is its place in ``data``, ``base`` that of ``data`` in the file.

    ``is_valid`` says whether its CRC is right.
    """

    header: BatchHeader
    data: bytes
    base: int
    is_valid: bool

    @property
    def position(self) -> int:
        """The byte of the file where the batch begins."""
        return self.base + self.header.position


class BatchWalk:
    """Iterates over the batches of an open file, from byte ``position`` to ``size``.

    Afterwards ``problems`` has what is damaged, ``zero_tail`` how many zeros the file ends with and
    ``invalid_tail`` how many bytes at its end are no batch and not zeros. A file that becomes
    shorter meanwhile ends there.
    """

    def __init__(self, name: str, descriptor: int, position: int = 0, *, size: int) -> None:
        self.problems: list[Problem] = []
        self.position = position
        self.zero_tail = 0
        self.invalid_tail = 0
        self._name = name
        self._descriptor = descriptor
        self._size = size

    def __iter__(self) -> Iterator[Piece]:
        window = WINDOW_BYTES
        while self.position < self._size:
            data = self._read(self.position, window)
            if not data:
                return
            window = WINDOW_BYTES
            at, error = 0, None
            while at < len(data):
                try:
                    header = read_header(data, at)
                except CodecError as refused:
                    error = refused
                    break
                yield Piece(header, data, self.position, True)
                at = header.end
            self.position += at
            if error is None or at:
                continue  # Read again from there: the window cut it, or its writer was at it.
            needed = claimed_size(data)
            if len(data) < needed <= self._size - self.position:
                window = needed
                continue
            piece = self._pass_over(data, error)
            if piece is not None:
                yield piece

    def _read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, min(size, self._size - position), position)

    def _pass_over(self, data: bytes, error: CodecError) -> Piece | None:
        """Go on behind a bad batch; return it where only its CRC is wrong."""
        start = self.position
        if self._is_zero(start):
            self.zero_tail = self._size - start
            self.position = self._size
            return None
        piece = None
        framed = is_framed(error)
        if framed:
            try:
                header = read_header(data, 0, check_crc=False)
                piece = Piece(header, data, start, False)
            except CodecError:
                framed = False
        following = self._next_good(start, framed=framed)
        if self._read(start, len(data)) != data:
            return None  # Its writer was at it: look again.
        self.position = following
        if piece is not None and start + piece.header.size > self.position:
            piece = None  # A good batch begins within it: its length is what is wrong.
        left, claimed = self._size - start, claimed_size(data)
        # The error knows of the window alone.
        is_longer = error.error_class is ErrorClass.TRUNCATED and claimed > left
        detail = f"a batch of {claimed} bytes, and {left} are left" if is_longer else ""
        reaches_end = self.position >= self._size and piece is None
        if reaches_end:
            self.invalid_tail = self._size - start
        self.problems.append(
            Problem(
                file=self._name,
                position=start,
                size=self.position - start,
                error_class=TORN if reaches_end and not framed else str(error.error_class),
                detail=detail or detail_of(error),
            )
        )
        return piece

    def _next_good(self, start: int, *, framed: bool) -> int:
        while True:
            view = memoryview(self._read(start, SEARCH_BYTES))
            found = Resync(view).after(0, is_framed=framed)
            if found < len(view) or start + found >= self._size or not view:
                return start + found
            if framed:
                return start + found  # It ends with the window.
            start += len(view) // 2

    def _is_zero(self, start: int) -> bool:
        while start < self._size:
            data = self._read(start, WINDOW_BYTES)
            if not data:
                break
            if data.count(0) != len(data):
                return False
            start += len(data)
        return True


def claimed_size(data: bytes) -> int:
    """Return how long the batch at the start says that it is; 0 where it does not."""
    if len(data) < LOG_OVERHEAD_BYTES:
        return 0
    length = int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD_BYTES], "big", signed=True)
    return max(length, 0) + LOG_OVERHEAD_BYTES
