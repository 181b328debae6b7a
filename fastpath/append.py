"""A log that is appended to: write, sync, and an end that survives a power loss.

The file is record batches one after another, as in a segment of Kafka's, and while it is open a
tail of zeros::

    | batch | batch | ... | batch | batch | 0 0 0 0 0 0 0 0 0 |
    ^ 0              durable_end ^        ^ end               ^ size of the file

    write()  writes at ``end``: a reader of the file sees the bytes, a power loss may lose them
    sync()   returns once they are on the disk: the only acknowledgement there is

The zeros are written and synced before batches overwrite them, so syncing a batch moves no end of
file and allocates no block: the disk has one write to do, and the journal of the file system none.
What syncs while another sync is under way waits for it, and then all that was written meanwhile
shares one sync (group commit).

``Appender`` does that to any ``File``: the segments of a node's log are made of it. ``LogAppender``
is a log of one file of this machine, with offsets, for any number of threads. Opening it recovers:
the valid prefix stays, the zeros and what a crash left are cut, and ``recovery`` says what went.
Damage that no crash leaves is not cut but told, as a ``CorruptLogError``. After an error of the
disk nothing more is written or acknowledged: opening again tells what there is. Linux and macOS;
the file must be on a file system that honours sync.
"""

from __future__ import annotations

import errno
import fcntl
import operator
import os
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn

from kraftspec.fastpath.batch_fields import INT64_MAX
from kraftspec.fastpath.batch_reader import view_of
from kraftspec.fastpath.batch_writer import encode_batch, encode_control_batch
from kraftspec.fastpath.files import File, LocalFile, sync_directory
from kraftspec.fastpath.records import LAST_OFFSET_DELTA_AT
from kraftspec.fastpath.recovery import UNSYNCED_BYTES_MAX, Recovery, check_batches, find_end

# Each time these are used up, one sync also writes zeros and grows the file. More at a time makes
# that sync longer (4 MiB: 20 ms where three nodes share a disk); fewer makes it more frequent.
ZERO_AHEAD_BYTES_MAX: Final = 512 << 10

_ZEROS: Final = memoryview(bytes(ZERO_AHEAD_BYTES_MAX))
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class AppendFailedError(OSError):
    """The disk failed under a log, which is of no use now; opened anew it is recovered."""


class CorruptLogError(ValueError):
    """A file has damage that no crash leaves. It was not opened, and nothing was truncated.

    ``recovery`` has the details. ``LogAppender(path, cut_corrupt=True)`` truncates it.
    """

    def __init__(self, path: str, recovery: Recovery) -> None:
        super().__init__(path, recovery)
        self.path = path
        self.recovery = recovery

    def __str__(self) -> str:
        at = self.recovery
        return (
            f"{self.path}: {at.reason}. Before byte {at.end} are {at.batches} good batches, "
            f"after it {at.good_bytes} bytes of good batches, and no crash of an appender leaves "
            f"that; so nothing was truncated. Is it the right file? Keep a copy; then "
            f"LogAppender(..., cut_corrupt=True) keeps {at.end} bytes of it, and drops the rest"
        )


class Appended(NamedTuple):
    """Where an append went. Its records have the offsets from ``base_offset`` on."""

    base_offset: int  # Of the first record; of the next to come, where there was none.
    end: int  # The byte of the file after it: what ``sync`` takes.


class Appender:
    """Writes at the end of one file. One thread may write while others sync.

    ``end`` is the byte after what is written, ``durable_end`` after what is synced and
    ``zeroed_end`` after the zeros. An error of the disk is raised as it is and kept as ``failure``:
    then it is not known what the disk has, and nothing more is synced.
    """

    __slots__ = (
        "_changed",
        "_is_cut",
        "_is_syncing",
        "_lock",
        "durable_end",
        "end",
        "failure",
        "file",
        "zeroed_end",
    )

    def __init__(self, file: File, end: int = 0) -> None:
        self.file = file
        self.end = self.durable_end = self.zeroed_end = end
        self.failure: BaseException | None = None
        self._lock = threading.RLock()  # ``close`` has it while it syncs.
        self._changed: threading.Condition | None = None  # Made by the first that waits.
        self._is_syncing = False
        self._is_cut = False  # Since the last sync.

    def write(self, data: Any, zeros_max: int, size_max: int = INT64_MAX) -> int:
        """Write bytes at the end; return where they begin.

        ``zeros_max`` is how many zeros to write ahead at the most (more than 512 KiB are never
        written), and ``size_max`` the size at which the file will end.
        """
        position = self.end
        end = position + len(data)
        try:
            if end - self.durable_end > UNSYNCED_BYTES_MAX and self.durable_end < position:
                self.file.sync()
                self.durable_end = position
            if end > self.zeroed_end and zeros_max:
                self._write_zeros(end, min(zeros_max, size_max - end))
            self.file.write_at(position, data)
        except BaseException as error:
            # Bytes of no known number are in the file now. Ctrl-C is such an error, too.
            self.failure = error
            raise
        self.end = end
        return position

    def _write_zeros(self, start: int, count_max: int) -> None:
        count = max(min(count_max, ZERO_AHEAD_BYTES_MAX), 0)
        if count:
            self.file.write_at(start, _ZEROS[:count])
        self.zeroed_end = start + count

    def sync(self, end: int | None = None) -> int:
        """Return ``durable_end``, once it is at least ``end``: by default, all that is written."""
        if end is None:
            end = self.end
        while True:
            with self._lock:
                while self._is_syncing and (self.durable_end < end or self._is_cut):
                    self._wait()
                if self.durable_end >= end and not self._is_cut:
                    return self.durable_end
                self._check_usable()
                self._is_syncing, self._is_cut = True, False
                reached = self.end
            failure: BaseException | None = None
            try:
                self.file.sync()
            except BaseException as error:
                failure = error
            with self._lock:
                self._is_syncing = False
                if failure is None:
                    self.durable_end = max(self.durable_end, reached)
                elif self.failure is None:
                    self.failure = failure
                self._notify()
            if failure is not None:
                raise failure

    def _wait(self) -> None:
        """Wait, with the lock held, until a sync has ended."""
        if self._changed is None:
            self._changed = threading.Condition(self._lock)
        self._changed.wait()

    def _notify(self) -> None:
        """Wake those that wait; with the lock held."""
        if self._changed is not None:
            self._changed.notify_all()

    def cut(self, end: int) -> None:
        """Cut what is behind ``end``, zeros too; durable on return."""
        self.end = self.zeroed_end = end
        self.durable_end = min(self.durable_end, end)
        self.file.truncate(end)
        self._is_cut = True
        self.sync()

    def trim(self) -> None:
        """Cut the zeros; all that is written is durable on return."""
        if self.zeroed_end > self.end:
            self.cut(self.end)
        else:
            self.sync()

    def _check_usable(self) -> None:
        """With the lock held: raise where nothing can become durable any more."""
        if self.failure is not None:
            raise self.failure


class LogAppender(Appender):
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

    file: LocalFile

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
        self._forks = _forks
        self._process = os.getpid()
        self.file = LocalFile(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            self._claim()
            self.recovery = self._recover(base_offset, cut_corrupt)
        except BaseException:
            self.file.close()
            raise
        super().__init__(self.file, self.recovery.end)
        self._next_offset = self.recovery.next_offset

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
                end = self.end
            target = operator.index(end.end if isinstance(end, Appended) else end)
            if not 0 <= target <= self.end:
                raise ValueError(f"byte {target} is not written: the log ends at {self.end}")
        durable_end: int = self._on_disk(super().sync, target)
        return durable_end

    def close(self) -> None:
        """Sync, cut the zeros, and let the file go; a second call does nothing.

        After a failure the file is left as it is, for recovery to judge.
        """
        if self._forks != _forks:
            self.file.close()
            return
        with self._lock:
            while self._is_syncing:
                self._wait()
            try:
                if not self._is_closed and self.failure is None:
                    self._on_disk(self.trim)
            finally:
                if not self._is_closed:  # A forked process may have the file still, locked.
                    fcntl.flock(self.file.descriptor, fcntl.LOCK_UN)
                self.file.close()
                self._notify()

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
            fcntl.flock(self.file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EWOULDBLOCK, "the log is open in another appender", str(self.path)
            ) from None

    def _recover(self, base_offset: int | None, cut_corrupt: bool) -> Recovery:
        """Find the end of the log and cut what is behind it; what stays is durable."""
        size = self.file.size()
        if size == 0:
            sync_directory(self.path.parent)
        else:
            self.file.settle()
        recovery = find_end(self.file.read_at, size, base_offset or 0)
        if recovery.is_corrupt and not cut_corrupt:
            raise CorruptLogError(str(self.path), recovery)
        if base_offset is not None and recovery.base_offset < base_offset:
            raise ValueError(
                f"{self.path} starts at offset {recovery.base_offset}, base_offset is "
                f"{base_offset}: that is for an empty log; leave it out"
            )
        if recovery.end < size:
            self.file.truncate(recovery.end)
            self.file.sync()
        return recovery

    def _append(self, encode: Callable[..., bytes], *arguments: Any, **fields: Any) -> Appended:
        self._check_process()
        # Encoded before the lock is taken: others can go on, and compress at the same time.
        base_offset = self._next_offset
        batch = encode(*arguments, base_offset=base_offset, **fields)
        with self._lock:
            self._check_usable()
            if not batch:
                return Appended(self._next_offset, self.end)
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
        if self.failure is not None:
            raise self._failed() from self.failure
        if self._is_closed:
            raise ValueError(f"{self.path} is closed")

    @property
    def _is_closed(self) -> bool:
        return self.file.descriptor < 0

    def _failed(self) -> AppendFailedError:
        number = getattr(self.failure, "errno", None) or errno.EIO
        return AppendFailedError(
            number,
            f"the log failed ({self.failure!r}): {self.durable_end} bytes are durable, "
            f"what follows is not acknowledged; close it and open it again",
            str(self.path),
        )

    def _write(self, view: memoryview, base_offset: int, next_offset: int) -> Appended:
        self._on_disk(self.write, view, ZERO_AHEAD_BYTES_MAX)
        self._next_offset = next_offset
        return Appended(base_offset, self.end)

    def _on_disk(self, do: Callable[..., int | None], *arguments: Any) -> Any:
        """Do what needs the disk; AppendFailedError where that fails."""
        try:
            return do(*arguments)
        except AppendFailedError:
            raise
        except OSError as error:
            if self.failure is None:
                self.failure = error
            raise self._failed() from error


# How many forks lead to this process: an integer to compare, where its id takes a system call.
_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - a process has as many as it has
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
