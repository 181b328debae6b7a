"""Record batches that must be refused, each with its class and the byte at which it breaks.

As with messages (``invalid``), a good batch is written primitive by primitive, one primitive is
replaced, and the lengths and the CRC around it are made to fit: class and offset follow from that.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kraftspec.conformance.making.annotate import uvarint
from kraftspec.conformance.making.invalid import Fault
from kraftspec.conformance.making.make_batches import batch, header, record
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.fastpath.records import ATTRIBUTES_AT, RECORDS_AT

Value = dict[str, Any]

# The head of a batch: name and width, as org.apache.kafka.common.record.DefaultRecordBatch has it.
HEAD: Final = {
    "baseOffset": ">q", "batchLength": ">i", "partitionLeaderEpoch": ">i", "magic": ">b",
    "crc": ">I", "attributes": ">h", "lastOffsetDelta": ">i", "baseTimestamp": ">q",
    "maxTimestamp": ">q", "producerId": ">q", "producerEpoch": ">h", "baseSequence": ">i",
    "recordCount": ">i",
}  # fmt: skip
NAMES: Final = list(HEAD)
CRC_FROM: Final = NAMES.index("attributes")
FRAME_BYTES: Final = 12  # What a batch length leaves out.
ZSTD_BLOCK_BYTES: Final = 128 << 10
ZSTD: Final = 4
INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """One primitive of a batch; ``until`` is the index after what a record's length counts."""

    path: str
    raw: bytes
    bits: int = 0  # Of a varint.
    until: int = 0


def varint(value: int, bits: int = 32) -> bytes:
    """Write a zigzag varint."""
    number = value << 1 if value >= 0 else (-value << 1) - 1
    return uvarint(number & ((1 << bits) - 1))


def annotate_batch(value: Value) -> list[Part]:
    """Write an uncompressed batch, primitive by primitive."""
    fields = {**value, "batchLength": 0, "magic": 2, "crc": 0, "recordCount": len(value["records"])}
    parts = [Part(name, struct.pack(code, fields[name])) for name, code in HEAD.items()]
    for at, row in enumerate(value["records"]):
        path = f"records[{at}]"
        start = len(parts)
        parts.append(Part(f"{path}.length", b"", 32))
        parts.append(Part(f"{path}.attributes", struct.pack(">b", row["attributes"])))
        parts.append(Part(f"{path}.timestampDelta", varint(row["timestampDelta"], 64), 64))
        parts.append(Part(f"{path}.offsetDelta", varint(row["offsetDelta"]), 32))
        parts += [*_sized(f"{path}.key", row["key"]), *_sized(f"{path}.value", row["value"])]
        parts.append(Part(f"{path}.headers", varint(len(row["headers"])), 32))
        for number, one in enumerate(row["headers"]):
            key = base64.b64encode(one["key"].encode()).decode()
            parts += _sized(f"{path}.headers[{number}].key", key)
            parts += _sized(f"{path}.headers[{number}].value", one["value"])
        parts[start] = replace(parts[start], until=len(parts))
    return sealed(parts, {})


def _sized(path: str, text: str | None) -> list[Part]:
    data = b"" if text is None else base64.b64decode(text)
    length = -1 if text is None else len(data)
    return [Part(path, varint(length), 32), Part(f"{path} content", data)]


def sealed(parts: Sequence[Part], edits: Mapping[int, bytes], more: bytes = b"") -> list[Part]:
    """Replace parts, and put ``more`` at the end; lengths and CRC that are not edited then fit."""
    out = [replace(part, raw=edits.get(at, part.raw)) for at, part in enumerate(parts)]
    for at, part in enumerate(out):
        if part.until and at not in edits:
            size = sum(len(inner.raw) for inner in out[at + 1 : part.until])
            out[at] = replace(part, raw=varint(size))
    if more:
        out.append(Part("", more))
    length, crc = NAMES.index("batchLength"), NAMES.index("crc")
    if length not in edits:
        size = sum(len(part.raw) for part in out) - FRAME_BYTES
        out[length] = replace(out[length], raw=struct.pack(">i", size))
    if crc not in edits:
        covered = b"".join(part.raw for part in out[CRC_FROM:])
        out[crc] = replace(out[crc], raw=crc32c(covered).to_bytes(4, "big"))
    return out


def bytes_of(parts: Sequence[Part]) -> bytes:
    """Return the bytes of a batch."""
    return b"".join(part.raw for part in parts)


def base_value() -> Value:
    """Return the good batch that is broken: two records, with all that a record can have."""
    headers = (header("h", b"1"), header("i", None))
    rows = (record(b"key", b"value", headers), record(None, b"second", delta=3, offset=1))
    return batch(*rows, baseOffset=100, partitionLeaderEpoch=7)


class _Breaker:
    """Makes the faults of one batch."""

    def __init__(self, value: Value) -> None:
        self.parts = annotate_batch(value)
        self.paths = [part.path for part in self.parts]

    def fault(
        self,
        error_class: str,
        comment: str,
        edits: Mapping[str, bytes],
        at: str = "",
        more: bytes = b"",
    ) -> Fault:
        """Replace parts by their paths; the fault is at the first of them, or at ``at``."""
        parts = sealed(self.parts, {self.paths.index(key): raw for key, raw in edits.items()}, more)
        where = at or next(iter(edits))
        end = self.paths.index(where)
        offset = sum(len(part.raw) for part in parts[:end])
        return Fault(error_class, comment, where, bytes_of(parts), offset)

    def head(self, name: str, number: int) -> dict[str, bytes]:
        """Return the edit that puts a number into the head."""
        return {name: struct.pack(HEAD[name], number)}


def decode_faults() -> Iterator[Fault]:
    """Enumerate what is wrong with the bytes of a batch."""
    breaker = _Breaker(base_value())
    yield from _frames(breaker)
    yield from _heads(breaker)
    yield from _varints(breaker)
    yield from _records(breaker)
    yield from _bombs(breaker)


def _frames(breaker: _Breaker) -> Iterator[Fault]:
    data = bytes_of(breaker.parts)
    starts, at = [], 0
    for part in breaker.parts[: len(HEAD)]:
        starts.append((at, part.path))
        at += len(part.raw)
    starts.append((at, "records"))
    for size in range(len(data)):
        # As a whole: what does not fit into what is left is refused at the first field that is cut.
        offset, path = max(start for start in starts if start[0] <= size)
        yield Fault("truncated", f"{size} of {len(data)} bytes", path, data[:size], offset)
    for more, what in ((b"\x00", "a byte"), (b"\xff" * 16, "16 bytes"), (data, "another batch")):
        yield Fault("trailing", f"{what} after the batch", "", data + more, len(data))


def _heads(breaker: _Breaker) -> Iterator[Fault]:
    head = breaker.head
    for magic in (-1, 0, 1, 3, 127):
        yield breaker.fault("bad_magic", f"magic {magic}", head("magic", magic))
    for length in (-(1 << 31), -1, 0, 13, 14, RECORDS_AT - FRAME_BYTES - 1):
        comment = f"a batch length of {length}"
        yield breaker.fault("batch_length_mismatch", comment, head("batchLength", length))
    crc = int.from_bytes(breaker.parts[NAMES.index("crc")].raw, "big")
    for wrong in (crc ^ 1, crc ^ 0x8000_0000, 0, int.from_bytes(crc.to_bytes(4, "big"), "little")):
        yield breaker.fault("crc_mismatch", f"{wrong:#010x}", head("crc", wrong))
    own = {"crc": breaker.parts[NAMES.index("crc")].raw}
    for at, part in enumerate(breaker.parts[CRC_FROM:], CRC_FROM):
        if part.raw and not part.until:
            flipped = {part.path: part.raw[:-1] + bytes([part.raw[-1] ^ 1])}
            comment = f"a bit of {part.path} flipped"
            if breaker.paths.index(part.path) == at:
                yield breaker.fault("crc_mismatch", comment, {**own, **flipped}, at="crc")
    for codec in (5, 6, 7):
        comment = f"compression {codec}"
        yield breaker.fault("unknown_compression", comment, head("attributes", codec))
        nothing = {NAMES.index("attributes"): struct.pack(">h", codec)}
        nothing[NAMES.index("recordCount")] = bytes(4)
        parts = sealed(breaker.parts[: len(HEAD)], nothing)
        comment = f"compression {codec} of a batch without records"
        yield Fault("unknown_compression", comment, "attributes", bytes_of(parts), ATTRIBUTES_AT)
    for count in (0, 1, 3, 100, INT32_MAX):
        comment = f"{count} records, and there are two"
        yield breaker.fault("record_count_mismatch", comment, head("recordCount", count))
    for count in (-1, -(1 << 31)):
        comment = f"a record count of {count}"
        yield breaker.fault("negative_length", comment, head("recordCount", count))
    for first, second, at in ((0, 0, 1), (1, 0, 1), (0, 2, 1), (0, 64, 1), (-1, 1, 0), (2, 3, 0)):
        deltas = {
            "records[0].offsetDelta": varint(first), "records[1].offsetDelta": varint(second),
        }  # fmt: skip
        yield breaker.fault(
            "offset_delta_disorder", f"offset deltas {first}, {second} of at most 1", deltas,
            at=f"records[{at}].offsetDelta",
        )  # fmt: skip


def _varints(breaker: _Breaker) -> Iterator[Fault]:
    for at, part in enumerate(breaker.parts):
        if not part.bits or breaker.paths.index(part.path) != at:
            continue
        raw = part.raw
        padded = bytes([*raw[:-1], raw[-1] | 0x80, 0])
        yield breaker.fault("non_minimal_varint", "a byte more than needed", {part.path: padded})
        width = (part.bits + 6) // 7
        longest = bytes(byte | 0x80 for byte in raw.ljust(width, b"\0"))
        comment = f"in {width + 1} bytes"
        yield breaker.fault("varint_overflow", comment, {part.path: longest + b"\0"})
        beyond = 1 << (part.bits - 7 * (width - 1))
        wide = longest[:-1] + bytes([longest[-1] & 0x7F | beyond])
        comment = f"with a bit beyond the {part.bits} of its type"
        yield breaker.fault("varint_overflow", comment, {part.path: wide})


def _records(breaker: _Breaker) -> Iterator[Fault]:
    """Break lengths within the records."""
    fault = breaker.fault
    for number in (-1, -(1 << 31)):
        comment = f"a length of {number}"
        for path in ("records[0].length", "records[1].length", "records[0].headers[0].key"):
            yield fault("negative_length", comment, {path: varint(number)})
        yield fault("negative_length", comment, {"records[0].headers": varint(number)})
    for path in ("key", "value", "headers[0].value", "headers[1].value"):
        for number in (-2, -(1 << 31)):
            where = f"records[0].{path}"
            edits = {where: varint(number), f"{where} content": b""}
            yield fault("negative_length", f"a length of {number}", edits)
    for path in ("key", "value", "headers", "headers[0].key", "headers[0].value"):
        for number in (63, 8191, INT32_MAX):
            comment = f"{number}, and there is less"
            where = f"records[0].{path}"
            yield fault("length_exceeds_input", comment, {where: varint(number)})
    for number in (63, 8191, INT32_MAX):
        comment = f"{number}, and there is less"
        yield fault("length_exceeds_input", comment, {"records[1].length": varint(number)})
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"):
        where = "records[0].headers[0].key"
        edits = {where: varint(len(bad)), f"{where} content": bad}
        yield fault("invalid_utf8", f"a header key of {bad.hex()}", edits)
    # Of the second record nothing, or all but what stands last, is left.
    gone = {
        f"records[1].{name}": b""
        for name in ("attributes", "timestampDelta", "offsetDelta", "key", "value", "value content")
    }
    empty = {**gone, "records[1].headers": b""}
    yield fault("truncated", "a record of no bytes", empty, at="records[1].attributes")
    ended = {"records[1].headers": b""}
    yield fault("truncated", "a record without a header count", ended, at="records[1].headers")
    cut = {"records[1].headers": b"\x80"}
    yield fault("varint_truncated", "a record ends inside", cut, at="records[1].headers")
    size = sum(len(part.raw) for part in breaker.parts)
    for at, more in ((0, b"\x00"), (0, b"\x00\x00\x00")):
        where = f"records[{at}].headers[1].value content"
        inner = fault("trailing", f"{len(more)} bytes after the last header", {where: more})
        yield replace(inner, path=f"records[{at}]")
    # Bytes after the last record that are no record: 0x0c says six bytes, and there are two.
    data = bytes_of(sealed(breaker.parts, {}, b"\x0c\x00\x00"))
    yield Fault("trailing", "3 bytes after the last record", "records[2]", data, size)


def _bombs(breaker: _Breaker) -> Iterator[Fault]:
    """Zstandard frames of blocks that each say 128 KiB of zeros in four bytes (RFC 8878)."""
    head = breaker.parts[: len(HEAD)]
    attributes = NAMES.index("attributes")
    for mebibytes in (32, 256, 1024):
        frame = bytes.fromhex("28b52ffd0050")  # No content size, a window of 1 MiB.
        count = (mebibytes << 20) // ZSTD_BLOCK_BYTES
        for number in range(1, count + 1):
            block = ZSTD_BLOCK_BYTES << 3 | 1 << 1 | (number == count)
            frame += block.to_bytes(3, "little") + b"\0"
        parts = sealed(head, {attributes: struct.pack(">h", ZSTD)}, frame)
        comment = f"{mebibytes} MiB of zeros in {len(frame)} bytes"
        yield Fault("decompression_bomb", comment, "records", bytes_of(parts), RECORDS_AT)


def compressed_faults(data: bytes) -> Iterator[Fault]:
    """Break the compressed block of a batch that Kafka wrote; its records are one frame."""
    head = [Part(name, data[:0]) for name in NAMES]
    at = 0
    for index, (name, code) in enumerate(HEAD.items()):
        head[index] = Part(name, data[at : at + struct.calcsize(code)])
        at += struct.calcsize(code)
    block, codec = data[RECORDS_AT:], data[22] & 7
    is_snappy = codec == 2  # noqa: PLR2004 - its id
    # The framing of snappy has a head of 16 bytes; then chunks, each of which is read as a whole.
    chunk = RECORDS_AT + 16 * is_snappy

    def fault(error_class: str, comment: str, content: bytes, offset: int) -> Fault:
        broken = bytes_of(sealed(head, {}, content))
        return Fault(error_class, comment, "records", broken, offset)

    yield fault("truncated", "the last byte is cut off", block[:-1], chunk)
    yield fault("truncated", "one byte is left", block[:1], RECORDS_AT)
    if not is_snappy:
        yield fault("trailing", "a byte follows", block + b"\0", len(data))
    rubbish = bytes(range(200, 232))
    yield fault("unknown_compression", "these bytes are not in it", rubbish, RECORDS_AT)


# --------------------------------------------------------------------------------------- encoding

_RECORD: Final = {"attributes": "int8", "timestampDelta": "int64", "offsetDelta": "int32"}
_WIDTHS: Final = {">q": "int64", ">i": "int32", ">h": "int16"}
_COMPUTED: Final = ("batchLength", "magic", "crc", "recordCount")  # Not in the value.


def encode_faults() -> Iterator[Fault]:
    """Enumerate what is wrong with the value of a batch."""
    heads = {name: _WIDTHS[code] for name, code in HEAD.items() if name not in _COMPUTED}
    for name, wire in heads.items():
        yield from _of_integer(name, wire, lambda value: value)
    for name, wire in _RECORD.items():
        yield from _of_integer(name, wire, lambda value: value["records"][0], "records[0].")
    for name in ("key", "value"):
        yield _replaced("wrong_type", f"records[0].{name}", name, 5, lambda v: v["records"][0])
    yield _replaced("wrong_type", "records", "records", "text", lambda value: value)
    yield _replaced("null_for_non_nullable", "records", "records", None, lambda value: value)
    where = "records[0].headers[0].key"
    for error_class, wrong in (("wrong_type", 5), ("null_for_non_nullable", None)):
        yield _replaced(error_class, where, "key", wrong, lambda v: v["records"][0]["headers"][0])
    for name in (*heads, "records"):
        value = base_value()
        del value[name]
        yield Fault("missing_field", "left out", name, value=value)


def _of_integer(name: str, wire: str, inside: Any, prefix: str = "") -> Iterator[Fault]:
    low, high = INTEGER_RANGE[wire]
    for error_class, wrong in {
        "wrong_type": "five", "integer_out_of_range": high + (129 if wire == "int8" else 1),
        "null_for_non_nullable": None,
    }.items():  # fmt: skip
        yield _replaced(error_class, prefix + name, name, wrong, inside)
    yield _replaced("integer_out_of_range", prefix + name, name, low - 1, inside)


def _replaced(error_class: str, path: str, name: str, wrong: Any, inside: Any) -> Fault:
    value = base_value()
    inside(value)[name] = wrong
    return Fault(error_class, f"{wrong!r}", path, value=value)
