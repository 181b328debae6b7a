"""The five compressions of record batches, in the framings that Apache Kafka writes and reads.

====== ====================================================================================
gzip   a gzip stream, of several members perhaps
snappy xerial's framing: ``82 "SNAPPY" 00``, int32 version and int32 compatible version, which
       nobody looks at, then chunks of { int32 length, raw snappy block of at most 32 KiB };
       read only: one raw block without a header, as librdkafka and franz-go write it
lz4    one lz4 frame: independent blocks of 64 KiB, no content size, a correct header checksum
zstd   zstd frames, with or without a content size
====== ====================================================================================

The facts are those of ``org.apache.kafka.common.compress`` (KIP-110, KIP-390 for the levels).
The libraries are those of the extra ``[compression]``, loaded when first used; gzip works without.

Reading trusts no length: it asks a library for no more bytes than are still allowed, so memory is
bounded by twice the limits below and a small multiple of the input. What is wrong is a
``CodecError``, its offset the first byte, in the compressed bytes, of the frame or chunk refused:

* TRUNCATED: a frame or chunk ends before it should;
* TRAILING: bytes after the last frame (the Java readers of gzip and lz4 never look at them);
* DECOMPRESSION_BOMB: more bytes than the limits allow;
* NEGATIVE_LENGTH: a chunk of xerial's framing;
* UNKNOWN_COMPRESSION: an id of 5 to 7, or bytes that are not in the compression they are said to
  be in, checksums included: no narrower class has a meaning that all libraries tell apart.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import Compression

# A batch is at most message.max.bytes (1 MiB) by default and expands ten times when it is text;
# this leaves room for a hundred times either, and is the window that any zstd reader accepts.
DECOMPRESSED_BYTES_MAX: Final = 128 << 20
# Deflate's own limit: what honest gzip can reach. Lz4 ends at 255 and snappy at 22; zstd has none.
RATIO_MAX: Final = 1_032
# Not for small inputs: 10,000 equal records are a megabyte, and 150 bytes of zstd.
RATIO_FREE_BYTES: Final = 16 << 20

ZSTD_WINDOW_LOG_MAX: Final = 27  # What level 22, Kafka's highest, declares for a stream.
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# A context that is kept keeps the largest window it had: 2 MiB at level 3, this at level 19.
ZSTD_KEPT_WINDOW_BYTES_MAX: Final = 8 << 20
# Kafka's streams do not say what a frame holds. So much is tried; it is only touched as it fills.
ZSTD_FIRST_OUTPUT_BYTES_MIN: Final = 256 << 10
ZSTD_FIRST_OUTPUT_RATIO: Final = 16
ZSTD_BLOCKS_MAX: Final = 1 << 10  # Of 128 KiB as a rule. Empty ones could be a million.
_ZSTD_RLE: Final = 1  # The type of a block whose content is one byte, again and again.

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
XERIAL_BLOCK_BYTES: Final = 32 << 10  # SnappyOutputStream's default.
# A copy of at most 64 bytes takes three: no block of snappy expands more.
SNAPPY_RATIO_MAX: Final = 22

LZ4_FIRST_OUTPUT_BYTES_MIN: Final = 64 << 10
LATER_FRAME_STEP_BYTES: Final = 1 << 10

# Kafka's ranges (CompressionType, KIP-390). Snappy has no levels.
LEVELS: Final = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-(1 << 17), 23),
}

Buffer = bytes | bytearray | memoryview


class MissingCompressionError(ImportError):
    """The package that reads or writes a compression is not installed."""


@cache
def _library(module: str, package: str) -> Any:
    """Import ``module`` when it is needed; the error of a missing one names its package."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingCompressionError(
            f"the package {package} is not installed: pip install 'kraftspec[compression]'",
            name=package,
        ) from error


@cache
def _deflate() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the faster of two modules with one interface, and what it raises."""
    try:
        isal = import_module("isal.isal_zlib")
    except ModuleNotFoundError:
        return zlib, (zlib.error,)
    return isal, (isal.error,)


@cache
def _zstd() -> Any:
    try:
        return import_module("compression.zstd")  # Python 3.14 and later.
    except ModuleNotFoundError:
        return _library("backports.zstd", "backports.zstd")


class _ZstdContexts(threading.local):
    """A context of zstandard for each thread: making one takes as long as a third of a batch."""

    def __init__(self) -> None:
        try:
            self.module: Any = import_module("zstandard")
        except ModuleNotFoundError:
            self.module = None
        else:
            self.reader = self.module.ZstdDecompressor()


@cache
def _zstd_contexts() -> _ZstdContexts:
    return _ZstdContexts()


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return ``data`` as Kafka frames it in ``codec``.

    ``level`` is in Kafka's range for the codec (gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22);
    None is the library's default, and for gzip the fast one where isal is installed. Raises
    ValueError for a level outside, MissingCompressionError, and CodecError for a codec above 4.
    """
    codec = _known(codec)
    if level is not None and level not in LEVELS.get(codec, ()):
        raise ValueError(f"{codec.name.lower()} has no compression level {level}")
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _gzip(data, level)
        case Compression.SNAPPY:
            return _xerial(memoryview(data).cast("B"))
        case Compression.LZ4:
            return _lz4(data, level)
        case Compression.ZSTD:
            zstd: Any = _zstd()
            compressed: bytes = zstd.compress(data, level=level)
            return compressed


def decompress(
    codec: int,
    data: Buffer,
    *,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    ratio_max: int = RATIO_MAX,
) -> bytes:
    """Return what ``data`` holds in ``codec``: at most ``size_max`` bytes.

    Nor more than ``ratio_max`` times the input, once it is above RATIO_FREE_BYTES. Raises
    CodecError and MissingCompressionError; the module's docstring has the classes.
    """
    codec = _known(codec)
    view = memoryview(data).cast("B")
    if codec is Compression.NONE:
        return bytes(view)
    if not view:
        # Each of them writes a header for nothing, too.
        raise CodecError(ErrorClass.TRUNCATED, f"no bytes of {codec.name.lower()}", offset=0)
    bytes_max = min(size_max, ratio_max * len(view) + RATIO_FREE_BYTES)
    match codec:
        case Compression.GZIP:
            module, errors = _deflate()
            return _frames("gzip", b"\x1f\x8b", _gzip_reader(module), errors, view, bytes_max)
        case Compression.SNAPPY:
            return _unsnappy(view, bytes_max)
        case Compression.LZ4:
            return _unlz4(view, bytes_max)
        case Compression.ZSTD:
            output = _usual_zstd(view, bytes_max)
            return _unzstd(view, bytes_max) if output is None else output


def _known(codec: int) -> Compression:
    try:
        return Compression(codec)
    except ValueError:
        raise CodecError(
            ErrorClass.UNKNOWN_COMPRESSION, f"there is no compression {codec}"
        ) from None


def _bomb(name: str, bytes_max: int, at: int) -> CodecError:
    detail = f"{name} of more than {bytes_max:,} bytes, the limit for an input of this size"
    return CodecError(ErrorClass.DECOMPRESSION_BOMB, detail, offset=at)


def _corrupt(name: str, error: Exception | str, at: int) -> CodecError:
    return CodecError(ErrorClass.UNKNOWN_COMPRESSION, f"this is not {name}: {error}", offset=at)


def _truncated(name: str, at: int) -> CodecError:
    return CodecError(ErrorClass.TRUNCATED, f"{name} ends early", offset=at)


def _trailing(name: str, count: int, at: int) -> CodecError:
    return CodecError(ErrorClass.TRAILING, f"{count} bytes follow the {name}", offset=at)


# gzip and zstd


def _gzip(data: Buffer, level: int | None) -> bytes:
    if level is not None:  # The levels of isal differ, so a level selects zlib.
        return zlib.compress(data, level, 31)
    compressed: bytes = _deflate()[0].compress(data, wbits=31)
    return compressed


def _gzip_reader(module: Any) -> Callable[[], Any]:
    return lambda: module.decompressobj(wbits=31)


def _usual_zstd(view: memoryview, bytes_max: int) -> bytes | None:
    """Decompress one whole frame of a usual window and ratio; return None for all else.

    ``_unzstd`` finds the error and its class.
    """
    contexts = _zstd_contexts()
    module = contexts.module
    if module is None or bytes(view[: len(ZSTD_MAGIC)]) != ZSTD_MAGIC:  # Others are skippable.
        return None
    try:
        frame = module.get_frame_parameters(view)
        # The library believes a size that is there, and looks at nothing more when it is 0.
        is_sized = frame.content_size != module.CONTENTSIZE_UNKNOWN
        if frame.window_size > ZSTD_KEPT_WINDOW_BYTES_MAX or (
            is_sized and not 0 < frame.content_size <= bytes_max
        ):
            return None
        if _zstd_end(view, module.frame_header_size(view), frame.has_checksum) != len(view):
            return None  # The library would not look at what follows.
        output_max = max(ZSTD_FIRST_OUTPUT_RATIO * len(view), ZSTD_FIRST_OUTPUT_BYTES_MIN)
        output: bytes = contexts.reader.decompress(view, max_output_size=min(output_max, bytes_max))
    except module.ZstdError:
        return None
    return output


def _zstd_end(view: memoryview, at: int, has_checksum: bool) -> int:
    """Return the end of the frame with its first block at ``at``; -1 where that is not clear."""
    for _ in range(ZSTD_BLOCKS_MAX):
        block = int.from_bytes(view[at : at + 3], "little")  # Last, two bits of type, and a size.
        at += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
        if block & 1:
            return at + 4 * has_checksum
    return -1


def _unzstd(view: memoryview, bytes_max: int) -> bytes:
    zstd = _zstd()
    limits = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}

    def reader() -> Any:
        return zstd.ZstdDecompressor(options=limits)

    return _frames("zstd", ZSTD_MAGIC, reader, (zstd.ZstdError,), view, bytes_max)


def _frames(
    name: str,
    magic: bytes,
    reader_of: Callable[[], Any],
    errors: tuple[type[Exception], ...],
    view: memoryview,
    bytes_max: int,
) -> bytes:
    """Read frame after frame, each by a new reader of the standard library's shape.

    A reader copies what it was given and did not use. So the first frame gets all, being the only
    one as a rule; a later one gets doubling pieces, or many tiny frames would be copied as often.
    """
    parts: list[bytes] = []
    total = at = 0
    step = len(view)
    while True:
        frame_at, reader = at, reader_of()
        while not reader.eof:
            if at == len(view):
                raise _truncated(name, frame_at)
            piece = view[at : at + step]
            try:
                part = reader.decompress(piece, bytes_max - total + 1)
            except errors as error:
                raise _corrupt(name, error, frame_at) from None
            at += len(piece) - len(reader.unused_data)
            step *= 2
            total += len(part)
            if total > bytes_max:
                raise _bomb(name, bytes_max, frame_at)
            parts.append(part)
        if at == len(view):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if view[at : at + len(magic)] != magic:
            raise _trailing(name, len(view) - at, at)
        step = LATER_FRAME_STEP_BYTES


# lz4


def _lz4(data: Buffer, level: int | None) -> bytes:
    frame = _library("lz4.frame", "lz4")
    compressed: bytes = frame.compress(
        data,
        compression_level=level or 0,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Kafka refuses blocks that depend on those before.
        store_size=False,
    )
    return compressed


def _unlz4(view: memoryview, bytes_max: int) -> bytes:
    """Read one frame. The reader allocates its whole limit, so the first limit is small.

    Frames of dependent blocks are read, which Kafka's reader does not do.
    """
    reader = _library("lz4.frame", "lz4").LZ4FrameDecompressor()
    parts: list[bytes] = []
    total = 0
    source: Buffer = view
    output_max = max(4 * len(view), LZ4_FIRST_OUTPUT_BYTES_MIN)
    while not reader.eof:
        output_max = min(output_max, bytes_max - total + 1)
        try:
            part = reader.decompress(source, output_max)
        except RuntimeError as error:
            raise _corrupt("lz4", error, 0) from None
        total += len(part)
        if total > bytes_max:
            raise _bomb("lz4", bytes_max, 0)
        if len(part) < output_max and not reader.eof:
            raise _truncated("lz4", 0)
        parts.append(part)
        source = b""  # The reader keeps the rest of the input.
        output_max *= 2
    if reader.unused_data:
        count = len(reader.unused_data)
        raise _trailing("lz4", count, len(view) - count)
    return parts[0] if len(parts) == 1 else b"".join(parts)


# snappy


def _xerial(view: memoryview) -> bytes:
    raw = _library("cramjam", "cramjam").snappy.compress_raw
    parts: list[Any] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = raw(view[start : start + XERIAL_BLOCK_BYTES])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(view: memoryview, bytes_max: int) -> bytes:
    cramjam = _library("cramjam", "cramjam")
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC[: len(view)]:
        return bytes(_raw_snappy(cramjam, view, 0, 0, bytes_max))
    if len(view) < len(XERIAL_HEADER):
        raise _truncated("snappy's header", 0)
    parts: list[Any] = []
    total, at = 0, len(XERIAL_HEADER)
    while at < len(view):
        if at + 4 > len(view):
            raise _truncated("the length of a snappy chunk", at)
        size = int.from_bytes(view[at : at + 4], "big", signed=True)
        if size < 0:
            detail = f"a snappy chunk of {size} bytes"
            raise CodecError(ErrorClass.NEGATIVE_LENGTH, detail, offset=at)
        if size > len(view) - at - 4:
            raise _truncated(f"a snappy chunk of {size} bytes", at)
        part = _raw_snappy(cramjam, view[at + 4 : at + 4 + size], at + 4, total, bytes_max)
        total += len(part)
        parts.append(part)
        at += 4 + size
    return b"".join(parts)


def _raw_snappy(cramjam: Any, block: memoryview, at: int, total: int, bytes_max: int) -> Any:
    """Read one raw block, once the size that it claims is believable and allowed.

    The block starts with that size, a varint; the library allocates as much.
    """
    claimed = shift = 0
    for byte in block[:5]:
        claimed |= (byte & 0x7F) << shift
        if byte & 0x80 == 0:
            break
        shift += 7
    if claimed > SNAPPY_RATIO_MAX * len(block):
        raise _corrupt("snappy", f"{len(block)} bytes cannot become {claimed}", at)
    if total + claimed > bytes_max:
        raise _bomb("snappy", bytes_max, at)
    try:
        return cramjam.snappy.decompress_raw(block)
    except cramjam.DecompressionError as error:
        raise _corrupt("snappy", error, at) from None
