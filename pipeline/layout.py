"""The segments and checkpoints in Kafka's directories, recognised by their names.

A log directory has a directory a partition, ``TOPIC-PARTITION``; that has ``OFFSET.log`` and, for
the metadata log, ``OFFSET-EPOCH.checkpoint`` (``org.apache.kafka.storage.internals.log
.LogFileUtils``, ``org.apache.kafka.snapshot.Snapshots``). Whatever a crash, a deletion or a
compaction leaves beside them (``-delete``, ``.deleted``, ``.cleaned``, ``.swap``) is no part of
the log, and is told as ignored.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final, Literal

import msgspec

from kraftspec.fastpath.records import MAGIC_AT
from kraftspec.pipeline.files import Entry, Filesystem, Source, Store, resolve, store_of

Kind = Literal["segment", "checkpoint"]

_SEGMENT = re.compile(r"(\d{20})\.log")
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_LEAVING = re.compile(r"(.+)-(\d{1,10})\.[0-9a-fA-F]{32}-(delete|future|stray)")
_LEFT_OVER = re.compile(r".+\.(deleted|cleaned|swap|part|delete)")
# The files of a segment that help to read it.
INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")

LEVELS: Final = 2  # Of directories above log directories: as `quorum up` has them, NODE/log.
MAGICS: Final = (0, 1, 2)  # Of messages and of batches; they have it at the same place.

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class LogFile(msgspec.Struct, frozen=True):
    """A file of batches. It pickles, its filesystem with it.

    ``base_offset`` is that of a segment's name; of a checkpoint's, the offset after its last
    record, ``epoch`` being that record's. -1 where the name does not say. ``end_offset`` is the
    base offset of the partition's next segment: no record here has it or a later one. ``topic``
    and ``partition`` are those of the directory, None where it has another name.
    """

    path: str
    kind: Kind
    topic: str | None
    partition: int | None
    base_offset: int
    size: int
    epoch: int = -1
    end_offset: int | None = None
    indexes: tuple[str, ...] = ()
    filesystem: Filesystem = None

    def open(self) -> Source:
        """Open the file; FileNotFoundError when retention took it meanwhile."""
        return store_of(self.filesystem).open(self.path, self.size)

    def sibling(self, suffix: str) -> str:
        """Return the path of the file beside this one that ends in ``suffix``."""
        return posixpath.splitext(self.path)[0] + suffix


class Ignored(msgspec.Struct, frozen=True):
    """What was met and is not read, and why."""

    path: str
    reason: str


class Survey(msgspec.Struct, frozen=True):
    """The files below a path: those to read, and those that are ignored."""

    files: list[LogFile]
    ignored: list[Ignored]


def _names(directory: str) -> tuple[str | None, int | None]:
    """Return the topic and partition that a directory is named for."""
    name = posixpath.basename(directory)
    match = _LEAVING.fullmatch(name) or _PARTITION.fullmatch(name)
    return (match[1], int(match[2])) if match else (None, None)


def _has_batches(file: LogFile) -> bool:
    """Whether a batch begins in a file: the first may be damaged, but then has its magic."""
    with file.open() as source:
        magic = bytes(source.read(MAGIC_AT, 1))
        if magic and magic[0] in MAGICS:
            return True
        return source.resync(source.size).next_good(0) is not None


class _Surveyor:
    def __init__(self, store: Store, filesystem: Filesystem) -> None:
        self.store = store
        self.filesystem = filesystem
        self.files: list[LogFile] = []
        self.ignored: list[Ignored] = []

    def file(self, entry: Entry, beside: frozenset[str], end_offset: int | None) -> LogFile:
        topic, partition = _names(posixpath.dirname(entry.path))
        segment, checkpoint = _SEGMENT.fullmatch(entry.name), _CHECKPOINT.fullmatch(entry.name)
        offset = int((segment or checkpoint or ("", "-1"))[1])
        is_checkpoint = entry.name.endswith(".checkpoint")
        stem = posixpath.splitext(entry.name)[0]
        return LogFile(
            path=entry.path,
            kind="checkpoint" if is_checkpoint else "segment",
            topic=topic,
            partition=partition,
            base_offset=offset,
            size=entry.size,
            epoch=int(checkpoint[2]) if checkpoint else -1,
            end_offset=end_offset,
            indexes=tuple(suffix for suffix in INDEX_SUFFIXES if stem + suffix in beside),
            filesystem=self.filesystem,
        )

    def one(self, entry: Entry) -> None:
        """Add a file that was named itself; any name will do. Look for its indexes.

        Raises ``ValueError`` if neither its name nor its bytes are those of a log.
        """
        parent = posixpath.dirname(entry.path)
        listed = self.store.entries(parent) if _SEGMENT.fullmatch(entry.name) else []
        later = [each.name for each in listed if _SEGMENT.fullmatch(each.name)]
        following = [int(name[:20]) for name in later if name > entry.name]
        beside = frozenset(each.name for each in listed)
        file = self.file(entry, beside, min(following, default=None))
        if file.base_offset < 0 and file.size and not _has_batches(file):
            raise ValueError(
                f"{entry.path} is no log file: no record batch begins in its {file.size:,} bytes, "
                "and it has not the name of a segment (20 digits.log) or of a checkpoint "
                "(20 digits-10 digits.checkpoint)"
            )
        self.files.append(file)

    def partition(self, entries: list[Entry]) -> None:
        """Add the files of one partition's directory."""
        files = [entry for entry in entries if not entry.is_directory]
        beside = frozenset(entry.name for entry in files)
        segments = [entry for entry in files if _SEGMENT.fullmatch(entry.name)]
        for entry, following in zip_longest(segments, segments[1:]):
            end = int(following.name[:20]) if following else None
            self.files.append(self.file(entry, beside, end))
        for entry in files:
            if _CHECKPOINT.fullmatch(entry.name):
                self.files.append(self.file(entry, beside, None))
            elif _LEFT_OVER.fullmatch(entry.name):
                reason = "not part of the log: being deleted, compacted or fetched"
                self.ignored.append(Ignored(entry.path, reason))

    def directory(self, path: str, levels: int) -> bool:
        """Add what is in a directory; return whether it is one of Kafka's."""
        entries = self.store.entries(path)
        is_partition = _names(path) != (None, None)
        if is_partition or any(
            _SEGMENT.fullmatch(entry.name) or _CHECKPOINT.fullmatch(entry.name)
            for entry in entries
            if not entry.is_directory
        ):
            self.partition(entries)
            return True
        has_logs = False
        for entry in entries:
            if not entry.is_directory:
                continue
            if leaving := _LEAVING.fullmatch(entry.name):
                reason = f"a partition that is not in use: {leaving[3]}"
                self.ignored.append(Ignored(entry.path, reason))
                has_logs = True
            elif _PARTITION.fullmatch(entry.name):
                self.partition(self.store.entries(entry.path))
                has_logs = True
            elif levels:
                has_logs |= self.directory(entry.path, levels - 1)
        return has_logs


def survey(paths: Paths, filesystem: Filesystem = None) -> Survey:
    """Find the segments and checkpoints below paths, and what is passed over.

    A path is a file, a partition's directory, a log directory, or one that holds log directories,
    ``LEVELS`` below it at most. FileNotFoundError when there is nothing, ValueError for a file or a
    directory that is none of Kafka's.
    """
    files: dict[str, LogFile] = {}
    ignored: list[Ignored] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        where, name = resolve(path, filesystem)
        surveyor = _Surveyor(store_of(where), where)
        entry = surveyor.store.entry(name)
        if entry is None:
            raise FileNotFoundError(f"there is no file or directory {os.fspath(path)}")
        if not entry.is_directory:
            surveyor.one(entry)
        elif not surveyor.directory(name, levels=LEVELS):
            raise ValueError(
                f"{os.fspath(path)} is no log directory: it has neither segments (20 digits.log), "
                "nor checkpoints, nor directories named TOPIC-PARTITION"
            )
        files |= {file.path: file for file in surveyor.files}  # Each once, however often named.
        ignored += surveyor.ignored
    return Survey(sorted(files.values(), key=_in_order), ignored)


def _in_order(file: LogFile) -> tuple[str, int, str, int, str]:
    partition = -1 if file.partition is None else file.partition
    return file.topic or "", partition, posixpath.dirname(file.path), file.base_offset, file.path


def discover(paths: Paths, filesystem: Filesystem = None) -> list[LogFile]:
    """Return the segments and checkpoints below paths, by topic, partition and offset.

    See ``survey`` for what a path may be and what is raised.
    """
    return survey(paths, filesystem).files
