"""Opening a metadata log: what is good stays, what a crash left is cut, other damage is told.

Every batch of every segment is read and its CRC checked, as Apache Kafka does with this log at each
start (``LogLoader``, with an unclean shutdown and recovery point 0), and more: offsets have no gap,
within a segment and from one to the next, and epochs do not go back. Indexes, the leader epochs and
the start of the log follow from that; the files that have them are only compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.fastpath.append import ZERO_AHEAD_BYTES_MAX
from kraftspec.fastpath.recovery import Recovery, find_end
from kraftspec.reference.log.epochs import CHECKPOINT_NAME, EpochList
from kraftspec.reference.log.files import read_whole
from kraftspec.reference.log.known_segments import KnownSegments, SegmentRead
from kraftspec.reference.log.memory_files import MemoryFile
from kraftspec.reference.log.segment import (
    INDEX_SUFFIXES,
    INT32_MAX,
    LOG_SUFFIX,
    BatchIndex,
    Segment,
    segment_base,
    segment_name,
)
from kraftspec.reference.log.snapshots import order, parse_name

if TYPE_CHECKING:
    from kraftspec.fastpath.files import File
    from kraftspec.fastpath.records import BatchHeader
    from kraftspec.reference.log.files import Files
    from kraftspec.reference.raft.types import SnapshotId

DELETED_SUFFIX: Final = ".deleted"
# Kafka's positions are int32; of the last segment's, zeros may be written ahead.
SEGMENT_BYTES_MAX: Final = INT32_MAX + ZERO_AHEAD_BYTES_MAX
_SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)


class LogRecovery(msgspec.Struct):
    """What was found in a metadata log when it was opened, and what was done about it."""

    segments: int = 0
    batches: int = 0
    bytes_read: int = 0  # Of batches, all of them checked.
    zero_bytes: int = 0  # The tail that was written ahead.
    torn_bytes: int = 0  # Cut from the end, with what follows.
    torn_reason: str = ""
    segments_dropped: list[str] = []  # Behind the damage that was cut by force.
    removed: list[str] = []  # Partial or deleted files, and snapshots before the log's start.
    stale_indexes: list[str] = []  # They did not say what the batches say.
    epochs_were_stale: bool = False  # The leader-epoch-checkpoint did not.
    truncated_to: SnapshotId | None = None  # A snapshot that the log did not reach.


class CorruptMetadataLogError(ValueError):
    """A log is not opened: it has damage that no crash leaves. Nothing was changed.

    ``path`` is the file, ``position`` the byte of it where the good part ends.
    """

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reason}. No crash leaves that behind byte {self.position}, so "
            f"nothing was cut. A voter that forgets what it acknowledged can undo a commit: take "
            f"this node out of the quorum (kraftspec quorum remove-controller), move its directory "
            f"away, format it anew (kraftspec storage format) and let it fetch from the others; "
            f"if no other node has the data, restore a copy: kraftspec dump-log shows what of "
            f"this one can be read"
        )


class Found(msgspec.Struct):
    """The parts of a log that was recovered."""

    segments: list[Segment]
    start_offset: int
    epochs: EpochList
    snapshots: list[SnapshotId]
    report: LogRecovery
    notes: dict[Any, Any]  # Of readers of the segments, for the next time: see `KnownSegments`.


class _Chain:
    """Checks that batches follow one another, through all segments."""

    def __init__(self, epochs: EpochList) -> None:
        self.epochs = epochs
        self.due: int | None = None  # The next offset; None before the first.
        self.index = BatchIndex(0, 0)

    def visit(self, header: BatchHeader, position: int) -> str:
        """Note a batch, or say why it cannot be the next."""
        if header.base_offset != self.due:
            return f"a batch of offset {header.base_offset}, where {self.due} is due"
        last_offset = header.last_offset
        if last_offset - self.index.base_offset > INT32_MAX:
            return f"a batch up to offset {last_offset}, too far from the segment's first"
        epoch = header.partition_leader_epoch
        last = self.epochs.last_epoch
        if epoch < max(last, 0):
            return f"a batch of leader epoch {epoch} behind one of {last}"
        if epoch > last:
            self.epochs.assign(epoch, header.base_offset)
        self.due = last_offset + 1
        self.index.add(
            header.base_offset,
            last_offset,
            position,
            header.size,
            header.max_timestamp,
            header.is_control,
        )
        return ""


def _recover_segment(
    files: Files, path: str, base_offset: int, chain: _Chain, interval_bytes: int
) -> tuple[Segment, SegmentRead]:
    file = files.open(path)
    try:
        file.settle()
        size = file.size()
        if size > SEGMENT_BYTES_MAX:
            reason = f"{size} bytes are more than a segment has, {SEGMENT_BYTES_MAX}"
            raise CorruptMetadataLogError(path, 0, reason)
        if chain.due is None:
            chain.due = base_offset
        read = _read_segment(file, base_offset, chain, interval_bytes)
    except BaseException:
        file.close()
        raise
    segment = Segment(path.removesuffix(LOG_SUFFIX), file, read.batches, read.recovery.end)
    segment.next_offset = chain.due
    return segment, read


def _read_segment(file: File, base_offset: int, chain: _Chain, interval_bytes: int) -> SegmentRead:
    """Check the batches of a segment.

    A disk may rot, so it is read at each start. Memory does not: there what was found before holds.
    """
    assert chain.due is not None
    epochs = chain.epochs
    before = chain.due, epochs.last_epoch, interval_bytes
    known = file.remembered if isinstance(file, MemoryFile) else None
    if isinstance(known, SegmentRead) and known[:3] == before:
        epochs.entries += known.epochs
        chain.due = known.recovery.next_offset
        return known
    chain.index = BatchIndex(base_offset, interval_bytes)
    count = len(epochs.entries)
    recovery = find_end(file.read_at, file.size(), base_offset, chain.visit, is_log=True)
    read = SegmentRead(*before, chain.index, recovery, epochs.entries[count:])
    if isinstance(file, MemoryFile):
        file.remembered = read
    return read


def recover(
    files: Files,
    directory: str,
    names: list[str],
    interval_bytes: int,
    *,
    cut_corrupt: bool = False,
) -> Found:
    """Read a metadata log's directory, of these names, mend what a crash left, say what is there.

    Raises CorruptMetadataLogError for damage that no crash leaves, unless ``cut_corrupt``, and for
    a log that starts behind all of its snapshots; OSError as the disk does.
    """
    bases = [segment_base(name) for name in names if name.endswith(LOG_SUFFIX)]
    if -1 in bases:
        bases = [base for base in bases if base >= 0]
    known = KnownSegments.of(files, directory)
    segments, epochs, unsure, total = known.take(files, directory, bases, interval_bytes)
    report = LogRecovery(len(segments), *total)
    chain = _Chain(EpochList(epochs))
    if segments:
        chain.due = segments[-1].next_offset
    taken = len(segments)
    reads: list[SegmentRead] = []
    try:
        for number, base_offset in enumerate(bases[taken:], taken):
            is_last = number + 1 == len(bases)
            path = f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"
            if chain.due is not None and chain.due != base_offset:
                reason = f"the segment before it ends at offset {chain.due}"
                if not cut_corrupt:
                    raise CorruptMetadataLogError(path, 0, reason)
                _drop(files, directory, bases[number:], report)
                report.torn_reason = f"{path}: {reason}"
                break
            segment, read = _recover_segment(files, path, base_offset, chain, interval_bytes)
            recovery = read.recovery
            segments.append(segment)
            reads.append(read)
            _note(report, recovery)
            if recovery.reason or (recovery.zero_bytes and not is_last):
                reason = recovery.reason or "zeros at the end, and another segment follows"
                if (recovery.is_corrupt or not is_last) and not cut_corrupt:
                    raise CorruptMetadataLogError(path, recovery.end, reason)
                report.torn_reason = f"{path}: {reason}"
                _drop(files, directory, bases[number + 1 :], report)
                break
        snapshots = _find_snapshots(files, directory, names, segments, report)
        if segments and segments[-1].file.size() > segments[-1].end:
            segments[-1].file.truncate(segments[-1].end)
            segments[-1].file.sync()
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise
    read_now = segments[taken:]
    _compare_indexes(files, directory, names, unsure + read_now, report)
    known.learn(taken, list(zip(read_now, reads, strict=True)), chain.epochs.entries)
    start_offset = _start_of(segments, snapshots)
    if start_offset:
        chain.epochs.start_at(start_offset)
    if CHECKPOINT_NAME in names:
        report.epochs_were_stale = _is_stale(files, directory, chain.epochs)
    return Found(segments, start_offset, chain.epochs, snapshots, report, known.notes)


def _note(report: LogRecovery, recovery: Recovery) -> None:
    report.segments += 1
    report.batches += recovery.batches
    report.bytes_read += recovery.end
    report.zero_bytes += recovery.zero_bytes
    report.torn_bytes += recovery.torn_bytes


def _drop(files: Files, directory: str, bases: list[int], report: LogRecovery) -> None:
    """Remove segments, the last first: a log has no hole at any moment."""
    for base_offset in reversed(bases):
        name = segment_name(base_offset)
        remove_segment(files, f"{directory}/{name}")
        files.sync_directory(directory)
        report.segments_dropped.append(name + LOG_SUFFIX)


def remove_segment(files: Files, path: str) -> None:
    """Remove the files of a segment: its log, its indexes, and Kafka's state of producers."""
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES, ".snapshot", ".txnindex"):
        files.remove(path + suffix)


def _find_snapshots(
    files: Files, directory: str, names: list[str], segments: list[Segment], report: LogRecovery
) -> list[SnapshotId]:
    """Return the snapshots, in order; remove what is left of others, and of deleted segments."""
    start = segments[0].base_offset if segments else 0
    kept: list[SnapshotId] = []
    gone = []
    for name in names:
        if name.endswith(_SEGMENT_SUFFIXES):
            continue
        parsed = parse_name(name)
        if parsed is None:
            if name.endswith((DELETED_SUFFIX, ".tmp")):
                gone.append(name)
        elif parsed.is_whole and parsed.id.end_offset >= start:
            kept.append(parsed.id)
        else:
            gone.append(name)
    if start > 0 and not kept:
        path = f"{directory}/{segment_name(start)}{LOG_SUFFIX}"
        raise CorruptMetadataLogError(
            path, 0, f"the log starts at offset {start}, and no snapshot has what was before it"
        )
    for name in gone:
        files.remove(f"{directory}/{name}")
    report.removed += gone
    return sorted(kept, key=order)


def _start_of(segments: list[Segment], snapshots: list[SnapshotId]) -> int:
    """Return where the log starts: its first segment may have more than what it served.

    A log that does not start at 0 starts where a snapshot ends, and which one no file says. The
    earliest that is there will do: the others were removed when the start went past them.
    """
    if not segments or segments[0].base_offset == 0:
        return 0
    end_offset = segments[-1].next_offset
    return min([end_offset, *(one.end_offset for one in snapshots)])


def _compare_indexes(
    files: Files, directory: str, names: list[str], segments: list[Segment], report: LogRecovery
) -> None:
    """Write the indexes of sealed segments anew where they are missing or wrong.

    Those of the last one are removed then: they are written when it is sealed.
    """
    there = set(names)
    for number, segment in enumerate(segments):
        for which, suffix in enumerate(INDEX_SUFFIXES):
            path = segment.path + suffix
            name = path[len(directory) + 1 :]
            if name in there and _is_index(files, path, segment.index, which):
                continue
            is_last = number + 1 == len(segments)
            if name in there or not is_last:
                report.stale_indexes.append(name)
            files.remove(path)
            if not is_last:
                file = files.open(path, create=True)
                file.write_at(0, segment.index.files()[which])
                file.close()


def _is_index(files: Files, path: str, index: BatchIndex, which: int) -> bool:
    """Whether a file has what the index of its kind must have. Memory is told that it has."""
    file = files.open(path)
    try:
        if isinstance(file, MemoryFile) and file.remembered is index:
            return True
        is_same: bool = file.read_at(0, file.size()) == index.files()[which]
        if is_same and isinstance(file, MemoryFile):
            file.remembered = index
        return is_same
    finally:
        file.close()


def _is_stale(files: Files, directory: str, epochs: EpochList) -> bool:
    return read_whole(files, f"{directory}/{CHECKPOINT_NAME}") != epochs.to_checkpoint()
