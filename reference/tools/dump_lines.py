"""Batches and records as lines: Kafka's own text (``DumpLogSegments`` 4.4.0), or JSON."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass, detail_of
from kraftspec.fastpath.records import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    Compression,
    Record,
)
from kraftspec.fastpath.values import in_order
from kraftspec.fastpath.wire import RefusedError, read_uvarint
from kraftspec.reference.log.control import control_type_of
from kraftspec.reference.metadata.frames import (
    FRAME_VERSION,
    Frame,
    FrameError,
    control_name,
    read_control,
    read_frame,
    record_classes,
)
from kraftspec.reference.profiles import KAFKA
from kraftspec.reference.tools.dump_batches import Piece, Problem
from kraftspec.reference.tools.java_json import json_lines, json_text, message_value, type_name

# How Kafka calls a control record; only the first has a colon.
_CONTROL_WORDS: Final = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
    # Of the drafts.
    "VOTER_ASSIGNMENT": "VoterAssignment",
    "ADD_VOTER": "AddVoter",
    "REMOVE_VOTER": "RemoveVoter",
}
_CODECS: Final = {int(codec): codec.name.lower() for codec in Compression}
_INT31_MASK: Final = (1 << 31) - 1
# What stands before the offset, the timestamp, the size of the value and the record, and at the end
# of a line (``_record_text.Programs.lines``).
Words = tuple[bytes, bytes, bytes, bytes, bytes]
_WORDS: Final = (
    b"| offset: ", b" CreateTime: ", b" keySize: -1 valueSize: ",
    b" sequence: -1 headerKeys: [] payload: ", b"}\n",
)  # fmt: skip
_JSON_WORDS: Final = (
    b'{"kind":"record","offset":', b',"timestamp":', b',"keySize":-1,"valueSize":',
    b',"sequence":-1,"headerKeys":[],"payload":', b"}}\n",
)  # fmt: skip
_native: Final = native.load("_record_text")

_HEAD_BYTES: Final = 3  # Of a frame whose numbers take a byte each, as all do so far.


class DumpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a segment, by the options of Kafka's tool.

    ``deep``: the records, not the batches alone; ``data``: keys and values; ``metadata``: values as
    records of the cluster's metadata; ``bare``: nothing of a record but these. ``profile`` says
    which control records there are.
    """

    deep: bool = False
    data: bool = False
    metadata: bool = False
    bare: bool = False
    profile: str = KAFKA


class _Payload(NamedTuple):
    """A metadata record, read: its JSON value, or why it is none."""

    value: dict[str, Any] | None
    refusal: str = ""  # In Kafka's words where it has some.


class Payloads:
    """Reads the values of data records as metadata records, the frames of a kind once."""

    def __init__(self) -> None:
        self._frames: dict[bytes, tuple[Frame, str]] = {}

    def read(self, value: bytes | None) -> dict[str, Any]:
        """Return the record as Kafka shows it: type, version, data.

        FrameError or CodecError: it is none.
        """
        head = value[:_HEAD_BYTES] if value is not None else b""
        known = self._frames.get(head)
        if known is None:
            frame = read_frame(value)
            known = (frame, type_name(frame.cls))
            if frame.body_at == len(head):
                self._frames[head] = known
        frame, name = known
        assert value is not None  # read_frame refuses it.
        message, end = frame.cls.decode_from(value, frame.body_at, frame.version)
        if end != len(value):
            error = ErrorClass.TRAILING
            raise CodecError(error, f"{len(value) - end} bytes follow the record", offset=end)
        data = message_value(message, frame.version)
        return {"type": name, "version": frame.version, "data": data}


def kafka_refusal(value: bytes | None, error: FrameError | CodecError) -> str:
    """Return why a value is no metadata record, in the words of ``MetadataRecordSerde``."""
    why = error.error if isinstance(error, FrameError) else error
    if isinstance(error, CodecError):
        assert value is not None
        record_type = value[1]
        if why.error_class is ErrorClass.TRAILING and why.offset is not None:
            return f"Found {len(value) - why.offset} byte(s) of garbage after {record_type}"
        return f"Failed to deserialize record with type {record_type}"
    if not value:
        return "Error while reading frame version"
    number = _frame_version(value)
    if number not in (None, FRAME_VERSION):  # Kafka looks at it before it reads on.
        return (
            f"Could not deserialize metadata record due to unknown frame version {number}"
            f"(only frame version {FRAME_VERSION} is supported)"
        )
    if why.path:  # One of the three numbers: "frame version", "API key", "version".
        part = "type" if why.path == "API key" else why.path
        return f"Error while reading {part}"
    if why.error_class is ErrorClass.UNKNOWN_MESSAGE:
        return (
            f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id "
            f"{error.number}"
        )
    return f"Failed to deserialize record with type {error.number}"


def _frame_version(value: bytes) -> int | None:
    try:
        return read_uvarint(value, 0)[0]
    except (IndexError, RefusedError):  # It is cut, or too long.
        return None


class _Base:
    """What both kinds of lines have: options, the walk over records, problems."""

    def __init__(self, name: str, options: DumpOptions) -> None:
        self.options = options
        self.problems: list[Problem] = []
        self.gaps: list[tuple[int, int]] = []
        self.name = name
        self._payloads = Payloads()
        self._last_offset = -1

    def _quick_records(self, piece: Piece, words: Words) -> bytes | None:
        """Return the lines of a batch of metadata records; None where the twin has to do it."""
        programs = _programs() if self.options.metadata and piece.is_valid else None
        if programs is None or self.options.bare:
            return None
        header = piece.header
        is_after = header.base_offset == self._last_offset + 1
        if not is_after or header.attributes & LOG_APPEND_TIME:
            return None  # A gap is noted, and such a time has another name.
        lines = programs.lines(piece.data, header.position, words)
        if lines is not None:
            self._last_offset = header.last_offset
        output: bytes | None = lines
        return output

    def _records(self, piece: Piece) -> list[Record]:
        try:
            records = decode_batch(piece.data, piece.header.position, check_crc=False)
        except CodecError as error:
            self._note(piece, error)
            return []
        last = self._last_offset
        if records and records[0].offset == last + 1 and len(records) == _consecutive(piece.header):
            self._last_offset = records[-1].offset
            return records
        for record in records:
            if record.offset != last + 1:
                self.gaps.append((last, record.offset))
            last = record.offset
        self._last_offset = last
        return records

    def _note(self, piece: Piece, error: CodecError, detail: str = "") -> None:
        self.problems.append(
            Problem(
                file=self.name,
                position=piece.position,
                size=piece.header.size,
                error_class=str(error.error_class),
                detail=detail or detail_of(error),
            )
        )

    def _read(self, piece: Piece, record: Record) -> _Payload:
        try:
            return _Payload(self._payloads.read(record.value))
        except (FrameError, CodecError) as refused:
            error = refused.error if isinstance(refused, FrameError) else refused
            self._note(piece, error, f"record at offset {record.offset}: {detail_of(error)}")
            return _Payload(None, kafka_refusal(record.value, refused))

    def _control(self, piece: Piece, record: Record) -> tuple[int, dict[str, Any] | None]:
        """Return the type of a control record and its message as JSON; None where it is none."""
        kind = control_type_of(record)
        try:
            frame = read_control(record.key, record.value, self.options.profile)
            assert record.value is not None  # read_control refuses it.
            return kind, message_value(frame.decode(record.value), frame.version)
        except FrameError as refused:
            # A type of later times is passed over, as every reader does.
            if refused.error.error_class is not ErrorClass.UNKNOWN_MESSAGE:
                self._note(piece, refused.error)
        except CodecError as error:
            self._note(piece, error)
        return kind, None


@cache
def _programs() -> Any:
    """Return the layouts of all metadata records, compiled; None where that module was not."""
    if _native is None:
        return None
    programs = _native.Programs()
    for number, cls in record_classes().items():
        codec = cls.CODEC
        orders = [
            [name for _, name in in_order(codec.structs[layout[0]], layout[2], layout[3])]
            for layout in codec.layouts
        ]
        for version, index in codec.plans.items():
            head = f'{{"type":"{type_name(cls)}","version":{version},"data":'.encode()
            programs.add(number, version, head, codec.layouts, index, orders)
    return programs


def _consecutive(header: BatchHeader) -> int:
    """Return how many records a batch has where none was compacted away."""
    return header.last_offset_delta + 1


def sequence_of(header: BatchHeader, delta: int) -> int:
    """Return the sequence number of the record ``delta`` behind the first; -1 without one."""
    return -1 if header.base_sequence < 0 else (header.base_sequence + delta) & _INT31_MASK


class TextLines(_Base):
    """Kafka's own lines."""

    def piece(self, piece: Piece) -> bytes:
        """Return a batch and, where they are wanted, its records: lines with their ends."""
        lines = [self._batch(piece)]
        if self.options.deep:
            quick = self._quick_records(piece, _WORDS)
            if quick is not None:
                return b"%b\n%b" % (lines[0].encode(), quick)
            records = self._records(piece)
            if piece.header.is_control:
                lines += [self._control_line(piece, record) for record in records]
            elif self.options.metadata:
                lines += self._metadata_lines(piece, records)
            else:
                lines += [self._data_line(piece, record) for record in records]
        lines.append("")
        return "\n".join(lines).encode(errors="backslashreplace")

    @staticmethod
    def _batch(piece: Piece) -> str:
        header = piece.header
        horizon = f"[{header.base_timestamp}]" if header.has_delete_horizon else ".empty"
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
            f"count: {header.record_count} baseSequence: {header.base_sequence} "
            f"lastSequence: {sequence_of(header, header.last_offset_delta)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {str(header.is_transactional).lower()} "
            f"isControl: {str(header.is_control).lower()} "
            f"deleteHorizonMs: OptionalLong{horizon} position: {piece.position} "
            f"{_stamp(header)}: {header.max_timestamp} size: {header.size} magic: {MAGIC} "
            f"compresscodec: {codec_name(header)} crc: {header.crc} "
            f"isvalid: {str(piece.is_valid).lower()}"
        )

    def _head(self, header: BatchHeader, record: Record) -> str:
        if self.options.bare:
            return "|"
        key_size = -1 if record.key is None else len(record.key)
        value_size = -1 if record.value is None else len(record.value)
        sequence = sequence_of(header, record.offset - header.base_offset)
        keys = ",".join(each.key for each in record.headers)
        return (
            f"| offset: {record.offset} {_stamp(header)}: {record.timestamp} keySize: {key_size} "
            f"valueSize: {value_size} sequence: {sequence} headerKeys: [{keys}]"
        )

    def _control_line(self, piece: Piece, record: Record) -> str:
        kind, value = self._control(piece, record)
        if self.options.bare:
            return ""  # Kafka ends the line all the same.
        head = self._head(piece.header, record)
        if value is None:
            return f"{head} controlType: UNKNOWN({kind})"
        name = control_name(kind, self.options.profile) or ""
        if name in ("ABORT", "COMMIT"):
            epoch = value["coordinatorEpoch"]
            return f"{head} endTxnMarker: {name} coordinatorEpoch: {epoch}"
        return f"{head} {_CONTROL_WORDS[name]} {json_text(value)}"

    def _data_line(self, piece: Piece, record: Record) -> str:
        line = self._head(piece.header, record)
        if self.options.data and record.key is not None:
            line += f" key: {record.key.decode(errors='replace')}"
        if self.options.data and record.value is not None:
            line += f" payload: {record.value.decode(errors='replace')}"
        return line

    def _metadata_lines(self, piece: Piece, records: list[Record]) -> list[str]:
        read = [self._read(piece, record) for record in records]
        texts = iter(json_lines([one.value for one in read if one.value is not None]))
        header = piece.header
        stamp = _stamp(header)
        is_plain = header.base_sequence < 0 and not self.options.bare
        lines = []
        for record, (value, refusal) in zip(records, read, strict=True):
            if is_plain and value is not None and record.key is None and not record.headers:
                lines.append(
                    f"| offset: {record.offset} {stamp}: {record.timestamp} keySize: -1 "
                    f"valueSize: {len(record.value or b'')} sequence: -1 headerKeys: [] "
                    f"payload: {next(texts)}"
                )
                continue
            shown = next(texts) if value is not None else None
            shown = shown or f"Error at {record.offset}, skipping. {refusal}"
            lines.append(f"{self._head(header, record)} payload: {shown}")
        return lines


class JsonLines(_Base):
    """An object a line: batches, and records where they are wanted."""

    def piece(self, piece: Piece) -> bytes:
        """Return a batch and, where they are wanted, its records: lines with their ends."""
        values = [self._batch(piece)]
        if self.options.deep:
            quick = self._quick_records(piece, _JSON_WORDS)
            if quick is not None:
                return b"%b\n%b" % (json_text(values[0]).encode(), quick)
            values += [self._record(piece, record) for record in self._records(piece)]
        return "\n".join([*json_lines(values), ""]).encode(errors="backslashreplace")

    def _batch(self, piece: Piece) -> dict[str, Any]:
        header = piece.header
        return {
            "kind": "batch",
            "file": self.name,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": sequence_of(header, header.last_offset_delta),
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
            "position": piece.position,
            "timestampType": _stamp(header),
            "maxTimestamp": header.max_timestamp,
            "size": header.size,
            "magic": MAGIC,
            "compression": codec_name(header),
            "crc": header.crc,
            "isValid": piece.is_valid,
        }

    def _record(self, piece: Piece, record: Record) -> dict[str, Any]:
        header = piece.header
        row: dict[str, Any] = {"kind": "record", "offset": record.offset}
        if not self.options.bare:
            row |= {
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
                "sequence": sequence_of(header, record.offset - header.base_offset),
                "headerKeys": [each.key for each in record.headers],
            }
        if header.is_control:
            kind, value = self._control(piece, record)
            row["controlType"] = control_name(kind, self.options.profile) or kind
            row["payload"] = value
        elif self.options.metadata:
            value, refusal = self._read(piece, record)
            row["payload"] = value
            if value is None:
                row["error"] = refusal
        elif self.options.data:
            row["key"] = record.key  # Bytes become base64.
            row["value"] = record.value
        return row


def _stamp(header: BatchHeader) -> str:
    return "LogAppendTime" if header.attributes & LOG_APPEND_TIME else "CreateTime"


def codec_name(header: BatchHeader) -> str:
    """Return the name of a batch's compression; its number where there is none."""
    number = header.attributes & COMPRESSION_MASK
    return _CODECS.get(number, str(number))
