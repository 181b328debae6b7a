"""A file system in memory that forgets what was not synced, as a disk may at a power loss.

``MemoryFiles`` gives the log what ``reference.log.files.Files`` asks for. The model:

* A sector (512 bytes) is written whole or not at all. Of those that were written and not synced, a
  power loss keeps any; where one was lost the file has what it had before, or zeros, or ends.
* A cut of a file, and what was written after it, is lost whole or kept and then as above.
* Names change in order: of the changes in one directory that were not synced, a first part stays.
* A sync that failed may have lost the bytes: the file reads as if they were there until
  ``settle``, as pages do that Linux calls clean.
* A sync may take time: ``begin_sync`` begins one, and the next ``sync`` of that file ends it. Then
  the disk has the bytes of the beginning, and not what was written since.

A hook sees every operation first, and may raise: an OSError for a fault of the disk, or what a test
takes for the end of the process. The same random numbers give the same disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any, Final

SECTOR_BYTES: Final = 512

# Called before an operation: its name, its path, the bytes it writes.
Hook = Callable[[str, str, int], None]


class Inode:
    """The bytes of a file: as a reader sees them, and as the disk has them."""

    __slots__ = ("begun", "current", "cut_to", "dirty", "durable", "is_lost", "remembered")

    def __init__(self) -> None:
        self.current = bytearray()
        self.durable = bytearray()
        self.dirty: list[tuple[int, int]] = []  # What was written since the last sync.
        self.cut_to: int | None = None  # The least size that it was cut to since then.
        self.is_lost = False  # A sync failed.
        self.remembered: Any = None  # What a reader of all its bytes made of them as they are.
        # Of the sync that is under way: where it cuts the file, and what it writes where.
        self.begun: tuple[int | None, list[tuple[int, bytearray]]] | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the disk has what a reader sees."""
        return not (self.dirty or self.is_lost or self.begun) and self.cut_to is None

    def sync(self) -> None:
        """Bring to the disk what was written; where a sync was begun, what was written by then."""
        if self.begun is None:
            self.begin_sync()
        assert self.begun is not None
        cut_to, writes = self.begun
        self.begun = None
        durable = self.durable
        if cut_to is not None:
            del durable[cut_to:]
        for start, data in writes:
            if start > len(durable):
                durable.extend(bytes(start - len(durable)))
            durable[start : start + len(data)] = data

    def begin_sync(self) -> None:
        """Remember what is to be brought to the disk; one that began before never ended."""
        self.give_up_sync()
        current = self.current
        self.begun = self.cut_to, [(start, current[start:stop]) for start, stop in self.dirty]
        self.cut_to = None
        self.dirty.clear()

    def give_up_sync(self) -> None:
        """Let a sync that was begun never end: nobody knows what it has written."""
        if self.begun is not None:
            cut_to, writes = self.begun
            size = len(self.current)
            ranges = [(start, min(start + len(data), size)) for start, data in writes]
            self.dirty[:0] = [(start, stop) for start, stop in ranges if start < stop]
            if cut_to is not None:
                self.cut_to = cut_to if self.cut_to is None else min(cut_to, self.cut_to)
            self.begun = None

    def lose(self) -> None:
        """Fail to sync: what was written is called clean, and is not on the disk."""
        self.dirty.clear()
        self.cut_to = self.begun = None
        self.is_lost = True

    def settle(self) -> None:
        """Sync, and read what the disk has."""
        if self.is_clean:
            return
        self.sync()
        if self.is_lost:
            self.current[:] = self.durable
            self.is_lost = False
            self.remembered = None

    def power_loss(self, random: Random) -> set[str]:
        """Keep any of the sectors that were not synced, and forget the others; say which it did."""
        if self.is_clean:
            return set()
        self.give_up_sync()
        self.remembered = None
        disk = self.durable
        done = set()
        is_cut_kept = self.cut_to is None or random.getrandbits(1) == 1
        if is_cut_kept:
            if self.cut_to is not None:
                del disk[self.cut_to :]
            sectors: dict[int, None] = {}
            for start, stop in self.dirty:
                first = start // SECTOR_BYTES
                sectors |= dict.fromkeys(range(first, (stop - 1) // SECTOR_BYTES + 1))
            for sector in sectors:
                if random.getrandbits(1):
                    self._keep(sector * SECTOR_BYTES)
                    done.add("kept")
                else:
                    done.add("lost")
            if sectors and random.getrandbits(1) and len(disk) < len(self.current):
                disk.extend(bytes(len(self.current) - len(disk)))  # The size alone was written.
        elif self.dirty:
            done.add("lost")
        self.current = bytearray(disk)
        self.dirty.clear()
        self.cut_to = None
        self.is_lost = False
        return done

    def _keep(self, at: int) -> None:
        data = self.current[at : at + SECTOR_BYTES]
        if data:
            if len(self.durable) < at:
                self.durable.extend(bytes(at - len(self.durable)))
            self.durable[at : at + len(data)] = data


class MemoryFile:
    """An open file of a ``MemoryFiles``."""

    __slots__ = ("_files", "_inode", "_path")

    def __init__(self, files: MemoryFiles, inode: Inode, path: str) -> None:
        self._files = files
        self._inode = inode
        self._path = path

    def read_at(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes, fewer only where the file ends before."""
        if self._files.hook is not None:
            self._files.hook("read", self._path, 0)
        return bytes(self._inode.current[position : position + size])

    def write_at(self, position: int, data: Any) -> None:
        """Write all of a buffer; on a full disk what fits, and an OSError."""
        files = self._files
        if files.hook is not None:
            files.hook("write", self._path, len(data))
        inode = self._inode
        inode.remembered = None
        current = inode.current
        stop = position + len(data)
        start = position
        if stop > len(current):
            if files.capacity_bytes is not None:
                files.check_room(stop - len(current), self, position, data)
            if position > len(current):
                start = len(current)
                current.extend(bytes(position - start))
        current[position:stop] = data
        dirty = inode.dirty
        if dirty and dirty[-1][1] == start:
            dirty[-1] = (dirty[-1][0], stop)
        elif stop > start:
            dirty.append((start, stop))

    def size(self) -> int:
        """Return how many bytes the file has."""
        return len(self._inode.current)

    def truncate(self, size: int) -> None:
        """Cut the file, or let it grow by zeros."""
        if self._files.hook is not None:
            self._files.hook("truncate", self._path, 0)
        inode = self._inode
        if size > len(inode.current):
            self.write_at(len(inode.current), bytes(size - len(inode.current)))
            return
        inode.remembered = None
        del inode.current[size:]
        if size < len(inode.durable) or inode.begun is not None:
            inode.cut_to = size if inode.cut_to is None else min(inode.cut_to, size)
        inode.dirty = [(start, min(stop, size)) for start, stop in inode.dirty if start < size]

    def sync(self) -> None:
        """Bring what was written to the disk; where the hook raises an OSError, it may be lost."""
        hook = self._files.hook
        if hook is not None:
            try:
                hook("sync", self._path, 0)
            except OSError:
                self._inode.lose()
                raise
        self._inode.sync()

    def settle(self) -> None:
        """Sync, and read from then on what the disk has."""
        self._inode.settle()

    @property
    def remembered(self) -> Any:
        """What a reader left here that read the whole file; None once its bytes have changed.

        Where somebody wants to see each read, nothing is left here, nor found.
        """
        return None if self._files.is_read_watched else self._inode.remembered

    @remembered.setter
    def remembered(self, value: Any) -> None:
        if not self._files.is_read_watched:
            self._inode.remembered = value

    def close(self) -> None:
        """Let the file go."""


class MemoryLock:
    """A lock that is held until it is closed, or the process ends."""

    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self._path = path

    def close(self) -> None:
        """Let others have it."""
        self._files.locks.discard(self._path)


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory or "/", name


class MemoryFiles:
    """The file system of one simulated machine; ``/`` is there."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.hook: Hook | None = None
        self.hook_sees_reads = True  # Else readers may spare themselves what they read before.
        self.capacity_bytes = capacity_bytes
        self.locks: set[str] = set()
        self.known: dict[str, Any] = {}  # What a reader of a directory left for the next one.
        self._names: dict[str, dict[str, Inode | None]] = {"/": {}}
        self._durable_names: dict[str, dict[str, Inode | None]] = {"/": {}}
        # Changes of names not synced, a directory: (old name or none, new name or none, file).
        self._changes: dict[str, list[tuple[str, str, Inode | None]]] = {}

    def _called(self, operation: str, path: str) -> None:
        if self.hook is not None:
            self.hook(operation, path, 0)

    def _inside(self, directory: str) -> dict[str, Inode | None]:
        names = self._names.get(directory.rstrip("/") or "/")
        if names is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return names

    def _change(self, directory: str, old: str, new: str, inode: Inode | None) -> None:
        names = self._names[directory]
        _apply(names, old, new, inode)
        self._changes.setdefault(directory, []).append((old, new, inode))

    def check_room(self, grows_by: int, file: MemoryFile, position: int, data: Any) -> None:
        """Raise OSError where the disk is full, once what fits is written."""
        inodes = {id(one): one for names in self._names.values() for one in names.values() if one}
        assert self.capacity_bytes is not None
        room = self.capacity_bytes - sum(len(one.current) for one in inodes.values())
        if grows_by > room:
            capacity, self.capacity_bytes = self.capacity_bytes, None
            try:
                file.write_at(position, data[: max(0, len(data) - grows_by + max(0, room))])
            finally:
                self.capacity_bytes = capacity
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file; FileNotFoundError where it is missing, unless ``create``."""
        if self.hook is not None:
            self.hook("open", path, 0)
        directory, _, name = path.rpartition("/")
        names = self._names.get(directory) or self._inside(directory)
        inode = names.get(name)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = Inode()
            self._change(directory or "/", "", name, inode)
        return MemoryFile(self, inode, path)

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self._called("names", directory)
        return sorted(self._inside(directory))

    def inodes(self, directory: str) -> dict[str, Inode | None]:
        """Return what stands behind the names in a directory; None behind a directory's."""
        return self._names[directory]

    @property
    def is_read_watched(self) -> bool:
        """Whether somebody sees each operation, those that only read too."""
        return self.hook is not None and self.hook_sees_reads

    def make_directory(self, path: str) -> None:
        """Make a directory where there is none."""
        self._called("make_directory", path)
        parent, name = _split(path.rstrip("/"))
        if name not in self._inside(parent):
            self._names[path] = {}
            self._durable_names[path] = {}
            self._change(parent, "", name, None)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in its directory."""
        self._called("rename", source)
        directory, old = _split(source)
        other, new = _split(target)
        if directory != other:
            raise OSError(errno.EXDEV, "a file is renamed within its directory", source)
        if old not in self._inside(directory):
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._change(directory, old, new, self._names[directory][old])

    def remove(self, path: str) -> None:
        """Remove a name; none is no error."""
        self._called("remove", path)
        directory, name = _split(path)
        if name in self._inside(directory):
            self._change(directory, name, "", None)

    def make_read_only(self, path: str) -> None:
        """Do nothing: here nobody writes to what is not theirs."""
        self._called("make_read_only", path)

    def sync_directory(self, path: str) -> None:
        """Bring the names in a directory to the disk."""
        self._called("sync_directory", path)
        self._inside(path)
        names = self._durable_names[path]
        for change in self._changes.pop(path, ()):
            _apply(names, *change)

    def lock(self, path: str) -> MemoryLock:
        """Lock a file, which is made where it is missing."""
        if path in self.locks:
            raise BlockingIOError(
                errno.EWOULDBLOCK, "another node has this log directory open", path
            )
        self.open(path, create=True)
        self.locks.add(path)
        return MemoryLock(self, path)

    def begin_sync(self, path: str) -> None:
        """Begin a sync of a file that has this name, which the next ``sync`` of it ends."""
        self._inode(path).begin_sync()

    def kill(self) -> None:
        """End the process: its locks go, and the disk is as it was seen."""
        self.locks.clear()
        for names in self._names.values():
            for inode in names.values():
                if inode is not None and inode.begun is not None:
                    inode.give_up_sync()

    def power_loss(self, random: Random) -> dict[str, list[str]]:
        """End the process and forget what was not synced, or any of it.

        Return the files that lost bytes, those that kept a part of them, and the names that were
        lost.
        """
        self.kill()
        losses: dict[str, list[str]] = {"lost write": [], "torn write": [], "lost name": []}
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            kept = self._durable_names[directory]
            count = random.getrandbits(16) % (len(changes) + 1)
            losses["lost name"] += [f"{directory}/{new or old}" for old, new, _ in changes[count:]]
            for old, new, inode in changes[:count]:
                _apply(kept, old, new, inode)
        self._changes.clear()
        for directory in sorted(kept for kept in self._durable_names if kept != "/"):
            parent, name = _split(directory)
            if name not in self._durable_names.get(parent, {}):
                del self._durable_names[directory]
        seen: dict[int, Inode] = {}
        for directory in sorted(self._durable_names):
            names = self._durable_names[directory]
            for name in sorted(name for name, inode in names.items() if _may_lose(inode)):
                inode = names[name]
                if inode is not None and id(inode) not in seen:
                    seen[id(inode)] = inode
                    done = inode.power_loss(random)
                    if "lost" in done:
                        losses["lost write"].append(f"{directory}/{name}")
                    if len(done) > 1:
                        losses["torn write"].append(f"{directory}/{name}")
        self._names = {path: dict(names) for path, names in self._durable_names.items()}
        return {kind: paths for kind, paths in losses.items() if paths}

    def corrupt(self, path: str, position: int, mask: int) -> None:
        """Flip bits of a byte at rest: its reader sees it, and so does the next life."""
        inode = self._inode(path)
        inode.remembered = None
        inode.current[position] ^= mask
        if position < len(inode.durable):
            inode.durable[position] ^= mask

    def content(self, path: str) -> bytes:
        """Return the bytes of a file as a reader sees them."""
        return bytes(self._inode(path).current)

    def _inode(self, path: str) -> Inode:
        directory, name = _split(path)
        inode = self._inside(directory)[name]
        assert inode is not None
        return inode


def _may_lose(inode: Inode | None) -> bool:
    return inode is not None and not inode.is_clean


def _apply(names: dict[str, Inode | None], old: str, new: str, inode: Inode | None) -> None:
    if old:
        names.pop(old, None)
    if new:
        names[new] = inode
