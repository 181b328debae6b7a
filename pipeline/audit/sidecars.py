"""Indexes and checkpoint files of a log, and whether they agree with it.

======================  ===========================================================================
OFFSET.index            8 bytes an entry: int32 offset (less the base offset), int32 byte. It leads
                        to a batch that starts at or before that offset (``OffsetIndex``).
OFFSET.timeindex        12 bytes: int64 timestamp, int32 offset. The largest timestamp so far, and
                        the batch that brought it (``TimeIndex``).
OFFSET.txnindex         34 bytes: int16 version, int64 producer id, first and last offset, last
                        stable offset. An aborted transaction; its marker is at the last offset.
leader-epoch-checkpoint     of a partition: lines of epoch and start offset
cleaner-offset-checkpoint   of a log directory: lines of topic, partition and the offset up to which
                            the log was cleaned
======================  ===========================================================================

A checkpoint file starts with lines of a version (0) and of a count (``CheckpointFile``). Kafka maps
an index larger than it is and cuts it when it closes, so zeros at the end are no entries.
"""

from __future__ import annotations

import posixpath
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from kraftspec.fastpath.records import BatchHeader
from kraftspec.pipeline.files import Filesystem, store_of

# (kind, byte of the index, offset, detail)
Reporter = Callable[[str, int, int, str], None]

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
# log.index.size.max.bytes is 10 MiB by default; what is a hundred times that is no index.
SIDECAR_BYTES_MAX: Final = 1 << 30


def read_sidecar(path: str, filesystem: Filesystem) -> bytes | None:
    """Return the bytes of a file, None where there is none."""
    store = store_of(filesystem)
    entry = store.entry(path)
    if entry is None or entry.is_directory:
        return None
    if entry.size > SIDECAR_BYTES_MAX:
        raise ValueError(f"{path}: {entry.size:,} bytes are more than any index has")
    with store.open(path, entry.size) as source:
        return bytes(source.read(0, entry.size))


def checkpoint_lines(data: bytes, columns: int) -> list[list[str]]:
    """Return the fields of each line of a checkpoint file; ValueError names the mistake."""
    lines = data.decode("utf-8").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdecimal():  # noqa: PLR2004 - the head
        raise ValueError("it does not start with a version 0 and a count")
    rows = [line.split(" ") for line in lines[2:]]
    if len(rows) != int(lines[1]):
        raise ValueError(f"it announces {lines[1]} lines and has {len(rows)}")
    for row in rows:
        if len(row) != columns or not all(_is_integer(word) for word in row[-2:]):
            raise ValueError(f"a line {' '.join(row)!r} is not of {columns} columns")
    return rows


def _is_integer(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def leader_epochs(directory: str, filesystem: Filesystem) -> list[tuple[int, int]]:
    """Return (epoch, start offset) of a partition's checkpoint, by offset; ValueError: none such.

    Without a checkpoint the list is empty.
    """
    data = read_sidecar(posixpath.join(directory, "leader-epoch-checkpoint"), filesystem)
    if data is None:
        return []
    rows = ((int(epoch), int(start)) for epoch, start in checkpoint_lines(data, 2))
    return sorted(rows, key=lambda row: row[1])


def cleaned_offsets(
    log_directory: str, filesystem: Filesystem
) -> dict[tuple[str, int], int] | None:
    """Return up to which offset each partition was cleaned; None without a checkpoint."""
    data = read_sidecar(posixpath.join(log_directory, "cleaner-offset-checkpoint"), filesystem)
    if data is None:
        return None
    rows = checkpoint_lines(data, 3)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


class Epochs:
    """Holds the epoch of each batch against the checkpoint's."""

    def __init__(self, epochs: list[tuple[int, int]]) -> None:
        self._epochs = [-1, *(epoch for epoch, _ in epochs)]
        self._starts = [-1, *(start for _, start in epochs), 1 << 63]
        self._epoch = -1
        self._from = self._until = 0  # Offsets that have this epoch.

    def expected(self, offset: int) -> int:
        """Return the epoch of an offset, -1 where the checkpoint has none."""
        if not self._from <= offset < self._until:
            at = bisect_right(self._starts, offset, 1) - 1
            self._epoch = self._epochs[at]
            self._from, self._until = self._starts[at : at + 2]
        return self._epoch


class Index:
    """The entries of an index, compared in order with the batches of the log.

    ``due`` is the byte (of an .index) or the offset (of the others) at which the next entry is to
    be looked at; past the last it is beyond all.
    """

    suffix = ""
    kind = ""
    entry: struct.Struct

    def __init__(self, data: bytes, base_offset: int, report: Reporter) -> None:
        self.base_offset = base_offset
        self.report = report
        self.entries = 0
        self.is_damaged = False
        whole = len(data) - len(data) % self.entry.size
        if whole != len(data):
            detail = f"{len(data):,} bytes are not whole entries of {self.entry.size}"
            report("index_size", whole, -1, detail)
        self._rows = self._read(data[:whole])
        self.due = -1
        self.position = 0
        self.row: tuple[int, ...] = ()
        self.next()

    def _read(self, data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
        size = self.entry.size
        end = len(data.rstrip(b"\0"))
        end += -end % size
        for position in range(0, end, size):
            self.entries += 1
            yield position, self.entry.unpack_from(data, position)

    def next(self) -> None:
        """Move to the next entry that can be checked; report what is out of order."""
        for position, row in self._rows:
            self.position = position
            due = self._due(row)
            if due < self.due or (self.entries > 1 and not self._ascends(row)):
                self.report(self.kind, self.position, -1, f"entry {row} after {self.row}")
                continue
            self.row, self.due = row, due
            return
        self.due = 1 << 63

    def _due(self, row: tuple[int, ...]) -> int:
        raise NotImplementedError

    def _ascends(self, row: tuple[int, ...]) -> bool:
        return all(new > old for new, old in zip(row, self.row, strict=True)) if self.row else True

    def damage(self, end: int) -> None:
        """Take note of damage up to byte ``end``: what leads into it is no finding of its own."""
        self.is_damaged = True

    def batch(self, header: BatchHeader, last: int) -> None:
        """Look at the entries that this batch decides."""
        raise NotImplementedError

    def finish(self) -> None:
        """Report which entries lead past the end."""
        while self.due < 1 << 63 and not self.is_damaged:
            self.report(self.kind, self.position, -1, f"entry {self.row} leads past the last batch")
            self.next()


class OffsetIndex(Index):
    """An .index file."""

    suffix = ".index"
    kind = "index_entry"
    entry = OFFSET_ENTRY

    def _due(self, row: tuple[int, ...]) -> int:
        return row[1]

    def damage(self, end: int) -> None:
        """Pass over the entries that lead into damage."""
        while self.due < end:
            self.next()

    def batch(self, header: BatchHeader, last: int) -> None:
        """Look at the entries that this batch decides."""
        while self.due <= header.position:
            offset = self.base_offset + self.row[0]
            if self.due < header.position:
                detail = f"no batch starts at byte {self.due}"
                self.report(self.kind, self.position, offset, detail)
            elif offset < header.base_offset:
                detail = f"offset {offset} is before the batch at byte {self.due}, which starts at "
                self.report(self.kind, self.position, offset, detail + str(header.base_offset))
            self.next()


class TimeIndex(Index):
    """A .timeindex file."""

    suffix = ".timeindex"
    kind = "time_index_entry"
    entry = TIME_ENTRY

    def __init__(self, data: bytes, base_offset: int, report: Reporter) -> None:
        self.latest = -1
        super().__init__(data, base_offset, report)

    def _due(self, row: tuple[int, ...]) -> int:
        return self.base_offset + row[1]

    def batch(self, header: BatchHeader, last: int) -> None:
        """Look at the entries that this batch decides."""
        self.latest = max(self.latest, header.max_timestamp)
        while self.due <= last:
            timestamp = self.row[0]
            if self.is_damaged:
                pass  # What it speaks of, or a later timestamp, may be in the damage.
            elif self.due < header.base_offset:
                detail = f"no batch has offset {self.due}"
                self.report(self.kind, self.position, self.due, detail)
            elif timestamp != header.max_timestamp or timestamp != self.latest:
                detail = (
                    f"{timestamp} at offset {self.due}: the batch there says "
                    f"{header.max_timestamp}, the latest so far is {self.latest}"
                )
                self.report(self.kind, self.position, self.due, detail)
            self.next()


class TransactionIndex(Index):
    """A .txnindex file, held against the abort markers of its segment.

    Entries whose marker the cleaner may have taken away are passed over. ``unindexed`` is the
    offset of the last batch looked at where that is a marker and no entry leads there, else -1.
    Whether it has to be in the index depends on its transaction; the caller decides.
    """

    suffix = ".txnindex"
    kind = "transaction_index_entry"
    entry = TRANSACTION_ENTRY

    def __init__(self, data: bytes, base_offset: int, report: Reporter, clean_until: int) -> None:
        self.clean_until = clean_until
        self.unindexed = -1
        super().__init__(data, base_offset, report)

    def _due(self, row: tuple[int, ...]) -> int:
        return row[3]

    def _ascends(self, row: tuple[int, ...]) -> bool:
        return row[3] > self.row[3] if self.row else True

    def batch(self, header: BatchHeader, last: int) -> None:
        """Look at the entries that this batch decides."""
        is_new = header.is_control and header.base_offset >= self.clean_until
        self.unindexed = header.base_offset if is_new else -1
        while self.due <= last:
            number, start = self.row[1], self.row[2]
            is_marker = header.is_control and header.producer_id == number
            if is_marker and header.base_offset == self.due:
                self.unindexed = -1
            is_sure = self.due >= self.clean_until and not self.is_damaged
            if is_sure and (not is_marker or header.base_offset != self.due):
                detail = f"offset {self.due} has no abort marker of producer {number}"
                self.report(self.kind, self.position, self.due, detail)
            elif start > self.due:
                detail = f"a transaction from offset {start} to {self.due}"
                self.report(self.kind, self.position, self.due, detail)
            self.next()


def open_indexes(
    names: dict[str, str], filesystem: Filesystem, base_offset: int, clean_until: int, report: Any
) -> list[Index]:
    """Return a segment's indexes: ``names`` is suffix → path, ``report`` takes the path first."""
    indexes: list[Index] = []
    for suffix, path in names.items():
        data = read_sidecar(path, filesystem)
        if data is None:
            continue

        report_here = partial(report, path)
        if suffix == OffsetIndex.suffix:
            indexes.append(OffsetIndex(data, base_offset, report_here))
        elif suffix == TimeIndex.suffix:
            indexes.append(TimeIndex(data, base_offset, report_here))
        elif suffix == TransactionIndex.suffix:
            indexes.append(TransactionIndex(data, base_offset, report_here, clean_until))
    return indexes
