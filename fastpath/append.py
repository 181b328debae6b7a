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

Opening recovers: the valid prefix stays, the zeros and a torn batch are cut, and ``recovery`` says
what went. After an error of the disk nothing more is written or acknowledged: opening again tells
what there is. Linux and macOS; the file must be on a file system that honours sync.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import LAST_OFFSET_DELTA_AT, BatchHeader

# Zeros are written as much ahead as there is log already, within these: a small log stays small,
# and of a large one every 4 MiB one sync waits some milliseconds for 4 MiB of zeros.
ZERO_AHEAD_BYTES_MIN: Final = 1 << 20
ZERO_AHEAD_BYTES_MAX: Final = 4 << 20

_CHUNK_BYTES: Final = 1 << 20  # What is read or written at a time.
_ZEROS: Final = bytes(_CHUNK_BYTES)
_PERMISSIONS: Final = 0o644
# On macOS, where fsync leaves the data in the disk's own cache.
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


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


def find_end(descriptor: int, base_offset: int = 0) -> Recovery:
    """Walk the batches of an open file (CRC checked, offsets rising from ``base_offset`` on).

    Whole batches behind a bad one are torn bytes too: a log has no holes. The file is read and not
    mapped: what the disk cannot read is an OSError, and under a map the end of the process.
    """
    size = os.fstat(descriptor).st_size
    end = batches = start = 0
    window, count, reason = b"", _CHUNK_BYTES, ""
    while end < size:
        try:
            header = read_header(window, end - start)
        except CodecError as error:
            at = start + (error.offset or 0)
            if error.error_class is ErrorClass.TRUNCATED and start + len(window) < size:
                # The window ends within the batch; a length that lies makes it grow to the end.
                count = 2 * count if end == start else _CHUNK_BYTES
                start, window = end, os.pread(descriptor, count, end)
                if len(window) < count:
                    size = start + len(window)
                continue
            reason = str(CodecError(error.error_class, error.detail, path=error.path, offset=at))
            break
        if header.base_offset < base_offset or header.last_offset < header.base_offset:
            reason = f"byte {end}: {_disorder(header, base_offset)}"
            break
        end, batches, base_offset = start + header.end, batches + 1, header.last_offset + 1
    torn_end = _after_last_byte(descriptor, end, size)
    torn, zeros = torn_end - end, size - torn_end
    return Recovery(end, base_offset, batches, torn, zeros, reason if torn else "")


def _disorder(header: BatchHeader, due: int) -> str:
    return f"a batch of offsets {header.base_offset} to {header.last_offset}, where {due} is due"


def _after_last_byte(descriptor: int, start: int, end: int) -> int:
    """Return where the zeros before ``end`` begin, but not less than ``start``."""
    while end > start:
        at = max(start, end - _CHUNK_BYTES)
        left = len(os.pread(descriptor, end - at, at).rstrip(b"\0"))
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
    the first record of an empty log gets. Raises BlockingIOError when the file is open in another
    appender, here or in another process; OSError as the file system has it.
    """

    def __init__(self, path: str | os.PathLike[str], *, base_offset: int = 0) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._failure: BaseException | None = None
        self._is_syncing = False
        # A file object, not a bare descriptor: forgotten, it closes itself and lets the lock go.
        self._file = FileIO(self.path, "r+", opener=_open_or_create)
        try:
            self._descriptor = self._file.fileno()
            self._claim()
            self.recovery: Final = self._recover(base_offset)
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
        """The offset that the next record gets."""
        return self._next_offset

    def append(self, batches: Any) -> int:
        """Write one or more whole batches as they are; return ``end``, for ``sync``.

        Checked as recovery does it, for what is acknowledged must outlast that: raises CodecError
        for what is no batch, and ValueError for offsets that the log has already. Then nothing was
        written. Raises AppendFailedError when the disk fails, now or earlier.
        """
        with memoryview(batches) as whole, whole.cast("B") as view, self._lock:
            self._check_usable()
            next_offset, position = self._next_offset, 0
            while position < len(view):
                header = read_header(view, position)
                if header.base_offset < next_offset or header.last_offset < header.base_offset:
                    raise ValueError(_disorder(header, next_offset))
                next_offset, position = header.last_offset + 1, header.end
            return self._write(view, next_offset)

    def append_values(self, values: Sequence[Any], **fields: Any) -> int:
        """Encode one batch at ``next_offset`` and write it; return ``end``, for ``sync``.

        ``fields`` are those of ``encode_batch`` but for base_offset: keys, headers, timestamps,
        partition_leader_epoch, compression and the others. Raises as that does, and
        AppendFailedError when the disk fails, now or earlier.
        """
        # Encoded before the lock is taken: others can go on, and compress at the same time.
        base_offset = self._next_offset
        batch = encode_batch(values, base_offset=base_offset, **fields)
        with self._lock:
            self._check_usable()
            if not batch:
                return self._end
            if base_offset != self._next_offset:  # Another came between. The CRC leaves it out.
                batch = _INT64.pack(self._next_offset) + batch[_INT64.size :]
            (delta,) = _INT32.unpack_from(batch, LAST_OFFSET_DELTA_AT)
            with memoryview(batch) as view:
                return self._write(view, self._next_offset + delta + 1)

    def sync(self, end: int | None = None) -> int:
        """Return ``durable_end``, once it is at least ``end``: by default, all that is written.

        Raises AppendFailedError when it will never be; whether the bytes are on the disk, nobody
        knows then.
        """
        with self._lock:
            if end is None:
                self._check_usable()
            wanted = self._end if end is None else end
            if wanted > self._end:
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
        with self._lock:
            while self._is_syncing:
                self._changed.wait()
            try:
                if not self._file.closed and self._failure is None:
                    self._trim()
            finally:
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

    # Opening.

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EWOULDBLOCK, "the log is open in another appender", str(self.path)
            ) from None

    def _recover(self, base_offset: int) -> Recovery:
        """Find the end of the log and cut what is behind it; what stays is durable."""
        size = os.fstat(self._descriptor).st_size
        if size == 0:
            _sync_directory(self.path.parent)
            return find_end(self._descriptor, base_offset)
        # A killed process left pages unsynced. And after a failed sync Linux calls pages clean that
        # never reached the disk: dropped from the cache, they are read as the disk has them.
        _sync_data(self._descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        found = find_end(self._descriptor, base_offset)
        if found.end < size:
            os.ftruncate(self._descriptor, found.end)
            _sync_data(self._descriptor)
        return found

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

    def _write(self, view: memoryview, next_offset: int) -> int:
        end = self._end + len(view)
        try:
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
        return end

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
                self._durable_end = reached
            elif self._failure is None:
                self._failure = failure
            self._changed.notify_all()
            if isinstance(failure, OSError):
                raise self._failed() from failure
        if failure is not None:
            raise failure


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, _PERMISSIONS)
