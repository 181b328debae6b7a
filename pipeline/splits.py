"""Files divided into splits of about equal size, each from the start of a batch to another.

A file is divided at the batches of its ``.index`` (each entry is checked against the log, with the
checksum of its batch, before it is used), else by walking the headers. Small files are packed
together. The same files give the same splits; without filters every byte of every file
is in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any, Final, Protocol, TypeVar

import msgspec

from kraftspec.pipeline.files import Source
from kraftspec.pipeline.filters import Filter, parse_filters
from kraftspec.pipeline.indexes import Indexes
from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.transactions import Transactions, transactions_of

SPLIT_BYTES: Final = 64 << 20
# The cost of opening a file, in bytes: a split of a thousand tiny files would be slow.
OPEN_BYTES: Final = 256 << 10


class Part(msgspec.Struct, frozen=True):
    """Bytes ``start`` to ``end`` of a file; ``transactions`` when only committed data is read."""

    file: LogFile
    start: int
    end: int
    transactions: Transactions | None = None

    @property
    def size(self) -> int:
        """How many bytes the part has."""
        return self.end - self.start


class Split(msgspec.Struct, frozen=True):
    """A piece of work: parts of one file or of several. It pickles."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """How many bytes are to be read."""
        return sum(part.size for part in self.parts)


def plan_splits(
    files: Iterable[LogFile],
    split_bytes: int = SPLIT_BYTES,
    filters: Any = None,
    *,
    isolation: str = "read_uncommitted",
    use_indexes: bool = True,
    use_txn_indexes: bool = False,
) -> list[Split]:
    """Divide files into splits of about ``split_bytes``, packing those that are smaller.

    A split is larger where there is no batch to divide at: a batch that is larger, or damage.
    ``filters`` leave out files, and by their indexes parts of files, in which no row can match;
    what is left out is not looked at, its damage neither. With ``isolation="read_committed"`` the
    markers of all transactions are looked for, see ``transactions``. ``use_indexes=False`` reads no
    index; ``use_txn_indexes`` is that of ``transactions_of``, and asks for committed data.
    """
    if use_txn_indexes and isolation != "read_committed":
        raise ValueError('use_txn_indexes goes with isolation="read_committed"')
    if split_bytes <= 0:
        raise ValueError(f"split_bytes {split_bytes} is not positive")
    filter_ = parse_filters(filters)
    parts: list[Part] = []
    for _, partition in groupby(files, key=_partition_of):
        members = list(partition)
        transactions = (
            transactions_of(members, use_txn_indexes=use_txn_indexes)
            if isolation == "read_committed"
            else None
        )
        for file in members:
            parts += _parts(file, split_bytes, filter_, transactions, use_indexes)
    return [Split(together) for together in packed(parts, split_bytes)]


def _partition_of(file: LogFile) -> tuple[str, str | None, int | None]:
    return file.path.rpartition("/")[0], file.topic, file.partition


class Sized(Protocol):
    """What has bytes to be read."""

    @property
    def size(self) -> int:
        """How many they are."""


SizedT = TypeVar("SizedT", bound=Sized)


def packed(parts: Iterable[SizedT], split_bytes: int) -> Iterator[tuple[SizedT, ...]]:
    """Put parts together in their order, as long as that does not grow over ``split_bytes``."""
    together: list[SizedT] = []
    size = 0
    for part in parts:
        if together and size + part.size + OPEN_BYTES > split_bytes:
            yield tuple(together)
            together, size = [], 0
        together.append(part)
        size += part.size + OPEN_BYTES
    if together:
        yield tuple(together)


def _parts(
    file: LogFile,
    split_bytes: int,
    filter_: Filter | None,
    transactions: Transactions | None,
    use_indexes: bool,
) -> list[Part]:
    """Return the parts of a file in which rows may match."""
    if filter_ is not None and not filter_.may_match(_known(file)):
        return []
    start, end = 0, file.size
    if file.size <= split_bytes and filter_ is None:
        return [Part(file, start, end, transactions)] if file.size else []
    try:
        with file.open() as source:
            indexes = Indexes(file, source) if use_indexes else None
            if filter_ is not None and indexes is not None:
                start, end = indexes.bytes_of(filter_)
            starts = [start, *_boundaries(source, start, end, split_bytes, indexes), end]
    except FileNotFoundError:  # Deleted after it was listed: its reader reports that.
        starts = [start, end]
    return [Part(file, a, b, transactions) for a, b in pairwise(starts) if a < b]


def _known(file: LogFile) -> dict[str, Any]:
    """Return the columns that all rows of a file share by its path."""
    known: dict[str, Any] = {
        "topic": (file.topic, file.topic),
        "partition": (file.partition, file.partition),
        "file": (file.path, file.path),
    }
    if file.kind == "segment" and file.base_offset >= 0:
        last = (1 << 63) - 1 if file.end_offset is None else file.end_offset - 1
        known["offset"] = (file.base_offset, max(last, file.base_offset))
    return known


def _boundaries(
    source: Source, start: int, end: int, split_bytes: int, indexes: Indexes | None
) -> Iterator[int]:
    """Yield where to divide bytes ``start`` to ``end``: starts of batches."""
    parts = max(1, round((end - start) / split_bytes))
    last = start
    for number in range(1, parts):
        target = start + (end - start) * number // parts
        if target <= last:
            continue  # A batch was larger than a part.
        position = indexes.batch_from(target, end) if indexes is not None else None
        if position is None:
            position = _walked(source, last, target, end)
        if position is None or position >= end:
            return
        yield position
        last = position


def _walked(source: Source, position: int, target: int, end: int) -> int | None:
    """Return the first start of a batch from ``target`` on, walking from ``position``."""
    resync = source.resync(end)
    while position < end:
        for header in source.headers(position, end):
            position = header.end
            if position >= target:
                return position
        if position >= end or not resync.is_written(position):
            return None
        position = resync.after(position, 0)  # Damage: where a good batch is found, go on.
        if target <= position < end:
            return position
    return None
