"""Which transactional data was aborted, and the offset up to which that is decided.

Kafka writes the data of a transaction at once, and a control record that commits or aborts it
later (KIP-98). Only these markers are believed, unless somebody asks for more: the ``.txnindex`` of
a segment says the same without a checksum, and nothing more of the data that is there, since a
marker stands after its data, and is deleted or compacted away no sooner.

A transaction that is open at the end of the log is not decided. Its first offset is the *last
stable offset*: as Kafka's consumers do, a reader of committed data stops there, before all that
follows, data of no transaction included.

Damage may have been a marker, of any producer. Of each transaction that is open where damage lies,
the data before it is undecided, whichever marker follows: that one may end another transaction.

Where it is asked for, an index that agrees with all markers of its segment may say that such a
marker was one that aborts. It commits nothing: a commit is in no index.
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
from kraftspec.pipeline.layout import LogFile, survey
from kraftspec.pipeline.txn_index import SUFFIX, Entry, IndexFault, IndexFaultError, read_entries

ABORT: Final = 0  # ControlRecordType
COMMIT: Final = 1
_KEY = struct.Struct(">hh")  # version, type
OFFSET_MAX: Final = (1 << 63) - 1
MARKER_BYTES_MAX: Final = 1 << 16  # A marker takes 78 bytes.
# A batch of more bytes, that claims more than one record, is no marker that one wrong byte made so.
_MARKER_BYTES_USUAL: Final = 128


class Transaction(msgspec.Struct, frozen=True):
    """A transaction, or a part of one: its producer's data between two offsets, both included."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions(msgspec.Struct, frozen=True):
    """The transactions of a partition that are not committed.

    An aborted one ends at its marker. The marker of an ``undecided`` one may be in the damage.
    ``last_stable_offset`` is ``OFFSET_MAX`` when no transaction is open. ``indexed`` are the
    aborted ones that only an index has; ``faults`` are the indexes that were not trusted.
    """

    aborted: tuple[Transaction, ...] = ()
    undecided: tuple[Transaction, ...] = ()
    last_stable_offset: int = OFFSET_MAX
    indexed: tuple[Transaction, ...] = ()
    faults: tuple[IndexFault, ...] = ()


def transactions_of(files: Sequence[LogFile], *, use_txn_indexes: bool = False) -> Transactions:
    """Find the transactions of one partition, of which ``files`` are some segments or all.

    The segments beside them are read too: a marker may be in a later one than its data.
    With ``use_txn_indexes``, a marker that is damaged may be known from the ``.txnindex``.
    """
    return _Finder().run(_whole(files), use_txn_indexes=use_txn_indexes)


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
        return segments  # Retention deleted them all; the reader will report that.
    by_path = {file.path: file for file in beside if file.kind == "segment"}
    by_path |= {file.path: file for file in segments}
    return sorted(by_path.values(), key=lambda file: file.base_offset)


class _Open(msgspec.Struct):
    """An open transaction's first offset, and the last ones before damage within it; -1 for none.

    ``first_doubted_offset`` is the last before the first damage.
    """

    first_offset: int
    doubted_offset: int = -1
    first_doubted_offset: int = -1


class _Finder:
    """Walks the headers of a partition and keeps the open transaction of each producer."""

    def __init__(self) -> None:
        self.open: dict[int, _Open] = {}  # By producer id.
        self.aborted: list[Transaction] = []
        self.undecided: list[Transaction] = []
        self.indexed: list[Transaction] = []
        self.faults: list[IndexFault] = []
        self.last_offset = -1
        self.entries: list[Entry] | None = None  # Of the segment's index, the next one last.
        self.is_damaged = False  # Between the last batch and what comes.

    def run(self, files: Sequence[LogFile], *, use_txn_indexes: bool) -> Transactions:
        """Walk all files, in the order of their offsets."""
        finder = self
        for file in files:
            try:
                with file.open() as source:
                    is_last = file is files[-1]
                    if use_txn_indexes:
                        finder = finder._indexed(file, source, is_last=is_last)
                    else:
                        finder._walk(source, is_last=is_last)
            except FileNotFoundError:
                continue  # Retention took it; with it went its data.
        return Transactions(
            tuple(finder.aborted),
            tuple(finder.undecided),
            min((one.first_offset for one in finder.open.values()), default=OFFSET_MAX),
            tuple(finder.indexed),
            tuple(finder.faults),
        )

    def _indexed(self, file: LogFile, source: Source, *, is_last: bool) -> _Finder:
        """Walk a file with its index; return the finder to go on with, a copy after a bad index."""
        try:
            entries = read_entries(file)
            if entries is not None:
                trial = self._copy()
                trial.entries = entries[::-1]
                trial._walk(source, is_last=is_last)
                trial._pass(None)
                trial.entries = None
                return trial
        except IndexFaultError as error:
            self.faults.append(IndexFault(file.sibling(SUFFIX), error.position, error.detail))
        self._walk(source, is_last=is_last)
        return self

    def _copy(self) -> _Finder:
        finder = _Finder()
        finder.open = {number: msgspec.structs.replace(one) for number, one in self.open.items()}
        finder.aborted, finder.undecided = [*self.aborted], [*self.undecided]
        finder.indexed, finder.faults = [*self.indexed], [*self.faults]
        finder.last_offset = self.last_offset
        return finder

    def _walk(self, source: Source, *, is_last: bool) -> None:
        position, resync = 0, source.resync(source.size)
        while position < source.size:
            bad = self._run(source, position)
            if isinstance(bad, int):
                position, framed_end = bad, 0
            else:
                position, framed_end = bad.position, bad.end
            if position >= source.size:
                return
            # What comes after these bytes was written later. Only the last segment may have a
            # tail of zeros that nothing was ever written to.
            if resync.is_written(position):
                position = resync.after(position, framed_end)
            elif is_last:
                return
            else:
                position = source.size
            self._doubt()

    def _run(self, source: Source, position: int) -> BatchHeader | int:
        """Note batches from ``position`` on; return the one that is bad, or where they end."""
        held: BatchHeader | None = None
        bad: BatchHeader | None = None
        for header in source.headers(position, source.size):
            is_open = bool(self.open) or (held is not None and held.is_transactional)
            if is_open and _is_bad_marker(source, header):
                bad = header
                break
            if held is not None:
                self._note(source, held)
            held, position = header, header.end
        if held is None:
            return position if bad is None else bad
        # Where no batch follows, the length of the last one may be wrong.
        if bad is None and position < source.size and not _is_whole(source, held):
            return held
        self._note(source, held)
        return position if bad is None else bad

    def _doubt(self) -> None:
        """Note damage, which may have been the marker of each open transaction."""
        self.is_damaged = True
        for one in self.open.values():
            one.doubted_offset = self.last_offset
            if one.first_doubted_offset < 0:
                one.first_doubted_offset = self.last_offset

    def _note(self, source: Source, header: BatchHeader) -> None:
        entry = self._pass(header)
        self.is_damaged = False
        self.last_offset, producer_id = header.last_offset, header.producer_id
        if not header.is_transactional:
            return
        if not header.is_control:
            self.open.setdefault(producer_id, _Open(header.base_offset))
            return
        kind = marker_type(source, header)
        if kind is None:
            return  # It is damaged, and ends nothing that is here.
        if entry is not None and (kind != ABORT or entry.producer_id != producer_id):
            raise IndexFaultError(entry.position, f"offset {entry.last_offset} has another marker")
        if kind not in (ABORT, COMMIT):
            return
        transaction = self.open.pop(producer_id, None)
        if transaction is None:
            return
        if kind == ABORT and self.entries is not None and entry is None:
            detail = f"the abort marker at offset {header.base_offset} is not in it"
            raise IndexFaultError(self.entries[-1].position if self.entries else 0, detail)
        if entry is not None:
            self._abort(entry, transaction)
            return
        first, doubted = transaction.first_offset, transaction.doubted_offset
        if doubted >= first:
            self.undecided.append(Transaction(producer_id, first, doubted))
            first = doubted + 1
        if kind == ABORT:
            self.aborted.append(Transaction(producer_id, first, header.last_offset))

    def _pass(self, header: BatchHeader | None) -> Entry | None:
        """Take the index's entries up to a batch, or the end; return that of the batch itself.

        If the marker of an entry is neither in a batch nor in damage, it was compacted.
        """
        while self.entries and (
            header is None or self.entries[-1].last_offset <= header.last_offset
        ):
            entry = self.entries.pop()
            if header is not None and entry.last_offset >= header.base_offset:
                if header.is_control and entry.last_offset == header.base_offset:
                    return entry
                detail = f"offset {entry.last_offset} has no marker"
                raise IndexFaultError(entry.position, detail)
            if not self.is_damaged and header is None:
                detail = f"offset {entry.last_offset} is past the last batch"
                raise IndexFaultError(entry.position, detail)
            transaction = self.open.pop(entry.producer_id, None) if self.is_damaged else None
            if transaction is not None:
                self.indexed.append(self._abort(entry, transaction))
        return None

    def _abort(self, entry: Entry, transaction: _Open) -> Transaction:
        """Note a transaction as its index has it; data from before is of one of unknown end."""
        first, producer_id = transaction.first_offset, entry.producer_id
        if entry.first_offset > first:
            if not 0 <= transaction.first_doubted_offset < entry.first_offset:
                detail = (
                    f"a transaction from offset {entry.first_offset}: in the log it is from {first}"
                )
                raise IndexFaultError(entry.position, detail)
            self.undecided.append(Transaction(producer_id, first, entry.first_offset - 1))
            first = entry.first_offset
        self.aborted.append(Transaction(producer_id, first, entry.last_offset))
        return self.aborted[-1]


def _is_bad_marker(source: Source, header: BatchHeader) -> bool:
    """Whether this may be a damaged marker; no field of its header is trusted."""
    if header.size > _MARKER_BYTES_USUAL and header.record_count > 1 and not header.is_control:
        return False
    return not _is_whole(source, header)


def _is_whole(source: Source, header: BatchHeader) -> bool:
    return source.has_batch(header.position, source.size)


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
