"""A segment as a table: records of many batches as an Arrow record batch.

``decode_columns`` gives an object that any Arrow library takes (``__arrow_c_array__``), pyarrow
among them: ``pyarrow.record_batch(decode_columns(data))``. One row is one record; every field is
nullable in the schema, as Spark declares them.

=================  =====================================================================
offset             int64
timestamp          int64 milliseconds, or what ``timestamps`` says
timestamp_type     int8: 0 create time, 1 log append time
leader_epoch       int32
key, value         binary_view, or what ``values`` says; null where the record has null
headers            list<element: struct<key: string, value: as above>>
is_control         bool: the record is a mark of the protocol, not data
is_transactional   bool
producer_id        int64, -1 without one
producer_epoch     int16, -1 without one
sequence           int32, -1 without one (the record's own, not the batch's first)
position           int64: the byte of the input where the record's batch starts
compression        int8: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd, as the batch was stored
=================  =====================================================================

Views point into the input itself, and into decompressed blocks: they keep both alive. An mmap
cannot be closed (BufferError) while they live. Columns without views let the input go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import (
    BytesLike,
    count_of,
    inflate,
    pure_decode_records,
    pure_read_header,
    read_batch,
    view_of,
)
from kraftspec.fastpath.compression import DECOMPRESSED_BYTES_MAX, RATIO_MAX
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.records import COMPRESSION_MASK, BatchHeader, Record
from kraftspec.fastpath.scan import Damage, Surveyor

Values = Literal["view", "binary", "large_binary"]
Timestamps = Literal[
    "int64", "timestamp[ms]", "timestamp[ms, tz=UTC]", "timestamp[us]", "timestamp[us, tz=UTC]"
]
Errors = Literal["raise", "stop", "skip"]

COLUMNS: Final = (
    "offset", "timestamp", "timestamp_type", "leader_epoch", "key", "value", "headers",
    "is_control", "is_transactional", "producer_id", "producer_epoch", "sequence", "position",
    "compression",
)  # fmt: skip
VALUES: Final = ("view", "binary", "large_binary")
TIMESTAMPS: Final = (
    "int64", "timestamp[ms]", "timestamp[ms, tz=UTC]", "timestamp[us]", "timestamp[us, tz=UTC]",
)  # fmt: skip
ERRORS: Final = ("raise", "stop", "skip")

# What views may hold in decompressed blocks before a table ends: a segment's default size.
INFLATED_BYTES_MAX: Final = 1 << 30
_UNLIMITED: Final = (1 << 63) - 1
_INT32_MAX: Final = INTEGER_RANGE["int32"][1]
_INT64_MIN, _INT64_MAX = INTEGER_RANGE["int64"]


class _Rows(Protocol):
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


def _sequence(header: BatchHeader, record: Record) -> int:
    """Return a record's own sequence number: it goes on at 0 after the largest int32."""
    if header.base_sequence < 0:
        return -1
    delta = (record.offset - header.base_offset) % (1 << 64)
    return (header.base_sequence + delta) & _INT32_MAX


def _microseconds(milliseconds: int) -> int:
    return max(_INT64_MIN, min(_INT64_MAX, milliseconds * 1000))


_CELLS: dict[str, Any] = {
    "offset": lambda _, record: record.offset,
    "timestamp": lambda _, record: record.timestamp,
    "timestamp_type": lambda header, _: int(header.timestamp_type),
    "leader_epoch": lambda header, _: header.partition_leader_epoch,
    "key": lambda _, record: record.key,
    "value": lambda _, record: record.value,
    "headers": lambda _, record: [
        {"key": header.key, "value": header.value} for header in record.headers
    ],
    "is_control": lambda header, _: header.is_control,
    "is_transactional": lambda header, _: header.is_transactional,
    "producer_id": lambda header, _: header.producer_id,
    "producer_epoch": lambda header, _: header.producer_epoch,
    "sequence": _sequence,
    "position": lambda header, _: header.position,
    "compression": lambda header, _: header.attributes & COMPRESSION_MASK,
}


class PureTable:
    """The plain-Python twin of ``_columns.Table``: lists, which pyarrow makes into arrays."""

    def __init__(
        self, data: BytesLike, names: tuple[str, ...], values: str, timestamps: str
    ) -> None:
        self.view = view_of(data)
        self.names = names
        self.values = values
        self.timestamps = timestamps
        self.lists: list[list[Any]] = [[] for _ in names]
        self.rows = 0
        self.inflated_bytes = 0
        self._sizes = [0, 0, 0, 0]  # Bytes of keys, values, header keys and header values.

    def __len__(self) -> int:
        return self.rows

    def run(
        self,
        position: int,
        check_crc: bool,
        rows_max: int,
        batches_max: int,
        inflate: Any,
        size_max: int,
        ratio_max: int,
        inflated_bytes_max: int,
    ) -> tuple[str, int, int]:
        """Add batches from ``position`` on; return (why it stopped, where, how many it added)."""
        batches = 0
        while position < len(self.view):
            if batches == batches_max:
                return "limit", position, batches
            try:
                header = pure_read_header(self.view, position, False)
                if self.rows and header.record_count > rows_max - self.rows:
                    return "limit", position, batches
                header = pure_read_header(self.view, position, check_crc)
                if header.compression and self.inflated_bytes >= inflated_bytes_max:
                    return "limit", position, batches
                records, inflated = pure_decode_records(self.view, header, size_max, ratio_max)
            except CodecError:
                return "refused", position, batches
            if not self._fits(records):
                return "limit", position, batches
            self.inflated_bytes += inflated
            self._add(header, records)
            position, batches = header.end, batches + 1
        return "end", position, batches

    def let_go(self) -> None:
        """Let the input go: what the lists hold was copied."""
        self.view = memoryview(b"")

    def _fits(self, records: list[Record]) -> bool:
        """Whether int32 ends can still address the bytes; without views, or in header keys."""
        sizes = list(self._sizes)
        for record in records:
            sizes[0] += len(record.key or b"")
            sizes[1] += len(record.value or b"")
            for header in record.headers:
                sizes[2] += len(header.key.encode())
                sizes[3] += len(header.value or b"")
        fits = max(sizes) <= _INT32_MAX or self.values != "binary" or not self.rows
        if fits:
            self._sizes = sizes
        return fits

    def _add(self, header: BatchHeader, records: list[Record]) -> None:
        for name, column in zip(self.names, self.lists, strict=True):
            cell = _CELLS[name]
            column += [cell(header, record) for record in records]
        self.rows += len(records)

    def _schema(self) -> Any:
        arrow = _pyarrow()
        value = {"view": arrow.binary_view, "binary": arrow.binary}.get(
            self.values, arrow.large_binary
        )()
        header = arrow.struct([("key", arrow.string()), ("value", value)])
        unit, _, zone = self.timestamps.partition(", tz=")
        stamp = (
            arrow.int64()
            if unit == "int64"
            else arrow.timestamp(unit[len("timestamp[") :][:2], zone.rstrip("]") or None)
        )
        types = {
            "timestamp": stamp, "timestamp_type": arrow.int8(), "leader_epoch": arrow.int32(),
            "key": value, "value": value, "headers": arrow.list_(arrow.field("element", header)),
            "is_control": arrow.bool_(), "is_transactional": arrow.bool_(),
            "producer_epoch": arrow.int16(), "sequence": arrow.int32(),
            "compression": arrow.int8(),
        }  # fmt: skip
        return arrow.schema([(name, types.get(name, arrow.int64())) for name in self.names])

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        arrow, schema = _pyarrow(), self._schema()
        columns = []
        for field, column in zip(schema, self.lists, strict=True):
            cells = column
            if field.name == "timestamp" and self.timestamps.startswith("timestamp[us"):
                cells = [_microseconds(stamp) for stamp in column]
            columns.append(arrow.array(cells, field.type))
        if not columns:  # How many rows there are would be lost.
            rows = arrow.array([{}] * self.rows, arrow.struct([]))
            batch = arrow.RecordBatch.from_struct_array(rows)
        else:
            batch = arrow.record_batch(columns, schema=schema)
        capsules: tuple[object, object] = batch.__arrow_c_array__(requested_schema)
        return capsules


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")  # Heavy, and not for everyone.
    except ModuleNotFoundError as error:
        raise ImportError(
            "the package pyarrow is not installed: pip install pyarrow", name="pyarrow"
        ) from error


class Columns:
    """Rows decoded from ``position`` to ``next_offset`` of an input, both of them bytes.

    ``batches`` is the number of their batches. ``damage`` is the damage that was left out.
    """

    def __init__(self, table: _Rows, position: int, next_offset: int, batches: int) -> None:
        self._table = table
        self.position = position
        self.next_offset = next_offset
        self.batches = batches
        self.damage: tuple[Damage, ...] = ()

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export the rows by the Arrow C data interface; a requested schema is ignored."""
        return self._table.__arrow_c_array__(requested_schema)

    def to_pyarrow(self) -> Any:
        """Return the rows as a ``pyarrow.RecordBatch``, without a copy; ImportError without it."""
        return _pyarrow().record_batch(self)


_native = native.load("_columns")


def decode_columns(
    data: BytesLike,
    offset: int = 0,
    *,
    columns: Sequence[str] | None = None,
    values: Values = "view",
    timestamps: Timestamps = "int64",
    errors: Errors = "raise",
    check_crc: bool = True,
    rows_max: int | None = None,
    batches_max: int | None = None,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    ratio_max: int = RATIO_MAX,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    _table: Any = _native and _native.Table,
) -> Columns:
    """Decode the batches of ``data`` from byte ``offset`` on as columns, whole batches only.

    ``columns`` are the names wanted, in that order; the others cost nothing. ``values`` is how
    keys, values and header values are laid out: views of the input (binary_view), or copied.
    In microseconds, timestamps that int64 cannot hold become the nearest it can.

    It stops at the end, and with ``next_offset`` before it: after ``batches_max`` batches; before
    a batch that would pass ``rows_max`` rows (unless it is the first: batches are not divided); at
    2 GiB of copied binary; once ``inflated_bytes_max`` bytes were decompressed. ``size_max`` and
    ``ratio_max`` limit the decompression of one batch.

    A batch that is wrong raises its CodecError (see ``batch_reader.read_batch``), or with
    ``errors="stop"`` ends the rows before it, or with ``"skip"`` is left out and the next good
    batch is looked for; both note it in ``damage``, zeros that fill the rest of a file included.
    """
    names = COLUMNS if columns is None else tuple(columns)
    _check_choice(names, values, timestamps, errors)
    offset = count_of("offset", offset)
    view = view_of(data)
    table = (_table or PureTable)(data, names, values, timestamps)
    limits = (inflate, size_max, ratio_max, count_of("inflated_bytes_max", inflated_bytes_max))
    rows_limit = _UNLIMITED if rows_max is None else count_of("rows_max", rows_max)
    left = _UNLIMITED if batches_max is None else count_of("batches_max", batches_max)
    surveyor: Surveyor | None = None
    position, batches = offset, 0
    while True:
        reason, position, added = table.run(position, check_crc, rows_limit, left, *limits)
        batches += added
        left -= added
        if reason != "refused":
            break
        error = _why(view, position, check_crc, size_max, ratio_max)
        if errors == "raise":
            del view, table  # The traceback will keep this frame, and it the input.
            try:
                raise error
            finally:
                del error
        surveyor = surveyor or Surveyor(view)
        end = surveyor.note(position, error, resync=errors == "skip")
        if errors == "stop":
            break
        position = end
    table.let_go()
    result = Columns(table, offset, position, batches)
    if surveyor is not None:
        result.damage = tuple(surveyor.damage)
    return result


def pure_decode_columns(data: BytesLike, offset: int = 0, **options: Any) -> Columns:
    """Do as ``decode_columns`` in plain Python: its twin."""
    return decode_columns(data, offset, _table=PureTable, **options)


def iterate_columns(
    data: BytesLike, offset: int = 0, *, rows_max: int = 65_536, **options: Any
) -> Iterator[Columns]:
    """Yield ``decode_columns`` of ``data`` part by part, to its end or to where errors stop it.

    Memory is bounded by ``rows_max`` rows a part, unless a single batch has more.
    """
    size = len(view_of(data))
    while offset < size:
        part = decode_columns(data, offset=offset, rows_max=rows_max, **options)
        yield part
        if part.next_offset == offset or (part.damage and options.get("errors") == "stop"):
            return
        offset = part.next_offset


def _why(
    view: memoryview, position: int, check_crc: bool, size_max: int, ratio_max: int
) -> CodecError:
    """Return the error of the batch that was refused at ``position``."""
    try:
        read_batch(view, position, check_crc=check_crc, size_max=size_max, ratio_max=ratio_max)
    except CodecError as error:
        return error.with_traceback(None)
    raise RuntimeError(f"the batch at byte {position} changed while it was read")


def _check_choice(names: tuple[str, ...], values: str, timestamps: str, errors: str) -> None:
    """Refuse what no argument may be, in words that say what may."""
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) < len(names):
        wrong = f"there is no column {unknown[0]!r}" if unknown else "a column is asked for twice"
        raise ValueError(f"{wrong}; the columns are {', '.join(COLUMNS)}")
    for name, value, choice in (
        ("values", values, VALUES),
        ("timestamps", timestamps, TIMESTAMPS),
        ("errors", errors, ERRORS),
    ):
        if value not in choice:
            raise ValueError(f"{name} is one of {', '.join(choice)}, not {value!r}")
