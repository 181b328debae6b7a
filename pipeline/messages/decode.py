"""``decode_message``: a column of encoded messages as a column of structs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, Literal

import pyarrow as pa

from kraftspec.fastpath.errors import CodecError, detail_of
from kraftspec.fastpath.message import Message
from kraftspec.pipeline.messages.columns import struct_columns
from kraftspec.pipeline.messages.schema import (
    ERROR_TYPE,
    VERSION_TYPE,
    decoded_type,
    message_class,
)

Mode = Literal["PERMISSIVE", "FAILFAST"]
MODES: Final = ("PERMISSIVE", "FAILFAST")

# Decoded structs take about ten times their encoded bytes; this bounds one piece.
PIECE_ROWS_MAX: Final = 8192
PIECE_BYTES_MAX: Final = 4 << 20

_Refusal = tuple[str, int | None, str]  # Class, byte of the value, detail.


class MessageDecodeError(ValueError):
    """A value is not of the declared message: the row, and the CodecError as cause."""

    def __init__(self, message: str, row: int, version: object, error: CodecError) -> None:
        super().__init__(f"row {row}: no {message} of version {version}: {error}")
        self.row = row
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.args[0], self.row, self.error)


def _rebuild(text: str, row: int, error: CodecError) -> MessageDecodeError:
    rebuilt = MessageDecodeError.__new__(MessageDecodeError, text)
    rebuilt.args, rebuilt.row, rebuilt.error = (text,), row, error
    return rebuilt


def decode_message(
    column: pa.Array | pa.ChunkedArray,
    message: str | type[Message],
    version: int | pa.Array | pa.ChunkedArray,
    *,
    spec_set: str = "kafka",
    mode: Mode = "PERMISSIVE",
    errors: bool = False,
) -> pa.StructArray:
    """Decode a column of binary (of any Arrow kind) as messages: one struct a row.

    ``version`` is one number, or a column with one for each row. The struct is ``arrow_type``'s:
    the fields of all versions, in camelCase, with ``_version`` before them. A null value gives
    null.

    A value that is refused gives null too; with ``errors`` it gives a struct of which only the
    last field is there: ``_error`` with the class of the CodecError, the byte of the value and
    what was wrong. With ``mode="FAILFAST"`` it raises MessageDecodeError. A version that is null or
    that the message does not have refuses the value (``unsupported_version``).

    ValueError for a message, a set or a mode that there is not, or columns of unequal length.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
    cls = message_class(message, spec_set)
    values = binary_column(column)
    versions: int | pa.Array = version
    if not isinstance(version, int):
        versions = _contiguous(version)
        if len(versions) != len(values):
            raise ValueError(f"{len(values)} values and {len(versions)} versions")
    pieces = []
    for start, piece in _pieces(values):
        stamps: Sequence[int | None] = (
            [versions] * len(piece)
            if isinstance(versions, int)
            else versions.slice(start, len(piece)).to_pylist()
        )
        first_row = start if mode == "FAILFAST" else None
        pieces.append(_decode_piece(cls, piece, stamps, first_row, errors))
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces) if pieces else pa.array([], decoded_type(cls, errors))


def binary_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of bytes as one array; ValueError for one of something else."""
    values = _contiguous(column)
    if not _is_binary(values.type):
        raise ValueError(f"messages are decoded from binary, not from {values.type}")
    return values


def _contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column


def _is_binary(type_: pa.DataType) -> bool:
    """Whether a column's values are bytes; those of a column of nulls may be anything."""
    kinds = pa.types
    return bool(
        kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_binary_view(type_)
        or kinds.is_fixed_size_binary(type_)
        or kinds.is_null(type_)
    )


def _pieces(values: pa.Array) -> Iterator[tuple[int, list[bytes | None]]]:
    """Yield (first row, values) of the pieces that are decoded at once."""
    for start in range(0, len(values), PIECE_ROWS_MAX):
        piece: list[bytes | None] = values.slice(start, PIECE_ROWS_MAX).to_pylist()
        if sum(map(len, filter(None, piece))) <= PIECE_BYTES_MAX:
            yield start, piece
            continue
        first = size = 0
        for end, value in enumerate(piece, 1):
            size += len(value or b"")
            if size >= PIECE_BYTES_MAX or end == len(piece):
                yield start + first, piece[first:end]
                first, size = end, 0


def _decode_piece(
    cls: type[Message],
    values: list[bytes | None],
    versions: Sequence[int | None],
    first_row: int | None,
    errors: bool,
) -> pa.StructArray:
    """Decode rows; ``first_row`` is where they stand in the column, for FAILFAST, else None."""
    decode = cls.decode
    refused: dict[int, _Refusal] = {}
    messages: list[Message | None] = []
    for row, (value, version) in enumerate(zip(values, versions, strict=True)):
        if value is None:
            messages.append(None)
            continue
        try:
            messages.append(decode(value, version))  # type: ignore[arg-type]  # None is refused
        except CodecError as error:
            if first_row is not None:
                raise MessageDecodeError(cls.__name__, first_row + row, version, error) from error
            refused[row] = (str(error.error_class), error.offset, detail_of(error))
            messages.append(None)
    decoded = message_array(cls, messages, versions)
    return _with_errors(cls, decoded, values, refused) if errors else decoded


def message_array(
    cls: type[Message], messages: Sequence[Message | None], versions: Sequence[int | None]
) -> pa.StructArray:
    """Return messages, each decoded at its version, as an array of ``arrow_type``; None is null.

    Those of one version become columns together, and are then put back in their order.
    """
    groups: dict[int, list[int]] = {}
    for row, (message, version) in enumerate(zip(messages, versions, strict=True)):
        if message is not None:
            assert version is not None
            groups.setdefault(version, []).append(row)
    type_ = decoded_type(cls, False)
    arrays: list[pa.StructArray] = []
    for version, rows in groups.items():
        whole = len(rows) == len(messages)
        structs = messages if whole else [messages[row] for row in rows]
        columns = struct_columns(cls.CODEC, cls.CODEC.layout(version), structs)
        stamps = pa.repeat(pa.scalar(version, VERSION_TYPE), len(rows))
        arrays.append(pa.StructArray.from_arrays([stamps, *columns], fields=list(type_)))
        if whole:
            return arrays[0]
    places: list[int | None] = [None] * len(messages)
    for place, row in enumerate(chain.from_iterable(groups.values())):
        places[row] = place
    joined = pa.concat_arrays(arrays) if arrays else pa.array([], type_)
    return joined.take(pa.array(places, pa.int64()))


def _with_errors(
    cls: type[Message],
    structs: pa.StructArray,
    values: list[bytes | None],
    refused: dict[int, _Refusal],
) -> pa.StructArray:
    """Add the field ``_error`` to ``structs``; it says why a value was rejected."""
    errors = [refused.get(row) for row in range(len(values))]
    reasons = pa.array(
        [
            None if why is None else {"class": why[0], "position": why[1], "detail": why[2]}
            for why in errors
        ],
        ERROR_TYPE,
    )
    mask = pa.array([value is None for value in values])
    fields = list(decoded_type(cls, True))
    return pa.StructArray.from_arrays([*structs.flatten(), reasons], fields=fields, mask=mask)
