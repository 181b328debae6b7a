"""The batches of records that the scripted broker has: good ones, and those that no broker has."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

from kraftspec.fastpath import crc32c, encode_batch
from kraftspec.fastpath.records import Compression

TIMESTAMP = 1_700_000_000_000
BOMB_BYTES = 2 << 30  # What a bomb inflates to: more than a client may take for 100 KiB.
_CRC_AT, _ATTRIBUTES_AT, _COUNT_AT, _RECORDS_AT = 17, 21, 57, 61
_LENGTH_AT, _MAGIC_AT, _LENGTH_FROM = 8, 16, 12
_CHUNK = 1 << 24
_ZSTD_BLOCK = 1 << 17


def make(values: Sequence[str], hazard: str, base_offset: int = 0) -> bytes:
    """Return a batch of these values, spoilt as ``hazard`` says (docs/clients.md).

    Raises ImportError where the library of a compression is missing.
    """
    if hazard in ("snappy", "lz4", "zstd", "gzip"):
        return _batch(values, Compression[hazard.upper()], base_offset)
    batch = bytearray(_batch(values, Compression.NONE, base_offset))
    match hazard:
        case "bad-crc":
            batch[_CRC_AT] ^= 0xFF
            return bytes(batch)
        case "bad-magic":
            batch[_MAGIC_AT] = 9
            return bytes(batch)
        case "cut":
            return bytes(batch[:-3])
        case "length-high" | "length-negative":
            length = 0x7FFFFFF0 if hazard == "length-high" else -1
            struct.pack_into(">i", batch, _LENGTH_AT, length)
            return bytes(batch)
        case "count-high" | "count-negative":
            struct.pack_into(">i", batch, _COUNT_AT, 0x7FFFFFFF if hazard == "count-high" else -2)
        case "unknown-codec":
            batch[_ATTRIBUTES_AT + 1] |= 7
        case "record-length-high":  # 2^30 as a zigzag varint, in the place of one byte.
            batch[_RECORDS_AT : _RECORDS_AT + 1] = b"\x80\x80\x80\x80\x08"
        case "headers-high":  # The last byte of a record without headers is their count.
            batch[-1:] = b"\x80\x80\x80\x80\x08"
            batch[_RECORDS_AT] += 8  # The length of the record, of which there is one: four more.
        case "broken-gzip":
            batch[_ATTRIBUTES_AT + 1] |= 1
            batch[_RECORDS_AT:] = b"\x1f\x8b\x08\x00 this is no gzip"
        case "bomb-gzip":
            batch[_ATTRIBUTES_AT + 1] |= 1
            batch[_RECORDS_AT:] = _gzip_bomb(bytes(batch[_RECORDS_AT:]))
        case "bomb-zstd":
            batch[_ATTRIBUTES_AT + 1] |= 4
            batch[_RECORDS_AT:] = _zstd_bomb(bytes(batch[_RECORDS_AT:]))
    return _sealed(batch)


def _batch(values: Sequence[str], compression: Compression, base_offset: int) -> bytes:
    return encode_batch(
        [value.encode() for value in values],
        timestamps=TIMESTAMP,
        base_offset=base_offset,
        partition_leader_epoch=0,
        compression=compression,
    )


def _sealed(batch: bytearray) -> bytes:
    """Return the batch with a length and a checksum that fit."""
    struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - _LENGTH_FROM)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)


def _gzip_bomb(records: bytes) -> bytes:
    """Return a gzip stream of the records and 2 GiB of zeros, without compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    out = [packer.compress(records), packer.flush(zlib.Z_FULL_FLUSH)]
    chunk = packer.compress(bytes(_CHUNK)) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so that a chunk may be repeated as it is. Its end is
    # left out: who inflates all of it has inflated a bomb, and no checksum helps him then.
    header = gzip.compress(b"", mtime=0)[:10]
    return header + b"".join(out) + chunk * (BOMB_BYTES // _CHUNK) + b"\x03\x00" + bytes(8)


def _zstd_bomb(records: bytes) -> bytes:
    """Return a zstd frame of the records and 2 GiB of zeros, in blocks of one byte each."""
    raw = (len(records) << 3).to_bytes(3, "little") + records
    block = (_ZSTD_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    window = bytes([(17 - 10) << 3])
    head = b"\x28\xb5\x2f\xfd" + b"\x00" + window
    return head + raw + block * (BOMB_BYTES // _ZSTD_BLOCK) + last
