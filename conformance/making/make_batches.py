"""Golden vectors of record batches, whose bytes Apache Kafka's own ``MemoryRecordsBuilder`` makes.

A batch has no spec, so its values are enumerated here: each way in which a record, or the head of
a batch, can differ from the next. Batches that Kafka compressed are tests of decoding only.
"""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.adapters.harness import Request, decode_request, encode_request
from kraftspec.conformance.making.families import default_value, populated_value
from kraftspec.conformance.vectors import KAFKA, dumps, test_id
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.records import ATTRIBUTES_AT, CRC_AT
from kraftspec.specs import specs_root

if TYPE_CHECKING:
    from kraftspec.conformance.adapters.kafka import KafkaAdapter

MESSAGE: Final = "RecordBatch"
VERSION: Final = 2
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")  # Bits 0 to 2 of the attributes.
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
CONTROL_TYPES: Final = range(7)  # ControlRecordType: ABORT to KRAFT_VOTERS

NOW: Final = 1_700_000_000_000
INT16_MAX: Final = (1 << 15) - 1
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
# The lengths on both sides of where a signed varint grows by a byte, that fit into a small file.
LENGTHS: Final = (0, 1, 62, 63, 64, 65, 8191, 8192)
RANDOM_COUNT: Final = 120
COMPRESSED: Final = "compressed"
UNNAMED: Final = "control-unnamed"

Value = dict[str, Any]
# (family, comment, value)
Candidate = tuple[str, str, Value]


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(size: int) -> bytes:
    return bytes(at * 31 % 251 for at in range(size))


def header(key: str, value: bytes | None) -> Value:
    """Make a header."""
    return {"key": key, "value": _text(value)}


def record(
    key: bytes | None = None,
    value: bytes | None = b"value",
    headers: tuple[Value, ...] = (),
    *,
    delta: int = 0,
    offset: int = 0,
) -> Value:
    """Make a record; ``delta`` is to the base timestamp, ``offset`` to the base offset."""
    return {
        "attributes": 0, "timestampDelta": delta, "offsetDelta": offset,
        "key": _text(key), "value": _text(value), "headers": list(headers),
    }  # fmt: skip


def batch(*records: Value, timestamp: int = NOW, **fields: Any) -> Value:
    """Make a batch whose head is what the builder writes for these records."""
    greatest = max((timestamp + item["timestampDelta"] for item in records), default=-1)
    return {
        "baseOffset": 0, "partitionLeaderEpoch": -1, "attributes": 0,
        "lastOffsetDelta": records[-1]["offsetDelta"] if records else 0,
        "baseTimestamp": timestamp if records else -1, "maxTimestamp": max(greatest, -1),
        "producerId": -1, "producerEpoch": -1, "baseSequence": -1,
        "records": list(records), **fields,
    }  # fmt: skip


def _many(count: int, value: bytes | None = b"v") -> Value:
    return batch(*(record(value=value, delta=at, offset=at) for at in range(count)))


def _counts() -> Iterator[Candidate]:
    for count in (1, 2, 3, 10, 63, 64, 65, 66, 127, 128, 129, 200):
        yield "counts", f"{count} records", _many(count)
    yield "counts", "300 records of nulls", _many(300, None)
    for attributes in (0, LOG_APPEND_TIME, CONTROL):
        for last in (0, 1, 99, INT32_MAX):
            empty = batch(attributes=attributes, lastOffsetDelta=last, maxTimestamp=NOW)
            yield "counts", f"no records, last offset delta {last}", empty
    producer = {"producerId": 7, "producerEpoch": 3, "baseSequence": 11}
    yield "counts", "no records, a producer", batch(**producer)
    yield "counts", "no records, a transaction", batch(attributes=TRANSACTIONAL, **producer)


def _fields() -> Iterator[Candidate]:
    headers: dict[str, tuple[Value, ...]] = {
        "no headers": (),
        "a header of null": (header("h", None),),
        "a header of nothing": (header("", b""),),
        "a header": (header("trace-id", b"0123456789abcdef"),),
        "two headers": (header("a", b"1"), header("b", None)),
        "one header twice": (header("a", b"1"), header("a", b"1")),
        "multi-byte headers": (header("häder-日本-\U0001f600", b"\x00\xff"),),
    }
    kinds = {"null": None, "empty": b"", "short": b"k", "long": _bytes(100)}
    for (k, key), (v, value), (h, pairs) in product(kinds.items(), kinds.items(), headers.items()):
        yield "nulls", f"{k} key, {v} value, {h}", batch(record(key, value, pairs))
    rows = [record(key, None, (), offset=at) for at, key in enumerate(kinds.values())]
    yield "nulls", "tombstones", batch(*rows)
    mixed = [
        record(key, value, pairs, offset=at)
        for at, (key, value, pairs) in enumerate(
            zip(kinds.values(), reversed(kinds.values()), headers.values(), strict=False)
        )
    ]
    yield "nulls", "all kinds in one batch", batch(*mixed)


def _lengths() -> Iterator[Candidate]:
    for size in LENGTHS:
        data = _bytes(size)
        yield "lengths", f"a key of {size} bytes", batch(record(data))
        yield "lengths", f"a value of {size} bytes", batch(record(value=data))
        yield (
            "lengths",
            f"a header key of {size} bytes",
            batch(record(headers=(header("k" * size, b"v"),))),
        )
        yield (
            "lengths",
            f"a header value of {size} bytes",
            batch(record(headers=(header("k", data),))),
        )
    # The record's own length: 7 bytes and the value.
    for size in range(50, 64):
        yield "lengths", f"a record of {size + 7} bytes", batch(record(value=_bytes(size)))
    for size in range(8180, 8188):
        yield "lengths", f"a record of {size + 8} bytes", batch(record(value=_bytes(size)))
    for count in (1, 2, 62, 63, 64, 65, 127, 128):
        many = tuple(header(f"h{at}", b"") for at in range(count))
        yield "lengths", f"{count} headers", batch(record(headers=many))
    many = tuple(header("", None) for _ in range(8192))
    yield "lengths", "8192 headers", batch(record(headers=many))


def _timestamps() -> Iterator[Candidate]:
    for timestamp in (-1, 0, 1, NOW, INT64_MAX):
        yield "timestamps", f"at {timestamp}", batch(record(), timestamp=timestamp)
    for width in range(1, 11):
        edge = 1 << (7 * width - 1)  # The least magnitude that takes a byte more.
        for delta in sorted({min(size, INT64_MAX) for size in (edge // 2, edge - 1, edge)}):
            rows = (record(), record(delta=delta, offset=1))
            yield "timestamps", f"delta {delta}", batch(*rows, timestamp=0)
        for delta in sorted({max(-size, -INT64_MAX - 1) for size in (edge // 2, edge, edge + 1)}):
            rows = (record(), record(delta=delta, offset=1))
            yield "timestamps", f"delta {delta}", batch(*rows, timestamp=max(NOW, -1 - delta))
    falling = tuple(record(delta=-1000 * at, offset=at) for at in range(20))
    yield "timestamps", "falling", batch(*falling)
    zigzag = tuple(record(delta=(-1) ** at * at * at, offset=at) for at in range(20))
    yield "timestamps", "up and down", batch(*zigzag)
    yield "timestamps", "none after one", batch(record(), record(delta=-NOW - 1, offset=1))
    for appended in (-1, 0, NOW + 5, INT64_MAX):
        stamped = batch(*zigzag, attributes=LOG_APPEND_TIME, maxTimestamp=appended)
        yield "timestamps", f"log append time {appended}", stamped
    for horizon in (0, NOW, INT64_MAX - 10):
        rows = (record(delta=3), record(delta=-1 if horizon else 5, offset=1))
        cleaned = batch(*rows, timestamp=horizon, attributes=DELETE_HORIZON)
        yield "timestamps", f"delete horizon {horizon}", cleaned


def _offsets() -> Iterator[Candidate]:
    for base in (0, 1, 127, 128, INT32_MAX, INT32_MAX + 1, INT64_MAX - 1):
        rows = (record(), record(offset=1))
        yield "offsets", f"from {base} on", batch(*rows, baseOffset=base)
    yield "offsets", f"at {INT64_MAX}", batch(record(), baseOffset=INT64_MAX)
    for width in range(1, 6):
        edge = 1 << (7 * width - 1)
        for delta in sorted({min(edge - 1, INT32_MAX), min(edge, INT32_MAX)}):
            rows = (record(), record(offset=delta))
            yield "offsets", f"offset delta {delta}", batch(*rows)
            yield "offsets", f"first offset delta {delta}", batch(record(offset=delta))
    yield "offsets", "gaps", batch(*(record(offset=at * at) for at in range(1, 30)))
    for last in (1, 63, 64, INT32_MAX):
        yield (
            "offsets",
            f"last offset delta {last} of one record",
            batch(record(), lastOffsetDelta=last),
        )
    for epoch in (-(1 << 31), -1, 0, 1, 255, 65536, INT32_MAX):
        yield "offsets", f"leader epoch {epoch}", batch(record(), partitionLeaderEpoch=epoch)


def _producers() -> Iterator[Candidate]:
    ids, epochs, sequences = (0, 1, 4000, INT64_MAX), (0, 1, INT16_MAX), (0, 1, INT32_MAX)
    for producer, epoch, sequence in product(ids, epochs, sequences):
        for attributes in (0, TRANSACTIONAL):
            yield (
                "producers",
                f"producer {producer}, epoch {epoch}, sequence {sequence}",
                batch(
                    record(), record(b"k", offset=1), attributes=attributes, producerId=producer,
                    producerEpoch=epoch, baseSequence=sequence,
                ),
            )  # fmt: skip


def _controls() -> Iterator[Candidate]:
    for kind in CONTROL_TYPES:
        for version in (0, 1):
            key = version.to_bytes(2, "big") + kind.to_bytes(2, "big")
            for value in (b"", b"\x00\x00\x00\x00\x00\x07", _bytes(80)):
                control = batch(record(key, value), attributes=CONTROL, partitionLeaderEpoch=9)
                yield "control", f"control type {kind}, key version {version}", control
        marker = batch(
            record(b"\x00\x00" + kind.to_bytes(2, "big"), _bytes(6)),
            attributes=CONTROL | TRANSACTIONAL, producerId=7, producerEpoch=1, baseOffset=1000,
        )  # fmt: skip
        yield "control", f"control type {kind} of a transaction", marker


def _random() -> Iterator[Candidate]:
    """Mixtures, the same in every run: ``random()`` of a seed is what Python promises to keep."""
    source = random.Random(2)

    def below(count: int) -> int:
        return int(source.random() * count)

    def blob() -> bytes | None:
        return None if below(5) == 0 else bytes(below(256) for _ in range(below(1 << below(8))))

    for number in range(RANDOM_COUNT):
        rows = []
        for at in range(1 + below(12)):
            headers = tuple(header(f"h{below(99)}", blob()) for _ in range(below(4)))
            delta = below(1 << below(40)) - below(1 << below(40)) if at else 0
            rows.append(record(blob(), blob(), headers, delta=delta, offset=at))
        fields: Value = {"baseOffset": below(1 << below(50)), "partitionLeaderEpoch": below(99)}
        if below(2):
            fields |= {"producerId": below(999), "producerEpoch": 0, "baseSequence": below(999)}
            fields["attributes"] = TRANSACTIONAL * below(2)
        yield "random", f"mixture {number}", batch(*rows, timestamp=2 << 40, **fields)


def _compressed() -> Iterator[Candidate]:
    noise = random.Random(3)
    samples = {
        "one record": batch(record()),
        "a record of nulls": batch(record(None, None)),
        "headers": batch(record(b"k", b"v", (header("a", None), header("é", b"1")))),
        "many that are alike": _many(200, _bytes(30)),
        "4 KiB of one byte": batch(record(value=b"a" * 4096), record(value=b"a", offset=1)),
        "noise": batch(record(value=bytes(int(noise.random() * 256) for _ in range(3000)))),
        "gaps": batch(record(), record(offset=70), record(offset=9000)),
        "negative deltas": batch(*(record(delta=-at, offset=at) for at in range(70))),
        "a transaction": batch(
            record(), attributes=TRANSACTIONAL, producerId=1, producerEpoch=0, baseSequence=0
        ),
        "log append time": batch(record(), attributes=LOG_APPEND_TIME, maxTimestamp=NOW + 9),
        "a leader epoch": batch(record(), partitionLeaderEpoch=4, baseOffset=1 << 40),
    }
    for (what, sample), (codec, name) in product(samples.items(), enumerate(CODECS)):
        if codec:
            packed = {**sample, "attributes": sample["attributes"] | codec}
            yield COMPRESSED, f"{name}: {what}", packed


def candidates() -> Iterator[Candidate]:
    """Enumerate the values, each once."""
    seen = set()
    for source in (
        _counts, _fields, _lengths, _timestamps, _offsets, _producers, _controls, _random,
        _compressed,
    ):  # fmt: skip
        for family, comment, value in source():
            text = dumps(value)
            if text not in seen:
                seen.add(text)
                yield family, comment, value


def _real_controls(kafka: KafkaAdapter, *, drafts: bool) -> Iterator[Candidate]:
    """Control records as Kafka writes them: keys and values by its classes, of every version.

    A key is a version and the type (``ControlRecordType``). The value of a marker of transactions
    begins with its version too (``EndTransactionMarker``), the others hold theirs. A release that
    lacks the schema of one of them gives none of that kind.
    """
    read: dict[str, Any] = {}
    listed = json.loads((specs_root() / "control-records.json").read_text("utf-8"))
    for entry in [*listed["controlRecords"], *(listed["private"] if drafts else ())]:
        set_name = entry.get("set", KAFKA)
        if set_name not in read:
            [message_set] = specs_sets(specs_root(), specs_root(), "unused", (set_name,))
            read[set_name] = {each.name: each for each in read_set(message_set).values()}
            if set_name != KAFKA:
                kafka.load(set_name, directory=message_set.directory)
        message = read[set_name][entry["message"]]
        spec = None if set_name == KAFKA else set_name
        key = _encoded(kafka, "ControlRecordTypeSchema", 0, {"type": entry["type"]}, None)
        for version in message.valid_versions:
            struct_plan = plan_message(message, version).struct
            prefix = version.to_bytes(2, "big") if message.name == "EndTxnMarker" else b""
            for what, value in {
                "defaults": default_value(struct_plan), "populated": populated_value(struct_plan),
            }.items():  # fmt: skip
                content = _encoded(kafka, message.name, version, value, spec)
                if key is None or content is None:
                    continue
                body = prefix + content
                control = batch(record(b"\0\0" + key, body), attributes=CONTROL, baseOffset=7)
                comment = f"{entry['name']} of {set_name}: {message.name} v{version}, {what}"
                yield "control", comment, control


def _encoded(
    kafka: KafkaAdapter, message: str, version: int, value: Value, spec: str | None
) -> bytes | None:
    reply = kafka.request(encode_request(message, message, version, value, spec))
    return bytes.fromhex(reply["hex"]) if "hex" in reply else None


def _encoded_control(kafka: KafkaAdapter, value: Value) -> str | None:
    """Return a control batch of a type that Kafka's builder refuses, as it has no name for it.

    The bytes are the builder's, for records that are no control records; the bit of the attributes
    and the CRC are set after. None where Kafka does not write the batch otherwise either.
    """
    plain = {**value, "attributes": value["attributes"] & ~CONTROL}
    reply = kafka.request(encode_request("plain", MESSAGE, VERSION, plain))
    if not value["attributes"] & CONTROL or "hex" not in reply:
        return None
    data = bytearray.fromhex(reply["hex"])
    data[ATTRIBUTES_AT + 1] |= CONTROL
    data[CRC_AT:ATTRIBUTES_AT] = crc32c(bytes(data[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return data.hex()


def batch_tests(
    kafka: KafkaAdapter, *, drafts: bool = True
) -> tuple[list[dict[str, Any]], list[str]]:
    """Have Kafka make the batches; return the tests, and what it refused.

    ``drafts``: the control records of the drafts as well.
    """
    cases = [*candidates(), *_real_controls(kafka, drafts=drafts)]
    encoded, refused = [], []
    replies = list(kafka.run(_encodes(cases)))
    for (family, comment, value), reply in zip(cases, replies, strict=True):
        if "hex" in reply:
            encoded.append((family, comment, value, reply["hex"]))
        elif (hex_ := _encoded_control(kafka, value)) is not None:
            encoded.append((UNNAMED, f"{comment}, a type that Kafka does not name", value, hex_))
        else:
            refused.append(f"{MESSAGE} {family} ({comment}): {reply.get('error', reply)}")
    tests: dict[str, dict[str, Any]] = {}
    requests = (decode_request(row[1], MESSAGE, VERSION, row[3]) for row in encoded)
    for (family, comment, value, hex_), reply in zip(encoded, kafka.run(requests), strict=True):
        if reply.get("value") != value:
            refused.append(f"{MESSAGE} {family} ({comment}): read back as {reply}")
            continue
        op = "decode" if family in (COMPRESSED, UNNAMED) else "roundtrip"
        test = {
            "id": test_id(MESSAGE, VERSION, op, hex_), "version": VERSION, "op": op,
            "family": family, "value": value, "hex": hex_, "result": "valid", "comment": comment,
        }  # fmt: skip
        tests.setdefault(test["id"], test)
    return list(tests.values()), refused


def _encodes(cases: list[Candidate]) -> Iterator[Request]:
    for _, comment, value in cases:
        yield encode_request(comment, MESSAGE, VERSION, value)
