"""``kraftspec dump-log`` beside Kafka's DumpLogSegments: the same lines."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fastpath.metadata_records import kinds, random_record
from tests.reference.kafka_tools import DUMP, KafkaTools, Said, ours

from kraftspec.fastpath.batch_writer import control_record_key, encode_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import ClientQuotaRecord, UnregisterControllerRecord

REAL = Path(__file__).parents[2] / "pipeline" / "data" / "metadata"
OPTIONS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--cluster-metadata-decoder",),
    ("--cluster-metadata-decoder", "--skip-record-metadata"),
    ("--print-data-log", "--skip-record-metadata"),
)
SEGMENT = f"{0:020d}.log"

pytestmark = pytest.mark.kafka


def same(kafka: KafkaTools, *arguments: str) -> Said:
    """Run both; the lines are the same, and Kafka's complaints are among ours."""
    theirs, done = kafka.run(DUMP, *arguments), ours("dump-log", *arguments)
    assert done.out == theirs.out, arguments
    assert theirs.thrown is None
    # Kafka's complaints come after all files, ours after each, and more of them.
    assert set(theirs.err.splitlines()) <= set(done.err.splitlines())
    return done


@pytest.mark.parametrize("name", sorted(path.name for path in REAL.glob("0*")))
def test_what_real_controllers_wrote(name: str, kafka: KafkaTools) -> None:
    for options in OPTIONS:
        assert same(kafka, "--files", str(REAL / name), *options).code == 0


def batches() -> list[bytes]:
    """Data and control batches of every shape; with keys, headers, transactions, compression."""
    marker: dict[str, Any] = {
        "keys": [control_record_key(ControlRecordType.COMMIT)], "producer_id": 77,
        "producer_epoch": 2, "base_sequence": -1, "transactional": True, "control": True,
    }  # fmt: skip
    abort = marker | {"keys": [control_record_key(ControlRecordType.ABORT)]}
    headers = [[("h", b"x"), ("g", None)], [], []]
    rows: list[tuple[list[bytes | None], dict[str, Any]]] = [
        ([b"v1", None, b"\xff\xfe"], {"keys": [b"k1", b"", None], "headers": headers}),
        ([b"v4"], {"producer_id": 77, "producer_epoch": 2, "base_sequence": 5}),
        ([b"v", b"w"], {
            "producer_id": 7, "producer_epoch": 2, "base_sequence": (1 << 31) - 1,
            "transactional": True,
        }),
        ([b"\0\0\0\0\0\7"], marker),
        ([b"\0\0\0\0\0\7"], abort),
        ([b"a" * 30, b"b" * 30], {"compression": 1}),
        ([b"a" * 30, b"b" * 30], {"compression": 4}),
        ([b"c", b"d"], {"timestamp_type": 1, "log_append_time": 2_000}),
        ([b"e"], {"keys": [control_record_key(99)], "control": True}),
    ]  # fmt: skip
    encoded: list[bytes] = []
    offset = 0
    for values, more in rows:
        options: dict[str, Any] = {
            "base_offset": offset,
            "partition_leader_epoch": 3,
            "timestamps": 1_000 + offset,
        }
        encoded.append(encode_batch(values, **(options | more)))
        offset += len(values)
    horizon = bytearray(encode_batch([b"x"], timestamps=5, base_offset=offset))
    horizon[21:23] = struct.pack(">h", 0x40)
    horizon[27:35] = struct.pack(">q", 99)
    horizon[17:21] = struct.pack(">I", crc32c(bytes(horizon[21:])))
    return [*encoded, bytes(horizon)]


def test_batches_of_every_shape(kafka: KafkaTools, tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(b"".join(batches()))
    for options in OPTIONS:
        if "--cluster-metadata-decoder" in options:
            theirs, done = kafka.run(DUMP, "--files", str(path), *options), None
            done = ours("dump-log", "--files", str(path), *options)
            assert done.out == theirs.out
            assert done.code == 1  # These are no metadata records, and Kafka goes on, too.
        else:
            assert same(kafka, "--files", str(path), *options).code == 0
    for limit in (0, 96, 97, 98, 500, 10_000):
        same(kafka, "--files", str(path), "--max-bytes", str(limit), "--print-data-log")


def test_every_metadata_record(kafka: KafkaTools, tmp_path: Path) -> None:
    random = Random(5)
    values = [
        random_record(random, cls, version, ascii=False, unknown_tags=False)
        for cls, version in kinds()
        if cls is not UnregisterControllerRecord  # Kafka's tool is of 4.3, and this record of 4.4.
        for _ in range(20)
    ]
    numbers = (0.0, -0.0, 1.0, 1e7, 9_999_999.5, 0.001, 1e-4, 1.5e300, 123456789.123, 1 / 3, -1e-9)
    for number in (*numbers, float("nan"), float("inf"), float("-inf")):
        quota = ClientQuotaRecord(key='\x1f\x01"\\\n\b\f/\x7f\u2028é', value=number)
        values.append(bytes([1, quota.API_KEY, 0]) + quota.encode(0))
    path = tmp_path / SEGMENT
    path.write_bytes(
        b"".join(
            encode_batch([value], timestamps=at, base_offset=at) for at, value in enumerate(values)
        )
    )
    assert same(kafka, "--files", str(path), "--cluster-metadata-decoder").code == 0


def bad_values() -> Iterator[bytes | None]:
    good = b"\x01\x0c\x00\x02x\x00\x00\x00"
    yield from (None, b"", b"\x01", b"\x01\x0c", b"\x01\x0c\x00", b"\x01\x63\x00", b"\x01\x0c\x09")
    yield from (good + b"zz", good[:-1], b"\x01" + b"\xff" * 6, b"\x01\x0c" + b"\xff" * 6)
    yield from (b"\xff" * 6, b"\x02\x0c\x00", b"text")


def test_values_that_are_no_metadata(kafka: KafkaTools, tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(encode_batch(list(bad_values()), timestamps=1))
    options = ("--cluster-metadata-decoder", "--files", str(path))
    done = same(kafka, *options)
    assert done.code == 1
    assert done.err.count(f"{path}: byte 0: ") == len(list(bad_values()))


def damaged() -> dict[str, tuple[bytes, int]]:
    """Kinds of damage that Kafka's tool survives, and how many problems ours tells."""
    several = batches()
    data = b"".join(several)
    second = len(several[0])
    flipped = bytearray(data)
    flipped[second - 3] ^= 1
    return {
        "a bit of the first batch": (bytes(flipped), 1),
        "cut": (data[:-5], 1),
        "two bytes more": (data + b"\0\1", 1),
        "rubbish": (data + b"x" * 40, 1),
        "nothing": (b"", 0),
        "a batch missing": (several[0] + several[2], 0),
        "the order": (several[3] + several[0], 0),
    }


@pytest.mark.parametrize("name", damaged())
def test_damage_that_kafka_survives(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    data, problems = damaged()[name]
    path = tmp_path / SEGMENT
    path.write_bytes(data)
    for options in OPTIONS[:3]:
        done = same(kafka, "--files", str(path), *options)
        assert done.err.count(f"{path}: byte ") == problems
        assert done.code == (1 if problems else 0)


def index(*entries: int) -> bytes:
    return struct.pack(f">{len(entries)}i", *entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def side_files() -> dict[str, tuple[str, bytes]]:
    several = batches()
    ends = [sum(map(len, several[:at])) for at in range(len(several))]
    aborted = struct.pack(">hqqqq", 0, 77, 3, 5, 6)
    return {
        "index": (".index", index(3, ends[1], 5, ends[2])),
        "index mismatch": (".index", index(3, ends[1], 6, ends[2])),
        "index backwards": (".index", index(4, ends[1], 2, ends[1])),
        "index of zeros": (".index", bytes(64)),
        "index, zeros ahead": (".index", index(3, ends[1]) + bytes(64)),
        "index cut": (".index", b"abc"),
        "index empty": (".index", b""),
        "times": (".timeindex", times((1_000, 2), (1_003, 3))),
        "times mismatch": (".timeindex", times((1_000, 2), (1_002, 3))),
        "times backwards": (".timeindex", times((1_003, 3), (1_000, 2))),
        "times in a batch": (".timeindex", times((1_000, 1), (1_003, 3))),
        "times beyond": (".timeindex", times((1_000, 2), (2_000, 900))),
        "times, zeros ahead": (".timeindex", times((1_000, 2)) + bytes(24)),
        "times of zeros": (".timeindex", bytes(48)),
        "times empty": (".timeindex", b""),
        "aborted": (".txnindex", aborted * 2),
        "aborted, none": (".txnindex", b""),
    }


@pytest.mark.parametrize("name", side_files())
def test_indexes(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    suffix, data = side_files()[name]
    (tmp_path / SEGMENT).write_bytes(b"".join(batches()))
    (tmp_path / SEGMENT.replace(".log", ".index")).write_bytes(index(3, len(batches()[0])))
    path = tmp_path / SEGMENT.replace(".log", suffix)
    path.write_bytes(data)
    for options in ((), ("--verify-index-only",)):
        if name.endswith("of zeros"):  # Kafka's complains of what a live node has not written yet.
            done = ours("dump-log", "--files", str(path), *options)
            assert done.out == kafka.run(DUMP, "--files", str(path), *options).out
        else:
            done = same(kafka, "--files", str(path), *options)
        is_wrong = name.endswith(("mismatch", "backwards", "in a batch", "beyond"))
        assert done.code == (1 if is_wrong else 0), done.err
    theirs = kafka.run(DUMP, "--files", str(path), "--index-sanity-check")
    done = ours("dump-log", "--files", str(path), "--index-sanity-check")
    assert (done.code, done.out) == (theirs.code, theirs.out) or name == "index cut"
    assert theirs.refusal in done.err


def test_producers(kafka: KafkaTools, tmp_path: Path) -> None:
    path = tmp_path / f"{5:020d}.snapshot"
    entries = struct.pack(">qhiqiqiq", 77, 2, 5, 3, 2, 1_000, 9, 4)
    entries += struct.pack(">qhiqiqiq", 78, 2, -1, -1, 0, -1, -1, -1)
    body = struct.pack(">i", 2) + entries
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    assert same(kafka, "--files", str(path)).code == 0
    path.write_bytes(struct.pack(">hI", 1, 1) + body)
    assert same(kafka, "--files", str(path)).code == 1
    path.write_bytes(b"xx")
    assert same(kafka, "--files", str(path)).code == 1


def test_several_files_and_unknown_ones(kafka: KafkaTools, tmp_path: Path) -> None:
    for path in REAL.glob("*.log"):
        shutil.copy(path, tmp_path)
    (tmp_path / "notes.txt").write_text("x", "utf-8")
    names = [str(path) for path in sorted(tmp_path.iterdir())]
    done = same(kafka, "--files", ",".join(names), "--cluster-metadata-decoder")
    assert f"Ignoring unknown file {tmp_path}/notes.txt" in done.err
    # Names beside --files, and a directory, are ours.
    assert ours("dump-log", "--cluster-metadata-decoder", *names).out == done.out
    assert ours("dump-log", "--cluster-metadata-decoder", str(tmp_path)).out == done.out


def test_wrong_usage_ends_as_kafkas_does(kafka: KafkaTools) -> None:
    segment = str(REAL / SEGMENT)
    for arguments in ((), ("--bogus",), ("--files", segment, "--max-bytes", "x"), ("--files",)):
        theirs, done = kafka.run(DUMP, *arguments), ours("dump-log", *arguments)
        assert (done.code, theirs.code) == (1, 1)
        assert done.err
    assert ours("dump-log", "--version").out == kafka.run(DUMP, "--version").out
    theirs = kafka.run(DUMP, "--files", f"/there/is/no/{SEGMENT}")
    done = ours("dump-log", "--files", f"/there/is/no/{SEGMENT}")
    assert (done.code, theirs.code) == (1, 1)
    assert done.err == f"Error: /there/is/no/{SEGMENT}: No such file or directory\n"


def test_a_name_that_was_mistyped_is_no_success(kafka: KafkaTools, tmp_path: Path) -> None:
    """Kafka's tool takes it for a file of a kind that it does not know."""
    missing = str(tmp_path / "nofile")
    theirs = kafka.run(DUMP, "--files", missing)
    assert (theirs.code, f"Ignoring unknown file {missing}" in theirs.err) == (0, True)
    for arguments in (("--files", missing), (str(REAL / SEGMENT), missing), (f"{missing}/log",)):
        done = ours("dump-log", *arguments)
        error = f"Error: {arguments[-1]}: No such file or directory\n"
        assert (done.code, done.out, done.err) == (1, "", error)
