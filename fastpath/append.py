"""A log that is appended to: encode, write, sync, and a durability point that is said aloud.

The file is record batches one after another, as in a segment of Kafka's, and while it is open a
tail of zeros::

    | batch | batch | ... | batch | batch | 0 0 0 0 0 0 0 0 0 |
    ^ 0              durable_end ^        ^ end               ^ size of the file

    append()  writes at ``end``: a reader of the file sees the bytes, a power cut may lose them
    sync()    returns once they are on the disk: the only acknowledgement there is

The zeros are written and synced before batches overwrite them, so syncing a batch moves no end of
file and allocates no block: the disk has one write to do, and the journal of the file system none.
What syncs while another sync is under way waits for it, and then all that was written meanwhile
shares one sync (group commit).

Opening recovers: the valid prefix stays, the zeros and what a crash left are cut, and ``recovery``
says what went. Damage that no crash leaves is not cut but told, as a ``CorruptLogError``. After an
error of the disk nothing more is written or acknowledged: opening again tells what there is. Linux
and macOS; the file must be on a file system that honours sync.
"""

from __future__ import annotations

import errno
import fcntl
import operator
import os
import re
import struct
import threading
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn

from kraftspec.fastpath.batch_fields import INT64_MAX
from kraftspec.fastpath.batch_reader import BATCH_LENGTH_MIN, read_header, view_of
from kraftspec.fastpath.batch_writer import encode_batch, encode_control_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import (
    ATTRIBUTES_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
)
from kraftspec.fastpath.scan import RESYNC_CRC_BYTES_FREE, RESYNC_CRC_TIMES_MAX, TORN_ZEROS_MIN

# Zeros are written as much ahead as there is log already, within these: a small log stays small,
# and of a large one every 4 MiB one sync waits some milliseconds for 4 MiB of zeros.
ZERO_AHEAD_BYTES_MIN: Final = 1 << 20
ZERO_AHEAD_BYTES_MAX: Final = 4 << 20
# With so many bytes not synced, an append syncs by itself. So what lies further than that before
# the last byte of a log was durable once, and damage of it is no crash's. (One append of more is
# not divided: should a power cut lose the midst of it, the log has to be opened by force.)
UNSYNCED_BYTES_MAX: Final = 16 << 20
SECTOR_BYTES: Final = 512  # The least that a disk writes whole or not at all.

_CHUNK_BYTES: Final = 1 << 20  # What is read or written at a time.
_ZEROS: Final = bytes(_CHUNK_BYTES)
_PERMISSIONS: Final = 0o644
# On macOS, where fsync leaves the data in the disk's own cache.
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_MAGIC_THEN_ATTRIBUTES = re.compile(rb"\x02(?=.{4}\x00)", re.DOTALL)


# Reads bytes of a file: from a position, a number of them.
ReadAt = Callable[[int, int], bytes]


class AppendFailedError(OSError):
    """The disk failed under a log, which is of no use now; opened anew it is recovered."""


class Recovery(NamedTuple):
    """What was found in a log, and cut off it when it was opened."""

    end: int  # Bytes of whole, valid batches: the log.
    next_offset: int  # The offset after the last record.
    batches: int
    torn_bytes: int  # From ``end`` to the last byte that is not zero.
    zero_bytes: int  # The tail.
    reason: str  # What is wrong with the torn bytes; empty where there are none.
    base_offset: int = 0  # That of the first batch; where there is none, of the first to come.
    good_bytes: int = 0  # How many of the torn bytes are good batches, after or between damage.
    is_corrupt: bool = False  # Whether the torn bytes are more than a crash of the appender leaves.


class CorruptLogError(ValueError):
    """A file is not opened, for it has damage that no crash leaves; nothing of it was cut.

    ``recovery`` is what was found. ``LogAppender(path, cut_corrupt=True)`` cuts all the same.
    """

    def __init__(self, path: str, recovery: Recovery) -> None:
        super().__init__(path, recovery)
        self.path = path
        self.recovery = recovery

    def __str__(self) -> str:
        found = self.recovery
        return (
            f"{self.path}: {found.reason}. Before byte {found.end} are {found.batches} good "
            f"batches, after it {found.good_bytes} bytes of good batches, and no crash of an "
            f"appender leaves that; so nothing was cut. Is it the right file? Keep a copy; then "
            f"LogAppender(..., cut_corrupt=True) keeps {found.end} bytes of it, and cuts the rest"
        )


class Appended(NamedTuple):
    """Where an append went. Its records have the offsets from ``base_offset`` on."""

    base_offset: int  # Of the first record; of the next to come, where there was none.
    end: int  # The byte of the file after it: what ``sync`` takes.


def find_end(descriptor: int, base_offset: int = 0) -> Recovery:
    """Walk the batches of an open file, CRC checked, offsets rising; judge what is behind them.

    ``base_offset`` is that of a log without batches. Whole batches behind a bad one are torn bytes
    too: a log has no holes. The file is read and not mapped: what the disk cannot read is an
    OSError, and under a map the end of the process. Raises nothing else.
    """

    def read(position: int, count: int) -> bytes:
        return os.pread(descriptor, count, position)

    return find_end_by(read, os.fstat(descriptor).st_size, base_offset)


def find_end_by(
    read: ReadAt,
    size: int,
    base_offset: int = 0,
    visit: Callable[[BatchHeader, int], str] | None = None,
    *,
    is_log: bool = False,
) -> Recovery:
    """Do as ``find_end`` for ``size`` bytes that ``read`` gives: fewer at the end, as a file does.

    ``visit`` is called with each good batch and its position; it may say why the batch cannot be
    the next of this log, which is then damage like other damage, or "". With ``is_log`` something
    else says that the file is a log: a crash may have left no good byte of it.
    """
    end = batches = start = due = 0
    window, count, reason = b"", _CHUNK_BYTES, ""
    misplaced = 0  # The bytes of a batch that is good, but for its offsets.
    while end < size:
        try:
            header = read_header(window, end - start)
        except CodecError as error:
            at = start + (error.offset or 0)
            if error.error_class is ErrorClass.TRUNCATED and start + len(window) < size:
                # The window ends within the batch; a length that lies makes it grow to the end.
                count = 2 * count if end == start else _CHUNK_BYTES
                start, window = end, read(end, count)
                if len(window) < count:
                    size = start + len(window)
                continue
            reason = str(CodecError(error.error_class, error.detail, path=error.path, offset=at))
            break
        if header.base_offset < due or header.last_offset < header.base_offset:
            wrong = _disorder(header, due)
        else:
            wrong = visit(header, end) if visit is not None else ""
        if wrong:
            reason, misplaced = f"byte {end}: {wrong}", header.size
            break
        if batches == 0:
            base_offset = header.base_offset
        end, batches, due = start + header.end, batches + 1, header.last_offset + 1
    next_offset = due if batches else base_offset
    torn_end = _after_last_byte(read, end, size)
    found = Recovery(end, next_offset, batches, torn_end - end, size - torn_end, "", base_offset)
    if torn_end == end:
        return found
    good_at, good_bytes = _find_good(read, end + max(misplaced, 1), torn_end, size)
    is_corrupt = not _is_left_by_crash(read, found, end if misplaced else good_at, is_log)
    good_bytes += misplaced
    return found._replace(reason=reason, good_bytes=good_bytes, is_corrupt=is_corrupt)


def _find_good(read: ReadAt, position: int, torn_end: int, size: int) -> tuple[int, int]:
    """Return where the next good batch starts, -1 for nowhere, and the bytes of all there are."""
    first, total, start, window = -1, 0, position, b""
    patience = RESYNC_CRC_TIMES_MAX * (torn_end - position) + RESYNC_CRC_BYTES_FREE
    while position < torn_end and size - position >= RECORDS_AT and patience >= 0:
        if position + RECORDS_AT > start + len(window):
            start, window = position, read(position, _CHUNK_BYTES)
            if len(window) < RECORDS_AT:
                break
        found = _MAGIC_THEN_ATTRIBUTES.search(window, position - start + MAGIC_AT)
        if found is None:
            position = start + len(window) - RECORDS_AT + 1
            continue
        at = found.start() - MAGIC_AT
        position = start + at
        if at + RECORDS_AT > len(window):
            continue  # With the next window.
        (length,) = _INT32.unpack_from(window, at + LENGTH_AT)
        (crc,) = _UINT32.unpack_from(window, at + CRC_AT)
        end = position + LOG_OVERHEAD_BYTES + length
        if length < BATCH_LENGTH_MIN or end > size:
            position += 1
        elif _crc(read, position + ATTRIBUTES_AT, end) != crc:
            patience -= length
            position += 1
        else:
            first = position if first < 0 else first
            total += end - position
            position = end
    # So much that looks like batches is taken for one: then nothing is cut.
    return (position if patience < 0 and first < 0 else first), total


def _crc(read: ReadAt, position: int, end: int) -> int:
    crc = 0
    for at in range(position, end, _CHUNK_BYTES):
        crc = crc32c(read(at, min(_CHUNK_BYTES, end - at)), crc)
    return crc


def _is_left_by_crash(read: ReadAt, found: Recovery, good_at: int, is_log: bool) -> bool:
    """Whether the bytes behind ``found.end`` are what a killed process or a power cut can leave.

    They are what was not synced, less any of its sectors: where one was lost the file has zeros, or
    has ended. So the first batch is cut short, or misses a sector before the next good one.
    """
    start, torn_end = found.end, found.end + found.torn_bytes
    size = torn_end + found.zero_bytes
    head = read(start, RECORDS_AT).ljust(RECORDS_AT, b"\0")
    # Neither is text, nor another file's head. (Nobody has 2^56 records.)
    if head[0] != 0 or head[MAGIC_AT] not in (0, MAGIC):
        return False
    (length,) = _INT32.unpack_from(head, LENGTH_AT)
    is_framed = head[MAGIC_AT] == MAGIC and length >= BATCH_LENGTH_MIN
    batch_end = start + (LOG_OVERHEAD_BYTES + length if is_framed else RECORDS_AT)
    if good_at < 0:
        if torn_end > max(batch_end, start + UNSYNCED_BYTES_MAX):
            return False
        if batch_end > size or torn_end <= batch_end - TORN_ZEROS_MIN:
            return True
        if start == 0 and not (is_framed or is_log):
            return False  # Zeros and then other things: nothing says that it is a log.
        good_at = batch_end
    elif torn_end > start + UNSYNCED_BYTES_MAX:
        return False
    return _has_lost_sector(read, start, min(batch_end, good_at), found.next_offset)


def _has_lost_sector(read: ReadAt, start: int, stop: int, due: int) -> bool:
    """Whether a sector, or what of it is behind ``start``, is zeros and should not be."""
    for sector in range(start - start % SECTOR_BYTES, stop, SECTOR_BYTES):
        at = max(sector, start)
        count = sector + SECTOR_BYTES - at
        # The first bytes of a base offset are zeros in any case, as long as offsets are small.
        is_telling = count >= _INT64.size or due >> 8 * (_INT64.size - count) > 0
        if is_telling and not any(read(at, count)):
            return True
    return False


def check_batches(view: memoryview, next_offset: int) -> tuple[int, int]:
    """Check whole batches as recovery does; return the offsets of their first and next record.

    Raises CodecError for what is no batch, and ValueError for offsets below ``next_offset``.
    """
    position, base_offset = 0, next_offset
    while position < len(view):
        header = read_header(view, position)
        if header.base_offset < next_offset or header.last_offset < header.base_offset:
            raise ValueError(_disorder(header, next_offset))
        if position == 0:
            base_offset = header.base_offset
        next_offset, position = header.last_offset + 1, header.end
    return base_offset, next_offset


def _disorder(header: BatchHeader, due: int) -> str:
    return f"a batch of offsets {header.base_offset} to {header.last_offset}, where {due} is due"


def _after_last_byte(read: ReadAt, start: int, end: int) -> int:
    """Return where the zeros before ``end`` begin, but not less than ``start``."""
    while end > start:
        at = max(start, end - _CHUNK_BYTES)
        left = len(read(at, end - at).rstrip(b"\0"))
        if left:
            return at + left
        end = at
    return start


def _sync_data(descriptor: int) -> None:
    """Return once the data of a file, and what it takes to read it, are on the disk."""
    if _FULL_SYNC is None:
        os.fdatasync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)


def _sync_directory(path: Path) -> None:
    """Make the name of a new file durable: that is in its directory, not in the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, position)
        data = data[written:]
        position += written


class LogAppender:
    """Appends batches to one file; any number of threads may call it.

    ``log.sync(log.append_values([b"..."], timestamps=now_ms))`` is durable when it returns.

    ``path`` is made where it is missing (its directory is not). ``base_offset`` is the offset that
    the first record of an empty log gets, 0 where it is not given. Raises CorruptLogError for
    damage that no crash leaves, and for what is no log: nothing is cut then, unless
    ``cut_corrupt``. Raises ValueError for a negative ``base_offset``, and one above the first
    offset of a log that has batches; BlockingIOError when the file is open in another appender,
    here or in another process; OSError as the file system has it.

    After ``os.fork`` the log is the parent's: the child may close it, which leaves the file alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        base_offset: int | None = None,
        cut_corrupt: bool = False,
    ) -> None:
        self.path = Path(path)
        if base_offset is not None and not 0 <= operator.index(base_offset) <= INT64_MAX:
            raise ValueError(f"base_offset {base_offset} is no offset: 0 to 2^63 - 1 are")
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._failure: BaseException | None = None
        self._is_syncing = False
        self._forks = _forks
        self._process = os.getpid()
        # A file object, not a bare descriptor: forgotten, it closes itself and lets the lock go.
        self._file = FileIO(self.path, "r+", opener=_open_or_create)
        try:
            self._descriptor = self._file.fileno()
            self._claim()
            self.recovery: Final = self._recover(base_offset, cut_corrupt)
        except BaseException:
            self._file.close()
            raise
        self._end = self._durable_end = self._zeroed_end = self.recovery.end
        self._next_offset = self.recovery.next_offset

    @property
    def end(self) -> int:
        """Bytes written: where the next batch goes."""
        return self._end

    @property
    def durable_end(self) -> int:
        """Bytes that a power cut does not take; at most ``end``."""
        return self._durable_end

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets: a number of records, as Kafka's, not of bytes."""
        return self._next_offset

    def append(self, batches: Any) -> Appended:
        """Write one or more whole batches as they are, offsets and all.

        Checked as recovery does it, for what is acknowledged must outlast that: raises CodecError
        for what is no batch, and ValueError for offsets that the log has already. Then nothing was
        written. Raises AppendFailedError when the disk fails, now or earlier.
        """
        self._check_process()
        with view_of(batches) as view, self._lock:
            self._check_usable()
            base_offset, next_offset = check_batches(view, self._next_offset)
            return self._write(view, base_offset, next_offset)

    def append_values(self, values: Sequence[Any], **fields: Any) -> Appended:
        """Encode one batch at ``next_offset`` and write it.

        ``fields`` are those of ``encode_batch`` but for base_offset: keys, headers, timestamps,
        partition_leader_epoch, compression and the others. Raises as that does, and
        AppendFailedError when the disk fails, now or earlier.
        """
        return self._append(encode_batch, values, **fields)

    def append_control(self, control_type: int, value: bytes, **fields: Any) -> Appended:
        """Encode one control record at ``next_offset``, in a batch of its own, and write it.

        ``value`` is encoded already; ``fields`` are those of ``encode_control_batch`` but for
        base_offset: timestamp, version, partition_leader_epoch and those of a transaction. Raises
        as that does, and AppendFailedError when the disk fails, now or earlier.
        """
        return self._append(encode_control_batch, control_type, value, **fields)

    def sync(self, end: Appended | int | None = None) -> int:
        """Return ``durable_end``, once it is at least ``end``: by default, all that is written.

        ``end`` is what an append returned, or a byte of the file. Raises AppendFailedError when it
        will never be durable; whether the bytes are on the disk, nobody knows then.
        """
        self._check_process()
        with self._lock:
            if end is None:
                self._check_usable()
                end = self._end
            wanted = operator.index(end.end if isinstance(end, Appended) else end)
            if not 0 <= wanted <= self._end:
                raise ValueError(f"byte {wanted} is not written: the log ends at {self._end}")
        while True:
            with self._lock:
                while self._is_syncing and self._durable_end < wanted:
                    self._changed.wait()
                if self._durable_end >= wanted:
                    return self._durable_end
                self._check_usable()
                self._is_syncing = True
                reached = self._end
            self._sync_to(reached)

    def close(self) -> None:
        """Sync, cut the zeros, and let the file go; a second call does nothing.

        After a failure the file is left as it is, for recovery to judge.
        """
        if self._forks != _forks:
            self._file.close()
            return
        with self._lock:
            while self._is_syncing:
                self._changed.wait()
            try:
                if not self._file.closed and self._failure is None:
                    self._trim()
            finally:
                if not self._file.closed:  # A forked process may have the file still, locked.
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                self._file.close()
                self._changed.notify_all()

    def __enter__(self) -> LogAppender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a LogAppender is not copied or pickled: two would write over each other")

    # Opening.

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EWOULDBLOCK, "the log is open in another appender", str(self.path)
            ) from None

    def _recover(self, base_offset: int | None, cut_corrupt: bool) -> Recovery:
        """Find the end of the log and cut what is behind it; what stays is durable."""
        size = os.fstat(self._descriptor).st_size
        if size == 0:
            _sync_directory(self.path.parent)
            return find_end(self._descriptor, base_offset or 0)
        # A killed process left pages unsynced. And after a failed sync Linux calls pages clean that
        # never reached the disk: dropped from the cache, they are read as the disk has them.
        _sync_data(self._descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        found = find_end(self._descriptor, base_offset or 0)
        if found.is_corrupt and not cut_corrupt:
            raise CorruptLogError(str(self.path), found)
        if base_offset is not None and found.base_offset < base_offset:
            raise ValueError(
                f"{self.path} starts at offset {found.base_offset}, base_offset is {base_offset}: "
                f"that is for an empty log; leave it out"
            )
        if found.end < size:
            os.ftruncate(self._descriptor, found.end)
            _sync_data(self._descriptor)
        return found

    def _append(self, encode: Callable[..., bytes], *arguments: Any, **fields: Any) -> Appended:
        self._check_process()
        # Encoded before the lock is taken: others can go on, and compress at the same time.
        base_offset = self._next_offset
        batch = encode(*arguments, base_offset=base_offset, **fields)
        with self._lock:
            self._check_usable()
            if not batch:
                return Appended(self._next_offset, self._end)
            if base_offset != self._next_offset:  # Another came between. The CRC leaves it out.
                base_offset = self._next_offset
                batch = _INT64.pack(base_offset) + batch[_INT64.size :]
            (delta,) = _INT32.unpack_from(batch, LAST_OFFSET_DELTA_AT)
            with memoryview(batch) as view:
                return self._write(view, base_offset, base_offset + delta + 1)

    def _check_process(self) -> None:
        """Before the lock is taken: at the fork another thread may have had it."""
        if self._forks != _forks:
            raise RuntimeError(
                f"the log {self.path} is that of process {self._process}, and this is a fork of it"
            )

    # With the lock held.

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failed() from self._failure
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")

    def _failed(self) -> AppendFailedError:
        number = getattr(self._failure, "errno", None) or errno.EIO
        return AppendFailedError(
            number,
            f"the log failed ({self._failure!r}): {self._durable_end} bytes are durable, "
            f"what follows is not acknowledged; close it and open it again",
            str(self.path),
        )

    def _write(self, view: memoryview, base_offset: int, next_offset: int) -> Appended:
        end = self._end + len(view)
        try:
            if end - self._durable_end > UNSYNCED_BYTES_MAX and self._durable_end < self._end:
                _sync_data(self._descriptor)
                self._durable_end = self._end
            if end > self._zeroed_end:
                self._write_zeros(end)
            _write_all(self._descriptor, view, self._end)
        except BaseException as error:
            # Bytes of no known number are in the file now. Ctrl-C is such an error, too.
            self._failure = error
            self._changed.notify_all()
            if isinstance(error, OSError):
                raise self._failed() from error
            raise
        self._end, self._next_offset = end, next_offset
        return Appended(base_offset, end)

    def _write_zeros(self, start: int) -> None:
        """Write zeros from ``start`` on, where the batch about to be written will end."""
        count = min(max(start, ZERO_AHEAD_BYTES_MIN), ZERO_AHEAD_BYTES_MAX)
        with memoryview(_ZEROS) as zeros:
            for done in range(0, count, _CHUNK_BYTES):
                _write_all(self._descriptor, zeros[: count - done], start + done)
        self._zeroed_end = start + count

    def _trim(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._end)
            _sync_data(self._descriptor)
            self._durable_end = self._end
        except OSError as error:
            self._failure = error
            raise self._failed() from error

    # Without the lock.

    def _sync_to(self, reached: int) -> None:
        failure: BaseException | None = None
        try:
            _sync_data(self._descriptor)
        except BaseException as error:
            failure = error
        with self._lock:
            self._is_syncing = False
            if failure is None:
                self._durable_end = max(self._durable_end, reached)
            elif self._failure is None:
                self._failure = failure
            self._changed.notify_all()
            if isinstance(failure, OSError):
                raise self._failed() from failure
        if failure is not None:
            raise failure


# How many forks lead to this process: an integer to compare, where its id takes a system call.
_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - a process has as many as it has
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, _PERMISSIONS)
