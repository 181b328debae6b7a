"""The audit of one file: a segment, or a snapshot of the metadata log.

This is the unit of work. ``audit_file`` needs nothing of other files and gives a ``Part``, small
and mergeable; ``join`` puts the parts of a partition together from the left, making the checks
that go over file boundaries, and ``finish`` makes those that need the whole partition. Where the
parts were made does not matter: here or on executors, the report is the same.

A file is read in windows of a few MiB, so memory does not grow with it. Statistics are made in
Arrow; Python sees a batch's header, and its records only where they are few or have headers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow.compute as pc

from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.columns import decode_columns
from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.fastpath.records import (
    COMPRESSION_MASK,
    CONTROL,
    LENGTH_AT,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Compression,
)
from kraftspec.fastpath.scan import TORN_ZEROS_MIN
from kraftspec.fastpath.walk import Resync, header_at, is_framed
from kraftspec.pipeline.audit import continuity, plain, roundtrip, typed
from kraftspec.pipeline.audit.model import Counts, Finding, Findings, Share
from kraftspec.pipeline.audit.rules import EXPLAINED
from kraftspec.pipeline.audit.sidecars import Epochs, Index, TransactionIndex, open_indexes
from kraftspec.pipeline.files import (
    BATCH_BYTES_MAX,
    LOCAL_WINDOW_BYTES,
    REMOTE_WINDOW_BYTES,
    Source,
)
from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.metadata.log import METADATA_TOPIC
from kraftspec.reference.metadata.frames import FrameError

_COLUMNS: Final = ("timestamp", "key", "value", "headers")
# What a coordinator appends has no sequences of a client's (AppendOrigin.COORDINATOR).
COORDINATOR_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A file to audit, with the checkpoints of its partition.

    ``clean_until`` is the offset up to which the cleaner ran, None if unknown;
    ``is_last`` whether it is the partition's last segment; ``epochs`` are (epoch, start offset).
    """

    file: LogFile
    is_last: bool = True
    clean_until: int | None = None
    epochs: list[tuple[int, int]] = []


class Part(msgspec.Struct, kw_only=True):
    """The audit of a range of a partition: one file, or several that were joined.

    ``unsettled`` are findings that a cleaner would explain, of a partition without a checkpoint
    that says whether one ran; ``marks`` counts the batches that only a cleaner can have made.
    """

    topic: str
    partition: int
    counts: Counts
    trail: continuity.Trail
    findings: Findings
    unsettled: Findings
    explained: dict[str, int] = {}
    marks: int = 0
    clean_until: int | None = None


def audit_file(task: Task) -> Part:
    """Audit one file, by itself.

    Raises:
        OSError: it does not exist, or cannot be read.
        ImportError: the library of a compression is not installed; it names the library.
    """
    with task.file.open() as source:
        return _Audit(task, source).run()


def join(left: Part, right: Part) -> Part:
    """Return the audit of ``left`` and of the one file that follows it; ``left`` grows."""
    sink = _Sink(right, right.trail.file)
    left.trail = continuity.join(left.trail, right.trail, sink.report)
    left.counts.merge(right.counts)
    left.findings.merge(right.findings)
    left.unsettled.merge(right.unsettled)
    for reason, count in right.explained.items():
        left.explained[reason] = left.explained.get(reason, 0) + count
    left.marks += right.marks
    return left


def finish(part: Part) -> Part:
    """Make the checks that need all of a partition; ``part`` changes."""

    def report_in(file: str, kind: str, position: int, offset: int, detail: str) -> None:
        _Sink(part, file).report(kind, position, offset, detail)

    continuity.finish(part.trail, lambda kind, file, *rest: report_in(file, kind, *rest))
    unsettled, part.unsettled = part.unsettled, Findings()
    if part.marks:
        for kind, count in unsettled.counts.items():
            part.explained[kind] = part.explained.get(kind, 0) + count
    else:
        part.findings.merge(unsettled)
    return part


class _Sink:
    """Takes the findings of one file and decides whether the log cleaner explains them."""

    def __init__(self, part: Part, file: str) -> None:
        self.part = part
        self.file = file

    def report(self, kind: str, position: int, offset: int, detail: str, **more: Any) -> None:
        part = self.part
        finding = Finding(
            kind=kind, topic=part.topic, partition=part.partition, file=self.file,
            position=position, offset=offset, detail=detail, **more,
        )  # fmt: skip
        if kind not in EXPLAINED:
            part.findings.add(finding)
        elif part.clean_until is None:
            part.unsettled.add(finding)
        elif offset <= part.clean_until:
            part.explained[kind] = part.explained.get(kind, 0) + 1
        else:
            part.findings.add(finding)


class _Audit:
    """The running audit of one file."""

    def __init__(self, task: Task, source: Source) -> None:
        file = task.file
        self.task, self.source, self.end = task, source, file.size
        self.is_segment = file.kind == "segment"
        topic = file.topic or ""
        self.counts = Counts(files=1, bytes=file.size)
        self.trail = continuity.Trail(file=file.path, has_sequences=topic not in COORDINATOR_TOPICS)
        self.part = Part(
            topic=topic, partition=-1 if file.partition is None else file.partition,
            counts=self.counts, trail=self.trail, findings=Findings(), unsettled=Findings(),
            clean_until=task.clean_until,
        )  # fmt: skip
        self.sink = _Sink(self.part, file.path)
        self.report = self.sink.report
        self.is_metadata = topic == METADATA_TOPIC
        self.epochs = Epochs(task.epochs)
        self.indexes: list[Index] = []
        self.position = 0  # The byte of the file where the window starts.
        self.view = memoryview(b"")
        self._sizes: dict[str, dict[int, int]] = {"keys": {}, "values": {}, "batches": {}}
        self._codecs: dict[int, list[int]] = {}

    def run(self) -> Part:
        """Walk the file to its end."""
        file = self.task.file
        if self.is_segment:
            self.indexes = open_indexes(
                {suffix: file.sibling(suffix) for suffix in file.indexes},
                file.filesystem, file.base_offset, self.task.clean_until or 0,
                lambda path, *finding: _Sink(self.part, path).report(*finding),
            )  # fmt: skip
        resync = self.source.resync(self.end)
        usual = REMOTE_WINDOW_BYTES if self.source.is_remote else LOCAL_WINDOW_BYTES
        size = usual
        while self.position < self.end:
            self.view = self.source.read(self.position, min(size, self.end - self.position))
            if not self.view:
                raise OSError(f"{file.path}: it ends at byte {self.position}, and had {self.end}")
            size = usual
            read, error = self._window()
            self.position += read
            if error is None or read:
                continue
            header = header_at(self.view, 0, self.position)
            left = self.end - self.position
            if header and len(self.view) < header.size <= min(BATCH_BYTES_MAX, left):
                size = header.size  # One batch is more than a window.
            else:
                self._damaged(_error_in_file(error, header, left), header, resync)
        for index in self.indexes:
            index.finish()
        self._settle()
        return self.part

    def _window(self) -> tuple[int, CodecError | None]:
        """Audit the batches of the window; return the bytes they take, and what ended them."""
        at, error = 0, None
        while at < len(self.view) and error is None:
            part = plain.read_plain(self.view, at)
            at, error = part.end, part.error
            columns = decode_columns(
                part.data, columns=_COLUMNS, values="large_binary", errors="stop", check_crc=False
            )
            if columns.damage:
                bad = part.headers[columns.batches]
                at = bad.position
                error = plain.why(self.view, bad) or columns.damage[0].error
            self._batches(columns.to_pyarrow(), part, columns.batches)
        return at, error

    def _batches(self, table: Any, part: plain.PlainBatches, count: int) -> None:
        """Audit the first ``count`` batches of a range; ``table`` has their rows."""
        timestamps, keys, values, headers = table.columns
        fields = (timestamps, keys, values)
        self._measure(table)
        starts = headers.offsets if len(headers.flatten()) else None
        row = 0
        for number, header in enumerate(part.headers[:count]):
            data = part.data[part.starts[number] : part.starts[number + 1]]
            end = row + header.record_count
            self._follow(header, data)
            if header.attributes & CONTROL:
                self._control(header, data)
            elif (
                end - row < roundtrip.COLUMN_RECORDS_MIN
                or header.attributes & LOG_APPEND_TIME  # The column has the time of append.
                or (starts is not None and starts[row].as_py() != starts[end].as_py())
            ):
                self._objects(header, data)
            elif roundtrip.from_columns(data, header, fields, row):
                self._same(header)
            else:
                self._examine(header, data)
            if self.is_metadata and not header.attributes & CONTROL:
                self._typed(header, values, row)
            row = end
        self.counts.records += row

    def _measure(self, table: Any) -> None:
        """Count sizes and times of the rows, in Arrow."""
        timestamps, keys, values, headers = table.columns
        for name, column in (("keys", keys), ("values", values)):
            tally = self._sizes[name]
            for one in pc.value_counts(pc.binary_length(column)).to_pylist():
                length = -1 if one["values"] is None else one["values"]
                tally[length] = tally.get(length, 0) + one["counts"]
        times = pc.min_max(timestamps)
        if len(table):
            if (earliest := times["min"].as_py()) >= 0:
                self.counts.timestamp_min = min(self.counts.timestamp_min, earliest)
            self.counts.timestamp_max = max(self.counts.timestamp_max, times["max"].as_py())
        if total := len(headers.flatten()):
            self.counts.headers += total
            with_headers = pc.sum(pc.greater(pc.list_value_length(headers), 0))
            self.counts.records_with_headers += with_headers.as_py()

    def _follow(self, header: BatchHeader, data: memoryview) -> None:
        """Compare a batch with those before it, and with the indexes and checkpoints."""
        attributes, size = header.attributes, header.size
        tally = self._codecs.setdefault(attributes & COMPRESSION_MASK, [0, 0, 0])
        tally[0] += 1
        tally[1] += header.record_count
        tally[2] += size
        sizes = self._sizes["batches"]
        bits = size.bit_length()
        sizes[bits] = sizes.get(bits, 0) + 1
        if attributes & LOG_APPEND_TIME:
            self.counts.append_time_batches += 1
        if attributes & TRANSACTIONAL:
            self.counts.transactional_batches += 1
        if header.base_sequence >= 0:
            self.counts.idempotent_batches += 1
        header = _moved(header, self.position)
        base = header.base_offset
        if self.is_segment:
            if self.trail.first_offset < 0 and not self.trail.damages:
                self._first(base)
            epoch = self.epochs.expected(base)
            if epoch not in (-1, header.partition_leader_epoch):
                detail = f"the batch has epoch {header.partition_leader_epoch}, the file {epoch}"
                self.report("epoch_checkpoint_differs", header.position, base, detail)
            for index in self.indexes:
                index.batch(header, base + header.last_offset_delta)
        is_unindexed = any(
            isinstance(index, TransactionIndex) and index.unindexed == base
            for index in self.indexes
        )  # fmt: skip
        continuity.step(
            self.trail, header, self.report, is_unindexed=is_unindexed and typed.is_abort(data)
        )

    def _first(self, base: int) -> None:
        """Hold the first batch of a segment against the file's name."""
        named = self.task.file.base_offset
        if named >= 0 and base != named:
            detail = f"the first batch starts at offset {base}, the name says {named}"
            self.report("below_file_name" if base < named else "file_name_differs", 0, base, detail)

    def _same(self, header: BatchHeader) -> None:
        if header.attributes & COMPRESSION_MASK:
            self.counts.same_inflated += 1
        else:
            self.counts.same_batches += 1

    def _objects(self, header: BatchHeader, data: memoryview) -> None:
        """Encode a plain batch from objects; examine it where the bytes differ."""
        records = read_batch(data, check_crc=False).records
        if records and roundtrip.from_objects(data, header, records):
            self._same(header)
        else:
            self._examine(header, data)

    def _examine(self, header: BatchHeader, data: memoryview) -> None:
        """Report why the encoder gives other bytes for a batch."""
        result = roundtrip.examine(data, header)
        position, base = self.position + header.position, header.base_offset
        if result.is_same:
            self._same(header)
            return
        if not result.reasons:
            detail = "decoded and encoded again, the bytes differ"
            self.report("no_round_trip", position, base, detail)
            self.counts.differing_batches += 1
            return
        self.counts.same_by_record += 1
        kinds = {kind for kind, _ in result.reasons}
        self.part.marks += not kinds.isdisjoint(("offset_hole", "empty_batch", "delete_horizon"))
        for kind, detail in result.reasons:
            self.report(kind, position, base, detail)

    def _control(self, header: BatchHeader, data: memoryview) -> None:
        """Audit a control batch: its bytes, and each record's type and value."""
        self._objects(header, data)
        for record in read_batch(data, check_crc=False).records:
            for name, field in (("keys", record.key), ("values", record.value)):
                length = -1 if field is None else len(field)
                self._sizes[name][length] -= 1  # Not data.
            offset = header.base_offset + record.offset_delta
            name = self._value(header, offset, typed.control_record, record.key, record.value)
            if name:
                self.counts.control[name] = self.counts.control.get(name, 0) + 1
                self.counts.transactions_committed += name.startswith("COMMIT")
                self.counts.transactions_aborted += name.startswith("ABORT")

    def _typed(self, header: BatchHeader, values: Any, row: int) -> None:
        """Audit the metadata records of a batch."""
        types = self.counts.record_types
        for at, value in enumerate(values.slice(row, header.record_count).to_pylist()):
            name = self._value(header, header.base_offset + at, typed.metadata_record, value)
            if name:
                types[name] = types.get(name, 0) + 1

    def _value(self, header: BatchHeader, offset: int, convert: Any, *data: bytes | None) -> str:
        """Decode and encode one typed value; return the name of its type, "" if it has none."""
        position = self.position + header.position
        try:
            name, is_same = convert(*data)
        except (CodecError, FrameError) as error:
            why = error.error if isinstance(error, FrameError) else error
            at = "" if why.offset is None else f"byte {why.offset} of the value: "
            self.report(
                "value_undecodable", position, offset, at + detail_of(why),
                error_class=str(why.error_class),
            )  # fmt: skip
            return ""
        if is_same:
            self.counts.same_values += 1
        else:
            self.report("value_no_round_trip", position, offset, f"{name} comes out differently")
        return str(name)

    def _damaged(self, error: CodecError, header: BatchHeader | None, resync: Resync) -> None:
        """Note the bad bytes at ``position``, and find where batches go on."""
        start = self.position
        framed = header.end if header and is_framed(error) and header.end <= self.end else 0
        if not resync.is_written(start):
            end = self.end
            kind = "zero_tail_of_last_segment" if self.task.is_last else "zero_tail"
        else:
            end = resync.after(start, framed)
            kind = "torn_tail" if end == self.end and self._is_torn(error) else "damage"
        # A header is believed where its batch is all there, or where it goes on where the log was.
        is_next = header is not None and header.base_offset == self.trail.end_offset + 1
        where = f", first at byte {start + error.offset}" if error.offset else ""
        detail = f"{end - start:,} bytes{where}: {error.path or 'batch'}: {error.detail}"
        self.report(
            kind, start, header.base_offset if header and (framed or is_next) else -1, detail,
            size=end - start, error_class=str(error.error_class),
        )  # fmt: skip
        self.counts.damaged_bytes += end - start
        self.trail.damages += 1
        for index in self.indexes:
            index.damage(end)
        self.position = end

    def _is_torn(self, error: CodecError) -> bool:
        """Whether the last batch of the file was cut short, by the end or by zeros."""
        if error.error_class is ErrorClass.TRUNCATED and not error.path.startswith("records["):
            return True
        tail = self.source.read(max(self.end - TORN_ZEROS_MIN, 0), TORN_ZEROS_MIN)
        return error.error_class is ErrorClass.CRC_MISMATCH and not any(tail)

    def _settle(self) -> None:
        """Bring the tallies into the counts."""
        counts, trail = self.counts, self.trail
        for codec, (batches, records, size) in self._codecs.items():
            counts.codecs[Compression(codec).name.lower()] = Share(batches, records, size)
            counts.batches += batches
        for name, sizes in (("keys", counts.keys), ("values", counts.values)):
            tally = self._sizes[name]
            sizes.nulls = tally.pop(-1, 0)
            for length, count in tally.items():
                if count:
                    sizes.add(length, count)
        counts.batch_sizes = self._sizes["batches"]
        counts.tombstones = counts.values.nulls
        counts.data_records = counts.values.nulls + sum(counts.values.buckets.values())
        counts.offset_first, counts.offset_last = trail.first_offset, trail.end_offset


def _moved(header: BatchHeader, by: int) -> BatchHeader:
    """Return a header whose position is that in the file, not in the window."""
    if not by:
        return header
    return msgspec.structs.replace(header, position=header.position + by)


def _error_in_file(error: CodecError, header: BatchHeader | None, left: int) -> CodecError:
    """Return the error of a batch at the start of a window, as it is in the file.

    ``left`` bytes of the file start there: the window may have had fewer.
    """
    if header is None or error.error_class is not ErrorClass.TRUNCATED or error.path[-1:] == "]":
        return error
    if header.size > left:
        detail = f"a batch of {header.size:,} bytes, {left:,} are left"
        return CodecError(error.error_class, detail, path=error.path, offset=error.offset)
    if header.size > BATCH_BYTES_MAX:
        detail = f"a batch of {header.size:,} bytes; more than {BATCH_BYTES_MAX:,} are not read"
        return CodecError(ErrorClass.LENGTH_TOO_LONG, detail, path="batchLength", offset=LENGTH_AT)
    return error
