"""The five compressions: both ways with Apache Kafka's streams and aiokafka's, bombs, damage."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import compression
from kraftspec.fastpath.compression import (
    LEVELS,
    RATIO_FREE_BYTES,
    RATIO_MAX,
    XERIAL_HEADER,
    MissingCompressionError,
    compress,
    decompress,
)
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import Compression

aiokafka = importlib.import_module("aiokafka.codec")  # It has no types.
HERE = Path(__file__).parent
CODECS = list(Compression)[1:]
MIB = 1 << 20
# It depends on the libraries that its streams wrap, with their versions.
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kraftspec</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>4.3.1</version>
</dependency></dependencies></project>"""
MAVEN = ("mvn", "-q", "-B", "dependency:copy-dependencies")
JAVA_TIMEOUT_S = 900
DAMAGED_PER_CODEC = 2_000


def text(size: int) -> bytes:
    """Words: about three times as long as they are compressed."""
    random = Random(size)
    words = [random.randbytes(6).hex().encode() for _ in range(500)]
    return b" ".join(random.choices(words, k=size // 13 + 2))[:size]


PLAIN = {
    "empty": b"",
    "one": b"a",
    "text": text(1_000),
    "block": text(32 << 10),
    "blocks": text(200_000),
    "noise": Random(1).randbytes(70_000),
    "equal": b"equal record " * 20_000,
}


def verdict(codec: int, data: bytes | bytearray) -> ErrorClass | bytes:
    """Return the content of ``data``, or the error, with an offset inside ``data``."""
    try:
        return decompress(codec, data)
    except CodecError as error:
        offset = error.offset
        error_class = error.error_class
    assert offset is not None
    assert 0 <= offset <= len(data)
    return error_class


def refused(codec: int, data: bytes, **limits: int) -> tuple[ErrorClass, int | None]:
    with pytest.raises(CodecError) as error:
        decompress(codec, data, **limits)
    return error.value.error_class, error.value.offset


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("name", PLAIN)
def test_what_goes_in_comes_out(codec: Compression, name: str) -> None:
    data = PLAIN[name]
    packed = compress(codec, data)
    assert type(packed) is bytes
    assert decompress(codec, packed) == data
    # Any buffer will do: an mmap or a slice of a segment is one.
    again = compress(codec, memoryview(bytearray(data)))
    assert decompress(codec, again) == data
    assert codec is Compression.GZIP or again == packed  # isal's bytes are not always the same.
    assert decompress(codec, memoryview(bytearray(packed))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_ten_megabytes(codec: Compression) -> None:
    data = text(MIB) * 5 + Random(2).randbytes(MIB) * 5
    packed = compress(codec, data)
    assert len(packed) < len(data)
    assert decompress(codec, packed) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_levels_are_those_of_kafka(codec: Compression) -> None:
    levels = LEVELS[codec]
    for level in {levels[0], -1, 1, 3, levels[-1]} & set(levels):
        assert decompress(codec, compress(codec, PLAIN["text"], level)) == PLAIN["text"]
    fast, small = (compress(codec, PLAIN["blocks"], level) for level in (1, levels[-1]))
    assert len(small) < len(fast)
    for level in (levels[0] - 1, levels[-1] + 1):
        with pytest.raises(ValueError, match="no compression level"):
            compress(codec, b"", level)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_what_has_no_levels_takes_none(codec: Compression) -> None:
    with pytest.raises(ValueError, match="has no compression level 1"):
        compress(codec, b"", 1)


# What the bytes look like.


def test_lz4_frames_are_of_independent_64_kib_blocks_and_no_sizes() -> None:
    # FLG: version 1, independent blocks. BD: 64 KiB. 0x82 is the byte of xxh32 that these two
    # have, as each lz4 batch of Kafka starts; Kafka before magic 2 had it wrong.
    for data in PLAIN.values():
        assert compress(Compression.LZ4, data)[:7] == bytes.fromhex("04224d18 6040 82")


def test_snappy_is_in_chunks_of_32_kib() -> None:
    packed = compress(Compression.SNAPPY, PLAIN["noise"])
    assert packed[:16] == b"\x82SNAPPY\0" + bytes.fromhex("00000001 00000001")
    sizes, at = [], 16
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        sizes.append(len(decompress(Compression.SNAPPY, packed[at + 4 : at + 4 + size])))
        at += 4 + size
    assert sizes == [32 << 10, 32 << 10, 70_000 - (64 << 10)]


def test_a_zstd_frame_may_lack_its_size_and_be_one_of_many() -> None:
    zstd = compression._zstd()
    stream = zstd.ZstdCompressor(level=22)  # With the largest window that Kafka's levels have.
    packed = (stream.compress(PLAIN["text"], stream.FLUSH_BLOCK) + stream.flush()) * 3
    assert zstd.get_frame_info(packed).decompressed_size is None
    assert decompress(Compression.ZSTD, packed) == PLAIN["text"] * 3


def test_gzip_may_be_of_many_members() -> None:
    many = [compress(Compression.GZIP, str(number).encode()) for number in range(20_000)]
    plain = "".join(map(str, range(20_000))).encode()
    assert decompress(Compression.GZIP, b"".join(many)) == plain
    large = compress(Compression.GZIP, PLAIN["noise"])
    assert decompress(Compression.GZIP, large * 3) == PLAIN["noise"] * 3


# Peers.


AIOKAFKA = {
    Compression.GZIP: (aiokafka.gzip_encode, aiokafka.gzip_decode),
    Compression.SNAPPY: (aiokafka.snappy_encode, aiokafka.snappy_decode),
    Compression.LZ4: (aiokafka.lz4_encode, aiokafka.lz4_decode),
    Compression.ZSTD: (aiokafka.zstd_encode, aiokafka.zstd_decode),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", PLAIN)
def test_both_ways_with_aiokafka(codec: Compression, name: str) -> None:
    data = PLAIN[name]
    encode, decode = AIOKAFKA[codec]
    assert decompress(codec, bytes(encode(data))) == data
    if data or codec is not Compression.SNAPPY:  # Its reader takes a mere header for a block.
        assert bytes(decode(compress(codec, data))) == data


def test_a_raw_snappy_block_as_librdkafka_writes_it() -> None:
    # 11 bytes: a literal of three, then a copy of eight from three back.
    raw = bytes.fromhex("0b 08 616263 1103")
    assert decompress(Compression.SNAPPY, raw) == b"abcabcabcab"


class Kafka:
    """Commands for one process of ``CompressionOracle``, which answers them in order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lines: list[str] = []

    def send(self, command: str, data: bytes) -> Path:
        """Note ``command`` about ``data``; the path returned has the answer after ``run``."""
        source = self.directory / f"{len(self.lines)}.in"
        source.write_bytes(data)
        answer = source.with_suffix(".out")
        self.lines.append(f"{command} {source} {answer}")
        return answer

    def run(self) -> list[str]:
        class_path = f"{published(self.directory)}/*"
        done = subprocess.run(
            [
                "java",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                class_path,
                str(HERE / "CompressionOracle.java"),
            ],
            input="\n".join(self.lines),
            capture_output=True,
            text=True,
            timeout=JAVA_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        verdicts = done.stdout.splitlines()
        assert len(verdicts) == len(self.lines)
        return verdicts


def published(directory: Path) -> Path:
    """Return a directory with the jars, which Maven fetches once."""
    pom, jars = directory / "pom.xml", directory / "jars"
    pom.write_text(POM, "utf-8")
    done = subprocess.run(
        [*MAVEN, "-f", str(pom), f"-DoutputDirectory={jars}"],
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return jars


# Bytes that Kafka's readers and ours do not judge alike, and why.
JUDGED = {
    "gzip, trailing": (Compression.GZIP, compress(Compression.GZIP, b"abc") + b"xyz", "ok"),
    "lz4, trailing": (Compression.LZ4, compress(Compression.LZ4, b"abc") + b"xyz", "ok"),
    "snappy, a length cut": (
        Compression.SNAPPY,
        compress(Compression.SNAPPY, b"abc") + b"\0\0",
        "ok",
    ),
    "zstd, trailing": (Compression.ZSTD, compress(Compression.ZSTD, b"abc") + b"xyz", "refused"),
    "gzip, cut": (Compression.GZIP, compress(Compression.GZIP, b"abc")[:-1], "refused"),
    "lz4, cut": (Compression.LZ4, compress(Compression.LZ4, b"abc")[:-1], "refused"),
    "zstd, cut": (Compression.ZSTD, compress(Compression.ZSTD, b"abc")[:-1], "refused"),
}


@pytest.mark.kafka
def test_both_ways_with_the_streams_of_apache_kafka(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    written: list[tuple[Compression, bytes, Path]] = []
    read: list[tuple[bytes, Path]] = []
    for codec in CODECS:
        name = codec.name.lower()
        levels = sorted({1, 3, 9} & set(LEVELS.get(codec, ())))
        for data in [*PLAIN.values(), text(10 * MIB)]:
            written.append((codec, data, kafka.send(f"compress {name} -", data)))
            read.append((data, kafka.send(f"decompress {name}", compress(codec, data))))
        for level in levels:
            data = PLAIN["blocks"]
            written.append((codec, data, kafka.send(f"compress {name} {level}", data)))
            read.append((data, kafka.send(f"decompress {name}", compress(codec, data, level))))
    # Streams after one another, and the block without a header.
    members = compress(Compression.GZIP, b"abc") * 2
    read.append((b"abcabc", kafka.send("decompress gzip", members)))
    frames = compress(Compression.ZSTD, b"abc") * 2
    read.append((b"abcabc", kafka.send("decompress zstd", frames)))
    raw = bytes.fromhex("0b 08 616263 1103")
    read.append((b"abcabcabcab", kafka.send("decompress snappy", raw)))
    unusual = XERIAL_HEADER[:8] + bytes(8) + compress(Compression.SNAPPY, b"abc")[16:]
    assert decompress(Compression.SNAPPY, unusual) == b"abc"  # The versions are not looked at.
    read.append((b"abc", kafka.send("decompress snappy", unusual)))
    requested = len(kafka.lines)
    for codec, data, _ in JUDGED.values():
        kafka.send(f"decompress {codec.name.lower()}", data)
    verdicts = kafka.run()

    assert set(verdicts[:requested]) == {"ok"}
    for codec, data, path in written:
        assert decompress(codec, path.read_bytes()) == data, path
    for data, path in read:
        assert path.read_bytes() == data, path
    output = {
        name: line.split()[0] for name, line in zip(JUDGED, verdicts[requested:], strict=True)
    }
    assert output == {name: upstream for name, (_, _, upstream) in JUDGED.items()}, verdicts[
        requested:
    ]


@pytest.mark.parametrize("name", JUDGED)
def test_what_we_refuse_beside_apache_kafka(name: str) -> None:
    codec, data, _ = JUDGED[name]
    error_class, offset = refused(codec, data)
    if "trailing" in name:
        assert (error_class, offset) == (ErrorClass.TRAILING, len(data) - 3)
    else:
        assert error_class is ErrorClass.TRUNCATED


# Damage.


def test_a_compression_that_is_unknown() -> None:
    for number in (5, 6, 7):
        assert refused(number, b"") == (ErrorClass.UNKNOWN_COMPRESSION, None)
        with pytest.raises(CodecError, match=f"there is no compression {number}"):
            compress(number, b"")


@pytest.mark.parametrize("codec", CODECS)
def test_cut_anywhere_it_is_truncated(codec: Compression) -> None:
    packed = compress(codec, PLAIN["text"])
    for size in range(len(packed)):
        if codec is Compression.SNAPPY and size == len(XERIAL_HEADER):
            assert decompress(codec, packed[:size]) == b""  # Chunks may be none.
            continue
        error_class, offset = refused(codec, packed[:size])
        assert error_class is ErrorClass.TRUNCATED
        assert offset == (16 if codec is Compression.SNAPPY and size > 16 else 0)


@pytest.mark.parametrize("codec", CODECS)
def test_any_damage_is_a_codec_error_within_the_input(codec: Compression) -> None:
    random = Random(codec)
    sources = [compress(codec, PLAIN[name]) for name in ("empty", "one", "text")]
    seen: set[ErrorClass | bytes] = set()
    for _ in range(DAMAGED_PER_CODEC):
        data = bytearray(random.choice(sources))
        for _ in range(random.choice((1, 1, 2, 5))):
            data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, *data[:9]))
        if random.random() < 0.2:
            data += random.randbytes(random.randrange(1, 9))
        seen.add(verdict(codec, data))
    assert {ErrorClass.UNKNOWN_COMPRESSION, ErrorClass.TRUNCATED} <= seen


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.booleans())
def test_any_bytes_are_read_or_refused(codec: Compression, data: bytes, started: bool) -> None:
    if started:
        data = compress(codec, b"")[:10] + data
    verdict(codec, data)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_checksum_is_checked(codec: Compression) -> None:
    packed = bytearray(compress(codec, PLAIN["noise"]))
    if codec is Compression.LZ4:
        packed[6] ^= 1  # The header's: Kafka writes no other.
    elif codec is Compression.ZSTD:
        zstd = compression._zstd()
        options = {zstd.CompressionParameter.checksum_flag: 1}
        packed = bytearray(zstd.compress(PLAIN["noise"], options=options))
        packed[-1] ^= 1
    else:
        packed[-8] ^= 1
    assert refused(codec, bytes(packed)) == (ErrorClass.UNKNOWN_COMPRESSION, 0)


def test_a_negative_chunk_of_snappy() -> None:
    data = XERIAL_HEADER + b"\xff" * 4
    assert refused(Compression.SNAPPY, data) == (ErrorClass.NEGATIVE_LENGTH, 16)


# Bombs.


@pytest.mark.parametrize("codec", CODECS)
def test_the_size_is_limited_to_the_byte(codec: Compression) -> None:
    for data in (PLAIN["equal"], PLAIN["noise"]):
        packed = compress(codec, data)
        assert decompress(codec, packed, size_max=len(data)) == data
        error_class, _ = refused(codec, packed, size_max=len(data) - 1)
        assert error_class is ErrorClass.DECOMPRESSION_BOMB


def test_the_ratio_is_limited_to_the_byte() -> None:
    zstd = compression._zstd()
    packed = zstd.compress(bytes(64 * MIB))
    honest = zstd.compress(bytes(RATIO_FREE_BYTES))
    assert len(honest) * RATIO_MAX < RATIO_FREE_BYTES  # A ratio says nothing of small inputs.
    assert decompress(Compression.ZSTD, honest) == bytes(RATIO_FREE_BYTES)
    error_class, _ = refused(Compression.ZSTD, packed)
    assert error_class is ErrorClass.DECOMPRESSION_BOMB
    enough = -(-(64 * MIB - RATIO_FREE_BYTES) // len(packed))
    assert len(decompress(Compression.ZSTD, packed, ratio_max=enough)) == 64 * MIB
    assert refused(Compression.ZSTD, packed, ratio_max=enough - 1)[0] is error_class


# Prints the rise of this process's peak memory while a bomb was rejected.
BOMBS = """
import sys, zlib
from kraftspec.fastpath import compression
from kraftspec.fastpath.compression import CodecError, compress, decompress

MIB, name = 1 << 20, sys.argv[1]

def stream(writer, count=64):
    block = bytes(MIB)
    return b"".join(writer.compress(block) for _ in range(count)) + writer.flush()

zstd = compression._zstd()
codec, data = {
    "gzip": lambda: (1, stream(zlib.compressobj(9, wbits=31))),
    "gzip members": lambda: (1, compress(1, bytes(MIB)) * 64),
    "snappy": lambda: (2, compress(2, b"")[:16] + compress(2, bytes(32768))[16:] * 2048),
    "snappy, a false size": lambda: (2, b"\\xff\\xff\\xff\\xff\\x0f" + bytes(200)),
    "snappy, a raw block": lambda: (2, b"\\x80\\x80\\x80\\x40" + bytes(MIB * 7)),
    "lz4": lambda: (3, compress(3, b"")[:7] + compress(3, bytes(MIB))[7:-4] * 64 + bytes(4)),
    # Content size set to 2 GiB: the checksum of such a header is 0xc0.
    "lz4, a false size": lambda: (3, bytes.fromhex("04224d186840 0000008000000000 c0 00000000")),
    "zstd": lambda: (4, stream(zstd.ZstdCompressor())),
    "zstd frames": lambda: (4, zstd.compress(bytes(MIB)) * 64),
    # A window of 2 GiB, and a content size of as much.
    "zstd, a false size": lambda: (4, bytes.fromhex("28b52ffd a0 00000080 010000")),
}[name]()
for number in range(1, 5):  # Libraries are loaded, and have what they keep.
    decompress(number, compress(number, b"warm"))

def high_water():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def resident():
    return int(open("/proc/self/statm").read().split()[1]) << 12

open("/proc/self/clear_refs", "w").write("5")
before = resident()
try:
    decompress(codec, data, size_max=16 * MIB)
except CodecError as error:
    print(error.error_class, high_water() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.rss
@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("gzip", "decompression_bomb"),
        ("gzip members", "decompression_bomb"),
        ("snappy", "decompression_bomb"),
        ("snappy, a false size", "unknown_compression"),
        ("snappy, a raw block", "decompression_bomb"),
        ("lz4", "decompression_bomb"),
        ("lz4, a false size", "unknown_compression"),
        ("zstd", "decompression_bomb"),
        ("zstd frames", "decompression_bomb"),
        ("zstd, a false size", "unknown_compression"),
    ],
)
def test_a_bomb_takes_no_more_than_twice_the_limit(name: str, error_class: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMBS, name], capture_output=True, text=True, check=False
    )
    output, rise = done.stdout.split()
    assert output == error_class, done
    assert int(rise) <= (2 * 16 + 4) * MIB if output == "decompression_bomb" else 1 * MIB


# Libraries.


def halted(name: str, code: str) -> str:
    """Run ``code`` where module ``name`` cannot be imported; what it printed."""
    start = f"import sys; sys.modules[{name!r}] = None\n"
    start += "from kraftspec.fastpath.compression import *\n"
    command = [sys.executable, "-W", "error", "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [(2, "cramjam", "cramjam"), (3, "lz4.frame", "lz4"), (4, "backports.zstd", "backports.zstd")],
)
def test_a_missing_package_is_named_with_the_command(codec: int, module: str, package: str) -> None:
    if package == "backports.zstd" and sys.version_info >= (3, 14):
        module = "compression.zstd"
    for call in (f"compress({codec}, b'a')", f"decompress({codec}, b'a')"):
        code = (
            f"try: {call}\nexcept MissingCompressionError as error: print(error.name, '|', error)"
        )
        assert halted(module, code) == (
            f"{package} | the package {package} is not installed: "
            "pip install 'kraftspec[compression]'"
        )
    assert issubclass(MissingCompressionError, ImportError)


def test_gzip_works_without_isal() -> None:
    code = "print(compress(1, b'abc').hex(), decompress(1, compress(1, b'abc')))"
    hexed, plain = halted("isal", code).split()
    assert plain == "b'abc'"
    assert zlib.decompress(bytes.fromhex(hexed), 31) == b"abc"


def test_isal_and_zlib_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one refuses the other refuses: but isal ignores header flags that are reserved."""
    isal = compression._deflate()
    assert isal[0] is not zlib
    random = Random(3)
    sources = [compress(1, PLAIN[name], level) for name in ("text", "one") for level in (None, 9)]
    refusals = 0
    for _ in range(DAMAGED_PER_CODEC):
        data = bytearray(random.choice(sources))
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        if random.random() < 0.3:
            data += random.choice(sources)
        data[3] &= 0x1F
        results: list[bytes | None] = []
        for reader in (isal, (zlib, (zlib.error,))):
            monkeypatch.setattr(compression, "_deflate", lambda reader=reader: reader)
            result = verdict(1, data)
            results.append(None if isinstance(result, ErrorClass) else result)
        assert results[0] == results[1], data.hex()
        refusals += results[0] is None
    assert 0 < refusals < DAMAGED_PER_CODEC


def streamed(data: bytes, **options: Any) -> bytes:
    """A zstd frame as Kafka's streams write it: it does not say how much it holds."""
    stream = zstandard.ZstdCompressor(**options).compressobj()
    return bytes(stream.compress(data) + stream.flush())


ZSTD_FRAMES = {
    "sized": lambda: compress(4, PLAIN["text"]),
    "streamed": lambda: streamed(PLAIN["blocks"]),
    "with a checksum": lambda: streamed(PLAIN["text"], write_checksum=True),
    "of a ratio of 1,000": lambda: streamed(PLAIN["equal"] * 4),
    "empty": lambda: compress(4, b""),
    "streamed, empty": lambda: streamed(b""),
    "two": lambda: streamed(PLAIN["text"]) + compress(4, PLAIN["one"]),
    "a skippable one": lambda: bytes.fromhex("502a4d18 03000000") + b"abc",
    "one and a skippable one": lambda: streamed(b"a") + bytes.fromhex("502a4d18 00000000"),
    "one and bytes": lambda: compress(4, PLAIN["text"]) + b"xyz",
    "empty and bytes": lambda: compress(4, b"") + b"xyz",
    "of a large window": lambda: streamed(PLAIN["text"], level=22),
    "of many empty blocks": lambda: (
        bytes.fromhex("28b52ffd 00 58") + bytes(3) * 2_000 + bytes.fromhex("010000")
    ),
    "of blocks of one byte": lambda: bytes.fromhex("28b52ffd 00 58 e20300 61 e30300 62"),
    "of a window that is refused": lambda: bytes.fromhex("28b52ffd 00 98 010000"),
}


@pytest.mark.parametrize("name", ZSTD_FRAMES)
def test_a_kept_context_reads_zstd_as_a_new_one_does(name: str) -> None:
    """Bytes, class of the error and its offset, on each frame, cut, longer, and damaged."""
    whole = ZSTD_FRAMES[name]()
    random = Random(name)
    inputs = [whole, whole * 2, whole + b"\0", *(whole[:size] for size in range(1, 40))]
    for _ in range(DAMAGED_PER_CODEC // 4):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 1, 3))):
            damaged[random.randrange(min(len(whole), 200))] ^= 1 << random.randrange(8)
        inputs.append(bytes(damaged))
    quick = 0
    for data in inputs:
        for bytes_max in (RATIO_FREE_BYTES, len(PLAIN["text"])):
            view = memoryview(data)
            actual = compression._usual_zstd(view, bytes_max)
            if actual is not None:
                same = actual == compression._unzstd(view, bytes_max)
                assert same, data[:40].hex()
                quick += 1
    usual = {"sized", "streamed", "with a checksum", "streamed, empty", "of blocks of one byte"}
    assert (quick > 0) or name not in usual
    assert name in usual or compression._usual_zstd(memoryview(whole), RATIO_FREE_BYTES) is None


def test_each_thread_has_a_context_of_its_own() -> None:
    plain = [text(size) for size in range(20_000, 20_050)]
    frames = [streamed(data) for data in plain]
    wrong: list[int] = []

    def read(step: int) -> None:
        for at in range(0, 2_000 * step, step):
            which = at % len(frames)
            if decompress(4, frames[which]) != plain[which]:
                wrong.append(which)

    threads = [threading.Thread(target=read, args=(step,)) for step in (1, 3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_zstd_works_without_zstandard() -> None:
    code = "print(decompress(4, compress(4, b'abc')))"
    assert halted("zstandard", code) == "b'abc'"


def test_no_library_is_loaded_before_it_is_needed() -> None:
    libraries = {"isal", "cramjam", "lz4", "backports.zstd", "compression.zstd", "zstandard"}
    code = f"import sys, kraftspec.fastpath.compression\nprint(*{libraries} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
