"""The ``.txnindex`` of a segment: the transactions whose abort markers the segment has.

======================  =====================================================
int16                   version, 0
int64                   producer id
int64                   first offset of the transaction
int64                   its last offset: that of the marker
int64                   last stable offset when the marker was written
======================  =====================================================

34 bytes an entry, big-endian, in the order of the markers (``TransactionIndex``, ``AbortedTxn``).
There is no checksum, and nothing ties the file to the log beside it. So a file is believed whole or
not at all: its form must be right, and each marker of the log must be in it as the log has it.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from kraftspec.pipeline.files import store_of
from kraftspec.pipeline.layout import LogFile

SUFFIX: Final = ".txnindex"
_ENTRY: Final = struct.Struct(">hqqqq")
# 493 thousand aborted transactions in one segment. What is larger was not written by Kafka.
TXN_INDEX_BYTES_MAX: Final = 16 << 20


class IndexFault(msgspec.Struct, frozen=True):
    """Why an index is not believed: the first byte of the entry that is wrong, and what is."""

    file: str
    position: int
    detail: str


class IndexFaultError(Exception):
    """An entry is wrong; ``position`` is its first byte."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(position, detail)
        self.position = position
        self.detail = detail


class Entry(msgspec.Struct, frozen=True):
    """An aborted transaction as its index has it; ``position`` is the entry's first byte."""

    position: int
    producer_id: int
    first_offset: int
    last_offset: int


def read_entries(file: LogFile) -> list[Entry] | None:
    """Return the entries of the index of a segment; None without one.

    Raises IndexFaultError for what no broker wrote for a segment of these offsets.
    """
    if SUFFIX not in file.indexes:
        return None
    store, path = store_of(file.filesystem), file.sibling(SUFFIX)
    entry = store.entry(path)
    if entry is None:
        return None
    if entry.size > TXN_INDEX_BYTES_MAX:
        raise IndexFaultError(0, f"{entry.size:,} bytes are more than such an index has")
    try:
        with store.open(path, entry.size) as source:
            data = bytes(source.read(0, entry.size))
    except FileNotFoundError:
        return None
    whole = len(data) - len(data) % _ENTRY.size
    if whole != len(data):
        raise IndexFaultError(whole, f"{len(data)} bytes are not whole entries of {_ENTRY.size}")
    entries: list[Entry] = []
    for position in range(0, whole, _ENTRY.size):
        _check(file, data, position, entries[-1].last_offset if entries else file.base_offset - 1)
        entries.append(Entry(position, *_ENTRY.unpack_from(data, position)[1:4]))
    return entries


def _check(file: LogFile, data: bytes, position: int, last_before: int) -> None:
    version, producer_id, first, last, stable = _ENTRY.unpack_from(data, position)
    end = file.end_offset
    wrong = ""
    if version:
        wrong = f"version {version} is not 0"
    elif producer_id < 0:
        wrong = f"there is no producer {producer_id}"
    elif not 0 <= first < last:
        wrong = f"a transaction from offset {first} to {last}"
    elif last <= last_before:
        wrong = f"last offset {last} after {last_before}"
    elif end is not None and last >= end:
        wrong = f"last offset {last} of a segment that ends before {end}"
    elif stable < 0:
        wrong = f"last stable offset {stable}"
    if wrong:
        raise IndexFaultError(position, wrong)
