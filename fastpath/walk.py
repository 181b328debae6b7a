"""The batches of a log, one after another: in a buffer, through windows of a file, after damage.

Everything that looks for batches in bytes stands on this. ``iterate_headers`` walks a buffer that
holds whole batches. ``Walk`` walks a file that ``read`` gives piece by piece: it need not fit in
memory, and may be written to or cut meanwhile. ``walk_headers`` skips the records. ``Resync`` finds
where batches go on after damage, and ``written_end`` where the zeros begin that end a file.

What the bytes between good batches mean is told elsewhere: ``scan`` has verdicts on any input,
``recovery`` says what a crash can have left.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import (
    BATCH_LENGTH_MIN,
    RECORD_BYTES_MIN,
    BytesLike,
    check_frame,
    pure_read_header,
    view_of,
)
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError, ErrorClass, moved
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CRC_AT,
    DELETE_HORIZON,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
    Compression,
)

WINDOW_BYTES: Final = 1 << 20  # The size of one read of a file.
BATCH_BYTES_MAX: Final = (1 << 31) + LOG_OVERHEAD_BYTES  # The batch length is an int32.
# Looking for the next good batch, a byte may be part of many CRCs: bytes made to look like headers
# would take hours. Real damage needs one or two.
RESYNC_CRC_TIMES_MAX: Final = 8
RESYNC_CRC_BYTES_FREE: Final = 64 << 20

_ZEROS: Final = bytes(WINDOW_BYTES)
_ATTRIBUTES_MAX: Final = DELETE_HORIZON * 2 - 1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_FRAME = struct.Struct(">8xi4xb")
_PLAUSIBLE = struct.Struct(">q13xhi30xi")
_MAGIC_THEN_ATTRIBUTES = re.compile(rb"\x02(?=.{4}\x00)", re.DOTALL)

# Reads bytes of a file: from a position, a number of them, fewer only where the file ends.
ReadAt = Callable[[int, int], Any]

_native = native.load("_batch_reader")
_read_header: Any = pure_read_header if _native is None else _native.read_header


def iterate_headers(
    data: BytesLike, offset: int = 0, *, check_crc: bool = True
) -> Iterator[BatchHeader]:
    """Yield the header of each batch from byte ``offset`` of a buffer to its end.

    A batch that is wrong raises CodecError when it is reached, as ``read_header`` does.
    """
    view = view_of(data)
    while offset < len(view):
        header: BatchHeader = _read_header(view, offset, check_crc) or pure_read_header(
            view, offset, check_crc
        )
        offset += header.size
        yield header


def header_at(view: Any, at: int, position: int) -> BatchHeader | None:
    """Return the header at ``at`` of a buffer, ``position`` being its byte in the file.

    None when the bytes end before it does, or are no header of magic 2. The batch itself need not
    be there, and no checksum was looked at.
    """
    if len(view) - at < RECORDS_AT:
        return None
    base, length, epoch, magic, crc, *rest = _HEADER.unpack_from(view, at)
    if magic != MAGIC or length < BATCH_LENGTH_MIN:
        return None
    return BatchHeader(position, length + LOG_OVERHEAD_BYTES, base, epoch, crc, *rest)


def claimed_size(data: Any) -> int:
    """Return the size in the header of the batch at the start; 0 where there is none."""
    if len(data) < LOG_OVERHEAD_BYTES:
        return 0
    length = int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD_BYTES], "big", signed=True)
    return max(length, 0) + LOG_OVERHEAD_BYTES


def framed_size(view: Any, at: int, left: int) -> int:
    """Return the size of a batch of magic 2 at ``at`` of a buffer, by its length alone; 0 for none.

    ``left`` is how many bytes the file has from there on.
    """
    if len(view) - at < RECORDS_AT:
        return 0
    length, magic = _FRAME.unpack_from(view, at)
    size: int = length + LOG_OVERHEAD_BYTES
    return size if magic == MAGIC and length >= BATCH_LENGTH_MIN and size <= left else 0


def plausible_size(view: Any, at: int, left: int) -> int:
    """Return ``framed_size`` of a batch with consistent fields, as Kafka writes them; else 0."""
    size = framed_size(view, at, left)
    if not size:
        return 0
    base, attributes, delta, count = _PLAUSIBLE.unpack_from(view, at)
    codec = attributes & COMPRESSION_MASK
    if base < 0 or not 0 <= attributes <= _ATTRIBUTES_MAX or not 0 <= count <= delta + 1:
        return 0
    if codec > Compression.ZSTD:
        return 0
    return size if codec or size - RECORDS_AT >= count * RECORD_BYTES_MIN else 0


def is_framed(error: CodecError) -> bool:
    """Whether the batch that gave this error is all there, by its own length."""
    return error.error_class not in (
        ErrorClass.TRUNCATED,
        ErrorClass.BATCH_LENGTH_MISMATCH,
        ErrorClass.BAD_MAGIC,
    )


def reader_of(view: memoryview) -> ReadAt:
    """Return what reads a buffer as a file is read."""
    return lambda position, size: view[position : position + size]


def read_file(descriptor: int, position: int, size: int) -> bytes:
    """Read from an open file, again where the system gave less and the file goes on."""
    data = os.pread(descriptor, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]  # One read gives 2 GiB at most.
    missing = size - len(data)
    while missing and (more := os.pread(descriptor, missing, position + size - missing)):
        parts.append(more)
        missing -= len(more)
    return b"".join(parts)


def written_end(read: ReadAt, start: int, end: int) -> int:
    """Return the byte after the last before ``end`` that is not zero, at least ``start``."""
    count = 1 << 16  # Most files do not end in zeros: the first look is a short one.
    while end > start:
        at = max(start, end - count)
        data = bytes(read(at, end - at))
        if data[-1:] > b"\0" or data != _ZEROS[: len(data)]:
            return at + len(data.rstrip(b"\0"))
        end, count = at, len(_ZEROS)
    return start


class Walk:
    """Iterates over the good batches of a file from byte ``position`` to ``end``, or to damage.

    ``header.position`` is the batch's place in ``window``, which begins at byte ``base`` of the
    file. Afterwards ``position`` is the byte of the file after the last good batch and ``error``
    says, with bytes of the file, what is wrong there; it is None at the end. ``end`` is less than
    it was where the file has become shorter.

    A window holds the batch that it begins with, whatever its size up to ``batch_bytes_max``: a
    length that reaches beyond the file is refused before anything is read for it.
    """

    def __init__(
        self,
        read: ReadAt,
        position: int,
        end: int,
        *,
        check_crc: bool = True,
        window_bytes: int = 0,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        self.position = position
        self.end = end
        self.base = position
        self.window: Any = b""
        self.error: CodecError | None = None
        self._read = read
        self._check_crc = check_crc
        self._window_bytes = max(window_bytes or WINDOW_BYTES, RECORDS_AT)
        self._batch_bytes_max = batch_bytes_max

    def __iter__(self) -> Iterator[BatchHeader]:
        count = self._window_bytes
        while self.error is None and self.position < self.end:
            base = self.base = self.position
            count = min(count, self.end - base)
            self.window = window = self._read(base, count)
            if len(window) < count:
                self.end = base + len(window)
            count = self._window_bytes
            try:
                for header in iterate_headers(window, check_crc=self._check_crc):
                    self.position = base + header.position + header.size
                    yield header
            except CodecError as error:
                count = self._look_beyond(error)

    def _look_beyond(self, error: CodecError) -> int:
        """Return how much to read next, where the window cut a batch; else keep the error."""
        window, left = self.window, self.end - self.position
        if error.error_class is ErrorClass.TRUNCATED and self.base + len(window) < self.end:
            if self.position > self.base:
                return self._window_bytes
            size = max(claimed_size(window), RECORDS_AT)
            if size > left:
                error = _cut_by_the_end(window, left)
            elif min(size, self._batch_bytes_max) > len(window):
                return min(size, self._batch_bytes_max)
        self.error = moved(error, self.base)
        return 0


def _cut_by_the_end(window: Any, left: int) -> CodecError:
    """Return the error of a batch that reaches beyond the ``left`` bytes of its file."""
    try:
        check_frame(window, 0, left)
    except CodecError as error:
        return error.with_traceback(None)
    raise AssertionError("a batch is cut, and its length says that it is not")


def walk_headers(
    read: ReadAt, position: int, end: int, window_bytes: int = RECORDS_AT
) -> Iterator[BatchHeader]:
    """Yield the headers from ``position`` on, until ``end`` or what is none; no CRC is checked.

    By default 61 bytes a batch are read. Where a read costs more than bytes do, a larger window
    is better: where batches are smaller than that, the walk reads all of the file.
    """
    view, start = b"", position
    while position < end:
        if position + RECORDS_AT > start + len(view):
            view, start = read(position, min(window_bytes, end - position)), position
        header = header_at(view, position - start, position)
        if header is None or header.end > end:
            return
        yield header
        position = header.end


class Resync:
    """Finds where batches go on after damage, before byte ``end`` of a file.

    Its patience is for one file: ``covers`` bytes of it, by default those up to ``end``.
    """

    def __init__(
        self,
        read: ReadAt,
        end: int,
        *,
        covers: int = -1,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        size_of: Callable[[Any, int, int], int] = plausible_size,
    ) -> None:
        self.end = end
        self.gave_up_at = -1  # The possible batch at which the search stopped at its limit.
        self._read = read
        self._batch_bytes_max = batch_bytes_max
        self._size_of = size_of
        self._crc_bytes_left = (
            RESYNC_CRC_TIMES_MAX * (end if covers < 0 else covers) + RESYNC_CRC_BYTES_FREE
        )
        self._good = -1  # The good batch that was found last: before it, there is none.
        self._ahead: Any = b""  # What was read last, and from where.
        self._ahead_at = 0

    def is_written(self, position: int) -> bool:
        """Whether any byte from ``position`` to the end is not zero."""
        return written_end(self._read, position, self.end) > position

    def after(self, position: int, framed_end: int) -> int:
        """Return where to go on after the bad batch at ``position``: the end when nowhere.

        ``framed_end`` is where its own length says that it ends, 0 when that is not to be
        believed. It is believed unless a good batch starts before.
        """
        if framed_end == self.end:
            return framed_end
        left = self.end - framed_end
        if framed_end and plausible_size(self._read(framed_end, RECORDS_AT), 0, left):
            return framed_end
        if self._good <= position:
            good = self.next_good(position + 1)
            self._good = self.end if good is None else good[0]
        return framed_end if position < framed_end < self._good < self.end else self._good

    def next_good(self, position: int, stop: int = -1) -> tuple[int, int] | None:
        """Return where the next good batch starts and ends, from ``position`` on; None for none.

        It starts before ``stop``, by default the end.
        """
        stop = self.end if stop < 0 else stop
        while position < stop and self.end - position >= RECORDS_AT:
            window = self._from(position)
            if len(window) < RECORDS_AT:
                return None
            for match in _MAGIC_THEN_ATTRIBUTES.finditer(window, MAGIC_AT):
                at = match.start() - MAGIC_AT
                start = position + at
                size = self._size_of(window, at, self.end - start)
                if not 0 < size <= self._batch_bytes_max:
                    continue
                self._crc_bytes_left -= size
                if self._crc_bytes_left < 0:
                    self.gave_up_at = start
                    return None
                if self._is_good(window, at, start, size):
                    self._crc_bytes_left += size
                    return start, start + size
            position += len(window) - RECORDS_AT + 1  # A header may lie across two windows.
        return None

    def let_go(self) -> None:
        """Keep nothing of the file."""
        self._ahead = b""

    def _is_good(self, window: Any, at: int, position: int, size: int) -> bool:
        """Whether the batch at ``at`` of the window has the right CRC; what it lacks is read."""
        if at + size <= len(window):
            crc = crc32c(window[at + ATTRIBUTES_AT : at + size])
        else:
            crc, end = 0, position + size
            for start in range(position + ATTRIBUTES_AT, end, WINDOW_BYTES):
                crc = crc32c(self._read(start, min(WINDOW_BYTES, end - start)), crc)
        return crc == int.from_bytes(window[at + CRC_AT : at + ATTRIBUTES_AT], "big")

    def _from(self, position: int) -> Any:
        """Return bytes from ``position`` on, those of the read before as long as they last."""
        at = position - self._ahead_at
        if not 0 <= at <= len(self._ahead) - RECORDS_AT:
            size = min(WINDOW_BYTES, self.end - position)
            self._ahead, self._ahead_at, at = view_of(self._read(position, size)), position, 0
        return self._ahead[at:]
