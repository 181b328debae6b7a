"""Which transactional data was aborted, and up to where it is decided.

Kafka writes the data of a transaction at once, and a control record that commits or aborts it
later (KIP-98). Only these markers are believed. The ``.txnindex`` of a segment
(``TransactionIndex``) says the same without a checksum, and nothing more of the data that is there:
a marker stands after its data, and is deleted or compacted away no sooner.

A transaction that is open at the end of the log is not decided. Its first offset is the *last
stable offset*: as Kafka's consumers do, a reader of committed data stops there, before all that
follows, data of no transaction included.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import BatchHeader
from kraftspec.pipeline.files import Source, resolve
from kraftspec.pipeline.headers import Search, walk
from kraftspec.pipeline.layout import LogFile, survey

ABORT: Final = 0  # ControlRecordType
COMMIT: Final = 1
_KEY = struct.Struct(">hh")  # version, type
OFFSET_MAX: Final = (1 << 63) - 1
MARKER_BYTES_MAX: Final = 1 << 16  # A marker takes 78 bytes.


class Aborted(msgspec.Struct, frozen=True):
    """An aborted transaction: its data lies from its first offset to its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions(msgspec.Struct, frozen=True):
    """What is known of a partition's transactions: aborted ones, and the last stable offset.

    ``last_stable_offset`` is ``OFFSET_MAX`` when no transaction is open.
    """

    aborted: tuple[Aborted, ...] = ()
    last_stable_offset: int = OFFSET_MAX

    def by_producer(self) -> dict[int, list[tuple[int, int]]]:
        """Return the offsets of aborted transactions, from and to, of each producer."""
        found: dict[int, list[tuple[int, int]]] = {}
        for each in self.aborted:
            found.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        return found


def transactions_of(files: Sequence[LogFile]) -> Transactions:
    """Find the transactions of one partition, of which ``files`` are some segments or all.

    The segments beside them are looked at too: a marker may stand in a later one than its data.
    """
    return _Finder().run(_whole(files))


def _whole(files: Sequence[LogFile]) -> list[LogFile]:
    """Return all segments of the partition that these files are of."""
    segments = [file for file in files if file.kind == "segment"]
    named = [file for file in segments if file.base_offset >= 0]
    if not named:
        return segments
    first = named[0]
    filesystem, directory = resolve(first.path.rpartition("/")[0], first.filesystem)
    try:
        beside = survey(directory, filesystem).files
    except (FileNotFoundError, ValueError):
        return segments  # Retention took them all; who reads these will say that they are gone.
    found = {file.path: file for file in beside if file.kind == "segment"}
    found |= {file.path: file for file in segments}
    return sorted(found.values(), key=lambda file: file.base_offset)


class _Finder:
    """Walks the headers of a partition, and remembers who has a transaction open since when."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # Producer id → first offset.
        self.aborted: list[Aborted] = []

    def run(self, files: Sequence[LogFile]) -> Transactions:
        """Walk all files, in the order of their offsets."""
        for file in files:
            try:
                with file.open() as source:
                    self._walk(source)
            except FileNotFoundError:
                continue  # Retention took it; with it went its data.
        return Transactions(tuple(self.aborted), min(self.open.values(), default=OFFSET_MAX))

    def _walk(self, source: Source) -> None:
        position, search = 0, Search(source, source.size)
        while position < source.size:
            for header in walk(source, position, source.size):
                if header.is_transactional:
                    self._note(source, header)
                position = header.end
            if position >= source.size or not search.written(position):
                return
            position = search.after(position, 0)

    def _note(self, source: Source, header: BatchHeader) -> None:
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
            return
        kind = marker_type(source, header)
        if kind not in (ABORT, COMMIT):
            return
        first = self.open.pop(header.producer_id, None)
        if kind == ABORT and first is not None:
            self.aborted.append(Aborted(header.producer_id, first, header.last_offset))


def marker_type(source: Source, header: BatchHeader) -> int | None:
    """Return the type of a control batch's record; None when it is damaged."""
    if header.size > MARKER_BYTES_MAX:
        return None
    try:
        records = decode_batch(source.read(header.position, header.size))
    except CodecError:
        return None
    key = records[0].key if records else None
    if key is None or len(key) < _KEY.size:
        return None
    kind: int = _KEY.unpack_from(key)[1]
    return kind
