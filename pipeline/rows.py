"""How rows are laid out: the options of a reader, its schema, and batches of that schema.

A row has the columns of ``fastpath.columns`` that are asked for, and of these:

===================  ===================================================================
topic, file          string: of the directory (null without one), and the path
partition            int32
_error               struct<class, file, position, size, detail>: null but in a row that
                     stands for damage, all of whose other columns but the place are null
_corrupt_record      binary: the first bytes of that damage, ``corrupt_bytes_max`` at most
===================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftspec.fastpath.batch_reader import count_of
from kraftspec.fastpath.columns import COLUMNS, Columns, Timestamps, Values, decode_columns
from kraftspec.fastpath.compression import DECOMPRESSED_BYTES_MAX, RATIO_MAX
from kraftspec.pipeline.files import BATCH_BYTES_MAX
from kraftspec.pipeline.filters import Filter, parse_filters
from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.report import Damaged

Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
Isolation = Literal["read_uncommitted", "read_committed"]

MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
PLACE_COLUMNS: Final = ("topic", "partition", "file")
ERROR_COLUMNS: Final = ("_error", "_corrupt_record")
ALL_COLUMNS: Final = (*PLACE_COLUMNS, *COLUMNS, *ERROR_COLUMNS)

ERROR_TYPE: Final = pa.struct(
    [
        ("class", pa.string()), ("file", pa.string()), ("position", pa.int64()),
        ("size", pa.int64()), ("detail", pa.string()),
    ]
)  # fmt: skip
_EXTRA_TYPES: Final = {
    "topic": pa.string(), "partition": pa.int32(), "file": pa.string(), "_error": ERROR_TYPE,
    "_corrupt_record": pa.binary(),
}  # fmt: skip

ROWS_MAX: Final = 10_000  # What Spark and DuckDB like a batch to have.
# Kafka's default for the largest batch: what of damage is more than that is not shown.
CORRUPT_BYTES_MAX: Final = 1 << 20
# What the views of one batch of rows may hold in decompressed blocks.
INFLATED_BYTES_MAX: Final = 32 << 20


class ReadOptions(msgspec.Struct, frozen=True):
    """How to read; sizes in bytes. It pickles. ``window_bytes`` 0 is what suits the source.

    Damage passes ``filter``. ``damage_filter`` is one that it must pass to become a row: of such a
    row the place is known, and all else is null.
    """

    columns: tuple[str, ...]
    filter: Filter | None = None
    damage_filter: Filter | None = None
    mode: Mode = "PERMISSIVE"
    isolation: Isolation = "read_uncommitted"
    values: Values = "binary"
    timestamps: Timestamps = "int64"
    rows_max: int = ROWS_MAX
    window_bytes: int = 0
    batch_bytes_max: int = BATCH_BYTES_MAX
    corrupt_bytes_max: int = CORRUPT_BYTES_MAX
    size_max: int = DECOMPRESSED_BYTES_MAX
    ratio_max: int = RATIO_MAX

    @property
    def shows_damage(self) -> bool:
        """Whether damage becomes rows: a column that shows it is selected."""
        return self.mode == "PERMISSIVE" and not set(ERROR_COLUMNS).isdisjoint(self.columns)


def read_options(
    columns: Sequence[str] | None = None, filters: Any = None, mode: Any = "PERMISSIVE", **more: Any
) -> ReadOptions:
    """Return the options of a reader; ValueError and TypeError name a wrong option.

    Without ``columns`` all are read, those of errors in PERMISSIVE mode only.
    """
    names: tuple[str, ...]
    if columns is None:
        names = ALL_COLUMNS if mode == "PERMISSIVE" else (*PLACE_COLUMNS, *COLUMNS)
    else:
        names = tuple(columns)
    unknown = [name for name in names if name not in ALL_COLUMNS]
    if unknown or len(set(names)) < len(names):
        wrong = f"there is no column {unknown[0]!r}" if unknown else "a column is asked for twice"
        raise ValueError(f"{wrong}; the columns are {', '.join(ALL_COLUMNS)}")
    isolation = more.get("isolation", "read_uncommitted")
    for what, value, choice in (("mode", mode, MODES), ("isolation", isolation, ISOLATIONS)):
        if value not in choice:
            raise ValueError(f"{what} is one of {', '.join(choice)}, not {value!r}")
    for name, value in more.items():
        if name.endswith(("_max", "_bytes")):
            count_of(name, value)
    return ReadOptions(columns=names, filter=parse_filters(filters), mode=mode, **more)


def schema_of(
    columns: Sequence[str] | None = None,
    mode: str = "PERMISSIVE",
    *,
    values: Values = "binary",
    timestamps: Timestamps = "int64",
) -> Any:
    """Return the ``pyarrow.Schema`` that a reader of these options gives; all of it nullable."""
    return _schema(read_options(columns, None, mode, values=values, timestamps=timestamps))


def _schema(options: ReadOptions) -> Any:
    empty = pa.record_batch(
        decode_columns(b"", values=options.values, timestamps=options.timestamps)
    )
    return pa.schema(
        [
            pa.field(name, _EXTRA_TYPES[name]) if name in _EXTRA_TYPES else empty.schema.field(name)
            for name in options.columns
        ]
    )


def _filtered(batch: Any, mask: Any) -> Any:
    """Return the rows of ``batch`` that ``mask`` has, neither null nor false."""
    count = pc.sum(mask).as_py() or 0
    if count == batch.num_rows:
        return batch
    first = pc.index(mask, True).as_py()
    if not count or pc.sum(mask.slice(first, count)).as_py() == count:
        return batch.slice(max(first, 0), count)  # Nothing is copied.
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:  # Arrow cannot pick from views: copies are picked from.
        kinds = [_without_views(field.type) for field in batch.schema]
        copied = batch.cast(pa.schema(list(zip(batch.schema.names, kinds, strict=True))))
        return copied.filter(mask).cast(batch.schema)


def _without_views(kind: Any) -> Any:
    if pa.types.is_list(kind):
        key, value = kind.value_type
        named = [("key", key.type), ("value", _without_views(value.type))]
        return pa.list_(pa.field("element", pa.struct(named)))
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


class Rows:
    """Makes what was decoded of one file into batches of the wanted schema."""

    def __init__(self, options: ReadOptions, file: LogFile) -> None:
        self.options = options
        self.schema = _schema(options)
        columns = (*options.columns, *(options.filter.columns if options.filter else ()))
        # The columns to decode; the filter may need columns that are not selected.
        self.decoded = tuple(dict.fromkeys(name for name in columns if name in COLUMNS))
        self._is_plain = self.decoded == options.columns and "position" not in columns
        self._constants = {"topic": file.topic, "partition": file.partition, "file": file.path}
        self._repeated: dict[str, Any] = {}

    def batch(self, columns: Columns, window_at: int) -> Any:
        """Return the rows that pass the filter, ``window_at`` being where their input starts."""
        batch = pa.record_batch(columns)
        if not self._is_plain or self.options.filter is not None:
            rows = batch.num_rows
            cells = dict(zip(self.decoded, batch.columns, strict=True))
            if window_at and "position" in cells:
                cells["position"] = pc.add(cells["position"], window_at)
            arrays = [self._cell(cells, name, rows) for name in self.options.columns]
            mask = (
                self.options.filter.mask(lambda name: self._cell(cells, name, rows))
                if self.options.filter is not None
                else None
            )
            if arrays:
                batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            if mask is not None:
                batch = _filtered(batch, mask)
            if not arrays:
                batch = batch.select([])
        return batch

    def _cell(self, cells: dict[str, Any], name: str, rows: int) -> Any:
        """Return a decoded column, or a constant one: a slice of one that is made once."""
        cell = cells.get(name)
        if cell is not None:
            return cell
        repeated = self._repeated.get(name)
        if repeated is None or len(repeated) < rows:
            size = max(rows, self.options.rows_max)
            kind, constant = _EXTRA_TYPES[name], self._constants.get(name)
            repeated = (
                pa.nulls(size, kind)
                if constant is None
                else pa.repeat(pa.scalar(constant, kind), size)
            )
            self._repeated[name] = repeated
        return repeated.slice(0, rows)

    def shows(self, damage: Damaged) -> bool:
        """Whether this damage becomes a row."""
        damage_filter = self.options.damage_filter
        if not self.options.shows_damage or damage_filter is None:
            return self.options.shows_damage
        known = {**self._constants, "position": damage.position}
        return damage_filter.may_match(
            {name: (known.get(name),) * 2 for name in damage_filter.columns}
        )

    def damage(self, damage: Damaged, data: bytes) -> Any:
        """Return the row of damage that begins with the bytes ``data``."""
        error = {
            "class": damage.error_class, "file": damage.file, "position": damage.position,
            "size": damage.size, "detail": damage.detail,
        }  # fmt: skip
        cells = {
            **self._constants, "position": damage.position, "_error": error,
            "_corrupt_record": data,
        }  # fmt: skip
        return pa.RecordBatch.from_arrays(
            [pa.array([cells.get(field.name)], field.type) for field in self.schema],
            schema=self.schema,
        )
