"""Where the bytes come from: local files, or an object store by range reads.

A store lists, and opens, and an open ``Source`` reads so many bytes from a position; nothing here
reads a whole object. Local files are read by ``pread`` and not mapped: touching a page that
truncation took away ends the process (SIGBUS), and a log is truncated while it is read. It costs
little: windows of a few MiB stay in the processor's cache, and a mapping saved a tenth at most.

A filesystem is None (local paths, or URIs), a ``pyarrow.fs.FileSystem`` or an fsspec filesystem.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self
from urllib.parse import unquote, urlsplit

import msgspec

from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import RECORDS_AT, BatchHeader
from kraftspec.fastpath.walk import (
    WINDOW_BYTES,
    Resync,
    header_at,
    plausible_size,
    read_file,
    walk_headers,
)

# What one read asks of a source: small enough for the processor's cache, or, where a read is a
# request over the network, large enough for its latency.
LOCAL_WINDOW_BYTES: Final = 2 << 20  # Twice as much took a quarter to a half more CPU time.
REMOTE_WINDOW_BYTES: Final = 16 << 20
# Kafka's own default is 1 MiB (message.max.bytes). A length that a bit made wrong must not make
# the reader take gigabytes.
BATCH_BYTES_MAX: Final = 128 << 20

Filesystem = Any  # None, a pyarrow.fs.FileSystem or an fsspec.AbstractFileSystem: they pickle.


class Entry(msgspec.Struct, frozen=True):
    """A file or a directory of a store; ``size`` is in bytes, 0 for a directory."""

    path: str
    is_directory: bool
    size: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path.rstrip("/"))


class Source:
    """An open file: ``size`` bytes when it was opened. Counts the reads and what they gave."""

    is_remote = True

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.reads = 0
        self.bytes_read = 0

    def read(self, position: int, size: int) -> memoryview:
        """Return ``size`` bytes from ``position``; fewer only where the file ends."""
        if size <= 0:
            return memoryview(b"")
        data = memoryview(self._read(position, size))
        self.reads += 1
        self.bytes_read += len(data)
        return data

    def _read(self, position: int, size: int) -> Any:
        raise NotImplementedError

    def size_now(self) -> int:
        """Return the size that the file has by now."""
        return self.size

    def headers(self, position: int, end: int) -> Iterator[BatchHeader]:
        """Yield the headers from ``position`` on, until ``end`` or what is none."""
        window_bytes = WINDOW_BYTES if self.is_remote else RECORDS_AT
        return walk_headers(self.read, position, end, window_bytes)

    def header_at(self, position: int) -> BatchHeader | None:
        """Read the header at ``position``; None when there is none."""
        return header_at(self.read(position, RECORDS_AT), 0, position)

    def plausible_end(self, position: int, end: int) -> int:
        """Return where what looks like a batch at ``position`` ends, before ``end``; 0 for none."""
        size = plausible_size(self.read(position, RECORDS_AT), 0, end - position)
        return size and position + size

    def has_batch(self, position: int, end: int) -> bool:
        """Whether a whole batch with the right checksum is at ``position``, before ``end``."""
        size = self.plausible_end(position, end) - position
        if not 0 < size <= BATCH_BYTES_MAX:
            return False
        try:
            read_header(self.read(position, size))
        except CodecError:
            return False
        return True

    def resync(self, end: int, batch_bytes_max: int = BATCH_BYTES_MAX) -> Resync:
        """Return what finds batches after damage, before ``end``."""
        return Resync(self.read, end, covers=self.size, batch_bytes_max=batch_bytes_max)

    def close(self) -> None:
        """Let the file go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Store(Protocol):
    """Lists and opens; paths are the store's own."""

    def entry(self, path: str) -> Entry | None:
        """Return what is at ``path``, None when nothing is."""

    def entries(self, path: str) -> list[Entry]:
        """Return what is in the directory ``path``, sorted by path."""

    def open(self, path: str, size: int) -> Source:
        """Open a file of ``size`` bytes, as listed; FileNotFoundError if it was deleted."""


class _LocalSource(Source):
    is_remote = False

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, size)
        self._number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def _read(self, position: int, size: int) -> Any:
        return read_file(self._number, position, size)

    def size_now(self) -> int:
        return os.fstat(self._number).st_size

    def close(self) -> None:
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


class _LocalStore:
    def entry(self, path: str) -> Entry | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_directory = stat.S_ISDIR(status.st_mode)
        return Entry(path, is_directory, 0 if is_directory else status.st_size)

    def entries(self, path: str) -> list[Entry]:
        # A name may go between the listing and the look at it: retention deletes.
        entries = (self.entry(os.path.join(path, name)) for name in sorted(os.listdir(path)))
        return [entry for entry in entries if entry is not None]

    def open(self, path: str, size: int) -> Source:
        return _LocalSource(path, size)


class _ArrowSource(Source):
    def __init__(self, file: Any, path: str, size: int) -> None:
        super().__init__(path, size)
        self._file = file

    def _read(self, position: int, size: int) -> Any:
        left = self._file.size() - position
        return self._file.read_at(min(size, left), position) if left > 0 else b""

    def size_now(self) -> int:
        return int(self._file.size())

    def close(self) -> None:
        self._file.close()


class _ArrowStore:
    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    @staticmethod
    def _entry(info: Any) -> Entry | None:
        if info.type.name == "NotFound":
            return None
        is_directory = info.type.name == "Directory"
        return Entry(info.path, is_directory, 0 if is_directory else info.size)

    def entry(self, path: str) -> Entry | None:
        return self._entry(self._filesystem.get_file_info(path))

    def entries(self, path: str) -> list[Entry]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - heavy

        infos = self._filesystem.get_file_info(FileSelector(path))
        entries = (self._entry(info) for info in infos)
        return sorted((entry for entry in entries if entry is not None), key=_by_path)

    def open(self, path: str, size: int) -> Source:
        return _ArrowSource(self._filesystem.open_input_file(path), path, size)


class _FsspecSource(Source):
    def __init__(self, filesystem: Any, path: str, size: int) -> None:
        super().__init__(path, size)
        self._filesystem = filesystem

    def _read(self, position: int, size: int) -> Any:
        end = min(position + size, self.size)
        if end <= position:
            return b""
        return self._filesystem.cat_file(self.path, start=position, end=end)


class _FsspecStore:
    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    @staticmethod
    def _entry(info: dict[str, Any]) -> Entry:
        is_directory = info["type"] == "directory"
        return Entry(info["name"].rstrip("/"), is_directory, 0 if is_directory else info["size"])

    def entry(self, path: str) -> Entry | None:
        self._filesystem.invalidate_cache()  # Logs grow: what was listed before is old.
        try:
            return self._entry(self._filesystem.info(path))
        except FileNotFoundError:
            return None

    def entries(self, path: str) -> list[Entry]:
        self._filesystem.invalidate_cache()
        entries = map(self._entry, self._filesystem.ls(path, detail=True))
        return sorted((entry for entry in entries if entry.path != path.rstrip("/")), key=_by_path)

    def open(self, path: str, size: int) -> Source:
        return _FsspecSource(self._filesystem, path, size)


def _by_path(entry: Entry) -> str:
    return entry.path


def store_of(filesystem: Filesystem) -> Store:
    """Return the store of a filesystem; TypeError for what is none."""
    if filesystem is None:
        return _LocalStore()
    if hasattr(filesystem, "get_file_info"):
        return _ArrowStore(filesystem)
    if hasattr(filesystem, "cat_file"):
        return _FsspecStore(filesystem)
    raise TypeError(
        "a filesystem is None, a pyarrow.fs.FileSystem or an fsspec filesystem, "
        f"not {type(filesystem).__name__}"
    )


def resolve(path: str | os.PathLike[str], filesystem: Filesystem = None) -> tuple[Filesystem, str]:
    """Return the filesystem of a path or URI, and the path in it.

    ``file:`` is local, ``s3://bucket/key`` and what else pyarrow knows goes to pyarrow.fs, and all
    other schemes to fsspec, which asks for the package that it lacks (ImportError).
    """
    text = os.fspath(path)
    if filesystem is not None:
        return filesystem, text.rstrip("/") or text
    scheme, separator, _ = text.partition("://")
    if text.startswith("file:"):
        return None, unquote(urlsplit(text).path)
    if not separator or not scheme.isalnum():
        return None, os.path.abspath(text)
    from pyarrow import ArrowInvalid  # noqa: PLC0415 - heavy, and not for local paths
    from pyarrow.fs import FileSystem  # noqa: PLC0415 - likewise

    try:
        resolved: tuple[Filesystem, str] = FileSystem.from_uri(text)
    except ArrowInvalid:
        core = import_module("fsspec.core")  # Heavy, and not for local paths.
        where, name = core.url_to_fs(text)
        return where, name
    return resolved
