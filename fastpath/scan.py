"""Walks a segment batch by batch: its valid prefix, the damage, and the next good batch.

``scan`` yields the header of each batch and notes the damage between them; ``valid_prefix`` only
finds the end of the valid log, which recovery needs. Both read headers and CRCs, as Kafka's own
recovery does (``LogSegment.recover``), and no records.

A first bad byte has one of three verdicts besides ``CLEAN``. ``ZERO_TAIL``: only zeros follow, a
file that was filled ahead. ``TORN``: a write that was cut short, by the end of the file or by
zeros that go on to its end. ``CORRUPT``: all else.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Generator, Iterator
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import read_header, view_of
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import (
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
)
from kraftspec.fastpath.walk import (
    Resync,
    claimed_size,
    is_framed,
    iterate_headers,
    reader_of,
    written_end,
)

# A torn batch is known by the zeros where its end should be. A whole one may end in some too (no
# headers, a value of small numbers), so fewer than these prove nothing.
TORN_ZEROS_MIN: Final = 8


class Verdict(StrEnum):
    """What kind of bytes follow the valid ones."""

    CLEAN = "clean"
    ZERO_TAIL = "zero_tail"
    TORN = "torn"
    CORRUPT = "corrupt"


class Damage(msgspec.Struct, frozen=True):
    """Bytes of the input that are no good batch, and why the first of them was refused."""

    position: int
    size: int
    verdict: Verdict
    error: CodecError


class Prefix(msgspec.Struct, frozen=True):
    """The valid prefix of an input: bytes, batches, the last of them, and the error that ends it.

    ``size`` is a byte position in the input; ``zero_tail`` counts the zeros that the input ends
    with, after ``size``.
    """

    size: int
    batches: int
    last: BatchHeader | None
    verdict: Verdict
    error: CodecError | None
    zero_tail: int


def view_source(source: Any) -> memoryview:
    """View a path or an open file by mmap, or a buffer as it is.

    The pages of a mapping come and go with use, so a file may be larger than memory. It must not
    become shorter meanwhile: touching what is gone ends the process. Appends are not seen.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return view_source(file)
    if hasattr(source, "fileno"):
        number = source.fileno()
        if os.fstat(number).st_size == 0:
            return memoryview(b"")  # Nothing can be mapped.
        return memoryview(mmap.mmap(number, 0, access=mmap.ACCESS_READ))
    return view_of(source)


def judge(view: memoryview, position: int, error: CodecError, end: int) -> Verdict:
    """Say what the refused batch at ``position`` seems to be, ``end`` being ``written_end``."""
    if position >= end:
        return Verdict.ZERO_TAIL
    if error.error_class is ErrorClass.TRUNCATED and error.path != "records":
        return Verdict.TORN  # Not even a header, at the end of the input.
    if end - position <= MAGIC_AT:
        return Verdict.TORN if end < len(view) else Verdict.CORRUPT
    size = struct.unpack_from(">i", view, position + LENGTH_AT)[0] + LOG_OVERHEAD_BYTES
    is_framed = error.error_class in (ErrorClass.TRUNCATED, ErrorClass.CRC_MISMATCH)
    if is_framed and (
        position + size > len(view) or end <= position + max(size - TORN_ZEROS_MIN, RECORDS_AT)
    ):
        return Verdict.TORN
    return Verdict.CORRUPT


class Surveyor:
    """Notes damage in one input, and says where to go on after it."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.resync = Resync(reader_of(view), len(view))
        self.damage: list[Damage] = []
        self.written_end = -1  # The byte after the last that is not zero, once it is known.

    def note(self, position: int, error: CodecError, *, resync: bool) -> int:
        """Note that the batch at ``position`` was refused; return where to go on.

        That is the end of the input when only zeros follow, or when not to look further.
        """
        if self.written_end < 0:
            self.written_end = written_end(reader_of(self.view), 0, len(self.view))
        end = len(self.view)
        verdict = judge(self.view, position, error, self.written_end)
        if verdict is Verdict.TORN or (resync and verdict is Verdict.CORRUPT):
            framed_end = 0
            if is_framed(error):
                framed_end = position + claimed_size(self.view[position:])
            end = self.resync.after(position, framed_end)
            if end < len(self.view):
                verdict = Verdict.CORRUPT  # A write that was cut short is the last.
        if not resync:
            end = len(self.view)
        # A traceback would keep the frames, and they the input.
        bare = error.with_traceback(None)
        self.damage.append(Damage(position, end - position, verdict, bare))
        return end


class Scanner:
    """Yields the header of each good batch of an input; ``damage`` has what is between them.

    ``position`` is the next byte to read, ``valid_prefix`` the good part of the input until then,
    ``verdict`` that of the first damage.
    """

    def __init__(self, view: memoryview, position: int, *, check_crc: bool, resync: bool) -> None:
        self.position = position
        self.check_crc = check_crc
        self.resync = resync
        self._view = view
        self._surveyor = Surveyor(view)
        self._headers = self._walk()

    @property
    def damage(self) -> list[Damage]:
        """What was met that is no good batch, in order of position."""
        return self._surveyor.damage

    @property
    def valid_prefix(self) -> int:
        """The byte after the last batch before any damage."""
        return self.damage[0].position if self.damage else self.position

    @property
    def verdict(self) -> Verdict:
        """What follows the valid prefix: CLEAN as long as no damage was met."""
        return self.damage[0].verdict if self.damage else Verdict.CLEAN

    def __iter__(self) -> Iterator[BatchHeader]:
        return self._headers

    def __next__(self) -> BatchHeader:
        return next(self._headers)

    def _walk(self) -> Generator[BatchHeader]:
        while self.position < len(self._view):
            try:
                for header in iterate_headers(self._view, self.position, check_crc=self.check_crc):
                    self.position = header.position + header.size
                    yield header
            except CodecError as error:
                self.position = self._surveyor.note(self.position, error, resync=self.resync)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the input go; what was found stays."""
        self._surveyor.resync.let_go()
        self._headers.close()
        self._view.release()
        self._headers = self._walk()  # Whoever goes on is told that the input is gone.


def _view_from(source: Any, offset: int) -> memoryview:
    """View a source that has a byte ``offset``, or ends there."""
    view = view_source(source)
    if not 0 <= offset <= len(view):
        raise ValueError(f"there is no byte {offset}: the input has {len(view)}")
    return view


def scan(source: Any, *, offset: int = 0, check_crc: bool = True, resync: bool = False) -> Scanner:
    """Walk the batches of a path, an open file, an mmap or a buffer from byte ``offset`` on.

    With ``resync`` the walk goes on after damage, where the next good batch is; else it ends
    there. A damaged batch never yields a header and never raises: it is noted in ``damage``.
    """
    return Scanner(_view_from(source, offset), offset, check_crc=check_crc, resync=resync)


def pure_walk(view: memoryview, position: int, check_crc: bool) -> tuple[int, int, int]:
    """Walk good batches; return (where that ends, how many they are, where the last starts)."""
    batches, last = 0, -1
    try:
        for header in iterate_headers(view, position, check_crc=check_crc):
            batches, last, position = batches + 1, header.position, header.end
    except CodecError:
        pass
    return position, batches, last


_native = native.load("_batch_reader")
_walk = _native.walk if _native is not None else pure_walk


def valid_prefix(source: Any, *, offset: int = 0, check_crc: bool = True) -> Prefix:
    """Return the valid prefix of the batches of a path, file, mmap or buffer from ``offset`` on.

    Recovery keeps that much and cuts the rest, whatever the verdict: a log has nothing after its
    first bad batch that it could vouch for.
    """
    view = _view_from(source, offset)
    position, batches, last_at = _walk(view, offset, check_crc)
    last = read_header(view, last_at, check_crc=False) if batches else None
    if position >= len(view):
        return Prefix(position, batches, last, Verdict.CLEAN, None, 0)
    surveyor = Surveyor(view)
    try:
        read_header(view, position, check_crc=check_crc)
    except CodecError as error:
        surveyor.note(position, error, resync=False)
        (damage,) = surveyor.damage
        zeros = len(view) - max(surveyor.written_end, position)
        return Prefix(position, batches, last, damage.verdict, damage.error, zeros)
    raise RuntimeError("the input changed while it was read")
