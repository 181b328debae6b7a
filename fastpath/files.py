"""A file that a log is written to: what it takes of one, and a file of this machine.

Nothing is durable before it is synced: bytes of a file by ``File.sync``, names in a directory by
``sync_directory``.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any, Final, Protocol

from kraftspec.fastpath.walk import read_file

# On macOS, where fsync leaves the data in the disk's own cache.
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)


class File(Protocol):
    """An open file. Every operation may raise OSError, and ``position`` is a byte of the file."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes, fewer only where the file ends before."""

    def write_at(self, position: int, data: Any) -> None:
        """Write all of a buffer; the file grows where that is beyond its end."""

    def size(self) -> int:
        """Return how many bytes the file has."""

    def truncate(self, size: int) -> None:
        """Cut the file; durable, as writes are, with the next ``sync``."""

    def sync(self) -> None:
        """Return once what was written, and what it takes to read it, is on the disk."""

    def settle(self) -> None:
        """Sync what a process that died may have left, and read from then on what the disk has.

        After a sync that failed, the cache of a file may hold what never reached the disk.
        """

    def close(self) -> None:
        """Let the file go; what was not synced is not synced by this."""


class LocalFile:
    """A file of this machine's file system."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor  # Below 0 once it is closed.
        self._is_cut = False  # Since the last sync.

    def read_at(self, position: int, size: int) -> bytes:
        """Read, again where the system gave less and the file goes on."""
        return read_file(self.descriptor, position, size)

    def write_at(self, position: int, data: Any) -> None:
        """Write all of it, again where the system took less."""
        written = os.pwrite(self.descriptor, data, position)
        if written < len(data):
            left = memoryview(data)[written:]
            while left:
                position += written
                written = os.pwrite(self.descriptor, left, position)
                left = left[written:]

    def size(self) -> int:
        """Return the size by fstat."""
        return os.fstat(self.descriptor).st_size

    def truncate(self, size: int) -> None:
        """Cut by ftruncate."""
        os.ftruncate(self.descriptor, size)
        self._is_cut = True

    def sync(self) -> None:
        """Sync the data; after a cut also the inode, which fdatasync may leave out."""
        if _FULL_SYNC is not None:
            fcntl.fcntl(self.descriptor, _FULL_SYNC)
        elif self._is_cut:
            os.fsync(self.descriptor)
            self._is_cut = False
        else:
            os.fdatasync(self.descriptor)

    def settle(self) -> None:
        """Sync, and drop the file from the page cache."""
        self.sync()
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Return once the names in a directory are on the disk: of a file, they are not in it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
