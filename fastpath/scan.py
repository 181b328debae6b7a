"""Walking a segment batch by batch: how far it is good, what is wrong after, where it goes on.

``scan`` yields the header of each batch and notes the damage between them; ``valid_prefix`` only
says how far a log can be kept, which is what recovery needs. Both look at headers and CRCs, as
Kafka's own recovery does (``LogSegment.recover``), and not into the records.

A first bad byte has one of three verdicts besides ``CLEAN``. ``ZERO_TAIL``: only zeros follow, a
file that was filled ahead. ``TORN``: a write that was cut short, by the end of the file or by
zeros that go on to its end. ``CORRUPT``: all else.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import (
    BATCH_LENGTH_MIN,
    RECORD_BYTES_MIN,
    read_header,
    view_of,
)
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CRC_AT,
    DELETE_HORIZON,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
    Compression,
)

# A torn batch is known by the zeros where its end should be. A whole one may end in some too (no
# headers, a value of small numbers), so fewer than these prove nothing.
TORN_ZEROS_MIN: Final = 8
# Looking for the next good batch, a byte may be part of many CRCs: bytes made to look like headers
# would take hours. Real damage needs one or two.
RESYNC_CRC_TIMES_MAX: Final = 8
RESYNC_CRC_BYTES_FREE: Final = 64 << 20

_ZEROS: Final = bytes(1 << 16)
_ATTRIBUTES_MAX: Final = DELETE_HORIZON * 2 - 1
_PLAUSIBLE = struct.Struct(">qi4xbIhi30xi")
_MAGIC_THEN_ATTRIBUTES = re.compile(rb"\x02(?=.{4}\x00)", re.DOTALL)


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
    """How far an input is good: bytes, batches, the last of them, and what ends it.

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


def written_end(view: memoryview) -> int:
    """Return the byte after the last that is not zero."""
    end = len(view)
    while end:
        size = min(len(_ZEROS), end)
        chunk = view[end - size : end].tobytes()
        if chunk != _ZEROS[:size]:
            return end - size + len(chunk.rstrip(b"\0"))
        end -= size
    return 0


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


def _plausible(view: memoryview, position: int) -> int:
    """Return the size of what looks like a batch at ``position``, 0 when nothing does."""
    if position < 0 or len(view) - position < RECORDS_AT:
        return 0
    base, length, magic, _, attributes, delta, count = _PLAUSIBLE.unpack_from(view, position)
    size: int = length + LOG_OVERHEAD_BYTES
    if magic != 2 or length < BATCH_LENGTH_MIN or size > len(view) - position:  # noqa: PLR2004
        return 0
    if base < 0 or not 0 <= attributes <= _ATTRIBUTES_MAX or not 0 <= count <= delta + 1:
        return 0
    codec = attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        return 0
    return size if codec or size - RECORDS_AT >= count * RECORD_BYTES_MIN else 0


class Resync:
    """Finds where batches go on after damage; its patience covers one input."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.crc_bytes_left = RESYNC_CRC_TIMES_MAX * len(view) + RESYNC_CRC_BYTES_FREE
        self._good = -1  # The good batch that was found last: before it, there is none.

    def after(self, position: int, *, is_framed: bool) -> int:
        """Return where to go on after the batch refused at ``position``; the end if nowhere.

        The length of a batch is believed (``is_framed``) unless a good batch starts before that
        many bytes are over. Else the next bytes are looked for that are one, CRC included.
        """
        end = position
        if is_framed:
            length: int = struct.unpack_from(">i", self.view, position + LENGTH_AT)[0]
            end += LOG_OVERHEAD_BYTES + length
            if end == len(self.view) or _plausible(self.view, end):
                return end
        if self._good <= position:
            self._good = self._search(position + 1)
        return end if position < end < self._good < len(self.view) else self._good

    def _search(self, position: int) -> int:
        view = self.view
        for found in _MAGIC_THEN_ATTRIBUTES.finditer(view, position + MAGIC_AT):
            start = found.start() - MAGIC_AT
            size = _plausible(view, start)
            if not size:
                continue
            self.crc_bytes_left -= size
            if self.crc_bytes_left < 0:
                break
            (crc,) = struct.unpack_from(">I", view, start + CRC_AT)
            if crc32c(view[start + ATTRIBUTES_AT : start + size]) == crc:
                return start
        return len(view)


def is_framed(error: CodecError) -> bool:
    """Whether the batch that gave this error is all there, by its own length."""
    return error.error_class not in (
        ErrorClass.TRUNCATED,
        ErrorClass.BATCH_LENGTH_MISMATCH,
        ErrorClass.BAD_MAGIC,
    )


class Surveyor:
    """Notes damage in one input, and says where to go on after it."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.resync = Resync(view)
        self.damage: list[Damage] = []
        self.written_end = -1  # The byte after the last that is not zero, once it is known.

    def note(self, position: int, error: CodecError, *, resync: bool) -> int:
        """Note that the batch at ``position`` was refused; return where to go on.

        That is the end of the input when only zeros follow, or when not to look further.
        """
        if self.written_end < 0:
            self.written_end = written_end(self.view)
        end = len(self.view)
        verdict = judge(self.view, position, error, self.written_end)
        if verdict is Verdict.TORN or (resync and verdict is Verdict.CORRUPT):
            end = self.resync.after(position, is_framed=is_framed(error))
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

    ``position`` is how far it has come, ``valid_prefix`` how far the input was good until then,
    ``verdict`` that of the first damage.
    """

    def __init__(self, view: memoryview, position: int, *, check_crc: bool, resync: bool) -> None:
        self.position = position
        self.check_crc = check_crc
        self.resync = resync
        self._view = view
        self._surveyor = Surveyor(view)

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
        return self

    def __next__(self) -> BatchHeader:
        while self.position < len(self._view):
            try:
                header = read_header(self._view, self.position, check_crc=self.check_crc)
            except CodecError as error:
                self.position = self._surveyor.note(self.position, error, resync=self.resync)
            else:
                self.position = header.end
                return header
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the input go; what was found stays."""
        self._view.release()


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
    while position < len(view):
        try:
            header = read_header(view, position, check_crc=check_crc)
        except CodecError:
            break
        batches, last, position = batches + 1, position, header.end
    return position, batches, last


_native = native.load("_batch_reader")
_walk = _native.walk if _native is not None else pure_walk


def valid_prefix(source: Any, *, offset: int = 0, check_crc: bool = True) -> Prefix:
    """Say how far the batches of a path, file, mmap or buffer are good from ``offset`` on.

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
