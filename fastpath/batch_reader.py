"""Reads record batches of magic 2: their headers, and their records encoded or as objects.

``read_batch`` gives the records with their deltas, ``decode_batch`` and ``iterate_records`` give
``Record`` with absolute offsets and timestamps. The layout is drawn in ``records``. The functions
named ``pure`` are the plain-Python twins of those in ``_batch_reader``; the native ones only notice
that a batch is wrong, and the pure ones then say what.

What is wrong is a ``CodecError`` whose offset is the first byte, in the input, of the primitive
refused. Records that were compressed have no place of their own in the input: there the offset is
that of the compressed block, and the detail has the byte in the decompressed one.

Accepted is what Kafka's ``DefaultRecordBatch`` and ``DefaultRecord`` accept, but for these, which
they read and no Kafka writes:

* varints in more bytes than needed, or with bits beyond their width (Kafka drops them);
* key, value or header value lengths below -1 (null to Kafka), header keys that are not UTF-8;
* offset deltas that do not ascend, or lie outside of 0 to the last offset delta;
* bytes after the last compressed frame;
* anything after the header of a batch of no records, or an unknown compression of it.

Like there, attribute bits 7 to 15 and record attributes are ignored (and kept), and sums that leave
int64 wrap. Batches of magic 0 and 1 are recognised and refused: Kafka 4.0 no longer has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from operator import index
from os import PathLike
from sys import maxsize
from typing import Any, Final, NoReturn

from kraftspec.fastpath import native
from kraftspec.fastpath.compression import DECOMPRESSED_BYTES_MAX, RATIO_MAX, decompress
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    Batch,
    BatchHeader,
    Header,
    RawRecord,
    Record,
    wrap_int64,
)

BytesLike = Any  # Any object with a contiguous buffer: bytes, bytearray, memoryview, mmap, arrays.

RECORD_BYTES_MIN: Final = 7  # Its length, attributes, two deltas, two lengths and a count.
HEADER_BYTES_MIN: Final = 2  # Two lengths.
BATCH_LENGTH_MIN: Final = RECORDS_AT - LOG_OVERHEAD_BYTES
# The shortest batch of any magic (LegacyRecord.RECORD_OVERHEAD_V0): below, magic is not valid.
LEGACY_LENGTH_MIN: Final = 14
# The block is addressed by int32 from Arrow, and Kafka has no larger buffer either.
BLOCK_BYTES_MAX: Final = INTEGER_RANGE["int32"][1]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = {
    0: "baseOffset",
    LENGTH_AT: "batchLength",
    LEADER_EPOCH_AT: "partitionLeaderEpoch",
    MAGIC_AT: "magic",
    CRC_AT: "crc",
    ATTRIBUTES_AT: "attributes",
    LAST_OFFSET_DELTA_AT: "lastOffsetDelta",
    BASE_TIMESTAMP_AT: "baseTimestamp",
    MAX_TIMESTAMP_AT: "maxTimestamp",
    PRODUCER_ID_AT: "producerId",
    PRODUCER_EPOCH_AT: "producerEpoch",
    BASE_SEQUENCE_AT: "baseSequence",
    RECORD_COUNT_AT: "recordCount",
    RECORDS_AT: "records",
}


def view_of(data: BytesLike) -> memoryview:
    """View any contiguous buffer as bytes."""
    if isinstance(data, (str, PathLike)):
        raise TypeError(
            f"bytes wanted, not {data!r}: read the file first (Path.read_bytes), "
            "or give its name to kraftspec.pipeline.scan"
        )
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _refuse(error_class: ErrorClass, detail: str, position: int, at: int) -> NoReturn:
    """Raise the error for the field ``at`` bytes into the batch at ``position``."""
    raise CodecError(error_class, detail, path=_FIELDS[at], offset=position + at)


def check_frame(view: BytesLike, position: int, left: int) -> int:
    """Check that a whole batch of magic 2 is at ``position``; return its size in bytes.

    ``left`` bytes of the input start there: of a file, ``view`` may have fewer.
    """
    whole = left
    if left > MAGIC_AT:
        (length,) = struct.unpack_from(">i", view, position + LENGTH_AT)
        (magic,) = struct.unpack_from(">b", view, position + MAGIC_AT)
        if length < LEGACY_LENGTH_MIN:
            _refuse(
                ErrorClass.BATCH_LENGTH_MISMATCH,
                f"a batch length of {length} is less than any batch takes",
                position,
                LENGTH_AT,
            )
        if magic in (0, 1):
            _refuse(
                ErrorClass.BAD_MAGIC,
                f"message format v{magic} (magic {magic}): Kafka 4.0 and later, and this reader, "
                "have v2 only; Kafka 3.9 and before can convert it",
                position,
                MAGIC_AT,
            )
        if magic != MAGIC:
            _refuse(ErrorClass.BAD_MAGIC, f"there is no magic {magic}", position, MAGIC_AT)
        if length < BATCH_LENGTH_MIN:
            _refuse(
                ErrorClass.BATCH_LENGTH_MISMATCH,
                f"a batch length of {length} is less than the {BATCH_LENGTH_MIN} bytes of a header",
                position,
                LENGTH_AT,
            )
        whole = length + LOG_OVERHEAD_BYTES
    if left < max(whole, RECORDS_AT):
        cut = max((at for at in _FIELDS if at <= left), default=0)
        detail = f"a batch of at least {max(whole, RECORDS_AT)} bytes, {max(left, 0)} are left"
        _refuse(ErrorClass.TRUNCATED, detail, position, cut)
    return whole


def pure_read_header(view: memoryview, position: int, check_crc: bool) -> BatchHeader:
    """Read the header of the batch at ``position``."""
    size = check_frame(view, position, len(view) - position)
    base, _, epoch, _, crc, *rest = _HEADER.unpack_from(view, position)
    if check_crc:
        actual = crc32c(view[position + ATTRIBUTES_AT : position + size])
        if actual != crc:
            detail = f"the CRC-32C of the batch is {actual:#010x}, its header says {crc:#010x}"
            _refuse(ErrorClass.CRC_MISMATCH, detail, position, CRC_AT)
    return BatchHeader(position, size, base, epoch, crc, *rest)


class _Block:
    """The records of one batch, decompressed, and the place of each primitive in the input."""

    def __init__(self, header: BatchHeader, data: memoryview, is_inflated: bool) -> None:
        self.header = header
        self.data = data
        self.is_inflated = is_inflated
        self.at = 0
        self.record = 0  # How many records were read.
        self.delta = -1  # The offset delta of the one before.

    def refuse(self, error_class: ErrorClass, detail: str, at: int, field: str = "") -> NoReturn:
        """Raise the error for the primitive at byte ``at`` of the block."""
        offset = self.header.position + RECORDS_AT
        if self.is_inflated:
            detail += f" (byte {at} of the decompressed records)"
        else:
            offset += at
        path = f"records[{self.record}]" + (f".{field}" if field else "")
        raise CodecError(error_class, detail, path=path, offset=offset)

    def varint(self, end: int, field: str, bits: int = 32) -> int:
        """Read a zigzag varint of ``bits`` bits that may not pass byte ``end``."""
        start, value, shift = self.at, 0, 0
        for at in range(start, min(end, start + (bits + 6) // 7)):
            byte = self.data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                break
        else:
            if end - start >= (bits + 6) // 7:
                self.refuse(ErrorClass.VARINT_OVERFLOW, "a varint is too long", start, field)
            cut = ErrorClass.TRUNCATED if start >= end else ErrorClass.VARINT_TRUNCATED
            self.refuse(cut, "the bytes end where a varint should", start, field)
        if byte == 0 and at > start:
            detail = "a varint takes more bytes than its value needs"
            self.refuse(ErrorClass.NON_MINIMAL_VARINT, detail, start, field)
        if value >> bits:
            detail = f"a varint has more than {bits} bits"
            self.refuse(ErrorClass.VARINT_OVERFLOW, detail, start, field)
        self.at = at + 1
        return value >> 1 ^ -(value & 1)

    def length(self, end: int, field: str) -> int:
        """Read the length of the next part, which must end before byte ``end``."""
        start = self.at
        length = self.varint(end, field)
        if length < 0:
            detail = f"a length of {length} is negative"
            self.refuse(ErrorClass.NEGATIVE_LENGTH, detail, start, field)
        if length > end - self.at:
            detail = f"{length} bytes are announced, {end - self.at} are left"
            self.refuse(ErrorClass.LENGTH_EXCEEDS_INPUT, detail, start, field)
        return length

    def sized(self, end: int, field: str) -> bytes | None:
        """Read bytes or null, with their length before them."""
        if self.at < end and self.data[self.at] == 1:  # The zigzag varint of -1.
            self.at += 1
            return None
        length = self.length(end, field)
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def headers(self, end: int) -> tuple[Header, ...]:
        """Read the headers of a record that ends at ``end``."""
        start = self.at
        count = self.varint(end, "headers")
        if count < 0:
            detail = f"a count of {count} headers is negative"
            self.refuse(ErrorClass.NEGATIVE_LENGTH, detail, start, "headers")
        if count > (end - self.at) // HEADER_BYTES_MIN:
            detail = f"{count} headers do not fit in the {end - self.at} bytes left"
            self.refuse(ErrorClass.LENGTH_EXCEEDS_INPUT, detail, start, "headers")
        return tuple(self.header_at(index, end) for index in range(count))

    def header_at(self, index: int, end: int) -> Header:
        """Read one header."""
        start = self.at
        length = self.length(end, f"headers[{index}].key")
        key = self.data[self.at : self.at + length]
        self.at += length
        try:
            text = str(key, "utf-8")
        except UnicodeDecodeError as error:
            detail = f"the key of a header is not UTF-8 ({error.reason} at its byte {error.start})"
            self.refuse(ErrorClass.INVALID_UTF8, detail, start, f"headers[{index}].key")
        return Header(text, self.sized(end, f"headers[{index}].value"))

    def read(self) -> RawRecord:
        """Read the next record."""
        end = len(self.data)
        length = self.length(end, "length")
        end = self.at + length
        if length == 0:
            self.refuse(ErrorClass.TRUNCATED, "a record of no bytes", self.at, "attributes")
        attributes = self.data[self.at]
        self.at += 1
        timestamp_delta = self.varint(end, "timestampDelta", 64)
        start = self.at
        delta = self.varint(end, "offsetDelta")
        if not self.delta < delta <= self.header.last_offset_delta:
            detail = (
                f"an offset delta of {delta} after {self.delta}; "
                f"the last of the batch is {self.header.last_offset_delta}"
            )
            self.refuse(ErrorClass.OFFSET_DELTA_DISORDER, detail, start, "offsetDelta")
        self.delta = delta
        key, value = self.sized(end, "key"), self.sized(end, "value")
        headers = self.headers(end)
        if self.at < end:
            detail = f"{end - self.at} bytes after the last field of a record"
            self.refuse(ErrorClass.TRAILING, detail, self.at)
        self.record += 1
        signed = attributes - 256 if attributes > 127 else attributes  # noqa: PLR2004 - int8
        return RawRecord(signed, timestamp_delta, delta, key, value, headers)

    def read_all(self) -> list[RawRecord]:
        """Read the records of the header's count; they must end with the batch."""
        header, end = self.header, len(self.data)
        count = header.record_count
        if count < 0:
            detail = f"a count of {count} records is negative"
            _refuse(ErrorClass.NEGATIVE_LENGTH, detail, header.position, RECORD_COUNT_AT)
        if count > end // RECORD_BYTES_MIN:
            self.miscounted(f"{count} records do not fit in {end} bytes")
        records: list[RawRecord] = []
        while len(records) < count:
            if self.at == end:
                self.miscounted(f"the header says {count} records, there are {len(records)}")
            records.append(self.read())
        if self.at < end:
            start = self.at
            try:
                self.read()
            except CodecError:
                detail = f"{end - start} bytes after the last of {count} records"
                self.refuse(ErrorClass.TRAILING, detail, start)
            self.miscounted(f"the header says {count} records, there are more")
        return records

    def miscounted(self, detail: str) -> NoReturn:
        """Raise the error for the record count."""
        position = self.header.position
        _refuse(ErrorClass.RECORD_COUNT_MISMATCH, detail, position, RECORD_COUNT_AT)


def inflate(
    codec: int, compressed: BytesLike, position: int, size_max: int, ratio_max: int
) -> bytes:
    """Decompress the records of the batch at ``position``; errors name their place in the input."""
    try:
        return decompress(
            codec, compressed, size_max=min(size_max, BLOCK_BYTES_MAX), ratio_max=ratio_max
        )
    except CodecError as error:
        offset = position + RECORDS_AT + (error.offset or 0)
        raise CodecError(error.error_class, error.detail, path="records", offset=offset) from None


def pure_read_records(
    view: memoryview, header: BatchHeader, size_max: int, ratio_max: int
) -> tuple[list[RawRecord], int]:
    """Read the records of the batch that has this header; also return how much was inflated."""
    block = view[header.position + RECORDS_AT : header.end]
    codec = header.compression
    if not codec or not (block or header.record_count):
        return _Block(header, block, is_inflated=False).read_all(), 0
    inflated = inflate(codec, block, header.position, size_max, ratio_max)
    return _Block(header, memoryview(inflated), is_inflated=True).read_all(), len(inflated)


def pure_read_batch(
    view: memoryview, position: int, check_crc: bool, size_max: int, ratio_max: int
) -> Batch:
    """Read the batch at ``position``."""
    header = pure_read_header(view, position, check_crc)
    return Batch(header, pure_read_records(view, header, size_max, ratio_max)[0])


def pure_decode_batch(
    view: memoryview, position: int, check_crc: bool, size_max: int, ratio_max: int
) -> tuple[list[Record], int]:
    """Read the batch at ``position`` as records; return them and the byte after the batch."""
    header = pure_read_header(view, position, check_crc)
    return pure_decode_records(view, header, size_max, ratio_max)[0], header.end


def pure_decode_records(
    view: memoryview, header: BatchHeader, size_max: int, ratio_max: int
) -> tuple[list[Record], int]:
    """Read the records of the batch that has this header; also return how much was inflated."""
    raw_records, inflated_bytes = pure_read_records(view, header, size_max, ratio_max)
    base, timestamp = header.base_offset, header.base_timestamp
    is_log_append_time = header.attributes & LOG_APPEND_TIME
    return [
        Record(
            wrap_int64(base + raw.offset_delta),
            header.max_timestamp
            if is_log_append_time
            else wrap_int64(timestamp + raw.timestamp_delta),
            raw.key,
            raw.value,
            raw.headers,
        )
        for raw in raw_records
    ], inflated_bytes


_native = native.load("_batch_reader")


def read_header(data: BytesLike, offset: int = 0, *, check_crc: bool = True) -> BatchHeader:
    """Read the header of the batch at byte ``offset``; the whole batch must be there.

    Raises CodecError: truncated, batch_length_mismatch, bad_magic, crc_mismatch.
    """
    view, offset = _from(data, offset)
    header = _native and _native.read_header(view, offset, check_crc)
    return header or pure_read_header(view, offset, check_crc)


def read_batch(
    data: BytesLike,
    offset: int = 0,
    *,
    check_crc: bool = True,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    ratio_max: int = RATIO_MAX,
) -> Batch:
    """Read the batch at byte ``offset``, its records with deltas; bytes after it are ignored.

    ``size_max`` and ``ratio_max`` limit decompression: bytes, and times the compressed size.
    Raises CodecError: those of ``read_header`` and of ``compression.decompress``, and
    unknown_compression, record_count_mismatch (also when another whole record follows the last),
    trailing, offset_delta_disorder, negative_length, length_exceeds_input, invalid_utf8 and those
    of varints.
    """
    view, offset = _from(data, offset)
    if _native is not None:
        header = _native.read_header(view, offset, check_crc)
        if header is not None:
            records = _native.read_records(view, offset, inflate, size_max, ratio_max)
            if records is not None:
                return Batch(header, records)
    return pure_read_batch(view, offset, check_crc, size_max, ratio_max)


def decode_batch(
    data: BytesLike,
    offset: int = 0,
    *,
    check_crc: bool = True,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    ratio_max: int = RATIO_MAX,
) -> list[Record]:
    """Read the records of the batch at byte ``offset``; see ``read_batch`` for limits and errors.

    Timestamps are milliseconds: the batch's max timestamp when the log appended it (KIP-32). The
    records of a control batch come like any other.
    """
    view, offset = _from(data, offset)
    return _decode(view, offset, check_crc, size_max, ratio_max)[0]


def iterate_records(
    data: BytesLike,
    offset: int = 0,
    *,
    check_crc: bool = True,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    ratio_max: int = RATIO_MAX,
) -> Iterator[Record]:
    """Yield the records of all batches from byte ``offset`` to the end, a batch at a time.

    A batch that is wrong raises when it is reached, after all records before it.
    """
    view, offset = _from(data, offset)
    while offset < len(view):
        records, offset = _decode(view, offset, check_crc, size_max, ratio_max)
        yield from records


def count_of(name: str, value: int) -> int:
    """Return a count or a limit that an argument gives: no limit is too great.

    Raises TypeError unless it is an integer, ValueError for one below 0.
    """
    number = index(value)
    if number < 0:
        raise ValueError(f"{name} {number} is negative")
    return min(number, maxsize)


def _from(data: BytesLike, offset: int) -> tuple[memoryview, int]:
    """View the input; there is nothing before its start, and past its end it is truncated."""
    return view_of(data), count_of("offset", offset)


def _decode(
    view: memoryview, offset: int, check_crc: bool, size_max: int, ratio_max: int
) -> tuple[list[Record], int]:
    decoded = _native and _native.decode_batch(
        view, offset, check_crc, inflate, size_max, ratio_max
    )
    return decoded or pure_decode_batch(view, offset, check_crc, size_max, ratio_max)
