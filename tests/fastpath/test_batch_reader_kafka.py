"""What Apache Kafka's own reader makes of the same bytes: ours is stricter, and where is known."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kraftspec.conformance.adapters.registry import find
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.records import Record

from .segments import batch, by_aiokafka, record, refit, rows
from .test_batch_reader import DAMAGE

JAVA_TIMEOUT_S = 900
MUTANTS = 4_000
E = ErrorClass

# Damage that Kafka reads: the list in batch_reader's docstring.
KAFKA_READS = {
    "delta again", "delta negative", "delta past the last", "record length not minimal",
    "key length -2", "key length 33 bits", "header value -3", "header key not UTF-8",
    "timestamp 65 bits", "records in an empty batch", "record length cut", "compression 7",
}  # fmt: skip
STRICTER = {
    E.NON_MINIMAL_VARINT, E.VARINT_OVERFLOW, E.NEGATIVE_LENGTH, E.INVALID_UTF8,
    E.OFFSET_DELTA_DISORDER,
}  # fmt: skip


def kafka_reads(batches: list[bytes]) -> list[str]:
    """Ask ``RecordOracle`` about each; the classes are those of the conformance adapter."""
    command = find("kafka").command()
    class_path = command[command.index("-cp") + 1]
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path,
         str(Path(__file__).parent / "RecordOracle.java")],
        input="\n".join(data.hex() for data in batches),
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(batches)
    return answers


def text_of(records: list[Record]) -> str:
    """Write records as ``RecordOracle`` does."""

    def hexed(value: bytes | memoryview | None) -> str:
        return "-" if value is None else bytes(value).hex()

    return " ".join(
        ",".join(
            [str(one.offset), str(one.timestamp), hexed(one.key), hexed(one.value)]
            + [f"{header.key.encode().hex()}={hexed(header.value)}" for header in one.headers]
        )
        for one in records
    ) or "."  # fmt: skip


@pytest.mark.kafka
def test_kafka_reads_what_the_docstring_says() -> None:
    names = [name for name in DAMAGE if DAMAGE[name][0]]
    answers = dict(zip(names, kafka_reads([DAMAGE[name][0] for name in names]), strict=True))
    actual = {name for name, answer in answers.items() if not answer.startswith("refused")}
    assert actual == KAFKA_READS, {name: answers[name] for name in actual ^ KAFKA_READS}


@pytest.mark.kafka
def test_we_read_what_kafka_reads_but_for_what_no_kafka_writes() -> None:
    random, top = Random(3), (1 << 63) - 1
    value = [
        by_aiokafka(rows(50, headers=True)),
        batch(record(3) + record(1_000), 2, last_delta=5_000, base_offset=10),
        batch(record(0, timestamp_delta=top), 1, base_timestamp=top, base_offset=top),
        batch(record(0, timestamp_delta=9), 1, attributes=8 | 0x40, max_timestamp=77),
        batch(b"", 0, last_delta=5),
    ]
    seed = by_aiokafka(rows(4, headers=True))
    for _ in range(MUTANTS):
        changed = bytearray(seed)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(21, len(changed))
            changed[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
        value.append(refit(bytes(changed)))
    kinds: Counter[str] = Counter()
    for data, answer in zip(value, kafka_reads(value), strict=True):
        ours = ours_of(data)
        if answer.startswith("refused"):
            kinds["refused by Kafka"] += 1
            assert isinstance(ours, ErrorClass), data
        elif isinstance(ours, ErrorClass):
            kinds[ours] += 1
            # Kafka does not look behind the header of a batch of no records.
            assert ours in STRICTER or data[57:61] == bytes(4), (data, answer)
        else:
            kinds["read by both"] += 1
            assert ours == answer, data
    assert kinds["read by both"] > MUTANTS // 10
    assert kinds["refused by Kafka"] > MUTANTS // 10
    assert set(kinds) > STRICTER - {E.VARINT_OVERFLOW, E.NON_MINIMAL_VARINT}  # Rare by chance.


def ours_of(data: bytes) -> str | ErrorClass:
    """Return the ``text_of`` our records, or the error."""
    try:
        return text_of(decode_batch(data))
    except CodecError as error:
        return error.error_class
