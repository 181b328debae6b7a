"""Reads a directory: the files that are there, the batches of the log, the checkpoints.

Batches are walked by their headers, CRCs checked, as recovery does; of control batches the records
are read, and of no other. A file that goes away meanwhile lets the reading begin again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError, detail_of
from kraftspec.fastpath.records import CONTROL
from kraftspec.fastpath.recovery import find_end
from kraftspec.fastpath.walk import Walk
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import QuorumStateData, SnapshotHeaderRecord
from kraftspec.reference.log.control import control_type_of, decode_control_record
from kraftspec.reference.log.directory import (
    META_NAME,
    METADATA_NAME,
    MetaProperties,
    NotFormattedError,
)
from kraftspec.reference.log.files import ReadOnlyFiles, read_whole
from kraftspec.reference.log.metadata_log import PARTITION_METADATA_NAME, check_topic
from kraftspec.reference.log.quorum_state import NAME as QUORUM_STATE_NAME
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.log.snapshots import order, parse_name
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kafka.records import decode_control
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.types import NONE, ReplicaKey
from kraftspec.reference.recovery.reading import (
    SEGMENT,
    Checkpoint,
    ControlBatch,
    Directory,
    EpochSpan,
    Log,
    StoredVote,
    Tail,
    segment_path,
    voters_history,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.files import File
    from kraftspec.fastpath.records import BatchHeader, Record
    from kraftspec.fastpath.recovery import Recovery
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.raft.types import SnapshotId

_TRIES: Final = 10  # Files of a live node that go away while they are read.
_LOOKS: Final = 4  # A batch that is being written may look damaged for a moment.
_LOOK_AGAIN_S: Final = 0.05
# A place is the number of a segment and a byte of it.
PLACE_BITS: Final = 40


def read_directory(path: str, files: ReadableFiles | None = None) -> Directory:
    """Read a node's log directory. What cannot be read is said in it; raises no OSError."""
    files = files or ReadOnlyFiles()
    directory = Directory(path=path)
    try:
        directory.meta = MetaProperties.parse(read_whole(files, f"{path}/{META_NAME}"), path)
        if not parts_of(directory.meta.profile).is_metadata_log:
            raise NotFormattedError(
                f"{path} belongs to the profile {directory.meta.profile}: quorum verify reads "
                f"directories of Apache Kafka's protocol"
            )
    except FileNotFoundError:
        directory.formatting_problem = f"there is no {META_NAME}: this is no log directory"
        return directory
    except (NotFormattedError, LookupError, OSError) as error:
        directory.formatting_problem = str(error)
        return directory
    where = f"{path}/{METADATA_NAME}"
    for attempt in range(_TRIES):
        try:
            directory.stamp = _stamp_of(files, where)
            _read_metadata(files, where, directory)
            break
        except FileNotFoundError as error:  # Its node deleted or truncated it.
            if attempt + 1 == _TRIES:
                directory.formatting_problem = f"{error.filename or where} is not there"
                break
        except OSError as error:
            directory.formatting_problem = str(error)
            break
    return directory


def is_as_read(directory: Directory, files: ReadableFiles) -> bool:
    """Whether a directory has been as it was read ever since the reading began."""
    if directory.formatting_problem:
        return True
    log = directory.log
    where = f"{directory.path}/{METADATA_NAME}"
    if _stamp_of(files, where) != directory.stamp:
        return False
    if not log.segments:
        return True
    # Where zeros were written ahead, an append changes no size.
    try:
        file = files.open(segment_path(where, log.segments[-1]))
        try:
            return next(iter(Walk(file.read_at, log.end_position, file.size())), None) is None
        finally:
            file.close()
    except OSError:
        return False


def _stamp_of(files: ReadableFiles, where: str) -> tuple[object, ...]:
    """Return the names and sizes of what is read, and quorum-state; empty for what goes away."""
    try:
        stamp: list[object] = []
        for name in files.names(where):
            if _is_read(name):
                file = files.open(f"{where}/{name}")
                stamp += [name, file.size()]
                file.close()
            elif name == QUORUM_STATE_NAME:
                stamp.append(read_whole(files, f"{where}/{name}"))
        return tuple(stamp)
    except OSError:
        return ()


def _is_read(name: str) -> bool:
    parsed = parse_name(name)
    return SEGMENT.fullmatch(name) is not None or (parsed is not None and parsed.is_whole)


def _read_metadata(files: ReadableFiles, where: str, directory: Directory) -> None:
    names = files.names(where) if METADATA_NAME in files.names(directory.path) else []
    checkpoints = []
    for name in names:
        parsed = parse_name(name)
        if parsed is not None and parsed.is_whole:
            checkpoints.append(_checkpoint(files, f"{where}/{name}", parsed.id, name))
    checkpoints.sort(key=lambda one: order(one.id))
    bases = [int(match[1]) for match in map(SEGMENT.fullmatch, names) if match]
    log = LogReader(files, where, bases).read()
    _start_log(log, checkpoints)
    if PARTITION_METADATA_NAME in names:
        try:
            check_topic(files, where)
        except ValueError as error:
            log.problem = log.problem or str(error)
    directory.log, directory.checkpoints = log, checkpoints
    directory.history, directory.kraft_version = voters_history(checkpoints, log)
    directory.vote_problem = ""
    try:
        directory.vote = _read_vote(files, where)
    except ValueError as error:
        directory.vote, directory.vote_problem = None, str(error)


def _start_log(log: Log, checkpoints: list[Checkpoint]) -> None:
    """Let the log start and end where a node that opens it lets it."""
    good = [one for one in checkpoints if not one.problem]
    if not log.segments:
        log.first = log.end_offset = 0
    if log.first > 0:
        ends = [one.id.end_offset for one in good if one.id.end_offset >= log.first]
        if ends:
            log.start_offset = min([log.end_offset, *ends])
        elif not log.problem:
            log.problem = (
                f"the log starts at offset {log.first}, and no checkpoint has what was before it"
            )
            log.start_offset = log.first
    if not good:
        return
    latest = good[-1].id
    if order(latest) > (max(log.last_epoch, 0), log.end_offset):
        # The node ended between the checkpoint and the truncation of its log.
        log.first = log.start_offset = log.end_offset = latest.end_offset
        log.last_epoch = latest.epoch
        log.epochs, log.controls = [], []
        log.fingerprints = type(log.fingerprints)()
    elif not log.epochs:
        log.last_epoch = latest.epoch


def _read_vote(files: ReadableFiles, where: str) -> StoredVote | None:
    path = f"{where}/{QUORUM_STATE_NAME}"
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return None
    state, version = QuorumStateFile.parse(data, path, QuorumStateData)
    voted = None
    if state.voted_id >= 0:
        voted = ReplicaKey(state.voted_id, state.voted_directory_id)
    voters = tuple(sorted(one.voter_id for one in state.current_voters or ()))
    return StoredVote(version, state.leader_epoch, state.leader_id, voted, voters)


# ---- checkpoints -------------------------------------------------------------------------------


def _checkpoint(files: ReadableFiles, path: str, id_: SnapshotId, name: str) -> Checkpoint:
    file = files.open(path)
    try:
        checkpoint = Checkpoint(id=id_, name=name, size_bytes=file.size())
        _read_checkpoint(file, checkpoint)
    finally:
        file.close()
    return checkpoint


def _read_checkpoint(file: File, checkpoint: Checkpoint) -> None:
    walk = Walk(file.read_at, 0, checkpoint.size_bytes)
    first = last = None
    try:
        for header in walk:
            if not header.attributes & CONTROL:
                last = None
                continue
            for record in decode_batch(walk.window, header.position, check_crc=False):
                last = control_type_of(record)
                if first is None:
                    first = last
                    message = decode_control_record(record)
                    if isinstance(message, SnapshotHeaderRecord):
                        checkpoint.last_timestamp_ms = message.last_contained_log_timestamp
                _note_checkpoint(checkpoint, record)
        if walk.error is not None:
            raise walk.error
    except CodecError as error:
        checkpoint.problem = f"byte {walk.position}: {detail_of(error)}"
        return
    if first != ControlRecordType.SNAPSHOT_HEADER:
        checkpoint.problem = "it does not begin with a SnapshotHeader record"
    elif last != ControlRecordType.SNAPSHOT_FOOTER:
        checkpoint.problem = "it does not end with a SnapshotFooter record"


def _note_checkpoint(checkpoint: Checkpoint, record: Record) -> None:
    known = decode_control(control_type_of(record), record.value or b"")
    if isinstance(known, KRaftVersion):
        checkpoint.kraft_version = known.level
    elif isinstance(known, Voters):
        checkpoint.voters = known.voters


# ---- the log -----------------------------------------------------------------------------------


class LogReader:
    """Walks the segments of one log."""

    def __init__(self, files: ReadableFiles, where: str, bases: list[int]) -> None:
        self._files = files
        self._where = where
        self._log = Log(segments=bases)
        self._due: int | None = None
        self._epoch = NONE
        self._span: EpochSpan | None = None  # While it has no data.
        self._place = 0
        self._file: File | None = None
        self._add = self._log.fingerprints.add

    def read(self) -> Log:
        """Read it; FileNotFoundError where a segment went away."""
        log = self._log
        for number, base_offset in enumerate(log.segments):
            is_last = number + 1 == len(log.segments)
            if self._due is not None and self._due != base_offset:
                log.problem = (
                    f"{segment_path(self._where, base_offset)}: the segment before it ends at "
                    f"offset {self._due}"
                )
                break
            recovery = self._segment(number, base_offset, is_last)
            log.end_position = recovery.end
            if log.problem:
                break
            if recovery.zero_bytes or recovery.torn_bytes:
                self._tail(base_offset, recovery, is_last)
                break
        log.last_epoch = max(self._epoch, 0)
        if log.segments:
            log.first = log.segments[0]
            log.end_offset = log.first if self._due is None else self._due
        return log

    def _segment(self, number: int, base_offset: int, is_last: bool) -> Recovery:
        """Walk a segment from where it was left; look again where its end seems to be damaged."""
        path = segment_path(self._where, base_offset)
        if self._due is None:
            self._due = base_offset
        file = self._file = self._files.open(path)
        start = 0
        try:
            for look in range(_LOOKS):
                self._place = (number << PLACE_BITS) + start
                read = partial(_read_from, file, start)
                left = max(file.size() - start, 0)
                recovery = find_end(read, left, self._due, self._visit, is_log=True)
                start += recovery.end
                self._log.size_bytes += recovery.end
                if not (recovery.is_corrupt or (recovery.torn_bytes and not is_last)):
                    break
                if look + 1 < _LOOKS:
                    time.sleep(_LOOK_AGAIN_S)
        finally:
            file.close()
        return recovery._replace(end=start)

    def _visit(self, header: BatchHeader, position: int) -> str:
        """Note a batch, or say why it cannot be the next."""
        base_offset, epoch = header.base_offset, header.partition_leader_epoch
        if base_offset != self._due:
            return f"a batch of offset {base_offset}, where {self._due} is due"
        if epoch != self._epoch:
            if epoch < self._epoch or epoch < 0:
                return f"a batch of leader epoch {epoch} behind one of {self._epoch}"
            self._span = EpochSpan(epoch, base_offset)
            self._log.epochs.append(self._span)
        last_offset = base_offset + header.last_offset_delta
        if header.attributes & CONTROL:
            try:
                self._control(header, position)
            except CodecError as error:
                return f"a control record: {detail_of(error)}"
        elif self._span is not None:
            self._span.data_offset, self._span = base_offset, None
        self._epoch, self._due = epoch, last_offset + 1
        self._add(base_offset, last_offset, epoch, header.crc, self._place + position)
        self._log.batches += 1
        self._log.last_timestamp_ms = header.max_timestamp
        return ""

    def _control(self, header: BatchHeader, position: int) -> None:
        assert self._file is not None
        at = (self._place & ((1 << PLACE_BITS) - 1)) + position
        data = self._file.read_at(at, header.size)
        records: list[tuple[int, ControlRecord]] = []
        for record in decode_batch(data, 0):
            known = decode_control(control_type_of(record), record.value or b"")
            if known is not None:
                records.append((record.offset, known))
        self._log.controls.append(
            ControlBatch(
                header.base_offset,
                header.base_offset + header.last_offset_delta,
                header.partition_leader_epoch,
                header.max_timestamp,
                self._epoch,
                tuple(records),
            )
        )

    def _tail(self, base_offset: int, recovery: Recovery, is_last: bool) -> None:
        path = segment_path(self._where, base_offset)
        is_corrupt = recovery.is_corrupt or not is_last
        reason = (
            recovery.reason or "" if is_last else recovery.reason or "zeros, and a segment follows"
        )
        self._log.tail = Tail(
            path, recovery.end, recovery.torn_bytes, recovery.zero_bytes, reason, is_corrupt
        )
        if is_corrupt:
            self._log.problem = f"{path}, byte {recovery.end}: {reason}"


def _read_from(file: File, start: int, position: int, size: int) -> bytes:
    return file.read_at(start + position, size)


def batches_from(
    directory: Directory, files: ReadableFiles, start: int, end: int
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches that begin in a range of offsets, each with the bytes that have it.

    They are those that the log has now: its node may have changed them.
    """
    log = directory.log
    place = log.fingerprints.place_before(start)
    number, position = (
        (place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)) if place >= 0 else (0, 0)
    )
    for base_offset in log.segments[number:]:
        if base_offset >= end:
            return
        path = segment_path(f"{directory.path}/{METADATA_NAME}", base_offset)
        try:
            file = files.open(path)
        except FileNotFoundError:
            return
        try:
            walk = Walk(file.read_at, position, file.size())
            for header in walk:
                if header.base_offset >= end:
                    return
                if header.base_offset >= start:
                    yield header, walk.window
        finally:
            file.close()
        position = 0
