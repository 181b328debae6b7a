"""The records of metadata logs as Arrow: one row a record, whatever it is.

===============  =====================================================================
file             string: the segment or checkpoint that has it
offset           int64; in a checkpoint the number of the record in it
epoch            int32: the leader's
timestamp        timestamp[us, tz=UTC]
position         int64: the byte of the file where the record's batch starts
checkpoint       bool: the file is a checkpoint, and the record not one of the log
control          bool: a control record (LeaderChangeMessage, VotersRecord, ...)
type             string: the message's name (TopicRecord)
apiKey           int32: of the record, or the type of a control record
version          int32: of the record
record           string: the record as JSON, in the shape of Kafka's own converters; with
                 ``record_type`` the struct of that message (``messages.arrow_type``)
_error           struct<class, file, position, size, detail>: null but where a row stands
                 for bytes that are no record; mode PERMISSIVE only
_corrupt_record  binary: those bytes; mode PERMISSIVE only
===============  =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import repeat
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import Paths
from kraftspec.pipeline.messages.decode import message_array
from kraftspec.pipeline.messages.schema import arrow_type
from kraftspec.pipeline.metadata.log import metadata_files
from kraftspec.pipeline.reader import read_split
from kraftspec.pipeline.report import Damaged, DamagedLogError, Report
from kraftspec.pipeline.rows import ERROR_TYPE, MODES, read_options
from kraftspec.pipeline.splits import plan_splits
from kraftspec.reference.metadata.frames import (
    FrameError,
    control_classes,
    explain,
    read_control,
    read_frame,
    record_classes,
    record_names,
)

# What the decoder asks of a reader of log files; in mode PERMISSIVE also the columns of errors.
SOURCE_COLUMNS: Final = (
    "file", "offset", "leader_epoch", "timestamp", "position", "is_control", "key", "value",
)  # fmt: skip
ERROR_COLUMNS: Final = ("_error", "_corrupt_record")
TIMESTAMPS: Final = "timestamp[us, tz=UTC]"
CHECKPOINT_SUFFIX: Final = ".checkpoint"
RECORD: Final = "record"

_TYPES: Final = {
    "file": pa.string(),
    "offset": pa.int64(),
    "epoch": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "position": pa.int64(),
    "checkpoint": pa.bool_(),
    "control": pa.bool_(),
    "type": pa.string(),
    "apiKey": pa.int32(),
    "version": pa.int32(),
    RECORD: pa.string(),
    "_error": ERROR_TYPE,
    "_corrupt_record": pa.binary(),
}
COLUMNS: Final = tuple(_TYPES)
_json: Final = msgspec.json.Encoder().encode


def metadata_schema(
    columns: Sequence[str] | None = None,
    mode: str = "PERMISSIVE",
    *,
    record_type: str | None = None,
) -> pa.Schema:
    """Return the schema of the rows, all of it nullable; the columns are those of the module.

    Timestamps are microseconds of UTC, as Spark has them. ValueError for a column, a mode or a
    record type that there is not.
    """
    if mode not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    names = columns
    if names is None:
        names = [name for name in COLUMNS if mode == "PERMISSIVE" or name not in ERROR_COLUMNS]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) < len(names):
        wrong = f"there is no column {unknown[0]!r}" if unknown else "a column is asked for twice"
        raise ValueError(f"{wrong}; the columns are {', '.join(COLUMNS)}")
    types: dict[str, pa.DataType] = dict(_TYPES)
    if record_type is not None:
        types[RECORD] = arrow_type(record_class(record_type))
    return pa.schema([pa.field(name, types[name]) for name in names])


def record_class(name: str) -> type[Message]:
    """Return the class of a metadata or control record; ValueError names those that look alike."""
    if name not in record_names():
        close = get_close_matches(name, record_names(), n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"there is no metadata record {name!r}{hint}")
    cls: type[Message] = getattr(kafka, name)
    return cls


class MetadataDecoder:
    """Turns the record batches of a log reader into those of ``metadata_schema``. It pickles.

    ``record_type`` keeps the rows of that record, and its struct instead of JSON; rows that stand
    for damage stay unless it is known that they were of another type.

    A record that is none (an unknown type or version, a wrong frame, bytes that are missing or left
    over) is a row with ``_error`` in mode PERMISSIVE, if a column that tells of it is asked for;
    otherwise, and in DROPMALFORMED, it is dropped and counted in the report; in FAILFAST it raises
    ``DamagedLogError``. An error's position is the batch's.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        mode: str = "PERMISSIVE",
        *,
        record_type: str | None = None,
    ) -> None:
        self.schema = metadata_schema(columns, mode, record_type=record_type)
        # Damage that no column shows is counted. It does not become a row of nulls.
        is_shown = not set(ERROR_COLUMNS).isdisjoint(self.schema.names)
        self.mode = "DROPMALFORMED" if mode == "PERMISSIVE" and not is_shown else mode
        self.record_type = record_type
        shown = ERROR_COLUMNS if self.mode == "PERMISSIVE" else ()
        self.source_columns: tuple[str, ...] = SOURCE_COLUMNS + shown

    def __reduce__(self) -> tuple[Any, ...]:
        return _decoder, (self.schema.names, self.mode, self.record_type)

    def decode(self, batch: pa.RecordBatch, report: Report | None = None) -> pa.RecordBatch:
        """Decode a batch that has ``source_columns`` (keys and values in any kind of binary)."""
        rows = _Rows(batch, self.mode, report if report is not None else Report())
        rows.read()
        kept = rows.keep(self.record_type, drop=self.mode == "DROPMALFORMED")
        cells: dict[str, Any] = {
            "epoch": lambda: batch["leader_epoch"],
            "checkpoint": lambda: pc.ends_with(batch["file"], CHECKPOINT_SUFFIX),
            "control": lambda: batch["is_control"],
            "type": lambda: pa.array(rows.types, pa.string()),
            "apiKey": lambda: pa.array(rows.numbers, pa.int32()),
            "version": lambda: pa.array(rows.versions, pa.int32()),
            RECORD: lambda: self._records(rows),
            "_error": rows.errors,
            "_corrupt_record": rows.corrupt,
        }
        arrays = [
            cells[field.name]() if field.name in cells else batch[field.name]
            for field in self.schema
        ]
        if not arrays:  # How many rows there are would be lost.
            rows_alone = pa.array([{}] * batch.num_rows, pa.struct([]))
            decoded = pa.RecordBatch.from_struct_array(rows_alone)
        else:
            decoded = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return decoded if kept is None else decoded.filter(kept)

    def _records(self, rows: _Rows) -> pa.Array:
        if self.record_type is None:
            return pa.array(
                [
                    None if message is None else _json(message.to_json(version)).decode()
                    for message, version in zip(rows.messages, rows.versions, strict=True)
                ],
                pa.string(),
            )
        cls = record_class(self.record_type)
        messages = [message if type(message) is cls else None for message in rows.messages]
        return message_array(cls, messages, rows.versions)


def _decoder(columns: Sequence[str], mode: str, record_type: str | None) -> MetadataDecoder:
    return MetadataDecoder(columns, mode, record_type=record_type)


class _Rows:
    """The rows of one batch while they are decoded."""

    def __init__(self, batch: pa.RecordBatch, mode: str, report: Report) -> None:
        self.batch = batch
        self.mode = mode
        self.report = report
        self.values: list[bytes | None] = batch["value"].to_pylist()
        self.messages: list[Message | None] = []
        self.types: list[str | None] = []
        self.numbers: list[int | None] = []
        self.versions: list[int] = []
        self.refused: dict[int, Damaged] = {}

    def read(self) -> None:
        """Decode each row; note those that are refused, or raise in mode FAILFAST."""
        batch = self.batch
        controls = batch["is_control"].to_pylist()
        has_control = True in controls
        keys = batch["key"].to_pylist() if has_control else repeat(None, batch.num_rows)
        damaged = None in controls and "_error" in batch.schema.names
        is_damaged = (
            batch["_error"].is_valid().to_pylist() if damaged else repeat(False, batch.num_rows)
        )
        rows = zip(self.values, keys, controls, is_damaged, strict=True)
        for row, (value, key, control, is_reported) in enumerate(rows):
            if is_reported:  # The reader reported these bytes as damaged: there is no record.
                self._add(None, None, None, None)
                continue
            try:
                frame = read_control(key, value) if control else read_frame(value)
            except FrameError as error:
                self._refuse(row, error.error)
                self._add(None, _name(error.number, control), error.number, error.version)
                continue
            try:
                assert value is not None
                self._add(frame.decode(value), frame.cls.__name__, frame.number, frame.version)
            except CodecError as error:
                self._refuse(row, error)
                self._add(None, frame.cls.__name__, frame.number, frame.version)

    def _add(
        self, message: Message | None, name: str | None, number: int | None, version: Any
    ) -> None:
        self.messages.append(message)
        self.types.append(name)
        self.numbers.append(number)
        self.versions.append(version)

    def _refuse(self, row: int, error: CodecError) -> None:
        """Note that a record is none. Its own bytes may be compressed: the place is its batch's."""
        place = {name: self.batch[name][row].as_py() for name in ("file", "position", "offset")}
        value = self.values[row]
        damage = Damaged(
            file=place["file"] or "",
            position=place["position"],
            size=len(value or b""),
            error_class=str(error.error_class),
            detail=explain(place["offset"], error),
            byte=place["position"],
            records=1,
            verdict="record",
        )
        if self.mode == "FAILFAST":
            raise DamagedLogError(damage) from error
        self.refused[row] = damage
        self.report.rows -= 1
        self.report.note(damage, is_dropped=self.mode == "DROPMALFORMED")

    def keep(self, record_type: str | None, *, drop: bool) -> pa.Array | None:
        """Return a mask of the rows to keep, None for all; count those of another type."""
        if record_type is None and not (drop and self.refused):
            return None
        kept = []
        for row, name in enumerate(self.types):
            is_other = record_type is not None and name is not None and name != record_type
            if is_other and row not in self.refused:
                self.report.filtered_rows += 1
                self.report.rows -= 1
            kept.append(not is_other and not (drop and row in self.refused))
        return pa.array(kept, pa.bool_())

    def errors(self) -> pa.Array:
        """Return the column ``_error``: the reader's errors, and those of records rejected here."""
        texts = self.batch["_error"] if "_error" in self.batch.schema.names else None
        if not self.refused:
            return pa.nulls(self.batch.num_rows, ERROR_TYPE) if texts is None else texts
        cells = [None] * self.batch.num_rows if texts is None else texts.to_pylist()
        for row, damage in self.refused.items():
            cells[row] = {
                "class": damage.error_class, "file": damage.file, "position": damage.position,
                "size": damage.size, "detail": damage.detail,
            }  # fmt: skip
        return pa.array(cells, ERROR_TYPE)

    def corrupt(self) -> pa.Array:
        """Return the column ``_corrupt_record``: the damaged bytes, or the value refused."""
        has_corrupt = "_corrupt_record" in self.batch.schema.names
        if not self.refused:
            return (
                self.batch["_corrupt_record"]
                if has_corrupt
                else pa.nulls(self.batch.num_rows, pa.binary())
            )
        cells = (
            self.batch["_corrupt_record"].to_pylist() if has_corrupt else [None] * len(self.values)
        )
        for row in self.refused:
            cells[row] = self.values[row]
        return pa.array(cells, pa.binary())


def _name(number: int | None, control: Any) -> str | None:
    """Return the name of the record type with this number; None if it is unknown."""
    classes = control_classes() if control else record_classes()
    cls = None if number is None else classes.get(number)
    return None if cls is None else cls.__name__


def records(
    path: Paths,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    mode: str = "PERMISSIVE",
    *,
    record_type: str | None = None,
    filesystem: Filesystem = None,
    report: Report | None = None,
    **more: Any,
) -> pa.RecordBatchReader:
    """Return a ``pyarrow.RecordBatchReader`` of the metadata records below a path.

    Paths, filters, modes and further options are ``scan``'s; the columns are the module's, and what
    bad records are in each mode ``MetadataDecoder`` says. Segments and checkpoints are both read:
    ``checkpoint`` tells their rows apart. Other topics of a log directory are passed over;
    ValueError where there is no metadata log.
    """
    decoder = MetadataDecoder(columns, mode, record_type=record_type)
    options = read_options(
        decoder.source_columns, filters, decoder.mode,
        values="binary", timestamps=TIMESTAMPS, **more,
    )  # fmt: skip
    files = metadata_files(path, filesystem)
    splits = plan_splits(files, filters=options.filter, isolation=options.isolation)
    report = report if report is not None else Report()

    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits:
            for batch in read_split(split, options=options, report=report):
                yield decoder.decode(batch, report)
        report.warn()

    return pa.RecordBatchReader.from_batches(decoder.schema, batches())
