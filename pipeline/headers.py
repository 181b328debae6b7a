"""The headers of batches, read without their records: to walk a file, and to find it again."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from kraftspec.fastpath.batch_reader import BATCH_LENGTH_MIN, RECORD_BYTES_MIN, read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
    Compression,
)
from kraftspec.fastpath.scan import RESYNC_CRC_BYTES_FREE, RESYNC_CRC_TIMES_MAX
from kraftspec.pipeline.files import Source

# Kafka's own default is 1 MiB (message.max.bytes). A length that a bit made wrong must not make
# the reader take gigabytes.
BATCH_BYTES_MAX: Final = 128 << 20
# What a look for the next good batch reads at a time, and a walk over headers of a remote file.
SEARCH_BYTES: Final = 1 << 20

_ZEROS: Final = bytes(SEARCH_BYTES)
_HEADER = struct.Struct(">qiibIhiqqqhii")
_ATTRIBUTES_MAX: Final = DELETE_HORIZON * 2 - 1
_MAGIC_THEN_ATTRIBUTES = re.compile(rb"\x02(?=.{4}\x00)", re.DOTALL)


def header_at(view: memoryview, at: int, position: int) -> BatchHeader | None:
    """Return the header at ``at`` of a view, ``position`` being its byte in the file.

    None when the bytes end before it does, or are no header of magic 2. The batch itself need not
    be there, and no checksum was looked at.
    """
    if len(view) - at < RECORDS_AT:
        return None
    base, length, epoch, magic, crc, *rest = _HEADER.unpack_from(view, at)
    if magic != MAGIC or length < BATCH_LENGTH_MIN:
        return None
    return BatchHeader(position, length + LOG_OVERHEAD_BYTES, base, epoch, crc, *rest)


def is_plausible(header: BatchHeader | None, end: int) -> bool:
    """Whether this may be a batch of a log that ends at byte ``end``."""
    if header is None or header.end > end or header.base_offset < 0:
        return False
    delta, count, codec = (
        header.last_offset_delta, header.record_count, header.attributes & COMPRESSION_MASK,
    )  # fmt: skip
    if not 0 <= header.attributes <= _ATTRIBUTES_MAX or codec > Compression.ZSTD:
        return False
    if not 0 <= count <= delta + 1:
        return False
    return bool(codec) or header.size - RECORDS_AT >= count * RECORD_BYTES_MIN


def read_at(source: Source, position: int) -> BatchHeader | None:
    """Read the header at ``position`` of a file; None when there is none."""
    return header_at(source.read(position, RECORDS_AT), 0, position)


def is_good(source: Source, position: int, end: int, size_max: int = BATCH_BYTES_MAX) -> bool:
    """Whether a whole batch with the right checksum is at ``position``, before byte ``end``."""
    header = read_at(source, position)
    if header is None or not is_plausible(header, end) or header.size > size_max:
        return False
    return _is_whole(source, header)


def _is_whole(source: Source, header: BatchHeader) -> bool:
    try:
        read_header(source.read(header.position, header.size), 0, check_crc=True)
    except CodecError:
        return False
    return True


def walk(source: Source, position: int, end: int) -> Iterator[BatchHeader]:
    """Yield the headers from ``position`` on, until ``end`` or what is none.

    Of a local file 61 bytes a batch are read. Of a remote one, where a request costs more than
    bytes do, a buffer is: where batches are smaller than that, the walk reads the file.
    """
    ahead = SEARCH_BYTES if source.is_remote else RECORDS_AT
    view, start = memoryview(b""), position
    while position < end:
        if position + RECORDS_AT > start + len(view):
            view, start = source.read(position, min(ahead, end - position)), position
        header = header_at(view, position - start, position)
        if header is None or header.end > end:
            return
        yield header
        position = header.end


class Search:
    """Finds where batches go on after damage, before byte ``end``; its patience is for one file."""

    def __init__(self, source: Source, end: int, size_max: int = BATCH_BYTES_MAX) -> None:
        self.source = source
        self.end = end
        self.size_max = size_max
        # A byte may be part of many checksums: bytes made to look like headers would take hours.
        self._crc_bytes_left = RESYNC_CRC_TIMES_MAX * source.size + RESYNC_CRC_BYTES_FREE
        self._good = -1  # The good batch that was found last: before it, there is none.
        self._ahead, self._ahead_at = memoryview(b""), 0  # What was read last, and from where.

    def written(self, position: int) -> bool:
        """Whether any byte from ``position`` to the end is not zero."""
        while position < self.end:
            view = self.source.read(position, min(SEARCH_BYTES, self.end - position))
            if not view:
                return False
            if bytes(view) != _ZEROS[: len(view)]:
                return True
            position += len(view)
        return False

    def after(self, position: int, framed_end: int) -> int:
        """Return where to go on after the bad batch at ``position``: the end when nowhere.

        ``framed_end`` is where its own length says that it ends, 0 when that is not to be
        believed. It is believed unless a good batch starts before.
        """
        if framed_end == self.end:
            return framed_end
        if framed_end and is_plausible(read_at(self.source, framed_end), self.end):
            return framed_end
        if self._good <= position:
            self._good = self._find(position + 1)
        return framed_end if position < framed_end < self._good < self.end else self._good

    def _find(self, position: int) -> int:
        while position < self.end:
            view = self._from(position)
            if len(view) < RECORDS_AT:
                return self.end
            for found in _MAGIC_THEN_ATTRIBUTES.finditer(view, MAGIC_AT):
                at = found.start() - MAGIC_AT
                header = header_at(view, at, position + at)
                if header is None or not is_plausible(header, self.end):
                    continue
                self._crc_bytes_left -= header.size
                if self._crc_bytes_left < 0:
                    return self.end
                if header.size <= self.size_max and _is_whole(self.source, header):
                    return position + at
            position += len(view) - RECORDS_AT + 1  # A header may lie across two views.
        return self.end

    def _from(self, position: int) -> memoryview:
        """Return bytes from ``position`` on, those of the read before as long as they last."""
        at = position - self._ahead_at
        if not 0 <= at <= len(self._ahead) - RECORDS_AT:
            size = min(SEARCH_BYTES, self.end - position)
            self._ahead, self._ahead_at, at = self.source.read(position, size), position, 0
        return self._ahead[at:]
