"""What can be wrong with bytes or values: one exception, a closed set of classes."""

from __future__ import annotations

from enum import StrEnum


class ErrorClass(StrEnum):
    """Why a value or a run of bytes was refused. The strings are the harness protocol's."""

    # Decoding.
    TRUNCATED = "truncated"
    TRAILING = "trailing"
    NEGATIVE_LENGTH = "negative_length"
    LENGTH_EXCEEDS_INPUT = "length_exceeds_input"
    VARINT_OVERFLOW = "varint_overflow"
    VARINT_TRUNCATED = "varint_truncated"
    NON_MINIMAL_VARINT = "non_minimal_varint"
    TAG_OUT_OF_ORDER = "tag_out_of_order"
    TAG_DUPLICATE = "tag_duplicate"
    TAG_BELOW_VERSION = "tag_below_version"
    TAGGED_SIZE_MISMATCH = "tagged_size_mismatch"
    INVALID_UTF8 = "invalid_utf8"
    INVALID_BOOLEAN = "invalid_boolean"
    INVALID_STRUCT_MARKER = "invalid_struct_marker"
    # Record batches.
    CRC_MISMATCH = "crc_mismatch"
    BAD_MAGIC = "bad_magic"
    BATCH_LENGTH_MISMATCH = "batch_length_mismatch"
    RECORD_COUNT_MISMATCH = "record_count_mismatch"
    OFFSET_DELTA_DISORDER = "offset_delta_disorder"
    UNKNOWN_COMPRESSION = "unknown_compression"
    DECOMPRESSION_BOMB = "decompression_bomb"
    # Encoding.
    WRONG_TYPE = "wrong_type"
    INTEGER_OUT_OF_RANGE = "integer_out_of_range"
    FIELD_NOT_IN_VERSION = "field_not_in_version"
    MISSING_FIELD = "missing_field"
    UNKNOWN_MESSAGE = "unknown_message"
    # Both.
    LENGTH_TOO_LONG = "length_too_long"
    NULL_FOR_NON_NULLABLE = "null_for_non_nullable"
    UNSUPPORTED_VERSION = "unsupported_version"


class CodecError(ValueError):
    """A value that cannot be encoded, or bytes that cannot be decoded.

    ``error_class`` says why, ``path`` which field (``topics[0].partitions[2].leaderEpoch``, the
    schema's names in camelCase; empty for the message itself) and ``offset`` at which byte of the
    input the refused primitive starts (None when encoding).
    """

    def __init__(
        self, error_class: ErrorClass, detail: str, *, path: str = "", offset: int | None = None
    ) -> None:
        super().__init__(error_class, detail, path, offset)
        self.error_class = error_class
        self.detail = detail
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        where = self.path or "message"
        if self.offset is not None:
            where += f" at byte {self.offset}"
        return f"{where}: {self.detail} [{self.error_class}]"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.error_class, self.detail, self.path, self.offset)


def detail_of(error: CodecError) -> str:
    """Return what was wrong and in which field, without class and byte."""
    return f"{error.path}: {error.detail}" if error.path else error.detail


def moved(error: CodecError, by: int) -> CodecError:
    """Return an error of a part of an input, which starts at byte ``by``, as one of the whole."""
    offset = by + (error.offset or 0)
    return CodecError(error.error_class, error.detail, path=error.path, offset=offset)


def _rebuild(error_class: ErrorClass, detail: str, path: str, offset: int | None) -> CodecError:
    return CodecError(error_class, detail, path=path, offset=offset)
