"""Record batches in tshark, and the records of the metadata log in them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kraftspec import fastpath
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.batch_reader import read_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.fastpath.records import Batch, Compression
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)

from .expected import Line, expected, shown
from .sessions import Sent, Session, messages, vectors
from .tshark import Shown

pytestmark = pytest.mark.wireshark

METADATA = "__cluster_metadata"
METADATA_ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
HEADER = (
    "base_offset", "partition_leader_epoch", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
    "record_count",
)  # fmt: skip


def encode_batch(values: list[bytes], **options: Any) -> bytes:
    """Return a batch of these values, all of one moment."""
    return fastpath.encode_batch(values, timestamps=1_700_000_000_000, **options)


def fetched(records: bytes, topic: str = METADATA, version: int = 12) -> tuple[Sent, Sent]:
    """Return a fetch of records and its answer, as they are sent."""
    by_id = version >= 13
    topic_id = METADATA_ID if by_id and topic == METADATA else Uuid(bytes(15) + b"\x02")
    answered = FetchResponse.FetchableTopicResponse(
        topic="" if by_id else topic,
        topic_id=topic_id if by_id else Uuid(bytes(16)),
        partitions=[FetchResponse.PartitionData(records=records)],
    )
    response = FetchResponse(responses=[answered]).encode(version)
    request = FetchRequest().encode(version)
    return (
        Sent(messages()["FetchRequest"], version, request),
        Sent(messages()["FetchResponse"], version, response),
    )


def answers(
    exchanges: Iterable[tuple[Sent, Sent]], dissector: Path, path: Path
) -> list[tuple[Sent, Shown]]:
    """Return what tshark shows of the responses."""
    session = Session()
    for request, response in exchanges:
        session.exchange(request, response)
    return list(session.shown(dissector, path))[1::2]


def value_of(line: Shown, name: str) -> int | bytes | None:
    """Return the value of a number or of bytes of a batch."""
    (field,) = (below for below in line.below if below.name == f"kraftspec.{name}")
    if any(below.name == "kraftspec.null" for below in field.below):
        return None
    return int(field.value, 0) if re.fullmatch(r"-?\d+|0x[\da-f]+", field.value) else field.raw


def described(batch: Batch) -> list[object]:
    """Return a batch as our reader has it, in the form of ``seen``."""
    return [
        [getattr(batch.header, name) for name in HEADER],
        [
            [
                record.attributes, record.timestamp_delta, record.offset_delta,
                record.key, record.value,
                [(header.key, header.value) for header in record.headers],
            ]
            for record in batch.records
        ],
    ]  # fmt: skip


def seen(line: Shown) -> list[object]:
    """Return a batch as tshark shows it."""
    return [
        [value_of(line, f"batch.{name}") for name in HEADER],
        [
            [
                *(value_of(record, f"record.{name}") for name in (
                    "attributes", "timestamp_delta", "offset_delta")),
                *(bytes_of(record, f"record.{name}") for name in ("key", "value")),
                [
                    (header.named("record.headers.key")[0].value,
                     bytes_of(header, "record.headers.value"))
                    for header in record.named("record.headers.element")
                ],
            ]
            for record in line.named("record")
        ],
    ]  # fmt: skip


def bytes_of(line: Shown, name: str) -> bytes | None:
    """Return the bytes of a key or a value."""
    (field,) = (below for below in line.below if below.name == f"kraftspec.{name}")
    return None if any(below.name == "kraftspec.null" for below in field.below) else field.raw


def batch_vectors(result: str) -> list[tuple[str, bytes]]:
    """Return (id, bytes) of the vectors of record batches that can be decoded."""
    return [
        (vector.id, bytes.fromhex(vector.hex))
        for set_name, file in read_vectors(vectors_root(), "RecordBatch")
        if set_name == "kafka"
        for vector in file.tests
        if vector.result == result and isinstance(vector.hex, str) and vector.version == 2
    ]


@pytest.mark.soak
def test_batches_are_shown_as_our_reader_reads_them(dissector: Path, tmp_path: Path) -> None:
    plain = [
        (name, data)
        for name, data in batch_vectors("valid")
        if read_batch(data).header.compression is Compression.NONE
    ]
    assert len(plain) > 400
    exchanges = [fetched(data, "orders", 11) for _, data in plain]
    tops = answers(exchanges, dissector, tmp_path / "batches.pcap")
    wrong = []
    for (name, data), (_, top) in zip(plain, tops, strict=True):
        (line,) = top.named("batch")
        headers = [header.key for record in read_batch(data).records for header in record.headers]
        if any("\0" in key or not key.isprintable() for key in headers):
            continue  # tshark shows those keys escaped.
        batch = read_batch(data)
        # Some control records hold what is no message of their type.
        errors = [] if batch.header.is_control else top.named("error")
        if seen(line) != described(batch) or errors:
            wrong.append((name, seen(line), described(batch), errors))
    assert wrong == []


def is_cut(data: bytes) -> bool:
    """Return whether bytes end within a batch of the right format."""
    if len(data) < 61:
        return len(data) <= 16 or data[16] == 2
    return len(data) - 12 < int.from_bytes(data[8:12], "big", signed=True)


def test_malformed_batches_are_reported_with_class_and_byte(
    dissector: Path, tmp_path: Path
) -> None:
    bad = []
    for name, data in batch_vectors("invalid"):
        with pytest.raises(CodecError) as refused:
            RecordBatch.decode(data, 2)
        error = refused.value
        # What is compressed is not read; what the broker cut is no error.
        if "decompressed" not in error.detail and error.path != "records" and not is_cut(data):
            bad.append((name, data, error))
    assert len(bad) > 100
    exchanges = [fetched(data, "orders", 11) for _, data, _ in bad]
    tops = answers(exchanges, dissector, tmp_path / "batches.pcap")
    wrong = []
    for (name, data, error), (sent, top) in zip(bad, tops, strict=True):
        at = sent.data.index(data) + (error.offset or 0)
        errors = [line.value for line in top.named("error")]
        if (
            not errors
            or f" at byte {at}: " not in errors[0]
            or f"[{error.error_class}]" not in errors[0]
        ):
            wrong.append((name, str(error), at, errors))
    assert wrong == []


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_compressed_batch_is_named(dissector: Path, tmp_path: Path, codec: Compression) -> None:
    batch = encode_batch([b"x" * 500] * 3, compression=codec, base_offset=7)
    ((_, top),) = answers([fetched(batch * 2, "orders")], dissector, tmp_path / "c.pcap")
    lines = top.named("batch")
    assert [line.text for line in lines] == [
        f"batch[{number}]: 3 records from offset 7, {codec.name.lower()}" for number in (0, 1)
    ]
    assert [line.raw for line in top.named("batch.compressed")] == [batch[61:]] * 2
    assert not top.named("error")


def test_the_last_batch_may_be_cut_by_the_broker(dissector: Path, tmp_path: Path) -> None:
    batch = encode_batch([b"paid"])
    ((_, top),) = answers([fetched(batch + batch[:30], "orders")], dissector, tmp_path / "c.pcap")
    assert [line.text for line in top.named("batch")] == [
        "batch[0]: 1 records from offset 0", f"part of a batch: 30 bytes of {len(batch)}",
    ]  # fmt: skip
    assert not top.named("error")


def frame_of(sent: Sent) -> bytes:
    """Return a record of the metadata log as the value that it is in its batch."""
    return bytes([1, sent.message.api_key or 0, sent.version]) + sent.data


def record_lines(record: Shown, sent: Sent, head: int) -> tuple[list[Line], list[Line]]:
    """Return the lines of a message in a record: those wanted, and those shown."""
    (value,) = record.named("record.value")
    lines, _ = expected(sent.message, sent.version, sent.data)
    at = value.at + value.size - len(sent.data)
    body = Shown("", "", at, len(sent.data), "", b"", value.below[head:])
    return lines, shown(body, lines)


@pytest.mark.soak
@pytest.mark.parametrize("version", [12, 18])
def test_records_of_the_metadata_log_are_decoded(
    dissector: Path, tmp_path: Path, version: int
) -> None:
    chosen = [
        sent
        for (name, _), some in sorted(vectors("valid", "metadata").items())
        if not name.startswith("Remote")
        for sent in some[:8]
    ]
    assert len({sent.message.name for sent in chosen}) == 27
    batches = [encode_batch([frame_of(sent)], base_offset=5) for sent in chosen]
    tops = answers([fetched(batch, METADATA, version) for batch in batches], dissector,
                   tmp_path / "metadata.pcap")  # fmt: skip
    wrong = []
    for sent, (_, top) in zip(chosen, tops, strict=True):
        (record,) = top.named("record")
        wanted, shown_lines = record_lines(record, sent, head=3)
        if wanted != shown_lines or record.text != f"record[0] offset 5: {sent.message.name}":
            wrong.append((sent.label, wanted, shown_lines, record.text, top.named("error")))
    assert wrong == []


CONTROL = {
    "EndTxnMarker": 1, "LeaderChangeMessage": 2, "SnapshotHeaderRecord": 3,
    "SnapshotFooterRecord": 4, "KRaftVersionRecord": 5, "VotersRecord": 6,
}  # fmt: skip


def test_control_records_are_decoded(dissector: Path, tmp_path: Path) -> None:
    bodies = vectors("valid", "data")
    chosen = [
        sent
        for (name, version), some in sorted(bodies.items())
        if name in CONTROL
        for sent in some[:8]
        # The version of the others is their own first field.
        if name == "EndTxnMarker" or sent.data[:2] == struct.pack(">h", version)
    ]
    assert {sent.message.name for sent in chosen} == set(CONTROL)
    batches = [
        encode_batch(
            [struct.pack(">h", sent.version) + sent.data
             if sent.message.name == "EndTxnMarker" else sent.data],
            keys=[struct.pack(">hh", 0, CONTROL[sent.message.name])],
            control=True,
        )
        for sent in chosen
    ]  # fmt: skip
    tops = answers([fetched(batch, "orders") for batch in batches], dissector, tmp_path / "c.pcap")
    for sent, (_, top) in zip(chosen, tops, strict=True):
        (record,) = top.named("record")
        head = 2 if sent.message.name == "EndTxnMarker" else 1
        wanted, shown_lines = record_lines(record, sent, head)
        assert shown_lines == wanted, sent.label
        assert record.text.startswith(f"record[0] offset 0: {sent.message.name}")


def test_records_of_other_topics_are_left_alone(dissector: Path, tmp_path: Path) -> None:
    batch = encode_batch([bytes.fromhex("010200076f7264657273") + bytes(17)])
    for version in (12, 18):
        exchange = fetched(batch, "orders", version)
        ((_, top),) = answers([exchange], dissector, tmp_path / "c.pcap")
        assert top.named("record")
        assert not top.named("topic_record.name")


def test_a_record_of_an_unknown_type_is_named(dissector: Path, tmp_path: Path) -> None:
    batch = encode_batch([b"\x01\x63\x00"])
    ((_, top),) = answers([fetched(batch)], dissector, tmp_path / "c.pcap")
    notes = [line.text for line in top.walk() if line.name == "_ws.expert"]
    assert any("no layout of record type 99 version 0" in note for note in notes)


def test_a_snapshot_is_decoded_from_its_start_only(dissector: Path, tmp_path: Path) -> None:
    snapshot = encode_batch([bytes([1, 2, 0]) + bytes.fromhex("076f7264657273") + bytes(17)])
    session = Session()
    for position in (0, 9):
        partition = FetchSnapshotResponse.PartitionSnapshot(
            position=position, unaligned_records=snapshot[position:]
        )
        topic = FetchSnapshotResponse.TopicSnapshot(name=METADATA, partitions=[partition])
        response = FetchSnapshotResponse(topics=[topic]).encode(1)
        session.exchange(
            Sent(messages()["FetchSnapshotRequest"], 1, FetchSnapshotRequest().encode(1)),
            Sent(messages()["FetchSnapshotResponse"], 1, response),
        )
    tops = [top for _, top in session.shown(dissector, tmp_path / "snapshot.pcap")][1::2]
    assert [line.value for line in tops[0].named("topic_record.name")] == ["orders"]
    assert not tops[1].named("batch")
    assert not tops[1].named("error")
