"""What the log asks of a disk: a seam of a few operations, and the real one beneath it.

Nothing is durable before it is synced: bytes of a file by ``File.sync``, names in a directory by
``Files.sync_directory``. A simulated disk has the same two, and loses the rest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Final, Protocol

from kraftspec.fastpath.files import File, LocalFile, sync_directory

_FILE_PERMISSIONS: Final = 0o644
_READ_ONLY_PERMISSIONS: Final = 0o400  # Those of Kafka's own checkpoints.


class Lock(Protocol):
    """A lock that is held; it goes with its process, too."""

    def close(self) -> None:
        """Let others have it."""


class ReadableFiles(Protocol):
    """What reading takes of a file system. Paths have slashes; both may raise OSError."""

    def open(self, path: str) -> File:
        """Open a file, to read it; FileNotFoundError where it is missing."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; FileNotFoundError where it is missing."""


class Files(Protocol):
    """A file system. Paths have slashes; every operation may raise OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file to read and write; FileNotFoundError unless ``create``."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; FileNotFoundError where it is missing."""

    def make_directory(self, path: str) -> None:
        """Make a directory where there is none; its parent is there."""

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, at once; what had that name is gone."""

    def remove(self, path: str) -> None:
        """Remove a name; none is no error."""

    def make_read_only(self, path: str) -> None:
        """Take away the permission to write a file."""

    def sync_directory(self, path: str) -> None:
        """Return once the names in a directory are on the disk."""

    def lock(self, path: str) -> Lock:
        """Lock a file, which is made where it is missing; BlockingIOError where it is locked."""


# The locks of this process: those of fcntl do not hold against their own process.
_held: set[tuple[int, int]] = set()
_held_guard = threading.Lock()


class LocalLock:
    """A lock by fcntl, which is what Java's FileLock is: held against Kafka, and by it."""

    def __init__(self, path: str) -> None:
        with _held_guard:
            # Before opening: closing any descriptor of the file would let our own lock go.
            if Path(path).exists() and self._key(os.stat(path)) in _held:
                raise _locked(path)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._descriptor)
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise _locked(path) from None
                raise
            self._held_as = self._key(os.fstat(self._descriptor))
            _held.add(self._held_as)

    @staticmethod
    def _key(status: os.stat_result) -> tuple[int, int]:
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close the file, which lets the lock go; a second call does nothing."""
        with _held_guard:
            if self._held_as in _held:
                _held.discard(self._held_as)
                os.close(self._descriptor)


def _locked(path: str) -> BlockingIOError:
    return BlockingIOError(
        errno.EWOULDBLOCK,
        "another node, of Kafka's or of ours, has this log directory open; stop it first",
        path,
    )


class LocalFiles:
    """The file system of this machine. Linux and macOS."""

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        """Open a file to read and write."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return LocalFile(os.open(path, flags, _FILE_PERMISSIONS))
        except PermissionError:  # A checkpoint: it is read-only.
            return LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def names(self, directory: str) -> list[str]:
        """List a directory."""
        return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        """Make a directory where there is none."""
        Path(path).mkdir(exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Rename a file over another."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink a name."""
        Path(path).unlink(missing_ok=True)

    def make_read_only(self, path: str) -> None:
        """Leave the owner the permission to read, and nobody another."""
        Path(path).chmod(_READ_ONLY_PERMISSIONS)

    def sync_directory(self, path: str) -> None:
        """Sync a directory's names."""
        sync_directory(path)

    def lock(self, path: str) -> LocalLock:
        """Lock a file against other processes, Java's too, and against this one."""
        return LocalLock(path)


class ReadOnlyFiles:
    """The file system of this machine, for whoever may change nothing."""

    def open(self, path: str) -> LocalFile:
        """Open a file to read."""
        return LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def names(self, directory: str) -> list[str]:
        """List a directory."""
        return sorted(os.listdir(directory))


def ensure_directory(files: Files, path: str) -> None:
    """Make a directory where there is none; its name is durable on return."""
    files.make_directory(path)
    parent, slash, _ = path.rstrip("/").rpartition("/")
    files.sync_directory(parent or slash or ".")


def read_whole(files: ReadableFiles, path: str) -> bytes:
    """Return all bytes of a file."""
    file = files.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def replace_whole(files: Files, directory: str, name: str, data: bytes) -> None:
    """Write a file so that a crash leaves the old one whole, or the new one; durable on return."""
    temporary = f"{directory}/{name}.tmp"
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, f"{directory}/{name}")
    files.sync_directory(directory)
