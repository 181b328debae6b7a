"""The metadata log: segments that are appended to, cut, and deleted from the front; snapshots.

``append`` writes at once, and ``flush`` is the only acknowledgement. An append may run beside a
flush in another thread; everything else runs alone, or waits for the flush. After an error of the
disk nothing more is written or acknowledged: ``LogFailedError``; opened again, the log is
recovered.
"""

from __future__ import annotations

import errno
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import msgspec

from kraftspec.fastpath.append import ZERO_AHEAD_BYTES_MAX
from kraftspec.fastpath.batch_reader import view_of
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log.control import ControlValue, encode_control_values
from kraftspec.reference.log.epochs import CHECKPOINT_NAME
from kraftspec.reference.log.files import ensure_directory, read_whole, replace_whole
from kraftspec.reference.log.recovery import Found, recover, remove_segment
from kraftspec.reference.log.segment import (
    INDEX_SUFFIXES,
    INT32_MAX,
    LOG_SUFFIX,
    BatchIndex,
    Segment,
    segment_name,
)
from kraftspec.reference.log.snapshots import (
    PartialSnapshot,
    SnapshotReader,
    SnapshotWriter,
    order,
    snapshot_name,
)
from kraftspec.reference.raft.config import BATCH_BYTES_MAX

if TYPE_CHECKING:
    from kraftspec.fastpath.records import BatchHeader
    from kraftspec.reference.log.epochs import EpochEntry
    from kraftspec.reference.log.files import Files, ReadableFiles
    from kraftspec.reference.log.recovery import LogRecovery
    from kraftspec.reference.raft.types import SnapshotId

PARTITION_METADATA_NAME: Final = "partition.metadata"
PARTITION_METADATA: Final = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
DELETED_SUFFIX: Final = ".deleted"
READ_BYTES: Final = 1 << 20  # What ``batches`` reads at a time.


# A batch for the index: its first and last offset, its bytes, its max timestamp, whether it is of
# control records.
_Entry = tuple[int, int, int, int, bool]


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and times of a log, by Kafka's names and with its defaults.

    ``segment_bytes`` and ``segment_ms`` are metadata.log.segment.bytes and .ms; the index of a
    segment has an entry every ``index_interval_bytes``, and at most ``index_bytes_max`` bytes.
    ``zero_ahead_bytes`` is how many zeros are written ahead at the most (0 for none): of a real
    disk, syncing is faster so.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 << 20
    zero_ahead_bytes: int = ZERO_AHEAD_BYTES_MAX


class LogFailedError(OSError):
    """The disk failed under a log, which is of no use now; opened anew it is recovered."""


class Appended(NamedTuple):
    """Where an append went: the offsets from ``base_offset`` on, below ``end_offset``.

    ``data`` are the bytes that were written; ``rejected`` is why not all was taken: the batch at
    ``end_offset`` was damaged.
    """

    base_offset: int
    end_offset: int
    data: bytes | memoryview
    rejected: CodecError | None = None


class MetadataLog:
    """A node's log, open. Offsets are of records, and ``end_offset`` is the next one's."""

    def __init__(self, directory: str, files: Files, config: LogConfig, recovered: Found) -> None:
        """Take over what ``recover`` found; ``open`` is how a log is opened."""
        self.directory = directory
        self.recovery: Final[LogRecovery] = recovered.report
        self.snapshots: list[SnapshotId] = recovered.snapshots  # In order.
        self.notes = recovered.notes
        self._files = files
        self._config = config
        self._segments = recovered.segments
        self._epochs = recovered.epochs
        self._last_epoch = recovered.epochs.last_epoch
        self._failure: BaseException | None = None
        self._is_closed = False
        # Held by a flush, and by what may not go on beside one.
        self.flushing: AbstractContextManager[Any] = threading.Lock()
        self._start_offset = recovered.start_offset
        self._end_offset = recovered.segments[-1].next_offset if recovered.segments else 0
        self._flushed_offset = self._end_offset
        self._active = recovered.segments[-1] if recovered.segments else self._add_segment(0)

    @classmethod
    def open(
        cls,
        directory: str,
        files: Files,
        config: LogConfig | None = None,
        *,
        cut_corrupt: bool = False,
    ) -> MetadataLog:
        """Open the log in a directory, which is made where it is missing; recover it.

        ``recovery`` says what was found. Nobody else may have it open: that is what the lock of
        ``LogDirectory`` is for. Raises CorruptMetadataLogError, nothing changed, for damage that
        no crash leaves (``cut_corrupt`` cuts it), and for a log that is another topic's; OSError
        as the disk does.
        """
        config = config or LogConfig()
        ensure_directory(files, directory)
        names = files.names(directory)
        if PARTITION_METADATA_NAME in names:
            check_topic(files, directory)
        else:
            replace_whole(files, directory, PARTITION_METADATA_NAME, PARTITION_METADATA)
        recovered = recover(
            files, directory, names, config.index_interval_bytes, cut_corrupt=cut_corrupt
        )
        # A process that was killed may have left a new segment, or a new quorum-state, whose name
        # a power loss would take.
        files.sync_directory(directory)
        log = cls(directory, files, config, recovered)
        latest = log.snapshots[-1] if log.snapshots else None
        if latest is not None and order(latest) > (max(log.last_epoch, 0), log.end_offset):
            # The node ended between the snapshot and the cut (``truncateToLatestSnapshot``).
            log.truncate_fully_to(latest)
            recovered.report.truncated_to = latest
        elif CHECKPOINT_NAME not in names or recovered.report.epochs_were_stale:
            log._keep_epochs()
        return log

    @property
    def start_offset(self) -> int:
        """The offset of the first record that is served; snapshots have what was before."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._end_offset

    @property
    def flushed_offset(self) -> int:
        """The offset before which a power loss takes nothing."""
        return self._flushed_offset

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 where there is none."""
        return self._last_epoch

    @property
    def epochs(self) -> list[EpochEntry]:
        """The leader epochs that wrote records here, and the offset of each's first."""
        return list(self._epochs.entries)

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(segment.end for segment in self._segments)

    def size_from(self, offset: int) -> int:
        """Return the bytes of the batches from the one that holds ``offset`` on."""
        size = 0
        for segment in reversed(self._segments):
            if segment.base_offset <= offset:
                return size + segment.size_from(offset)
            size += segment.end
        return size

    @property
    def segment_offsets(self) -> list[int]:
        """The base offsets of the segments."""
        return [segment.base_offset for segment in self._segments]

    # Appending.

    def append_records(self, epoch: int, values: Sequence[Any], timestamp_ms: int) -> Appended:
        """Append the values of data records as one batch, as a leader does.

        Raises ValueError, and nothing is written, for an epoch below the last and a batch of more
        than 8 MiB; CodecError for what a batch cannot hold; LogFailedError as the disk does.
        """
        base_offset = self._end_offset
        batch = encode_batch(
            values,
            timestamps=timestamp_ms,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
        )
        return self._append_own(epoch, batch, len(values), timestamp_ms)

    def append_control(
        self, epoch: int, values: Sequence[ControlValue], timestamp_ms: int
    ) -> Appended:
        """Append control records (their types and encoded values) as one batch; raises likewise."""
        batch = encode_control_values(
            values, base_offset=self._end_offset, epoch=epoch, timestamp_ms=timestamp_ms
        )
        return self._append_own(epoch, batch, len(values), timestamp_ms, is_control=True)

    def _append_own(
        self, epoch: int, batch: bytes, count: int, timestamp_ms: int, *, is_control: bool = False
    ) -> Appended:
        base_offset = self._end_offset
        if epoch < self._last_epoch or epoch < 0:
            raise ValueError(f"epoch {epoch}, and the last record is of epoch {self._last_epoch}")
        if len(batch) > BATCH_BYTES_MAX:
            raise ValueError(f"a batch of {len(batch)} bytes, and at most {BATCH_BYTES_MAX} wanted")
        if batch:
            last_offset = base_offset + count - 1
            self._write(
                batch, epoch, [(base_offset, last_offset, len(batch), timestamp_ms, is_control)]
            )
        return Appended(base_offset, self._end_offset, batch)

    def append_batches(self, data: Any, *, check_crc: bool = True) -> Appended:
        """Append whole batches as a leader sent them, offsets, epochs and all, as a follower does.

        The first that is damaged is ``rejected``, with what follows it, as is one whose offset is
        not the next or whose epoch is below the last; those before it are appended. ``check_crc``
        False is for bytes that were checked already. Raises LogFailedError as the disk does.
        """
        view = view_of(data)
        position = written = 0
        first = next_offset = self._end_offset
        rejected: CodecError | None = None
        joined: list[_Entry] = []  # Written with one write: a write takes longer than 100 bytes do.
        try:
            for header in iterate_headers(view, check_crc=check_crc):
                epoch = header.partition_leader_epoch
                if header.base_offset != next_offset or header.last_offset_delta < 0:
                    _refuse("baseOffset", header.base_offset, next_offset, position)
                if epoch < self._last_epoch or epoch < 0:
                    _refuse("partitionLeaderEpoch", epoch, self._last_epoch, position)
                end, last_offset, timestamp = header.end, header.last_offset, header.max_timestamp
                size = end - position
                entry = (header.base_offset, last_offset, size, timestamp, header.is_control)
                if epoch == self._last_epoch and self._fits(
                    end - written, last_offset, timestamp, len(joined)
                ):
                    joined.append(entry)
                else:
                    if joined:
                        self._write(view[written:position], self._last_epoch, joined)
                        joined = []
                    self._write(view[position:end], epoch, [entry])
                    written = end
                position, next_offset = end, last_offset + 1
        except CodecError as error:
            rejected = error
        if joined:
            self._write(view[written:position], self._last_epoch, joined)
        return Appended(first, self._end_offset, view[:position], rejected)

    def _fits(self, size: int, last_offset: int, timestamp: int, before: int) -> bool:
        """Whether a batch goes to the active segment, behind ``before`` that wait to be written.

        ``size`` is what they have together.
        """
        segment = self._active
        return segment.end > 0 and not self._is_full(segment, size, last_offset, timestamp, before)

    def _write(self, data: Any, epoch: int, entries: Sequence[_Entry]) -> None:
        """Write batches of one epoch to one segment; ``entries`` are for its index."""
        config = self._config
        base_offset, last_offset, size, max_timestamp, _ = entries[0]
        if self._failure is not None or self._is_closed:
            raise self._unusable()
        try:
            segment = self._active
            if segment.end and self._is_full(segment, size, last_offset, max_timestamp):
                segment = self._roll(base_offset)
            position = segment.write(data, config.zero_ahead_bytes, config.segment_bytes)
            if epoch != self._last_epoch:
                self._start_epoch(epoch, base_offset)
        except BaseException as error:
            # Bytes of no known number are in the file now. Ctrl-C is such an error, too.
            self._fail(error)
        for base_offset, last_offset, size, max_timestamp, is_control in entries:
            segment.index.add(base_offset, last_offset, position, size, max_timestamp, is_control)
            position += size
        segment.next_offset = last_offset + 1
        self._end_offset = last_offset + 1

    def _is_full(
        self, segment: Segment, size: int, last_offset: int, timestamp: int, before: int = 0
    ) -> bool:
        """Whether a batch goes to a new segment (``LogSegment.shouldRoll``).

        ``before`` is how many batches will be written before it, whose bytes are in ``size``.
        """
        config = self._config
        index = segment.index
        return (
            segment.end + size > config.segment_bytes
            or timestamp - index.first_timestamp > config.segment_ms
            or index.is_full(config.index_bytes_max, before)
            or last_offset - segment.base_offset > INT32_MAX
            or segment.end + size > INT32_MAX
        )

    def _roll(self, base_offset: int) -> Segment:
        """Seal the active segment, durably, before the next has its first byte."""
        with self.flushing:
            self._active.seal(self._files)
            self._flushed_offset = self._end_offset
            self._active = self._add_segment(base_offset)
        return self._active

    def _add_segment(self, base_offset: int) -> Segment:
        path = f"{self.directory}/{segment_name(base_offset)}"
        file = self._files.open(path + LOG_SUFFIX, create=True)
        self._files.sync_directory(self.directory)
        segment = Segment(path, file, BatchIndex(base_offset, self._config.index_interval_bytes))
        self._segments.append(segment)
        return segment

    def _start_epoch(self, epoch: int, base_offset: int) -> None:
        self._epochs.assign(epoch, base_offset)
        self._last_epoch = epoch
        self._keep_epochs()

    def _keep_epochs(self) -> None:
        data = self._epochs.to_checkpoint()
        replace_whole(self._files, self.directory, CHECKPOINT_NAME, data)

    def append_syncs(self, epoch: int, size: int, timestamp_ms: int) -> bool:
        """Whether an append of ``size`` bytes may sync first: it opens an epoch, or a segment."""
        segment = self._active
        is_full = segment.end and self._is_full(
            segment, size, self._end_offset + size, timestamp_ms
        )
        return epoch != self._last_epoch or bool(is_full)

    def flush(self) -> int:
        """Make all that is appended durable; return the offset before which it is.

        Raises LogFailedError when it never will be: whether it is on the disk, nobody knows then.
        """
        if self._failure is not None or self._is_closed:
            raise self._unusable()
        with self.flushing:
            end_offset = self._end_offset
            if end_offset != self._flushed_offset:
                try:
                    self._active.sync()
                except BaseException as error:
                    self._fail(error)
                self._flushed_offset = end_offset
        return end_offset

    # Reading.

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Return whole batches, of one segment: the one that holds ``offset``, and what follows.

        One at least, and then as many as fit in ``max_bytes``; none where all that there is lies at
        ``end_offset`` or behind it (by default, the end of the log). Raises ValueError for an
        offset that the log does not have, OSError as the disk does.
        """
        end = self._end_offset if end_offset is None else min(end_offset, self._end_offset)
        if not self._start_offset <= offset <= self._end_offset:
            raise ValueError(
                f"there is no offset {offset}: the log has {self._start_offset} to "
                f"{self._end_offset}"
            )
        if offset >= end:
            return b""
        return self._segment_of(offset).read(offset, max_bytes, end)

    def batches(
        self, offset: int, end_offset: int | None = None
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches from the one that holds ``offset`` on, up to ``end_offset``.

        Each comes with bytes that it is part of, in which its header has a position. Raises as
        ``read`` does.
        """
        end = self._end_offset if end_offset is None else end_offset
        while offset < end:
            data = self.read(offset, READ_BYTES, end)
            for header in iterate_headers(data, check_crc=False):
                offset = header.last_offset + 1
                yield header, data

    def segments_from(self, offset: int) -> list[Segment]:
        """Return the segments, from the one on that holds ``offset``."""
        first = bisect_right(self._segments, offset, key=lambda one: one.base_offset) - 1
        return self._segments[max(first, 0) :]

    def _segment_of(self, offset: int) -> Segment:
        if offset >= self._active.base_offset:
            return self._active
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return self._segments[max(at - 1, 0)]

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of the record at ``offset``; -1 where nothing tells."""
        return self._epochs.epoch_of(offset)

    # Cutting.

    def truncate_to(self, offset: int) -> int:
        """Cut the log so that nothing at ``offset`` or behind it is left; return its end.

        Batches are not cut: the one that holds ``offset`` goes whole. Durable on return. Raises
        ValueError for an offset before the start, LogFailedError as the disk does.
        """
        if offset < self._start_offset:
            raise ValueError(f"cut at {offset}, and the log starts at {self._start_offset}")
        self._change(lambda: self._truncate(offset))
        return self._end_offset

    def _truncate(self, offset: int) -> None:
        if offset >= self._end_offset:
            return
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._drop_last()
        self._active = self._segments[-1]
        self._remove_indexes(self._active)
        self._active.truncate_to(offset)
        self._end_offset = self._active.next_offset
        self._flushed_offset = min(self._flushed_offset, self._end_offset)
        self._remove_producer_states(self._end_offset)
        self._epochs.truncate_to(self._end_offset)
        if self._epochs.last_epoch != self._last_epoch:
            self._last_epoch = self._epochs.last_epoch
            self._keep_epochs()

    def _drop_last(self) -> None:
        """Remove the last segment, durably: a log has no hole at any moment."""
        segment = self._segments.pop()
        segment.file.close()
        remove_segment(self._files, segment.path)
        self._files.sync_directory(self.directory)

    def _remove_indexes(self, segment: Segment) -> None:
        """Remove what a sealed segment has and one that is written to has not."""
        for suffix in INDEX_SUFFIXES:
            self._files.remove(segment.path + suffix)

    def _remove_producer_states(self, end_offset: int) -> None:
        """Remove Kafka's {offset}.snapshot files of offsets that the log no longer has."""
        for name in self._files.names(self.directory):
            digits, _, suffix = name.partition(".")
            if suffix == "snapshot" and digits.isdigit() and int(digits) > end_offset:
                self._files.remove(f"{self.directory}/{name}")

    def truncate_fully_to(self, snapshot_id: SnapshotId) -> None:
        """Remove all batches: the log starts and ends at the end of a snapshot, which is there.

        The snapshots before it go, too. Raises ValueError for a snapshot that is not there.
        """
        self._check_known(snapshot_id)
        self._change(lambda: self._reset_to(snapshot_id))

    def _reset_to(self, snapshot_id: SnapshotId) -> None:
        while self._segments:
            self._drop_last()
        offset = snapshot_id.end_offset
        self._remove_producer_states(-1)
        self._active = self._add_segment(offset)
        self._start_offset = self._end_offset = self._flushed_offset = offset
        self._epochs.entries.clear()
        self._last_epoch = -1
        self._keep_epochs()
        self._forget_snapshots_before(snapshot_id)

    def delete_before(self, snapshot_id: SnapshotId) -> bool:
        """Let the log start at the end of a snapshot; remove older ones, and whole segments.

        The active segment stays. Returns whether anything went: not so where the log starts there
        or later already. Raises ValueError for a snapshot that is not there, LogFailedError as the
        disk does.
        """
        self._check_known(snapshot_id)
        offset = snapshot_id.end_offset
        if not self._start_offset < offset <= self._end_offset:
            return False
        self._change(lambda: self._start_at(snapshot_id))
        return True

    def _start_at(self, snapshot_id: SnapshotId) -> None:
        self._start_offset = snapshot_id.end_offset
        self._epochs.start_at(self._start_offset)
        gone = []
        while len(self._segments) > 1 and self._segments[1].base_offset <= self._start_offset:
            segment = self._segments.pop(0)
            segment.file.close()
            remove_segment(self._files, segment.path)
            gone.append(segment)
        if gone:
            self._files.sync_directory(self.directory)
        self._keep_epochs()
        self._forget_snapshots_before(snapshot_id)

    # Snapshots.

    def create_snapshot(
        self, snapshot_id: SnapshotId, header: Sequence[ControlValue], *, timestamp_ms: int
    ) -> SnapshotWriter | None:
        """Begin a snapshot of the log up to ``snapshot_id``; None where that is there already.

        ``header`` are the control records that it begins with. Raises ValueError for an id that
        is not of this log: behind its end or before its start, of another epoch, or amid a batch
        (``createNewSnapshot``). That what it covers is committed, the caller knows.
        """
        self.check_snapshot(snapshot_id)
        if snapshot_id in self.snapshots:
            return None
        return SnapshotWriter(self.begin_snapshot(snapshot_id), header, timestamp_ms=timestamp_ms)

    def check_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Raise ValueError where ``create_snapshot`` does."""
        offset, epoch = snapshot_id
        wrong = ""
        if not self._start_offset <= offset <= self._end_offset:
            wrong = f"the log has the offsets {self._start_offset} to {self._end_offset}"
        elif offset > self._start_offset and self._epochs.epoch_of(offset - 1) != epoch:
            wrong = f"the record before it is of epoch {self._epochs.epoch_of(offset - 1)}"
        elif offset < self._end_offset and not self._is_batch_start(offset):
            wrong = "a snapshot ends where a batch does"
        if wrong:
            raise ValueError(f"no snapshot can be taken at offset {offset}, epoch {epoch}: {wrong}")

    def _is_batch_start(self, offset: int) -> bool:
        index = self._segment_of(offset).index
        return index.offsets[index.batch_of(offset)] == offset - index.base_offset

    def begin_snapshot(self, snapshot_id: SnapshotId) -> PartialSnapshot:
        """Begin to write the bytes of a snapshot, as they come from the leader."""
        if self._failure is not None or self._is_closed:
            raise self._unusable()
        return PartialSnapshot(
            snapshot_id, self._files, self.directory, lambda: self.adopt_snapshot(snapshot_id)
        )

    def adopt_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Take note of a snapshot that is whole, under its name, and durable."""
        if snapshot_id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot_id], key=order)

    def open_snapshot(self, snapshot_id: SnapshotId) -> SnapshotReader:
        """Open a snapshot to read it; KeyError where it is not there."""
        if snapshot_id not in self.snapshots:
            raise KeyError(snapshot_id)
        path = f"{self.directory}/{snapshot_name(snapshot_id)}"
        return SnapshotReader(snapshot_id, self._files.open(path))

    def _check_known(self, snapshot_id: SnapshotId) -> None:
        if snapshot_id not in self.snapshots:
            raise ValueError(f"there is no snapshot {snapshot_name(snapshot_id)}")

    def _forget_snapshots_before(self, snapshot_id: SnapshotId) -> None:
        """Remove snapshots; by another name first, so that a crash leaves none of them half."""
        gone = [one for one in self.snapshots if order(one) < order(snapshot_id)]
        self.snapshots = self.snapshots[len(gone) :]
        paths = [f"{self.directory}/{snapshot_name(one)}" for one in gone]
        for path in paths:
            self._files.rename(path, path + DELETED_SUFFIX)
        if paths:
            self._files.sync_directory(self.directory)
        for path in paths:
            self._files.remove(path + DELETED_SUFFIX)

    # The end.

    def close(self) -> None:
        """Flush, cut the zeros, write the indexes, and let the files go; again does nothing.

        After a failure the files are left as they are, for recovery to judge.
        """
        if self._is_closed:
            return
        with self.flushing:
            self._is_closed = True
            try:
                if self._failure is None:
                    self._active.seal(self._files)
                    self._flushed_offset = self._end_offset
            except OSError as error:
                self._fail(error)
            finally:
                for segment in self._segments:
                    segment.file.close()

    def _change(self, change: Callable[[], None]) -> None:
        if self._failure is not None or self._is_closed:
            raise self._unusable()
        with self.flushing:
            try:
                change()
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        if self._failure is None:
            self._failure = error
        if isinstance(error, OSError):
            raise self._log_failed() from error
        raise error

    def _unusable(self) -> Exception:
        return self._log_failed() if self._failure is not None else ValueError("the log is closed")

    def _log_failed(self) -> LogFailedError:
        number = getattr(self._failure, "errno", None) or errno.EIO
        return LogFailedError(
            number,
            f"the log failed ({self._failure!r}): what is before offset {self._flushed_offset} is "
            f"durable, what follows is not acknowledged; free the disk or replace it, then start "
            f"the node again",
            self.directory,
        )


def _refuse(path: str, value: int, due: int, position: int) -> None:
    raise CodecError(
        ErrorClass.INTEGER_OUT_OF_RANGE, f"{value}, where {due} is due", path=path, offset=position
    )


def check_topic(files: ReadableFiles, directory: str) -> None:
    """Raise ValueError where partition.metadata is that of another topic, or damaged."""
    text = read_whole(files, f"{directory}/{PARTITION_METADATA_NAME}").decode("utf-8", "replace")
    if text.split() != PARTITION_METADATA.decode().split():
        raise ValueError(
            f"{directory}/{PARTITION_METADATA_NAME}: {text!r} is not that of the metadata log, "
            f"{PARTITION_METADATA.decode()!r}; is it the directory of another topic?"
        )
