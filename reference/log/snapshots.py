"""Checkpoints: what a log was up to an offset, in a file of its own.

``{end offset}-{epoch}.checkpoint`` holds batches with offsets of their own from 0 on: a control
batch (SnapshotHeader, and with kraft.version 1 KRaftVersion and Voters), data batches, a control
batch (SnapshotFooter). A file is written under another name that ends in ``.part``, synced, made
read-only and renamed; one that is to go is renamed to ``.deleted`` first
(``RecordsSnapshotWriter``, ``FileRawSnapshotWriter``, ``Snapshots``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.errors import CodecError, moved
from kraftspec.fastpath.walk import Walk, iterate_headers
from kraftspec.generated.kafka import SnapshotFooterRecord, SnapshotHeaderRecord
from kraftspec.reference.log.control import (
    ControlValue,
    control_value,
    decode_control_record,
    encode_control_values,
)
from kraftspec.reference.raft.config import BATCH_BYTES_MAX
from kraftspec.reference.raft.types import SnapshotId

if TYPE_CHECKING:
    from kraftspec.fastpath.files import File
    from kraftspec.fastpath.records import BatchHeader, Record
    from kraftspec.reference.log.files import Files

PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
_NAME = re.compile(r"(\d{20})-(\d{10})(-.+)?\.checkpoint(\.part|\.deleted)?")


def snapshot_name(id_: SnapshotId) -> str:
    """Return the name of a snapshot's file."""
    return f"{id_.end_offset:020d}-{id_.epoch:010d}.checkpoint"


def order(id_: SnapshotId) -> tuple[int, int]:
    """Return what snapshots are ordered by: the epoch first (``OffsetAndEpoch.compareTo``)."""
    return id_.epoch, id_.end_offset


class SnapshotName(NamedTuple):
    """A file name of a snapshot, taken apart."""

    id: SnapshotId
    is_whole: bool  # Neither a part of one, nor one that is to go.


def parse_name(name: str) -> SnapshotName | None:
    """Take the name of a checkpoint apart; None where it is not one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    is_whole = match[3] is None and match[4] is None
    return SnapshotName(SnapshotId(int(match[1]), int(match[2])), is_whole)


class _Encoder:
    """Encodes the batches of one checkpoint, whose offsets rise from 0."""

    def __init__(self, epoch: int, timestamp_ms: int) -> None:
        self.offset = 0
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms

    def control(self, values: Sequence[ControlValue]) -> bytes:
        batch = encode_control_values(
            values, base_offset=self.offset, epoch=self._epoch, timestamp_ms=self._timestamp_ms
        )
        self.offset += len(values)
        return batch

    def footer(self) -> bytes:
        return self.control([control_value(SnapshotFooterRecord())])

    def data(self, values: Sequence[bytes]) -> Iterator[bytes]:
        """Yield one batch, or more where that would be too large, or none of no values."""
        batch = encode_batch(
            values,
            timestamps=self._timestamp_ms,
            base_offset=self.offset,
            partition_leader_epoch=self._epoch,
        )
        half = len(values) // 2
        if len(batch) <= BATCH_BYTES_MAX:
            self.offset += len(values)
            if batch:
                yield batch
        elif half:
            yield from self.data(values[:half])
            yield from self.data(values[half:])
        else:
            raise ValueError(
                f"a record of {len(batch)} bytes, and a batch has at most {BATCH_BYTES_MAX}"
            )


def checkpoint_bytes(
    header: Sequence[ControlValue], values: Sequence[bytes], *, timestamp_ms: int
) -> bytes:
    """Return a whole checkpoint of epoch 0, as formatting makes them.

    ``header`` are control records, of which the first is a SnapshotHeader; ``values`` are those of
    the data records. Raises ValueError for a record that no batch has room for.
    """
    encoder = _Encoder(0, timestamp_ms)
    return b"".join([encoder.control(header), *encoder.data(values), encoder.footer()])


class PartialSnapshot:
    """A snapshot that is being written, or fetched from the leader bytes by bytes.

    ``complete`` makes it a snapshot of the log; ``abandon`` leaves nothing of it. ``mark`` is in
    the name of the file, and no two that write at a time may have the same. Raises OSError as the
    disk does.
    """

    def __init__(
        self,
        id_: SnapshotId,
        files: Files,
        directory: str,
        on_complete: Callable[[], None],
        mark: str = "0",
    ) -> None:
        self.id = id_
        self.size = 0  # Bytes so far: where a fetch goes on.
        self._files = files
        self._directory = directory
        self._on_complete = on_complete
        name = snapshot_name(id_).removesuffix(".checkpoint")
        self._path = f"{directory}/{name}-{mark}{PART_SUFFIX}"  # Kafka has random digits between.
        files.remove(self._path)
        self._file: File | None = files.open(self._path, create=True)

    def append(self, data: Any) -> None:
        """Write bytes, which need not end where a batch does."""
        if self._file is None:
            raise ValueError(f"snapshot {snapshot_name(self.id)} is complete, or was abandoned")
        self._file.write_at(self.size, data)
        self.size += len(data)

    def reader(self) -> SnapshotReader:
        """Return what reads the bytes so far; it is not closed, since the file stays open."""
        if self._file is None:
            raise ValueError(f"snapshot {snapshot_name(self.id)} is complete, or was abandoned")
        return SnapshotReader(self.id, self._file)

    def complete(self) -> None:
        """Sync, give it its name, and sync that: it is durable on return."""
        if self._file is None:
            raise ValueError(f"snapshot {snapshot_name(self.id)} is complete, or was abandoned")
        self._file.sync()
        self._file.close()
        self._file = None
        self._files.make_read_only(self._path)
        self._files.rename(self._path, f"{self._directory}/{snapshot_name(self.id)}")
        self._files.sync_directory(self._directory)
        self._on_complete()

    def abandon(self) -> None:
        """Remove what was written; a second call, or one after ``complete``, does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._files.remove(self._path)


class SnapshotWriter:
    """Writes the records of a snapshot, between a header and a footer.

    ``header`` are the control records that it begins with (``control.control_value``), of which
    the first is a SnapshotHeader; ``timestamp_ms`` is when it is written.
    """

    def __init__(
        self, part: PartialSnapshot, header: Sequence[ControlValue], *, timestamp_ms: int
    ) -> None:
        self._part = part
        self._encoder = _Encoder(part.id.epoch, timestamp_ms)
        part.append(self._encoder.control(header))

    @property
    def id(self) -> SnapshotId:
        """What it will stand for."""
        return self._part.id

    def append(self, values: Sequence[bytes]) -> None:
        """Write the values of data records as one batch; no values write none.

        What would be more than 8 MiB is divided; ValueError for one such record.
        """
        for batch in self._encoder.data(values):
            self._part.append(batch)

    def freeze(self) -> None:
        """Write the footer; the snapshot is the log's, and durable, on return."""
        self._part.append(self._encoder.footer())
        self._part.complete()

    def close(self) -> None:
        """Leave nothing of a snapshot that was not frozen."""
        self._part.abandon()


def data_values(checkpoint: bytes) -> Iterator[bytes]:
    """Yield the values of the data records of a checkpoint; CodecError where it is damaged."""
    for header in iterate_headers(checkpoint):
        if not header.is_control:
            for record in decode_batch(checkpoint, header.position, check_crc=False):
                yield bytes(record.value or b"")


class SnapshotReader:
    """An open snapshot: its bytes for those who fetch it, its records for who loads it."""

    def __init__(self, id_: SnapshotId, file: File) -> None:
        self.id = id_
        self.size = file.size()
        self._file = file

    def read(self, position: int, max_bytes: int) -> bytes:
        """Return bytes from ``position`` on, not minding where batches end."""
        return self._file.read_at(position, max_bytes)

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Yield each batch, CRC checked; CodecError where one is damaged."""
        walk = Walk(self._file.read_at, 0, self.size)
        for header in walk:
            try:
                records = decode_batch(walk.window, header.position, check_crc=False)
            except CodecError as error:
                raise moved(error, walk.base) from None
            yield header, records
        if walk.error is not None:
            raise walk.error

    def header(self) -> SnapshotHeaderRecord:
        """Return the header record; ValueError where the file does not begin with one."""
        for batch, records in self.batches():
            message = decode_control_record(records[0]) if batch.is_control and records else None
            if isinstance(message, SnapshotHeaderRecord):
                return message
            break
        raise ValueError(f"{snapshot_name(self.id)} does not begin with a SnapshotHeader record")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
