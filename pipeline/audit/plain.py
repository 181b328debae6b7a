"""Batches in uncompressed form, so that each is decompressed once for all checks.

A *plain* batch is the batch itself, or a compressed one with its records inflated, its length that
of those and no codec in its attributes; its CRC stays, and is that of the compressed one.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kraftspec.fastpath.batch_reader import inflate, read_batch
from kraftspec.fastpath.compression import DECOMPRESSED_BYTES_MAX, RATIO_MAX
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    RECORDS_AT,
    BatchHeader,
)
from kraftspec.fastpath.walk import iterate_headers

# Limits of one read: about so many rows, and so many plain bytes and one batch.
ROWS_MAX: Final = 65_536
PLAIN_BYTES_MAX: Final = 16 << 20


class PlainBatches(NamedTuple):
    """Whole batches with right CRCs: headers by their bytes of the view, and the plain batches.

    ``starts`` are the bytes of ``data`` where the plain ones start, and where the last ends.
    ``end`` is the byte after the last batch. ``error`` is why reading stopped; None means a limit,
    or the end of the view.
    """

    headers: list[BatchHeader]
    data: memoryview
    starts: list[int]
    end: int
    error: CodecError | None


def read_plain(view: memoryview, at: int) -> PlainBatches:
    """Take good batches from byte ``at`` of a view on."""
    first, rows, size = at, 0, 0
    headers: list[BatchHeader] = []
    starts = [0]
    parts: list[memoryview | bytes] = []
    is_inflated, error = False, None
    try:
        for header in iterate_headers(view, at):
            if header.attributes & COMPRESSION_MASK:
                part: memoryview | bytes = _plain(view, header)
                is_inflated = True
            else:
                part = view[at : header.end]
            parts.append(part)
            headers.append(header)
            size += len(part)
            starts.append(size)
            rows += max(header.record_count, 0)
            at = header.end
            if rows >= ROWS_MAX or size >= PLAIN_BYTES_MAX:
                break
    except CodecError as refused:
        error = refused.with_traceback(None)  # Its frames would keep the view.
    data = memoryview(b"".join(parts)) if is_inflated else view[first:at]
    return PlainBatches(headers, data, starts, at, error)


def _plain(view: memoryview, header: BatchHeader) -> bytes:
    """Return a compressed batch as a plain one."""
    position = header.position
    block = view[position + RECORDS_AT : header.end]
    codec = header.compression
    inflated = b""
    # Nothing was compressed where the cleaner took all records from a batch.
    if block or header.record_count:
        inflated = inflate(codec, block, position, DECOMPRESSED_BYTES_MAX, RATIO_MAX)
    head = bytearray(view[position : position + RECORDS_AT])
    length = RECORDS_AT - LOG_OVERHEAD_BYTES + len(inflated)
    struct.pack_into(">i", head, LENGTH_AT, length)
    struct.pack_into(">h", head, ATTRIBUTES_AT, header.attributes & ~COMPRESSION_MASK)
    return bytes(head) + inflated


def why(view: memoryview, header: BatchHeader) -> CodecError | None:
    """Return the error in the records of a batch."""
    try:
        read_batch(view, header.position, check_crc=False)
    except CodecError as error:
        return error.with_traceback(None)
    return None
