"""Nothing is lost in silence: every batch is out, or lies within reported damage."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError
from kraftspec.pipeline import DamagedLogError, Report, discover, plan_splits, read_split, scan

from .segment_files import batch, golden_batches, write_segment

MUTANTS = 700
CORPUS_BATCHES = 24
WINDOWS = (61, 200, 1_000, 0)  # Bytes; 0 is the usual window, which holds all of it.
COLUMNS = ("position", "key", "value", "headers", "_error", "_corrupt_record")

Row = tuple[Any, ...]


def read(path: Path, **options: Any) -> tuple[dict[int, list[Row]], list[dict[str, Any]], Report]:
    """Scan a file; return the rows of each batch by its position, the rows of damage, the report.

    The values are compared without offsets, epochs and times: no checksum covers the first two.
    """
    report = Report()
    rows: dict[int, list[Row]] = {}
    damage = []
    for record_batch in scan(path, report=report, **{"columns": COLUMNS, **options}):
        for row in record_batch.to_pylist():
            if row.get("_error"):
                damage.append(row)
            else:
                headers = tuple((each["key"], each["value"]) for each in row["headers"])
                rows.setdefault(row["position"], []).append((row["key"], row["value"], headers))
    return rows, damage, report


def by_twin(data: bytes) -> list[Row] | None:
    """What the reader of objects, which has no windows and no columns, makes of one batch."""
    try:
        records = decode_batch(data)
    except CodecError:
        return None
    return [
        (one.key, one.value, tuple((header.key, header.value) for header in one.headers))
        for one in records
    ]


@cache
def with_records() -> tuple[bytes, ...]:
    return tuple(one for one in golden_batches() if by_twin(one))


def corpus(random: Random) -> list[bytes]:
    return random.sample(with_records(), CORPUS_BATCHES)


def refit(data: bytes) -> bytes:
    """Correct a batch's checksum, so that what is wrong with its records is met."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def flipped(random: Random, data: bytes) -> bytes:
    mutant = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        mutant[random.randrange(len(mutant))] ^= 1 << random.randrange(8)
    return bytes(mutant)


def overwritten(random: Random, data: bytes) -> bytes:
    at, size = random.randrange(len(data)), random.choice((1, 8, 64, 512))
    filling = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
    return (data[:at] + filling + data[at + size :])[: len(data)]


def with_length(random: Random, data: bytes, starts: list[int]) -> bytes:
    mutant = bytearray(data)
    length = random.choice((-1, 0, 1, 48, 49, 60, 1 << 20, (1 << 31) - 1, random.randrange(4096)))
    struct.pack_into(">i", mutant, random.choice(starts) + 8, length)
    return bytes(mutant)


def mutants(random: Random) -> Iterator[tuple[bytes, list[tuple[int, bytes]]]]:
    """Yield damaged files, and the batches of each as they were, with their positions in it."""
    for number in range(MUTANTS):
        batches = corpus(random)
        starts = [sum(map(len, batches[:at])) for at in range(len(batches))]
        data = b"".join(batches)
        where = list(zip(starts, batches, strict=True))
        match number % 6:
            case 0:
                yield flipped(random, data), where
            case 1:
                yield overwritten(random, data), where
            case 2:
                yield with_length(random, data, starts), where
            case 3:
                cut = random.randrange(len(data))
                yield data[:cut], [(at, one) for at, one in where if at < cut]
            case 4:  # Bytes are gone from the middle: what follows moves.
                at = random.randrange(len(data))
                gone = min(random.choice((1, 7, 100, 3_000)), len(data) - at)
                kept = [(start, one) for start, one in where if start + len(one) <= at]
                moved = [(start - gone, one) for start, one in where if start >= at + gone]
                yield data[:at] + data[at + gone :], kept + moved
            case _:  # Bytes that are none of the log's.
                at = random.randrange(len(data))
                extra = random.choice((random.randbytes(90), bytes(200), data[:50]))
                kept = [(start, one) for start, one in where if start + len(one) <= at]
                moved = [(start + len(extra), one) for start, one in where if start >= at]
                yield data[:at] + extra + data[at:], kept + moved


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        before = result.pop()[0] if result and start == result[-1][1] else start
        result.append((before, end))
    return result


@pytest.mark.soak
def test_every_batch_is_out_or_reported(tmp_path: Path) -> None:
    random = Random(20)
    path = write_segment(tmp_path / "t-0", [])
    classes: set[str] = set()
    out = reported = swallowed = 0
    for number, (data, batches) in enumerate(mutants(random)):
        path.write_bytes(data)
        rows, shown, report = read(path, window_bytes=WINDOWS[number % len(WINDOWS)])
        left_out = [(one.position, one.position + one.size) for one in report.damaged]
        left_out += [(one.position, one.position + one.size) for one in report.tails]
        for at, original in batches:
            if rows.get(at) == by_twin(original):
                out += 1
                continue
            end = min(at + len(original), len(data))
            assert any(a <= at and end <= b for a, b in merged(left_out)), (number, at, left_out)
            reported += 1
            swallowed += data[at : at + len(original)] == original
        # Every byte of the file is in a batch whose rows are out, or in what is reported, once.
        spans = [(at, at + 12 + struct.unpack_from(">i", data, at + 8)[0]) for at in rows]
        assert merged(spans + left_out) == ([(0, len(data))] if data else [])
        assert report.damaged_bytes == sum(one.size for one in report.damaged)
        assert report.rows == sum(map(len, rows.values()))
        for row, one in zip(shown, report.damaged, strict=True):
            assert row["_corrupt_record"] == data[one.position : one.position + one.size]
            assert row["position"] == row["_error"]["position"] == one.position
            assert row["_error"]["class"] == one.error_class
            assert one.position <= one.byte <= len(data)
        classes |= {str(one.error_class) for one in report.damaged}
    assert out > 15 * MUTANTS
    assert reported > MUTANTS // 2
    # A wrong length that leads to the start of a later batch is trusted: that is rare.
    assert swallowed < reported // 20
    assert {"truncated", "crc_mismatch", "bad_magic", "batch_length_mismatch"} <= classes


@pytest.mark.parametrize("with_index", [True, False])
def test_splits_of_damaged_files_lose_nothing(tmp_path: Path, with_index: bool) -> None:
    random = Random(22)
    path = write_segment(tmp_path / "t-0", [])
    parts = 0
    for number, (data, where) in zip(range(MUTANTS // 2), mutants(random), strict=False):
        path.write_bytes(data)
        if with_index:  # It knows where batches were; offsets are greater than any.
            starts = sorted({at for at, _ in where})
            entries = [struct.pack(">ii", (1 << 30) + at, at) for at in starts[1:]]
            path.with_suffix(".index").write_bytes(b"".join(entries))
        report, positions = Report(), []
        splits = plan_splits(discover(path), random.choice((300, 2_000)))
        for split in splits:
            for record_batch in read_split(split, ["position"], report=report):
                positions += record_batch["position"].to_pylist()
        assert positions == sorted(positions)
        spans = [(at, at + 12 + struct.unpack_from(">i", data, at + 8)[0]) for at in {*positions}]
        spans += [(one.position, one.position + one.size) for one in report.damaged]
        spans += [(one.position, one.position + one.size) for one in report.tails]
        assert merged(spans) == ([(0, len(data))] if data else []), number
        parts += sum(len(split.parts) for split in splits)
    assert parts > MUTANTS


def test_damage_below_a_good_checksum(tmp_path: Path) -> None:
    random = Random(21)
    path = write_segment(tmp_path / "t-0", [])
    classes: set[str] = set()
    for number in range(MUTANTS):
        batches = corpus(random)[:5]
        wrong = bytearray(batches[2])
        for _ in range(random.choice((1, 2))):
            at = random.randrange(21, len(wrong))
            filling = random.choice((b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\xff" * 11))
            wrong[at : at + len(filling)] = filling[: len(wrong) - at]
        batches[2] = refit(bytes(wrong))
        path.write_bytes(b"".join(batches))
        rows, _, report = read(path, window_bytes=WINDOWS[number % len(WINDOWS)])
        position = 0
        for one in batches:
            expected = by_twin(one)
            if expected is None:
                (damage,) = report.damaged
                assert (damage.position, damage.size) == (position, len(one))
                classes.add(str(damage.error_class))
            else:
                assert rows.get(position, []) == expected
            position += len(one)
        assert not report.tails
    assert {
        "varint_overflow", "varint_truncated", "record_count_mismatch", "length_exceeds_input",
        "offset_delta_disorder", "invalid_utf8", "negative_length", "unknown_compression",
    } <= classes  # fmt: skip


def test_a_tail_of_zeros_is_no_damage(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(0), bytes(5 << 20)])
    rows, shown, report = read(path)
    assert (len(rows), shown, report.damaged) == (1, [], [])
    (tail,) = report.tails
    assert (tail.file, tail.position, tail.size) == (str(path), len(batch(0)), 5 << 20)


def test_zeros_between_batches_are_damage(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(0), bytes(3 << 20), batch(3)])
    rows, _, report = read(path)
    assert sorted(rows) == [0, len(batch(0)) + (3 << 20)]
    assert [(one.position, one.size) for one in report.damaged] == [(len(batch(0)), 3 << 20)]


def test_a_torn_tail_says_so(tmp_path: Path) -> None:
    whole = batch(0)
    for cut, zeros in ((1, 0), (len(whole) // 2, 0), (20, 100)):
        path = write_segment(tmp_path / "t-0", [whole, batch(3)[:-cut], bytes(zeros)])
        _, _, report = read(path)
        (damage,) = report.damaged
        assert (damage.position, damage.verdict) == (len(whole), "torn")
        assert damage.position + damage.size == path.stat().st_size


def test_a_batch_larger_than_may_be_is_not_read(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(0), batch(3, 50, 1_000), batch(53)])
    rows, _, report = read(path, batch_bytes_max=10_000, window_bytes=4_000)
    assert len(rows) == 2
    assert [one.error_class for one in report.damaged] == ["length_too_long"]
    assert "10000" in report.damaged[0].detail


def test_a_decompression_bomb_is_damage(tmp_path: Path) -> None:
    bomb = batch(3, 1, 40 << 20, compression=4)
    assert len(bomb) < 1 << 14
    path = write_segment(tmp_path / "t-0", [batch(0), bomb, batch(4)])
    rows, _, report = read(path)
    assert len(rows) == 2
    assert [one.error_class for one in report.damaged] == ["decompression_bomb"]
    rows, _, report = read(path, ratio_max=100_000)
    assert (len(rows), report.damaged) == (3, [])


def test_what_is_shown_of_damage_is_bounded(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(0), b"\x07" * 5_000, batch(3)])
    _, (row,), _ = read(path, corrupt_bytes_max=100)
    assert row["_corrupt_record"] == b"\x07" * 100
    assert row["_error"]["size"] == 5_000


def damaged_file(directory: Path) -> Path:
    wrong = bytearray(batch(3))
    wrong[70] ^= 1
    return write_segment(directory / "t-0", [batch(0), bytes(wrong), batch(6)])


def test_what_is_dropped_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = damaged_file(tmp_path)
    with caplog.at_level(logging.WARNING, "kraftspec.pipeline"):
        rows, shown, report = read(path, mode="DROPMALFORMED", columns=COLUMNS[:4])
    assert (len(rows), shown) == (2, [])
    assert (report.dropped_regions, report.damaged[0].records) == (1, 3)
    assert f"{path}, byte {len(batch(0))}" in caplog.text
    assert "crc_mismatch" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "kraftspec.pipeline"):
        _, shown, report = read(path, columns=COLUMNS[:4])  # No column that could show it.
    assert (shown, report.dropped_regions) == ([], 1)
    assert caplog.text
    caplog.clear()
    read(path)
    assert not caplog.text


def test_failing_fast_names_file_byte_and_class(tmp_path: Path) -> None:
    path = damaged_file(tmp_path)
    with pytest.raises(DamagedLogError) as caught:
        read(path, mode="FAILFAST", columns=COLUMNS[:4])
    damage = caught.value.damaged
    assert (damage.file, damage.position) == (str(path), len(batch(0)))
    assert (damage.error_class, damage.byte) == ("crc_mismatch", len(batch(0)) + 17)
    assert all(part in str(caught.value) for part in (str(path), "crc_mismatch", "byte"))


def test_no_filter_takes_damage_away(tmp_path: Path) -> None:
    path = damaged_file(tmp_path)
    rows, shown, report = read(path, filters=[("offset", ">=", 7)])
    assert list(rows) == [2 * len(batch(0))]
    assert len(shown) == 1
    assert (report.rows, report.filtered_rows) == (2, 4)


def test_a_file_that_grew_since_it_was_listed(tmp_path: Path) -> None:
    whole = batch(0) + batch(3)
    path = write_segment(tmp_path / "t-0", [whole[:-5]])
    (split,) = plan_splits(discover(path))
    path.write_bytes(whole)
    report = Report()
    assert sum(each.num_rows for each in read_split(split, report=report)) == 3
    assert (report.damaged, [tail.position for tail in report.tails]) == ([], [len(batch(0))])


def test_a_file_that_was_cut_since_it_was_listed(tmp_path: Path) -> None:
    one = batch(0)
    path = write_segment(tmp_path / "t-0", [one, batch(3), batch(6)])
    (split,) = plan_splits(discover(path))
    path.write_bytes(path.read_bytes()[: 2 * len(one) - 10])
    report = Report()
    rows = [row for each in read_split(split, report=report) for row in each.to_pylist()]
    assert [row["offset"] for row in rows] == [0, 1, 2, None, None]
    assert sum(damage.size for damage in report.damaged) == 2 * len(one)
    assert "shorter" in rows[-1]["_error"]["detail"]


def test_a_file_that_retention_took(tmp_path: Path) -> None:
    gone = write_segment(tmp_path / "t-0", [batch(0)])
    write_segment(tmp_path / "t-0", [batch(3)], 3)
    splits = plan_splits(discover(tmp_path))
    gone.unlink()
    rows = [row for split in splits for each in read_split(split) for row in each.to_pylist()]
    assert [row["offset"] for row in rows] == [None, 3, 4, 5]
    assert rows[0]["_error"]["class"] == "gone"
    with pytest.raises(DamagedLogError, match="gone"):
        list(read_split(splits[0], mode="FAILFAST"))
