"""What may go into a record batch: values brought into plain form, or refused by name.

Both writers go through here, so that they refuse the same things in the same words: the pure one
always, the native one as soon as it meets something that is not plain.
"""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple, NoReturn

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import INTEGER_RANGE, LENGTH_MAX
from kraftspec.fastpath.records import (
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Compression,
    Header,
    TimestampType,
)

BATCH_BYTES_MAX: Final = LENGTH_MAX + LOG_OVERHEAD_BYTES  # The batch length is an int32.
RECORD_COUNT_MAX: Final = INTEGER_RANGE["int32"][1]
INT64_MAX: Final = INTEGER_RANGE["int64"][1]

Headers = tuple[tuple[str, bytes | None], ...]


class Fields(NamedTuple):
    """The fields of a batch that its records do not decide, checked."""

    base_offset: int
    partition_leader_epoch: int
    attributes: int
    log_append_time: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    compression: Compression
    compression_level: int | None


class Columns(NamedTuple):
    """Records by column, plain: lists (never shared with the caller) of exact types."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamps: int | list[int]
    headers: list[Headers] | None


class Plain(NamedTuple):
    """One record, plain."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


def refuse(error_class: ErrorClass, detail: str, path: str) -> NoReturn:
    """Raise the error for the field ``path``."""
    raise CodecError(error_class, detail, path=path)


def integer(value: object, wire: str, path: str) -> int:
    """Return an integer of a wire type."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # refused here
    except TypeError:
        refuse(ErrorClass.WRONG_TYPE, f"an integer wanted, not {type(value).__name__}", path)
    low, high = INTEGER_RANGE[wire]
    if not low <= number <= high:
        refuse(ErrorClass.INTEGER_OUT_OF_RANGE, f"{wire} holds {low} to {high}, not {number}", path)
    return number


def timestamp(value: object, path: str) -> int:
    """Return a timestamp in milliseconds, -1 for none; Kafka's builder refuses others below 0."""
    number = integer(value, "int64", path)
    if number < NO_TIMESTAMP:
        refuse(ErrorClass.INTEGER_OUT_OF_RANGE, f"a timestamp is not negative: {number}", path)
    return number


def plain_fields(
    base_offset: object,
    partition_leader_epoch: object,
    compression: object,
    compression_level: int | None,
    timestamp_type: object,
    log_append_time: object,
    producer_id: object,
    producer_epoch: object,
    base_sequence: object,
    transactional: object,
    control: object,
) -> Fields:
    """Check the fields of a batch by the rules of ``MemoryRecordsBuilder``."""
    try:
        codec = Compression(compression)  # type: ignore[arg-type]  # refused here
    except ValueError:
        refuse(
            ErrorClass.UNKNOWN_COMPRESSION,
            f"no compression is {compression!r}: a Compression is wanted, or 0 to 4",
            "attributes",
        )
    try:
        stamp = TimestampType(timestamp_type)  # type: ignore[arg-type]  # refused here
    except ValueError:
        refuse(ErrorClass.WRONG_TYPE, f"no timestamp type is {timestamp_type!r}", "attributes")
    attributes = int(codec)
    if stamp is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME
    attributes |= (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    fields = Fields(
        integer(base_offset, "int64", "baseOffset"),
        integer(partition_leader_epoch, "int32", "partitionLeaderEpoch"),
        attributes,
        timestamp(log_append_time, "maxTimestamp"),
        integer(producer_id, "int64", "producerId"),
        integer(producer_epoch, "int16", "producerEpoch"),
        integer(base_sequence, "int32", "baseSequence"),
        codec,
        compression_level,
    )
    check_producer(attributes, fields.producer_id, fields.producer_epoch, fields.base_sequence)
    return fields


def check_producer(
    attributes: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Check that producer id, epoch and sequence go together."""
    if producer_id == NO_PRODUCER_ID:
        if attributes & TRANSACTIONAL:
            refuse(ErrorClass.MISSING_FIELD, "a transaction has a producer id", "producerId")
        return
    if producer_epoch == NO_PRODUCER_EPOCH:
        refuse(ErrorClass.MISSING_FIELD, "a producer id goes with an epoch", "producerEpoch")
    if base_sequence < 0 and not attributes & CONTROL:
        refuse(ErrorClass.MISSING_FIELD, "a producer id goes with a sequence", "baseSequence")


def plain_bytes(value: object, path: str) -> bytes | None:
    """Return bytes, from any contiguous buffer; None is null."""
    if value is None or type(value) is bytes:
        return value
    try:
        view = memoryview(value)  # type: ignore[arg-type]  # refused here
        return bytes(view.cast("B"))
    except (TypeError, ValueError, BufferError):
        refuse(
            ErrorClass.WRONG_TYPE,
            f"contiguous bytes or None wanted, not {type(value).__name__}",
            path,
        )


def plain_headers(headers: object, path: str) -> Headers:
    """Return the headers of a record: (key, value) pairs or ``Header``s; None is none."""
    if headers is None:
        return ()
    out = []
    for at, item in enumerate(_listed(headers, path)):
        where = f"{path}[{at}]"
        if isinstance(item, Header):
            item = (item.key, item.value)  # noqa: PLW2901 - the same thing, plain
        if not isinstance(item, (tuple, list)) or len(item) != 2:  # noqa: PLR2004 - a pair
            refuse(ErrorClass.WRONG_TYPE, "a (key, value) pair wanted", where)
        key = item[0]
        if not isinstance(key, str):
            refuse(ErrorClass.WRONG_TYPE, f"a str wanted, not {type(key).__name__}", f"{where}.key")
        try:
            key.encode()
        except UnicodeEncodeError as error:
            refuse(
                ErrorClass.INVALID_UTF8, f"character {error.start}: {error.reason}", f"{where}.key"
            )
        out.append((str.__str__(key), plain_bytes(item[1], f"{where}.value")))
    return tuple(out)


def plain_record(key: object, value: object, stamp: object, headers: object, at: int) -> Plain:
    """Return the parts of record number ``at``, plain."""
    path = f"records[{at}]"
    return Plain(
        plain_bytes(key, f"{path}.key"),
        plain_bytes(value, f"{path}.value"),
        timestamp(stamp, f"{path}.timestamp"),
        plain_headers(headers, f"{path}.headers"),
    )


def _listed(values: object, path: str) -> list[Any]:
    """Return a copy of a sequence as a list."""
    if isinstance(values, (bytes, bytearray, memoryview, str)):
        refuse(ErrorClass.WRONG_TYPE, f"a sequence wanted, not {type(values).__name__}", path)
    try:
        return list(values)  # type: ignore[call-overload,no-any-return]  # refused below
    except TypeError:
        refuse(ErrorClass.WRONG_TYPE, f"a sequence wanted, not {type(values).__name__}", path)


def is_arrow(values: object) -> bool:
    """Tell whether something hands out Arrow data: an array, or a stream of chunks."""
    return hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")


def _column(values: object, path: str) -> list[Any]:
    if is_arrow(values):
        from kraftspec.fastpath.arrow_input import arrow_list  # noqa: PLC0415 - loads ctypes

        return arrow_list(values, path)
    return _listed(values, path)


def plain_columns(values: object, keys: object, timestamps: object, headers: object) -> Columns:
    """Return the columns of a batch, plain; all are as long as ``values``."""
    listed = _column(values, "value")
    count = len(listed)
    if count > RECORD_COUNT_MAX:
        refuse(ErrorClass.LENGTH_TOO_LONG, f"a batch holds {RECORD_COUNT_MAX} records", "records")
    return Columns(
        [plain_bytes(item, f"records[{at}].value") for at, item in enumerate(listed)],
        None
        if keys is None
        else [
            plain_bytes(item, f"records[{at}].key")
            for at, item in enumerate(_same(_column(keys, "key"), count, "key"))
        ],
        plain_timestamps(timestamps, count),
        None
        if headers is None
        else [
            plain_headers(item, f"records[{at}].headers")
            for at, item in enumerate(_same(_listed(headers, "headers"), count, "headers"))
        ],
    )


def plain_timestamps(timestamps: object, count: int) -> int | list[int]:
    """Return the timestamps: one for all, or one for each."""
    # An array of numpy has __index__ too, which works for one element only.
    if hasattr(timestamps, "__index__") and not hasattr(timestamps, "__len__"):
        return timestamp(timestamps, "timestamp")
    return [
        timestamp(item, f"records[{at}].timestamp")
        for at, item in enumerate(_same(_column(timestamps, "timestamp"), count, "timestamp"))
    ]


def _same(items: list[Any], count: int, name: str) -> list[Any]:
    if len(items) != count:
        refuse(
            ErrorClass.RECORD_COUNT_MISMATCH,
            f"{count} values, but {len(items)} {name.removesuffix('s')}s",
            "records",
        )
    return items
