"""The small files of a log directory as text: indexes, producers, epochs, the vote, properties.

Indexes are held against the batches of their segment, as Kafka's tool does; each function returns
what is to be printed, and what is wrong.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from pathlib import Path
from typing import Any, Final

import msgspec

from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import RECORDS_AT
from kraftspec.fastpath.walk import header_at, read_file
from kraftspec.generated.kafka import ProducerSnapshot
from kraftspec.reference.log.epochs import EpochList
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.log.segment import OFFSET_ENTRY, TIME_ENTRY
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.tools.dump_batches import BatchWalk, Problem

FILE_BYTES_MAX: Final = 64 << 20  # Kafka makes none of these half as large.
OFFSET_DIGITS: Final = 20  # In the name of a segment and of what goes with it.
_TRANSACTION: Final = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = struct.Struct(">hI")  # Version, CRC-32C of what follows.
_INDEX_ERROR: Final = "index_mismatch"
_FILE_ERROR: Final = "bad_file"


class Side(msgspec.Struct, kw_only=True):
    """What a file says: ``lines`` in Kafka's words, ``values`` for JSON, ``complaints`` for stderr.

    ``complaints`` are Kafka's own words where it has some.
    """

    lines: list[str] = []
    values: list[dict[str, Any]] = []
    complaints: list[str] = []
    problems: list[Problem] = []

    def refuse(self, path: str, position: int, detail: str, error_class: str = _FILE_ERROR) -> None:
        """Note that a file is not as it should be from a byte on."""
        self.problems.append(
            Problem(file=path, position=position, size=0, error_class=error_class, detail=detail)
        )


class IndexOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``--verify-index-only`` and ``--index-sanity-check``."""

    verify_only: bool = False
    sanity_check: bool = False


def read_small(path: Path) -> bytes:
    """Return a file's bytes; ValueError where it has more than ``FILE_BYTES_MAX``."""
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{path}: it has more than {FILE_BYTES_MAX} bytes")
    return data


class _Segment:
    """The batches of the segment beside an index: where they are, and what they have."""

    def __init__(self, path: Path) -> None:
        self.positions: list[int] = []
        self.last_offsets: list[int] = []
        self.max_timestamps: list[int] = []
        with path.open("rb") as file:
            walk = BatchWalk(str(path), file.fileno(), size=path.stat().st_size)
            for piece in walk:
                self.positions.append(piece.position)
                self.last_offsets.append(piece.header.last_offset)
                self.max_timestamps.append(piece.header.max_timestamp)
        self.is_ordered = self.last_offsets == sorted(self.last_offsets)

    def covering(self, offset: int) -> int | None:
        """Return the number of the first batch that ends at ``offset`` or behind it."""
        if self.is_ordered:
            first = bisect_left(self.last_offsets, offset)
            return first if first < len(self.last_offsets) else None
        numbered = enumerate(self.last_offsets)
        return next((number for number, last in numbered if last >= offset), None)


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    is_offset = digits.isascii() and digits.isdigit() and len(digits) <= OFFSET_DIGITS
    return int(digits) if is_offset else 0


def dump_index(path: Path, options: IndexOptions) -> Side:
    """Dump an offset index: the last offset and the position of a batch an entry."""
    side, name, base = Side(), str(path), _base_offset(path)
    data = read_small(path)
    whole = len(data) - len(data) % OFFSET_ENTRY.size
    if options.sanity_check and whole < len(data):
        side.refuse(name, whole, _not_entries("Index", name, data, OFFSET_ENTRY.size))
        return side
    if not whole:
        side.lines.append(f"{name} is empty.")
        return side
    if options.sanity_check:
        return _sanity(side, name, base + OFFSET_ENTRY.unpack_from(data, whole - 8)[0], base)
    if _is_ahead(data):
        side.lines += [] if options.verify_only else ["offset: 0 position: 0"]
        return side
    log = path.with_suffix(".log")
    mismatches = []
    with log.open("rb") as file:
        size = log.stat().st_size
        for at in range(0, whole, OFFSET_ENTRY.size):
            relative, position = OFFSET_ENTRY.unpack_from(data, at)
            if at and not relative:
                break  # Zeros that were written ahead.
            offset = base + relative
            head = read_file(file.fileno(), min(max(position, 0), size), RECORDS_AT)
            header = header_at(head, 0, position)
            if header is None or header.end > size:
                detail = f"entry (offset {offset}, position {position}): no batch begins there"
                side.refuse(name, at, detail, _INDEX_ERROR)
            elif header.last_offset != offset:
                mismatches.append((offset, header.last_offset))
                detail = f"entry for offset {offset}: the batch ends with {header.last_offset}"
                side.refuse(name, at, detail, _INDEX_ERROR)
            side.values.append({"kind": "index", "offset": offset, "position": position})
            if not options.verify_only:
                side.lines.append(f"offset: {offset} position: {position}")
    if mismatches:
        side.complaints.append(f"Mismatches in :{name}")
        side.complaints += [
            f"  Index offset: {offset}, log offset: {last}" for offset, last in mismatches
        ]
    return side


def _is_ahead(data: bytes) -> bool:
    """Whether nothing was written to an index yet: a live node makes it of zeros.

    Kafka's tool shows one entry all the same, and says that the log disagrees.
    """
    return data.count(0) == len(data)


def _not_entries(what: str, name: str, data: bytes, size: int) -> str:
    return (
        f"{what} file {name} is corrupt, found {len(data)} bytes which is neither positive nor a "
        f"multiple of {size}"
    )


def _sanity(side: Side, name: str, last_offset: int, base: int) -> Side:
    if last_offset < base:
        side.refuse(
            name, 0, f"its last offset, {last_offset}, is before that of its segment, {base}"
        )
    else:
        side.lines.append(f"{name} passed sanity check.")
    return side


def dump_time_index(path: Path, options: IndexOptions) -> Side:
    """Dump a time index: the greatest timestamp so far, and which batch has it."""
    side, name, base = Side(), str(path), _base_offset(path)
    data = read_small(path)
    whole = len(data) - len(data) % TIME_ENTRY.size
    if options.sanity_check:
        return _time_sanity(side, name, data)
    if whole and _is_ahead(data):
        side.lines += [] if options.verify_only else ["timestamp: 0 offset: 0"]
        return side
    segment = _Segment(path.with_suffix(".log"))
    wrong: dict[str, list[str]] = {"mismatch": [], "order": [], "missing": []}
    previous = -1
    for at in range(0, whole, TIME_ENTRY.size):
        timestamp, relative = TIME_ENTRY.unpack_from(data, at)
        if at and not relative:
            break
        offset = base + relative
        number = segment.covering(offset)
        last = -1 if number is None else segment.last_offsets[number]
        kind, text = "", ""
        if number is None or last != offset:
            kind, text = "missing", f"Indexed offset: {offset}, found log offset: {last}"
        elif segment.max_timestamps[number] != timestamp and timestamp >= previous:
            greatest = segment.max_timestamps[number]
            kind, text = "mismatch", f"  Index timestamp: {timestamp}, log timestamp: {greatest}"
        if kind:
            wrong[kind].append(text)
            side.refuse(name, at, text.strip(), _INDEX_ERROR)
        if timestamp < previous:
            disorder = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
            wrong["order"].append(disorder)
            side.refuse(name, at, disorder.strip(), _INDEX_ERROR)
        previous = timestamp
        side.values.append({"kind": "timeIndex", "timestamp": timestamp, "offset": offset})
        if not options.verify_only:
            side.lines.append(f"timestamp: {timestamp} offset: {offset}")
    for kind, title in (
        ("mismatch", "Found timestamp mismatch in :"),
        ("order", "Found out of order timestamp in :"),
        ("missing", "The following indexed offsets are not found in :"),
    ):
        if wrong[kind]:
            side.complaints += [title + name, *wrong[kind]]
    return side


def _time_sanity(side: Side, name: str, data: bytes) -> Side:
    if len(data) % TIME_ENTRY.size:
        side.refuse(name, 0, _not_entries("Time index", name, data, TIME_ENTRY.size))
    elif data:
        first = TIME_ENTRY.unpack_from(data, 0)[0]
        last = TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY.size)[0]
        if last < first:
            side.refuse(
                name,
                len(data) - TIME_ENTRY.size,
                f"Corrupt time index found, time index file ({name}) has non-zero size but the "
                f"last timestamp is {last} which is less than the first timestamp {first}",
            )
    if not side.problems:
        side.lines.append(f"{name} passed sanity check.")
    return side


def dump_transaction_index(path: Path) -> Side:
    """Dump a transaction index: which producer's data was aborted."""
    side, data = Side(), read_small(path)
    whole = len(data) - len(data) % _TRANSACTION.size
    for at in range(0, whole, _TRANSACTION.size):
        version, producer, first, last, stable = _TRANSACTION.unpack_from(data, at)
        value = {
            "version": version, "producerId": producer, "firstOffset": first, "lastOffset": last,
            "lastStableOffset": stable,
        }  # fmt: skip
        side.values.append({"kind": "abortedTransaction", **value})
        side.lines.append(" ".join(f"{key}: {number}" for key, number in value.items()))
    if whole < len(data):
        side.refuse(str(path), whole, f"{len(data) - whole} bytes are no entry")
    return side


def dump_producers(path: Path) -> Side:
    """Dump a producer snapshot: what is known of the producers of a partition."""
    side, name, data = Side(), str(path), read_small(path)
    if len(data) < _SNAPSHOT_HEAD.size:
        version, stored = int.from_bytes(data[:2], "big"), -1
    else:
        version, stored = _SNAPSHOT_HEAD.unpack_from(data)
    if version not in ProducerSnapshot.VALID_VERSIONS:
        text = f"Snapshot contained an unknown file version {version}"
        side.complaints.append(f"Snapshot failed schema validation: {text}")
        side.refuse(name, 0, text)
        return side
    computed = crc32c(data[_SNAPSHOT_HEAD.size :])
    if stored != computed:
        text = f"Stored crc: {stored}. Computed crc: {computed}"
        side.complaints.append(f"Snapshot is corrupt (CRC is no longer valid). {text}")
        side.refuse(name, 2, text)
        return side
    try:
        snapshot = ProducerSnapshot.decode(data[2:], version)
    except CodecError as error:
        side.refuse(name, 2 + (error.offset or 0), str(error))
        return side
    for one in snapshot.producer_entries:
        first = one.current_txn_first_offset
        shown = f"[{first}]" if first >= 0 else ".empty"
        line = (
            f"producerId: {one.producer_id} producerEpoch: {one.epoch} coordinatorEpoch: "
            f"{one.coordinator_epoch} currentTxnFirstOffset: OptionalLong{shown} "
            f"lastTimestamp: {one.timestamp}"
        )
        if one.last_sequence >= 0:
            line += (
                f" firstSequence: {one.last_sequence - one.offset_delta} lastSequence: "
                f"{one.last_sequence} lastOffset: {one.last_offset} offsetDelta: "
                f"{one.offset_delta} timestamp: {one.timestamp}"
            )
        side.lines.append(line)
    entries = snapshot.to_json(version)["producerEntries"]
    side.values += [{"kind": "producer", **entry} for entry in entries]
    return side


def dump_epochs(path: Path) -> Side:
    """Dump a leader-epoch-checkpoint."""
    side = Side()
    try:
        entries = EpochList.from_checkpoint(read_small(path)).entries
    except (ValueError, IndexError, TypeError) as error:
        side.refuse(str(path), 0, str(error))
        return side
    for entry in entries:
        side.lines.append(f"epoch: {entry.epoch} startOffset: {entry.start_offset}")
        value = {"epoch": entry.epoch, "startOffset": entry.start_offset}
        side.values.append({"kind": "epoch", **value})
    return side


def dump_quorum_state(path: Path, profile: str = KAFKA) -> Side:
    """Dump the stored vote, in the words of a profile."""
    side = Side()
    try:
        message = profile_named(profile).state_message
        state, version = QuorumStateFile.parse(read_small(path), str(path), message)
    except ValueError as error:
        side.refuse(str(path), 0, str(error.__cause__ or error))
        return side
    value = {**state.to_json(version), "data_version": version}
    side.lines.append(" ".join(f"{key}: {_plain(item)}" for key, item in value.items()))
    side.values.append({"kind": "quorumState", **value})
    return side


def _plain(value: Any) -> str:
    is_json = value is None or isinstance(value, list)
    return msgspec.json.encode(value).decode() if is_json else str(value)


def dump_properties(path: Path) -> Side:
    """Dump meta.properties."""
    side = Side()
    try:
        properties = parse_properties(read_small(path).decode("latin-1"))
    except ValueError as error:
        side.refuse(str(path), 0, str(error))
        return side
    side.lines += [f"{key}={value}" for key, value in sorted(properties.items())]
    side.values.append({"kind": "properties", "properties": properties})
    return side


def dump_partition_metadata(path: Path) -> Side:
    """Dump partition.metadata: the id of a partition's topic."""
    side, values = Side(), {}
    for line in read_small(path).decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values[key.strip()] = value.strip()
            side.lines.append(line)
    if "topic_id" not in values:
        side.refuse(str(path), 0, "no line says topic_id")
    side.values.append({"kind": "partition", **values})
    return side
