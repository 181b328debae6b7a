"""Walking the batches of a file that its node may be writing to: windows, no lock, no mapping.

A mapping of a file that its owner cuts ends the process; reading it does not. What is damaged is
noted, and the walk goes on where the next good batch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import msgspec

from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.fastpath.records import RECORDS_AT, BatchHeader
from kraftspec.fastpath.walk import (
    Resync,
    Walk,
    claimed_size,
    header_at,
    is_framed,
    read_file,
)

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
        self._size = size
        self._read = partial(read_file, descriptor)
        self._resync = Resync(self._read, size)

    def __iter__(self) -> Iterator[Piece]:
        while self.position < self._size:
            start = self.position
            walk = Walk(self._read, start, self._size)
            for header in walk:
                yield Piece(header, walk.window, walk.base, True)
            self.position = walk.position
            if walk.error is None:
                return
            if self.position > start:
                continue  # Its writer may have been at it: look again.
            piece = self._pass_over(walk.window, walk.error)
            if piece is not None:
                yield piece

    def _pass_over(self, data: bytes, error: CodecError) -> Piece | None:
        """Go on behind a bad batch; return it where only its CRC is wrong."""
        start = self.position
        if not self._resync.is_written(start):
            self.zero_tail = self._size - start
            self.position = self._size
            return None
        header = header_at(data, 0, 0) if is_framed(error) else None
        piece = None if header is None else Piece(header, data, start, False)
        following = self._resync.after(start, 0 if header is None else start + header.size)
        bad = data[: RECORDS_AT if header is None else header.size]
        if self._read(start, len(bad)) != bad:
            return None  # Its writer was at it: look again.
        self.position = following
        if piece is not None and start + piece.header.size > self.position:
            piece = None  # A good batch begins within it: its length is what is wrong.
        left, claimed = self._size - start, claimed_size(data)
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
                error_class=TORN if reaches_end and header is None else str(error.error_class),
                detail=detail or detail_of(error),
            )
        )
        return piece
